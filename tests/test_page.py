"""The page that is left beside a result."""

from pathlib import Path

import pytest

from pdnas import page
from pdnas.api import train
from pdnas.errors import RunError
from pdnas.page import left_page, write_page
from pdnas.runs import RunDirectory
from pdnas.tasks import GraphTask
from pdnas.training import Recipe


@pytest.fixture
def run(tiny_task: GraphTask, tmp_path: Path) -> RunDirectory:
    """A short training."""
    train("gcn", tiny_task, recipe=Recipe(epochs=2), run_dir=tmp_path / "run")
    return RunDirectory.open(tmp_path / "run")


def test_a_page_has_the_commands_of_its_run(run: RunDirectory, tmp_path: Path) -> None:
    text = write_page([run.path], tmp_path / "page.html").read_text(encoding="utf-8")
    assert f"pdnas predict {run.path} -o predictions.csv" in text


def test_a_page_lies_in_the_run(run: RunDirectory) -> None:
    (run.path / "report.html").unlink()
    assert left_page(run, pytest.fail) == run.path / "report.html"
    assert (run.path / "report.html").is_file()


def test_what_goes_wrong_is_only_told(run: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> Path:
        raise RunError("No space.")

    monkeypatch.setattr(page, "write_report", full)
    told: list[str] = []
    assert left_page(run, told.append) is None
    assert told == ["No space."]


def test_of_several_processes_the_first_leaves_it(
    run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page, "is_first", lambda: False)
    (run.path / "report.html").unlink()
    assert left_page(run, pytest.fail) is None
    assert not (run.path / "report.html").exists()
