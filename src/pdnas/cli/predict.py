"""``pdnas predict``: the class of every node, by a trained run."""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from pdnas.cli.display import print_table
from pdnas.cli.flags import DeviceFlags, by_default, enough_memory, tell
from pdnas.errors import PdnasError
from pdnas.output import check_output, data_of
from pdnas.prediction import WRITERS, predict, writer
from pdnas.runs import RunDirectory
from pdnas.training.device import find_device

OUTPUT = "predictions.csv"


@dataclass(frozen=True)
class Command:
    """Write the class of every node and the probability of each class.

    Without DATA these are the nodes that the run was trained on, and nothing but the run is needed.
    DATA need no labels; they are prepared as the run's own were, and the columns of a table are
    found by their names.
    """

    run_dir: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN")]
    """the run directory of a search, a training or a tuning"""
    data: Annotated[
        tyro.conf.Positional[str | None],
        tyro.conf.arg(metavar="[DATA]", help_behavior_hint="(default: the run's own graphs)"),
    ] = None
    """another graph: a folder of tables, an .npz, a .pt, or the name of a task"""
    output: Annotated[
        Path | None,
        tyro.conf.arg(aliases=["-o"], help_behavior_hint=f"(default: RUN/{OUTPUT})"),
    ] = None
    """the file to write: .csv, .parquet or .npz, or - for CSV on stdout"""
    force: bool = False
    """replace a file that is there already"""
    device: DeviceFlags = DeviceFlags()
    data_root: Annotated[Path | None, by_default("PDNAS_DATA")] = None
    """where data sets are looked for before anything is downloaded"""
    json: bool = False
    """print what was written as one line of JSON instead of the table"""
    quiet: bool = False
    """no table and no notes"""

    def run(self) -> int:
        """Predict, write, say where."""
        RunDirectory.open(self.run_dir)  # a wrong run is said before a wrong output
        output = self.output or self.run_dir / OUTPUT
        to_stdout = str(output) == "-"
        if to_stdout and self.json:
            raise PdnasError("-o - and --json both write to stdout; give one of them.")
        if not to_stdout:
            writer(output)
            check_output(output, self.data, data_of(self.run_dir), force=self.force)
        self.device.apply()
        device = find_device(self.device.device)
        what = f"The graph of '{self.data}'"
        with enough_memory(what, device, "give --device cpu, or a smaller graph"):
            found = predict(self.run_dir, self.data, device=device, data_root=self.data_root)
        if not to_stdout:
            found.save(output)
        if not self.quiet:
            for note in found.notes:
                tell(note)
        if to_stdout:
            sys.stdout.write(WRITERS[".csv"](found).decode())
        elif self.json:
            said = {"output": str(output), "nodes": len(found), "classes": found.counts}
            print(json.dumps(said))
        elif not self.quiet:
            rows = [[name, f"{count:,}"] for name, count in found.counts.items()]
            print_table([["class", "nodes"], *rows])
            print(f"output: {output}")
        return 0
