"""Runs side by side."""

from dataclasses import replace
from pathlib import Path

import pytest

from pdnas.report.comparison import difference_table, pair, side_by_side
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


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"task": "other"}, "the tasks differ"),
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
