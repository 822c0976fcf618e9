"""Runs that earlier revisions wrote are read, or refused in a sentence.

``earlier`` holds them as they were written, named after command and revision, on ``graph.npz``.
"""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from pdnas import train
from pdnas.architecture import Architecture

Pdnas = Callable[..., CompletedProcess[str]]

EARLIER = Path(__file__).with_name("earlier")
RUNS = sorted(path.name for path in EARLIER.iterdir() if path.is_dir())

NO_PAGE = "of an early version, of which there is no page; predict, export and train read such"
NO_ANSWERS = "holds no predictions: it is not finished, or of an early version"
OTHER = "pipeline.json' is damaged, or of another version of pdnas: plan.tune_seconds: Field req"

REFUSED = {
    ("search-9d268a0", "report"): NO_PAGE,
    ("search-9d268a0", "resume"): OTHER,
    **{(name, "predict"): NO_ANSWERS for name in RUNS},
}
"""What is not done with a run any more, and what is said instead."""


@pytest.fixture(params=RUNS)
def name(request: pytest.FixtureRequest) -> str:
    """A run of an earlier revision, in the folder ``run``."""
    shutil.copytree(EARLIER / request.param, "run")
    for path in Path("run").rglob("*.json"):
        path.write_text(path.read_text().replace("GRAPH", str(EARLIER / "graph.npz")))
    return str(request.param)


def check(done: CompletedProcess[str], refusal: str | None) -> None:
    if refusal is None:
        assert done.returncode == 0, done.stderr
    else:
        assert done.returncode == 2
        assert done.stderr.count("\n") == 1
        assert refusal in done.stderr


@pytest.mark.parametrize("command", ["report", "predict", "export", "resume"])
def test_what_is_done_with_a_run(pdnas: Pdnas, name: str, command: str) -> None:
    check(pdnas(command, "run"), REFUSED.get((name, command)))


def test_data_are_shown_to_its_network(pdnas: Pdnas, name: str) -> None:
    check(pdnas("predict", "run", EARLIER / "graph.npz", "-o", "out.csv"), None)
    assert len(Path("out.csv").read_text().splitlines()) == 13


def test_its_network_is_trained_again(pdnas: Pdnas, name: str) -> None:
    words = ["train", "run", EARLIER / "graph.npz", "--epochs", "2", "--run-dir", "again"]
    check(pdnas(*words, "--quiet"), None)
    before, now = (json.loads(Path(run, "result.json").read_bytes()) for run in ("run", "again"))
    written, read = (Architecture.model_validate(one["architecture"]) for one in (before, now))
    assert read == written


def test_one_that_was_stopped_goes_on(pdnas: Pdnas, name: str) -> None:
    before = json.loads(Path("run/result.json").read_bytes())
    Path("run/result.json").unlink()
    refusal = REFUSED.get((name, "resume"))
    check(pdnas("resume", "run", "--quiet"), refusal)
    if refusal is None:
        now = json.loads(Path("run/result.json").read_bytes())
        assert now["val"] == before["val"]
        assert now["test"] == before["test"]


def test_tables_of_a_run_that_says_nothing_of_it_stay_as_they_are(
    pdnas: Pdnas, folder: Path
) -> None:
    short = ("--epochs", "4", "--hidden", "4", "--run-dir", "run", "--quiet")
    assert pdnas("train", "gcn", folder, *short, "--standardize", "off").returncode == 0
    settings, result = Path("run/settings.json"), Path("run/result.json")
    asked, before = json.loads(settings.read_bytes()), json.loads(result.read_bytes())
    del asked["task"]["standardize"], before["data"]["means"], before["data"]["deviations"]
    settings.write_text(json.dumps(asked))
    result.write_text(json.dumps(before))
    check(pdnas("predict", "run", "-o", "own.csv"), None)
    check(pdnas("predict", "run", folder, "-o", "other.csv"), None)
    assert Path("own.csv").read_text() == Path("other.csv").read_text()
    result.unlink()
    check(pdnas("resume", "run", "--quiet"), None)
    again = train("gcn", folder, hidden=4, recipe=asked["recipe"], run_dir="run")
    assert again.data is not None
    assert again.data.sha256 == before["data"]["sha256"]
    assert list(again.test.values) == before["test"]["values"]
