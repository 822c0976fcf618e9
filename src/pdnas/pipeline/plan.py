"""What a job will cost, estimated from a few steps, and what a budget leaves of its search."""

import contextlib
import itertools
import math
import statistics
import time
from collections.abc import Callable, Sequence

import torch

from pdnas.errors import DivergedError, SearchError
from pdnas.job import Job, Plan, Tuner
from pdnas.pipeline.budget import CANDIDATE_SHARE, SEARCH_SHARE, reserve
from pdnas.pipeline.contest import FINALISTS, designs
from pdnas.pipeline.race import KEEP_UP, RUNG
from pdnas.search import Problem
from pdnas.training.epochs import WORTHWHILE
from pdnas.training.parallel import agreed
from pdnas.training.seeds import train_once

TIMED = 5
"""Steps from which costs are estimated."""

FEWEST = 10
"""Epochs without which neither a search nor a training is worth its name."""


def make_plan(
    job: Job, problems: Sequence[Problem], tuner: Tuner | None, elapsed: Callable[[], float]
) -> Plan:
    """Estimate the costs from a few steps, and fit the search to the budget.

    Args:
        job: What is to be done.
        problems: The cells of the grid.
        tuner: Tunes the recipe, where the job asks for it.
        elapsed: Tells the seconds that were spent already.
    """
    strategy = job.strategy
    costs = agreed([measure(problem, job) for problem in problems])
    step = sum(search for search, _ in costs)
    training = statistics.fmean(training for _, training in costs)
    whole_training = training * job.recipe.epochs
    raced = job.candidates * len(costs) + job.mutations
    first = min(raced, KEEP_UP)  # these have nobody to fall behind
    again = (FINALISTS + len(job.incumbents)) * job.repeats
    trials = whole_training * (first + len(designs(job, problems)) + again)
    trials += training * (raced - first) * math.ceil(RUNG * job.recipe.epochs)
    tuning = whole_training * tuner.trainings if job.tune and tuner else 0.0
    final = whole_training * job.seeds * (1 + len(job.controls)) * (1 + job.recipe.teachers)
    refines = True
    if job.budget_seconds is not None:
        spent = agreed(elapsed())
        left = job.budget_seconds - spent - reserve(training)
        # A search that trains what it tries has epochs enough in a part of one training.
        some = training * len(costs) if strategy.trained_epochs else step
        least = FEWEST * (some + training) + spent + reserve(training)
        if left < FEWEST * (some + training):
            raise SearchError(
                f"The budget of {job.budget_seconds:g} seconds is too small for this job; the "
                f"least is about {math.ceil(least) + 1} seconds: raise --budget-seconds or "
                "search fewer --blocks and --hidden."
            )
        searching = step * (strategy.epochs + strategy.refining)
        is_enough = left >= searching + trials + tuning + final
        refines = not (is_enough and strategy.climbs)
        # Who trains what it tries has no schedule to fit, and goes on until its time is over.
        if not is_enough and not strategy.trained_epochs:
            part = min(1.0, SEARCH_SHARE * left / searching)
            strategy = strategy.lasting(max(1, int(part * strategy.epochs)))
    if job.budget_trials is not None and strategy.trained_epochs:
        share = int(CANDIDATE_SHARE * job.budget_trials)
        most = min(max(share, len(costs)), job.budget_trials - 1)
        if most < len(costs):
            raise SearchError(
                f"--budget-trials is {job.budget_trials}, too few for {len(costs)} search(es) "
                f"that train what they try; give {len(costs) + 1} at least, better "
                f"{4 * len(costs)}, or search fewer --blocks and --hidden."
            )
        strategy = strategy.lasting(min(strategy.epochs, most // len(costs)))
    return Plan(
        epochs=strategy.epochs,
        search_seconds=step * strategy.epochs,
        candidate_seconds=step * strategy.refining + trials,
        tune_seconds=tuning,
        final_seconds=final,
        epoch_seconds=training,
        refines=refines,
    )


def measure(problem: Problem, job: Job) -> tuple[float, float]:
    """Seconds of an epoch of the search and of a training, from a few of each, thrown away.

    Medians: whatever is done for the first time takes longer than it ever will again. Where an
    epoch of the search is a training, it is as many epochs of that at most.
    """
    strategy, steps = job.strategy, [0.0]
    if not strategy.trained_epochs:
        with strategy.begin(problem) as search:
            steps = [_seconds(search.step) for _ in range(min(TIMED, search.epochs))]
    generator = torch.Generator().manual_seed(job.seed)
    # As many epochs as make it worth to record them, of which only the first are done.
    recipe = job.recipe.changed(epochs=max(TIMED, WORTHWHILE), teachers=0)
    clock: list[float] = []
    for _ in range(2):
        clock.append(time.perf_counter())
        with contextlib.suppress(DivergedError):  # it is the time that matters here
            train_once(
                problem.sample(generator),
                problem.task,
                hidden=problem.hidden,
                recipe=recipe,
                seed=job.seed,
                on_epoch=lambda _: clock.append(time.perf_counter()),
                stop=lambda epoch: epoch.epoch + 1 >= TIMED,
            )
    epochs = [after - before for before, after in itertools.pairwise(clock)]
    training = statistics.median(epochs)
    trained = min(strategy.trained_epochs, job.recipe.epochs)
    return statistics.median(steps) + trained * training, training


def _seconds(action: Callable[[], object]) -> float:
    began = time.perf_counter()
    action()
    return time.perf_counter() - began
