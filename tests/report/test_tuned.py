"""Trials of a tuning."""

import json
import shutil
from pathlib import Path

import pytest

from pdnas.errors import RunError
from pdnas.report.reading import Run, read_run
from pdnas.report.tuned import draw_tried, read_tried, tried_table
from pdnas.runs import JOURNAL

WHEN = "2026-01-01T00:00:00"


def test_trials_that_count_are_read_and_the_journal_stays_as_it_is(tuned: Path) -> None:
    before = (tuned / JOURNAL).read_bytes()

    tried = read_tried(read_run(tuned))

    assert list(tried) == ["shapes", "recipes"]
    assert [(one.values, one.chosen) for one in tried["shapes"]] == [
        ("hidden 4", True),
        ("hidden 8", False),
    ]
    assert [one.number for one in tried["recipes"]] == [0, 2, 3, 4]  # 1 was under way and lost
    assert [one.state for one in tried["recipes"]] == ["done", "done", "stopped early", "done"]
    assert [one.chosen for one in tried["recipes"]] == [False, True, False, True]
    assert tried["recipes"][3].again == 2
    assert (tuned / JOURNAL).read_bytes() == before


def test_the_best_so_far_is_of_the_first_round(tuned: Path) -> None:
    trials = read_tried(read_run(tuned))["recipes"]

    figure = draw_tried("recipes", trials)

    first, second, best = figure.plot["data"]
    assert (first["x"], first["y"]) == ([0, 2], [50.0, 70.0])
    assert (second["x"], second["y"]) == ([4], [65.0])
    assert best["y"] == [50.0, 70.0]
    assert figure.caption.startswith("Of 4 trials 3 came to their end.")


def test_a_row_says_what_was_tried_and_which_was_chosen(tuned: Path) -> None:
    rows = tried_table("recipes", read_tried(read_run(tuned))["recipes"]).rows

    assert rows[0][:4] == ("0", "done", "50.00", "-")
    assert rows[0][4].startswith("lr 0.3, dropout ")
    assert rows[1][0] == "2 (chosen)"
    assert rows[2][:3] == ("3", "stopped early", "-")
    assert rows[3][3] == "of 2"


def test_half_a_line_at_the_end_is_left_alone(tuned: Path, tmp_path: Path) -> None:
    path = shutil.copytree(tuned, tmp_path / "tuned")
    with (path / JOURNAL).open("a") as file:
        file.write('{"op_code": 5')

    assert len(read_tried(read_run(path))["recipes"]) == 4


def test_a_damaged_journal_is_one_sentence(tuned: Path, tmp_path: Path) -> None:
    path = shutil.copytree(tuned, tmp_path / "tuned")
    (path / JOURNAL).write_text("nothing\n")

    with pytest.raises(RunError, match="cannot be read"):
        read_tried(read_run(path))


def create(name: object = "recipe", *, code: object = 0) -> dict[str, object]:
    return {"op_code": code, "worker_id": "w", "study_name": name, "directions": [2]}


def trial(**fields: object) -> dict[str, object]:
    """A trial of the first study that is done."""
    usual = {"op_code": 4, "worker_id": "w", "study_id": 0, "datetime_start": WHEN, "state": 1}
    usual |= {"datetime_complete": WHEN, "value": 0.5, "params": {}, "distributions": {}}
    usual |= {"intermediate_values": {}, "system_attrs": {}, "user_attrs": {}}
    return {**usual, **fields}


def of_study(**attributes: object) -> dict[str, object]:
    return {"op_code": 2, "worker_id": "w", "study_id": 0, "user_attr": attributes}


@pytest.mark.parametrize(
    "entries",
    [
        [[]],
        [1],
        [create(code="x")],
        [create(code=None)],
        [create(["recipe"])],
        [create(), of_study(interrupted=5)],
        [create(), of_study(interrupted=["1"])],
        [create(), trial(state=9)],
        [create(), trial(state="done")],
        [create(), trial(value="high")],
        [create(), trial(value=float("nan"))],
        [create(), trial(value=1e308)],
        [create(), trial(value=None, values=[0.5, 0.5])],
        [create(), trial(user_attrs={"recipe": 1})],
        [create(), trial(user_attrs={"round": "second"})],
        [create(), trial(params=[])],
        [create(), trial(user_attrs={"recipe": {"lr": "\ud800"}})],
    ],
)
def test_entries_that_say_something_else_are_one_sentence(
    tuned: Path, tmp_path: Path, entries: list[object]
) -> None:
    path = shutil.copytree(tuned, tmp_path / "tuned")
    (path / JOURNAL).write_text("".join(json.dumps(entry) + "\n" for entry in entries))

    with pytest.raises(RunError, match=r"^The study '[^\n]*' cannot be read \([^\n]+\);[^\n]*\.$"):
        read_tried(read_run(path))


def test_entries_as_they_are_to_be_are_read(tuned: Path, tmp_path: Path) -> None:
    path = shutil.copytree(tuned, tmp_path / "tuned")
    entries = [create(), of_study(interrupted=[]), trial(user_attrs={"recipe": {"lr": 1}})]
    (path / JOURNAL).write_text("".join(json.dumps(entry) + "\n" for entry in entries))

    (tried,) = read_tried(read_run(path))["recipes"]

    assert (tried.state, tried.val, tried.values) == ("done", 0.5, "lr 1")


def test_without_a_journal_there_are_no_trials(searched: Run) -> None:
    assert read_tried(searched) == {}
