from pathlib import Path

import pytest

from pdnas.architecture import Architecture, BlockSpec
from pdnas.cli.display import print_table, show, show_search
from pdnas.cli.drawing import draw
from pdnas.runs import Control, Result, Scores, SearchReport, SplitRecord, Trial


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


@pytest.fixture
def found(result: Result) -> Result:
    """The result of a search, with two controls."""
    architecture = Architecture(
        blocks=(BlockSpec(attention="gat", heads=2, activation="relu"), BlockSpec()),
        gates=((0, 1),),
    )
    control = Control(
        name="gcn",
        architecture=architecture,
        hidden=4,
        parameters=678,
        val=Scores.of([0.5, 0.6, 0.7]),
        test=Scores.of([0.3, 0.4, 0.5]),
        seconds=2.5,
    )
    trial = Trial(
        architecture=architecture,
        hidden=4,
        seed=7,
        shared_val=0.5,
        val=0.5,
        epoch=3,
        epochs=9,
        rungs=(),
        seconds=4.25,
    )
    report = SearchReport(
        settings={},
        seed=0,
        epochs=10,
        trials=(trial, trial),
        controls=(control, control.model_copy(update={"name": "random"})),
        rank_correlation=None,
        training_seconds=10.0,
        candidate_seconds=8.5,
        warnings=(),
    )
    update = {
        "architecture": architecture,
        "recipe": {"epochs": 400},
        "search_seconds": 25.0,
        "search": report,
    }
    return result.model_copy(update=update)


def shown(result: Result, capsys: pytest.CaptureFixture[str], **changes: object) -> str:
    """What is shown of a search whose report is changed so."""
    assert result.search is not None
    changed = result.search.model_copy(update=changes)
    show_search(result.model_copy(update={"search": changed}), result, Path())
    said = capsys.readouterr()
    assert said.err == ""
    return said.out


def test_a_search_is_shown_as_a_drawing_a_table_and_its_cost(
    found: Result, capsys: pytest.CaptureFixture[str]
) -> None:
    out = shown(found, capsys)
    assert isinstance(found.architecture, Architecture)
    drawing = "\n".join(draw(found.architecture, found, 4))
    assert "[red]tiny[/red] ([bold]mended[/bold]), split column:[b]:\n\n" + drawing in out
    rows = {row.split()[0]: row for row in out.splitlines() if " ± " in row and "mean" not in row}
    assert list(rows) == ["found", "gcn", "random"]
    for text in ("80.00 ± 10.00", "70.00 ± 10.00", "45.16 to 94.84", "12,345", "1.5"):
        assert text in rows["found"]
    for text in ("60.00 ± 10.00", "40.00 ± 10.00", "15.16 to 64.84", "678", "2.5"):
        assert text in rows["gcn"]
    assert (
        "The search took 25.0 s, 2.5 times one training of the network found of 400 epochs " in out
    )
    assert "(10.0 s); " in out
    assert "candidates were rated and trained in 8.5 s; to choose took 33.5 s in all." in out


def test_a_search_without_a_training_is_compared_with_none(
    found: Result, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "The search took 25.0 s" in shown(found, capsys, training_seconds=0.0)


@pytest.mark.parametrize(
    ("stopped", "why"),
    [(None, None), ("budget", "the budget was spent"), ("interrupt", "it was interrupted")],
)
def test_an_early_end_of_a_search_is_told(
    found: Result, capsys: pytest.CaptureFixture[str], stopped: str | None, why: str | None
) -> None:
    out = shown(found, capsys, stopped=stopped)
    assert ("The job ended early" in out) == (why is not None)
    assert why is None or f"because {why}; this is the best network so far." in out


def test_warnings_of_a_search_are_shown_one_a_line(
    found: Result, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "warning:" not in shown(found, capsys)
    out = shown(found, capsys, warnings=("It [rained].", "It poured."))
    assert "\nwarning: It [rained].\nwarning: It poured.\n" in out


def test_the_files_of_a_search_are_listed_if_they_are_there(
    found: Result, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ".json" not in shown(found, capsys).partition("run: .")[2]
    Path("result.json").touch()
    Path("history.jsonl").touch()
    Path("other.json").touch()
    listed = shown(found, capsys).partition("run: .\n")[2].splitlines()
    assert [line.split()[0] for line in listed] == ["result.json", "history.jsonl"]
    assert all(len(line.split()) > 3 for line in listed), "each with a few words about it"
