"""Tune a network for a task: the shape by a grid, then the recipe by TPE, then the final seeds."""

import itertools
import time
from collections.abc import Callable

import torch
from pydantic import ValidationError

from pdnas.errors import PdnasError
from pdnas.job import MANY, TUNED_COPIES, Job, load_of_job
from pdnas.models import AnyDesign
from pdnas.runs import CHECKPOINT, FOLDER, JOURNAL, RECIPE, RESULT, Record, Result, RunDirectory
from pdnas.settings import WorkerFlags
from pdnas.tasks import GraphTask
from pdnas.training import Recipe, train
from pdnas.training.device import find_device
from pdnas.training.memory import load_of, settle
from pdnas.tuning.cells import cell_folder
from pdnas.tuning.entries import reason_of
from pdnas.tuning.executor import Done, Executor, Failed, Reported
from pdnas.tuning.place import open_executor
from pdnas.tuning.ranges import RANGES, check_fields
from pdnas.tuning.storage import JournalFile, Storage
from pdnas.tuning.study import GridStudy, RecipeStudy, Study
from pdnas.tuning.work import SearchOutcome, SearchWork, TrainingOutcome, TrainingWork, Work

FINAL = FOLDER / "final.json"
TASK = "task"

PAUSE = 0.5
"""Seconds between two looks at what other drivers have under way."""


class Tuning(Record):
    """All that decides a tuning from its first to its last number.

    Args:
        architecture: What to tune; none: each shape of the grid is searched for one.
        search: The searches and their grid of depths and hidden sizes; with an architecture its
            hidden sizes, its recipe and its seed count.
        fields: What of the recipe to tune.
        trials: How many recipes to try; 0: the recipe stays as it is.
        trial_seeds: How many trainings each of them is.
    """

    architecture: AnyDesign | None = None
    search: Job = Job()
    fields: tuple[str, ...] = tuple(RANGES)
    trials: int = 30
    trial_seeds: int = 2

    def check(self) -> None:
        """Refuse what makes no sense, before anything is computed."""
        self.search.check()
        check_fields(self.fields)
        if self.trials and not self.fields:
            raise PdnasError("There is nothing to tune: name at least one field, or --trials 0.")
        if not 0 <= self.trials <= MANY:
            raise PdnasError(f"--trials is {self.trials}; give 0 to {MANY}.")
        if not 1 <= self.trial_seeds <= MANY:
            raise PdnasError(f"--trial-seeds is {self.trial_seeds}; give 1 to {MANY}.")

    def cells(self) -> list[dict[str, int]]:
        """The shapes of the grid."""
        job = self.search
        if self.architecture is not None:
            return [{"hidden": hidden} for hidden in job.hidden]
        shapes = itertools.product(job.blocks, job.hidden)
        return [{"blocks": blocks, "hidden": hidden} for blocks, hidden in shapes]


class TuningWatcher:
    """Whoever wants to see a tuning at work overrides some of these."""

    def began(self, what: str, study: Study, wanted: int) -> None:
        """A study begins, or goes on."""

    def changed(self, study: Study) -> None:
        """A trial of it began or ended."""

    def noted(self, sentence: str) -> None:
        """Something happened that the user should know."""

    def trained(self, number: int, epoch: object) -> None:
        """A final training has done an epoch."""


def tune(
    task: GraphTask,
    tuning: Tuning,
    *,
    run: RunDirectory,
    executor: Executor | None = None,
    storage: Storage | None = None,
    workers: int | WorkerFlags = 1,
    threads: int = 1,
    device: str | torch.device = "auto",
    watcher: TuningWatcher | None = None,
) -> Result:
    """Tune, and train what validation chooses with the final seeds.

    Trials are kept: whatever is finished is not done again. Where other drivers share the storage,
    each does a part of the trials, waits for those of the others, and trains what was chosen.

    Args:
        task: What the network is for.
        tuning: What to do.
        run: Where everything is written.
        executor: Where trials run; by default where ``workers`` says.
        storage: Where they are kept; by default in the run's journal.
        workers: How many processes of this machine side by side, or another place for trials.
        threads: CPU threads of each.
        device: Where they, and the final trainings, compute.
        watcher: Told of what happens.
    """
    tuning.check()
    place = WorkerFlags.of(workers)
    device = find_device(str(device))
    watcher = watcher or TuningWatcher()
    if not tuning.search.recipe.is_decided:
        tuning = settle_tuning(
            tuning, task, device=device, sharers=place.sharers, tell=watcher.noted
        )
    job = tuning.search
    storage = storage or JournalFile(run.path / JOURNAL)
    storage.tell = watcher.noted
    own = executor or open_executor({TASK: task}, place, device=str(device), threads=threads)
    with own:
        chosen, search_seconds = _choose_shape(tuning, task, run, own, storage, watcher)
        recipe, tune_seconds = _tune_recipe(tuning, chosen, own, storage, watcher)
    recipe.undecided.save(run.path / RECIPE)
    _forget_others(run, Final(shape=chosen, recipe=recipe))
    result = train(
        chosen.architecture,
        task,
        hidden=chosen.hidden,
        recipe=recipe,
        seeds=job.final_seeds,
        device=device,
        run=run,
        on_epoch=watcher.trained,
    )
    update: dict[str, object] = {"search_seconds": search_seconds, "tune_seconds": tune_seconds}
    if tuning.architecture is None:
        update |= {"strategy": job.strategy.name, "space": job.space.name}
    result = result.model_copy(update=update).with_weights(result.model.state_dict())
    run.write_json(RESULT, result)
    return result


def settle_tuning(
    tuning: Tuning,
    task: GraphTask,
    *,
    device: torch.device,
    sharers: int,
    tell: Callable[[str], None],
) -> Tuning:
    """A tuning that says what a step sees of the graph, see :func:`pdnas.training.memory.settle`.

    Args:
        tuning: Whose recipe may leave that open.
        task: On what.
        device: Where it will be done.
        sharers: How many trials share the memory.
        tell: Told what was chosen, where it is not the whole graph.
    """
    job, design = tuning.search, tuning.architecture
    if design is None:
        load = load_of_job(job, task, device)
    else:
        load = load_of(design, task, max(job.hidden), job.recipe, device)
    recipe = settle(
        job.recipe,
        task,
        load,
        device=device,
        tell=tell,
        sharers=sharers,
        copies=TUNED_COPIES if "copies" in tuning.fields and tuning.trials else 1,
    )
    update = {"search": job.model_copy(update={"recipe": recipe})}
    return tuning.model_copy(update=update)


class Shape(Record):
    """What the grid chose.

    Args:
        architecture: The network.
        hidden: Its hidden size.
        val: Its mean validation.
    """

    architecture: AnyDesign
    hidden: int
    val: float


class Final(Record):
    """What the final trainings are of.

    Args:
        shape: The network.
        recipe: How it is trained.
    """

    shape: Shape
    recipe: Recipe


def _forget_others(run: RunDirectory, final: Final) -> None:
    """Final trainings of what is no longer the choice, after more trials, do not count."""
    if run.has(FINAL) and run.read_record(FINAL, Final) != final:
        run.remove(CHECKPOINT)
    run.write_json(FINAL, final)


def _drive(
    study: Study,
    executor: Executor,
    supply: Callable[[], tuple[int, Work] | None],
    *,
    reported: Callable[[Reported], bool],
    finished: Callable[[Done | Failed], None],
) -> None:
    """See :meth:`Executor.drive`; what other drivers have under way is waited for, too."""
    while True:
        executor.drive(supply, reported=reported, finished=finished)
        if not study.is_under_way:
            return
        time.sleep(PAUSE)


def _choose_shape(
    tuning: Tuning,
    task: GraphTask,
    run: RunDirectory,
    executor: Executor,
    storage: Storage,
    watcher: TuningWatcher,
) -> tuple[Shape, float]:
    """The best cell of the grid, and the seconds of all; a given network of one size is that."""
    cells, job, given = tuning.cells(), tuning.search, tuning.architecture
    if given is not None and len(cells) == 1:
        return Shape(architecture=given, hidden=job.hidden[0], val=0.0), 0.0
    study = GridStudy(cells, storage)

    def supply() -> tuple[int, Work] | None:
        asked = study.ask()
        watcher.changed(study)
        if asked is None:
            return None
        number, cell = asked
        if given is not None:
            return number, TrainingWork(
                task=TASK,
                architecture=given,
                hidden=cell["hidden"],
                recipe=job.recipe.changed(teachers=0),
                seeds=tuple(range(job.trial_seed, job.trial_seed + tuning.trial_seeds)),
            )
        shape = {"blocks": (cell["blocks"],), "hidden": (cell["hidden"],)}
        own = job.model_copy(update=shape)
        return number, SearchWork(task=TASK, job=own, run=cell_folder(run, own))

    def shape_of(event: Done) -> Shape:
        if given is None:
            found = SearchOutcome.model_validate(event.outcome)
            for warning in found.warnings:
                watcher.noted(
                    f"With {found.architecture.num_blocks} block(s) and hidden size "
                    f"{found.hidden}: {warning}"
                )
            return Shape(architecture=found.architecture, hidden=found.hidden, val=found.val)
        outcome = TrainingOutcome.model_validate(event.outcome)
        hidden = next(row.values["hidden"] for row in study.rows() if row.number == event.number)
        return Shape(architecture=given, hidden=hidden, val=outcome.mean_val)

    def finished(event: Done | Failed) -> None:
        if isinstance(event, Failed):
            study.failed(event.number, event.reason)
        else:
            shape = shape_of(event)
            study.done(event.number, shape.val, shape=shape.model_dump(mode="json"))
        watcher.changed(study)

    watcher.began("shapes", study, study.wanted)
    _drive(study, executor, supply, reported=lambda _: False, finished=finished)
    if not study.complete:
        raise PdnasError(f"No shape of the grid could be tried on {task.name}: {_reasons(study)}")
    try:
        return Shape.model_validate(study.best.user_attrs.get("shape")), study.seconds
    except ValidationError as error:
        raise storage.damage(reason_of(error)) from None


def _tune_recipe(
    tuning: Tuning, shape: Shape, executor: Executor, storage: Storage, watcher: TuningWatcher
) -> tuple[Recipe, float]:
    """The recipe that trains a network best, and the seconds of all trials."""
    job = tuning.search
    if not tuning.trials:
        return job.recipe, 0.0
    study = RecipeStudy(
        shape.architecture,
        job.recipe,
        fields=tuning.fields,
        trials=tuning.trials,
        seeds=tuning.trial_seeds,
        seed=job.trial_seed,
        storage=storage,
    )

    def supply() -> tuple[int, Work] | None:
        asked = study.ask()
        watcher.changed(study)
        if asked is None:
            return None
        return asked.number, TrainingWork(
            task=TASK,
            architecture=shape.architecture,
            hidden=shape.hidden,
            recipe=asked.recipe,
            seeds=asked.seeds,
        )

    def finished(event: Done | Failed) -> None:
        if isinstance(event, Failed):
            study.failed(event.number, event.reason)
        else:
            study.ended(event.number, TrainingOutcome.model_validate(event.outcome))
        watcher.changed(study)

    watcher.began("recipes", study, study.wanted)
    _drive(
        study,
        executor,
        supply,
        reported=lambda event: study.report(event.number, event.epoch, event.val),
        finished=finished,
    )
    if not study.complete:
        watcher.noted(f"No recipe could be tried, so it stays as it was: {_reasons(study)}")
    return study.best, study.seconds


def _reasons(study: Study) -> str:
    """Why trials failed, each reason once."""
    return "; ".join(sorted({row.reason for row in study.rows()}))
