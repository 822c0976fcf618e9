"""A whole tuning: the shape, the recipe and the final trainings, once and after a stop."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from optuna.storages import InMemoryStorage

from pdnas.architecture import Architecture
from pdnas.errors import DivergedError, PdnasError
from pdnas.job import Job
from pdnas.runs import (
    CHECKPOINT,
    HISTORY,
    JOURNAL,
    RECIPE,
    SETTINGS,
    Result,
    RunDirectory,
    load_run,
)
from pdnas.search.pdnas import PRESETS, PdnasSearch
from pdnas.space import SPACES
from pdnas.tasks import GraphTask
from pdnas.training import Recipe, seeds, train
from pdnas.tuning import tune as public
from pdnas.tuning import work
from pdnas.tuning.executor import Executor
from pdnas.tuning.ranges import RANGES
from pdnas.tuning.storage import JournalFile, Memory
from pdnas.tuning.study import GridStudy, RecipeStudy, Study
from pdnas.tuning.tune import Tuning, TuningWatcher, _drive
from pdnas.tuning.work import TrainingWork

BASE = Recipe(epochs=4, patience=4)
STRATEGY = PRESETS["default"].changed(pool=4, adapted=1, adapt_epochs=1).lasting(3)
JOB = Job(
    space=SPACES["paper"],
    strategy=STRATEGY,
    blocks=(1,),
    hidden=(4,),
    recipe=BASE,
    seeds=2,
    candidates=1,
    mutations=0,
)

Tune = Callable[..., Result]


@pytest.fixture(autouse=True)
def _measured_in_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pdnas.pipeline.plan.TIMED", 1)


@pytest.fixture
def given(architecture: Architecture) -> Tuning:
    """A tuning of a network that there is."""
    return Tuning(architecture=architecture, search=JOB, trials=3, trial_seeds=1)


@pytest.fixture
def tune(tiny_task: GraphTask, here: Executor) -> Tune:
    """Tunes in this process."""

    def run(tuning: Tuning, path: Path, watcher: TuningWatcher | None = None) -> Result:
        known = path.exists()
        run = RunDirectory(path) if known else RunDirectory.create(path, "test")
        if not known:
            run.write_json(SETTINGS, {"command": "tune"})
        return public(tiny_task, tuning, run=run, executor=here, device="cpu", watcher=watcher)

    return run


def recipes(tuning: Tuning, run: Path) -> RecipeStudy:
    """The study of the recipes of a run, as it was left."""
    assert tuning.architecture is not None
    return RecipeStudy(
        tuning.architecture,
        BASE,
        fields=tuning.fields,
        trials=tuning.trials,
        seeds=tuning.trial_seeds,
        seed=JOB.trial_seed,
        storage=JournalFile(run / JOURNAL),
    )


def plain(result: Result) -> dict[str, Any]:
    """A result without the times."""
    values = result.model_dump(mode="json")
    return {name: value for name, value in values.items() if not name.endswith("seconds")}


def changed(tuning: Tuning, **values: Any) -> Tuning:
    return tuning.model_copy(update=values)


def with_job(tuning: Tuning, **values: Any) -> Tuning:
    return changed(tuning, search=tuning.search.model_copy(update=values))


class Stop(TuningWatcher):
    """Counts what happens, and stops a tuning at one of its moments, as Ctrl-C would.

    Args:
        moment: Which; none: it goes on to the end.
    """

    def __init__(self, moment: int | None = None) -> None:
        self.moment, self.count = moment, 0
        self.epochs: list[int] = []
        self.began_with: list[tuple[str, int, int]] = []

    def _pass(self) -> None:
        self.count += 1
        if self.count == self.moment:
            raise KeyboardInterrupt

    def began(self, what: str, study: Study, wanted: int) -> None:
        self.began_with.append((what, len(study.trials), wanted))

    def changed(self, study: Study) -> None:
        self._pass()

    def trained(self, number: int, epoch: object) -> None:
        self.epochs.append(number)
        self._pass()


def test_what_searches_noticed_about_themselves_is_told(
    tune: Tune, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PdnasSearch, "warnings", lambda _: ["It rained."])
    told: list[str] = []
    watcher = TuningWatcher()
    monkeypatch.setattr(watcher, "noted", told.append)
    tuning = Tuning(search=JOB.model_copy(update={"blocks": (1, 2)}), trials=0)
    tune(tuning, tmp_path / "run", watcher)
    assert told == [f"With {blocks} block(s) and hidden size 4: It rained." for blocks in (1, 2)]


def test_what_the_study_found_best_is_trained_with_the_final_seeds(
    tune: Tune, given: Tuning, architecture: Architecture, tiny_task: GraphTask, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    result = tune(given, run)
    best = recipes(given, run).best
    assert best.batching == "full", "it was decided that the graph fits"
    assert Recipe.load(run / RECIPE) == best.undecided
    expected = train(architecture, tiny_task, hidden=4, recipe=best, seeds=(0, 1), device="cpu")
    assert plain(result) == plain(expected)
    assert result.tune_seconds > 0
    assert load_run(run).model_dump() == result.model_dump()


def test_without_trials_the_recipe_stays(tune: Tune, given: Tuning, tmp_path: Path) -> None:
    result = tune(changed(given, trials=0), tmp_path / "run")
    assert result.recipe == BASE.model_dump()
    assert Recipe.load(tmp_path / "run" / RECIPE) == BASE


def test_hidden_sizes_are_compared_by_validation(
    tune: Tune, given: Tuning, architecture: Architecture, tiny_task: GraphTask, tmp_path: Path
) -> None:
    tuning = with_job(changed(given, trials=0, trial_seeds=2), hidden=(1, 3, 8))
    result = tune(tuning, tmp_path / "run")
    first = JOB.trial_seed
    vals = {
        hidden: train(
            architecture, tiny_task, hidden=hidden, recipe=BASE, seeds=(first, first + 1)
        ).val.mean
        for hidden in (1, 3, 8)
    }
    rows = GridStudy(tuning.cells(), JournalFile(tmp_path / "run" / JOURNAL)).rows()
    assert {row.values["hidden"]: row.val for row in rows} == pytest.approx(vals)
    assert vals[result.hidden] == max(vals.values())


def test_every_shape_is_searched_and_the_best_one_is_trained(tune: Tune, tmp_path: Path) -> None:
    tuning = Tuning(search=JOB.model_copy(update={"blocks": (1, 2), "hidden": (3, 4)}), trials=0)
    result = tune(tuning, tmp_path / "run")
    rows = GridStudy(tuning.cells(), JournalFile(tmp_path / "run" / JOURNAL)).rows()
    assert [row.values for row in rows] == [
        {"blocks": blocks, "hidden": hidden} for blocks in (1, 2) for hidden in (3, 4)
    ]
    best = max(rows, key=lambda row: row.val or 0.0)
    assert result.hidden == best.values["hidden"]
    assert isinstance(result.architecture, Architecture)
    assert result.architecture.num_blocks == best.values["blocks"]
    assert (result.strategy, result.space) == ("pdnas", "paper")
    assert result.search_seconds > 0
    folders = sorted(path.name for path in (tmp_path / "run" / "cells").iterdir())
    assert folders == [f"blocks-{b}-hidden-{h}" for b in (1, 2) for h in (3, 4)]


def test_trials_never_read_the_test_part(
    tune: Tune, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is read once for each final training, when all is chosen."""
    reads: list[bool] = []

    def no_look(*_: object) -> float:
        raise AssertionError("the test part was read")

    def look(*_: object) -> float:
        reads.append((tmp_path / "run" / RECIPE).exists())
        return 0.5

    monkeypatch.setattr(work, "read_test", no_look)
    for place in ("finals", "outcome"):
        monkeypatch.setattr(f"pdnas.pipeline.{place}.read_test", no_look)
    monkeypatch.setattr(seeds, "read_test", look)
    result = tune(Tuning(search=JOB, trials=2, trial_seeds=1), tmp_path / "run")
    assert reads == [True, True]
    assert result.test.values == (0.5, 0.5)


def test_a_tuning_depends_on_nothing_but_its_settings(
    tune: Tune, given: Tuning, tmp_path: Path
) -> None:
    tuning = changed(given, trials=5)
    assert plain(tune(tuning, tmp_path / "one")) == plain(tune(tuning, tmp_path / "two"))


@pytest.mark.parametrize("moment", [1, 2, 5, 9, 14, 16, 20])
def test_a_tuning_that_was_stopped_comes_to_the_same_end(
    tune: Tune, given: Tuning, tmp_path: Path, moment: int
) -> None:
    tuning = with_job(given, hidden=(2, 4))
    expected = tune(tuning, tmp_path / "whole", watcher := Stop())
    assert watcher.count > 20, "all of the moments are before its end"
    run = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        tune(tuning, run, Stop(moment))
    ended = [row for row in recipes(tuning, run).rows() if row.state == "done"]
    assert plain(tune(tuning, run)) == plain(expected)
    study = recipes(tuning, run)
    assert [row for row in study.rows() if row.state == "done"][: len(ended)] == ended
    assert len(study.trials) == study.wanted == 6
    assert (run / HISTORY).read_bytes() == (tmp_path / "whole" / HISTORY).read_bytes()


def test_a_finished_tuning_is_not_done_again(tune: Tune, given: Tuning, tmp_path: Path) -> None:
    first = tune(given, tmp_path / "run", before := Stop())
    second = tune(given, tmp_path / "run", after := Stop())
    assert before.began_with == [("recipes", 0, 6)]
    assert after.began_with == [("recipes", 6, 6)]
    assert (after.count, after.epochs) == (1, []), "it is asked once whether anything is left"
    assert plain(second) == plain(first)


def test_more_trials_are_added_and_the_new_choice_is_trained(
    tune: Tune, given: Tuning, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Trainings of what is no longer the choice do not count."""
    run = tmp_path / "run"
    tune(changed(given, trials=1), run)
    assert Recipe.load(run / RECIPE) == BASE
    monkeypatch.setattr(RecipeStudy, "best", BASE.changed(lr=0.1))
    result = tune(given, run, watcher := Stop())
    assert watcher.began_with == [("recipes", 2, 6)]
    assert sorted(set(watcher.epochs)) == [0, 1]
    assert result.recipe["lr"] == 0.1
    assert Recipe.load(run / RECIPE).lr == 0.1
    assert len((run / HISTORY).read_text().splitlines()) == len(watcher.epochs)


def test_more_trials_with_the_same_choice_reuse_its_trainings(
    tune: Tune, given: Tuning, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "run"
    monkeypatch.setattr(RecipeStudy, "best", BASE)
    first = tune(changed(given, trials=1), run)
    second = tune(given, run, watcher := Stop())
    assert watcher.epochs == []
    assert plain(second) == plain(first)


def test_a_stop_among_the_trainings_of_a_new_choice_keeps_none_of_the_old(
    tune: Tune, given: Tuning, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, other = tmp_path / "run", BASE.changed(lr=0.1)
    tune(changed(given, trials=1), run)
    monkeypatch.setattr(RecipeStudy, "best", other)
    expected = tune(given, tmp_path / "whole", whole := Stop())
    began = whole.count - len(whole.epochs)
    tuned = changed(given, trials=1)
    with pytest.raises(KeyboardInterrupt):
        tune(tuned, run, Stop(2))  # the first epoch of the first training of the new choice
    assert began > 2
    assert not (run / CHECKPOINT).exists()
    assert plain(tune(given, run)) == plain(expected)


def test_a_trial_that_throws_is_recorded_and_the_study_goes_on(
    tune: Tune, given: Tuning, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    do, begun = TrainingWork.do, 0

    def throw_once(self: TrainingWork, *arguments: object) -> object:
        nonlocal begun
        begun += 1
        if begun == 2:
            raise DivergedError("The loss is gone.")
        return do(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(TrainingWork, "do", throw_once)
    result = tune(given, tmp_path / "run")
    rows = recipes(given, tmp_path / "run").rows()
    assert [row.state for row in rows] == ["done", "failed", "done", "done", "done"]
    assert rows[1].reason == "The loss is gone."
    assert len(result.test.values) == 2


def test_recipes_that_all_fail_are_said_to(
    tune: Tune, given: Tuning, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def throw(*_: object) -> object:
        raise DivergedError("The loss is gone.")

    monkeypatch.setattr(TrainingWork, "do", throw)
    noted: list[str] = []
    monkeypatch.setattr(TuningWatcher, "noted", lambda _, sentence: noted.append(sentence))
    result = tune(given, tmp_path / "run")
    assert Recipe.model_validate(result.recipe).undecided == given.search.recipe
    assert noted == ["No recipe could be tried, so it stays as it was: The loss is gone."]


def test_a_grid_of_which_nothing_could_be_tried_is_one_sentence(
    tune: Tune, given: Tuning, tmp_path: Path
) -> None:
    tuning = with_job(given, hidden=(2, 4), recipe=BASE.changed(lr=1e38))
    with pytest.raises(PdnasError, match="No shape of the grid could be tried on tiny: The loss"):
        tune(tuning, tmp_path / "run")


def test_a_shape_that_fails_leaves_the_choice_to_the_others(
    tune: Tune, given: Tuning, tmp_path: Path
) -> None:
    """A network with two channels is too large here, one with a single channel is not."""
    job = JOB.model_copy(update={"hidden": (1, 64), "max_parameters": 60})
    tuning = Tuning(search=job, trials=0)
    result = tune(tuning, tmp_path / "run")
    rows = GridStudy(tuning.cells(), JournalFile(tmp_path / "run" / JOURNAL)).rows()
    assert [row.state for row in rows] == ["done", "failed"]
    assert rows[1].reason.startswith("No network of the space")
    assert result.hidden == 1
    assert result.parameters <= 60


def test_what_another_driver_ends_meanwhile_may_leave_more_to_do(
    architecture: Architecture, here: Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its last recipe of the first round is done just after this driver was told to wait for it."""
    kept = InMemoryStorage()

    def driver(name: str) -> RecipeStudy:
        storage = Memory()
        storage.driver = name
        monkeypatch.setattr(storage, "open", lambda: kept)
        monkeypatch.setattr(storage, "others", lambda: frozenset({"one", "other"} - {name}))
        return RecipeStudy(architecture, BASE, fields=("lr",), trials=1, seeds=1, storage=storage)

    one, other = driver("one"), driver("other")
    first = other.ask()
    assert first is not None
    tried: list[int] = []

    def supply() -> tuple[int, TrainingWork] | None:
        asked = one.ask()
        if asked is None:
            if not tried:
                other.done(first.number, 0.5)
            return None
        tried.append(asked.number)
        return asked.number, TrainingWork(
            task="task", architecture=architecture, hidden=4, recipe=BASE, seeds=asked.seeds
        )

    _drive(
        one,
        here,
        supply,
        reported=lambda _: False,
        finished=lambda event: one.done(event.number, 0.6),
    )
    assert tried == [1], "the second round"
    assert [row.state for row in one.rows()] == ["done", "done"]


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"trials": -1}, "--trials is -1; give 0 to"),
        ({"trials": 10_001}, "--trials is 10001"),
        ({"trial_seeds": 0}, "--trial-seeds is 0; give 1 to"),
        ({"fields": ()}, "nothing to tune"),
        ({"fields": ("lr", "epochs")}, "field to tune 'epochs'"),
        ({"search": JOB.model_copy(update={"seeds": 0})}, "--seeds is 0"),
        ({"search": JOB.model_copy(update={"hidden": ()})}, "--hidden"),
    ],
)
def test_what_makes_no_sense_is_refused(given: Tuning, values: dict[str, Any], said: str) -> None:
    given.check()
    with pytest.raises(PdnasError, match=said):
        changed(given, **values).check()


def test_without_trials_no_field_is_needed(given: Tuning) -> None:
    changed(given, trials=0, fields=()).check()


def test_the_cells_are_the_shapes(given: Tuning) -> None:
    job = JOB.model_copy(update={"blocks": (1, 2), "hidden": (8, 4)})
    assert changed(given, search=job).cells() == [{"hidden": 8}, {"hidden": 4}]
    assert Tuning(search=job).cells() == [
        {"blocks": blocks, "hidden": hidden} for blocks in (1, 2) for hidden in (8, 4)
    ]


def test_all_that_decides_a_tuning_can_be_written_down(given: Tuning) -> None:
    for tuning in (given, Tuning(), Tuning(search=JOB, fields=("lr",))):
        assert Tuning.model_validate(json.loads(tuning.model_dump_json())) == tuning
    assert Tuning().fields == tuple(RANGES)
