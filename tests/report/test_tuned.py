"""Trials of a tuning."""

import shutil
from pathlib import Path

import pytest

from pdnas.errors import RunError
from pdnas.report.reading import Run, read_run
from pdnas.report.tuned import draw_tried, read_tried, tried_table
from pdnas.runs import JOURNAL


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


def test_without_a_journal_there_are_no_trials(searched: Run) -> None:
    assert read_tried(searched) == {}
