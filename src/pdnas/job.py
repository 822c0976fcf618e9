"""A job: what is to be done, what it may cost, and how far it has come."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol, Self, TypedDict

import torch
from pydantic import Field, ValidationError, model_validator

from pdnas.architecture import Architecture, check_hidden
from pdnas.errors import SearchError
from pdnas.models.baselines import BASELINES
from pdnas.registry import refusal, unknown
from pdnas.runs import Count, Record, Seconds, Trial
from pdnas.search import Candidate, Strategy
from pdnas.search.base import AnyStrategy
from pdnas.search.pdnas import PRESETS
from pdnas.search.rated import labeled
from pdnas.space import SPACES, SearchSpace, check_blocks, find_space
from pdnas.tasks import GraphTask
from pdnas.training import Recipe, find_recipe
from pdnas.training.memory import Load, load_of_search, settle
from pdnas.training.seeds import Training

TUNED_COPIES = 4
"""The most copies of a graph that a tuning tries."""

MANY = 10_000
"""More seeds or candidates than anyone means to ask for."""


Estimate = Annotated[float, Field(ge=0, le=1e30)]
"""How long something may take, in seconds."""


class Job(Record, allow_inf_nan=True):
    """All that decides a search from its first to its last number.

    Args:
        space: Where to look.
        strategy: How.
        blocks: Depths to search.
        hidden: Hidden sizes to search; every pair of a depth and a size is searched.
        recipe: How networks are trained.
        seed: Of the search, and the first of the final trainings.
        seeds: How many final trainings.
        candidates: How many architectures of each search are trained to choose among them.
        designs: Whether baselines that are members of the space are trained as candidates too.
        incumbents: Networks that there are already; they are trained as candidates too.
        mutations: How many changes of the best of these are trained, each of one choice.
        repeats: How often the best few of all these are trained again, with other seeds.
        tune: How many recipes to try for the network found; 0: the recipe stays as it is.
        controls: What the network found is compared with: ``random``, or baselines' names.
        max_parameters: How many weights a network may have.
        budget_seconds: How long the whole job may take.
        budget_trials: How many trainings may be spent on the choice, in the searches and on their
            candidates.
    """

    space: SearchSpace = SPACES["extended"]
    strategy: AnyStrategy = PRESETS["default"]
    blocks: tuple[int, ...] = (2,)
    hidden: tuple[int, ...] = (32,)
    recipe: Recipe = Recipe()
    seed: int = 0
    seeds: int = 3
    candidates: int = 6
    designs: Literal["on", "off"] = "on"
    incumbents: tuple[Architecture, ...] = ()
    mutations: int = 0
    repeats: int = 1
    tune: int = 0
    controls: tuple[str, ...] = ("random", "gcn", "gat")
    max_parameters: int | None = None
    budget_seconds: float | None = None
    budget_trials: int | None = None

    @property
    def final_seeds(self) -> tuple[int, ...]:
        return tuple(range(self.seed, self.seed + self.seeds))

    @property
    def trial_seed(self) -> int:
        """Of the candidates' first trainings: none of the final ones, so luck is left behind."""
        return self.seed + 2**32

    def check(self) -> None:
        """Refuse what makes no sense, before anything is computed."""
        self.check_numbers()
        for name in self.controls:
            if name != "random" and name not in BASELINES:
                raise unknown("control", name, ["random", *BASELINES])

    def check_numbers(self) -> None:
        """The same for what depends on no names, which whoever reads a run need not know."""
        for name, values in (("--blocks", self.blocks), ("--hidden", self.hidden)):
            if not values or len(set(values)) < len(values):
                raise SearchError(
                    f"{name} has the values {list(values)}; give at least one, each of them once."
                )
        counts = {
            "--seeds": self.seeds,
            "--candidates": self.candidates,
            "--repeats": self.repeats,
        }
        for name, count in counts.items():
            if not 1 <= count <= MANY:
                raise SearchError(f"{name} is {count}; give 1 to {MANY}.")
        for name, count in (("--mutations", self.mutations), ("--tune", self.tune)):
            if not 0 <= count <= MANY:
                raise SearchError(f"{name} is {count}; give 0 to {MANY}.")
        if len(set(self.controls)) < len(self.controls):
            raise SearchError(f"--controls has {list(self.controls)}; name each of them once.")
        for num_blocks in self.blocks:
            check_blocks(num_blocks)
        for architecture in self.incumbents:
            self._check_incumbent(architecture)
        for hidden in self.hidden:
            check_hidden(hidden)
        if not 0 <= self.seed < 2**62:
            raise SearchError(f"The seed {self.seed} is out of range; give 0 to {2**62 - 1}.")
        if self.budget_seconds is not None and not 0 < self.budget_seconds < float("inf"):
            raise SearchError(
                f"The budget is {self.budget_seconds} seconds; give a number above 0."
            )

        if self.budget_trials is not None and not 2 <= self.budget_trials <= MANY:
            raise SearchError(f"--budget-trials is {self.budget_trials}; give 2 to {MANY}.")

    def _check_incumbent(self, architecture: Architecture) -> None:
        if architecture.num_blocks not in self.blocks:
            raise SearchError(
                f"An incumbent has {architecture.num_blocks} block(s), but --blocks is "
                f"{list(self.blocks)}; add its depth there or leave it out."
            )
        if self.space.plain(architecture) not in self.space:
            raise SearchError(
                f"An incumbent is not a member of the space '{self.space.name}'; search in another "
                "--space or leave it out, and train it apart with pdnas train."
            )


class Plan(Record):
    """What the job is estimated to cost, and what the budget leaves of it.

    Args:
        epochs: Of each search.
        search_seconds: Estimate for all searches.
        candidate_seconds: Estimate for the candidates' trainings.
        tune_seconds: Estimate for the tuning, if none of its trainings ends early.
        final_seconds: Estimate for the final trainings and the controls, if none ends early.
        epoch_seconds: What an epoch of a training was measured to take.
        refines: Whether searches look closer at their candidates; where there is time to climb,
            more is learned by training others.
    """

    epochs: Count
    search_seconds: Estimate
    candidate_seconds: Estimate
    tune_seconds: Estimate
    final_seconds: Estimate
    epoch_seconds: Estimate
    refines: bool = True

    @property
    def seconds(self) -> float:
        """Estimate for the whole job."""
        parts = (self.search_seconds, self.candidate_seconds, self.tune_seconds)
        return sum(parts) + self.final_seconds


class Cell(Record):
    """A finished search of the grid.

    Args:
        num_blocks: Depth.
        hidden: Hidden size.
        epochs: How many it had.
        candidates: What it proposes to train, the most promising first.
        warnings: What went wrong.
        seconds: How long it took.
        refine_seconds: How long it then took to find candidates and to look closer at them.
        stopped: Whether it ended before its time, because a watcher had seen enough.
    """

    num_blocks: Count
    hidden: Count
    epochs: Count
    candidates: Annotated[tuple[Candidate, ...], Field(min_length=1)]
    warnings: tuple[str, ...]
    seconds: Seconds
    refine_seconds: Seconds
    stopped: bool = False


class Progress(Record):
    """How far a job has come: what is finished is not done again.

    Args:
        data: Fingerprint of the graphs and their labels; early versions wrote none.
        split: Fingerprint of the split that the job is on.
        plan: What it was planned to do.
        cells: The finished searches.
        trials: The trained candidates.
        job_recipe: That of the job, with what a step sees of the graph decided.
        recipe: What the tuning chose; none: it is not done yet, or there is none.
        tune_seconds: How long it took.
        finals: The finished trainings of the chosen network.
        controls: The finished trainings of each control.
        lost: Final trainings, as ``seed N``, and controls that diverged, and why.
        cut: Whether the only final training was cut short by the budget.
        weights: File of the best weights so far.
        seconds: Time spent so far.
        history_bytes: Length of the history then.
    """

    data: str = ""
    split: str
    plan: Plan
    cells: tuple[Cell, ...] = ()
    trials: tuple[Trial, ...] = ()
    job_recipe: Recipe | None = None
    recipe: Recipe | None = None
    tune_seconds: Seconds = 0.0
    finals: tuple[Training, ...] = ()
    controls: dict[str, Annotated[tuple[Training, ...], Field(min_length=1)]] = Field(
        default_factory=dict
    )
    lost: dict[str, str] = Field(default_factory=dict)
    cut: bool = False
    weights: str | None = Field(None, pattern=r"^(candidate|final)-\d+\.safetensors$")
    seconds: Seconds = 0.0
    history_bytes: Count = 0

    @model_validator(mode="after")
    def _follows(self) -> Self:
        if not self.trials and (self.weights is not None or self.finals or self.controls):
            raise ValueError("there are weights or trainings of a choice, but nothing to choose of")
        return self

    @classmethod
    def new(cls, job: Job, task: GraphTask, plan: Plan) -> "Progress":
        """That of a job of which nothing is done yet."""
        return cls(
            data=task.source.sha256, split=task.split.sha256, plan=plan, job_recipe=job.recipe
        )


class Mark(Record):
    """Where a saved state of a search belongs.

    Args:
        cell: Number of the search in the grid.
        seconds: Time that the search had taken.
        elapsed: Time that the whole job had taken.
        history_bytes: Length of the history then.
        stopped: Whether the search is not to go on, because a watcher had seen enough.
    """

    cell: Count
    seconds: Seconds
    elapsed: Seconds
    history_bytes: Count
    stopped: bool = False


class Tuner(Protocol):
    """Whoever finds a better recipe for a network."""

    @property
    def trainings(self) -> int:
        """Whole trainings that it takes at most."""

    def __call__(
        self,
        architecture: Architecture,
        task: GraphTask,
        *,
        hidden: int,
        base: Recipe,
        seed: int,
        is_late: Callable[[], bool],
        on_trial: Callable[[int, int], None],
    ) -> Recipe:
        """The recipe with the best validation.

        Args:
            architecture: The network.
            task: What it is for.
            hidden: Its hidden size.
            base: The recipe that there is already.
            seed: The first of the trainings'.
            is_late: Asked at every epoch whether there is no more time.
            on_trial: Told the number of each trial, from 1, and how many there are to be.
        """


class Searcher(Protocol):
    """Whoever searches the cells of a grid side by side, in other processes."""

    def __call__(
        self, jobs: Sequence[Job], task: GraphTask, plan: Plan, *, on_cell: Callable[[Cell], None]
    ) -> list[tuple[Cell, list[dict[str, Any]]]]:
        """The cells, in the order of the grid, each with the lines of its history.

        Args:
            jobs: The search of each cell.
            task: On what.
            plan: What the whole search was planned to do.
            on_cell: Told of each as soon as it is there, in any order.
        """


def load_of_job(job: Job, task: GraphTask, device: torch.device) -> Load:
    """What a step of its largest search keeps, and so of any training of what it may find."""
    return load_of_search(
        job.space,
        task,
        max(job.blocks),
        max(job.hidden),
        job.recipe,
        device,
        mixed=job.strategy.name == "darts",
    )


def settle_job(
    job: Job,
    task: GraphTask,
    *,
    device: torch.device,
    tell: Callable[[str], None],
    sharers: int = 1,
) -> Job:
    """A job that says what a step sees of the graph, see :func:`pdnas.training.memory.settle`.

    Args:
        job: Whose recipe may leave that open.
        task: On what.
        device: Where it will be done.
        tell: Told what was chosen, where it is not the whole graph.
        sharers: How many searches share the memory.
    """
    load = load_of_job(job, task, device)
    copies = TUNED_COPIES if job.tune else 1
    recipe = settle(
        job.recipe, task, load, device=device, tell=tell, sharers=sharers, copies=copies
    )
    return job.model_copy(update={"recipe": recipe})


class JobSettings(TypedDict, total=False):
    """The fields of a :class:`Job` as they may be given; what is not given keeps its default.

    A space may be a name or a TOML file, a strategy a name, a recipe a name, a TOML file or some
    of its values; a single depth or hidden size need not be a tuple.
    """

    space: SearchSpace | str | Path
    strategy: Strategy | str
    blocks: int | Sequence[int]
    hidden: int | Sequence[int]
    recipe: Recipe | Mapping[str, Any] | str | Path
    seed: int
    seeds: int
    candidates: int
    designs: Literal["on", "off"]
    incumbents: Sequence[Architecture]
    mutations: int
    repeats: int
    tune: int
    controls: Sequence[str]
    max_parameters: int | None
    budget_seconds: float | None
    budget_trials: int | None


def make_job(**given: Any) -> Job:
    """A job of some settings, see :class:`JobSettings`."""
    settings = {
        name: str(value) if isinstance(value, Path) else value for name, value in given.items()
    }
    if "recipe" in settings:
        settings["recipe"] = find_recipe(settings["recipe"])
    if isinstance(settings.get("space"), str):
        settings["space"] = find_space(settings["space"])
    if isinstance(settings.get("strategy"), str):
        settings["strategy"] = labeled(settings["strategy"])
    for name in ("blocks", "hidden"):
        if isinstance(settings.get(name), int):
            settings[name] = (settings[name],)
    try:
        return Job.model_validate(settings)
    except ValidationError as error:
        reason = refusal(error, "setting", Job.model_fields)
        raise SearchError(f"The search cannot be set so: {reason}") from None
