"""Attempts that were never made, and comparisons of a moment, in this process."""

from collections.abc import Callable
from typing import Any

import pytest
from tests.conftest import Here

from pdnas.architecture import Architecture, BlockSpec
from pdnas.compare.work import Attempt
from pdnas.training import Recipe

MakeAttempt = Callable[..., Attempt]


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Works are done in this process, and little is measured."""
    monkeypatch.setattr("pdnas.tuning.place.LocalExecutor", Here)
    monkeypatch.setattr("pdnas.pipeline.plan.TIMED", 1)


@pytest.fixture
def attempt_of() -> MakeAttempt:
    """Makes the outcome of a rival with a seed, from its curve."""

    def make(
        rival: str, seed: int, *curve: tuple[float, float], val: float | None = None, **about: Any
    ) -> Attempt:
        return Attempt.model_validate(
            {
                "rival": rival,
                "seed": seed,
                "curve": curve,
                "val": curve[-1][1] if val is None else val,
                "test": 0.25,
                "parameters": 1000,
                "hidden": 4,
                "seconds": curve[-1][0],
                "trainings": len(curve),
                "architecture": Architecture(blocks=(BlockSpec(),)),
                "recipe": Recipe(),
                "task": "tiny",
                "split": "own",
                "split_sha256": "ab",
                "environment": {"device_name": "abacus"},
                **about,
            }
        )

    return make
