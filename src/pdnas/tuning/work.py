"""What can be done in another process: a training, or a search, and what is sent back."""

import shutil
import statistics
import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from pdnas.architecture import Architecture
from pdnas.errors import PdnasError
from pdnas.job import Job, Plan, Progress
from pdnas.models import AnyDesign
from pdnas.pipeline import Pipeline
from pdnas.runs import PIPELINE, SETTINGS, Record, RunDirectory
from pdnas.tasks import GraphTask
from pdnas.training import Recipe
from pdnas.training.fit import Epoch, read_test
from pdnas.training.seeds import train_once
from pdnas.watcher import Watcher

RUNGS = (25, 50, 100, 200, 400)
"""Epochs at which a training reports, and may be told to stop."""

Report = Callable[[int, float], bool]
"""Told an epoch and the best validation so far; whether to stop."""


class Work(Record, ABC):
    """A piece of work, small enough to be sent anywhere.

    Args:
        task: Which of the tasks that whoever works was given.
        split_seed: Which split of the task's split's name; none: the task's own.
    """

    task: str
    split_seed: int | None = None

    @property
    def folder(self) -> Path | None:
        """Where it writes; none: nowhere."""
        return None

    def within(self, folder: Path) -> Self:  # noqa: ARG002
        """The same work, which writes to another folder if it writes to any."""
        return self

    def on_split(self, task: GraphTask) -> GraphTask:
        """The task on the split of this work."""
        if self.split_seed is None or self.split_seed == task.split.seed:
            return task
        return task.with_split(task.split.name, self.split_seed)

    @abstractmethod
    def do(self, task: GraphTask, report: Report) -> dict[str, Any]:
        """Do it on a task that is on its device; what came out, as plain values."""


class Trained(Record):
    """What one training came to.

    Args:
        seed: Of the weights and the dropout.
        val: Validation at the chosen epoch.
        test: Test there, where it was to be read.
        epoch: The chosen one.
        epochs: How many were run.
        seconds: How long they took.
    """

    seed: int
    val: float
    test: float | None
    epoch: int
    epochs: int
    seconds: float


class TrainingOutcome(Record):
    """What the trainings of an architecture came to.

    Args:
        trainings: Seed by seed.
        parameters: Number of weights.
        pruned: Whether the first was told to stop; then there is no other.
    """

    trainings: tuple[Trained, ...]
    parameters: int
    pruned: bool = False

    @property
    def mean_val(self) -> float:
        """Mean validation of the trainings."""
        return statistics.fmean(training.val for training in self.trainings)


class TrainingWork(Work):
    """Train an architecture with some seeds.

    Args:
        architecture: What.
        hidden: Channels between its blocks.
        recipe: How.
        seeds: Of the trainings.
        tested: Whether the test part is read; only where nothing is chosen any more.
    """

    architecture: AnyDesign
    hidden: int
    recipe: Recipe
    seeds: tuple[int, ...]
    tested: bool = False

    def do(
        self, task: GraphTask, report: Report, is_late: Callable[[], bool] = lambda: False
    ) -> dict[str, Any]:
        """See :meth:`Work.do`; whoever has no more time ends it at any epoch, as if pruned."""
        task = self.on_split(task)
        trainings: list[Trained] = []
        stopped = False
        for seed in self.seeds:
            best = 0.0

            def stop(epoch: Epoch, first: bool = not trainings) -> bool:
                nonlocal best, stopped
                best = max(best, epoch.val)
                if first and epoch.epoch + 1 in RUNGS:
                    stopped = report(epoch.epoch + 1, best)
                stopped = stopped or is_late()
                return stopped

            network, fit = train_once(
                self.architecture,
                task,
                hidden=self.hidden,
                recipe=self.recipe,
                seed=seed,
                stop=stop,
            )
            trained = Trained(
                seed=seed,
                val=fit.val,
                test=read_test(network, task) if self.tested else None,
                epoch=fit.epoch,
                epochs=fit.epochs,
                seconds=fit.seconds,
            )
            trainings.append(trained)
            if stopped:
                break
        return TrainingOutcome(
            trainings=tuple(trainings),
            parameters=self.architecture.parameters(task, self.hidden),
            pruned=stopped,
        ).model_dump(mode="json")


class SearchOutcome(Record):
    """What a search chose.

    Args:
        architecture: The choice.
        hidden: Its hidden size.
        val: Mean validation of its brief trainings.
        warnings: What went wrong, a sentence each.
    """

    architecture: Architecture
    hidden: int
    val: float
    warnings: tuple[str, ...]


class SearchWork(Work):
    """Search, and choose among the candidates by validation; the test part is not read.

    Args:
        job: The search.
        run: The folder to write it to, where a search that was begun goes on; none: nowhere.
    """

    job: Job
    run: Path | None = None

    @property
    def folder(self) -> Path | None:
        return self.run

    def within(self, folder: Path) -> Self:
        return self.model_copy(update={"run": folder})

    def begin(self, task: GraphTask, plan: Plan | None = None) -> Pipeline:
        """The search at work, in its folder if it has one.

        Args:
            task: On the split of this work.
            plan: What it is planned to do; none: that is found out.
        """
        run = None
        if self.run is not None:
            known = (self.run / SETTINGS).is_file()
            if self.run.is_dir() and not known:
                shutil.rmtree(self.run)  # whoever made it died before anything else was written
            run = RunDirectory.open(self.run) if known else RunDirectory.create(self.run, "search")
            if plan is not None and not run.has(PIPELINE):
                run.write_json(PIPELINE, Progress.new(self.job, task, plan))
            if not known:
                run.write_json(SETTINGS, self.model_copy(update={"run": None}))
        return Pipeline(self.job, task, run=run, watcher=Watcher(), started=time.monotonic())

    def do(self, task: GraphTask, report: Report) -> dict[str, Any]:  # noqa: ARG002
        pipeline = self.begin(self.on_split(task))
        chosen = pipeline.choose()
        cells = pipeline.progress.cells
        return SearchOutcome(
            architecture=chosen.architecture,
            hidden=chosen.hidden,
            val=pipeline.choice_val,
            warnings=tuple(warning for cell in cells for warning in cell.warnings),
        ).model_dump(mode="json")


def reason_of(error: BaseException) -> str:
    """Why work failed, in a line."""
    text = " ".join(str(error).split())
    if isinstance(error, PdnasError):
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def failure_of(error: BaseException) -> str:
    """Why work failed, in a line; of what nobody foresaw, with its place."""
    if isinstance(error, PdnasError):
        return reason_of(error)
    place = traceback.extract_tb(error.__traceback__)[-1]
    return f"{reason_of(error)} ({Path(place.filename).name}, line {place.lineno})"
