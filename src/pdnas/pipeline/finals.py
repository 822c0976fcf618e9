"""The evidence: the chosen network and its controls, trained with every final seed and tested."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor

from pdnas.errors import DivergedError
from pdnas.job import Job
from pdnas.models import Design
from pdnas.models.baselines import BASELINES
from pdnas.pipeline.budget import Budget
from pdnas.pipeline.ledger import Ledger
from pdnas.pipeline.problems import problem_of
from pdnas.runs import Trial
from pdnas.search import Problem
from pdnas.tasks import GraphTask
from pdnas.training import Recipe
from pdnas.training.fit import Epoch, read_test
from pdnas.training.seeds import Training, train_once
from pdnas.watcher import Watcher


class Finals:
    """The final trainings of a job, of which alone the test part is read.

    Args:
        job: What is to be done.
        task: On the device to work on.
        chosen: The network found.
        recipe: How it is trained.
        ledger: Where what is finished is written down.
        budget: What there is time for.
        watcher: Told of every epoch.
    """

    def __init__(
        self,
        job: Job,
        task: GraphTask,
        chosen: Trial,
        recipe: Recipe,
        *,
        ledger: Ledger,
        budget: Budget,
        watcher: Watcher,
    ) -> None:
        self._job, self._task, self._chosen, self._recipe = job, task, chosen, recipe
        self._ledger, self._budget, self._watcher = ledger, budget, watcher

    def train_chosen(self) -> None:
        """Train the chosen network with every final seed, and read the test part."""
        done = {training.seed for training in self._ledger.progress.finals}
        for seed in self._job.final_seeds:
            key = f"seed {seed}"
            if seed in done or key in self._ledger.progress.lost:
                continue
            first = not self._ledger.progress.finals
            if self._budget.is_late(1.0):
                return
            best = max((other.val for other in self._ledger.progress.finals), default=-1.0)
            architecture, hidden = self._chosen.architecture, self._chosen.hidden
            try:
                training, weights, lines = self._train(
                    "found", architecture, hidden, seed, {"phase": "final"}
                )
            except DivergedError as error:
                self._ledger.lose(key, f"The final training with {key} is left out: {error}")
                continue
            if self._budget.is_late(1.0) and not first:
                return  # a training cut short does not belong into a mean
            name = f"final-{seed}" if training.val > best else None
            finals = (*self._ledger.progress.finals, training)
            self._ledger.finish(lines, name, weights, finals=finals, cut=self._budget.is_late(1.0))

    def train_controls(self, designs: Mapping[str, Design]) -> None:
        """Train what nobody searched for with the same recipe and seeds."""
        for name, architecture in designs.items():
            done = self._ledger.progress.controls.get(name, ())
            for seed in self._job.final_seeds[len(done) :]:
                if name in self._ledger.progress.lost:
                    break
                if self._budget.is_late(1.0):
                    return
                place = {"phase": "control", "name": name}
                try:
                    training, _, lines = self._train(
                        name, architecture, self._chosen.hidden, seed, place
                    )
                except DivergedError as error:
                    self._ledger.lose(name, f"The control '{name}' is left out: {error}")
                    break
                if self._budget.is_late(1.0):
                    return
                done = (*done, training)
                self._ledger.record(lines, controls={**self._ledger.progress.controls, name: done})

    def _train(
        self, name: str, architecture: Design, hidden: int, seed: int, place: dict[str, Any]
    ) -> tuple[Training, dict[str, Tensor], list[dict[str, Any]]]:
        """One training with its test: what came out, the weights, and the history."""
        lines: list[dict[str, Any]] = []

        def watch(epoch: Epoch) -> None:
            lines.append({**place, "seed": seed, **asdict(epoch)})
            self._watcher.trained(f"{name}, seed {seed}", epoch)

        network, outcome = train_once(
            architecture,
            self._task,
            hidden=hidden,
            recipe=self._recipe,
            seed=seed,
            on_epoch=watch,
            stop=lambda _: self._budget.is_late(1.0),
        )
        training = Training(
            split_seed=self._task.split.seed,
            seed=seed,
            epoch=outcome.epoch,
            val=outcome.val,
            test=read_test(network, self._task),
            epochs=outcome.epochs,
            seconds=outcome.seconds,
        )
        return training, network.state_dict(), lines


def controls(job: Job, chosen: Trial, problems: Sequence[Problem]) -> dict[str, Design]:
    """A random architecture of the chosen shape, and the baselines."""
    problem = problem_of(chosen, problems)
    generator = torch.Generator().manual_seed(job.seed)
    return {
        name: problem.sample(generator) if name == "random" else BASELINES[name].design
        for name in job.controls
    }
