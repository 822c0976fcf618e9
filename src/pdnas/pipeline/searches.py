"""The searches of a job, each from its last checkpoint to its candidates."""

import time
from collections.abc import Sequence
from typing import Any

from pdnas.job import Cell, Job, Mark
from pdnas.pipeline.budget import Budget
from pdnas.pipeline.ledger import Ledger
from pdnas.search import Problem, Search, SearchEpoch
from pdnas.search.shared import once
from pdnas.training.parallel import agreed
from pdnas.watcher import Watcher

CHECKPOINT_SHARE = 0.02
"""The part of a search's time that its checkpoints may take."""


class Searches:
    """The searches of a job, one for each cell of its grid.

    Args:
        job: What is to be done.
        problems: The cells of the grid.
        ledger: Where what is finished is written down.
        budget: What there is time for.
        watcher: Told of every epoch.
    """

    def __init__(
        self,
        job: Job,
        problems: Sequence[Problem],
        *,
        ledger: Ledger,
        budget: Budget,
        watcher: Watcher,
    ) -> None:
        self._job, self._problems = job, problems
        self._ledger, self._budget, self._watcher = ledger, budget, watcher
        self.latest: Search | None = None

    def search(self, number: int) -> None:
        """Search one cell of the grid, from its last checkpoint if there is one."""
        problem = self._problems[number]
        strategy = self._job.strategy.lasting(self._ledger.progress.plan.epochs)
        part = (number + 1) / len(self._problems)
        with strategy.begin(problem) as search:
            self.latest = search
            before, is_enough = self._ledger.restore(search, number)
            began = saved = time.monotonic()

            share, cost = (
                self._budget.search_share(self._budget.training_seconds(before, search.epoch)),
                0.0,
            )

            def is_late() -> bool:
                """Whether this search's part of the budget is spent."""
                return self._budget.is_late(part * share)

            while not (search.is_over or is_enough or (search.epoch and is_late())):
                epoch = search.step(is_late)
                if not is_late():  # a training that was cut tells nothing
                    spent = before + time.monotonic() - began
                    share = self._budget.search_share(
                        self._budget.training_seconds(spent, search.epoch)
                    )
                line = {"phase": "search", "cell": number, **_line(epoch)}
                length = self._ledger.append(line)
                self._watcher.searched(search, epoch)
                is_enough = agreed(self._watcher.is_enough(search, epoch))
                now = time.monotonic()
                is_due = is_enough or now - saved >= max(1.0, cost / CHECKPOINT_SHARE)
                if self._ledger.run is not None and is_due:
                    mark = Mark(
                        cell=number,
                        seconds=before + now - began,
                        elapsed=self._ledger.elapsed(),
                        history_bytes=length,
                        stopped=is_enough,
                    )
                    self._ledger.save(search, mark)
                    saved = time.monotonic()
                    cost = saved - now
            found = time.monotonic()
            self._watcher.rating(search)
            candidates = agreed(search.candidates(is_late))
            if self._ledger.progress.plan.refines:
                candidates = search.refine(candidates, is_late)
            cell = Cell(
                num_blocks=problem.num_blocks,
                hidden=problem.hidden,
                epochs=search.epoch,
                candidates=tuple(once(candidates)[: self._job.candidates]),
                warnings=tuple(search.warnings()),
                seconds=before + found - began,
                refine_seconds=time.monotonic() - found,
                stopped=is_enough,
            )
        self._ledger.record([], cells=(*self._ledger.progress.cells, cell))
        self._ledger.forget_checkpoint()


def _line(epoch: SearchEpoch) -> dict[str, Any]:
    """An epoch of a search as a line of the history."""
    figures = {key: value for key, value in vars(epoch).items() if key != "details"}
    return {**figures, **epoch.details}
