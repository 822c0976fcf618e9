"""Costs are estimated from a few steps, and a search is fitted to its budget."""

import re

import pytest
from tests.pipeline.conftest import (
    LEAST,
    MEASURING,
    RESERVE,
    RIVALS,
    SHORT,
    TIMED,
    Clock,
    Events,
    Tuned,
    lean,
    planned,
    short,
)

from pdnas.architecture import Architecture, BlockSpec
from pdnas.errors import SearchError
from pdnas.pipeline import search
from pdnas.runs import HISTORY, RunDirectory
from pdnas.search.pdnas import PRESETS
from pdnas.tasks import GraphTask
from pdnas.training import Recipe


def test_what_is_not_given_up_early_is_estimated_as_a_whole(
    tiny_task: GraphTask, clock: Clock
) -> None:
    strategy = SHORT["strategy"].changed(pool=1, adapted=0)
    job = short(recipe=Recipe(epochs=16), strategy=strategy, candidates=4, mutations=2, repeats=5)
    mine = Architecture(blocks=(BlockSpec(), BlockSpec()))
    for incumbents in ((), (mine,)):
        plan = planned(tiny_task, job.model_copy(update={"incumbents": incumbents}))
        count = len(incumbents)
        # Three of six cannot fall behind, three end after a quarter; the best are repeated.
        whole, quarters = 3 + count + 5 * (3 + count), 3
        assert plan.candidate_seconds == 1.0 + 0.5 * (16 * whole + 4 * quarters)


def test_teachers_are_part_of_the_estimate(tiny_task: GraphTask, clock: Clock) -> None:
    alone, taught = (
        planned(tiny_task, short(recipe=Recipe(epochs=2, teachers=count))) for count in (0, 3)
    )
    assert taught.final_seconds == 4 * alone.final_seconds
    assert taught.candidate_seconds == alone.candidate_seconds


def test_repeats_are_part_of_the_estimate(tiny_task: GraphTask, clock: Clock) -> None:
    once, thrice = (planned(tiny_task, short(repeats=count)) for count in (1, 3))
    assert thrice.candidate_seconds >= once.candidate_seconds + 2 * 3 * 0.5


def test_a_tuning_is_estimated_as_the_tuner_says(tiny_task: GraphTask, clock: Clock) -> None:
    plain, tuned = (planned(tiny_task, short(tune=tune), tuner=Tuned()) for tune in (0, 5))
    assert (plain.tune_seconds, tuned.tune_seconds) == (0.0, 7 * 2 * 0.5)
    assert tuned.seconds == plain.seconds + tuned.tune_seconds


def test_costs_are_estimated_from_a_few_steps(tiny_task: GraphTask, clock: Clock) -> None:
    plan, each = planned(tiny_task, short()), 2 * 0.5  # two epochs
    assert (plan.epochs, plan.epoch_seconds) == (6, 0.5)
    assert plan.search_seconds >= 6 * 1.0
    assert plan.candidate_seconds >= (2 + 1 + 3) * 0.5, "each ends after a quarter, one epoch here"
    assert plan.tune_seconds == 0.0
    assert plan.final_seconds == 2 * 2 * each, "two networks, each of them twice"
    assert plan.seconds == plan.search_seconds + plan.candidate_seconds + plan.final_seconds


@pytest.mark.parametrize("adapted", [0, 4])
def test_a_job_takes_no_longer_than_estimated(
    tiny_task: GraphTask, clock: Clock, adapted: int
) -> None:
    began, events = clock.now, Events()
    strategy = SHORT["strategy"].changed(adapted=adapted, adapt_epochs=5)
    search(tiny_task, lean(strategy=strategy), watcher=events)
    assert clock.now - began - MEASURING <= events.plans[0].seconds


def test_costs_of_a_grid_are_those_of_all_its_cells(tiny_task: GraphTask, clock: Clock) -> None:
    one, two = (planned(tiny_task, short(hidden=hidden)) for hidden in [(4,), (2, 4)])
    assert two.search_seconds == 2 * one.search_seconds
    assert two.candidate_seconds >= one.candidate_seconds + 2 * 2 * 0.5
    assert two.final_seconds == one.final_seconds


@pytest.mark.parametrize("budget", [0.001, LEAST - 0.1])
def test_an_impossible_budget_is_refused(
    tiny_task: GraphTask, clock: Clock, run: RunDirectory, budget: float
) -> None:
    events = Events()
    with pytest.raises(SearchError, match="too small for this job; the least is about") as no:
        search(tiny_task, short(budget_seconds=budget), run=run, watcher=events)
    least = re.search(r"least is about (\d+) seconds: raise --budget-seconds", str(no.value))
    assert least is not None
    assert LEAST <= int(least[1]) <= LEAST + 2
    assert "\n" not in str(no.value)
    assert events.seen == []
    assert not run.has(HISTORY)


def test_a_search_is_shortened_to_fit_the_budget(tiny_task: GraphTask, clock: Clock) -> None:
    """It has 45 % of what is left between the measuring and the end."""
    strategy = PRESETS["paper"].changed(epochs=100)
    for roomy in (None, 1000):
        assert planned(tiny_task, short(strategy=strategy, budget_seconds=roomy)).epochs == 100
    for left in (40, 20):
        job = short(strategy=strategy, budget_seconds=MEASURING + left + RESERVE)
        plan = planned(tiny_task, job)
        assert 0.45 * left - 2 <= plan.search_seconds <= 0.45 * left
        assert 0.45 * left - 2 <= plan.epochs <= 0.45 * left


@pytest.mark.parametrize("epochs", [1, 3])
def test_a_search_may_have_few_epochs(
    tiny_task: GraphTask, monkeypatch: pytest.MonkeyPatch, epochs: int
) -> None:
    monkeypatch.setattr("pdnas.pipeline.plan.TIMED", TIMED)
    result = search(tiny_task, lean(strategy=SHORT["strategy"].changed(epochs=epochs)))
    assert result.search is not None
    assert result.search.epochs == epochs


def test_a_search_of_trainings_is_estimated_by_its_trainings(
    tiny_task: GraphTask, clock: Clock
) -> None:
    events = Events()
    search(
        tiny_task,
        short(strategy=RIVALS["random"], recipe=Recipe(epochs=4), seeds=1),
        watcher=events,
    )
    assert events.plans[0].epoch_seconds == 0.5
    assert events.plans[0].search_seconds == 5 * 3 * 0.5
