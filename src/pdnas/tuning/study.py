"""Durable studies: which trials there were, what came out, and what to try next."""

import itertools
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import optuna
from optuna.exceptions import ExperimentalWarning
from optuna.pruners import MedianPruner
from optuna.samplers import BaseSampler, RandomSampler, TPESampler
from optuna.trial import FrozenTrial, TrialState
from pydantic import ConfigDict, TypeAdapter

from pdnas.errors import RunError
from pdnas.models import Design
from pdnas.training import RECIPES, Recipe
from pdnas.tuning.entries import INTERRUPTED, STATES, Entry, read_entries, reason_of
from pdnas.tuning.followed import Followed
from pdnas.tuning.ranges import suggest, within_ranges
from pdnas.tuning.storage import LostError, Memory, Storage
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

DRIVER = "driver"
"""Where a trial keeps which driver asked for it, if there may be several."""

PLACE = "place"
"""Where a trial of a recipe keeps its place in the order in which recipes are tried."""

TRIALS = "trials"
"""Where a study that several drivers share keeps the most trials that one of them wants."""

T = TypeVar("T")

_COUNT = TypeAdapter(int, config=ConfigDict(strict=True))
_CELL = TypeAdapter(dict[str, int], config=ConfigDict(strict=True))


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
    """Trials that are asked for, told of, and kept where they outlive whoever asks.

    Each thing that happens to a trial is written at once or not at all, so that whoever dies
    leaves no half of it behind. Where several drivers share the study, one acts at a time.

    Args:
        name: Of the study; a storage may hold several.
        storage: Where it is kept; none: only in memory.

    Attributes:
        is_under_way: Whether a trial was under way, with this driver or another, when this one
            last asked for the next; what comes of it may leave more to do.
    """

    def __init__(self, name: str, storage: Storage | None) -> None:
        self._name, self._storage = name, storage or Memory()
        self._opened: optuna.Study | None = None
        self._ended: dict[int, Row] = {}
        self.is_under_way = False
        try:
            self._at_once(self._begin)
        except RunError:  # of the storage
            raise
        except Exception as error:  # Optuna trusts its entries: what is wrong fails in many ways
            raise self._storage.damage(reason_of(error)) from None

    def _at_once(self, act: Callable[[], T]) -> T:
        """Do something that is written as a whole; again if the storage lost it."""
        while True:
            try:
                with self._storage.at_once():
                    return act()
            except LostError:
                self._opened = None  # it knows of what is not there

    @property
    def _study(self) -> optuna.Study:
        if self._opened is None:
            self._kept = self._storage.open()
            pruner = MedianPruner(n_startup_trials=UNPRUNED)
            try:
                self._opened = optuna.load_study(
                    study_name=self._name, storage=self._kept, pruner=pruner
                )
            except KeyError:
                self._opened = optuna.create_study(
                    study_name=self._name, storage=self._kept, pruner=pruner, direction="maximize"
                )
        return self._opened

    def _begin(self) -> None:
        """Read what there is, and do again what this driver had under way."""
        _COUNT.validate_python(self._study.user_attrs.get(TRIALS, 0))
        for entry in read_entries(self._study):
            self.check(entry)
        self._forget_own()

    @abstractmethod
    def check(self, entry: Entry) -> None:
        """Throw something where a trial is not what this study can go on with."""

    def _forget_own(self) -> None:
        """Whatever this driver has under way died with the process before, and is done again."""
        while self._study.get_trials(deepcopy=False, states=[TrialState.WAITING]):
            self._study.ask()  # what early versions queued and did not begin counts as under way
        self._forget([self._storage.driver])

    def _forget_dead(self) -> None:
        """So does what drivers that are no longer at work had under way."""
        drivers = {_driver_of(trial) for trial in self._running} - {self._storage.driver}
        if drivers:
            self._forget(drivers - self._storage.others())

    def _forget(self, drivers: Collection[str]) -> None:
        for trial in self._running:
            if _driver_of(trial) in drivers:
                self._study.set_user_attr(INTERRUPTED, [*self._lost, trial.number])
                self._study.tell(trial.number, state=TrialState.FAIL)

    @property
    def _lost(self) -> list[int]:
        lost: list[int] = self._study.user_attrs.get(INTERRUPTED, [])
        return lost

    @property
    def _running(self) -> list[FrozenTrial]:
        return self._study.get_trials(deepcopy=False, states=[TrialState.RUNNING])

    @property
    def trials(self) -> list[FrozenTrial]:
        """All that count: the finished ones and those under way."""
        states = [TrialState.COMPLETE, TrialState.PRUNED, TrialState.FAIL, TrialState.RUNNING]
        trials, lost = self._study.get_trials(deepcopy=False, states=states), set(self._lost)
        return [trial for trial in trials if trial.number not in lost]

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

        def report() -> bool:
            trial = self._mine(number)
            if trial is None:
                return True
            self._kept.set_trial_intermediate_value(trial._trial_id, epoch, val)
            trial = self._kept.get_trial(trial._trial_id)
            return "round" not in trial.user_attrs and self._study.pruner.prune(self._study, trial)

        return self._at_once(report)

    def done(self, number: int, val: float, **about: Any) -> None:
        """A trial came to its end."""
        self._end(number, None, val, about)

    def stopped(self, number: int) -> None:
        """A trial was told to stop, and did."""
        self._end(number, TrialState.PRUNED)

    def failed(self, number: int, reason: str) -> None:
        """A trial threw, or died."""
        self._end(number, TrialState.FAIL, about={"reason": reason})

    def _end(
        self,
        number: int,
        state: TrialState | None,
        val: float | None = None,
        about: Mapping[str, Any] | None = None,
    ) -> None:
        def end() -> None:
            trial = self._mine(number)
            if trial is None:
                return
            for name, value in (about or {}).items():
                self._kept.set_trial_user_attr(trial._trial_id, name, value)
            self._study.tell(number, val, state=state)

        self._at_once(end)

    def _mine(self, number: int) -> FrozenTrial | None:
        """A trial of this driver; none if another has taken it over and does it again."""
        study = self._study
        key = self._kept.get_trial_id_from_study_id_trial_number(study._study_id, number)
        trial = self._kept.get_trial(key)
        if not trial.state.is_finished():
            return trial
        self._storage.tell(
            f"Trial {number} was taken over by another driver, which had heard nothing of this one "
            "for too long; what came of it here does not count."
        )
        return None

    def _next(self, following: Callable[[], T]) -> T:
        """What is to be tried next, and whether anything is under way at the same moment."""

        def ask() -> T:
            self._forget_dead()
            asked = following()
            self.is_under_way = bool(self._running)
            return asked

        return self._at_once(ask)

    def _ask(self, sampler: BaseSampler) -> optuna.Trial:
        self._study.sampler = sampler
        trial = self._study.ask()
        if self._storage.driver:
            trial.set_user_attr(DRIVER, self._storage.driver)
        return trial

    def rows(self) -> list[Row]:
        """All trials that count, for a table."""
        return [self._row(trial) for trial in self.trials]

    def _row(self, trial: FrozenTrial) -> Row:
        if trial.number not in self._ended:
            row = Row(
                trial.number,
                STATES[trial.state],
                trial.value if trial.state == TrialState.COMPLETE else None,
                self.values(trial),
                trial.user_attrs.get("reason", ""),
            )
            if not trial.state.is_finished():
                return row
            self._ended[trial.number] = row
        return self._ended[trial.number]

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
        storage: Where the study is kept; none: it is not kept.
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
        storage: Storage | None = None,
    ) -> None:
        super().__init__("recipe", storage)
        self._architecture, self._fields = architecture, tuple(fields)
        self._base, self._teachers = base.changed(teachers=0), base.teachers
        self._own_count, self._seeds, self._seed = trials, seeds, seed
        self._first = [self._base]
        for name in KNOWN:
            known = self._base.changed(**within_ranges(RECIPES[name], self._fields))
            if known not in self._first:
                self._first.append(known)
        if self._storage.driver and self._count > self._study.user_attrs.get(TRIALS, 0):
            self._at_once(lambda: self._study.set_user_attr(TRIALS, self._count))

    def check(self, entry: Entry) -> None:
        if entry.about.recipe is not None or entry.state == "done":
            Recipe.model_validate(entry.about.recipe)

    @property
    def _count(self) -> int:
        """How many recipes are tried: as many as the driver wants that wants most."""
        count: int = max(self._own_count, self._study.user_attrs.get(TRIALS, 0))
        return count

    @property
    def wanted(self) -> int:
        """How many trials there are to be, those of the second round among them."""
        return self._count + min(FINALISTS, self._count)

    def ask(self) -> Ask | None:
        """The next trial; none where nothing is left, or only when others are finished."""
        return self._next(self._following)

    def _following(self) -> Ask | None:
        asked = self.trials
        first = [trial for trial in asked if "round" not in trial.user_attrs]
        if len(first) < self._count:
            taken = {trial.user_attrs.get(PLACE, order) for order, trial in enumerate(first)}
            return self._draw(next(place for place in itertools.count() if place not in taken))
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
        trial = self._ask(Followed(sampler))
        if place > 0:
            recipe = suggest(trial, self._base, self._fields, self._architecture)
        else:
            recipe = self._base
            if len(known) == len(self._fields):  # TPE cannot learn from values it cannot draw
                suggest(trial, self._base, self._fields, self._architecture)
        trial.set_user_attr("recipe", recipe.model_dump())
        trial.set_user_attr(PLACE, place)
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
        storage: Where the study is kept; none: it is not kept.
    """

    def __init__(self, cells: Sequence[dict[str, int]], storage: Storage | None = None) -> None:
        super().__init__("grid", storage)
        self._cells = list(cells)

    @property
    def wanted(self) -> int:
        return len(self._cells)

    def ask(self) -> tuple[int, dict[str, int]] | None:
        """The next cell and the number of its trial; none where all were asked for."""
        return self._next(self._following)

    def check(self, entry: Entry) -> None:
        _CELL.validate_python(entry.params)

    def _following(self) -> tuple[int, dict[str, int]] | None:
        asked = {frozenset(self.values(trial).items()) for trial in self.trials}
        cells = (cell for cell in self._cells if frozenset(cell.items()) not in asked)
        cell = next(cells, None)
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


def _driver_of(trial: FrozenTrial) -> str:
    driver: str = trial.user_attrs.get(DRIVER, "")
    return driver
