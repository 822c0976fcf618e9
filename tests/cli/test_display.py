import io
import sys
from pathlib import Path

import pytest

from pdnas.architecture import Architecture, BlockSpec
from pdnas.cli.display import TrainingProgress, print_table, show
from pdnas.runs import Result, Scores, SplitRecord
from pdnas.training.fit import Epoch

EPOCH = Epoch(epoch=3, train_loss=1.25, val_loss=1.0, val=0.5)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def result() -> Result:
    return Result(
        task="[red]tiny[/red]",
        note="[bold]mended[/bold]",
        split=SplitRecord(name="column:[b]", sha256="ab", seeds=(), members=("ab",)),
        architecture=Architecture(blocks=(BlockSpec(),)),
        hidden=4,
        in_channels=5,
        out_channels=3,
        class_names=("a", "b", "c"),
        parameters=12345,
        recipe={},
        metric="accuracy",
        val=Scores.of([0.7, 0.8, 0.9]),
        test=Scores.of([0.6, 0.7, 0.8]),
        epochs=(1, 2, 3),
        seeds=(0, 1, 2),
        train_seconds=1.5,
        device="cpu",
    )


def test_markup_stays_text(capsys: pytest.CaptureFixture[str]) -> None:
    print_table([["[red]head", "b"], ["[bold]cell[/bold]", "[/]"]], title="[link=x]title")
    out = capsys.readouterr().out
    assert all(text in out for text in ("[red]head", "[bold]cell[/bold]", "[/]", "[link=x]title"))


def test_markup_in_names_of_the_user_stays_text(
    result: Result, capsys: pytest.CaptureFixture[str]
) -> None:
    show("[i]gcn", result, Path("runs/[red]"))
    out = capsys.readouterr().out
    for text in ("[red]tiny[/red]", "[bold]mended[/bold]", "column:[b]", "[i]gcn", "runs/[red]"):
        assert text in out


def test_the_result_is_shown_with_everything_promised(
    result: Result, capsys: pytest.CaptureFixture[str]
) -> None:
    show("gcn", result, Path("runs/x"))
    out = capsys.readouterr().out
    # The interval is 70 ± 4.302653 * 10 / sqrt(3).
    for text in ("80.00 ± 10.00", "70.00 ± 10.00", "45.16 to 94.84", "12,345", "1.5", "accuracy"):
        assert text in out
    assert out.endswith("run: runs/x\n")


def test_long_cells_are_not_cut(capsys: pytest.CaptureFixture[str]) -> None:
    print_table([["a"], ["x" * 150]])
    assert "x" * 150 in capsys.readouterr().out


def test_no_progress_is_shown_where_stderr_is_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    with TrainingProgress(2, 10, quiet=False) as progress:
        progress.show(0, EPOCH)
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "")


@pytest.mark.parametrize("quiet", [False, True])
def test_a_terminal_sees_the_progress_unless_quiet(
    monkeypatch: pytest.MonkeyPatch, quiet: bool
) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    with TrainingProgress(2, 10, quiet=quiet) as progress:
        progress.show(1, EPOCH)
    shown = terminal.getvalue()
    assert ("training 2/2" in shown) == (not quiet)
    assert ("loss 1.250  validation 50.00 %" in shown) == (not quiet)
