"""The benchmark of epochs compares like with like; how fast either is, is not tested."""

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import torch

from pdnas.architecture import Architecture, BlockSpec
from pdnas.models import GraphNetwork
from pdnas.space import SPACES
from pdnas.tasks import GraphTask
from pdnas.training import Recipe

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "speed" / "train_epoch.py"
PAPER = SPACES["paper"]


@pytest.fixture(scope="module")
def train_epoch(script: Callable[[str], ModuleType]) -> ModuleType:
    return script("benchmarks/speed/train_epoch.py")


def network_of(attention: str, aggregation: str) -> Architecture:
    """Two blocks: in the first heads have channels of their own, in the second all see all."""
    spec = BlockSpec(expansion=2, attention=attention, heads=4, aggregation=aggregation)
    first = spec.model_copy(update={"activation": "elu"})
    return Architecture(blocks=(first, spec), gates=((0, 1), (1, 1)))


@pytest.mark.parametrize("aggregation", PAPER.aggregation)
@pytest.mark.parametrize("attention", PAPER.attention)
def test_both_networks_give_the_same_logits_and_gradients(
    train_epoch: ModuleType, tiny_task: GraphTask, attention: str, aggregation: str
) -> None:
    torch.manual_seed(0)
    architecture, graph = network_of(attention, aggregation), tiny_task.graphs[0]
    ours = GraphNetwork(architecture, tiny_task, 8)
    theirs = train_epoch.PygNetwork(architecture, ours, Recipe())
    outputs = [ours.eval()(graph.x, graph.adjacency), theirs.eval()(graph.x, graph.edge_index)]
    torch.testing.assert_close(*outputs, atol=1e-5, rtol=1e-5)
    sizes = [sum(w.numel() for w in network.parameters()) for network in (ours, theirs)]
    assert sizes[0] == sizes[1]
    firsts = [
        ours.get_parameter("blocks.0.transform.weight_1"),
        theirs.get_parameter("blocks.0.inner"),
    ]
    pairs = zip(outputs, firsts, strict=True)
    grads = [torch.autograd.grad(out.square().sum(), [first])[0] for out, first in pairs]
    torch.testing.assert_close(*grads, atol=1e-4, rtol=1e-4)


def test_a_comparison_is_a_row_with_a_ratio(train_epoch: ModuleType, tiny_task: GraphTask) -> None:
    row = train_epoch.compare(
        network_of("gat", "sum"), tiny_task, hidden=8, recipe=Recipe(), epochs=2
    )
    assert row["split_sha256"] == tiny_task.split.sha256
    assert row["ratio"] == pytest.approx(row["ours_ms"] / row["pyg_ms"])
    assert row["ratio"] > 0
