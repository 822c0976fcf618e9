"""The brief trainings of candidates, by which a network is chosen."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from pdnas.errors import DivergedError
from pdnas.job import Job
from pdnas.pipeline.budget import Budget
from pdnas.pipeline.contest import Contest, Entry
from pdnas.pipeline.ledger import Ledger
from pdnas.runs import Trial
from pdnas.search import Problem
from pdnas.tasks import GraphTask
from pdnas.training import Recipe
from pdnas.training.fit import Epoch, Fit
from pdnas.training.seeds import train_once
from pdnas.watcher import Watcher


class Trials:
    """The brief trainings of the candidates of a job.

    Args:
        job: What is to be done.
        task: On the device to work on.
        problems: The cells of the grid.
        ledger: Where what is finished is written down.
        budget: What there is time for.
        watcher: Told of every epoch.
    """

    def __init__(
        self,
        job: Job,
        task: GraphTask,
        problems: Sequence[Problem],
        *,
        ledger: Ledger,
        budget: Budget,
        watcher: Watcher,
    ) -> None:
        self._job, self._task, self._problems = job, task, problems
        self._ledger, self._budget, self._watcher = ledger, budget, watcher

    def run(self) -> None:
        """Train the candidates briefly, each only for as long as it keeps up with the others.

        What people have designed is trained to the end, and changes of the best of all these for a
        quarter at least. The best are then trained again.
        """
        contest = Contest(self._job, self._problems, self._ledger.progress.cells)
        while not self._ledger.progress.finals:
            trials = self._ledger.progress.trials
            share = self._budget.candidate_share(self._budget.training_seconds())
            if trials and (self._budget.is_late(share) or self._budget.is_tried_out()):
                return
            entry = contest.following(trials, has_time=self._budget.has_time_to_climb())
            if entry is None:
                return
            self._try(entry)

    def _try(self, entry: Entry) -> None:
        """Train a candidate, and write down what came of it, unless the time ran out over it."""
        number = len(self._ledger.progress.trials)
        share = self._budget.candidate_share(self._budget.training_seconds())
        lines: list[dict[str, Any]] = []
        is_late = False

        def watch(epoch: Epoch) -> None:
            lines.append({"phase": "candidate", "number": number, **asdict(epoch)})
            self._watcher.trained(f"candidate {number + 1}", epoch)

        def stop(epoch: Epoch) -> bool:
            nonlocal is_late
            is_late = self._budget.is_late(share)
            return entry.race.falls_behind(epoch) or is_late

        try:
            network, outcome = train_once(
                entry.architecture,
                self._task,
                hidden=entry.hidden,
                recipe=brief(self._job.recipe),
                seed=entry.seed,
                on_epoch=watch,
                stop=stop,
            )
        except DivergedError as error:
            self._watcher.noted(f"Candidate {number + 1} is given up: {error}")
            network, outcome = None, Fit(epoch=0, val=0.0, epochs=len(lines), seconds=0.0)
        if is_late and self._ledger.progress.trials:
            return  # a training cut short does not belong into a mean
        trial = Trial(
            architecture=entry.architecture,
            hidden=entry.hidden,
            seed=entry.seed,
            shared_val=entry.estimate,
            rungs=entry.race.rungs,
            **asdict(outcome),
        )
        best = max((other.val for other in self._ledger.progress.trials), default=-1.0)
        name = f"candidate-{number}" if network is not None and trial.val > best else None
        weights = {} if network is None else network.state_dict()
        self._ledger.finish(lines, name, weights, trials=(*self._ledger.progress.trials, trial))
        self._watcher.tried(trial)


def brief(recipe: Recipe) -> Recipe:
    """Of the trainings by which candidates are compared: half the patience, and no teachers."""
    return recipe.changed(patience=max(1, recipe.patience // 2), teachers=0)
