"""What is said of pieces of work."""

import pytest

from pdnas.cli.pieces import Lines, stopped
from pdnas.tuning.pieces import Fingerprint


def test_each_event_is_a_line_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    lines = Lines[Fingerprint](lambda outcome: f"came to {outcome.work_sha256}")
    lines.began("a")
    lines.done("a", Fingerprint(work_sha256="ab"))
    lines.failed("b", "It rained.")
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == "a begins\na: came to ab\nb failed: It rained.\n"


def test_a_stop_is_exit_code_130_and_tells_how_to_go_on(capsys: pytest.CaptureFixture[str]) -> None:
    assert stopped() == 130
    assert capsys.readouterr().err.endswith("the same command goes on where it stopped.\n")
