"""Tables of tiny tasks, done in this process, and works of a moment."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from tests.conftest import Here

from pdnas.architecture import Architecture, BlockSpec
from pdnas.job import Job, make_job
from pdnas.reproduce import base
from pdnas.reproduce.work import Leg
from pdnas.search.pdnas import PRESETS
from pdnas.tasks import GraphTask
from pdnas.training import Recipe

MakeLeg = Callable[..., Leg]
Loads = list[dict[str, Any]]


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Works are done in this process."""
    monkeypatch.setattr("pdnas.tuning.place.LocalExecutor", Here)


@pytest.fixture
def loads(tiny_task: GraphTask, monkeypatch: pytest.MonkeyPatch) -> Loads:
    """Every data set is the tiny task; how they were asked for."""
    asked: Loads = []

    def load(name: str, **settings: Any) -> GraphTask:
        asked.append({"name": name, **settings})
        task = replace(tiny_task, source=replace(tiny_task.source, name=name))
        return task if settings["split"] == "public" else task.with_split("random", 0)

    monkeypatch.setattr(base, "load_task", load)
    return asked


@pytest.fixture
def tiny_job() -> Job:
    """A search of a moment."""
    return make_job(
        strategy=PRESETS["default"].changed(epochs=2, pool=2, adapted=1, adapt_epochs=1),
        recipe=Recipe(epochs=2),
        hidden=(4,),
        candidates=1,
        mutations=1,
        designs="off",
    )


@pytest.fixture
def leg_of() -> MakeLeg:
    """Makes the outcome of a piece of work, of these test values."""

    def make(
        row: str,
        *test: float,
        task: str = "cora",
        split_seed: int | None = None,
        seed: int = 0,
        **about: Any,
    ) -> Leg:
        return Leg.model_validate(
            {
                "task": task,
                "split": "random",
                "split_seed": split_seed,
                "split_sha256": "ab",
                "seed": seed,
                "row": row,
                "architecture": Architecture(blocks=(BlockSpec(),)),
                "hidden": 4,
                "parameters": 1500,
                "recipe": Recipe(),
                "val": test,
                "test": test,
                "seeds": tuple(range(len(test))),
                "train_seconds": 1.0,
                "environment": {},
                **about,
            }
        )

    return make
