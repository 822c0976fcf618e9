"""Architectures, recipes and tasks of other kinds for the tests of training."""

import pytest
import torch
from tests.conftest import seven_rings
from torch_geometric.data import Data

from pdnas.architecture import Architecture, BlockSpec
from pdnas.tasks import GraphTask
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
