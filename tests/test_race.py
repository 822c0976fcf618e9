"""Who may go on, and who has fallen behind."""

from collections.abc import Sequence

import pytest

from pdnas import race as module
from pdnas.race import Race
from pdnas.training.fit import Epoch


@pytest.fixture(autouse=True)
def rungs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several rungs, where there is one by default."""
    assert module.RUNGS == (1 / 4,)
    monkeypatch.setattr(module, "RUNGS", (1 / 16, 1 / 8, 1 / 4))


def race(
    others: Sequence[tuple[float, ...]], values: list[float], grace: int = 0
) -> tuple[int | None, Race]:
    """After how many epochs a training with these values falls behind, and the race."""
    race = Race(others, 400, grace=grace)
    for number, value in enumerate(values):
        if race.falls_behind(Epoch(number, 1.0, 1.0, value)):
            return number + 1, race
    return None, race


@pytest.mark.parametrize(
    ("others", "value", "end"),
    [
        ([], 0.0, None),
        ([(0.9,), (0.9,)], 0.0, None),
        ([(0.9,), (0.8,), (0.7,)], 0.69, 25),
        ([(0.7,), (0.9,), (0.8,)], 0.7, None),
        ([(0.9,), (0.8,), (0.7,), (0.1,)], 0.69, 25),
        ([(0.9, 0.95), (0.5, 0.9), (0.4, 0.85)], 0.5, 50),
        ([(0.9,), (0.9,), (0.1, 1.0), (0.1, 1.0)], 0.5, None),
        ([(0.0, 0.0, 0.6), (0.0, 0.0, 0.6), (0.0, 0.0, 0.6)], 0.5, 100),
    ],
    ids=[
        "nobody-else",
        "two-others",
        "below-the-third",
        "as-good-as-the-third",
        "the-fourth-does-not-help",
        "later",
        "those-that-never-came-there-do-not-count",
        "last",
    ],
)
def test_a_training_ends_where_three_others_were_better(
    others: list[tuple[float, ...]], value: float, end: int | None
) -> None:
    assert race(others, [value] * 200)[0] == end


@pytest.mark.parametrize(("grace", "end"), [(0, 25), (1, 50), (2, 100), (3, None)])
def test_a_training_has_grace_at_its_first_rungs(grace: int, end: int | None) -> None:
    ended, ran = race([(0.5, 0.5, 0.5)] * 3, [0.4] * 200, grace)
    assert ended == end
    assert ran.rungs == (0.4,) * min(grace + 1, 3)


def test_a_race_compares_the_best_so_far() -> None:
    others = [(0.5,)] * 3
    assert race(others, [0.6] + [0.0] * 199)[0] is None
    assert race(others, [0.4] * 24 + [0.5] + [0.0] * 175)[0] is None
    assert race(others, [0.4] * 25 + [0.5] * 175)[0] == 25


def test_a_race_remembers_the_best_after_a_sixteenth_an_eighth_and_a_quarter() -> None:
    _, ran = race([], [number / 200 for number in range(200)])
    assert ran.rungs == (24 / 200, 49 / 200, 99 / 200)
    assert race([], [0.5] * 30)[1].rungs == (0.5,)
    assert race([], [0.5] * 24)[1].rungs == ()
