"""An epoch of the networks that searches found against the same networks of PyG's message passing.

An epoch is a training step, a look at the validation part, and three figures that are read. Ours is
what ``pdnas train`` does, on a GPU recorded as a CUDA graph; theirs is PyG's
``MessagePassing``, written as PyG's own layers are, with the same weights and on dense features.
Both take turns in one process, so that whatever else the machine does befalls both; the figure is
the ratio of the medians. The networks are those that ``pdnas`` chose in the committed comparisons.

    PDNAS_DATA=/path/to/data python benchmarks/speed/train_epoch.py --device cuda

writes ``benchmarks/results/speed/train_epoch-<device>.json``.
"""

import argparse
import json
import statistics
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

warnings.filterwarnings("ignore", message=".*torch.jit.*", category=DeprecationWarning)

from torch_geometric.nn import MessagePassing  # noqa: E402
from torch_geometric.nn.conv.gcn_conv import gcn_norm  # noqa: E402
from torch_geometric.typing import OptTensor  # noqa: E402
from torch_geometric.utils import softmax  # noqa: E402

from pdnas.architecture import Architecture, BlockSpec  # noqa: E402
from pdnas.compare.work import read_attempt  # noqa: E402
from pdnas.models import GraphBlock, GraphNetwork  # noqa: E402
from pdnas.ops import SparseFeatures  # noqa: E402
from pdnas.runs import environment  # noqa: E402
from pdnas.tasks import GraphTask, load_task  # noqa: E402
from pdnas.training import Recipe  # noqa: E402
from pdnas.training.batching import Batches  # noqa: E402
from pdnas.training.device import find_device  # noqa: E402
from pdnas.training.epochs import make_epochs  # noqa: E402
from pdnas.training.metrics import loss, score  # noqa: E402

TASKS = ("cora", "citeseer", "pubmed")
SCRIPT = "benchmarks/speed/train_epoch.py"
RESULTS = Path(__file__).parents[1] / "results"
WARM = 5


class PygBlock(MessagePassing):  # type: ignore[misc]
    """A block of the paper's space as a layer of PyG.

    Args:
        spec: Its ops; ``combine`` is ``add``, and there is neither a norm nor a bias.
        ours: Whose weights it takes.
    """

    def __init__(self, spec: BlockSpec, ours: GraphBlock) -> None:
        super().__init__(aggr=spec.aggregation, node_dim=0)
        self.attention, self.heads, self.averaged = spec.attention, spec.heads, ours.heads.averaged
        self.inner = nn.Parameter(_weight(ours.transform, "weight_1"))
        self.outer = nn.Parameter(_weight(ours.transform, "weight_2"))
        self.vectors = nn.ParameterDict(
            {name: vector.detach().clone() for name, vector in ours.attention.named_parameters()}
        )
        self.activation = ours.activation
        self._gcn: tuple[Tensor, Tensor] | None = None

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        transformed = F.relu(x @ self.inner) @ self.outer
        if self.attention == "const":
            messages = self.propagate(edge_index, x=transformed, weight=None)
        elif self.attention == "gcn":
            if self._gcn is None:
                self._gcn = gcn_norm(edge_index, None, len(x), add_self_loops=False)
            messages = self.propagate(
                self._gcn[0], x=transformed, weight=self._gcn[1].unsqueeze(-1)
            )
        else:
            if self.averaged:
                split = transformed.unsqueeze(1).expand(-1, self.heads, -1)
            else:
                split = transformed.view(len(x), self.heads, -1)
            weight = self.edge_updater(edge_index, **self._ends(split), size=None)
            heard = self.propagate(edge_index, x=split, weight=weight.unsqueeze(-1))
            messages = heard.mean(dim=1) if self.averaged else heard.flatten(1)
        result: Tensor = self.activation(messages + transformed)
        return result

    def _ends(self, x: Tensor) -> dict[str, Any]:
        """What the attention reads at both ends of an edge."""
        target, source, total = map(self.vectors.get, ("at_target", "at_source", "at_sum"))
        if self.attention in ("cos", "gene-linear"):
            return {"left": (x * source, x * target), "right": None, "total": total}
        left = (x * source).sum(dim=-1)
        right = None if target is None else (x * target).sum(dim=-1)
        if self.attention == "linear":
            return {"left": (left, left), "right": None, "total": None}
        assert right is not None
        both = None if self.attention == "gat" else (right, left)
        return {"left": (left, right), "right": both, "total": None}

    def edge_update(
        self,
        left_j: Tensor,
        left_i: Tensor,
        right_j: OptTensor,
        right_i: OptTensor,
        total: OptTensor,
        index: Tensor,
        size_i: int,
    ) -> Tensor:
        """The attention of each edge and head, ``[E, H]``."""
        if self.attention == "cos":
            scores = (left_i * left_j).sum(dim=-1)
        elif self.attention == "gene-linear":
            assert total is not None
            scores = ((left_i + left_j).tanh() * total).sum(dim=-1)
        elif self.attention == "linear":
            scores = left_j.tanh()
        else:
            scores = F.leaky_relu(left_i + left_j, 0.2)
            if right_j is not None and right_i is not None:
                scores = scores + F.leaky_relu(right_i + right_j, 0.2)
        normalized: Tensor = softmax(scores, index, num_nodes=size_i)
        return normalized

    def message(self, x_j: Tensor, weight: OptTensor) -> Tensor:
        return x_j if weight is None else weight * x_j


def _weight(op: nn.Module, name: str) -> Tensor:
    """A copy of one of an op's weights."""
    weight = op.get_parameter(name)
    return weight.detach().clone()


class PygNetwork(nn.Module):
    """A network of the paper's space made of such layers, with our network's weights.

    Args:
        architecture: Of the network.
        ours: The same of our blocks.
        recipe: Whose dropout it has.
    """

    def __init__(self, architecture: Architecture, ours: GraphNetwork, recipe: Recipe) -> None:
        super().__init__()
        blocks = [block for block in ours.blocks if isinstance(block, GraphBlock)]
        self.blocks = nn.ModuleList(
            [PygBlock(spec, own) for spec, own in zip(architecture.blocks, blocks, strict=True)]
        )
        self.gates = architecture.gates
        self.shortcuts = nn.ParameterList(
            [weight.detach().clone() for weight in ours.shortcuts.values()]
        )
        self.rates = (recipe.input_dropout, recipe.dropout)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        inputs: list[Tensor] = []
        for number, block in enumerate(self.blocks):
            inputs.append(F.dropout(x, self.rates[min(number, 1)], self.training))
            x = block(inputs[number], edge_index)
            for (first, last), weight in zip(self.gates, self.shortcuts, strict=True):
                if last == number:
                    x = x + inputs[first] @ weight
        return x


def pyg_epoch(network: nn.Module, x: Tensor, task: GraphTask, recipe: Recipe) -> Callable[[], Any]:
    """A function that does an epoch as one would write it with PyG."""
    optimizer = recipe.make_optimizer(network.parameters())
    train, val = (next(Batches(task, part).in_order()) for part in ("train", "val"))
    edge_index = task.graphs[0].edge_index

    def epoch() -> list[float]:
        network.train()
        optimizer.zero_grad(set_to_none=True)
        value = loss(train.select(network(x, edge_index)), train.y, task.kind)
        value.backward()
        optimizer.step()
        network.eval()
        with torch.no_grad():
            logits = val.select(network(x, edge_index))
            judged = loss(logits, val.y, task.kind), score(logits, val.y, task.kind, task.metric)
        figures: list[float] = torch.stack([value.detach(), *judged]).tolist()
        return figures

    return epoch


def seconds(epoch: Callable[[], Any], device: torch.device) -> float:
    """How long an epoch takes: by events on a GPU, by the clock on a CPU."""
    if device.type == "cuda":
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        epoch()
        end.record()
        torch.cuda.synchronize(device)
        return float(start.elapsed_time(end)) / 1000
    began = time.perf_counter()
    epoch()
    return time.perf_counter() - began


def compare(
    architecture: Architecture, task: GraphTask, *, hidden: int, recipe: Recipe, epochs: int
) -> dict[str, Any]:
    """Medians of both, epoch by epoch in turn, and their ratio."""
    graph = task.graphs[0]
    device = graph.y.device
    dense = graph.x.to_dense() if isinstance(graph.x, SparseFeatures) else graph.x
    network = GraphNetwork(
        architecture,
        task,
        hidden,
        input_dropout=recipe.input_dropout,
        dropout=recipe.dropout,
    ).to(device)
    theirs = pyg_epoch(PygNetwork(architecture, network, recipe).to(device), dense, task, recipe)
    made = make_epochs(network, task, recipe)

    def ours() -> list[float]:
        figures: list[float] = made(0).tolist()
        return figures

    times: dict[str, list[float]] = {"ours": [], "pyg": []}
    for number in range(WARM + epochs):
        for name, epoch in (("ours", ours), ("pyg", theirs)):
            spent = seconds(epoch, device)
            if number >= WARM:
                times[name].append(spent)
    medians = {name: statistics.median(values) for name, values in times.items()}
    return {
        "task": task.name,
        "network": str(architecture),
        "hidden": hidden,
        "split_sha256": task.split.sha256,
        "ours_ms": 1000 * medians["ours"],
        "pyg_ms": 1000 * medians["pyg"],
        "ratio": medians["ours"] / medians["pyg"],
    }


def main() -> None:
    """Compare the networks found on each data set and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda or cuda:0")
    parser.add_argument("--epochs", type=int, default=30, help="timed epochs of each")
    parser.add_argument("--data-root", help="where the data sets are; default: PDNAS_DATA")
    parser.add_argument("-o", "--output", type=Path, help="where to write instead")
    arguments = parser.parse_args()
    device = find_device(arguments.device)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    rows = []
    for name in TASKS:
        task = load_task(name, data_root=arguments.data_root).to(device)
        for path in sorted((RESULTS / "compare" / name / "runs").glob("pdnas-*.json")):
            found = read_attempt(path)
            assert found is not None
            assert isinstance(found.architecture, Architecture)
            row = compare(
                found.architecture,
                task,
                hidden=found.hidden,
                recipe=found.recipe,
                epochs=arguments.epochs,
            )
            rows.append({**row, "found_by": f"compare/{name}/runs/{path.name}"})
            print(
                f"{name:9} ours {row['ours_ms']:8.2f} ms   PyG {row['pyg_ms']:8.2f} ms   "
                f"ratio {row['ratio']:.3f}   {row['network']}",
                flush=True,
            )
    output = arguments.output or RESULTS / "speed" / f"train_epoch-{device.type}.json"
    output.parent.mkdir(parents=True, exist_ok=True)
    record = {
        "command": f"python {SCRIPT} --device {device.type} --epochs {arguments.epochs}",
        "seed": 0,
        "environment": environment(device, threads=1),
        "rows": rows,
    }
    output.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    print(f"wrote {output}")


if __name__ == "__main__":
    main()
