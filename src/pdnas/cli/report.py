"""``pdnas report``: the page of a run, or of several side by side."""

import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from pdnas.errors import PdnasError
from pdnas.output import check_output, data_of
from pdnas.page import is_page, write_page
from pdnas.report import REPORT, Run, is_at_work, read_run
from pdnas.runs import HISTORY, RESULT, RunDirectory

SHORTEST = 0.1
"""Seconds between two looks at a run, at least."""

LONGEST = 86_400
"""The same at most: a day."""

PAGES = (".html", ".htm")
"""What the name of a page ends in."""


@dataclass(frozen=True)
class Command:
    """Write the page of a run, or of several side by side; it opens from disk without a network.

    Every search and training writes that of its own run already. A run that is not finished has a
    page too, and --watch keeps it up to date.
    """

    runs: tyro.conf.Positional[tuple[Path, ...]]
    """run directories, of search, train or tune"""
    output: Annotated[
        Path | None,
        tyro.conf.arg(
            aliases=["-o"],
            help_behavior_hint=f"(default: RUN/{REPORT}, or {REPORT} here for several runs)",
        ),
    ] = None
    """the file to write"""
    watch: bool = False
    """write it again whenever the run has gone on, until it is finished; where nobody works on
    the run, wait until somebody does"""
    interval: float = 2.0
    """seconds between two looks at the run"""
    json: bool = False
    """print what was written as one line of JSON"""
    quiet: bool = False
    """say nothing"""

    def run(self) -> int:
        """Write the page, and go on doing so if asked to."""
        if not self.runs:
            raise PdnasError("No run is given; give one or several run directories.")
        if not SHORTEST <= self.interval <= LONGEST:
            raise PdnasError(
                f"--interval is {self.interval}; give {SHORTEST} to {LONGEST} seconds."
            )
        if self.watch and len(self.runs) > 1:
            raise PdnasError(
                f"--watch follows one run, but {len(self.runs)} are given; give one of them."
            )
        twice = [run for place, run in enumerate(self.runs) if run in self.runs[:place]]
        if twice:
            raise PdnasError(f"The run '{twice[0]}' is given twice; give each of them once.")
        output = self.output
        if output is not None and output.suffix.lower() not in PAGES:
            raise PdnasError(
                f"--output is '{output}', but a page ends in {' or '.join(PAGES)}; name it so."
            )
        if output is None:
            output = self.runs[0] / REPORT if len(self.runs) == 1 else Path(REPORT)
        check_output(output, *map(data_of, self.runs), renews=is_page)
        if self.watch:
            self._follow(self.runs[0], output)
        else:
            write_page(self.runs, output)
        if self.json:
            told = {"report": str(output), "runs": [str(run) for run in self.runs]}
            print(json.dumps(told))
        elif not self.quiet:
            print(f"report: {output}")
        return 0

    def _follow(self, path: Path, output: Path) -> None:
        """Write the page at every change, until there is a result and nobody works on the run.

        A run that was stopped is waited for: it may go on in another terminal.
        """
        folder, seen = RunDirectory.open(path), None
        try:
            while True:
                at_work = is_at_work(path)
                is_done = folder.has(RESULT) and not at_work
                now = (_size(path / HISTORY), _size(path / RESULT), at_work)
                if now != seen:
                    write_page([path], output, watched=not is_done)
                    run = read_run(path)
                    self._say(run, is_last=is_done)
                    if not at_work and not is_done:
                        self._tell(f"Nobody works on '{path}'; {run.way_on}")
                    seen = now
                elif is_done:
                    return
                if not is_done:
                    time.sleep(self.interval)
        except KeyboardInterrupt:
            write_page([path], output)  # nobody writes it again
            raise

    def _tell(self, sentence: str) -> None:
        if not self.quiet:
            begin = "\n" if sys.stderr.isatty() else ""
            print(f"{begin}{sentence}", file=sys.stderr, flush=True)

    def _say(self, run: Run, *, is_last: bool) -> None:
        if self.quiet:
            return
        if not sys.stderr.isatty():
            print(live_line(run), file=sys.stderr, flush=True)
            return
        end = "\n" if is_last else ""
        print(f"\r\x1b[2K{live_line(run)}", end=end, file=sys.stderr, flush=True)


def live_line(run: Run) -> str:
    """How far a run has come, in a line."""
    if not run.history:
        return "nothing yet"
    last = run.history[-1]
    what = {"search": "search", "candidate": "candidate", "control": "control"}.get(
        last.get("phase", "final"), "final training"
    )
    which = last.get("number", last.get("name", last.get("seed", "")))
    best = max(line["val"] for line in run.history)
    return (
        f"{what}{f' {which}' if which != '' else ''}  epoch {last['epoch'] + 1}  loss "
        f"{last['train_loss']:.3f} / {last['val_loss']:.3f}  validation {100 * last['val']:.1f} %  "
        f"best {100 * best:.1f} %"
    )


def _size(path: Path) -> tuple[int, int] | None:
    try:
        about = path.stat()
    except FileNotFoundError:
        return None
    return about.st_size, about.st_mtime_ns
