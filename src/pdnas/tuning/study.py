"""Durable studies: which trials there were, what came out, and what to try next."""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import optuna
from optuna.exceptions import ExperimentalWarning
from optuna.pruners import MedianPruner
from optuna.samplers import BaseSampler, RandomSampler, TPESampler
from optuna.storages import BaseStorage, InMemoryStorage, JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import FrozenTrial, TrialState

from pdnas.errors import RunError
from pdnas.models import Design
from pdnas.training import RECIPES, Recipe
from pdnas.tuning.ranges import suggest, within_ranges
from pdnas.tuning.work import TrainingOutcome

optuna.logging.set_verbosity(optuna.logging.WARNING)

FIRST = 10
"""Trials that are drawn at random before what they showed is followed."""

UNPRUNED = 5
"""Trials that are never stopped early: the others are compared with them."""

KNOWN = (
    "consistency",
    "consistency-light",
    "consistency-deep",
    "consistency-selective",
    "consistency-deep-selective",
)
"""Recipes whose values are tried first, after the one that there is already."""

FINALISTS = 4
"""Recipes that are tried a second time, to the end; the one that there is already is among them."""

AGAIN = 2
"""Times as many trainings in the second trial, all with other seeds: the first was luck."""

INTERRUPTED = "interrupted"
"""Where a study keeps the numbers of the trials that were under way when it died."""

STATES = {
    TrialState.COMPLETE: "done",
    TrialState.PRUNED: "stopped early",
    TrialState.FAIL: "failed",
    TrialState.RUNNING: "running",
    TrialState.WAITING: "waiting",
}


@dataclass(frozen=True)
class Row:
    """A trial as a table shows it.

    Args:
        number: From 0.
        state: What became of it.
        val: Mean validation, where there is one.
        values: What it tried.
        reason: Why it failed.
    """

    number: int
    state: str
    val: float | None
    values: dict[str, Any]
    reason: str


class Study(ABC):
    """Trials that are asked for, told of, and kept in a file that outlives whoever asks.

    Args:
        name: Of the study; a file may hold several.
        journal: The file; none: only in memory.
    """

    def __init__(self, name: str, journal: Path | None) -> None:
        storage: BaseStorage = InMemoryStorage()
        try:
            if journal is not None:
                storage = JournalStorage(JournalFileBackend(str(journal)))
            self._study = optuna.create_study(
                storage=storage,
                study_name=name,
                direction="maximize",
                load_if_exists=True,
                pruner=MedianPruner(n_startup_trials=UNPRUNED),
            )
        except (ValueError, KeyError) as error:
            raise RunError(
                f"The study '{journal}' is damaged ({error}); without the file its trials are done "
                "again."
            ) from None
        self._live: dict[int, optuna.Trial] = {}
        # Whatever is under way in the file died with whoever asked for it, and is done again.
        self._lost: list[int] = self._study.user_attrs.get(INTERRUPTED, [])
        while self._study.get_trials(deepcopy=False, states=[TrialState.WAITING]):
            self._study.ask()  # what was queued and not begun counts as under way too
        for trial in self._study.get_trials(states=[TrialState.RUNNING]):
            self._lost = [*self._lost, trial.number]
            self._study.set_user_attr(INTERRUPTED, self._lost)
            self._study.tell(trial.number, state=TrialState.FAIL)

    @property
    def trials(self) -> list[FrozenTrial]:
        """All that count: the finished ones and those under way."""
        states = [TrialState.COMPLETE, TrialState.PRUNED, TrialState.FAIL, TrialState.RUNNING]
        trials = self._study.get_trials(deepcopy=False, states=states)
        return [trial for trial in trials if trial.number not in self._lost]

    @property
    def complete(self) -> list[FrozenTrial]:
        """Those that were done to the end."""
        return [trial for trial in self.trials if trial.state == TrialState.COMPLETE]

    @property
    def seconds(self) -> float:
        """Time of all trials that ended, one after the other."""
        spent = (trial.duration for trial in self.trials if trial.duration is not None)
        return sum(duration.total_seconds() for duration in spent)

    def report(self, number: int, epoch: int, val: float) -> bool:
        """Tell how a trial does; whether it is so much worse than others that it may stop."""
        trial = self._live[number]
        trial.report(val, epoch)
        return "round" not in trial.user_attrs and trial.should_prune()

    def done(self, number: int, val: float, **about: Any) -> None:
        """A trial came to its end."""
        trial = self._live.pop(number)
        for name, value in about.items():
            trial.set_user_attr(name, value)
        self._study.tell(trial, val)

    def stopped(self, number: int) -> None:
        """A trial was told to stop, and did."""
        self._study.tell(self._live.pop(number), state=TrialState.PRUNED)

    def failed(self, number: int, reason: str) -> None:
        """A trial threw, or died."""
        trial = self._live.pop(number)
        trial.set_user_attr("reason", reason)
        self._study.tell(trial, state=TrialState.FAIL)

    def _ask(self, sampler: BaseSampler) -> optuna.Trial:
        self._study.sampler = sampler
        trial = self._study.ask()
        self._live[trial.number] = trial
        return trial

    def rows(self) -> list[Row]:
        """All trials that count, for a table."""
        return [
            Row(
                trial.number,
                STATES[trial.state],
                trial.value if trial.state == TrialState.COMPLETE else None,
                self.values(trial),
                trial.user_attrs.get("reason", ""),
            )
            for trial in self.trials
        ]

    @abstractmethod
    def values(self, trial: FrozenTrial) -> dict[str, Any]:
        """What a trial tries, for a table."""


@dataclass(frozen=True)
class Ask:
    """What is to be tried next.

    Args:
        number: Of the trial.
        recipe: To train with.
        seeds: To train with.
    """

    number: int
    recipe: Recipe
    seeds: tuple[int, ...]


class RecipeStudy(Study):
    """Which recipe trains an architecture best, by Optuna's TPE.

    The first trial is the recipe that there is already, the next are some known ones. When all
    trials are done, the best few and the first are tried again with other seeds, and what is best
    there is chosen.

    Args:
        architecture: What is trained.
        base: The recipe that there is already; fields that are not tuned keep its values. Its
            teachers are left for the final trainings.
        fields: What to tune, see :data:`~pdnas.tuning.ranges.RANGES`.
        trials: How many recipes to try.
        seeds: How many trainings each trial of the first round is.
        seed: Of what is drawn, and the first of the trainings.
        journal: The file that keeps the study; none: it is not kept.
    """

    def __init__(
        self,
        architecture: Design,
        base: Recipe,
        *,
        fields: Sequence[str],
        trials: int,
        seeds: int,
        seed: int = 0,
        journal: Path | None = None,
    ) -> None:
        super().__init__("recipe", journal)
        self._architecture, self._fields = architecture, tuple(fields)
        self._base, self._teachers = base.changed(teachers=0), base.teachers
        self._count, self._seeds, self._seed = trials, seeds, seed
        self._first = [self._base]
        for name in KNOWN:
            known = self._base.changed(**within_ranges(RECIPES[name], self._fields))
            if known not in self._first:
                self._first.append(known)

    @property
    def wanted(self) -> int:
        """How many trials there are to be, those of the second round among them."""
        return self._count + min(FINALISTS, self._count)

    def ask(self) -> Ask | None:
        """The next trial; none where nothing is left, or only when others are finished."""
        asked = self.trials
        first = [trial for trial in asked if "round" not in trial.user_attrs]
        if len(first) < self._count:
            return self._draw(len(first))
        if any(trial.state == TrialState.RUNNING for trial in first):
            return None
        repeated = {trial.user_attrs["round"] for trial in asked if "round" in trial.user_attrs}
        for trial in self._leaders():
            if trial.number not in repeated:
                return self._repeat(trial)
        return None

    def _leaders(self) -> list[FrozenTrial]:
        """The best trials, each of another recipe, and that of the recipe that there is already."""
        first = [trial for trial in self.complete if "round" not in trial.user_attrs]
        leaders: list[FrozenTrial] = []
        for trial in sorted(first, key=lambda trial: -(trial.value or 0.0)):
            if all(trial.user_attrs["recipe"] != other.user_attrs["recipe"] for other in leaders):
                leaders.append(trial)
        base = self._base.model_dump()
        others = leaders[FINALISTS - 1 :]
        known = [trial for trial in others if trial.user_attrs["recipe"] == base]
        return [*leaders[: FINALISTS - 1], *(known or others[:1])]

    def ended(self, number: int, outcome: TrainingOutcome) -> None:
        """A trial's trainings came to their end, or the first of them was told to stop."""
        if outcome.pruned:
            self.stopped(number)
        else:
            self.done(number, outcome.mean_val)

    def _draw(self, place: int) -> Ask:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ExperimentalWarning)
            sampler = TPESampler(
                n_startup_trials=FIRST,
                multivariate=True,
                group=True,
                constant_liar=True,
                seed=(self._seed + place) % 2**32,
            )
        known = within_ranges(self._first[place], self._fields) if place < len(self._first) else {}
        if known:
            self._study.enqueue_trial(known)
        trial = self._ask(sampler)
        if place > 0:
            recipe = suggest(trial, self._base, self._fields, self._architecture)
        else:
            recipe = self._base
            if len(known) == len(self._fields):  # TPE cannot learn from values it cannot draw
                suggest(trial, self._base, self._fields, self._architecture)
        trial.set_user_attr("recipe", recipe.model_dump())
        return Ask(trial.number, recipe, tuple(range(self._seed, self._seed + self._seeds)))

    def _repeat(self, leader: FrozenTrial) -> Ask:
        self._study.enqueue_trial(leader.params, user_attrs={"round": leader.number})
        trial = self._ask(self._study.sampler)
        recipe = Recipe.model_validate(leader.user_attrs["recipe"])
        trial.set_user_attr("recipe", recipe.model_dump())
        begin = self._seed + self._seeds
        return Ask(trial.number, recipe, tuple(range(begin, begin + AGAIN * self._seeds)))

    @property
    def best(self) -> Recipe:
        """The recipe with the best validation in the second round, or in the first before that."""
        tried = self.complete
        tried = [trial for trial in tried if "round" in trial.user_attrs] or tried
        recipe = self._base
        if tried:
            best = max(tried, key=lambda trial: trial.value or 0.0)
            recipe = Recipe.model_validate(best.user_attrs["recipe"])
        return recipe.changed(teachers=self._teachers)

    def values(self, trial: FrozenTrial) -> dict[str, Any]:
        recipe = trial.user_attrs.get("recipe", {})
        return {name: recipe[name] for name in self._fields if name in recipe}


class GridStudy(Study):
    """Which of some settings is best; all of them are tried, each once.

    Args:
        cells: The settings, by name.
        journal: The file that keeps the study; none: it is not kept.
    """

    def __init__(self, cells: Sequence[dict[str, int]], journal: Path | None = None) -> None:
        super().__init__("grid", journal)
        self._cells = list(cells)

    @property
    def wanted(self) -> int:
        return len(self._cells)

    def ask(self) -> tuple[int, dict[str, int]] | None:
        """The next cell and the number of its trial; none where all were asked for."""
        asked = [self.values(trial) for trial in self.trials]
        cell = next((cell for cell in self._cells if cell not in asked), None)
        if cell is None:
            return None
        self._study.enqueue_trial(cell)
        trial = self._ask(RandomSampler())
        for name in cell:
            trial.suggest_categorical(name, sorted({other[name] for other in self._cells}))
        return trial.number, dict(trial.params)

    @property
    def best(self) -> FrozenTrial:
        """The trial with the best validation."""
        return max(self.complete, key=lambda trial: trial.value or 0.0)

    def values(self, trial: FrozenTrial) -> dict[str, Any]:
        return dict(trial.params)
