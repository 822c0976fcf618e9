"""Architectures, recipes and tasks of other kinds for the tests of training."""

import pytest
import torch
from torch_geometric.data import Data

from pdnas.architecture import Architecture, BlockSpec
from pdnas.tasks import GraphTask
from pdnas.tasks.source import source_from_graphs
from pdnas.tasks.splits import PARTS
from pdnas.training import Recipe


@pytest.fixture
def architecture() -> Architecture:
    """Two blocks, learned attention and a shortcut."""
    blocks = (BlockSpec(attention="gat", heads=2, activation="relu"), BlockSpec(attention="gcn"))
    return Architecture(blocks=blocks, gates=((0, 1),))


@pytest.fixture
def recipe() -> Recipe:
    """A short training."""
    return Recipe(epochs=12, patience=12, dropout=0.2, input_dropout=0.2)


def ring(nodes: int, generator: torch.Generator, sparse: bool) -> Data:
    """Two labels per node that two of its features tell; sparse graphs have many empty columns."""
    y = torch.randint(2, (nodes, 2), generator=generator)
    x = torch.zeros(nodes, 40 if sparse else 4)
    x[:, :2] = y.float()
    x[:, 2:4] = torch.rand(nodes, 2, generator=generator)
    index = torch.arange(nodes)
    forth = torch.stack([index, (index + 1) % nodes])
    return Data(x=x, edge_index=torch.cat([forth, forth.flip(0)], dim=1), y=y)


def seven_rings(sparse: bool) -> GraphTask:
    """Rings of 5 to 11 nodes with several labels per node: four, one and two of them."""
    generator = torch.Generator().manual_seed(0)
    rings = [ring(nodes, generator, sparse) for nodes in range(5, 12)]
    own = (torch.tensor([0, 1, 2, 3]), torch.tensor([4]), torch.tensor([5, 6]))
    return GraphTask.from_source(source_from_graphs(rings, "rings", splits={"own": own}))


@pytest.fixture(params=[False, True], ids=["dense", "sparse"])
def many_graphs(request: pytest.FixtureRequest) -> GraphTask:
    """The seven rings with features in either form."""
    return seven_rings(request.param)


@pytest.fixture
def yes_or_no(tiny_task: GraphTask) -> GraphTask:
    """The tiny graph with two classes, on its own split."""
    graph, nodes = tiny_task.graphs[0], torch.arange(20)
    data = Data(x=graph.x, edge_index=graph.edge_index, y=(graph.y == 0).long())
    for part in PARTS:
        data[f"{part}_mask"] = torch.isin(nodes, getattr(tiny_task.split, part))
    return GraphTask.from_data(data, metric="roc-auc")


@pytest.fixture(params=["single-label", "multi-label", "binary"])
def any_kind(
    request: pytest.FixtureRequest, tiny_task: GraphTask, yes_or_no: GraphTask
) -> GraphTask:
    """A task of each kind with dense features."""
    tasks = {"single-label": tiny_task, "binary": yes_or_no, "multi-label": seven_rings(False)}
    task = tasks[request.param]
    assert task.kind == request.param
    return task
