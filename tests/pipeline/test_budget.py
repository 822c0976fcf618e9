"""A job ends within its budget, of seconds or of trials, and uses what there is of it."""

import math
from collections.abc import Callable

import pytest
from tests.pipeline.conftest import (
    LEAST,
    RESERVE,
    RIVALS,
    ROOM,
    WHOLE,
    Clock,
    Counter,
    Events,
    Tuned,
    lean,
    planned,
    short,
    validation,
)

from pdnas.errors import SearchError
from pdnas.pipeline import search
from pdnas.pipeline.contest import CLIMBERS, SURE, ranked
from pdnas.runs import RunDirectory
from pdnas.search import STRATEGIES
from pdnas.tasks import GraphTask
from pdnas.training import Recipe


def test_a_candidate_that_the_budget_cut_short_is_in_no_mean(
    tiny_task: GraphTask, clock: Clock
) -> None:
    recipe = Recipe(epochs=40, patience=80)
    for budget in (60, 100, 130, 150):
        job = short(recipe=recipe, repeats=4, mutations=0, seeds=1, controls=())
        result = search(tiny_task, job.model_copy(update={"budget_seconds": float(budget)}))
        assert result.search is not None
        again = [trial for trial in result.search.trials if trial.seed > job.trial_seed]
        assert {trial.epochs for trial in again} <= {40}, budget
    assert again, "with time enough some are trained again"


ALMOST = CLIMBERS * (SURE - 1) - 5
"""Trainings at the end of a climb of what was trained already; what they take is an estimate."""


def test_the_rest_of_a_budget_is_spent_on_what_trainings_promise(
    tiny_task: GraphTask, clock: Clock
) -> None:
    job = short(mutations=0, seeds=1, controls=(), budget_seconds=ROOM)
    began = clock.now
    result = search(tiny_task, job)
    assert 0.65 * ROOM < clock.now - began <= ROOM
    assert result.search is not None
    assert result.search.stopped is None
    networks = ranked(result.search.trials)
    assert len(networks) > 12
    assert sum(len(own) - 1 for own in networks) >= ALMOST


def test_a_climb_that_was_stopped_goes_on_as_long_as_it_would_have(
    tiny_task: GraphTask, clock: Clock, run: RunDirectory
) -> None:
    job = short(mutations=0, seeds=1, controls=(), budget_seconds=ROOM)
    whole = search(tiny_task, job)
    with pytest.raises(KeyboardInterrupt):
        search(tiny_task, job, run=run, watcher=Events("candidate 9 epoch 1"))
    again = search(tiny_task, job, run=run)
    assert whole.search is not None
    assert again.search is not None
    assert abs(len(whole.search.trials) - len(again.search.trials)) <= 2
    assert sum(len(own) - 1 for own in ranked(again.search.trials)) >= ALMOST


def test_a_climb_leaves_trials_for_the_choice(tiny_task: GraphTask, clock: Clock) -> None:
    job = short(mutations=0, seeds=1, controls=(), budget_seconds=600, budget_trials=40)
    result = search(tiny_task, job)
    assert result.search is not None
    assert len(result.search.trials) <= 40
    networks = ranked(result.search.trials)
    assert sum(len(own) - 1 for own in networks) >= ALMOST


def test_who_trains_what_it_tries_has_the_time_that_the_rest_does_not_need(
    tiny_task: GraphTask, clock: Clock
) -> None:
    endless = STRATEGIES["random"].model_validate({"name": "random", "epochs": 9999})
    job = short(
        strategy=endless, candidates=3, mutations=0, seeds=1, controls=(), budget_seconds=ROOM
    )
    began = clock.now
    result = search(tiny_task, job)
    assert 0.8 * ROOM < clock.now - began <= ROOM
    assert result.search is not None
    assert result.search.stopped is None
    assert result.search.epochs > 40
    assert [trial.epochs for trial in result.search.trials] == [2] * 6, "three, and three again"


def test_a_search_of_trainings_that_was_stopped_goes_on_as_long_as_it_would_have(
    tiny_task: GraphTask, clock: Clock, run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pdnas.pipeline.searches.CHECKPOINT_SHARE", 1e9)
    endless = STRATEGIES["random"].model_validate({"name": "random", "epochs": 9999})
    job = lean(strategy=endless, recipe=Recipe(epochs=2), budget_seconds=ROOM)
    whole = search(tiny_task, job)
    with pytest.raises(KeyboardInterrupt):
        search(tiny_task, job, run=run, watcher=Events("search 2x4 epoch 55"))
    again = search(tiny_task, job, run=run)
    assert whole.search is not None
    assert again.search is not None
    assert whole.search.epochs > 60
    assert abs(whole.search.epochs - again.search.epochs) <= 3


def test_a_tuning_is_told_when_nine_tenths_of_the_budget_are_spent(
    tiny_task: GraphTask, clock: Clock
) -> None:
    began, ended, budget = clock.now, [], 100.0

    def takes(is_late: Callable[[], bool]) -> None:
        while not is_late():
            clock.now += 0.25
        ended.append(clock.now - began)

    job = short(mutations=0, tune=9, budget_seconds=budget)
    result = search(tiny_task, job, tuner=Tuned(takes))
    limit = 0.9 * (budget - RESERVE)
    assert limit < ended[0] <= limit + 0.25
    assert clock.now - began <= budget
    assert result.search is not None
    assert result.search.stopped is None
    assert 0 < result.tune_seconds <= ended[0]


def test_time_spent_before_counts(tiny_task: GraphTask, clock: Clock) -> None:
    with pytest.raises(
        SearchError, match=f"the least is about {math.ceil(LEAST + 10) + 1} seconds"
    ):
        search(tiny_task, short(budget_seconds=LEAST + 9), started=clock.now - 10)


@pytest.mark.parametrize("budget", [LEAST, LEAST + 9, WHOLE - 0.1, WHOLE])
def test_a_job_ends_within_its_budget(tiny_task: GraphTask, clock: Clock, budget: float) -> None:
    began = clock.now
    result = search(tiny_task, short(recipe=Recipe(epochs=8), mutations=0, budget_seconds=budget))
    assert clock.now - began <= budget
    assert result.search is not None
    done = [len(result.val.values), *(len(c.val.values) for c in result.search.controls)]
    assert result.search.stopped == (None if done == [2, 2] else "budget")
    assert (result.search.stopped is None) == (budget >= WHOLE)
    left_out = [text for text in result.search.warnings if "left out a part" in text]
    assert len(left_out) == (result.search.stopped is not None)
    assert all(("found has" in text) == (done[0] < 2) for text in left_out)
    assert validation(result, tiny_task) == pytest.approx(max(result.val.values), abs=1e-6)


def test_a_training_that_the_budget_cut_short_is_not_called_whole(
    tiny_task: GraphTask, clock: Clock
) -> None:
    job = short(recipe=Recipe(epochs=400), seeds=1, controls=(), budget_seconds=40)
    result = search(tiny_task, job)
    assert result.epochs[0] < 100
    assert result.search is not None
    assert result.search.stopped == "budget"


@pytest.mark.parametrize("place", ["search 2x4 epoch 4", "candidate 2 epoch 7"])
def test_time_before_an_interrupt_counts(
    tiny_task: GraphTask, clock: Clock, run: RunDirectory, place: str
) -> None:
    began, job = (
        clock.now,
        short(recipe=Recipe(epochs=8), controls=("gcn", "gat"), budget_seconds=WHOLE),
    )
    with pytest.raises(KeyboardInterrupt):
        search(tiny_task, job, run=run, watcher=Events(place))
    result = search(tiny_task, job, run=run)
    assert clock.now - began <= WHOLE
    assert result.search is not None
    assert result.search.stopped == "budget"


@pytest.mark.parametrize(("budget", "searched"), [(4, 3), (6, 4), (100, 5)])
def test_the_budget_of_trials_is_kept(tiny_task: GraphTask, budget: int, searched: int) -> None:
    """Three quarters of it are the search's, at most."""
    counter = Counter()
    search(
        tiny_task,
        short(
            strategy=RIVALS["random"],
            recipe=Recipe(epochs=2),
            candidates=6,
            repeats=3,
            budget_trials=budget,
        ),
        watcher=counter,
    )
    assert counter.alone == searched
    assert counter.alone + counter.trials <= budget
    assert counter.trials > 0


def test_a_budget_of_trials_is_kept_over_a_grid_or_refused(tiny_task: GraphTask) -> None:
    grid = short(
        strategy=RIVALS["random"],
        recipe=Recipe(epochs=2),
        blocks=(1, 2),
        hidden=(4, 8),
        controls=(),
    )
    with pytest.raises(SearchError, match=r"too few for 4 search\(es\).* give 5 at least"):
        search(tiny_task, grid.model_copy(update={"budget_trials": 4}))
    for budget in (5, 6, 9):
        counter = Counter()
        search(tiny_task, grid.model_copy(update={"budget_trials": budget}), watcher=counter)
        assert counter.alone + counter.trials <= budget
        assert counter.trials > 0


def test_of_shared_weights_the_budget_of_trials_limits_the_candidates_alone(
    tiny_task: GraphTask,
) -> None:
    counter = Counter()
    result = search(
        tiny_task,
        short(recipe=Recipe(epochs=2), candidates=6, budget_trials=2),
        watcher=counter,
    )
    assert result.search is not None
    assert (counter.alone, counter.trials) == (0, 2)
    assert result.search.epochs == short().strategy.epochs


def test_a_training_within_the_search_ends_with_the_budget(
    tiny_task: GraphTask, clock: Clock
) -> None:
    """Alone the first training would take ten times as long as there is."""
    long = RIVALS["random"].changed(train_epochs=2000)
    result = search(
        tiny_task,
        short(strategy=long, recipe=Recipe(epochs=2000, patience=2000), budget_seconds=100),
    )
    assert result.search is not None
    assert result.search.stopped == "budget"
    assert clock.now - 1000.0 < 110


def test_a_search_of_trainings_is_ended_by_the_clock_alone(
    tiny_task: GraphTask, clock: Clock
) -> None:
    """A whole training of it would take 100 seconds; patience, or the clock, ends it sooner."""
    strategy = STRATEGIES["random"].model_validate({"name": "random", "epochs": 50})
    job = lean(strategy=strategy, recipe=Recipe(epochs=400, patience=5), budget_seconds=60)
    assert planned(tiny_task, job).epochs == 50
    began = clock.now
    result = search(tiny_task, job)
    assert clock.now - began <= 60
    assert result.search is not None
    assert 1 < result.search.epochs < 50
