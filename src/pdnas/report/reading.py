"""A run directory as reports see it: whatever of it is there, finished or not."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from filelock import FileLock, Timeout
from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    NonNegativeInt,
    Tag,
    TypeAdapter,
    ValidationError,
)
from pydantic_core import from_json

from pdnas.errors import RunError, first_complaint, shown
from pdnas.job import Job, Progress
from pdnas.ops import SLOTS
from pdnas.runs import (
    ENVIRONMENT,
    HISTORY,
    LOCK,
    PIPELINE,
    PREDICTIONS,
    RESULT,
    SETTINGS,
    AnySettings,
    Figure,
    Predictions,
    Record,
    Result,
    RunDirectory,
)
from pdnas.settings import SearchSettings
from pdnas.space import SearchSpace

TABLES = {"compare": "pdnas compare", "reproduce": "pdnas reproduce"}
"""What has tables and pictures of its own."""

Line = dict[str, Any]

PerMille = Annotated[float, Field(ge=0, le=1000)]


class AskedTask(Record):
    """What a run says of its task, as far as every page tells it; other fields are not read.

    Args:
        metric: Which was asked for; none: the task's own.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    metric: str | None = None


class Asked(AnySettings):
    """What every page tells of a run's settings.

    Args:
        task: How it was asked for; none: it was in memory.
        task_name: What it is called.
    """

    task: AskedTask | None = None
    task_name: str = ""


class AskedTuning(Record):
    """What a tuning says of itself, as far as its page tells it.

    Args:
        fields: Of the recipe: what was tuned.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    fields: tuple[str, ...]


class AskedTune(Asked):
    """The same of a tuning.

    Args:
        tuning: What was tuned.
    """

    tuning: AskedTuning


class EpochLine(BaseModel):
    """What a line of the history says at least; the rest is the strategy's own.

    Args:
        epoch: From 0.
        train_loss: On training.
        val_loss: On validation.
        val: The metric there.
    """

    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)

    epoch: NonNegativeInt
    train_loss: float
    val_loss: float
    val: Figure


class SearchLine(EpochLine):
    """An epoch of a search.

    Args:
        phase: Tells it from others.
        cell: Number of the search in the grid.
        temperature: Of the noise.
        op_probs: Of every op of every slot of every block, per mille.
        gate_probs: Of every shortcut, per mille.
    """

    phase: Literal["search"]
    cell: NonNegativeInt
    temperature: float = 0.0
    op_probs: list[list[list[PerMille]]] = []
    gate_probs: list[PerMille] = []


class CandidateLine(EpochLine):
    """An epoch of a candidate's training.

    Args:
        phase: Tells it from others.
        number: Of the candidate.
    """

    phase: Literal["candidate"]
    number: NonNegativeInt


class FinalLine(EpochLine):
    """An epoch of a final training.

    Args:
        phase: Tells it from others; a run of trainings alone names none.
        seed: Of the training.
        split_seed: Which of several splits it is on.
    """

    phase: Literal["final"] = "final"
    seed: int
    split_seed: int | None = None


class ControlLine(EpochLine):
    """An epoch of a control's training.

    Args:
        phase: Tells it from others.
        seed: Of the training.
        name: Of the control.
    """

    phase: Literal["control"]
    seed: int
    name: str


def _phase(line: Any) -> str:
    return str(line.get("phase", "final")) if isinstance(line, dict) else "final"


_LINES: TypeAdapter[Any] = TypeAdapter(
    Annotated[
        Annotated[SearchLine, Tag("search")]
        | Annotated[CandidateLine, Tag("candidate")]
        | Annotated[FinalLine, Tag("final")]
        | Annotated[ControlLine, Tag("control")],
        Discriminator(_phase),
    ]
)


@dataclass(frozen=True)
class Run:
    """What a run directory holds.

    Args:
        path: The folder.
        command: Which command the run is of.
        settings: What was asked for.
        job: The same of a search.
        environment: Versions and device; empty if they were not kept.
        history: Lines of epochs, as far as they are written.
        result: What came out; none: the run is not finished.
        progress: How far an unfinished search has come.
        predictions: What the network that is kept says of every node; none in older runs.
        at_work: Whether a process works on it.
        label: What to call it beside others; the name of its folder if that says enough.
    """

    path: Path
    command: str
    settings: Line
    job: Job | None = None
    environment: Line = field(default_factory=dict)
    history: tuple[Line, ...] = ()
    result: Result | None = None
    progress: Progress | None = None
    predictions: Predictions | None = None
    at_work: bool = False
    label: str = ""

    @property
    def name(self) -> str:
        """What to call it beside others."""
        return self.label or self.path.resolve().name

    @property
    def task_name(self) -> str:
        """What the task is called: of a path its last part, which says enough."""
        name = str(self.result.task if self.result else self.settings.get("task_name", "a task"))
        return name if name.startswith("pyg:") else Path(name).name

    @property
    def metric(self) -> str | None:
        """What validation is measured by; none: an unfinished run that was not asked for one."""
        asked: str | None = (self.settings.get("task") or {}).get("metric")
        return self.result.metric if self.result else asked

    @property
    def validation(self) -> str:
        """What validation is called: with its metric, as far as the run says which that is."""
        return f"validation {self.metric}" if self.metric else "validation"

    @property
    def way_on(self) -> str:
        """How a run that was stopped goes on, as the end of a sentence."""
        if self.settings.get("task", {}) is None:
            return "repeat the call in Python with the same data, settings and run_dir"
        return f"go on with: pdnas resume {shlex.quote(str(self.path))}"

    @property
    def space(self) -> SearchSpace | None:
        """Where was searched; none if nothing was."""
        return None if self.job is None else self.job.space

    @property
    def cells(self) -> tuple[tuple[int, int], ...]:
        """Depth and hidden size of each search of the grid."""
        if self.job is None:
            return ()
        return tuple((b, h) for b in self.job.blocks for h in self.job.hidden)

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
    folder.read_record(SETTINGS, AskedTune if command == "tune" else Asked)
    progress = None
    if command == "search" and result is None and folder.has(PIPELINE):
        progress = folder.read_record(PIPELINE, Progress)
    kept = result is not None and folder.has(PREDICTIONS)
    run = Run(
        path=Path(path),
        command=command,
        settings=_json(Path(path) / SETTINGS),
        job=folder.read_record(SETTINGS, SearchSettings).job if command == "search" else None,
        environment=_json(Path(path) / ENVIRONMENT) if folder.has(ENVIRONMENT) else {},
        history=read_history(Path(path) / HISTORY),
        result=result,
        progress=progress,
        predictions=folder.read_predictions(result) if result is not None and kept else None,
        at_work=is_at_work(path),
    )
    _check_search(run)
    return run


def with_labels(runs: Sequence[Run]) -> list[Run]:
    """Runs of which no two have one name: folders of one name get the shortest end of their path.

    Args:
        runs: Side by side.
    """
    paths = [run.path.resolve().parts for run in runs]
    return [
        replace(run, label=_ending(own, paths) or str(run.path))
        for run, own in zip(runs, paths, strict=True)
    ]


def _ending(own: tuple[str, ...], paths: Sequence[tuple[str, ...]]) -> str:
    """The shortest end that only one of the paths has; nothing if it is among them twice."""
    for length in range(1, len(own) + 1):
        if [path[-length:] for path in paths].count(own[-length:]) == 1:
            return str(Path(*own[-length:]))
    return ""


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
    except OSError as error:
        raise RunError(
            f"'{path}' cannot be read ({error.strerror}); check its permissions."
        ) from None
    whole = text[: text.rfind(b"\n") + 1]
    lines = []
    for number, written in enumerate(whole.split(b"\n")[:-1], start=1):
        try:
            line: Line = from_json(written, allow_inf_nan=False)
            _LINES.validate_python(line, strict=True)
        except ValidationError as error:
            reason = first_complaint(error).rstrip(".")
            raise RunError(f"'{path}' is damaged in line {number}: {reason}; run again.") from None
        except ValueError as error:
            raise RunError(f"'{path}' is damaged in line {number}: {error}; run again.") from None
        lines.append(line)
    return tuple(lines)


def _check_search(run: Run) -> None:
    """Refuse lines of searches that the settings know nothing of."""
    shapes, space = run.cells, run.space
    wide: dict[int, int] = {}
    for line in run.phase("search"):
        if space is None or line["cell"] >= len(shapes):
            raise RunError(
                f"The history of '{run.path}' tells of a search {shown(line['cell'])} that its "
                "settings do not have; run again."
            )
        blocks, _ = shapes[line["cell"]]
        counts = [
            [len(space.candidates(slot, last=block == blocks - 1)) for slot in SLOTS]
            for block in range(blocks)
        ]
        ops, gates = line.get("op_probs"), line.get("gate_probs", [])
        is_other = len(gates) > len(space.possible_gates(blocks))
        if ops is not None:
            is_other |= [[len(slot) for slot in block] for block in ops] != counts
            is_other |= not all(sum(slot) for block in ops for slot in block)
        if is_other or len(gates) != wide.setdefault(line["cell"], len(gates)):
            raise RunError(
                f"The history of '{run.path}' tells of other ops or shortcuts in epoch "
                f"{shown(line['epoch'])} than its settings: it is damaged, or of an early version, "
                "of which there is no page; predict, export and train read such a run."
            )


def _json(path: Path) -> Line:
    try:
        values = from_json(path.read_bytes())
    except (OSError, ValueError) as error:
        raise RunError(f"'{path}' cannot be read ({error}); run again.") from None
    if not isinstance(values, dict):
        raise RunError(f"'{path}' is damaged: it is no JSON object; run again.")
    return values
