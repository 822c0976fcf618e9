"""Jobs of a moment, clocks that tests wind, and trainings that come to what tests say."""

import importlib
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from pdnas.architecture import Architecture
from pdnas.errors import DivergedError
from pdnas.job import Job, Plan, Tuner, make_job
from pdnas.models import Network
from pdnas.pipeline import plan, reserve, search
from pdnas.runs import (
    ARCHITECTURE,
    HISTORY,
    RESULT,
    SEARCH_STATE,
    SETTINGS,
    WEIGHTS,
    Result,
    RunDirectory,
    Trial,
)
from pdnas.search import STRATEGIES, Search, SearchEpoch
from pdnas.search.pdnas import PRESETS, PdnasSearch
from pdnas.space import SPACES
from pdnas.tasks import GraphTask
from pdnas.training import Recipe
from pdnas.training.batching import Batches
from pdnas.training.epochs import evaluate
from pdnas.training.fit import Epoch, Fit
from pdnas.training.seeds import train_once
from pdnas.watcher import Watcher

SHORT: dict[str, Any] = {
    "space": SPACES["paper"],
    "strategy": PRESETS["default"].changed(epochs=6, pool=6, adapted=1, adapt_epochs=1),
    "recipe": Recipe(epochs=2),
    "hidden": (4,),
    "seeds": 2,
    "candidates": 2,
    "designs": "off",
    "mutations": 1,
    "controls": ("gcn",),
}
"""A job of a moment: its two candidates and a change of the best are trained twice."""

FIT = importlib.import_module("pdnas.training.fit")  # the function hides the module
EPOCHS = importlib.import_module("pdnas.training.epochs")

TIMED = plan.TIMED

MEASURING = 2 * (1.0 + 2 * 0.5)
"""Seconds of the slow clock for two epochs of a search and of two trainings."""

RESERVE = reserve(0.5)
"""Seconds kept for the end."""

LEAST = MEASURING + plan.FEWEST * (1.0 + 0.5) + RESERVE
"""Seconds for a few epochs of a search and of a training."""

WHOLE = MEASURING + 6.0 + 0.5 + 8 * 4.0 + RESERVE
"""Seconds for the search, what it adapts, and eight trainings of 8 epochs, without mutations."""

PREVIOUS = SEARCH_STATE.with_name("search.previous.safetensors")


def short(**changes: Any) -> Job:
    return make_job(**{**SHORT, **changes})


def lean(**changes: Any) -> Job:
    """A search and little else."""
    return short(candidates=1, mutations=0, seeds=1, controls=(), **changes)


class Events(Watcher):
    """Writes down what happens, and stops the job at one of these things as Ctrl-C would.

    Args:
        stop: Part of the name of the thing; by default nothing.
    """

    def __init__(self, stop: str | None = None) -> None:
        self.seen: list[str] = []
        self.notes: list[str] = []
        self.plans: list[Plan] = []
        self._stop = stop

    def planned(self, plan: Plan, problems: Any) -> None:
        self.plans.append(plan)
        self._add("planned")

    def searched(self, search: Search, epoch: SearchEpoch) -> None:
        shape = f"{search.problem.num_blocks}x{search.problem.hidden}"
        self._add(f"search {shape} epoch {epoch.epoch}")

    def trained(self, what: str, epoch: Epoch) -> None:
        self._add(f"{what} epoch {epoch.epoch}")

    def tuned(self, trial: int, wanted: int) -> None:
        self._add(f"tuned {trial} of {wanted}")

    def noted(self, sentence: str) -> None:
        self.notes.append(sentence)

    def _add(self, event: str) -> None:
        self.seen.append(event)
        if event == self._stop:
            raise KeyboardInterrupt


@pytest.fixture(autouse=True)
def _measured_in_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "TIMED", 1)


@pytest.fixture
def new_run(tmp_path: Path) -> Callable[[], RunDirectory]:
    """Makes run directories."""
    count = 0

    def make() -> RunDirectory:
        nonlocal count
        count += 1
        run = RunDirectory.create(tmp_path / f"run{count}", "test")
        run.write_json(SETTINGS, {})
        return run

    return make


@pytest.fixture
def run(new_run: Callable[[], RunDirectory]) -> RunDirectory:
    return new_run()


Whole = Callable[[Job], RunDirectory]


@pytest.fixture(scope="module")
def done() -> dict[str, RunDirectory]:
    """Runs that several tests compare with."""
    return {}


@pytest.fixture
def undisturbed(
    done: dict[str, RunDirectory], tiny_task: GraphTask, tmp_path_factory: pytest.TempPathFactory
) -> Whole:
    """The run of a job that nothing happened to."""

    def find(job: Job) -> RunDirectory:
        name = job.model_dump_json()
        if name not in done:
            run = RunDirectory.create(tmp_path_factory.mktemp("whole") / "run", "test")
            run.write_json(SETTINGS, {})
            search(tiny_task, job, run=run)
            done[name] = run
        return done[name]

    return find


@pytest.fixture
def whole(undisturbed: Whole) -> RunDirectory:
    """The short job, undisturbed."""
    return undisturbed(short())


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that runs a thousand times too fast, so that every epoch is followed by a checkpoint.

    It is not for jobs with a budget.
    """

    @dataclass
    class Fast:
        perf_counter: Callable[[], float] = time.perf_counter

        def monotonic(self) -> float:
            return 1e6 * time.monotonic()

    follow(monkeypatch, Fast())
    monkeypatch.setattr("pdnas.pipeline.searches.CHECKPOINT_SHARE", 1e9)


def follow(monkeypatch: pytest.MonkeyPatch, clock: object) -> None:
    """Let the job look at another clock."""
    for name in ("ledger", "plan", "searches", "whole"):
        monkeypatch.setattr(f"pdnas.pipeline.{name}.time", clock)


def train_with(monkeypatch: pytest.MonkeyPatch, train: Callable[..., Any]) -> None:
    """Let the job train by another function."""
    for name in ("plan", "trials", "finals"):
        monkeypatch.setattr(f"pdnas.pipeline.{name}.train_once", train)


class Clock:
    """A clock that stands still but for the work that the tests say takes time."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    perf_counter = monotonic


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """An epoch of a search takes one second, an epoch of a training half of one."""
    clock, step, train = Clock(), PdnasSearch.step, EPOCHS.train_epoch

    def slow_step(self: PdnasSearch, *arguments: Any) -> SearchEpoch:
        clock.now += 1.0
        return step(self, *arguments)

    def slow_train(*arguments: Any) -> Any:
        clock.now += 0.5
        return train(*arguments)

    monkeypatch.setattr(PdnasSearch, "step", slow_step)
    for module in (EPOCHS, importlib.import_module("pdnas.search.shared")):
        monkeypatch.setattr(module, "train_epoch", slow_train)
    monkeypatch.setattr(plan, "TIMED", 2)
    monkeypatch.setattr(FIT, "time", clock)
    follow(monkeypatch, clock)
    return clock


def lines(run: RunDirectory) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run.path / HISTORY).read_text().splitlines()]


def timeless(value: Any) -> Any:
    """Plain values without those that say how long something took."""
    if isinstance(value, dict):
        return {key: timeless(v) for key, v in value.items() if not key.endswith("seconds")}
    return [timeless(entry) for entry in value] if isinstance(value, list) else value


def outcome(run: RunDirectory) -> tuple[Any, ...]:
    """All that two runs of the same job must have in common."""
    files = [(run.path / name).read_bytes() for name in (HISTORY, ARCHITECTURE, WEIGHTS)]
    return *files, timeless(json.loads((run.path / RESULT).read_text()))


def validation(result: Result, task: GraphTask) -> float:
    """What the network of a result really comes to."""
    return float(evaluate(result.model, Batches(task, "val"), task)[1])


def size(trial: Trial, task: GraphTask) -> int:
    return trial.architecture.parameters(task, trial.hidden)


def diverging(monkeypatch: pytest.MonkeyPatch, when: Callable[[Architecture, int], bool]) -> None:
    """Let some trainings diverge, by their architecture and seed."""

    def trained(architecture: Architecture, *others: Any, **rest: Any) -> tuple[Network, Fit]:
        if when(architecture, rest["seed"]):
            raise DivergedError("The loss is no longer finite.")
        return train_once(architecture, *others, **rest)

    train_with(monkeypatch, trained)


def pretend(monkeypatch: pytest.MonkeyPatch, value: Callable[[Architecture, int], float]) -> None:
    """Let trainings come to a validation that the architecture and the seed decide."""

    def trained(architecture: Architecture, *others: Any, **rest: Any) -> tuple[Network, Fit]:
        network, outcome = train_once(architecture, *others, **rest)
        return network, replace(outcome, val=value(architecture, rest["seed"]))

    train_with(monkeypatch, trained)


ROOM = 90.0
"""Seconds of the slow clock for many changes of the candidates of a short job."""


RIVALS = {
    name: STRATEGIES[name].model_validate({"name": name, "epochs": 5, "train_epochs": 3})
    for name in STRATEGIES
    if "train_epochs" in STRATEGIES[name].model_fields
}


class Counter(Watcher):
    """Counts what is trained to choose."""

    def __init__(self) -> None:
        self.alone, self.trials = 0, 0

    def searched(self, search: Search, epoch: SearchEpoch) -> None:
        self.alone += epoch.alone

    def tried(self, trial: Trial) -> None:
        self.trials += 1


class Tuned:
    """A tuner that finds the same recipe every time, and remembers what it was asked.

    Args:
        takes: What it does meanwhile, told how to ask for the time.
    """

    FOUND = Recipe(epochs=3, lr=0.125)

    def __init__(self, takes: Callable[[Callable[[], bool]], None] | None = None) -> None:
        self.asked: list[dict[str, Any]] = []
        self._takes = takes

    @property
    def trainings(self) -> int:
        return 7

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
        self.asked.append(
            {"architecture": architecture, "hidden": hidden, "base": base, "seed": seed}
        )
        on_trial(1, 2)
        if self._takes is not None:
            self._takes(is_late)
        return self.FOUND


def planned(task: GraphTask, job: Job, tuner: Tuner | None = None) -> Plan:
    """The plan of a job that is not begun."""
    events = Events(stop="planned")
    with pytest.raises(KeyboardInterrupt):
        search(task, job, watcher=events, tuner=tuner)
    return events.plans[0]
