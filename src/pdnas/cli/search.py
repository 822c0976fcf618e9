"""``pdnas search``: from a graph to a trained network."""

import json
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
import tyro

from pdnas.architecture import Architecture
from pdnas.cli import STARTED
from pdnas.cli.display import show_search
from pdnas.cli.flags import (
    DeviceFlags,
    OutputFlags,
    TaskFlags,
    WorkerFlags,
    by_default,
    changes_of,
    elsewhere,
    enough_memory,
    given,
    kept,
    tell,
    where,
)
from pdnas.errors import PdnasError, SearchError
from pdnas.job import Job, Searcher, Tuner, settle_job
from pdnas.models.baselines import BASELINES
from pdnas.named import find_architecture, find_strategy
from pdnas.page import left_page
from pdnas.pipeline import search
from pdnas.progress import SearchProgress
from pdnas.runs import (
    JOURNAL,
    PIPELINE,
    RESULT,
    SETTINGS,
    Result,
    RunDirectory,
)
from pdnas.search import STRATEGIES
from pdnas.search.pdnas import PRESETS
from pdnas.settings import SearchSettings
from pdnas.space import SPACES, find_space
from pdnas.tasks import GraphTask
from pdnas.tensorboard import TensorBoard, check_tensorboard
from pdnas.training import RECIPES, Recipe, find_recipe
from pdnas.training.batching import check_shared
from pdnas.training.parallel import by_first, group, is_first
from pdnas.watcher import Watcher, Watchers

RecipeChanges: Any = changes_of([Recipe], "recipe", without=["epochs"])
StrategyChanges: Any = changes_of(
    [STRATEGIES[name] for name in STRATEGIES], "strategy", without=["name", "epochs"]
)


@dataclass(frozen=True)
class Command:
    """Find the network that fits a graph: search, train the candidates, choose, evaluate, compare.

    Validation chooses; the test part is read once, for the final trainings.
    """

    task: TaskFlags = TaskFlags()
    space: Annotated[
        str, tyro.conf.arg(help=f"where to look: {', '.join(SPACES)}, or a TOML file")
    ] = "extended"
    strategy: Annotated[str, tyro.conf.arg(help=f"how: {', '.join(STRATEGIES)}")] = "pdnas"
    preset: Annotated[
        str, tyro.conf.arg(help=f"settings of the strategy pdnas: {', '.join(PRESETS)}")
    ] = "default"
    settings: StrategyChanges = StrategyChanges()
    epochs: Annotated[int | None, by_default("the strategy's and the recipe's")] = None
    """epochs of the search, and of each training at most"""
    blocks: tuple[int, ...] = (2,)
    """depths to search; with several, validation chooses"""
    hidden: tuple[int, ...] = (32,)
    """channels between blocks to search; with several, validation chooses"""
    max_parameters: Annotated[int | None, by_default("any number")] = None
    """weights that the network may have at most"""
    candidates: int = 6
    """architectures of each search that are trained to choose among them"""
    designs: Literal["on", "off"] = "on"
    """whether baselines that are members of the space are candidates too"""
    incumbents: tuple[str, ...] = ()
    """networks of the space that are candidates too: architecture files or run directories"""
    mutations: int = 0
    """changes of the best of these, of one choice each, that are trained too"""
    repeats: int = 1
    """how often the best three of all these are trained again to choose among them"""
    tune: int = 0
    """recipes to try for the network found before the final trainings; 0: none"""
    controls: Annotated[
        tuple[str, ...],
        tyro.conf.arg(help=f"what to compare with: random, {', '.join(BASELINES)}; or nothing"),
    ] = ("random", "gcn", "gat")
    recipe: Annotated[
        str, tyro.conf.arg(help=f"how to train: {', '.join(RECIPES)}, or a TOML file")
    ] = "default"
    changes: RecipeChanges = RecipeChanges()
    seed: int = 0
    """of the search, and the first of the final trainings"""
    seeds: int = 3
    """how many final trainings, each with the next seed"""
    budget_seconds: Annotated[float | None, by_default("as long as it takes")] = None
    """hard limit on the whole job; the search is fitted to it"""
    budget_trials: Annotated[int | None, by_default("as many as it takes")] = None
    """trainings that may be spent on the choice, in the search and on its candidates"""
    workers: WorkerFlags = WorkerFlags()
    device: DeviceFlags = DeviceFlags()
    output: OutputFlags = OutputFlags()
    tensorboard: bool = False
    """write events for TensorBoard to RUN/tensorboard too"""

    def run(self) -> int:
        """Search, write the run, show what was found."""
        self.task.check_one_split("A search")
        job = self._job()
        job.check()
        device, events = self.device.device, self.tensorboard
        check_workers(self.workers, job, device=device, tensorboard=events)
        task = self.task.load()
        settings = SearchSettings(
            job=job,
            workers=self.workers,
            task=self.task.resolved(task),
            task_name=task.name,
            device=self.device,
            tensorboard=self.tensorboard,
        )
        return execute(settings, task, self.output)

    def _job(self) -> Job:
        recipe = find_recipe(self.recipe)
        if self.epochs is not None:
            recipe = recipe.changed(epochs=self.epochs)
        return Job(
            space=find_space(self.space),
            strategy=find_strategy(
                self.strategy, self.preset, epochs=self.epochs, changes=given(self.settings)
            ),
            blocks=self.blocks,
            hidden=self.hidden,
            recipe=recipe.changed(**given(self.changes)),
            seed=self.seed,
            seeds=self.seeds,
            candidates=self.candidates,
            designs=self.designs,
            incumbents=tuple(_incumbent(name) for name in self.incumbents),
            mutations=self.mutations,
            repeats=self.repeats,
            tune=self.tune,
            controls=self.controls,
            max_parameters=self.max_parameters,
            budget_seconds=self.budget_seconds,
            budget_trials=self.budget_trials,
        )


def check_workers(
    workers: WorkerFlags, job: Job, *, device: str, tensorboard: bool, begun: bool = False
) -> None:
    """Refuse other processes for what they cannot do.

    Args:
        workers: Who does the searches.
        job: What they are of.
        device: What ``--device`` says.
        tensorboard: Whether events are written.
        begun: Whether the job goes on, so that what it is can no longer be changed.
    """
    workers.check(device)
    if workers == WorkerFlags():
        return
    if len(job.blocks) * len(job.hidden) == 1:
        remedy = "" if begun else "give several --blocks or --hidden, or "
        raise SearchError(
            "--workers, --executor, --trial-timeout and the like are for the searches of a grid, "
            f"but this is one search; {remedy}leave them out."
        )
    for flag, value in (
        ("--budget-seconds", job.budget_seconds),
        ("--tensorboard", tensorboard or None),
    ):
        if value is not None:
            remedy = "" if begun else "leave it out, or "
            raise SearchError(
                f"{flag} is for searches of this process, one after the other; {remedy}"
                "leave out --workers, --executor and the like."
            )


def execute(
    settings: SearchSettings,
    task: GraphTask,
    output: OutputFlags,
    run: RunDirectory | None = None,
) -> int:
    """Do what the settings say, in a new run or going on with one, and show the result."""
    settings.device.apply()
    with group(settings.device.device) as device:
        return _execute(settings, task, output.here, run, device)


def _execute(
    settings: SearchSettings,
    task: GraphTask,
    output: OutputFlags,
    run: RunDirectory | None,
    device: torch.device,
) -> int:
    is_new = run is None
    if settings.tensorboard:
        check_tensorboard()
    if run is None:
        job = by_first(
            lambda: settle_job(
                settings.job, task, device=device, tell=tell, sharers=settings.workers.sharers
            )
        )
        check_shared(job.recipe, task)
        settled = settings.model_copy(update={"job": job})
        label = f"search-{Path(task.name).stem}"
        run = by_first(lambda: output.new_run(label, settled, device, settings.device.threads))
        settings = settled
    what = f"A search with hidden size {max(settings.job.hidden)}"
    try:
        with (
            kept(run) as own,
            elsewhere(run),
            enough_memory(what, device),
            SearchProgress(settings.job, quiet=output.quiet, note=task.source.note) as progress,
            ExitStack() as stack,
        ):
            if own is not None and own.read_record(SETTINGS, SearchSettings) != settings:
                own.write_json(SETTINGS, settings)  # others do it from now on
            watchers: list[Watcher] = [progress]
            if settings.tensorboard and is_first():
                watchers.append(stack.enter_context(TensorBoard.of_run(run, settings)))
            result = search(
                task,
                settings.job,
                device=device,
                run=own,
                watcher=Watchers(*watchers) if is_first() else None,
                tuner=_tuner(settings.job, run),
                searcher=_searcher(settings, run, device),
                started=STARTED.get(),
            )
    except PdnasError:
        if is_new and is_first() and not run.has(PIPELINE):
            run.discard()
        raise
    except KeyboardInterrupt:
        best = ""
        if run.has(RESULT):
            val = run.read_record(RESULT, Result).val
            best = f" The best network so far is kept there: validation {val} %."
            left_page(run, tell)
        raise KeyboardInterrupt(f"stopped; go on with: pdnas resume {run.path}.{best}") from None
    page = left_page(run, tell)
    if output.json:
        print(json.dumps({**result.model_dump(mode="json"), **where(run, page)}))
    elif not output.quiet:
        show_search(result, task, run.path, page)
    return 0


def _incumbent(name: str) -> Architecture:
    """A network that there is already, which a search can only change if it is made of blocks."""
    design, _, _ = find_architecture(name)
    if isinstance(design, Architecture):
        return design
    raise SearchError(
        f"The incumbent '{name}' is not made of blocks, so it is no member of any space; name its "
        "baseline among --controls, to compare with it."
    )


def _tuner(job: Job, run: RunDirectory) -> Tuner | None:
    """What tunes the recipe, where that is asked for; Optuna takes a while to import."""
    if not job.tune:
        return None
    from pdnas.tuning import RecipeTuner

    return RecipeTuner(job.tune, run.path / JOURNAL)


def _searcher(settings: SearchSettings, run: RunDirectory, device: torch.device) -> Searcher | None:
    """What searches the grid in other processes, where that is asked for; as above."""
    if settings.workers == WorkerFlags():
        return None
    from pdnas.tuning.cells import GridSearcher

    threads = settings.device.threads
    return GridSearcher(settings.workers, run, device=device, threads=threads)
