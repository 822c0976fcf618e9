"""Rivals side by side: same split, same space, same budget; what is done is not done again."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, SerializeAsAny, ValidationError

from pdnas.compare.picture import draw, picture_of
from pdnas.compare.standing import Standing, Verdict, grouped, seeds_of
from pdnas.compare.work import Attempt, BaselineWork, RivalWork, StrategyWork
from pdnas.errors import RunError, SearchError, shown
from pdnas.files import write_whole
from pdnas.job import MANY, Job, make_job
from pdnas.models.baselines import BASELINES
from pdnas.pipeline import grid, reserve
from pdnas.registry import refusal
from pdnas.runs import RESULT, SETTINGS, Record
from pdnas.search import Strategy
from pdnas.search.base import read_strategy
from pdnas.search.rated import labeled, labels
from pdnas.settings import WorkerFlags, of_earlier
from pdnas.tasks import AnyTask, GraphTask, find_task
from pdnas.training import RECIPES, Recipe
from pdnas.tuning.pieces import RUNS, Pieces, PieceWatcher, difference, open_folder
from pdnas.tuning.place import open_executor
from pdnas.watcher import Watcher

BUDGET = 60.0
"""Seconds that each rival has with each seed, where nothing else is said."""

TASK = "task"
TABLE, PICTURE = "table.md", "picture.svg"


def named(strategy: Any) -> Any:
    """A strategy of a label, with its own settings."""
    return labeled(strategy) if isinstance(strategy, str) else strategy


NamedStrategy = Annotated[
    SerializeAsAny[Strategy], BeforeValidator(read_strategy), BeforeValidator(named)
]


class Comparison(Record):
    """All that decides a comparison.

    Args:
        job: What is the same for all strategies; its recipe is the shared one, its seed the first
            and its seeds how many there are.
        strategies: Each searches; the others are held against the first.
        baselines: Each is trained once with each seed.
        recipe: Whether a rival is trained by the recipe of its name, where there is one, or all
            are by the shared one.
        epochs: Of each search, and of each training at most; none: as strategies and recipes say.
    """

    job: Job = Job(budget_seconds=BUDGET)
    strategies: tuple[NamedStrategy, ...] = (named("pdnas"), named("random"))
    baselines: tuple[str, ...] = ("gcn", "gat")
    recipe: Literal["own", "shared"] = "own"
    epochs: int | None = None

    @property
    def rivals(self) -> list[str]:
        """Their names, the first strategy first."""
        return [*(strategy.label for strategy in self.strategies), *self.baselines]

    def check(self) -> None:
        """Refuse what makes no sense, before anything is computed."""
        self.job.check()
        if self.job.tune:
            raise SearchError(
                f"A comparison tunes no recipes, but tune is {self.job.tune}; tune one first and "
                "give it as the shared recipe."
            )
        limit, least = self.job.budget_seconds, math.ceil(reserve(0.0)) + 1
        if limit is not None and limit < least:
            raise SearchError(
                f"The budget is {limit:g} seconds for each rival, of which {reserve(0.0):g} are "
                f"kept for its end; give {least} or more."
            )
        if self.epochs is not None and self.epochs < 1:
            raise SearchError(f"--epochs is {self.epochs}; give 1 or more.")
        if not self.strategies:
            raise SearchError(
                f"--strategies names none; give at least one of: {', '.join(labels())}."
            )
        for name in self.baselines:
            BASELINES[name]
        rivals = self.rivals
        twice = next((name for name in rivals if rivals.count(name) > 1), None)
        if twice is not None:
            raise SearchError(f"The rival '{twice}' is named twice; name each of them once.")

    def recipe_of(self, rival: str) -> Recipe:
        """How a rival is trained."""
        recipe = self.job.recipe
        if self.recipe == "own" and rival in RECIPES:
            recipe = RECIPES[rival]
        return recipe if self.epochs is None else recipe.changed(epochs=self.epochs)

    def job_of(self, strategy: Strategy, seed: int) -> Job:
        """The search of a strategy with a seed: nothing but what it finds itself."""
        epochs = self.epochs
        if epochs is None and strategy.trained_epochs and self.job.budget_seconds is not None:
            epochs = MANY  # it goes on until its time is over
        update = {
            "strategy": strategy if epochs is None else strategy.lasting(epochs),
            "recipe": self.recipe_of(strategy.name),
            "seed": seed,
            "seeds": 1,
            "designs": "off",
            "controls": (),
        }
        return self.job.model_copy(update=update)

    def works(self) -> dict[str, RivalWork]:
        """All attempts, by key, seed by seed."""
        works: dict[str, RivalWork] = {}
        for seed in self.job.final_seeds:
            for strategy in self.strategies:
                works[f"{strategy.label}-{seed}"] = StrategyWork(
                    task=TASK, rival=strategy.label, seed=seed, job=self.job_of(strategy, seed)
                )
            for name in self.baselines:
                works[f"{name}-{seed}"] = BaselineWork(
                    task=TASK,
                    rival=name,
                    seed=seed,
                    recipe=self.recipe_of(name),
                    budget_seconds=self.job.budget_seconds,
                )
        return works


class CompareSettings(Record):
    """What ``settings.json`` of a comparison holds.

    Args:
        command: Whose settings they are.
        comparison: What decides it.
        task: What it is on, in words.
        split_sha256: Fingerprint of the split.
        data_sha256: Fingerprint of the graphs and their labels; early versions wrote none.
        asked: How the task was asked for.
        executor: Who does the attempts.
        gpus_per_trial: Of each attempt on Ray, where it has any.
        device: Where it is done.
        threads: CPU threads of each attempt.
        workers: How many attempts run side by side: seconds depend on it; none: as many as a Ray
            cluster has room for.
    """

    command: Literal["compare"] = "compare"
    comparison: Comparison
    task: str
    split_sha256: str
    data_sha256: str = ""
    asked: Annotated[dict[str, Any], BeforeValidator(of_earlier)]
    executor: Literal["local", "ray"] = "local"
    gpus_per_trial: float | None = None
    device: str
    threads: int
    workers: int | None

    def decisive(self) -> dict[str, Any]:
        """What must stay as it is; other rivals and more seeds are welcome, one by one."""
        values = self.model_dump(mode="json")
        comparison = values.pop("comparison")
        job = comparison.pop("job")
        for name in ("strategies", "baselines"):
            del comparison[name]
        for name in ("strategy", "seeds"):
            del job[name]
        shared = {"shared_recipe": job.pop("recipe")}
        return {**values.pop("asked"), **comparison, **shared, **job, **values}


def make_comparison(**settings: Any) -> Comparison:
    """A comparison of some settings, its own and a job's; what is not given keeps its default."""
    own = {name: settings.pop(name) for name in [*settings] if name in Comparison.model_fields}
    if "shared_recipe" in settings:
        settings["recipe"] = settings.pop("shared_recipe")
    job = own.pop("job", None) or make_job(**{"budget_seconds": BUDGET, **settings})
    try:
        return Comparison(job=job, **own)
    except ValidationError as error:
        known = [*Comparison.model_fields, "shared_recipe", *Job.model_fields]
        reason = refusal(error, "setting", known)
        raise SearchError(f"The comparison cannot be set so: {reason}") from None


def compare(
    task: AnyTask,
    folder: str | Path,
    comparison: Comparison | None = None,
    *,
    workers: int | WorkerFlags = 1,
    threads: int = 1,
    device: str = "auto",
    watcher: PieceWatcher[Attempt] | None = None,
    asked: Mapping[str, Any] | None = None,
    **settings: Any,
) -> Verdict:
    """Let rivals do the same task under the same conditions, and say how they stand.

    Every rival is tried with every seed on the task's split. What the folder holds already is not
    done again.

    Examples:
        >>> verdict = pdnas.compare(
        ...     "citeseer",
        ...     "versus",
        ...     strategies=("pdnas", "random"),
        ...     baselines=("gcn",),
        ...     budget_seconds=60,
        ...     seeds=2,
        ... )
        >>> sorted(standing.rival for standing in verdict.standings)
        ['gcn', 'pdnas', 'random']

    Args:
        task: On what: a task, a PyG ``Data``, or a task's name or path.
        folder: Where everything is written.
        comparison: What to do; by default one of the other settings.
        workers: How many attempts run side by side, in processes of this machine, or another place
            for them.
        threads: CPU threads of each.
        device: Where.
        watcher: Told of what is done.
        asked: How the task was asked for, where the folder should remember it.
        settings: Fields of :class:`Comparison` and of its job, and ``shared_recipe``:
            ``strategies=("pdnas", "random"), budget_seconds=30, seeds=5`` and so on.
    """
    if comparison is not None and settings:
        raise SearchError(
            f"Both a comparison and settings ({', '.join(settings)}) were given; give one of them."
        )
    comparison = make_comparison(**settings) if comparison is None else comparison
    comparison.check()
    task = find_task(task)
    who = WorkerFlags.of(workers)
    who.check(device)
    place = who.device(device)
    for strategy in comparison.strategies:
        grid(comparison.job_of(strategy, comparison.job.seed), task, Watcher())
    now = CompareSettings(
        comparison=comparison,
        task=repr(task),
        split_sha256=task.split.sha256,
        data_sha256=task.source.sha256,
        asked=dict(asked or {}),
        device=place,
        threads=threads,
        workers=who.workers or (1 if who.executor == "local" else None),
        executor=who.executor,
        gpus_per_trial=who.gpus_per_trial,
    )
    folder = Path(folder)
    run = open_folder(folder, now.model_dump(mode="json"), lambda there: _refusal(there, now))
    pieces = Pieces(run, Attempt, "comparison")
    works = {
        key: work.model_copy(update={"sharers": who.sharers})
        for key, work in comparison.works().items()
    }
    with run.alone():
        run.write_json(SETTINGS, now)
        with open_executor({TASK: task}, who, device=place, threads=threads) as own:
            pieces.finish(
                lambda _: works, own, tasks={TASK}, watcher=watcher or PieceWatcher[Attempt]()
            )
        wanted = {key: attempt for key, attempt in pieces.done.items() if key in works}
        for key, attempt in wanted.items():
            if (attempt.rival, attempt.seed) != (works[key].rival, works[key].seed):
                raise RunError(
                    f"'{folder / RUNS / key}.json' is damaged: it is of '{shown(attempt.rival)}' "
                    f"with the seed {attempt.seed}; delete it and run again."
                )
        verdict = _verdict(task, now, wanted)
        run.write_json(RESULT, verdict)
        write_whole(folder / TABLE, verdict.markdown().encode())
        picture = picture_of(
            grouped(wanted, comparison.rivals),
            comparison.baselines,
            title=f"{verdict.named}, split {task.split.name}: the best network so far, mean and "
            f"range over {seeds_of(verdict.seeds)}",
            axis=f"validation {task.metric} in %",
        )
        draw(picture, folder / PICTURE)
    return verdict


def _refusal(there: bytes, now: CompareSettings) -> str | None:
    """Why a folder with other settings cannot be gone on with; none: it can."""
    try:
        before = CompareSettings.model_validate_json(there)
    except ValidationError:
        return "holds something else than a comparison; give another --output."
    if not before.data_sha256:
        now = now.model_copy(update={"data_sha256": ""})
    other = difference(before.decisive(), now.decisive())
    if other is None:
        return None
    if other == "another data_sha256":
        return (
            "holds a comparison on other data: features, edges or labels have changed since; give "
            "another --output."
        )
    return (
        f"holds a comparison with other settings: {other}; repeat them, or give another --output."
    )


def _verdict(task: GraphTask, now: CompareSettings, done: Mapping[str, Attempt]) -> Verdict:
    comparison = now.comparison
    job, attempts = comparison.job, grouped(done, comparison.rivals)
    first = attempts[comparison.rivals[0]]
    return Verdict(
        task=task.name,
        note=task.source.note,
        metric=task.metric,
        split=task.split.name,
        split_sha256=task.split.sha256,
        space=job.space.name,
        blocks=job.blocks,
        hidden=job.hidden,
        max_parameters=job.max_parameters,
        recipe=comparison.recipe,
        budget_seconds=job.budget_seconds,
        budget_trials=job.budget_trials,
        seeds=job.final_seeds,
        workers=now.workers,
        executor=now.executor,
        threads=now.threads,
        device=now.device,
        device_name=str(first[0].environment.get("device_name", "unknown")),
        standings=tuple(
            Standing.of(group, first, "baseline" if rival in comparison.baselines else "strategy")
            for rival, group in attempts.items()
        ),
        warnings=tuple(
            f"{rival}, seed {attempt.seed}: {warning}"
            for rival, group in attempts.items()
            for attempt in group
            for warning in attempt.warnings
        ),
    )
