"""``pdnas export``: the network of a run as files that need no pdnas."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from pdnas.cli.flags import by_default
from pdnas.export import export
from pdnas.export.source import MEANINGS, imported, preparation, scales
from pdnas.export.text import prose
from pdnas.export.write import Format, feature_names
from pdnas.runs import RESULT, Result, RunDirectory

SHOWN = 8
"""How many columns a line names."""


@dataclass(frozen=True)
class Command:
    """Write the network of a run as a file that needs no pdnas, checked beside the run's own."""

    run_dir: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN")]
    """the run directory"""
    format: Format = "python"
    """python: readable source for torch and torch-geometric, its weights beside it; torch: a
    torch.export program for graphs of any size"""
    output: Annotated[
        Path | None,
        tyro.conf.arg(aliases=["-o"]),
        by_default("network.py or network.pt2 in the run"),
    ] = None
    """the file to write"""
    force: bool = False
    """replace files that are there already"""
    json: bool = False
    """print one line of JSON instead"""
    quiet: bool = False
    """say nothing"""

    def run(self) -> int:
        """Write the files and say how they are used."""
        written = export(self.run_dir, self.format, self.output, force=self.force)
        if self.json:
            files = [str(path) for path in written]
            print(json.dumps({"run": str(self.run_dir), "format": self.format, "files": files}))
        elif not self.quiet:
            print("\n".join(f"wrote {path}" for path in written))
            print("\n".join(self._usage(written[-1])))
        return 0

    def _usage(self, main: Path) -> list[str]:
        """How the files are used, in a few lines of Python."""
        if self.format == "python":
            return [
                f"from {main.stem} import classes, load_network, prepare",
                "names = classes(load_network()(*prepare(x, edge_index)))",
            ]
        result = RunDirectory.open(self.run_dir).read_record(RESULT, Result)
        names = feature_names(result)
        lines = ["x, edge_index = x.float(), edge_index.long()"]
        lines += [*scales(result.data), *preparation(result.data)]
        files = {"classes.json": ""} | ({"features.json": ""} if names else {})
        return [
            "import json",
            "import torch",
            *imported("\n".join(lines)),
            f"files = {files}",
            f"network = torch.export.load({str(main)!r}, extra_files=files).module()",
            f"# {MEANINGS[result.kind]}",
            "CLASSES = json.loads(files['classes.json'])",
            *_columns(names),
            *lines,
            "logits = network(x, edge_index)",
        ]


def _columns(names: Sequence[str]) -> list[str]:
    """The lines that say what the columns of ``x`` are, where that is known."""
    if not names:
        return []
    more = f" and {len(names) - SHOWN:,} more" if len(names) > SHOWN else ""
    return [
        f"# The columns of x, in order: {prose(', '.join(names[:SHOWN]))}{more}.",
        "FEATURES = json.loads(files['features.json'])",
    ]
