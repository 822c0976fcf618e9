"""What a trained network says of every node, exactly and without dropout."""

from collections.abc import Sequence

import torch
from torch import Tensor

from pdnas.models import Network
from pdnas.runs import DataRecord, Predictions, Result
from pdnas.tasks import Graph, GraphTask
from pdnas.tasks.source import Source
from pdnas.tasks.splits import PARTS


@torch.no_grad()
def logits_of(network: Network, graphs: Sequence[Graph]) -> Tensor:
    """The logits of all nodes, graph after graph, ``[N, C]``; every graph is seen as a whole.

    Args:
        network: On the device of the graphs.
        graphs: Whose nodes.
    """
    network.eval()
    return torch.cat([network(graph.x, graph.adjacency) for graph in graphs])


def predict_task(result: Result, task: GraphTask) -> Predictions:
    """What the network of a result says of the graphs of a task.

    Args:
        result: With weights, wherever they are: they are copied to the task's device.
        task: What it was trained on; its split tells the nodes' parts.
    """
    device = task.graphs[0].y.device
    weights = {name: weight.to(device) for name, weight in result.model.state_dict().items()}
    logits = logits_of(result.with_weights(weights).model, task.graphs)
    counts = torch.tensor([graph.num_nodes for graph in task.graphs])
    return Predictions(
        logits=logits.float().cpu(),
        labels=torch.cat([graph.y for graph in task.graphs]).long().cpu(),
        part=_parts(task, counts),
        graph=torch.arange(len(counts)).repeat_interleave(counts),
        node_ids=task.source.node_ids,
    )


def record_of(source: Source) -> DataRecord:
    """What a result remembers of its data."""
    return DataRecord(
        kind=source.kind,
        sha256=source.sha256,
        normalize=source.normalize,
        undirected=source.undirected,
        feature_names=source.feature_names,
        means=source.means,
        deviations=source.deviations,
    )


def _parts(task: GraphTask, counts: Tensor) -> Tensor:
    """The number of each node's part, ``[N]``; 0 where it is in none."""
    is_node = task.split.unit == "node"
    part = torch.zeros(int(counts.sum()) if is_node else len(counts), dtype=torch.uint8)
    for number, name in enumerate(PARTS, start=1):
        part[getattr(task.split, name).cpu()] = number
    return part if is_node else part.repeat_interleave(counts)
