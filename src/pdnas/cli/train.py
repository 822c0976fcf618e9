"""``pdnas train``: one architecture, trained over seeds."""

import json
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import torch
import tyro

from pdnas.architecture import check_hidden
from pdnas.cli.display import show
from pdnas.cli.flags import (
    MANY,
    DeviceFlags,
    OutputFlags,
    RecipeChanges,
    TaskFlags,
    by_default,
    enough_memory,
    given,
    kept,
    tell,
    where,
)
from pdnas.errors import PdnasError
from pdnas.models import Design
from pdnas.models.baselines import BASELINES
from pdnas.named import HIDDEN, find_architecture
from pdnas.page import left_page
from pdnas.progress import TrainingProgress
from pdnas.runs import RunDirectory
from pdnas.settings import TrainSettings
from pdnas.tasks import GraphTask
from pdnas.tensorboard import TensorBoard, check_tensorboard
from pdnas.training import RECIPES, Recipe, find_recipe, train
from pdnas.training.batching import check_shared
from pdnas.training.fit import Epoch
from pdnas.training.memory import load_of, settle
from pdnas.training.parallel import by_first, group
from pdnas.training.seeds import check_seeds


@dataclass(frozen=True)
class Command:
    """Train one architecture over seeds: a baseline's name, a JSON file, or the one of a run."""

    architecture: Annotated[
        tyro.conf.Positional[str],
        tyro.conf.arg(
            metavar="ARCH",
            help=f"{', '.join(BASELINES)}, an architecture's JSON file, that of a rival in a "
            "comparison, or a run directory",
        ),
    ]
    task: TaskFlags = TaskFlags()
    hidden: Annotated[int | None, by_default(f"the baseline's or the run's, else {HIDDEN}")] = None
    """channels between blocks"""
    recipe: Annotated[
        str | None,
        tyro.conf.arg(
            help=f"how to train: {', '.join(RECIPES)}, or a TOML file",
            help_behavior_hint="(default: the baseline's or the run's, else default)",
        ),
    ] = None
    changes: RecipeChanges = RecipeChanges()
    seed: int = 0
    """the first seed"""
    seeds: int = 1
    """how many trainings, each with the next seed"""
    device: DeviceFlags = DeviceFlags()
    output: OutputFlags = OutputFlags()
    tensorboard: bool = False
    """write events for TensorBoard to RUN/tensorboard too"""

    def run(self) -> int:
        """Train, write the run, show the result."""
        if not 1 <= self.seeds <= MANY:
            raise PdnasError(f"The number of seeds is {self.seeds}; give 1 to {MANY}.")
        seeds = tuple(range(self.seed, self.seed + self.seeds))
        check_seeds(seeds)
        architecture, hidden, recipe = self._find()
        task = self.task.load()
        settings = TrainSettings(
            name=Path(self.architecture).stem,
            architecture=architecture,
            hidden=hidden,
            recipe=recipe,
            seeds=seeds,
            task=self.task.resolved(task),
            task_name=task.name,
            device=self.device,
            tensorboard=self.tensorboard,
        )
        return execute(settings, task, self.output)

    def _find(self) -> tuple[Design, int, Recipe]:
        """The architecture, its hidden size and its recipe, from their names."""
        architecture, hidden, recipe = find_architecture(self.architecture)
        if self.recipe is not None:
            recipe = find_recipe(self.recipe)
        recipe = recipe.changed(**given(self.changes))
        return architecture, hidden if self.hidden is None else self.hidden, recipe


def execute(
    settings: TrainSettings,
    task: GraphTask,
    output: OutputFlags,
    run: RunDirectory | None = None,
) -> int:
    """Do what the settings say, in a new run or going on with one, and show the result."""
    settings.device.apply()
    with group(settings.device.device) as device:
        return _execute(settings, task, output.here, run, device)


def _execute(
    settings: TrainSettings,
    task: GraphTask,
    output: OutputFlags,
    run: RunDirectory | None,
    device: torch.device,
) -> int:
    check_hidden(settings.hidden)
    if settings.tensorboard:
        check_tensorboard()
    splits = settings.split_seeds
    for seed in splits:
        task.with_split(task.split.name, seed)  # refuses one that is not there before any writing
    if run is None:
        load = load_of(settings.architecture, task, settings.hidden, settings.recipe, device)
        recipe = by_first(lambda: settle(settings.recipe, task, load, device=device, tell=tell))
        check_shared(recipe, task)
        settled = settings.model_copy(update={"recipe": recipe})
        label = f"train-{settings.name}-{Path(task.name).stem}"
        run = by_first(lambda: output.new_run(label, settled, device, settings.device.threads))
        settings = settled
    count = len(settings.seeds) * max(1, len(splits))
    what = f"A network of hidden size {settings.hidden}"
    try:
        with (
            kept(run) as own,
            enough_memory(what, device),
            TrainingProgress(
                count, settings.recipe.epochs, quiet=output.quiet, note=task.source.note
            ) as progress,
            ExitStack() as stack,
        ):
            board: TensorBoard | None = None
            if settings.tensorboard and own is not None:
                board = stack.enter_context(TensorBoard.of_run(own, settings))

            def watch(number: int, epoch: Epoch) -> None:
                progress.show(number, epoch)
                if board is not None:
                    board.shown(number, epoch)

            result = train(
                settings.architecture,
                task,
                hidden=settings.hidden,
                recipe=settings.recipe,
                seeds=settings.seeds,
                split_seeds=splits,
                device=device,
                run=own,
                on_epoch=watch,
            )
            if board is not None:
                board.ended(result)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"stopped; go on with: pdnas resume {run.path}") from None
    page = left_page(run, tell)
    if not output.quiet and not output.json:
        show(settings.name, result, run.path, page)
    if output.json:
        print(json.dumps({**result.model_dump(mode="json"), **where(run, page)}))
    return 0
