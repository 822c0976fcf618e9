"""The work that tables are made of: networks found, tuned, trained and tested on one split."""

import itertools
import statistics
import time
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

import torch
from pydantic import Field

from pdnas.architecture import Architecture
from pdnas.compare.curve import Curve, CurveWatcher, Point
from pdnas.errors import DivergedError
from pdnas.job import Job
from pdnas.models import AnyDesign, Design
from pdnas.models.baselines import BASELINES, Baseline
from pdnas.pipeline import Pipeline, brief, grid
from pdnas.pipeline.contest import FINALISTS, best_of
from pdnas.pipeline.race import Race
from pdnas.runs import Count, Record, Seconds, Share, Trial, environment
from pdnas.tasks import GraphTask
from pdnas.training import Recipe
from pdnas.training.fit import Fit
from pdnas.training.seeds import train_once
from pdnas.tuning.inline import RecipeTuner
from pdnas.tuning.pieces import Piece
from pdnas.tuning.work import Report, TrainingOutcome, TrainingWork
from pdnas.watcher import Watcher

FIRST_SHARE = 2 / 3
"""The part of a random search's time in which architectures are drawn."""


class Leg(Record):
    """A network that was chosen by validation and then tested: what a piece of work comes to.

    Args:
        task: On what.
        split: On which kind of split.
        split_seed: On which of them.
        split_sha256: Its fingerprint.
        seed: Of the search.
        row: What the network is called.
        architecture: What it is.
        hidden: Its hidden size.
        parameters: Its number of weights.
        recipe: How it was trained.
        val: Validation of each final training.
        test: Test of each.
        seeds: Their seeds.
        tried: How many architectures were trained to choose it; 0 if it was given.
        choice_val: The validation by which it was chosen, where it was.
        search_seconds: Time that the choice took.
        tune_seconds: Time that the tuning of its recipe took.
        train_seconds: Time of the final trainings.
        environment: Where it was computed, and with what.
        curve: The best validation so far of any network trained on its own, against the seconds of
            the search; nothing where there was none.
        note: What must be said wherever a figure of it is printed.
        work_sha256: Fingerprint of the work that it is what came of.
    """

    task: str
    split: str
    split_seed: Count | None
    split_sha256: str
    seed: Count
    row: str
    architecture: AnyDesign
    hidden: Count
    parameters: Count
    recipe: Recipe
    val: tuple[Share, ...]
    test: tuple[Share, ...]
    seeds: tuple[Count, ...]
    tried: Count = 0
    choice_val: Share | None = None
    search_seconds: Seconds = 0.0
    tune_seconds: Seconds = 0.0
    train_seconds: Seconds
    environment: dict[str, Any]
    curve: tuple[Point, ...] = ()
    note: str = ""
    work_sha256: str = ""


class TableWork(Piece):
    """Work that ends with a tested network.

    Args:
        row: What the network is called.
        seed: Of the search, where there is one.
        seeds: How many final trainings; none of them where only a choice is asked for.
        trials: Recipes to try.
        patience: Of the final trainings; none: as the recipe has it.
        teachers: Of the final trainings.
        sharers: How many works share the memory of a device; none of them is another for that.
    """

    row: str
    seed: int = 0
    seeds: int = 10
    trials: int = 0
    patience: int | None = None
    teachers: int = 0
    sharers: int = Field(default=1, exclude=True)

    @property
    def is_tested(self) -> bool:
        """Whether there are final trainings, of which the test part is read."""
        return self.seeds > 0

    def final_seeds(self) -> tuple[int, ...]:
        """None of those that chose anything."""
        begin = 1000 * (self.seed + 1)
        return tuple(range(begin, begin + self.seeds))

    def finish(
        self,
        task: GraphTask,
        architecture: Design,
        *,
        hidden: int,
        recipe: Recipe,
        **about: Any,
    ) -> dict[str, Any]:
        """Tune the recipe, train with the final seeds, and test."""
        recipe, tune_seconds = tuned(architecture, task, hidden, recipe, self.trials, self.seed)
        if self.patience is not None:
            recipe = recipe.changed(patience=self.patience)
        if self.teachers:
            recipe = recipe.changed(teachers=self.teachers)
        work = TrainingWork(
            task=self.task,
            architecture=architecture,
            hidden=hidden,
            recipe=recipe,
            seeds=self.final_seeds(),
            tested=True,
        )
        outcome = TrainingOutcome.model_validate(work.do(task, lambda _epoch, _val: False))
        return Leg(
            task=task.name,
            split=task.split.name,
            split_seed=task.split.seed,
            split_sha256=task.split.sha256,
            seed=self.seed,
            row=self.row,
            architecture=architecture,
            hidden=hidden,
            parameters=outcome.parameters,
            recipe=recipe,
            val=tuple(training.val for training in outcome.trainings),
            test=tuple(training.test or 0.0 for training in outcome.trainings),
            seeds=self.final_seeds(),
            tune_seconds=tune_seconds,
            train_seconds=sum(training.seconds for training in outcome.trainings),
            environment=environment(task.graphs[0].y.device, torch.get_num_threads()),
            note=task.source.note,
            **about,
        ).model_dump(mode="json")


class GivenWork(TableWork):
    """A network that nobody searched for, with a recipe that is tuned or as it is.

    Args:
        architecture: What.
        hidden: Its hidden size.
        recipe: How it is trained.
    """

    architecture: AnyDesign
    hidden: int
    recipe: Recipe

    def do(self, task: GraphTask, report: Report) -> dict[str, Any]:  # noqa: ARG002
        return self.finish(
            self.on_split(task), self.architecture, hidden=self.hidden, recipe=self.recipe
        )


class HeatWork(GivenWork):
    """A network that is trained to be compared with others; the test part is not read."""

    @property
    def is_tested(self) -> bool:
        return False  # it only chooses

    def do(self, task: GraphTask, report: Report) -> dict[str, Any]:  # noqa: ARG002
        task = self.on_split(task)
        work = TrainingWork(
            task=self.task,
            architecture=self.architecture,
            hidden=self.hidden,
            recipe=self.recipe,
            seeds=self.final_seeds(),
        )
        outcome = TrainingOutcome.model_validate(work.do(task, lambda _epoch, _val: False))
        only_chosen = self.model_copy(update={"seeds": 0})
        return only_chosen.finish(
            task,
            self.architecture,
            hidden=self.hidden,
            recipe=self.recipe,
            choice_val=outcome.mean_val,
            search_seconds=sum(training.seconds for training in outcome.trainings),
        )


class SearchedWork(TableWork):
    """A search, and the network that it found.

    Args:
        job: The search.
        rival: A network that the one found must not be larger than; of the job's hidden sizes only
            the largest that allows this is searched.
    """

    job: Job
    rival: Baseline | None = None

    def job_on(self, task: GraphTask) -> Job:
        """The job with its seed, and with its limit on a task."""
        job = self.job.model_copy(update={"seed": self.seed})
        if self.rival is None:
            return job
        limit = self.rival.architecture.parameters(task, self.rival.hidden)
        job = job.model_copy(update={"max_parameters": limit})
        widest = max(problem.hidden for problem in grid(job, task, Watcher()))
        return job.model_copy(update={"hidden": (widest,)})

    def do(self, task: GraphTask, report: Report) -> dict[str, Any]:  # noqa: ARG002
        task = self.on_split(task)
        job, curve = self.job_on(task), Curve(time.monotonic)
        pipeline = Pipeline(
            job,
            task,
            run=None,
            watcher=CurveWatcher(curve),
            started=curve.began,
            sharers=self.sharers,
        )
        chosen = pipeline.choose()
        return self.finish(
            task,
            chosen.architecture,
            hidden=chosen.hidden,
            recipe=job.recipe,
            tried=len({(t.architecture, t.hidden) for t in pipeline.progress.trials}),
            choice_val=pipeline.choice_val,
            search_seconds=curve.seconds,
            curve=tuple(curve.points),
        )


class RandomWork(SearchedWork):
    """The best of as many random architectures as are trained in the time of a search.

    They are raced as a search's candidates are, and the best of them trained again as often, for
    which a part of the time is kept.

    Args:
        seconds: That time.
    """

    seconds: float

    def do(self, task: GraphTask, report: Report) -> dict[str, Any]:  # noqa: ARG002
        task = self.on_split(task)
        job = self.job_on(task)
        problems = grid(job, task, Watcher())
        generator = torch.Generator().manual_seed(job.seed)
        began, trials = time.monotonic(), list[Trial]()

        def attempt(
            architecture: Architecture, hidden: int, seed: int, others: list[Trial]
        ) -> None:
            """Train, and keep it if it was in time."""
            race = Race([trial.rungs for trial in others], job.recipe.epochs)
            trial = _tried(architecture, task, hidden, job, seed, race)
            if not trials or time.monotonic() - began <= self.seconds:
                trials.append(trial)

        while not trials or time.monotonic() - began < FIRST_SHARE * self.seconds:
            problem = problems[len(trials) % len(problems)]
            attempt(problem.sample(generator), problem.hidden, job.trial_seed, trials)
        leaders = sorted(trials, key=lambda trial: -trial.val)[:FINALISTS]
        for number, leader in itertools.product(range(job.repeats), leaders):
            if time.monotonic() - began < self.seconds:
                attempt(leader.architecture, leader.hidden, job.trial_seed + 1 + number, [])
        chosen = best_of(trials, task)
        own = [
            t.val
            for t in trials
            if (t.architecture, t.hidden) == (chosen.architecture, chosen.hidden)
        ]
        return self.finish(
            task,
            chosen.architecture,
            hidden=chosen.hidden,
            recipe=job.recipe,
            tried=len({(trial.architecture, trial.hidden) for trial in trials}),
            choice_val=statistics.fmean(own),
            search_seconds=time.monotonic() - began,
        )


def controls(work: SearchedWork, found: Leg, names: Iterable[str]) -> dict[str, TableWork]:
    """What a search is compared with, by name, when it is done.

    Args:
        work: The search.
        found: What it came to.
        names: ``random``, for random search in the same time with as many trials of a recipe, and
            baselines, which are trained with the recipe that was tuned for the network found.
    """
    where = work.model_dump(include={"task", "split_seed", "seed", "seeds"})
    made: dict[str, TableWork] = {}
    for name in names:
        if name == "random":
            row = f"random, same cost as {work.row}"
            made[name] = RandomWork(**{**dict(work), "row": row}, seconds=found.search_seconds)
        else:
            made[name] = GivenWork(
                **where,
                row=f"{name}, recipe of {work.row}",
                architecture=BASELINES[name].architecture,
                hidden=found.hidden,
                recipe=found.recipe,
            )
    return made


def tuned(
    architecture: Design,
    task: GraphTask,
    hidden: int,
    base: Recipe,
    trials: int,
    seed: int,
) -> tuple[Recipe, float]:
    """The best recipe of some trials, and the seconds that they took."""
    if not trials:
        return base, 0.0
    began = time.monotonic()
    recipe = RecipeTuner(trials)(
        architecture,
        task,
        hidden=hidden,
        base=base,
        seed=seed + 2**32,
        is_late=lambda: False,
        on_trial=lambda _trial, _wanted: None,
    )
    return recipe, time.monotonic() - began


def _tried(
    architecture: Architecture, task: GraphTask, hidden: int, job: Job, seed: int, race: Race
) -> Trial:
    """A brief training that ends when it falls behind; of validation 0 if it diverges."""
    try:
        _, fit = train_once(
            architecture,
            task,
            hidden=hidden,
            recipe=brief(job.recipe),
            seed=seed,
            stop=race.falls_behind,
        )
    except DivergedError:
        fit = Fit(epoch=0, val=0.0, epochs=0, seconds=0.0)
    return Trial(
        architecture=architecture,
        hidden=hidden,
        seed=seed,
        shared_val=None,
        rungs=race.rungs,
        **asdict(fit),
    )
