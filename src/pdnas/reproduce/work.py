"""The work that tables are made of: networks found, tuned, trained and tested on one split."""

import time
from typing import Any

import torch

from pdnas.architecture import Architecture
from pdnas.errors import DivergedError
from pdnas.job import Job, Watcher
from pdnas.models.baselines import BASELINES, Baseline
from pdnas.pipeline import Pipeline
from pdnas.runs import Record
from pdnas.search import Problem
from pdnas.tasks import GraphTask
from pdnas.training import Recipe
from pdnas.training.seeds import train_once
from pdnas.tuning.inline import RecipeTuner
from pdnas.tuning.work import Report, TrainingOutcome, TrainingWork, Work


class Leg(Record):
    """A network that was chosen by validation and then tested.

    Args:
        row: What it is called.
        architecture: What.
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
    """

    row: str
    architecture: Architecture
    hidden: int
    parameters: int
    recipe: Recipe
    val: tuple[float, ...]
    test: tuple[float, ...]
    seeds: tuple[int, ...]
    tried: int = 0
    choice_val: float | None = None
    search_seconds: float = 0.0
    tune_seconds: float = 0.0
    train_seconds: float


class Legs(Record):
    """What a piece of work came to.

    Args:
        task: On what.
        split: On which kind of split.
        split_seed: On which of them.
        split_sha256: Its fingerprint.
        seed: Of the search.
        legs: The networks.
    """

    task: str
    split: str
    split_seed: int | None
    split_sha256: str
    seed: int
    legs: tuple[Leg, ...]


class TableWork(Work):
    """Work that ends with tested networks.

    Args:
        seed: Of the search, where there is one.
        seeds: How many final trainings of each network.
    """

    seed: int = 0
    seeds: int = 10

    def final_seeds(self) -> tuple[int, ...]:
        """None of those that chose anything."""
        begin = 1000 * (self.seed + 1)
        return tuple(range(begin, begin + self.seeds))

    def finish(
        self,
        row: str,
        task: GraphTask,
        architecture: Architecture,
        *,
        hidden: int,
        recipe: Recipe,
        **about: Any,
    ) -> Leg:
        """Train with the final seeds, and test."""
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
            row=row,
            architecture=architecture,
            hidden=hidden,
            parameters=outcome.parameters,
            recipe=recipe,
            val=tuple(training.val for training in outcome.trainings),
            test=tuple(training.test or 0.0 for training in outcome.trainings),
            seeds=self.final_seeds(),
            train_seconds=sum(training.seconds for training in outcome.trainings),
            **about,
        )

    def legs(self, task: GraphTask, *legs: Leg) -> dict[str, Any]:
        """The outcome of the work."""
        return Legs(
            task=task.name,
            split=task.split.name,
            split_seed=task.split.seed,
            split_sha256=task.split.sha256,
            seed=self.seed,
            legs=legs,
        ).model_dump(mode="json")


class GivenWork(TableWork):
    """A network that nobody searched for, with a recipe that is tuned or as it is.

    Args:
        row: What it is called.
        architecture: What.
        hidden: Its hidden size.
        recipe: How it is trained.
        trials: Recipes to try.
    """

    row: str
    architecture: Architecture
    hidden: int
    recipe: Recipe
    trials: int = 0

    def do(self, task: GraphTask, report: Report) -> dict[str, Any]:  # noqa: ARG002
        task = self.on_split(task)
        recipe, seconds = tuned(
            self.architecture, task, self.hidden, self.recipe, self.trials, self.seed
        )
        leg = self.finish(
            self.row,
            task,
            self.architecture,
            hidden=self.hidden,
            recipe=recipe,
            tune_seconds=seconds,
        )
        return self.legs(task, leg)


class SearchedWork(TableWork):
    """A search and its controls: random search at the same cost, and given networks.

    The recipe of the network found is tuned, and that of the random one with as many trials. The
    given networks are trained with the recipe that was tuned for the network found.

    Args:
        row: What the network found is called.
        job: The search.
        trials: Recipes to try.
        rival: A network that the one found must not be larger than.
        controls: ``random``, and names of baselines to train with the tuned recipe.
    """

    row: str
    job: Job
    trials: int
    rival: Baseline | None = None
    controls: tuple[str, ...] = ("random", "gcn", "gat")

    def do(self, task: GraphTask, report: Report) -> dict[str, Any]:  # noqa: ARG002
        task = self.on_split(task)
        job = self.job.model_copy(update={"seed": self.seed})
        if self.rival is not None:
            limit = self.rival.architecture.parameters(task, self.rival.hidden)
            job = job.model_copy(update={"max_parameters": limit})
        pipeline = Pipeline(job, task, run=None, watcher=Watcher(), started=time.monotonic())
        began = time.monotonic()
        chosen = pipeline.choose()
        search_seconds = time.monotonic() - began
        recipe, seconds = tuned(
            chosen.architecture, task, chosen.hidden, job.recipe, self.trials, self.seed
        )
        found = self.finish(
            self.row,
            task,
            chosen.architecture,
            hidden=chosen.hidden,
            recipe=recipe,
            tried=len({(t.architecture, t.hidden) for t in pipeline.progress.trials}),
            choice_val=pipeline.choice_val,
            search_seconds=search_seconds,
            tune_seconds=seconds,
        )
        controls = [
            self._random(task, job, search_seconds)
            if name == "random"
            else self.finish(
                f"{name}, recipe of {self.row}",
                task,
                BASELINES[name].architecture,
                hidden=chosen.hidden,
                recipe=recipe,
            )
            for name in self.controls
        ]
        return self.legs(task, found, *controls)

    def _random(self, task: GraphTask, job: Job, budget: float) -> Leg:
        """The best of as many random architectures as are trained in the time of the search."""
        shapes = [(blocks, hidden) for blocks in job.blocks for hidden in job.hidden]
        problems = [
            Problem(task, job.space, blocks, hidden, job.recipe, job.max_parameters)
            for blocks, hidden in shapes
        ]
        generator = torch.Generator().manual_seed(job.seed)
        best: tuple[float, Architecture, int] | None = None
        tried, began = 0, time.monotonic()
        while best is None or time.monotonic() - began < budget:
            problem = problems[tried % len(problems)]
            architecture = problem.sample(generator)
            val = _validation(architecture, task, problem.hidden, job)
            tried += 1
            in_time = time.monotonic() - began <= budget
            if best is None or (in_time and val > best[0]):
                best = (val, architecture, problem.hidden)
        seconds = time.monotonic() - began
        val, architecture, hidden = best
        recipe, tune_seconds = tuned(architecture, task, hidden, job.recipe, self.trials, self.seed)
        return self.finish(
            f"random, same cost as {self.row}",
            task,
            architecture,
            hidden=hidden,
            recipe=recipe,
            tried=tried,
            choice_val=val,
            search_seconds=seconds,
            tune_seconds=tune_seconds,
        )


def tuned(
    architecture: Architecture,
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


def _validation(architecture: Architecture, task: GraphTask, hidden: int, job: Job) -> float:
    """Validation of one whole training; 0 if it diverges."""
    try:
        _, fit = train_once(
            architecture, task, hidden=hidden, recipe=job.recipe, seed=job.trial_seed
        )
    except DivergedError:
        return 0.0
    return fit.val
