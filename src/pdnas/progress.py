"""Jobs at work, on stderr: a live view in a terminal, now and then a line elsewhere."""

import sys
import time
from collections.abc import Sequence
from types import TracebackType

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.text import Text

from pdnas.job import Cell, Job, Plan
from pdnas.notebook import in_notebook, noted
from pdnas.search import Problem, Search, SearchEpoch
from pdnas.training.fit import Epoch
from pdnas.watcher import Watcher

REFRESH = 0.25
"""Seconds between two pictures."""

LINES = 5
"""Lines that a search writes where there is no terminal."""


class SearchProgress(Watcher):
    """Shows a job's progress.

    Args:
        job: What is done.
        quiet: Show nothing but what went wrong.
        note: What must be said beside every figure.
    """

    def __init__(self, job: Job, *, quiet: bool, note: str = "") -> None:
        self._job, self._quiet, self._note = job, quiet, noted(note)
        self._terminal = sys.stderr.isatty() and not quiet
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[figures]}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
        )
        self._task = self._bar.add_task("measuring", total=None, figures="")
        self._path = Text("")
        self._live = Live(Group(self._bar, self._path), console=self._bar.console, transient=True)
        self._shown = 0.0
        self._training = ""

    def __enter__(self) -> "SearchProgress":
        if self._terminal:
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._terminal:
            self._live.stop()

    def planned(self, plan: Plan, problems: Sequence[Problem]) -> None:
        budget = self._job.budget_seconds
        limit = "" if budget is None else f", limited to {budget:g} s"
        self._say(
            f"estimated: about {plan.seconds:.0f} s{limit}: search {plan.search_seconds:.0f} s "
            f"({len(problems)} x {plan.epochs} epochs), candidates {plan.candidate_seconds:.0f} s, "
            + (f"tuning at most {plan.tune_seconds:.0f} s, " if plan.tune_seconds else "")
            + f"final trainings and controls {plan.final_seconds:.0f} s"
        )

    def searched(self, search: Search, epoch: SearchEpoch) -> None:
        problem = search.problem
        what = f"search, {problem.num_blocks} blocks, hidden {problem.hidden}"
        heat = epoch.details.get("temperature")
        figures = (
            f"epoch {epoch.epoch + 1}/{search.epochs}"
            + (f"  temperature {heat:.2f}" if heat is not None else "")
            + f"  loss {epoch.train_loss:.3f} / {epoch.val_loss:.3f}"
            + f"  validation {100 * epoch.val:.1f} %{self._note}"
        )
        if self._terminal:
            if self._is_due() or search.is_over:
                self._path.plain = f"favored: {search.favored()}"
                self._show(what, figures, epoch.epoch + 1, search.epochs)
        elif (epoch.epoch + 1) % max(1, search.epochs // LINES) == 0:
            self._say(f"{what}: {figures}; favored: {search.favored()}")

    def rating(self, search: Search) -> None:
        what = (
            f"rating candidates, {search.problem.num_blocks} blocks, hidden {search.problem.hidden}"
        )
        if self._terminal:
            self._path.plain = f"favored: {search.favored()}"
            self._bar.reset(self._task)
            self._bar.update(self._task, description=what, figures="", total=None)
        else:
            self._say(what)

    def found(self, cell: Cell) -> None:
        self._say(
            f"searched, {cell.num_blocks} blocks, hidden {cell.hidden}: {cell.epochs} epochs, "
            f"{cell.seconds + cell.refine_seconds:.0f} s"
        )

    def trained(self, what: str, epoch: Epoch) -> None:
        total = self._job.recipe.epochs
        figures = (
            f"epoch {epoch.epoch + 1}/{total}  loss {epoch.train_loss:.3f} / {epoch.val_loss:.3f}"
            f"  validation {100 * epoch.val:.1f} %{self._note}"
        )
        if self._terminal:
            if self._is_due():
                self._path.plain = ""
                self._show(f"training {what}", figures, epoch.epoch + 1, total)
        elif what != self._training:
            self._say(f"training {what}")
        self._training = what

    def tuned(self, trial: int, wanted: int) -> None:
        figures = f"trial {trial}/{wanted}"
        if self._terminal:
            self._path.plain = ""
            self._show("tuning the recipe", figures, trial - 1, wanted)
        else:
            self._say(f"tuning the recipe: {figures}")

    def noted(self, sentence: str) -> None:
        _write(f"pdnas: {sentence}")

    def _say(self, text: str) -> None:
        if self._quiet:
            return
        if self._terminal:
            self._bar.console.print(Text(text))
        else:
            _write(text)

    def _is_due(self) -> bool:
        now = time.monotonic()
        if now - self._shown < REFRESH:
            return False
        self._shown = now
        return True

    def _show(self, what: str, figures: str, done: int, total: int) -> None:
        if what != self._bar.tasks[0].description:
            self._bar.reset(self._task)
        self._bar.update(self._task, description=what, figures=figures, completed=done, total=total)


class TrainingProgress:
    """A bar over all epochs of all trainings; in a notebook a line for each, elsewhere nothing.

    Args:
        trainings: How many there are.
        epochs: How many epochs each of them has at most.
        quiet: Show nothing anyway.
        note: What must be said beside every figure.
    """

    def __init__(self, trainings: int, epochs: int, *, quiet: bool, note: str = "") -> None:
        self._note, self._trainings, self._epochs = noted(note), trainings, epochs
        self._lines, self._number = in_notebook() and not quiet, -1
        self._bar = Progress(
            TextColumn("training {task.fields[training]}"),
            BarColumn(),
            TextColumn("epoch {task.fields[epoch]}  {task.fields[figures]}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
            disable=quiet or not sys.stderr.isatty(),
        )
        self._task = self._bar.add_task(
            "train", total=trainings * epochs, training=f"1/{trainings}", epoch=0, figures=""
        )

    def __enter__(self) -> "TrainingProgress":
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.stop()

    def show(self, number: int, epoch: Epoch) -> None:
        """Tell of an epoch of the training of that number."""
        if self._lines and number != self._number:
            _write(f"training {number + 1}/{self._trainings}")
        self._number = number
        self._bar.update(
            self._task,
            completed=number * self._epochs + epoch.epoch + 1,
            training=f"{number + 1}/{self._trainings}",
            epoch=epoch.epoch,
            figures=f"loss {epoch.train_loss:.3f}  validation {100 * epoch.val:.2f} %" + self._note,
        )


def is_wanted(progress: bool | None) -> bool:
    """Whether to show progress: as asked, else where somebody looks: a terminal, a notebook."""
    return progress if progress is not None else sys.stderr.isatty() or in_notebook()


def _write(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()
