"""Recipes tuned in this process: within a budget, without the test part, and to be gone on with."""

from collections.abc import Callable
from pathlib import Path

import pytest

from pdnas.architecture import Architecture
from pdnas.errors import DivergedError
from pdnas.runs import JOURNAL
from pdnas.tasks import GraphTask
from pdnas.training import Recipe
from pdnas.tuning import work
from pdnas.tuning.inline import SEEDS, RecipeTuner
from pdnas.tuning.ranges import RANGES
from pdnas.tuning.storage import JournalFile
from pdnas.tuning.study import RecipeStudy
from pdnas.tuning.work import TrainingWork

BASE = Recipe(epochs=5, patience=5)

Tune = Callable[..., Recipe]


@pytest.fixture
def tune(architecture: Architecture, tiny_task: GraphTask) -> Tune:
    """Tunes for a moment."""

    def run(
        trials: int = 4,
        *,
        journal: Path | None = None,
        base: Recipe = BASE,
        seed: int = 0,
        is_late: Callable[[], bool] = lambda: False,
        on_trial: Callable[[int, int], None] = lambda number, wanted: None,
    ) -> Recipe:
        return RecipeTuner(trials, journal)(
            architecture,
            tiny_task,
            hidden=4,
            base=base,
            seed=seed,
            is_late=is_late,
            on_trial=on_trial,
        )

    return run


def reopen(architecture: Architecture, journal: Path, trials: int = 4) -> RecipeStudy:
    return RecipeStudy(
        architecture,
        BASE,
        fields=tuple(RANGES),
        trials=trials,
        seeds=SEEDS,
        storage=JournalFile(journal),
    )


def test_the_recipe_is_the_best_of_the_study(
    tune: Tune, architecture: Architecture, tmp_path: Path
) -> None:
    found = tune(journal=tmp_path / JOURNAL)
    study = reopen(architecture, tmp_path / JOURNAL)
    assert study.ask() is None
    assert [row.state for row in study.rows()] == ["done"] * 8
    assert found == study.best
    untuned = found.model_dump(exclude=set(RANGES))
    assert untuned == BASE.model_dump(exclude=set(RANGES))


def test_each_trial_is_told(tune: Tune) -> None:
    told: list[tuple[int, int]] = []
    tune(trials=4, on_trial=lambda number, wanted: told.append((number, wanted)))
    assert told == [(number, 8) for number in range(1, 9)]


def test_a_tuning_depends_on_nothing_but_its_seed(tune: Tune) -> None:
    assert tune(trials=6, seed=1) == tune(trials=6, seed=1)


def test_the_test_part_is_never_read(tune: Tune, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_look(*_: object) -> float:
        raise AssertionError("the test part was read")

    monkeypatch.setattr(work, "read_test", no_look)
    tune()


@pytest.mark.parametrize("late", [1, 2, 9, 30, 66])
def test_it_ends_when_it_is_late(
    tune: Tune, architecture: Architecture, tmp_path: Path, late: int
) -> None:
    """Nothing but the trial under way is left, and not one more epoch of it is done."""
    asked = 0

    def is_late() -> bool:
        nonlocal asked
        asked += 1
        return asked >= late

    found = tune(journal=tmp_path / JOURNAL, is_late=is_late)
    assert asked <= late + 1, "once in the training, and once before the next trial"
    study = reopen(architecture, tmp_path / JOURNAL)
    assert found == study.best
    states = [row.state for row in study.rows()]
    assert states.count("stopped early") <= 1
    assert len(states) < study.wanted


def test_without_any_time_the_recipe_stays(tune: Tune) -> None:
    told: list[int] = []
    found = tune(is_late=lambda: True, on_trial=lambda number, _: told.append(number))
    assert (found, told) == (BASE, [])


def test_a_trial_that_throws_is_failed_and_the_others_go_on(
    tune: Tune, architecture: Architecture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    do, begun = TrainingWork.do, 0

    def throw_once(self: TrainingWork, *arguments: object) -> object:
        nonlocal begun
        begun += 1
        if begun == 2:
            raise DivergedError("The loss is gone.")
        return do(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(TrainingWork, "do", throw_once)
    tune(journal=tmp_path / JOURNAL)
    rows = reopen(architecture, tmp_path / JOURNAL).rows()
    assert [row.state for row in rows] == ["done", "failed"] + ["done"] * 5
    assert rows[1].reason == "The loss is gone."


def test_where_every_trial_diverges_the_recipe_stays(
    tune: Tune, monkeypatch: pytest.MonkeyPatch
) -> None:
    def throw(*_: object) -> object:
        raise DivergedError("The loss is gone.")

    monkeypatch.setattr(TrainingWork, "do", throw)
    assert tune() == BASE


@pytest.mark.parametrize("place", [1, 4, 6])
def test_an_interrupted_tuning_repeats_nothing_and_comes_to_the_same_end(
    tune: Tune, architecture: Architecture, tmp_path: Path, place: int
) -> None:
    def stop(number: int, _: int) -> None:
        if number == place:
            raise KeyboardInterrupt

    expected = tune(journal=tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        tune(journal=tmp_path / JOURNAL, on_trial=stop)
    told: list[int] = []
    found = tune(journal=tmp_path / JOURNAL, on_trial=lambda number, _: told.append(number))
    assert found == expected
    assert told == list(range(place, 9))
    vals = [
        [row.val for row in reopen(architecture, tmp_path / name).rows()]
        for name in ("whole", JOURNAL)
    ]
    assert vals[0] == vals[1]


@pytest.mark.parametrize(("trials", "trainings"), [(1, 6), (3, 18), (4, 24), (10, 36)])
def test_all_its_trainings_are_counted(
    tune: Tune, trials: int, trainings: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert RecipeTuner(trials).trainings == trainings
    done: list[int] = []
    do = TrainingWork.do

    def counted(self: TrainingWork, *arguments: object) -> object:
        done.extend(self.seeds)
        return do(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(TrainingWork, "do", counted)
    tune(trials=trials)
    assert len(done) == trainings
