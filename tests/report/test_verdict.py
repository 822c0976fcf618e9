"""What came out, in a sentence."""

from pathlib import Path

import pytest

from pdnas.report.reading import Run, read_run
from pdnas.report.verdict import against, read_verdict
from pdnas.runs import Result, Scores


def told(run: Run, *, own: float, control: float) -> Result:
    """The result of a search, with other figures."""
    assert run.result is not None
    assert run.result.search is not None
    first = run.result.search.controls[0]
    changed = first.model_copy(update={"val": Scores.of([control])})
    search = run.result.search.model_copy(update={"controls": (changed,)})
    return run.result.model_copy(update={"val": Scores.of([own]), "search": search})


@pytest.mark.parametrize(
    ("own", "control", "words"),
    [
        (0.8, 0.7, "it is ahead of the controls gcn (the best of them, gcn: 70.00 against 80.00"),
        (
            0.7,
            0.8,
            "it is not the best: the control gcn, which nobody searched for, has more (gcn: 80.00",
        ),
        (0.7, 0.7, "it is level with the best of the controls"),
    ],
)
def test_controls_are_compared_honestly(
    searched: Run, own: float, control: float, words: str
) -> None:
    assert words in against(told(searched, own=own, control=control))


def test_the_sentence_has_every_figure(searched: Run) -> None:
    result, verdict = searched.result, read_verdict(searched)
    assert result is not None
    assert result.test.interval is not None

    for figure in (
        f"accuracy {100 * result.test.mean:.2f} %",
        f"95 % interval {100 * result.test.interval[0]:.2f} to",
        f"{result.parameters:,} parameters",
        "over 3 trainings",
    ):
        assert figure in verdict.sentence
    assert verdict.table is not None
    assert [row[0] for row in verdict.table.rows] == ["found", "gcn"]


def test_a_training_has_no_controls(made: dict[str, Path]) -> None:
    verdict = read_verdict(read_run(made["trained"]))

    assert verdict.sentence.startswith("The gcn network on tables reaches accuracy")
    assert verdict.table is None


def test_an_unfinished_run_says_so(unfinished: Path) -> None:
    verdict = read_verdict(read_run(unfinished))

    assert "is not finished: there are 9 epochs of search" in verdict.sentence
