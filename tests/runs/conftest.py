"""A run directory, and a result to be written to it."""

from pathlib import Path

import pytest

from pdnas.architecture import Architecture, BlockSpec
from pdnas.runs import Record, Result, RunDirectory, Scores, SplitRecord
from pdnas.tasks import GraphTask


class Note(Record):
    text: str


def files(run: RunDirectory) -> set[str]:
    return {str(path.relative_to(run.path)) for path in run.path.rglob("*") if path.is_file()}


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return RunDirectory.create(tmp_path / "run", "test")


@pytest.fixture
def architecture() -> Architecture:
    blocks = (BlockSpec(attention="gat", heads=2, activation="relu"), BlockSpec())
    return Architecture(blocks=blocks, gates=((0, 1),))


@pytest.fixture
def result(architecture: Architecture, tiny_task: GraphTask) -> Result:
    return Result(
        task="tiny",
        split=SplitRecord(name="own", sha256="ab", seeds=(), members=("ab",)),
        architecture=architecture,
        hidden=4,
        in_channels=tiny_task.in_channels,
        out_channels=tiny_task.out_channels,
        class_names=("a", "b", "c"),
        parameters=architecture.parameters(tiny_task, 4),
        recipe={"lr": 0.01},
        metric="accuracy",
        val=Scores.of([0.5, 0.75]),
        test=Scores.of([0.25, 0.5]),
        epochs=(3, 4),
        seeds=(0, 1),
        train_seconds=1.5,
        device="cpu",
    )
