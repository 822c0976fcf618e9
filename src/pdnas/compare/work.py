"""The work that a comparison is made of: one rival with one seed, from its start to its test."""

from abc import abstractmethod
from pathlib import Path
from typing import Any

import torch
from pydantic import Field, ValidationError

from pdnas.architecture import Architecture
from pdnas.compare.curve import Curve, CurveWatcher, Point, Seconds
from pdnas.job import Job
from pdnas.models.baselines import BASELINES
from pdnas.pipeline import Pipeline, reserve
from pdnas.runs import Count, Record, Share, environment
from pdnas.tasks import GraphTask
from pdnas.training import Recipe
from pdnas.training.fit import Epoch, read_test
from pdnas.training.memory import load_of, settle
from pdnas.training.seeds import train_once
from pdnas.tuning.pieces import Piece
from pdnas.tuning.work import Report


class Attempt(Record):
    """What a rival comes to with one seed.

    Args:
        rival: Its name.
        seed: Of everything that is random in it.
        curve: The best validation so far of any network trained on its own, against seconds.
        val: Validation of the network that was chosen, in its last training.
        test: Test of it, read once.
        parameters: Its number of weights.
        hidden: Its hidden size.
        seconds: Time of everything, from the start to the test.
        trainings: How many trainings of networks on their own that took, the last one included.
        architecture: What was chosen; none for a baseline, which its name tells.
        recipe: How it was trained.
        warnings: What went wrong, a sentence each.
        task: On what.
        split: On which kind of split.
        split_sha256: Its fingerprint.
        environment: Where it was computed, and with what.
        work_sha256: Fingerprint of the work that it is what came of.
    """

    rival: str
    seed: Count
    curve: tuple[Point, ...]
    val: Share
    test: Share
    parameters: Count
    hidden: Count
    seconds: Seconds
    trainings: Count
    architecture: Architecture | None
    recipe: Recipe
    warnings: tuple[str, ...] = ()
    task: str
    split: str
    split_sha256: str
    environment: dict[str, Any]
    work_sha256: str = ""


def read_attempt(path: Path) -> Attempt | None:
    """What a rival came to, from its file in a comparison; none: it is another kind of file."""
    try:
        return Attempt.model_validate_json(path.read_bytes())
    except (OSError, ValidationError):
        return None


class RivalWork(Piece):
    """A rival with a seed.

    Args:
        rival: Its name.
        seed: Of everything that is random in it.
        sharers: How many attempts share the memory of a device; none of them is another for that.
    """

    rival: str
    seed: int
    sharers: int = Field(default=1, exclude=True)

    @abstractmethod
    def attempt(self, task: GraphTask, curve: Curve) -> dict[str, Any]:
        """Do it and draw the curve; what of an :class:`Attempt` is the rival's own."""

    def do(self, task: GraphTask, report: Report) -> dict[str, Any]:  # noqa: ARG002
        task, curve = self.on_split(task), Curve()
        came = self.attempt(task, curve)
        return Attempt(
            rival=self.rival,
            seed=self.seed,
            curve=tuple(curve.points),
            seconds=curve.seconds,
            task=task.name,
            split=task.split.name,
            split_sha256=task.split.sha256,
            environment=environment(task.graphs[0].y.device, torch.get_num_threads()),
            **came,
        ).model_dump(mode="json")


class StrategyWork(RivalWork):
    """A search, and one training of the network that it chose.

    Args:
        job: The search.
    """

    job: Job

    def attempt(self, task: GraphTask, curve: Curve) -> dict[str, Any]:
        watcher = CurveWatcher(curve)
        result = Pipeline(
            self.job,
            task,
            run=None,
            watcher=watcher,
            started=curve.began,
            sharers=self.sharers,
        ).run()
        assert result.search is not None
        watcher.finished(result.val.mean)
        return {
            "val": result.val.mean,
            "test": result.test.mean,
            "parameters": result.parameters,
            "hidden": result.hidden,
            "trainings": watcher.trainings,
            "architecture": result.architecture,
            "recipe": result.recipe,
            "warnings": result.search.warnings,
        }


class BaselineWork(RivalWork):
    """One training of a network that somebody designed, which is named as the rival is.

    Args:
        recipe: How.
        budget_seconds: How long it may take.
    """

    recipe: Recipe
    budget_seconds: float | None = None

    def attempt(self, task: GraphTask, curve: Curve) -> dict[str, Any]:
        baseline, limit = BASELINES[self.rival], self.budget_seconds
        epochs, warnings = 0, set[str]()

        def is_late(_: Epoch) -> bool:
            """With as much kept for the end as a search keeps; asked by teachers too."""
            nonlocal epochs
            epochs += 1
            if limit is None or curve.seconds <= limit - reserve(curve.seconds / epochs):
                return False
            warnings.add("The budget ended its training early.")
            return True

        device = task.graphs[0].y.device
        load = load_of(baseline.design, task, baseline.hidden, self.recipe, device)
        recipe = settle(
            self.recipe, task, load, device=device, tell=warnings.add, sharers=self.sharers
        )
        network, outcome = train_once(
            baseline.design,
            task,
            hidden=baseline.hidden,
            recipe=recipe,
            seed=self.seed,
            on_epoch=lambda epoch: curve.note(epoch.val),
            stop=is_late,
        )
        return {
            "val": outcome.val,
            "test": read_test(network, task),
            "parameters": sum(weight.numel() for weight in network.parameters()),
            "hidden": baseline.hidden,
            "trainings": 1,
            "architecture": None,
            "recipe": recipe.undecided,
            "warnings": tuple(sorted(warnings)),
        }
