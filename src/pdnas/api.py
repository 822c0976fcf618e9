"""Searches and trainings from Python, with run directories, progress and callbacks."""

import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from operator import index
from pathlib import Path
from typing import Any, Unpack

import torch

from pdnas import pipeline
from pdnas.errors import PdnasError, RunError, SearchError, shown
from pdnas.job import Job, JobSettings, make_job
from pdnas.models import Design
from pdnas.named import find_architecture
from pdnas.page import left_page
from pdnas.progress import SearchProgress, TrainingProgress, is_wanted
from pdnas.runs import (
    CHECKPOINT,
    JOURNAL,
    PIPELINE,
    RESULT,
    SETTINGS,
    AnySettings,
    Result,
    RunDirectory,
)
from pdnas.search import SearchEpoch
from pdnas.settings import (
    DeviceFlags,
    RunSettings,
    SearchSettings,
    TaskFlags,
    TrainSettings,
    new_run,
)
from pdnas.tasks import AnyTask, GraphTask, find_task
from pdnas.tensorboard import TensorBoard, check_tensorboard
from pdnas.training import Recipe, find_recipe
from pdnas.training import seeds as trainings
from pdnas.training.device import find_device
from pdnas.training.fit import Epoch
from pdnas.tuning import RecipeTuner
from pdnas.watcher import Callback, Watcher, Watchers


def search(
    task: AnyTask,
    job: Job | None = None,
    *,
    run_dir: str | Path | None = None,
    callback: Watcher | Callable[[SearchEpoch], bool | None] | None = None,
    progress: bool | None = None,
    tensorboard: bool = False,
    device: str | torch.device = "auto",
    **settings: Unpack[JobSettings],
) -> Result:
    """Find the network that fits a task: search, train the candidates, choose, evaluate.

    Selection uses validation only. The test part is read once for each final training, after all
    choices are made.

    Examples:
        >>> result = pdnas.search("citeseer", blocks=(2, 3), hidden=32, budget_seconds=60)
        >>> print(result.summary())
        citeseer, split public: test accuracy ...

    Args:
        task: What the network is for: a task, a PyG ``Data``, or a task's name or path.
        job: What to do; by default a job of the other settings.
        run_dir: Where to write a run with its page, ``report.html``, which the commands
            ``report``, ``predict``, ``export`` and ``resume`` read. A run that the same call has
            begun there goes on.
        callback: A function that is told every epoch of a search, and ends that search by
            returning true: the job goes on with its candidates. Or a :class:`Watcher`, which is
            told of all that happens.
        progress: Whether to show progress on stderr; by default in a terminal and in a notebook.
        tensorboard: Whether to write events to ``run_dir/tensorboard`` too.
        device: Where.
        settings: Fields of :class:`Job`: ``blocks=(2, 3), space="extended", seeds=5`` and so on.
    """
    if job is not None and settings:
        raise SearchError(
            f"Both a job and settings ({', '.join(settings)}) were given; give one of the two."
        )
    started = time.monotonic()
    job = make_job(**settings) if job is None else job
    job.check()
    _check_board(tensorboard, run_dir)
    place, found = find_device(str(device)), _find(task, run_dir)
    asked = SearchSettings(job=job, tensorboard=tensorboard, **_place(task, found, place))
    with ExitStack() as stack:
        run = None
        if run_dir is not None:
            run = stack.enter_context(_kept(run_dir, asked, place))
        watchers = [] if callback is None else [_watcher(callback)]
        if is_wanted(progress):
            display = SearchProgress(job, quiet=False, note=found.source.note)
            watchers.append(stack.enter_context(display))
        if tensorboard and run is not None:
            watchers.append(stack.enter_context(TensorBoard.of_run(run, asked)))
        journal = None if run is None else run.path / JOURNAL
        return pipeline.search(
            found,
            job,
            device=place,
            run=run,
            watcher=Watchers(*watchers),
            tuner=RecipeTuner(job.tune, journal) if job.tune else None,
            started=started,
        )


def train(
    architecture: Design | str | Path,
    task: AnyTask,
    *,
    hidden: int | None = None,
    recipe: Recipe | Mapping[str, Any] | str | None = None,
    seeds: int | Sequence[int] = 1,
    split_seeds: Sequence[int] = (),
    run_dir: str | Path | None = None,
    progress: bool | None = None,
    tensorboard: bool = False,
    device: str | torch.device = "auto",
) -> Result:
    """Train an architecture once for every seed, and on every split, and sum up.

    Examples:
        >>> task = pdnas.load_task("citeseer")
        >>> result = pdnas.train("gat", task, seeds=3, recipe={"epochs": 5})
        >>> len(result.test.values)
        3

    Args:
        architecture: What to train: a baseline's name, an architecture's JSON file, a run
            directory, or a :class:`pdnas.Architecture`.
        task: On what: a task, a PyG ``Data``, or a task's name or path.
        hidden: Channels between blocks; by default the baseline's or the run's, else 64.
        recipe: How: a recipe, the name of one, a TOML file, or what a result holds; by default
            the baseline's or the run's, else ``default``.
        seeds: The seeds, or how many, from 0.
        split_seeds: Which splits of the task's split's name; by default the task's split alone.
        run_dir: Where to write a run with its page, which commands read. A run that the same call
            has begun there goes on.
        progress: Whether to show progress on stderr; by default in a terminal and in a notebook.
        tensorboard: Whether to write events to ``run_dir/tensorboard`` too.
        device: Where.
    """
    name = Path(architecture).stem if isinstance(architecture, str | Path) else "architecture"
    design, own_hidden, own_recipe = find_architecture(architecture)
    hidden = own_hidden if hidden is None else hidden
    recipe = own_recipe if recipe is None else find_recipe(recipe)
    seeds = range(seeds) if isinstance(seeds, int) else seeds
    seeds = _whole(seeds, "seeds", "a number or ")
    split_seeds = _whole(split_seeds, "split_seeds")
    _check_board(tensorboard, run_dir)
    place, found = find_device(str(device)), _find(task, run_dir)
    asked = TrainSettings(
        name=name,
        architecture=design,
        hidden=hidden,
        recipe=recipe,
        seeds=seeds,
        tensorboard=tensorboard,
        **_place(task, found, place, split_seeds),
    )
    with ExitStack() as stack:
        run = None
        if run_dir is not None:
            run = stack.enter_context(_kept(run_dir, asked, place))
        watchers: list[Callable[[int, Epoch], None]] = []
        if is_wanted(progress):
            count = len(seeds) * max(1, len(split_seeds))
            display = TrainingProgress(count, recipe.epochs, quiet=False, note=found.source.note)
            watchers.append(stack.enter_context(display).show)
        board = None
        if tensorboard and run is not None:
            board = stack.enter_context(TensorBoard.of_run(run, asked))
            watchers.append(board.shown)

        def watch(number: int, epoch: Epoch) -> None:
            for tell in watchers:
                tell(number, epoch)

        result = trainings.train(
            design,
            found,
            hidden=hidden,
            recipe=recipe,
            seeds=seeds,
            split_seeds=split_seeds,
            device=place,
            run=run,
            on_epoch=watch,
        )
        if board is not None:
            board.ended(result)
        return result


def _whole(numbers: Sequence[int], name: str, other: str = "") -> tuple[int, ...]:
    """Numbers that somebody gave, or a sentence.

    Args:
        numbers: What was given.
        name: What it was given as.
        other: What else may be given.
    """
    try:
        return tuple(map(index, numbers))
    except TypeError:
        raise PdnasError(
            f"{name} is {shown(repr(numbers))}; give {other}whole numbers, such as (0, 1, 2)."
        ) from None


def _find(task: AnyTask, run_dir: str | Path | None) -> GraphTask:
    """The task, read as a run that goes on has read it."""
    if isinstance(task, str | Path):
        return TaskFlags(task=str(task)).as_begun(run_dir).load()
    return find_task(task)


def _place(
    task: AnyTask, found: GraphTask, device: torch.device, split_seeds: Sequence[int] = ()
) -> dict[str, Any]:
    """What a run's settings say of its task and its device; data in memory have no name."""
    flags = None
    if isinstance(task, str | Path):
        numbers = ",".join(map(str, split_seeds))
        flags = TaskFlags(task=str(task), split_seeds=numbers or None).resolved(found)
    place = DeviceFlags(device=str(device), threads=torch.get_num_threads())
    return {"task": flags, "task_name": found.name, "device": place}


@contextmanager
def _kept(path: str | Path, asked: RunSettings, device: torch.device) -> Iterator[RunDirectory]:
    """A run directory with all others kept out: a new one, or one that the same call began."""
    is_new = not (Path(path) / SETTINGS).is_file()
    if is_new:
        run = new_run(path, "python", asked, device, torch.get_num_threads())
    else:
        run = RunDirectory.open(path)
        _check_same(run, asked)
    try:
        with run.alone():
            yield run
    except PdnasError:
        if is_new and not (run.has(PIPELINE) or run.has(CHECKPOINT)):
            run.discard()
        raise
    except KeyboardInterrupt:
        if run.has(RESULT):  # the best network so far
            left_page(run, _warn)
        raise
    left_page(run, _warn)


def _warn(sentence: str) -> None:
    warnings.warn(sentence, RuntimeWarning, stacklevel=4)


def _check_same(run: RunDirectory, asked: RunSettings) -> None:
    """Refuse to go on with a run that is of something else."""
    kind, beside = type(asked), {"task", "device", "tensorboard"}
    other: str | None = run.read_record(SETTINGS, AnySettings).command
    if other == kind.model_fields["command"].default:
        there = run.read_record(SETTINGS, kind).model_dump(exclude=beside)
        now = asked.model_dump(exclude=beside)
        other = next((name for name in now if now[name] != there[name]), None)
    if other is not None:
        raise RunError(
            f"The run directory '{run.path}' holds a run with another {other}; repeat its settings "
            "to go on with it, or give another run_dir."
        )


def _watcher(callback: Watcher | Callable[[SearchEpoch], bool | None]) -> Watcher:
    if isinstance(callback, Watcher):
        return callback
    if callable(callback):
        return Callback(callback)
    raise SearchError(
        f"The callback is a {type(callback).__name__}; give a function of an epoch, or a "
        "pdnas.Watcher."
    )


def _check_board(tensorboard: bool, run_dir: str | Path | None) -> None:
    """Refuse events that cannot be written, before anything is computed."""
    if not tensorboard:
        return
    check_tensorboard()
    if run_dir is None:
        raise RunError(
            "tensorboard=True writes its events to the run directory, but there is none; give a "
            "run_dir."
        )
