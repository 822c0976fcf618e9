"""What was asked of a run: its ``settings.json``, from which ``pdnas resume`` goes on."""

import math
import os
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import torch
import tyro
from pydantic import AfterValidator, BeforeValidator, model_validator

from pdnas.architecture import check_hidden
from pdnas.errors import PdnasError, RunError, shown
from pdnas.files import check_path
from pdnas.job import Job
from pdnas.models import AnyDesign
from pdnas.runs import ENVIRONMENT, SETTINGS, AnySettings, Record, RunDirectory, environment
from pdnas.tasks import GraphTask, load_task
from pdnas.tasks.load import DATA_ROOT
from pdnas.tasks.source import FORMATS, NAMED, SCHEMES
from pdnas.training import Recipe
from pdnas.training.device import find_device
from pdnas.training.seeds import check_seeds


def by_default(what: str) -> Any:
    """What help says of a flag whose default is found elsewhere."""
    return tyro.conf.arg(help_behavior_hint=f"(default: {what})")


MOST_WORKERS = 1024
"""More workers than anyone has."""

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
    standardize: Choice = "auto"
    """scale every feature to mean 0 and standard deviation 1; auto: for tables of dense features
    only"""

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
            standardize=_CHOICES[self.standardize],
        )

    def as_begun(self, path: str | Path | None) -> "TaskFlags":
        """The same flags, but that a run which is there already goes on as it was begun.

        Args:
            path: Where the run is, or is to be.
        """
        if path is None or self.standardize != "auto" or not (Path(path) / SETTINGS).is_file():
            return self
        try:
            begun = RunDirectory.open(path).read_record(SETTINGS, _Begun)
        except RunError:
            return self  # who goes on with it says what is wrong
        asked = of_earlier(begun.asked or begun.task)
        choice = asked.get("standardize") if isinstance(asked, dict) else None
        return replace(self, standardize=choice) if choice in tuple(_CHOICES) else self

    def resolved(self, task: GraphTask) -> "TaskFlags":
        """The same flags with whole paths, so that a run can be resumed from any folder.

        Args:
            task: What they came to, which tells whether it was standardized.
        """
        path, root = Path(self.task), self.data_root or os.environ.get(DATA_ROOT)
        named = self.task in NAMED or not path.exists()
        return replace(
            self,
            task=self.task if named else str(path.resolve()),
            data_root=Path(root).resolve() if root else None,
            standardize="on" if task.source.means else "off",
        )

    def standardizes(self) -> bool:
        """Whether the data may be standardized by default: a folder of tables may be."""
        path = Path(self.task)
        is_name = self.task in NAMED or self.task.partition(":")[0] in SCHEMES
        return not is_name and (path.is_dir() or path.suffix.lower() not in FORMATS)

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
        span = re.fullmatch(r"(\d{1,18})\.\.(\d{1,18})", text)
        if span and int(span[2]) - int(span[1]) < MANY:
            chosen = tuple(range(int(span[1]), int(span[2]) + 1))
        elif re.fullmatch(r"\d{1,18}(,\d{1,18})*", text):
            chosen = tuple(int(number) for number in text.split(","))
        else:
            chosen = ()
        if not chosen or len(set(chosen)) < len(chosen):
            raise PdnasError(
                f"The split seeds '{shown(text)}' cannot be read; write one number, a span such as "
                f"0..9, or a list such as 0,2,5, {MANY} of them at most."
            )
        return chosen


def of_earlier(recorded: Any) -> Any:
    """How a task was asked for; versions that recorded nothing of it standardized nothing."""
    if not recorded or not isinstance(recorded, dict):
        return recorded
    return {**recorded, "standardize": recorded.get("standardize", "off")}


def _with_paths(task: TaskFlags) -> TaskFlags:
    """Refuse a task of settings that no file can be called."""
    for place in (task.task, task.data_root):
        if place is not None:
            check_path(place, RunError)
    return task


RecordedTask = Annotated[TaskFlags, BeforeValidator(of_earlier), AfterValidator(_with_paths)]
"""How a task was asked for, as settings of a run hold it."""


class _Begun(AnySettings):
    """How the task of a run was asked for, which a comparison calls ``asked``."""

    task: Any = None
    asked: Any = None


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


def check_workers(workers: int) -> None:
    """Refuse a number of workers that nobody has."""
    if not 1 <= workers <= MOST_WORKERS:
        raise PdnasError(f"The number of workers is {workers}; give 1 to {MOST_WORKERS}.")


@dataclass(frozen=True)
class WorkerFlags:
    """Who does trials."""

    workers: Annotated[int | None, by_default("1; on Ray, as many as it has room for")] = None
    """trials side by side, each in its own process with --threads threads; a GPU is shared"""
    executor: Literal["local", "ray"] = "local"
    """local: processes of this machine; ray: tasks on a Ray cluster"""
    ray_address: Annotated[str | None, by_default("auto")] = None
    """auto (the cluster of this machine), host:port, ray://host:port, or local for a cluster of
    this machine that lasts as long as the command"""
    gpus_per_trial: Annotated[float | None, by_default("none; trials compute on CPUs")] = None
    """GPUs of each trial on Ray, such as 0.1 for ten trials on one"""
    trial_timeout: Annotated[float | None, by_default("as long as it takes")] = None
    """seconds after which a trial that has not ended is ended, and counts as failed"""

    @classmethod
    def of(cls, workers: "int | WorkerFlags") -> "WorkerFlags":
        """Whoever gives a number means so many processes of this machine."""
        return cls(workers=workers) if isinstance(workers, int) else workers

    def check(self, device: str = "auto") -> None:
        """Refuse what makes no sense, alone or together.

        Args:
            device: What ``--device`` says.
        """
        if self.workers is not None:
            check_workers(self.workers)
        limit, gpus = self.trial_timeout, self.gpus_per_trial
        if limit is not None and not 0 < limit < math.inf:
            raise PdnasError(f"--trial-timeout is {limit:g}; give more than 0 seconds.")
        if gpus is not None and not (0 < gpus <= 1 or gpus in range(2, MOST_WORKERS)):
            raise PdnasError(
                f"--gpus-per-trial is {gpus:g}; give a part of a GPU such as 0.1, or a whole "
                "number from 1; without the flag trials compute on CPUs."
            )
        if self.executor == "local":
            for name in ("ray_address", "gpus_per_trial"):
                if getattr(self, name) is not None:
                    raise PdnasError(
                        f"--{name.replace('_', '-')} is for trials on Ray; leave it out, or give "
                        "--executor ray too."
                    )
        elif gpus is not None and device == "cpu":
            raise PdnasError(
                f"--device is cpu, but --gpus-per-trial gives each trial {gpus:g} GPU(s); leave "
                "out one of them."
            )
        elif gpus is None and device.startswith("cuda"):
            raise PdnasError(
                f"--device is {device}, but trials on Ray compute on GPUs only with "
                "--gpus-per-trial; give that too."
            )

    def device(self, name: str) -> str:
        """Where trials compute, where ``--device`` says a name."""
        if self.executor == "local":
            return str(find_device(name))
        return "cuda" if self.gpus_per_trial else "cpu"

    @property
    def sharers(self) -> int:
        """How many trials share the memory of a device, as far as it is known."""
        if self.gpus_per_trial:
            return max(1, int(1 / self.gpus_per_trial))
        return self.workers or 1


def check_data_root(task: TaskFlags, run: RunDirectory) -> None:
    """Refuse a run that brings its own data root: PyG's readers trust what they find there."""
    root = task.data_root
    if root is not None and (
        not root.is_absolute() or root.resolve().is_relative_to(run.path.resolve())
    ):
        raise RunError(
            f"The run '{run.path}' names the data root '{shown(root)}', which is a part of it or "
            "no whole path; files there could run code, so start a new run with --data-root."
        )


class RunSettings(Record):
    """What every run was asked for.

    Args:
        task: How its task was asked for; none: it was in memory, and cannot be read again.
        task_name: What the task is called.
        device: Where it runs.
        tensorboard: Whether it is told to TensorBoard too.
    """

    task: RecordedTask | None
    task_name: str
    device: DeviceFlags
    tensorboard: bool = False

    def load_task(self, run: RunDirectory) -> GraphTask:
        """The task of a run that is to go on."""
        if self.task is None:
            raise RunError(
                f"The run '{run.path}' is on data that were in memory and cannot be read again; go "
                "on with it in Python: repeat the call with the same data, settings and run_dir."
            )
        check_data_root(self.task, run)
        return self.task.load().named(self.task_name)

    @property
    def split_seeds(self) -> tuple[int, ...]:
        """Which splits of the task's split's name; none: the task's split alone."""
        return () if self.task is None else self.task.chosen_splits()


class SearchSettings(RunSettings):
    """All that decides a search run: what ``settings.json`` holds and ``pdnas resume`` reads."""

    command: Literal["search"] = "search"
    job: Job
    workers: WorkerFlags = WorkerFlags()

    @model_validator(mode="after")
    def _is_possible(self) -> Self:
        self.job.check_numbers()
        return self


class TrainSettings(RunSettings):
    """All that decides a training run: what ``settings.json`` holds and ``pdnas resume`` reads."""

    command: Literal["train"] = "train"
    name: str
    architecture: AnyDesign
    hidden: int
    recipe: Recipe
    seeds: tuple[int, ...]

    @model_validator(mode="after")
    def _is_possible(self) -> Self:
        check_hidden(self.hidden)
        check_seeds(self.seeds)
        return self


def new_run(
    path: str | Path | None, label: str, settings: Record, device: torch.device, threads: int
) -> RunDirectory:
    """A run directory that knows what it is for and where it runs.

    Args:
        path: Where; by default ``runs/LABEL-DATE-TIME``.
        label: What the run is about.
        settings: What was asked for.
        device: Where it runs.
        threads: On how many CPU threads.
    """
    run = RunDirectory.create(path, re.sub(r"[^\w.-]+", "-", label))
    run.write_json(SETTINGS, settings)
    run.write_json(ENVIRONMENT, environment(device, threads))
    return run
