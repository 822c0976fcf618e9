"""``pdnas compare``: strategies and baselines side by side on one split, one budget."""

import json
import os
import re
import sys
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from pdnas.cli.display import print_table
from pdnas.cli.flags import DeviceFlags, FolderFlags, TaskFlags, WorkerFlags, by_default
from pdnas.cli.pieces import Lines, stopped
from pdnas.compare.base import BUDGET, PICTURE, TABLE, Comparison, compare
from pdnas.compare.standing import Verdict
from pdnas.compare.work import Attempt
from pdnas.job import Job
from pdnas.models.baselines import BASELINES
from pdnas.notebook import noted
from pdnas.runs import RESULT
from pdnas.search.rated import labels
from pdnas.space import SPACES, find_space
from pdnas.tasks import GraphTask
from pdnas.training import RECIPES, find_recipe
from pdnas.training.device import find_device
from pdnas.tuning.pieces import RUNS, PieceWatcher


@dataclass(frozen=True)
class Command:
    """Why this and not that: strategies and baselines on the same split under the same budget.

    A table and a picture show quality against seconds, and what each rival is ahead of the first
    strategy. The same command with the same --output goes on where it stopped; rivals may be added
    or left out and seeds added, and what is done is not done again. The table has those named.
    """

    task: TaskFlags = TaskFlags()
    strategies: Annotated[
        tuple[str, ...],
        tyro.conf.arg(
            help=f"who searches, the others are held against the first: {', '.join(labels())}"
        ),
    ] = ("pdnas", "random")
    baselines: Annotated[
        tuple[str, ...],
        tyro.conf.arg(help=f"networks trained beside them: {', '.join(BASELINES)}; or nothing"),
    ] = ("gcn", "gat")
    recipe: Literal["own", "shared"] = "own"
    """own: a rival is trained by the recipe of its name, if there is one; shared: all by one"""
    shared_recipe: Annotated[
        str, tyro.conf.arg(help=f"the one that is shared: {', '.join(RECIPES)}, or a TOML file")
    ] = "default"
    epochs: Annotated[int | None, by_default("the strategies' and the recipes'")] = None
    """epochs of each search, and of each training at most"""
    space: Annotated[
        str, tyro.conf.arg(help=f"where to look: {', '.join(SPACES)}, or a TOML file")
    ] = "extended"
    blocks: tuple[int, ...] = (2,)
    """depths to search; with several, validation chooses"""
    hidden: tuple[int, ...] = (32,)
    """channels between blocks to search; with several, validation chooses"""
    max_parameters: Annotated[int | None, by_default("any number")] = None
    """weights that what a strategy chooses may have at most; baselines are as they are"""
    candidates: int = 6
    """architectures of each search that are trained to choose among them"""
    budget_seconds: float = BUDGET
    """hard limit on each rival with each seed, from its start to its last training"""
    budget_trials: Annotated[int | None, by_default("as many as it takes")] = None
    """trainings that a strategy may spend on its choice"""
    seed: int = 0
    """the first"""
    seeds: int = 3
    """how often every rival is tried, each time with the next seed"""
    workers: WorkerFlags = WorkerFlags()
    device: DeviceFlags = DeviceFlags()
    output: FolderFlags = FolderFlags()

    def run(self) -> int:
        """Compare, write everything, show the table."""
        self.task.check_one_split("A comparison")
        comparison = self._comparison()
        comparison.check()
        self.workers.check(self.device.device)
        self.device.apply()
        self.workers.device(self.device.device)
        name = re.sub(r"[^\w.-]+", "-", f"compare-{Path(self.task.task).stem}")
        folder = self.output.output or Path("runs") / name
        task = self.task.as_begun(folder).load()
        self._warn_of_crowds()
        told = partial(_told, note=noted(task.source.note))
        try:
            verdict = compare(
                task,
                folder,
                comparison,
                workers=self.workers,
                threads=self.device.threads,
                device=self.device.device,
                watcher=PieceWatcher[Attempt]() if self.output.quiet else Lines(told),
                asked=_asked(self.task, task),
            )
        except KeyboardInterrupt:
            return stopped()
        if self.output.json:
            print(json.dumps({**verdict.model_dump(mode="json"), "output": str(folder)}))
        elif not self.output.quiet:
            _show(verdict, folder)
        return 0

    def _comparison(self) -> Comparison:
        job = Job(
            space=find_space(self.space),
            blocks=self.blocks,
            hidden=self.hidden,
            recipe=find_recipe(self.shared_recipe),
            seed=self.seed,
            seeds=self.seeds,
            candidates=self.candidates,
            max_parameters=self.max_parameters,
            budget_seconds=self.budget_seconds,
            budget_trials=self.budget_trials,
        )
        return Comparison.model_validate(
            {
                "job": job,
                "strategies": self.strategies,
                "baselines": self.baselines,
                "recipe": self.recipe,
                "epochs": self.epochs,
            }
        )

    def _warn_of_crowds(self) -> None:
        """Say that seconds mean little where more is to run than the machine has cores."""
        if self.workers.executor != "local":
            return
        workers, cores = self.workers.workers or 1, len(os.sched_getaffinity(0))
        if workers * self.device.threads > cores and find_device(self.device.device).type == "cpu":
            print(
                f"pdnas: {workers} worker(s) with {self.device.threads} thread(s) each share "
                f"{cores} core(s), but seconds are compared; give fewer --workers to trust them.",
                file=sys.stderr,
            )


def _asked(flags: TaskFlags, task: GraphTask) -> dict[str, Any]:
    """How the task was asked for, as plain values; where data sets lie does not matter."""
    given = asdict(flags.resolved(task))
    del given["data_root"]
    return {name: str(value) if isinstance(value, Path) else value for name, value in given.items()}


def _told(attempt: Attempt, note: str) -> str:
    return (
        f"validation {100 * attempt.val:.2f} %{note} after {attempt.seconds:.1f} s, "
        f"{attempt.trainings} training(s)"
    )


def _show(verdict: Verdict, folder: Path) -> None:
    print_table(verdict.rows(), title=verdict.title)
    print(verdict.conditions())
    for warning in verdict.warnings:
        print(f"warning: {warning}")
    print(f"\noutput: {folder} ({TABLE}, {PICTURE}, {RESULT}, {RUNS}/)")
