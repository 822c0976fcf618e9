"""The command that a run's settings come from, written so that it can be given again."""

import itertools
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pdnas.errors import PdnasError
from pdnas.job import Job
from pdnas.models.baselines import BASELINES
from pdnas.named import find_architecture, find_strategy
from pdnas.runs import ARCHITECTURE, RESULT, SETTINGS, AnySettings, RunDirectory
from pdnas.search.pdnas import PRESETS
from pdnas.settings import DeviceFlags, SearchSettings, TaskFlags, TrainSettings
from pdnas.space import SPACES
from pdnas.training import RECIPES, Recipe

EMBEDDED = "citeseer"
"""The task that comes with the package."""

AGAIN = "This page again"

PLAIN = (
    "blocks",
    "hidden",
    "max_parameters",
    "candidates",
    "designs",
    "mutations",
    "repeats",
    "tune",
    "controls",
    "seed",
    "seeds",
    "budget_seconds",
    "budget_trials",
)
"""Fields of a job that are flags of the same name."""


def commands_of(path: Path) -> list[tuple[str, str]]:
    """What can be done with a run: what each command does, and the command."""
    run = RunDirectory.open(path)
    kind, place = run.read_record(SETTINGS, AnySettings).command, shlex.quote(str(path))
    told: list[tuple[str, str]] = []
    settings: SearchSettings | TrainSettings | None = None
    if kind == "search":
        settings = run.read_record(SETTINGS, SearchSettings)
        again = None if settings.task is None else search_command(settings)
        told.append(("Search again", shlex.join(again) if again else _not_by_flags(path)))
    elif kind == "train":
        settings = run.read_record(SETTINGS, TrainSettings)
        again = None if settings.task is None else train_command(settings, path)
        told.append(("Train again", shlex.join(again) if again else _not_by_flags(path)))
    if not run.has(RESULT):
        on = [("Go on where it stopped", f"pdnas resume {place}")]
        is_kept = settings is None or settings.task is not None
        return [*(on if is_kept else []), *told, (AGAIN, f"pdnas report {place}")]
    if settings is not None and settings.task is not None:
        words = ["pdnas", "train", str(path), *_task_words(settings), "--seeds", "10"]
        told.append(("Train the network over more seeds", shlex.join(words)))
    told += [
        ("Predictions of every node", f"pdnas predict {place} -o predictions.csv"),
        ("The network as PyTorch Geometric source", f"pdnas export {place} --format python"),
        (AGAIN, f"pdnas report {place}"),
    ]
    return told


def _not_by_flags(path: Path) -> str:
    return f"# flags alone cannot say it; all settings are in {shlex.quote(str(path / SETTINGS))}"


def search_command(settings: SearchSettings) -> list[str] | None:
    """The shortest command that has these settings; none if flags alone cannot say them.

    A space or a recipe of a file, and incumbents, are not known by a name any more.
    """
    job = settings.job
    named = job.space.name in SPACES and SPACES[job.space.name] == job.space
    if job.incumbents or not named:
        return None
    chosen = _search_words(job)
    if chosen is None:
        return None
    words = ["pdnas", "search", *_task_words(settings)]
    if job.space.name != Job.model_fields["space"].default.name:
        words += ["--space", job.space.name]
    words += chosen
    for name in PLAIN:
        value = getattr(job, name)
        if value != Job.model_fields[name].default:
            words += _flag(name, value)
    return words + _device_words(settings.device)


def train_command(settings: TrainSettings, path: Path) -> list[str]:
    """The command that has these settings; an architecture without a name is that of the run.

    Args:
        settings: Of a training.
        path: The run that it is of.
    """
    name = settings.name
    if name not in BASELINES or BASELINES[name].design != settings.architecture:
        name = str(path / ARCHITECTURE)
    _, hidden, recipe = find_architecture(name)
    words = ["pdnas", "train", name, *_task_words(settings)]
    if settings.hidden != hidden:
        words += _flag("hidden", settings.hidden)
    words += _recipe_words(settings.recipe.undecided, recipe)
    first = settings.seeds[0]
    words += _flag("seed", first) if first else []
    words += _flag("seeds", len(settings.seeds)) if len(settings.seeds) > 1 else []
    return words + _device_words(settings.device)


def _recipe_words(wanted: Recipe, usual: Recipe) -> list[str]:
    """Flags of a recipe, as few as there can be.

    Args:
        wanted: What they are to come to.
        usual: What no flag comes to.
    """
    found = []
    for name in (None, *RECIPES):
        changes = _changed(wanted, usual if name is None else RECIPES[name])
        if changes is not None:
            found.append([*([] if name is None else ["--recipe", name]), *_flags(changes)])
    return min(found, key=len)


def _search_words(job: Job) -> list[str] | None:
    """Flags of the strategy and of the recipe, as few as there can be."""
    name, wanted = job.strategy.name, job.recipe.undecided
    found = []
    presets = tuple(PRESETS) if name == "pdnas" else ("default",)
    epochs = (None, *dict.fromkeys((job.strategy.epochs, wanted.epochs)))
    for preset, recipe, lasting in itertools.product(presets, RECIPES, epochs):
        base = RECIPES[recipe]
        if lasting is not None:
            base = base.changed(epochs=lasting)
        changes = _changed(wanted, base)
        if changes is None or "epochs" in changes:
            continue
        try:
            strategy = _strategy_changes(job, preset, lasting)
        except PdnasError:
            continue  # a preset that cannot last that long, or settings that exclude each other
        if strategy is None:
            continue
        words = [] if name == Job.model_fields["strategy"].default.name else ["--strategy", name]
        words += [] if preset == "default" else ["--preset", preset]
        words += [] if lasting is None else ["--epochs", str(lasting)]
        words += [] if recipe == "default" else ["--recipe", recipe]
        found.append([*words, *_flags(strategy), *_flags(changes)])
    return min(found, key=len, default=None)


def _strategy_changes(job: Job, preset: str, epochs: int | None) -> Mapping[str, Any] | None:
    name = job.strategy.name
    starts = [find_strategy(name, preset, epochs=epochs, changes={})]
    given: list[dict[str, Any]] = [{}]
    if (sharing := getattr(job.strategy, "sharing", None)) is not None:
        given.append({"sharing": sharing})  # other settings have other defaults with it
        starts.append(find_strategy(name, preset, epochs=epochs, changes=given[-1]))
    found = []
    for start, first in zip(starts, given, strict=True):
        changes = _changed(job.strategy, start)
        if changes is None or "epochs" in changes:
            continue
        changes = {**first, **changes}
        if find_strategy(name, preset, epochs=epochs, changes=dict(changes)) == job.strategy:
            found.append(changes)
    return min(found, key=len, default=None)


def _changed(wanted: Any, base: Any) -> dict[str, Any] | None:
    """The fields that differ; none if one of them has no value that a flag could be given."""
    values, others = wanted.model_dump(mode="json"), base.model_dump(mode="json")
    changes = {name: value for name, value in values.items() if value != others.get(name)}
    return None if None in changes.values() else changes


def _task_words(settings: SearchSettings | TrainSettings) -> list[str]:
    """The task and its flags; a path as the user gave it, and not where it lay on the disk."""
    task = settings.task
    assert task is not None  # a graph in memory has no command
    words = [settings.task_name if task.task.endswith(settings.task_name) else task.task]
    for name, value in asdict(task).items():
        # What is in the package or has a path of its own is not looked for in a data root.
        is_found = task.task == EMBEDDED or Path(task.task).is_absolute()
        is_place = name == "data_root" and is_found
        is_usual = name == "standardize" and value == ("on" if task.standardizes() else "off")
        is_usual = is_usual or value == getattr(TaskFlags(), name)
        if name != "task" and not is_place and not is_usual:
            words += _flag(name, value)
    return words


def _device_words(device: DeviceFlags) -> list[str]:
    return list(_flags({k: v for k, v in asdict(device).items() if v != getattr(DeviceFlags(), k)}))


def _flags(values: Mapping[str, Any] | None) -> Iterator[str]:
    for name, value in (values or {}).items():
        yield from _flag(name, value)


def _flag(name: str, value: Any) -> list[str]:
    values = value if isinstance(value, list | tuple) else [value]
    return [f"--{name.replace('_', '-')}", *(str(one) for one in values)]
