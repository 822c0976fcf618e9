"""What is drawn, by hand; and that it is drawn."""

from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from pdnas.compare.picture import COLORS, Picture, Step, draw, picture_of, steps_of
from pdnas.compare.work import Attempt

MakeAttempt = Callable[..., Attempt]


@pytest.fixture
def picture(attempt_of: MakeAttempt) -> Picture:
    """Two strategies with two seeds, and a baseline."""
    attempts = {
        "pdnas": [
            attempt_of("pdnas", 0, (1.0, 0.5), (4.0, 0.8), seconds=5.0),
            attempt_of("pdnas", 1, (2.0, 0.6), seconds=6.0),
        ],
        "random": [attempt_of("random", seed, (3.0, 0.4), seconds=4.0) for seed in (0, 1)],
        "gcn": [
            attempt_of("gcn", 0, (0.1, 0.1), (1.0, 0.7), val=0.5),
            attempt_of("gcn", 1, (3.0, 0.9)),
        ],
    }
    return picture_of(attempts, ["gcn"], title="a <title>", axis="validation in %")


def rounded(step: Step) -> tuple[float, ...]:
    return tuple(round(value, 6) for value in step.model_dump().values())


def test_a_curve_begins_when_all_seeds_have_something(picture: Picture) -> None:
    assert [rounded(step) for step in picture.curves["pdnas"]] == [
        (2.0, 55.0, 50.0, 60.0),
        (4.0, 70.0, 60.0, 80.0),
        (6.0, 70.0, 60.0, 80.0),
    ]
    assert [rounded(step) for step in picture.curves["random"]] == [
        (3.0, 40.0, 40.0, 40.0),
        (4.0, 40.0, 40.0, 40.0),
    ]


def test_a_baseline_is_a_mark_where_it_ends(picture: Picture) -> None:
    assert list(picture.curves) == ["pdnas", "random"]
    assert {rival: rounded(mark) for rival, mark in picture.marks.items()} == {
        "gcn": (2.0, 70.0, 50.0, 90.0)
    }


def test_one_seed_has_a_curve_without_a_span(attempt_of: MakeAttempt) -> None:
    (step, last) = steps_of([attempt_of("pdnas", 0, (2.0, 0.5), seconds=3.0)])
    assert rounded(step) == (2.0, 50.0, 50.0, 50.0)
    assert rounded(last) == (3.0, 50.0, 50.0, 50.0)


def test_every_rival_is_drawn_and_named_once(picture: Picture, tmp_path: Path) -> None:
    draw(picture, tmp_path / "a.svg")
    tree = ET.parse(tmp_path / "a.svg")
    assert tree.getroot().tag == "{http://www.w3.org/2000/svg}svg"
    words = ["".join(node.itertext()) for node in tree.iter() if node.tag.endswith("text")]
    for text in ("a <title>", "validation in %", "seconds spent", "pdnas", "random", "gcn"):
        assert words.count(text) == 1
    drawn = (tmp_path / "a.svg").read_text()
    assert all(color in drawn for color in COLORS[:3])


def test_there_are_as_many_looks_as_rivals(attempt_of: MakeAttempt, tmp_path: Path) -> None:
    many = {f"rival {n}": [attempt_of(f"rival {n}", 0, (1.0 + n, 0.5))] for n in range(12)}
    marks = [f"rival {n}" for n in range(6, 12)]
    draw(picture_of(many, marks, title="many", axis="%"), tmp_path / "a.svg")
    assert all(name in (tmp_path / "a.svg").read_text() for name in many)
