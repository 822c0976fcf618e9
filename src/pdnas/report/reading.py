"""A run directory as reports see it: whatever of it is there, finished or not."""

import json
import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from pdnas.errors import RunError
from pdnas.job import Progress
from pdnas.runs import (
    ENVIRONMENT,
    HISTORY,
    LOCK,
    PIPELINE,
    PREDICTIONS,
    RESULT,
    SETTINGS,
    AnySettings,
    Predictions,
    Result,
    RunDirectory,
)
from pdnas.space import SearchSpace

TABLES = {"compare": "pdnas compare", "reproduce": "pdnas reproduce"}
"""What has tables and pictures of its own."""

Line = dict[str, Any]


@dataclass(frozen=True)
class Run:
    """What a run directory holds.

    Args:
        path: The folder.
        command: Which command the run is of.
        settings: What was asked for.
        environment: Versions and device; empty if they were not kept.
        history: Lines of epochs, as far as they are written.
        result: What came out; none: the run is not finished.
        progress: How far an unfinished search has come.
        predictions: What the network that is kept says of every node; none in older runs.
        at_work: Whether a process works on it.
    """

    path: Path
    command: str
    settings: Line
    environment: Line = field(default_factory=dict)
    history: tuple[Line, ...] = ()
    result: Result | None = None
    progress: Progress | None = None
    predictions: Predictions | None = None
    at_work: bool = False

    @property
    def name(self) -> str:
        """What to call it beside others."""
        return self.path.resolve().name

    @property
    def task_name(self) -> str:
        """What the task is called: of a path its last part, which says enough."""
        name = str(self.result.task if self.result else self.settings.get("task_name", "a task"))
        return name if name.startswith("pyg:") else Path(name).name

    @property
    def validation(self) -> str:
        """What validation is called: with its metric, as far as the run says which that is."""
        asked = (self.settings.get("task") or {}).get("metric")
        metric = self.result.metric if self.result else asked
        return f"validation {metric}" if metric else "validation"

    @property
    def way_on(self) -> str:
        """How a run that was stopped goes on, as the end of a sentence."""
        if self.settings.get("task", {}) is None:
            return "repeat the call in Python with the same data, settings and run_dir"
        return f"go on with: pdnas resume {shlex.quote(str(self.path))}"

    @property
    def space(self) -> SearchSpace | None:
        """Where was searched; none if nothing was."""
        values = self.settings.get("job", {}).get("space")
        return None if values is None else SearchSpace.model_validate(values)

    @property
    def cells(self) -> tuple[tuple[int, int], ...]:
        """Depth and hidden size of each search of the grid."""
        job = self.settings.get("job", {})
        return tuple((b, h) for b in job.get("blocks", ()) for h in job.get("hidden", ()))

    def phase(self, name: str) -> list[Line]:
        """The lines of a phase; those of a training that is all there is have none."""
        return [line for line in self.history if line.get("phase", "final") == name]


def read_run(path: str | Path) -> Run:
    """Read a run directory, or say in a sentence why there is nothing to report."""
    folder = RunDirectory.open(path)
    command = folder.read_record(SETTINGS, AnySettings).command
    if command in TABLES:
        raise RunError(
            f"'{path}' holds what {TABLES[command]} wrote, which has a table and a picture of its "
            "own there; give runs of search, train or tune."
        )
    result = folder.read_record(RESULT, Result) if folder.has(RESULT) else None
    if command == "tune" and result is None:
        raise RunError(
            f"'{path}' is a tuning that is not finished; go on with it: pdnas resume {path}."
        )
    progress = None
    if command == "search" and result is None and folder.has(PIPELINE):
        progress = folder.read_record(PIPELINE, Progress)
    return Run(
        path=Path(path),
        command=command,
        settings=_json(Path(path) / SETTINGS),
        environment=_json(Path(path) / ENVIRONMENT) if folder.has(ENVIRONMENT) else {},
        history=read_history(Path(path) / HISTORY),
        result=result,
        progress=progress,
        predictions=folder.read_predictions() if folder.has(PREDICTIONS) else None,
        at_work=is_at_work(path),
    )


def is_at_work(path: str | Path) -> bool:
    """Whether a process works on a run: whoever does holds its lock, and lets go when it dies."""
    lock = Path(path) / LOCK
    if not lock.is_file():
        return False
    try:
        with FileLock(lock, timeout=0):
            return False
    except Timeout:
        return True
    except OSError:  # what one may only read cannot be tried
        return False


def read_history(path: Path) -> tuple[Line, ...]:
    """The lines that are whole; a run that goes on may be writing the last one."""
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        return ()
    whole = text[: text.rfind(b"\n") + 1]
    try:
        return tuple(json.loads(line) for line in whole.splitlines() if line)
    except ValueError as error:
        raise RunError(f"'{path}' is damaged: {error}; run again.") from None


def _json(path: Path) -> Line:
    try:
        values: Line = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise RunError(f"'{path}' cannot be read ({error}); run again.") from None
    return values
