"""``pdnas reproduce``: a table of the paper, ours beside theirs."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from pdnas.cli.flags import MANY, DeviceFlags, FolderFlags, WorkerFlags, by_default
from pdnas.cli.pieces import Lines, stopped
from pdnas.errors import PdnasError
from pdnas.notebook import noted
from pdnas.reproduce import TABLES, reproduce
from pdnas.reproduce.base import Watcher
from pdnas.reproduce.work import Leg
from pdnas.runs import Scores


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
    only: Annotated[tuple[str, ...] | None, by_default("all that the table has")] = None
    """tasks to take, such as cora pubmed"""
    searches: int = 3
    """searches of each kind, with seeds from 0"""
    seeds: Annotated[int | None, by_default("as the table has it")] = None
    """final trainings of each network, in the table ppi"""
    workers: WorkerFlags = WorkerFlags()
    device: DeviceFlags = DeviceFlags()
    data_root: Annotated[Path | None, by_default("PDNAS_DATA")] = None
    """where data sets are looked for before anything is downloaded"""
    output: FolderFlags = FolderFlags()

    def run(self) -> int:
        """Do the work and show the table."""
        TABLES[self.table]
        if not 1 <= self.searches <= MANY:
            raise PdnasError(f"--searches is {self.searches}; give 1 to {MANY}.")
        if self.seeds is not None and not 1 <= self.seeds <= MANY:
            raise PdnasError(f"--seeds is {self.seeds}; give 1 to {MANY}.")
        self.workers.check(self.device.device)
        self.device.apply()
        label = f"reproduce-{self.table}" + "-quick" * self.quick
        folder = self.output.output or Path("runs") / label
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
                seeds=self.seeds,
                only=self.only,
                on_done=Watcher() if self.output.quiet else Lines(_told),
            )
        except KeyboardInterrupt:
            return stopped()
        if self.output.json:
            files = sorted(str(path) for path in folder.iterdir() if path.is_file())
            print(json.dumps({"table": self.table, "output": str(folder), "files": files}))
        elif not self.output.quiet:
            print((folder / "table.md").read_text(encoding="utf-8"))
            print(f"output: {folder} (table.md, picture.svg, runs/)")
        return 0


def _told(leg: Leg) -> str:
    note = noted(leg.note)
    if not leg.val:
        return f"chosen by validation {100 * (leg.choice_val or 0.0):.2f} %{note}"
    return f"validation {Scores.of(leg.val)} %{note}"
