"""What is seen of the trials of a tuning, in a terminal and elsewhere."""

import io
import re
import sys

import pytest

from pdnas.cli import trials
from pdnas.cli.trials import TuningProgress
from pdnas.tuning import Tuning
from pdnas.tuning.study import GridStudy

CELLS = [{"hidden": hidden} for hidden in range(1, 31)]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def study() -> GridStudy:
    """One trial is done, one failed, one is under way."""
    study = GridStudy(CELLS)
    for _ in range(3):
        study.ask()
    study.done(0, 0.5)
    study.failed(1, "It rained.")
    return study


def plain(terminal: Terminal) -> str:
    """The last picture, without its colors."""
    said = re.sub(r"\x1b\[[0-9;?]*\w", "", terminal.getvalue())
    return said[said.rindex("shapes: ") :]


def test_elsewhere_each_trial_that_ends_is_a_line_once(
    study: GridStudy, capsys: pytest.CaptureFixture[str]
) -> None:
    with TuningProgress(Tuning(), quiet=False, note="rebuilt") as progress:
        progress.began("shapes", GridStudy(CELLS), 30)
        progress.changed(study)
        progress.changed(study)
        study.done(2, 0.625)
        progress.changed(study)
    assert capsys.readouterr().err.splitlines() == [
        "shapes 1/30: 0 done 50.00 % (rebuilt) hidden 1",
        "shapes 2/30: 1 failed - It rained.",
        "shapes 3/30: 2 done 62.50 % (rebuilt) hidden 3",
    ]


def test_what_was_there_before_is_counted_and_not_told_again(
    study: GridStudy, capsys: pytest.CaptureFixture[str]
) -> None:
    with TuningProgress(Tuning(), quiet=False) as progress:
        progress.began("shapes", study, 30)
        progress.changed(study)
    assert capsys.readouterr().err == "shapes: 2 trials are there already\n"


def test_nothing_is_told_where_it_is_to_be_quiet(
    study: GridStudy, capsys: pytest.CaptureFixture[str]
) -> None:
    with TuningProgress(Tuning(), quiet=True) as progress:
        progress.began("shapes", study, 30)
        progress.changed(study)
        progress.noted("It rained.")
    assert capsys.readouterr().err == ""


def test_a_terminal_gets_the_best_trials_and_those_under_way(
    study: GridStudy, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = Terminal()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", terminal)
    for number in range(3, 25):
        study.ask()
        study.done(number, number / 100)
    with TuningProgress(Tuning(), quiet=False) as progress:
        progress.began("shapes", study, 30)
        progress.changed(study)
        said = plain(terminal)
    assert said.startswith("shapes: 24 of 30 tried, 1 under way")
    assert re.search(r"trial +state +validation +values", said)
    rows = re.findall(r"^ +(\d+) +(\w+) +(\S+)", said, flags=re.M)
    best = [("0", "done", "50.00"), *((str(n), "done", f"{n}.00") for n in range(24, 14, -1))]
    assert rows == [*best, ("2", "running", "-")]
    assert len(rows) == trials.SHOWN


def test_at_the_end_trials_are_counted_and_the_first_reason_is_given(study: GridStudy) -> None:
    with TuningProgress(Tuning(), quiet=False) as progress:
        progress.began("shapes", study, 30)
        progress.changed(study)
    assert [*progress.summary()] == ["shapes tried: 1 done, 1 failed, 1 running (It rained.)"]
