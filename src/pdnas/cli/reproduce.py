"""``pdnas reproduce``: a table of the paper, ours beside theirs."""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from pdnas.cli.flags import MANY, DeviceFlags, by_default
from pdnas.errors import PdnasError
from pdnas.reproduce import TABLES, reproduce
from pdnas.reproduce.base import TASKS, Watcher
from pdnas.reproduce.work import Leg
from pdnas.runs import Scores
from pdnas.tuning.local import check_workers


@dataclass(frozen=True)
class Command:
    """Do what a table of the paper needs, and write it: raw runs, a table, a picture.

    The same command with the same --output goes on where it stopped.
    """

    table: Annotated[
        tyro.conf.Positional[str], tyro.conf.arg(metavar="TABLE", help=", ".join(TABLES))
    ]
    quick: bool = False
    """a small version in a few minutes, for a look"""
    only: Annotated[tuple[str, ...], tyro.conf.arg(help=f"tasks to take: {', '.join(TASKS)}")] = (
        tuple(TASKS)
    )
    searches: int = 3
    """searches of each kind, with seeds from 0"""
    workers: int = 1
    """processes side by side, each with --threads threads; a GPU is shared"""
    device: DeviceFlags = DeviceFlags()
    data_root: Annotated[Path | None, by_default("PDNAS_DATA")] = None
    """where data sets are looked for before anything is downloaded"""
    output: Annotated[
        Path | None,
        tyro.conf.arg(
            aliases=["-o"], help_behavior_hint="(default: runs/reproduce-TABLE, -quick if quick)"
        ),
    ] = None
    """the folder to write to"""
    json: bool = False
    """print what was written as one line of JSON instead of the table"""
    quiet: bool = False
    """no progress and no table"""

    def run(self) -> int:
        """Do the work and show the table."""
        TABLES[self.table]
        if not 1 <= self.searches <= MANY:
            raise PdnasError(f"--searches is {self.searches}; give 1 to {MANY}.")
        check_workers(self.workers)
        self.device.apply()
        label = f"reproduce-{self.table}" + "-quick" * self.quick
        folder = self.output or Path("runs") / label
        try:
            reproduce(
                self.table,
                folder,
                quick=self.quick,
                workers=self.workers,
                threads=self.device.threads,
                device=self.device.device,
                data_root=self.data_root,
                searches=self.searches,
                only=self.only,
                on_done=Watcher() if self.quiet else _Lines(),
            )
        except KeyboardInterrupt:
            print("pdnas: stopped; the same command goes on where it stopped.", file=sys.stderr)
            return 130
        if self.json:
            files = sorted(str(path) for path in folder.iterdir() if path.is_file())
            print(json.dumps({"table": self.table, "output": str(folder), "files": files}))
        elif not self.quiet:
            print((folder / "table.md").read_text(encoding="utf-8"))
            print(f"output: {folder} (table.md, picture.svg, runs/)")
        return 0


class _Lines(Watcher):
    """A line for each piece of work that begins, is done or fails."""

    def began(self, key: str) -> None:
        print(f"{key} begins", file=sys.stderr)

    def done(self, key: str, leg: Leg) -> None:
        print(f"{key}: validation {Scores.of(leg.val)} %", file=sys.stderr)

    def failed(self, key: str, reason: str) -> None:
        print(f"{key} failed: {reason}", file=sys.stderr)
