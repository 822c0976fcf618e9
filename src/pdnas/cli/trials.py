"""Trials of a tuning at work, on stderr: a live table in a terminal, elsewhere line by line."""

import sys
import time
from collections import Counter
from collections.abc import Iterator
from types import TracebackType
from typing import Any

from rich import box
from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from pdnas.notebook import noted
from pdnas.progress import TrainingProgress
from pdnas.training.fit import Epoch
from pdnas.tuning import Tuning
from pdnas.tuning.study import Row, Study
from pdnas.tuning.tune import TuningWatcher

SHOWN = 12
"""Trials that the live table has room for."""

REFRESH = 0.25
"""Seconds between two pictures."""


class TuningProgress(TuningWatcher):
    """A live table of trials in a terminal; elsewhere a line for each that ends.

    Args:
        tuning: What is done.
        quiet: Show nothing.
        note: What must be said beside every figure.
    """

    def __init__(self, tuning: Tuning, *, quiet: bool, note: str = "") -> None:
        self._quiet, self._terminal = quiet, sys.stderr.isatty() and not quiet
        self._live = Live(console=Console(stderr=True), auto_refresh=False, transient=True)
        self._bar = TrainingProgress(
            tuning.search.seeds, tuning.search.recipe.epochs, quiet=quiet, note=note
        )
        self._note = noted(note)
        self._what, self._wanted, self._shown = "", 0, 0.0
        self._told: set[int] = set()
        self._rows: dict[str, list[Row]] = {}
        self._finals = False

    def __enter__(self) -> "TuningProgress":
        if self._terminal:
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._live.stop()
        if self._finals:
            self._bar.__exit__(kind, error, trace)

    def began(self, what: str, study: Study, wanted: int) -> None:
        self._what, self._wanted = what, wanted
        self._told = {row.number for row in study.rows() if row.state != "running"}
        if self._told and not self._quiet:
            print(f"{what}: {len(self._told)} trials are there already", file=sys.stderr)

    def changed(self, study: Study) -> None:
        if self._quiet:
            return
        self._rows[self._what] = rows = study.rows()
        if not self._terminal:
            for row in rows:
                if row.state != "running" and row.number not in self._told:
                    self._told.add(row.number)
                    place = f"{self._what} {len(self._told)}/{self._wanted}"
                    print(f"{place}: {' '.join(_cells(row, self._note))}", file=sys.stderr)
        elif time.monotonic() - self._shown > REFRESH:
            self._shown = time.monotonic()
            self._live.update(self._table(rows), refresh=True)

    def noted(self, sentence: str) -> None:
        if not self._quiet:
            self._live.console.print(sentence, markup=False, highlight=False, soft_wrap=True)

    def trained(self, number: int, epoch: object) -> None:
        assert isinstance(epoch, Epoch)
        if not self._finals:
            self._live.stop()
            self._bar.__enter__()
            self._finals = True
        self._bar.show(number, epoch)

    def summary(self) -> Iterator[str]:
        """What became of the trials, a line for each study, and why the first of them failed."""
        for what, rows in self._rows.items():
            states = Counter(row.state for row in rows)
            reason = next((f" ({row.reason})" for row in rows if row.state == "failed"), "")
            counts = ", ".join(f"{count} {state}" for state, count in states.items())
            yield f"{what} tried: {counts}{reason}"

    def _table(self, rows: list[Row]) -> Table:
        """The best trials and those under way."""
        ended = [row for row in rows if row.state != "running"]
        running = [row for row in rows if row.state == "running"]
        best = sorted(ended, key=lambda row: -(row.val or 0.0))[: max(1, SHOWN - len(running))]
        title = f"{self._what}: {len(ended)} of {self._wanted} tried, {len(running)} under way"
        table = Table(box=box.SIMPLE_HEAD, title=Text(title), title_justify="left")
        for heading in ("trial", "state", "validation", "values"):
            table.add_column(heading)
        for row in best + running:
            table.add_row(*(Text(cell) for cell in _cells(row, self._note)))
        return table


def _cells(row: Row, note: str) -> list[str]:
    """A trial's number, state, validation with what must be said of it, and values, as text."""
    values = ", ".join(f"{name} {_short(value)}" for name, value in row.values.items())
    val = "-" if row.val is None else f"{100 * row.val:.2f} %{note}"
    return [str(row.number), row.state, val, row.reason or values]


def _short(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
