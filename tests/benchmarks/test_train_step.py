"""The speed benchmark compares like with like; how fast either is, is not tested."""

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import torch

from pdnas.models import GraphNetwork
from pdnas.models.baselines import BASELINES
from pdnas.tasks import GraphTask
from pdnas.training import RECIPES

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "speed" / "train_step.py"


@pytest.fixture(scope="module")
def train_step(script: Callable[[str], ModuleType]) -> ModuleType:
    return script("benchmarks/speed/train_step.py")


def size(network: torch.nn.Module) -> int:
    return sum(weight.numel() for weight in network.parameters())


@pytest.mark.parametrize("name", ["gcn", "gat", "sage"])
def test_a_comparison_is_a_row_with_a_ratio(
    train_step: ModuleType, tiny_task: GraphTask, name: str
) -> None:
    row = train_step.compare(name, tiny_task, torch.device("cpu"), steps=2)
    assert (row["network"], row["task"]) == (name, "tiny")
    assert row["split_sha256"] == tiny_task.split.sha256
    assert not row["sparse_features"]
    assert row["ratio"] == pytest.approx(row["ours_ms"] / row["pyg_ms"])
    assert row["ratio"] > 0


@pytest.mark.parametrize("name", ["gcn", "gat", "sage"])
def test_both_networks_have_as_many_parameters(
    train_step: ModuleType, tiny_task: GraphTask, name: str
) -> None:
    baseline = BASELINES[name]
    ours = GraphNetwork(baseline.architecture, tiny_task, baseline.hidden)
    theirs = train_step.Reference(name, tiny_task, RECIPES[name])
    assert size(ours) == size(theirs)


def test_the_tasks_are_those_of_the_issue(train_step: ModuleType) -> None:
    assert set(train_step.TASKS) == {"cora", "citeseer", "pubmed", "pyg:Amazon/Photo"}
