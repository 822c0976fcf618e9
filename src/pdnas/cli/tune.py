"""``pdnas tune``: many searches and trainings, for the shape and the recipe that suit a graph."""

import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self
from uuid import uuid4

import torch
import tyro
from pydantic import BeforeValidator, Field, model_validator

from pdnas.cli.display import show
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
    tell,
    where,
)
from pdnas.cli.trials import TuningProgress
from pdnas.errors import PdnasError, RunError
from pdnas.job import Job
from pdnas.models import Design
from pdnas.models.baselines import BASELINES
from pdnas.named import find_architecture
from pdnas.page import left_page
from pdnas.runs import RECIPE, SETTINGS, AnySettings, Record, RunDirectory
from pdnas.search.pdnas import PRESETS
from pdnas.settings import RecordedTask
from pdnas.space import SPACES, find_space
from pdnas.tasks import GraphTask
from pdnas.training import RECIPES, Recipe, find_recipe
from pdnas.training.device import find_device
from pdnas.tuning import Tuning, tune
from pdnas.tuning.agreement import Agreement, decided_as, different, join
from pdnas.tuning.pieces import difference
from pdnas.tuning.ranges import RANGES
from pdnas.tuning.storage import check_url, without_password
from pdnas.tuning.tune import settle_tuning

if TYPE_CHECKING:
    from pdnas.tuning.postgresql import Database

DAY = 86_400
"""Seconds."""

SEARCHES = (
    "space",
    "preset",
    "blocks",
    "max_parameters",
    "candidates",
    "designs",
    "mutations",
    "repeats",
)
"""Flags that say how networks are searched for."""

Text = Annotated[str, Field(pattern=r"^[^\x00]+$")]
"""What a database can hold."""

RecipeChanges: Any = changes_of([Recipe], "recipe", without=["epochs"])


class StorageSettings(Record):
    """Where a study is kept that several drivers share.

    Args:
        url: Of the database, without its password.
        study: Its name there.
        driver: Which of the drivers this run is.
        grace: Seconds for which it may be silent.
    """

    url: Text
    study: Text
    driver: Text
    grace: Annotated[int, Field(ge=1, le=DAY)]

    def open(self, url: str | None) -> "Database":
        """The database.

        Args:
            url: With its password, where that is known.
        """
        try:
            from pdnas.tuning.postgresql import Database
        except ImportError:
            raise PdnasError(
                "--storage needs the package psycopg, which is not installed; install it with: "
                "pip install 'pdnas[postgresql]'."
            ) from None
        return Database(url or self.url, self.study, self.driver, grace=self.grace)


def _workers(recorded: Any) -> Any:
    """Who does trials; early versions recorded a number."""
    return WorkerFlags.of(recorded) if isinstance(recorded, int) else recorded


class TuneSettings(Record):
    """All that decides a tuning run: what ``settings.json`` holds."""

    command: Literal["tune"] = "tune"
    name: str
    tuning: Tuning
    workers: Annotated[WorkerFlags, BeforeValidator(_workers)]
    task: RecordedTask
    task_name: str
    device: DeviceFlags
    storage: StorageSettings | None = None

    @model_validator(mode="after")
    def _is_possible(self) -> Self:
        self.tuning.check()
        return self


@dataclass(frozen=True)
class Command:
    """Tune a network for a graph: its shape by a grid, its recipe by TPE, then train it over seeds.

    Without --architecture every pair of --blocks and --hidden is searched. The same command with
    the same --run-dir goes on where it stopped; a higher --trials adds to what is there.
    """

    task: TaskFlags = TaskFlags()
    architecture: Annotated[
        str | None,
        tyro.conf.arg(
            metavar="ARCH",
            help=f"tune this one: {', '.join(BASELINES)}, a JSON file, or a run directory",
            help_behavior_hint="(default: search for one)",
        ),
    ] = None
    space: Annotated[
        str, tyro.conf.arg(help=f"where to search: {', '.join(SPACES)}, or a TOML file")
    ] = "extended"
    preset: Annotated[str, tyro.conf.arg(help=f"settings of the search: {', '.join(PRESETS)}")] = (
        "default"
    )
    blocks: tuple[int, ...] = (2,)
    """depths to search"""
    hidden: Annotated[tuple[int, ...] | None, by_default("the architecture's, else 32")] = None
    """channels between blocks to try"""
    max_parameters: Annotated[int | None, by_default("any number")] = None
    """weights that a network may have at most"""
    candidates: int = 6
    """architectures of each search that are trained to choose among them"""
    designs: Literal["on", "off"] = "on"
    """whether baselines that are members of the space are candidates too"""
    mutations: int = 12
    """changes of the best of these, of one choice each, that are trained too"""
    repeats: int = 1
    """how often the best three of all these are trained again to choose among them"""
    trials: int = 30
    """recipes to try; the best three and the first are tried again"""
    trial_seeds: int = 2
    """trainings of each trial"""
    fields: Annotated[
        tuple[str, ...], tyro.conf.arg(help=f"what of the recipe to tune: {', '.join(RANGES)}")
    ] = tuple(RANGES)
    recipe: Annotated[
        str | None,
        tyro.conf.arg(
            help=f"the recipe to start from: {', '.join(RECIPES)}, or a TOML file",
            help_behavior_hint="(default: the architecture's, else default)",
        ),
    ] = None
    changes: RecipeChanges = RecipeChanges()
    epochs: Annotated[int | None, by_default("the preset's and the recipe's")] = None
    """epochs of each search, and of each training at most"""
    seed: int = 0
    """of all that is drawn, and the first of the final trainings"""
    seeds: int = 3
    """how many final trainings, each with the next seed"""
    workers: WorkerFlags = WorkerFlags()
    storage: Annotated[
        str | None,
        tyro.conf.arg(metavar="URL", help_behavior_hint="(default: a file of the run)"),
    ] = None
    """postgresql://USER@HOST:PORT/DATABASE, where several of these commands share the trials"""
    study: Annotated[str | None, by_default("made of the task and the settings")] = None
    """name of the study in --storage"""
    grace: int = 60
    """seconds of silence after which a driver of --storage is dead and others do its trials"""
    device: DeviceFlags = DeviceFlags()
    output: OutputFlags = OutputFlags()

    def run(self) -> int:
        """Tune, write the run, show the result."""
        self.task.check_one_split("A tuning")
        tuning = self._tuning()
        tuning.check()
        self.workers.check(self.device.device)
        self._check_storage()
        task = self.task.as_begun(self.output.run_dir).load()
        settings = TuneSettings(
            name=Path(self.architecture).stem if self.architecture else "found",
            tuning=tuning,
            workers=self.workers,
            task=self.task.resolved(task),
            task_name=task.name,
            device=self.device,
            storage=self._storage(tuning, task),
        )
        run = self._known_run(settings)
        if run is not None:  # what was decided when it began stays so
            settings = _decided_as(run.read_record(SETTINGS, TuneSettings), settings)
        return execute(settings, task, self.output, run, self.storage)

    def _check_storage(self) -> None:
        """Refuse a database that cannot be one, and what is said of none."""
        usual = Command()
        if self.storage is not None:
            check_url(self.storage)
        elif (self.study, self.grace) != (usual.study, usual.grace):
            raise PdnasError(
                "--study and --grace are for a study in a database; give its --storage too."
            )
        if self.study == "":
            raise PdnasError("The name of --study is empty; give one, or leave it out.")
        if not 1 <= self.grace <= DAY:
            raise PdnasError(f"--grace is {self.grace}; give 1 to {DAY} seconds.")

    def _storage(self, tuning: Tuning, task: GraphTask) -> StorageSettings | None:
        if self.storage is None:
            return None
        study = self.study
        if study is None:
            place = torch.device(self.workers.device(self.device.device))
            agreement = Agreement.of(tuning, task, place)
            study = f"{Path(task.name).stem}-{agreement.fingerprint}"
        return StorageSettings(
            url=without_password(self.storage),
            study=study,
            driver=str(uuid4()),
            grace=self.grace,
        )

    def _tuning(self) -> Tuning:
        architecture: Design | None = None
        hidden, recipe = 32, RECIPES["default"]
        if self.architecture is not None:
            self._check_no_search()
            architecture, hidden, recipe = find_architecture(self.architecture)
        if self.recipe is not None:
            recipe = find_recipe(self.recipe)
        strategy = PRESETS[self.preset]
        if self.epochs is not None:
            recipe, strategy = recipe.changed(epochs=self.epochs), strategy.lasting(self.epochs)
        job = Job(
            space=find_space(self.space),
            strategy=strategy,
            blocks=self.blocks,
            hidden=(hidden,) if self.hidden is None else self.hidden,
            recipe=recipe.changed(**given(self.changes)),
            seed=self.seed,
            seeds=self.seeds,
            candidates=self.candidates,
            designs=self.designs,
            mutations=self.mutations,
            repeats=self.repeats,
            max_parameters=self.max_parameters,
        )
        return Tuning(
            architecture=architecture,
            search=job,
            fields=self.fields,
            trials=self.trials,
            trial_seeds=self.trial_seeds,
        )

    def _check_no_search(self) -> None:
        """Refuse what a search would need, where the network is given."""
        usual = Command()
        for name in SEARCHES:
            if getattr(self, name) != getattr(usual, name):
                raise PdnasError(
                    f"--{name.replace('_', '-')} is for a search, but --architecture names the "
                    "network; leave out one of them."
                )

    def _known_run(self, settings: TuneSettings) -> RunDirectory | None:
        """The run that --run-dir names, if it is of the same tuning; more trials are welcome."""
        place = self.output.run_dir
        if place is None or not (Path(place) / SETTINGS).is_file():
            return None
        run = RunDirectory.open(place)
        command = run.read_record(SETTINGS, AnySettings).command
        if command != "tune":
            raise RunError(
                f"The run '{run.path}' is of another command, pdnas {command}; give another "
                "--run-dir."
            )
        before = run.read_record(SETTINGS, TuneSettings)
        other = _difference(before, _decided_as(before, settings))
        if other is not None:
            raise RunError(
                f"The run '{run.path}' was begun with other settings: {other}; repeat them, go on "
                f"with it as it is (pdnas resume {run.path}), or give another --run-dir."
            )
        return run


def _decided_as(before: TuneSettings, now: TuneSettings) -> TuneSettings:
    """What was decided when a run began, and which driver it is, as it was."""
    storage = now.storage
    if storage is not None and before.storage is not None:
        storage = storage.model_copy(update={"driver": before.storage.driver})
    tuning = decided_as(before.tuning, now.tuning)
    return now.model_copy(update={"tuning": tuning, "storage": storage})


def _difference(before: TuneSettings, now: TuneSettings) -> str | None:
    """The first setting by which the trials of one do not belong to the other."""
    if (other := different(before.tuning, now.tuning)) is not None:
        return other
    pairs = zip(_decisive(before), _decisive(now), strict=True)
    return next((other for old, new in pairs if (other := difference(old, new))), None)


def _decisive(settings: TuneSettings) -> Iterator[dict[str, Any]]:
    """What decides the trials beside the tuning; other workers are welcome."""
    values = settings.model_dump(mode="json")
    yield {"device": values["device"]["device"]}
    yield values["task"]
    stored = settings.storage
    yield {"storage": stored and "a database", "study": stored and stored.study}


def execute(
    settings: TuneSettings,
    task: GraphTask,
    output: OutputFlags,
    run: RunDirectory | None = None,
    url: str | None = None,
) -> int:
    """Do what the settings say, in a new run or going on with one, and show the result.

    Args:
        settings: What to do.
        task: On what.
        output: What to leave behind and what to say.
        run: The run that goes on.
        url: Of the database, with its password.
    """
    settings.device.apply()
    with ExitStack() as stack:
        if run is not None:  # before the driver that works on it is mistaken for this one
            stack.enter_context(run.alone())
        database = None
        if settings.storage is not None:
            database = stack.enter_context(settings.storage.open(url))
        device = find_device(settings.device.device)
        tuning = _agreed(settings, task, device, database, is_new=run is None)
        settings = settings.model_copy(update={"tuning": tuning})
        if run is None:
            label = f"tune-{Path(task.name).stem}"
            run = output.new_run(label, settings, device, settings.device.threads)
            stack.enter_context(run.alone())
        return _execute(settings, task, output, run, database, device)


def _agreed(
    settings: TuneSettings,
    task: GraphTask,
    device: torch.device,
    database: "Database | None",
    *,
    is_new: bool,
) -> Tuning:
    """The tuning that says what a step sees: as other drivers of the study have it."""
    tuning = settings.tuning

    def settle() -> Tuning:
        return settle_tuning(
            tuning, task, device=device, sharers=settings.workers.sharers, tell=tell
        )

    if database is None or settings.storage is None:
        return settle() if is_new else tuning
    return join(
        settings.storage.study,
        tuning,
        task,
        torch.device(settings.workers.device(settings.device.device)),
        known=database.about,
        register=database.join,
        settle=settle,
    )


def _execute(
    settings: TuneSettings,
    task: GraphTask,
    output: OutputFlags,
    run: RunDirectory,
    database: "Database | None",
    device: torch.device,
) -> int:
    job = settings.tuning.search
    try:
        with (
            elsewhere(run),
            enough_memory(f"A network of hidden size {max(job.hidden)}", device),
            TuningProgress(settings.tuning, quiet=output.quiet, note=task.source.note) as progress,
        ):
            if settings.storage is not None:
                progress.noted(f"study '{settings.storage.study}' in {settings.storage.url}")
            run.write_json(SETTINGS, settings)  # more trials may be asked for than before
            result = tune(
                task,
                settings.tuning,
                run=run,
                storage=database,
                workers=settings.workers,
                threads=settings.device.threads,
                device=device,
                watcher=progress,
            )
    except KeyboardInterrupt:
        print(f"pdnas: stopped; go on with: pdnas resume {run.path}", file=sys.stderr)
        return 130
    page = left_page(run, tell)
    if output.json:
        print(json.dumps({**result.model_dump(mode="json"), **where(run, page)}))
    elif not output.quiet:
        show(settings.name, result, run.path, page)
        for line in progress.summary():
            print(line)
        print(f"recipe: {run.path / RECIPE}; use it with --recipe in search and train")
    return 0
