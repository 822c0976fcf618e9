"""Commands whose work is done on a Ray cluster: they come to what one process comes to."""

import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from pdnas.runs import JOURNAL, load_run
from pdnas.tuning.storage import JournalFile
from pdnas.tuning.study import GridStudy

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("connected")]

Pdnas = Callable[..., CompletedProcess[str]]

ON_RAY = ["--executor", "ray"]
LEAN = ["--epochs=4", "--candidates=1", "--device=cpu"]


@pytest.fixture(autouse=True)
def _measured_in_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pdnas.pipeline.plan.TIMED", 1)


def choice(run: str) -> tuple[Any, ...]:
    """What a run came to, whatever it cost."""
    result = load_run(run)
    return result.architecture, result.hidden, result.recipe, result.val, result.test


def test_the_grid_of_a_search(pdnas: Pdnas, tiny: Path) -> None:
    search = ["search", tiny, *LEAN, "--blocks", "1", "2", "--hidden=4", "--seeds=1", "--pool=4"]
    assert pdnas(*search, "--run-dir", "one", "--quiet", "--controls").returncode == 0
    done = pdnas(*search, *ON_RAY, "--run-dir", "two", "--controls")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("searched, ") == 2
    assert choice("two") == choice("one")


def test_a_tuning(pdnas: Pdnas, tiny: Path) -> None:
    """The shapes are the same; which recipes are tried depends on what was heard of before."""
    tune = ["tune", tiny, *LEAN, "--blocks", "1", "2", "--hidden=4", "--mutations=0", "--seeds=2"]
    done = pdnas(*tune, *ON_RAY, "--run-dir", "run", "--trials=3", "--trial-seeds=1")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("shapes ") == 2
    assert done.stderr.count("recipes ") == 3 + 3
    assert len(load_run("run").test.values) == 2
    cells = [{"blocks": 1, "hidden": 4}, {"blocks": 2, "hidden": 4}]
    rows = GridStudy(cells, JournalFile(Path("run", JOURNAL))).rows()
    assert [row.state for row in rows] == ["done"] * 2
    folders = [*Path("run", "cells").iterdir()]
    assert sorted(path.name for path in folders) == ["blocks-1-hidden-4", "blocks-2-hidden-4"]


def test_a_comparison(pdnas: Pdnas, tiny: Path) -> None:
    compare = ["compare", tiny, *LEAN, "--strategies", "pdnas", "--baselines", "gcn", "--hidden=4"]
    done = pdnas(*compare, *ON_RAY, "--seeds=2", "--budget-seconds=30", "-o", "out", "--json")
    assert done.returncode == 0, done.stderr
    verdict = json.loads(done.stdout)
    assert verdict["executor"] == "ray"
    runs = sorted(path.name for path in Path("out", "runs").iterdir())
    assert runs == ["gcn-0.json", "gcn-1.json", "pdnas-0.json", "pdnas-1.json"]
