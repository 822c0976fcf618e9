"""The searches of a grid side by side: what ``pdnas search`` does with several depths and sizes."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from pdnas.errors import RunError
from pdnas.job import Cell, Job, Plan
from pdnas.runs import HISTORY, Record, RunDirectory
from pdnas.settings import WorkerFlags
from pdnas.tasks import GraphTask
from pdnas.tuning.executor import Done, Failed
from pdnas.tuning.place import open_executor
from pdnas.tuning.work import Report, SearchWork

CELLS = Path("cells")
"""Where a run keeps the searches of its grid, a folder each."""

TASK = "task"

Found = list[tuple[Cell, list[dict[str, Any]]]]
"""Cells, each with the lines of its history."""


def cell_folder(run: RunDirectory, job: Job) -> Path:
    """Where the search of one depth and one hidden size is kept."""
    (blocks,), (hidden,) = job.blocks, job.hidden
    return run.path / CELLS / f"blocks-{blocks}-hidden-{hidden}"


TOO_SHORT = ", and a larger --trial-timeout if that was too short"
"""What else may help where searches have a limit."""


class CellOutcome(Record):
    """What the search of a cell came to.

    Args:
        cell: What it proposes to train.
        history: Its epochs, a dictionary each.
    """

    cell: Cell
    history: tuple[dict[str, Any], ...]


class CellWork(SearchWork):
    """The search of one cell, of whose candidates none is trained; one that was begun goes on.

    Args:
        plan: What the whole search was planned to do.
    """

    plan: Plan

    def do(self, task: GraphTask, report: Report) -> dict[str, Any]:  # noqa: ARG002
        assert self.run is not None
        (cell,) = self.begin(self.on_split(task), self.plan).search_cells()
        lines = (self.run / HISTORY).read_text(encoding="utf-8").splitlines()
        history = tuple(json.loads(line) for line in lines)
        return CellOutcome(cell=cell, history=history).model_dump(mode="json")


class GridSearcher:
    """Searches the cells of a grid wherever trials run; see :class:`pdnas.job.Searcher`.

    Args:
        workers: Who does it.
        run: The run of the whole search, which keeps what is done.
        device: Where processes of this machine compute.
        threads: CPU threads of each search.
    """

    def __init__(
        self, workers: WorkerFlags, run: RunDirectory, *, device: torch.device, threads: int
    ) -> None:
        self._workers, self._run = workers, run
        self._device, self._threads = str(device), threads

    def __call__(
        self, jobs: Sequence[Job], task: GraphTask, plan: Plan, *, on_cell: Callable[[Cell], None]
    ) -> Found:
        works = iter(
            [
                (n, CellWork(task=TASK, job=job, plan=plan, run=cell_folder(self._run, job)))
                for n, job in enumerate(jobs)
            ]
        )
        found: dict[int, CellOutcome] = {}
        failures: dict[int, str] = {}

        def finished(event: Done | Failed) -> None:
            if isinstance(event, Failed):
                failures[event.number] = event.reason
                return
            found[event.number] = outcome = CellOutcome.model_validate(event.outcome)
            on_cell(outcome.cell)

        with open_executor(
            {TASK: task}, self._workers, device=self._device, threads=self._threads
        ) as executor:
            executor.drive(lambda: next(works, None), reported=lambda _: False, finished=finished)
        if failures:
            number, reason = min(failures.items())
            job = jobs[number]
            longer = "" if self._workers.trial_timeout is None else TOO_SHORT
            raise RunError(
                f"{len(failures)} of {len(jobs)} searches failed, the first of them with "
                f"{job.blocks[0]} block(s) and hidden size {job.hidden[0]}: "
                f"{reason.removesuffix('.')}; what is done is kept: go on with pdnas resume "
                f"{self._run.path}{longer}."
            )
        return [
            (found[n].cell, [{**line, "cell": n} for line in found[n].history])
            for n in range(len(jobs))
        ]
