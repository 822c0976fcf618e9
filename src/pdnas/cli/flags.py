"""Flags that mean the same in every command."""

import os
import re
import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, make_dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
import tyro
from pydantic import BaseModel

from pdnas.errors import PdnasError
from pdnas.runs import ENVIRONMENT, SETTINGS, Record, RunDirectory, environment
from pdnas.tasks import GraphTask, load_task
from pdnas.tasks.load import DATA_ROOT
from pdnas.tasks.source import NAMED
from pdnas.training import Recipe
from pdnas.training.parallel import by_first, is_first


def by_default(what: str) -> Any:
    """What help says of a flag whose default is found elsewhere."""
    return tyro.conf.arg(help_behavior_hint=f"(default: {what})")


MANY = 10_000
"""More seeds, or splits, than anyone means to ask for."""

Choice = Literal["auto", "on", "off"]
_CHOICES: dict[Choice, bool | None] = {"auto": None, "on": True, "off": False}


@dataclass(frozen=True)
class TaskFlags:
    """What to learn from."""

    task: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="TASK")] = "citeseer"
    """citeseer (embedded), cora, pubmed, ppi, pyg:Class/name, or a path to a .pt, an .npz or a
    folder of tables"""
    split: Annotated[str | None, by_default("the data's own, else random")] = None
    """random (60/20/20), or one that the data bring: own, public or column:NAME"""
    split_seeds: Annotated[str | None, by_default("the first")] = None
    """which of the splits of that name: 3, or 0..9, or 0,2,5"""
    metric: Annotated[str | None, by_default("the task's")] = None
    """accuracy, micro-f1, macro-f1 or roc-auc, as the task allows"""
    data_root: Annotated[Path | None, by_default("PDNAS_DATA")] = None
    """where data sets are looked for before anything is downloaded"""
    normalize: Choice = "auto"
    """scale each node's features to sum to one; auto: for citation graphs only"""
    undirected: Choice = "auto"
    """add the reverse of every edge; auto: for tables only"""

    def load(self) -> GraphTask:
        """The task, on the first of the splits."""
        return load_task(
            self.task,
            split=self.split,
            split_seed=next(iter(self.chosen_splits()), None),
            metric=self.metric,
            data_root=self.data_root,
            normalize=_CHOICES[self.normalize],
            undirected=_CHOICES[self.undirected],
        )

    def resolved(self) -> "TaskFlags":
        """The same flags with whole paths, so that a run can be resumed from any folder."""
        path, root = Path(self.task), self.data_root or os.environ.get(DATA_ROOT)
        named = self.task in NAMED or not path.exists()
        return replace(
            self,
            task=self.task if named else str(path.resolve()),
            data_root=Path(root).resolve() if root else None,
        )

    def check_one_split(self, what: str) -> None:
        """Refuse several splits for what is done on one."""
        if len(self.chosen_splits()) > 1:
            raise PdnasError(
                f"{what} is on one split, but --split-seeds is {self.split_seeds}; give one "
                "number, and train what was found on the others with pdnas train."
            )

    def chosen_splits(self) -> tuple[int, ...]:
        """The numbers that ``--split-seeds`` names; none if it is not given."""
        if self.split_seeds is None:
            return ()
        text = self.split_seeds
        span = re.fullmatch(r"(\d+)\.\.(\d+)", text)
        if span and int(span[2]) - int(span[1]) < MANY:
            chosen = tuple(range(int(span[1]), int(span[2]) + 1))
        elif re.fullmatch(r"\d+(,\d+)*", text):
            chosen = tuple(int(number) for number in text.split(","))
        else:
            chosen = ()
        if not chosen or len(set(chosen)) < len(chosen):
            raise PdnasError(
                f"The split seeds '{text}' cannot be read; write one number, a span such as 0..9, "
                f"or a list such as 0,2,5, {MANY} of them at most."
            )
        return chosen


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


@dataclass(frozen=True)
class DeviceFlags:
    """Where to compute."""

    device: str = "auto"
    """auto (CUDA where there is one), cpu, cuda or cuda:i"""
    threads: int = 1
    """CPU threads; more than one rarely pays on small graphs or busy cores"""

    def apply(self) -> None:
        """Set the number of threads."""
        if not 1 <= self.threads <= 1024:
            raise PdnasError(f"The number of threads is {self.threads}; give 1 to 1024.")
        torch.set_num_threads(self.threads)


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
        run = RunDirectory.create(self.run_dir, re.sub(r"[^\w.-]+", "-", label))
        run.write_json(SETTINGS, settings)
        run.write_json(ENVIRONMENT, environment(device, threads))
        return run

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


def left_page(run: RunDirectory) -> Path | None:
    """Leave the page of a run beside its result; of several processes the first does.

    The result is safe already, so what goes wrong with the page is only told.
    """
    from pdnas.cli.report import write_page  # it knows all commands, and they know this

    if not is_first():
        return None
    try:
        return write_page([run.path], run.path / "report.html")
    except PdnasError as error:
        tell(str(error))
        return None


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
