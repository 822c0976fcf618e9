"""Who may go on, and who has fallen behind."""

from collections.abc import Sequence

import pytest

from pdnas.pipeline.race import Race
from pdnas.training.fit import Epoch


def race(others: Sequence[tuple[float, ...]], values: list[float]) -> tuple[int | None, Race]:
    """After how many epochs a training with these values falls behind, and the race."""
    race = Race(others, 400)
    for number, value in enumerate(values):
        if race.falls_behind(Epoch(number, 1.0, 1.0, value)):
            return number + 1, race
    return None, race


@pytest.mark.parametrize(
    ("others", "value", "end"),
    [
        ([], 0.0, None),
        ([(0.9,), (0.9,)], 0.0, None),
        ([(0.9,), (0.8,), (0.7,)], 0.69, 100),
        ([(0.7,), (0.9,), (0.8,)], 0.7, None),
        ([(0.9,), (0.8,), (0.7,), (0.1,)], 0.69, 100),
        ([(0.9,), (0.9,), (), ()], 0.5, None),
    ],
    ids=[
        "nobody-else",
        "two-others",
        "below-the-third",
        "as-good-as-the-third",
        "the-fourth-does-not-help",
        "those-that-never-came-there-do-not-count",
    ],
)
def test_a_training_ends_where_three_others_were_better(
    others: list[tuple[float, ...]], value: float, end: int | None
) -> None:
    assert race(others, [value] * 200)[0] == end


def test_a_race_compares_the_best_so_far() -> None:
    others = [(0.5,)] * 3
    assert race(others, [0.6] + [0.0] * 199)[0] is None
    assert race(others, [0.4] * 99 + [0.5] + [0.0] * 100)[0] is None
    assert race(others, [0.4] * 100 + [0.5] * 100)[0] == 100


def test_a_race_remembers_the_best_after_a_quarter() -> None:
    _, ran = race([], [number / 200 for number in range(200)])
    assert ran.rungs == (99 / 200,)
    assert race([], [0.5] * 99)[1].rungs == ()
