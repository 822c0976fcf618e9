"""What came out, in a sentence."""

from pathlib import Path

import pytest

from pdnas.report.reading import Run, read_run
from pdnas.report.verdict import against, read_verdict, trainings
from pdnas.runs import Result, Scores


def told(run: Run, *, own: tuple[float, ...], control: tuple[float, ...]) -> Result:
    """The result of a search, with other figures."""
    assert run.result is not None
    assert run.result.search is not None
    first = run.result.search.controls[0]
    changed = first.model_copy(update={"val": Scores.of(control)})
    search = run.result.search.model_copy(update={"controls": (changed,)})
    return run.result.model_copy(update={"val": Scores.of(own), "search": search})


@pytest.mark.parametrize(
    ("own", "control", "words"),
    [
        (
            (0.8, 0.8, 0.8),
            (0.7, 0.7, 0.69),
            "it is 10.33 points ahead of gcn, the best of the controls gcn (80.00 against 69.67 %",
        ),
        (
            (0.7, 0.7, 0.7),
            (0.8, 0.8, 0.79),
            "the control gcn, which nobody searched for, is 9.67 points ahead of it (70.00 against",
        ),
    ],
)
def test_controls_are_compared_honestly(
    searched: Run, own: tuple[float, ...], control: tuple[float, ...], words: str
) -> None:
    sentence = against(told(searched, own=own, control=control))

    assert words in sentence
    assert "cannot tell apart" not in sentence


@pytest.mark.parametrize(
    ("own", "control"), [((0.8,), (0.7,)), ((0.7,), (0.8,)), ((0.7, 0.9, 0.8), (0.8, 0.7, 0.8))]
)
def test_what_trainings_cannot_tell_apart_is_said_to_be_so(
    searched: Run, own: tuple[float, ...], control: tuple[float, ...]
) -> None:
    sentence = against(told(searched, own=own, control=control))

    assert f"{trainings(len(own))} cannot tell apart" in sentence


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
