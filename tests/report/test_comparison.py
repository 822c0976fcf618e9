"""Runs side by side."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations
from pathlib import Path

import pytest

from pdnas.report.comparison import comparable, difference_table, pair, side_by_side, told_apart
from pdnas.report.reading import Run, read_run
from pdnas.runs import Scores


def changed(run: Run, **values: object) -> Run:
    assert run.result is not None
    return replace(run, result=run.result.model_copy(update=values))


def test_equal_seeds_on_one_split_are_paired(searched: Run) -> None:
    assert searched.result is not None
    val = tuple(value - 0.01 * place for place, value in enumerate(searched.result.val.values))
    other = changed(searched, val=Scores.of(val), seeds=(1, 2, 3))
    shared = [val[0] - searched.result.val.values[1], val[1] - searched.result.val.values[2]]

    pairing = pair(searched, other)

    assert pairing.val is not None
    assert pairing.val.pairs == 2
    assert pairing.val.mean == pytest.approx(50 * sum(shared))


def test_trainings_on_one_split_are_one_pair(searched: Run) -> None:
    assert searched.result is not None
    split = searched.result.split.model_copy(update={"members": ("a", "b")})
    first = changed(searched, split=split, seeds=(0, 1), **values(0.5, 0.5, 0.5, 0.5))
    other = changed(searched, split=split, seeds=(1, 0, 7), **values(0.5, 0.7, 0, 0.4, 0.4, 0))

    pairing = pair(first, other)

    assert pairing.val == pairing.test
    assert pairing.val is not None
    assert (pairing.val.pairs, pairing.of) == (2, "splits")
    assert pairing.val.mean == pytest.approx((10 - 10) / 2)  # of 0 and 20 points, -10 and -10
    assert difference_table([pairing]).rows[0][3] == "2 of splits"


def values(*each: float) -> dict[str, object]:
    return {"val": Scores.of(each), "test": Scores.of(each)}


def elsewhere(run: Run, task: str = "other", sha256: str = "0" * 64) -> Run:
    """The run as one of other data."""
    assert run.result is not None
    assert run.result.data is not None
    data = run.result.data.model_copy(update={"sha256": sha256})
    return changed(run, task=task, data=data)


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"metric": "macro-f1"}, "the metrics differ"),
        ({"seeds": (7, 8, 9)}, "no seed is in both"),
    ],
)
def test_what_cannot_be_paired_says_why(
    searched: Run, values: dict[str, object], reason: str
) -> None:
    pairing = pair(searched, changed(searched, **values))

    assert pairing.val is None
    assert reason in pairing.reason
    assert f"cannot be paired: {reason}" in difference_table([pairing]).rows[0][1]


def test_the_same_data_at_another_path_are_paired(searched: Run) -> None:
    assert pair(searched, changed(searched, task="../elsewhere/tables")).val is not None
    assert pair(searched, changed(searched, task="../elsewhere/renamed")).val is not None


def test_other_data_under_another_name_are_not_paired(searched: Run) -> None:
    other = elsewhere(searched)

    assert pair(searched, other).reason == "the tasks differ: other, tables"
    assert comparable([searched, other, searched]) == [[searched, searched], [other]]
    assert "of different tasks" in told_apart([searched, other])


def names(runs: Sequence[Run]) -> frozenset[frozenset[str]]:
    """Which runs are drawn together."""
    return frozenset(frozenset(run.name for run in alike) for alike in comparable(runs))


def test_what_is_drawn_together_does_not_depend_on_the_order(
    searched: Run, unfinished: Path
) -> None:
    runs = {
        "done": searched,
        "going": read_run(unfinished),
        "moved": changed(searched, task="moved"),
        "of that name": elsewhere(searched, "tables"),
        "other": elsewhere(searched, sha256="1" * 64),
    }
    named = [replace(run, label=name) for name, run in runs.items()]
    alike, other = frozenset({"done", "going", "moved", "of that name"}), frozenset({"other"})

    assert {names(order) for order in permutations(named)} == {frozenset({alike, other})}
    assert [run.name for run in comparable(named[::-1])[1]] == [run.name for run in named[3::-1]]


@pytest.mark.parametrize(
    ("asked", "together"),
    [("macro-f1", {"f1", "going"}), ("accuracy", {"done", "going"}), (None, {"going"})],
)
def test_an_unfinished_run_goes_by_its_metric_where_its_task_has_several(
    searched: Run, unfinished: Path, asked: str | None, together: set[str]
) -> None:
    other = replace(changed(searched, metric="macro-f1"), label="f1")
    settings = {"task_name": "tables", "task": {"metric": asked}}
    going = replace(read_run(unfinished), label="going", settings=settings)

    for order in permutations([replace(searched, label="done"), other, going]):
        assert together in names(order)
        assert len(names(order)) == (3 if asked is None else 2)


@pytest.mark.parametrize(
    ("val", "words"),
    [
        (
            (0.9, 0.9, 0.9),
            "+10.00 (95 % interval +10.00 to +10.00), which can be told from nothing",
        ),
        ((0.7, 0.9, 0.95), "which cannot be told from nothing with so many pairs of trainings: 3."),
    ],
)
def test_the_best_by_validation_is_told_from_the_next(
    searched: Run, val: tuple[float, ...], words: str
) -> None:
    first = replace(changed(searched, val=Scores.of((0.8, 0.8, 0.8))), path=Path("first"))
    better = replace(changed(searched, val=Scores.of(val)), path=Path("better"))

    sentence = told_apart([first, better])

    assert "By validation better is the best with" in sentence
    assert words in sentence


def test_what_is_alone_or_without_pairs_is_said(searched: Run, unfinished: Path) -> None:
    lonely = changed(searched, seeds=(7, 8, 9))

    assert "the only one that is finished" in told_apart([searched, read_run(unfinished)])
    assert "cannot be paired: no seed is in both" in told_apart([searched, lonely])
    assert told_apart([read_run(unfinished)]) == ""


def test_other_splits_are_not_paired(searched: Run) -> None:
    assert searched.result is not None
    split = searched.result.split.model_copy(update={"sha256": "0" * 64})

    assert pair(searched, changed(searched, split=split)).reason == "the splits differ"


def test_runs_of_any_kind_stand_side_by_side(made: dict[str, Path], unfinished: Path) -> None:
    runs = [read_run(made["grid"]), read_run(made["trained"]), read_run(unfinished)]

    rows = side_by_side(runs).rows

    assert [row[0] for row in rows] == ["grid", "trained", "unfinished"]
    assert [row[2] for row in rows] == ["pdnas", "gcn, not searched", "not finished"]
    assert pair(runs[0], runs[2]).reason == "unfinished is not finished"
