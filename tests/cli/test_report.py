"""``pdnas report``, and the page that searches and trainings leave behind."""

import json
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from pdnas import page
from pdnas.cli import report
from pdnas.errors import RunError
from pdnas.report import read_run
from pdnas.runs import HISTORY, RESULT, RunDirectory

Pdnas = Callable[..., CompletedProcess[str]]


@pytest.fixture
def trained(pdnas: Pdnas, tiny: Path) -> Path:
    """A short training with its page."""
    assert pdnas("train", "gcn", tiny, "--epochs", "3", "--run-dir", "run").returncode == 0
    return Path("run")


def test_a_training_leaves_its_page_and_says_where(pdnas: Pdnas, tiny: Path) -> None:
    done = pdnas("train", "gcn", tiny, "--epochs", "3", "--run-dir", "run")

    assert "run: run\nreport: run/report.html\n" in done.stdout
    assert "pdnas train gcn" in Path("run/report.html").read_text()


def test_a_search_leaves_its_page_and_says_where(pdnas: Pdnas, tiny: Path) -> None:
    short = ["--epochs", "10", "--hidden", "4", "--controls", "--candidates", "1", "--seeds", "1"]

    done = pdnas("search", tiny, *short, "--run-dir", "run", "--json", "--quiet")

    assert json.loads(done.stdout)["report"] == "run/report.html"
    assert "How it was found" in Path("run/report.html").read_text()
    Path("run/report.html").unlink()
    assert "report: run/report.html" in pdnas("resume", "run").stdout
    assert Path("run/report.html").is_file()


def test_a_page_that_cannot_be_written_does_not_lose_the_result(
    pdnas: Pdnas, tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> Path:
        raise RunError("The report 'x' cannot be written (No space left on device); make room.")

    monkeypatch.setattr(page, "write_report", full)

    done = pdnas("train", "gcn", tiny, "--epochs", "3", "--run-dir", "run", "--json", "--quiet")

    assert done.returncode == 0
    assert json.loads(done.stdout)["report"] is None
    assert done.stderr.count("No space left on device") == 1
    assert Path("run", RESULT).is_file()


def test_one_run_has_its_page_beside_it(pdnas: Pdnas, trained: Path) -> None:
    (trained / "report.html").unlink()

    done = pdnas("report", trained)

    assert done.stdout == "report: run/report.html\n"
    assert (trained / "report.html").is_file()


def test_several_runs_have_their_page_here(pdnas: Pdnas, trained: Path) -> None:
    shutil.copytree(trained, "other")

    done = pdnas("report", trained, "other", "--json")

    assert json.loads(done.stdout) == {"report": "report.html", "runs": ["run", "other"]}
    assert "2 runs side by side" in Path("report.html").read_text()


def test_the_page_can_be_put_elsewhere_without_a_word(pdnas: Pdnas, trained: Path) -> None:
    done = pdnas("report", trained, "-o", "page.html", "--quiet")

    assert (done.stdout, done.stderr) == ("", "")
    assert Path("page.html").is_file()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["nowhere"], "'nowhere' is not a run directory"),
        (["run", "run"], "is given twice"),
        (["run", "other", "--watch"], "--watch follows one run"),
        (["run", "--interval", "0"], "--interval is 0.0; give 0.1"),
        (["run", "--interval", "1e300"], "--interval is 1e+300; give 0.1 to 86400 seconds"),
        (["run", "-o", "missing/page.html"], "There is no folder 'missing' for the output"),
        (["run", "-o", "mine.html"], "'mine.html' exists already"),
        (["run", "-o", "tiny.npz"], "a page ends in .html or .htm; name it so"),
        (["run", "-o", "/dev/null"], "a page ends in .html or .htm"),
        (["run", "other", "-o", "page"], "a page ends in .html or .htm"),
    ],
)
def test_bad_input_is_one_sentence(
    pdnas: Pdnas, tiny: Path, trained: Path, arguments: list[str], expected: str
) -> None:
    Path("mine.html").write_text("<!doctype html><title>mine</title>")
    Path("tiny.npz").symlink_to(tiny)
    done = pdnas("report", *arguments)

    assert done.returncode == 2
    assert Path("mine.html").read_text() == "<!doctype html><title>mine</title>"
    assert expected in done.stderr
    assert done.stderr.count("\n") == 1


def test_an_earlier_page_is_renewed(pdnas: Pdnas, trained: Path) -> None:
    for _ in range(2):
        assert pdnas("report", trained).returncode == 0
        assert pdnas("report", trained, "-o", "page.html").returncode == 0


def text_of(page: Path, seconds: float = 60) -> str:
    """A page that somebody is about to write."""
    deadline = time.monotonic() + seconds
    while not page.is_file() and time.monotonic() < deadline:
        time.sleep(0.02)
    return page.read_text()


def test_watching_ends_with_the_run(pdnas: Pdnas, trained: Path) -> None:
    result = (trained / RESULT).read_bytes()
    (trained / RESULT).unlink()
    page, seen, begun = trained / "report.html", [], threading.Event()

    def finish() -> None:
        try:
            with RunDirectory.open(trained).alone():
                begun.set()
                with (trained / HISTORY).open("a") as file:
                    file.write('{"split_seed":null,"seed":0,"epo')  # half a line
                seen.append('http-equiv="refresh"' in text_of(page))
                (trained / RESULT).write_bytes(result)
                time.sleep(0.3)
        finally:  # without a result the page would be watched forever
            (trained / RESULT).write_bytes(result)

    page.unlink()
    worker = threading.Thread(target=finish)
    worker.start()
    assert begun.wait(60)  # whoever looks whether the lock is taken holds it for a moment
    done = pdnas("report", trained, "--watch", "--interval", "0.1")
    worker.join()

    assert done.returncode == 0
    assert seen == [True]
    assert 'http-equiv="refresh"' not in page.read_text()
    assert "final training 0  epoch 3  loss" in done.stderr
    assert done.stdout == "report: run/report.html\n"


def test_watching_can_be_stopped(
    pdnas: Pdnas, trained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(_: float) -> None:
        raise KeyboardInterrupt

    (trained / RESULT).unlink()
    monkeypatch.setattr("pdnas.cli.report.time.sleep", stop)

    done = pdnas("report", trained, "--watch")

    assert done.returncode == 130
    assert (trained / "report.html").is_file()


def test_a_page_that_is_no_longer_watched_does_not_load_itself_again(
    pdnas: Pdnas, trained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page, seen = trained / "report.html", []

    def stop(_: float) -> None:
        seen.append('http-equiv="refresh"' in page.read_text())
        raise KeyboardInterrupt

    (trained / RESULT).unlink()
    monkeypatch.setattr("pdnas.cli.report.time.sleep", stop)
    pdnas("report", trained, "--watch")

    assert seen == [True]
    assert 'http-equiv="refresh"' not in page.read_text()


def test_a_run_that_was_stopped_says_how_it_goes_on(pdnas: Pdnas, trained: Path) -> None:
    (trained / RESULT).unlink()

    assert pdnas("report", trained).returncode == 0

    page = (trained / "report.html").read_text()
    assert "This run was stopped; go on with: pdnas resume run" in page
    assert "<code>pdnas resume run</code>" in page
    assert "pdnas predict" not in page
    assert "The run goes on" not in page
    assert 'http-equiv="refresh"' not in page


def test_a_run_at_work_is_said_to_go_on(pdnas: Pdnas, trained: Path) -> None:
    (trained / RESULT).unlink()

    with RunDirectory.open(trained).alone():
        pdnas("report", trained)

    page = (trained / "report.html").read_text()
    assert "The run goes on." in page
    assert "was stopped" not in page


def test_watching_says_once_that_nobody_works_on_the_run_and_waits(
    pdnas: Pdnas, trained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result, naps = (trained / RESULT).read_bytes(), []

    def nap(_: float) -> None:
        naps.append(1)
        if len(naps) == 3:
            (trained / RESULT).write_bytes(result)

    (trained / RESULT).unlink()
    monkeypatch.setattr("pdnas.cli.report.time.sleep", nap)

    done = pdnas("report", trained, "--watch")

    assert done.returncode == 0
    assert len(naps) == 3
    assert done.stderr.count("Nobody works on 'run'; go on with: pdnas resume run\n") == 1


def test_a_run_without_epochs_has_nothing_to_tell_yet(trained: Path) -> None:
    (trained / HISTORY).unlink()

    assert report.live_line(read_run(trained)) == "nothing yet"
