"""The page of a run with its commands, which searches, trainings and tunings leave behind."""

from collections.abc import Callable, Sequence
from pathlib import Path

from pdnas.again import commands_of
from pdnas.errors import PdnasError
from pdnas.report import REPORT, write_report
from pdnas.runs import RunDirectory
from pdnas.training.parallel import is_first

HEAD = 100_000
"""Bytes of a page among which its title ends."""


def write_page(runs: Sequence[Path], output: Path, *, watched: bool = False) -> Path:
    """Write the page of some runs with the commands that belong to them.

    Args:
        runs: Run directories.
        output: The file.
        watched: Whether it is written again when the run has gone on.
    """
    return write_report(runs, output, {run: commands_of(run) for run in runs}, watched=watched)


def is_page(path: Path) -> bool:
    """Whether a file is a page of ours, by its head."""
    with path.open("rb") as file:
        head = file.read(HEAD).lstrip()
    return head.startswith(b"<!doctype html>") and "· pdnas</title>".encode() in head


def left_page(run: RunDirectory, tell: Callable[[str], None]) -> Path | None:
    """Leave the page of a run beside its result; of several processes the first does.

    The result is safe already, so what goes wrong with the page is only told.

    Args:
        run: With a result.
        tell: Told what went wrong.
    """
    if not is_first():
        return None
    try:
        return write_page([run.path], run.path / REPORT)
    except PdnasError as error:
        tell(str(error))
        return None
