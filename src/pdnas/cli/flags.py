"""Flags that mean the same in every command."""

import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, make_dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
import tyro
from pydantic import BaseModel

from pdnas.errors import ExecutorError, PdnasError
from pdnas.runs import Record, RunDirectory
from pdnas.settings import MANY as MANY
from pdnas.settings import DeviceFlags as DeviceFlags
from pdnas.settings import TaskFlags as TaskFlags
from pdnas.settings import WorkerFlags as WorkerFlags
from pdnas.settings import by_default as by_default
from pdnas.settings import new_run
from pdnas.training import Recipe
from pdnas.training.parallel import by_first, is_first


def changes_of(
    models: Sequence[type[BaseModel]], whose: str, *, without: Collection[str] = ()
) -> Any:
    """A dataclass with a flag for each field of some settings; none is given by default.

    A field that several have is one flag, which means the same for all of them.

    Args:
        models: The settings; where there are several, help says whose a flag is.
        whose: Where the default comes from, for the help.
        without: Fields that have no flag.
    """
    owners: dict[str, list[type[BaseModel]]] = {}
    for model in models:
        for name in model.model_fields:
            if name not in without:
                owners.setdefault(name, []).append(model)
    flags = []
    for name, own in owners.items():
        info = own[0].model_fields[name]
        help_text = info.description or ""
        if len(models) > 1:
            names = ", ".join(model.model_fields["name"].default for model in own)
            help_text = f"{names}: {help_text}"
        argument = tyro.conf.arg(help=help_text, help_behavior_hint=f"(default: the {whose}'s)")
        kind: Any = info.annotation
        flags.append((name, Annotated[kind | None, argument], field(default=None)))
    return make_dataclass(f"{models[0].__name__}Changes", flags, frozen=True)


def given(changes: Any) -> dict[str, Any]:
    """The flags that were given."""
    return {name: value for name, value in vars(changes).items() if value is not None}


RecipeChanges: Any = changes_of([Recipe], "recipe")
"""One flag for each field of a recipe; those that are not given leave the recipe as it is."""


def tell(sentence: str) -> None:
    """Say something that the user should know."""
    print(f"pdnas: {sentence}", file=sys.stderr)


@contextmanager
def enough_memory(
    what: str,
    device: torch.device,
    remedy: str = "give a smaller --hidden, or --batching clusters with a smaller --batch-nodes",
) -> Iterator[None]:
    """Whatever does not fit into memory inside becomes one sentence.

    Args:
        what: What does not fit, as the beginning of the sentence.
        device: Into whose memory.
        remedy: What the user can do.
    """
    try:
        yield
    except RuntimeError as error:
        is_full = isinstance(error, torch.OutOfMemoryError) or "can't allocate memory" in str(error)
        if not is_full:
            raise
        raise PdnasError(f"{what} does not fit into the memory of {device}; {remedy}.") from None


AS_BEFORE = by_default("as the run has it")


@dataclass(frozen=True)
class WorkerChanges:
    """Who does trials from now on; what is not given stays as it was."""

    workers: Annotated[int | None, AS_BEFORE] = None
    """trials side by side, each in its own process with the run's threads; a GPU is shared"""
    executor: Annotated[Literal["local", "ray"] | None, AS_BEFORE] = None
    """local: processes of this machine; ray: tasks on a Ray cluster"""
    ray_address: Annotated[str | None, AS_BEFORE] = None
    """auto (the cluster of this machine), host:port, ray://host:port, or local for a cluster of
    this machine that lasts as long as the command"""
    gpus_per_trial: Annotated[float | None, AS_BEFORE] = None
    """GPUs of each trial on Ray, such as 0.1 for ten trials on one"""
    trial_timeout: Annotated[float | None, AS_BEFORE] = None
    """seconds after which a trial that has not ended is ended, and counts as failed"""

    def of(self, before: WorkerFlags) -> WorkerFlags:
        """Who does trials, where the run said so before."""
        if self.executor == "local":  # what is for Ray is of no use any more
            workers = before.workers or 1
            before = replace(before, workers=workers, ray_address=None, gpus_per_trial=None)
        return replace(before, **given(self))


@dataclass(frozen=True)
class OutputFlags:
    """What to leave behind and what to say."""

    run_dir: Annotated[Path | None, by_default("runs/NAME-DATE-TIME")] = None
    """where to write the run"""
    json: bool = False
    """print the result as one line of JSON instead of tables"""
    quiet: bool = False
    """no progress and no table"""

    def new_run(
        self, label: str, settings: Record, device: torch.device, threads: int
    ) -> RunDirectory:
        """A run directory that knows what it is for and where it runs."""
        return new_run(self.run_dir, label, settings, device, threads)

    @property
    def here(self) -> "OutputFlags":
        """What this process says: of several the first alone speaks."""
        return self if is_first() else OutputFlags(quiet=True)


@contextmanager
def kept(run: RunDirectory) -> Iterator[RunDirectory | None]:
    """The run for who writes it, the first process, with all others kept out meanwhile."""
    with ExitStack() as stack:
        by_first(lambda: stack.enter_context(run.alone()))
        yield run if is_first() else None


@contextmanager
def elsewhere(run: RunDirectory) -> Iterator[None]:
    """Where others cannot do the work, say how the run goes on with those who can."""
    try:
        yield
    except ExecutorError as error:
        raise ExecutorError(
            f"{error} The run goes on with: pdnas resume {run.path}, and another --ray-address or "
            "--executor if need be."
        ) from None


def where(run: RunDirectory, page: Path | None) -> dict[str, str | None]:
    """Where a run and its page lie, for those who read JSON."""
    return {"run": str(run.path), "report": None if page is None else str(page)}


@dataclass(frozen=True)
class FolderFlags:
    """Where to leave pieces of work, and what to say."""

    output: Annotated[
        Path | None,
        tyro.conf.arg(aliases=["-o"], help_behavior_hint="(default: runs/ and what it is of)"),
    ] = None
    """the folder to write to"""
    json: bool = False
    """print what was written as one line of JSON instead of the table"""
    quiet: bool = False
    """no progress and no table"""
