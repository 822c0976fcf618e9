"""Every public name has an example in its documentation, which runs as it stands."""

import doctest
import importlib
from pathlib import Path
from typing import Any

import pytest
import torch

import pdnas
from pdnas import api
from pdnas.compare import Verdict, base
from pdnas.runs import Result
from pdnas.search.pdnas import PRESETS
from pdnas.training import Recipe

BRIEF: dict[str, Any] = {
    "strategy": PRESETS["default"].changed(epochs=2, pool=2, adapted=1, adapt_epochs=1),
    "recipe": Recipe(epochs=2),
    "candidates": 1,
    "designs": "off",
    "controls": (),
    "seeds": 1,
}

NAMES = sorted(set(pdnas.__all__) - {"__version__"})


@pytest.fixture
def _brief(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing takes as long as it may: a budget would be used whole."""

    def search(task: str, budget_seconds: float, **given: Any) -> Result:
        assert budget_seconds
        return api.search(task, **BRIEF, **given)

    def compare(task: str, folder: str, budget_seconds: float, **given: Any) -> Verdict:
        assert budget_seconds
        return base.compare(task, folder, budget_seconds=None, budget_trials=2, epochs=2, **given)

    monkeypatch.setattr("pdnas.pipeline.plan.TIMED", 1)
    monkeypatch.setattr(pdnas, "search", search)
    monkeypatch.setattr(pdnas, "compare", compare)


@pytest.mark.usefixtures("_brief")
@pytest.mark.parametrize("name", NAMES)
def test_the_example_of_a_public_name_runs(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    thing = getattr(importlib.import_module(pdnas._HOMES[name]), name)  # some are packages, too
    finder = doctest.DocTestFinder(recurse=False)
    (found,) = finder.find(thing, name, globs={"pdnas": pdnas, "torch": torch})
    assert found.examples, f"pdnas.{name} has no example"
    said: list[str] = []

    result = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(found, out=said.append)

    assert result.failed == 0, "".join(said)
