"""The whole job: what it does, what it may look at, and how it ends when it is cut short."""

import errno
import importlib
import itertools
import json
import math
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch

import pdnas
from pdnas import pipeline, race
from pdnas.architecture import Architecture, BlockSpec
from pdnas.contest import CLIMBERS, SURE, ranked
from pdnas.errors import DivergedError, PdnasError, RunError, SearchError, UnknownNameError
from pdnas.job import Callback, Job, Plan, Progress, Tuner, Watcher, Watchers, make_job
from pdnas.models import GraphNetwork, Network
from pdnas.models.baselines import BASELINES, block_designs
from pdnas.ops import SLOTS
from pdnas.pipeline import search
from pdnas.race import Race
from pdnas.runs import (
    ARCHITECTURE,
    HISTORY,
    PIPELINE,
    RESULT,
    SEARCH_STATE,
    SETTINGS,
    WEIGHTS,
    Result,
    RunDirectory,
    Trial,
    load_run,
)
from pdnas.search import STRATEGIES, Candidate, Search, SearchEpoch
from pdnas.search.pdnas import PRESETS, PdnasSearch
from pdnas.space import SPACES, SearchSpace
from pdnas.tasks import GraphTask
from pdnas.training import Recipe, memory
from pdnas.training.batching import Batches
from pdnas.training.epochs import WORTHWHILE, evaluate
from pdnas.training.fit import Epoch, Fit, read_test
from pdnas.training.seeds import train_once

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

TIMED = pipeline.TIMED

MEASURING = 2 * (1.0 + 2 * 0.5)
"""Seconds of the slow clock for two epochs of a search and of two trainings."""

RESERVE = pipeline.reserve(0.5)
"""Seconds kept for the end."""

LEAST = MEASURING + pipeline.FEWEST * (1.0 + 0.5) + RESERVE
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
    monkeypatch.setattr(pipeline, "TIMED", 1)


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

    monkeypatch.setattr(pipeline, "time", Fast())
    monkeypatch.setattr(pipeline, "CHECKPOINT_SHARE", 1e9)


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
    monkeypatch.setattr(pipeline, "TIMED", 2)
    monkeypatch.setattr(FIT, "time", clock)
    monkeypatch.setattr(pipeline, "time", clock)
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


def files(run: RunDirectory) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in run.path.rglob("*") if path.is_file()}


def validation(result: Result, task: GraphTask) -> float:
    """What the network of a result really comes to."""
    return float(evaluate(result.model, Batches(task, "val"), task)[1])


def size(trial: Trial, task: GraphTask) -> int:
    return trial.architecture.parameters(task, trial.hidden)


def test_a_job_searches_then_tries_then_trains_then_compares(undisturbed: Whole) -> None:
    history = lines(undisturbed(short(controls=("random", "gcn"))))
    assert list(dict.fromkeys(line["phase"] for line in history)) == [
        "search",
        "candidate",
        "final",
        "control",
    ]
    places = [
        (line["phase"], line.get("number", line.get("name")), line.get("seed"), line["epoch"])
        for line in history
        if line["phase"] != "search"
    ]
    expected: list[tuple[Any, ...]] = [("candidate", number, None) for number in range(6)]
    expected += [("final", None, seed) for seed in (0, 1)]
    expected += [("control", name, seed) for name in ("random", "gcn") for seed in (0, 1)]
    assert places == [(*place, epoch) for place in expected for epoch in range(2)]
    epochs = [(line["cell"], line["epoch"]) for line in history if line["phase"] == "search"]
    assert epochs == [(0, epoch) for epoch in range(6)]


def test_a_result_says_what_was_done(undisturbed: Whole, tiny_task: GraphTask) -> None:
    job = short(controls=("random", "gcn"))
    result = load_run(undisturbed(job).path)
    report = result.search
    assert report is not None
    assert (result.task, result.strategy, result.space) == ("tiny", "pdnas", "paper")
    assert result.architecture in job.space
    assert isinstance(result.architecture, Architecture)
    assert (result.hidden, result.architecture.num_blocks) == (4, 2)
    assert result.parameters == sum(weight.numel() for weight in result.model.parameters())
    assert result.recipe == job.recipe.model_dump()
    assert result.seeds == job.final_seeds == (0, 1)
    assert result.split.sha256 == tiny_task.split.sha256
    assert min(result.search_seconds, result.train_seconds, report.training_seconds) > 0
    assert (report.settings, report.seed, report.epochs) == (job.strategy.model_dump(), 0, 6)
    assert [trial.seed for trial in report.trials] == [2**32] * 3 + [2**32 + 1] * 3
    assert report.stopped is None
    assert [control.name for control in report.controls] == ["random", "gcn"]
    for control in report.controls:
        assert len(control.val.values) == len(control.test.values) == 2
        assert control.parameters == control.architecture.parameters(tiny_task, control.hidden)
    random, gcn = report.controls
    assert random.architecture in job.space
    assert gcn.architecture == BASELINES["gcn"].architecture


def test_figures_of_a_result_are_those_of_its_history(whole: RunDirectory) -> None:
    result, history = load_run(whole.path), lines(whole)
    assert result.search is not None
    best = [
        max(line["val"] for line in history if (line["phase"], line.get("seed")) == ("final", seed))
        for seed in (0, 1)
    ]
    assert best == list(result.val.values)
    for number, trial in enumerate(result.search.trials):
        assert trial.val == max(line["val"] for line in history if line.get("number") == number)


def test_the_model_is_the_one_with_the_best_validation(
    run: RunDirectory, tiny_task: GraphTask
) -> None:
    search(tiny_task, short(candidates=1, mutations=0, seeds=6, controls=()), run=run)
    result = load_run(run.path)
    first, *_, last = result.val.values
    assert max(result.val.values) > max(first, last), "one that is neither the first nor the last"
    assert validation(result, tiny_task) == pytest.approx(max(result.val.values), abs=1e-6)


def test_a_line_of_the_history_takes_two_kilobytes_at_most(
    run: RunDirectory, tiny_task: GraphTask
) -> None:
    search(tiny_task, lean(blocks=(7,)), run=run)
    assert max(map(len, (run.path / HISTORY).read_bytes().splitlines())) <= 2048


def test_the_job_of_some_settings_is_what_the_public_function_does(tiny_task: GraphTask) -> None:
    result = pdnas.search(tiny_task, **SHORT)
    same = search(tiny_task, short())
    assert isinstance(result, Result)
    assert timeless(result.model_dump(mode="json")) == timeless(same.model_dump(mode="json"))
    graph = tiny_task.graphs[0]
    logits = result.model(graph.x, graph.edge_index)
    assert logits.shape == (20, 3)
    assert torch.equal(logits, same.model(graph.x, graph.edge_index))
    assert "tiny, split own: test accuracy" in result.summary()
    assert str(result.architecture) in result.summary()


def test_the_public_name_is_still_the_package_of_strategies() -> None:
    assert dir(pdnas.search) == dir(importlib.import_module("pdnas.search"))


def test_nothing_is_written_without_a_run(
    tiny_task: GraphTask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    search(tiny_task, lean())
    assert list(tmp_path.iterdir()) == []


def test_the_random_state_outside_is_untouched(tiny_task: GraphTask) -> None:
    before = torch.get_rng_state()
    search(tiny_task, lean())
    assert torch.equal(torch.get_rng_state(), before)


def test_the_same_seed_gives_the_same_result_twice(
    whole: RunDirectory, run: RunDirectory, tiny_task: GraphTask
) -> None:
    torch.rand(3)  # what happened before does not matter
    search(tiny_task, short(), run=run)
    assert outcome(run) == outcome(whole)


def test_another_seed_takes_another_path(
    undisturbed: Whole, run: RunDirectory, tiny_task: GraphTask
) -> None:
    search(tiny_task, lean(seed=1), run=run)
    paths = [
        [line["path"] for line in lines(each) if line["phase"] == "search"]
        for each in (undisturbed(lean()), run)
    ]
    assert paths[0] != paths[1]


def test_the_best_three_are_trained_again_and_the_best_mean_is_chosen(
    tiny_task: GraphTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = iter([0.5, 0.9, 0.8, 0.7]), iter([0.1, 0.6, 0.9])
    job = short(candidates=4, mutations=0, seeds=1, controls=())
    calls = {2**32: first, 2**32 + 1: second}
    pretend(monkeypatch, lambda _, seed: next(calls[seed]) if seed in calls else 0.0)
    result = search(tiny_task, job)
    assert result.search is not None
    trials = result.search.trials
    assert [trial.seed - 2**32 for trial in trials] == [0, 0, 0, 0, 1, 1, 1]
    again = [trials[place].architecture for place in (1, 2, 3)]
    assert [trial.architecture for trial in trials[4:]] == again
    # The means are 0.5, 0.7 and 0.8.
    assert result.architecture == trials[3].architecture


@pytest.mark.parametrize(
    ("vals", "expected"),
    [
        # Variances 0.01, 0.01 and 0.04, their mean 0.02: the standard error is sqrt(0.02 / 3) =
        # 0.0816, and a mean of 0.72 is near enough to 0.8, one of 0.71 is not.
        (
            {"large": (0.7, 0.8, 0.9), "medium": (0.61, 0.71, 0.81), "small": (0.1, 0.3, 0.5)},
            "large",
        ),
        (
            {"large": (0.7, 0.8, 0.9), "medium": (0.62, 0.72, 0.82), "small": (0.1, 0.3, 0.5)},
            "medium",
        ),
        (
            {"large": (0.7, 0.8, 0.9), "medium": (0.62, 0.72, 0.82), "small": (0.52, 0.72, 0.92)},
            "small",
        ),
        ({"large": (0.7, 0.8), "medium": (0.69, 0.79), "small": (0.69, 0.79)}, "large"),
    ],
)
def test_of_those_within_a_standard_error_of_the_best_the_smallest_is_chosen(
    tiny_task: GraphTask,
    monkeypatch: pytest.MonkeyPatch,
    vals: dict[str, tuple[float, ...]],
    expected: str,
) -> None:
    expansions = {"small": 1, "medium": 2, "large": 8}
    rivals = {
        name: Architecture(blocks=(BlockSpec(expansion=expansions[name]), BlockSpec()))
        for name in vals
    }
    figures = {rivals[name]: values for name, values in vals.items()}

    def value(architecture: Architecture, seed: int) -> float:
        own = figures.get(architecture)
        return 0.01 if own is None or seed < 2**32 else own[seed - 2**32]

    pretend(monkeypatch, value)
    repeats = len(vals["large"]) - 1
    result = search(tiny_task, lean(incumbents=tuple(rivals.values()), repeats=repeats))
    assert result.architecture == rivals[expected]


def diverging(monkeypatch: pytest.MonkeyPatch, when: Callable[[Architecture, int], bool]) -> None:
    """Let some trainings diverge, by their architecture and seed."""

    def trained(architecture: Architecture, *others: Any, **rest: Any) -> tuple[Network, Fit]:
        if when(architecture, rest["seed"]):
            raise DivergedError("The loss is no longer finite.")
        return train_once(architecture, *others, **rest)

    monkeypatch.setattr(pipeline, "train_once", trained)


def test_a_control_that_diverges_is_left_out_and_nothing_else(
    tiny_task: GraphTask, run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    gcn = BASELINES["gcn"].architecture
    diverging(monkeypatch, lambda architecture, seed: architecture == gcn and seed == 1)
    job, events = short(controls=("gcn", "gat"), seeds=3), Events()
    result = search(tiny_task, job, run=run, watcher=events)
    assert len(result.val.values) == 3
    assert result.search is not None
    assert [control.name for control in result.search.controls] == ["gat"]
    said = "The control 'gcn' is left out: The loss is no longer finite."
    assert said in result.search.warnings
    assert events.notes.count(said) == 1
    assert result.search.stopped is None
    again = Events()
    assert search(tiny_task, job, run=run, watcher=again).model_dump() == result.model_dump()
    assert not [event for event in again.seen if event.startswith("gcn")], "it is not tried again"


@pytest.mark.parametrize("lost", [(1,), (0, 1, 2)])
def test_a_final_training_that_diverges_is_left_out(
    tiny_task: GraphTask,
    run: RunDirectory,
    monkeypatch: pytest.MonkeyPatch,
    lost: tuple[int, ...],
) -> None:
    diverging(monkeypatch, lambda _, seed: seed in lost)
    result = search(tiny_task, short(seeds=3, controls=()), run=run)
    assert result.search is not None
    left = tuple(seed for seed in range(3) if seed not in lost)
    assert result.seeds == (left or (2**32,)), "without any the best candidate is what there is"
    for seed in lost:
        said = f"The final training with seed {seed} is left out: The loss is no longer finite."
        assert said in result.search.warnings
    assert result.search.stopped is None
    assert validation(result, tiny_task) == pytest.approx(max(result.val.values), abs=1e-6)
    assert run.has(RESULT)


def test_candidates_that_all_diverge_are_one_sentence(
    tiny_task: GraphTask, run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    diverging(monkeypatch, lambda _, seed: seed >= 2**32)
    for _ in range(2):  # a resumed run says the same
        with pytest.raises(SearchError, match=r"all candidates .* lower the learning rate, now"):
            search(tiny_task, short(), run=run)


def test_ctrl_c_while_all_candidates_diverge_keeps_what_the_search_favors(
    tiny_task: GraphTask, run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = iter(range(99))

    def when(_architecture: Architecture, seed: int) -> bool:
        if seed >= 2**32 and next(calls) == 1:
            raise KeyboardInterrupt
        return seed >= 2**32

    diverging(monkeypatch, when)
    with pytest.raises(KeyboardInterrupt):
        search(tiny_task, short(), run=run)
    assert run.read_record(RESULT, Result).search is not None


def test_a_candidate_that_the_budget_cut_short_is_in_no_mean(
    tiny_task: GraphTask, clock: Clock
) -> None:
    recipe = Recipe(epochs=40, patience=80)
    for budget in (60, 100, 130, 150):
        job = short(recipe=recipe, repeats=4, mutations=0, seeds=1, controls=())
        result = search(tiny_task, job.model_copy(update={"budget_seconds": float(budget)}))
        assert result.search is not None
        again = [trial for trial in result.search.trials if trial.seed > job.trial_seed]
        assert {trial.epochs for trial in again} <= {40}, budget
    assert again, "with time enough some are trained again"


def test_what_is_not_given_up_early_is_estimated_as_a_whole(
    tiny_task: GraphTask, clock: Clock
) -> None:
    strategy = SHORT["strategy"].changed(pool=1, adapted=0)
    job = short(recipe=Recipe(epochs=16), strategy=strategy, candidates=4, mutations=2, repeats=5)
    mine = Architecture(blocks=(BlockSpec(), BlockSpec()))
    for incumbents in ((), (mine,)):
        plan = planned(tiny_task, job.model_copy(update={"incumbents": incumbents}))
        count = len(incumbents)
        # Three of six cannot fall behind, three end after a quarter; the best are repeated.
        whole, quarters = 3 + count + 5 * (3 + count), 3
        assert plan.candidate_seconds == 1.0 + 0.5 * (16 * whole + 4 * quarters)


def test_a_checkpoint_counts_on_history_that_the_disk_has(
    tiny_task: GraphTask, run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    append, write = RunDirectory.append_history, RunDirectory.write_state

    def appended(self: RunDirectory, *lines: Any, **how: Any) -> int:
        order.append("durable" if how.get("durable", True) else "not yet")
        return append(self, *lines, **how)

    def written(self: RunDirectory, *what: Any) -> None:
        order.append("checkpoint")
        write(self, *what)

    monkeypatch.setattr(RunDirectory, "append_history", appended)
    monkeypatch.setattr(RunDirectory, "write_state", written)
    ticks = itertools.count(0.0, 10.0)  # so slow that every epoch is kept
    monkeypatch.setattr(Clock, "monotonic", lambda _: next(ticks))
    monkeypatch.setattr(pipeline, "time", Clock())
    search(tiny_task, lean(), run=run)
    places = [number for number, what in enumerate(order) if what == "checkpoint"]
    assert places
    assert {order[place - 1] for place in places} == {"durable"}


def changed_choices(space: SearchSpace, one: Architecture, other: Architecture) -> int:
    """How many choices it takes to come from a plain architecture to another."""
    turned = len(set(one.gates) ^ set(other.gates))
    ops = 0
    for number, (spec, target) in enumerate(zip(one.blocks, other.blocks, strict=True)):
        blocks = list(other.blocks)
        if spec != target:
            slots = [slot for slot in SLOTS if getattr(spec, slot) != getattr(target, slot)]
            made = []
            for slot in slots:
                blocks[number] = spec.model_copy(update={slot: getattr(target, slot)})
                plain = space.plain(other.model_copy(update={"blocks": tuple(blocks)}))
                made.append(plain.blocks[number])
            ops += 1 if target in made else len(slots)
    return turned + ops


@pytest.mark.parametrize("space", ["paper", "extended"])
def test_a_mutation_differs_in_one_choice_from_the_best_so_far(
    tiny_task: GraphTask, space: str
) -> None:
    job = short(space=SPACES[space], mutations=8, seeds=1, controls=())
    result = search(tiny_task, job)
    assert result.search is not None
    trials = result.search.trials
    tried = trials[: 2 + 8]
    assert [trial.seed - job.trial_seed for trial in trials] == [0] * 10 + [1] * 3
    assert [trial.shared_val is None for trial in tried] == [False] * 2 + [True] * 8
    assert len({(trial.architecture, trial.hidden) for trial in tried}) == 10, "none is tried twice"
    for number, trial in enumerate(tried[2:], start=2):
        best = max(tried[:number], key=lambda other: other.val)
        assert trial.hidden == best.hidden
        assert trial.architecture in job.space
        plain = job.space.plain(best.architecture)
        assert changed_choices(job.space, plain, trial.architecture) == 1


ALMOST = CLIMBERS * (SURE - 1) - 5
"""Trainings at the end of a climb of what was trained already; what they take is an estimate."""

ROOM = 90.0
"""Seconds of the slow clock for many changes of the candidates of a short job."""


def test_the_rest_of_a_budget_is_spent_on_what_trainings_promise(
    tiny_task: GraphTask, clock: Clock
) -> None:
    job = short(mutations=0, seeds=1, controls=(), budget_seconds=ROOM)
    began = clock.now
    result = search(tiny_task, job)
    assert 0.65 * ROOM < clock.now - began <= ROOM
    assert result.search is not None
    assert result.search.stopped is None
    networks = ranked(result.search.trials)
    assert len(networks) > 12
    assert sum(len(own) - 1 for own in networks) >= ALMOST


def test_a_climb_that_was_stopped_goes_on_as_long_as_it_would_have(
    tiny_task: GraphTask, clock: Clock, run: RunDirectory
) -> None:
    job = short(mutations=0, seeds=1, controls=(), budget_seconds=ROOM)
    whole = search(tiny_task, job)
    with pytest.raises(KeyboardInterrupt):
        search(tiny_task, job, run=run, watcher=Events("candidate 9 epoch 1"))
    again = search(tiny_task, job, run=run)
    assert whole.search is not None
    assert again.search is not None
    assert abs(len(whole.search.trials) - len(again.search.trials)) <= 2
    assert sum(len(own) - 1 for own in ranked(again.search.trials)) >= ALMOST


def test_a_climb_leaves_trials_for_the_choice(tiny_task: GraphTask, clock: Clock) -> None:
    job = short(mutations=0, seeds=1, controls=(), budget_seconds=600, budget_trials=40)
    result = search(tiny_task, job)
    assert result.search is not None
    assert len(result.search.trials) <= 40
    networks = ranked(result.search.trials)
    assert sum(len(own) - 1 for own in networks) >= ALMOST


@pytest.mark.parametrize(
    "changes",
    [
        {"budget_seconds": None},
        {"strategy": SHORT["strategy"].changed(climb="off")},
        {"strategy": STRATEGIES["random"].model_validate({"name": "random", "epochs": 2})},
        {"recipe": Recipe(epochs=30, patience=1), "seeds": 4},  # it may not end early in the end
    ],
    ids=["no budget", "not asked for", "another strategy", "no time"],
)
def test_no_change_is_trained_that_nobody_asked_for(
    tiny_task: GraphTask, clock: Clock, changes: dict[str, Any]
) -> None:
    given = {"mutations": 0, "seeds": 1, "controls": (), "budget_seconds": ROOM, **changes}
    result = search(tiny_task, short(**given))
    assert result.search is not None
    assert len({trial.architecture for trial in result.search.trials}) <= 2


def test_who_trains_what_it_tries_has_the_time_that_the_rest_does_not_need(
    tiny_task: GraphTask, clock: Clock
) -> None:
    endless = STRATEGIES["random"].model_validate({"name": "random", "epochs": 9999})
    job = short(
        strategy=endless, candidates=3, mutations=0, seeds=1, controls=(), budget_seconds=ROOM
    )
    began = clock.now
    result = search(tiny_task, job)
    assert 0.8 * ROOM < clock.now - began <= ROOM
    assert result.search is not None
    assert result.search.stopped is None
    assert result.search.epochs > 40
    assert [trial.epochs for trial in result.search.trials] == [2] * 6, "three, and three again"


def test_a_search_of_trainings_that_was_stopped_goes_on_as_long_as_it_would_have(
    tiny_task: GraphTask, clock: Clock, run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline, "CHECKPOINT_SHARE", 1e9)
    endless = STRATEGIES["random"].model_validate({"name": "random", "epochs": 9999})
    job = lean(strategy=endless, recipe=Recipe(epochs=2), budget_seconds=ROOM)
    whole = search(tiny_task, job)
    with pytest.raises(KeyboardInterrupt):
        search(tiny_task, job, run=run, watcher=Events("search 2x4 epoch 55"))
    again = search(tiny_task, job, run=run)
    assert whole.search is not None
    assert again.search is not None
    assert whole.search.epochs > 60
    assert abs(whole.search.epochs - again.search.epochs) <= 3


def test_a_mutation_may_be_the_network_found(
    tiny_task: GraphTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    vals = iter([0.5, 0.6, 0.7, 0.8, 0.8, 0.7, 0.6])
    pretend(monkeypatch, lambda _, seed: next(vals) if seed >= 2**32 else 0.0)
    job = short(mutations=2, seeds=1, controls=())
    result = search(tiny_task, job)
    assert result.search is not None
    trials = result.search.trials
    assert [trials.index(trial) for trial in trials if trial.shared_val is None] == [2, 3, 4, 5]
    first, second = (trials[number].architecture for number in (2, 3))
    assert changed_choices(job.space, first, second) == 1, "the second is a change of the first"
    assert [trial.architecture for trial in trials[4:6]] == [second, first]
    assert result.architecture == second


def test_the_best_three_are_trained_again_as_often_as_is_asked_for(
    tiny_task: GraphTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    vals = iter([0.6, 0.9, 0.8, 0.7, *(0.1, 0.6, 0.9), *(0.2, 0.7, 0.3), *(0.3, 0.8, 0.4)])
    pretend(monkeypatch, lambda _, seed: next(vals) if seed >= 2**32 else 0.0)
    result = search(tiny_task, short(candidates=4, mutations=0, repeats=3, seeds=1, controls=()))
    assert result.search is not None
    trials = result.search.trials
    assert [trial.seed - 2**32 for trial in trials] == [0] * 4 + [1] * 3 + [2] * 3 + [3] * 3
    order = [[other.architecture for other in trials[:4]].index(t.architecture) for t in trials]
    assert order == [0, 1, 2, 3, *[1, 2, 3] * 3]
    # The means of four trainings: 0.375, 0.725 and 0.575.
    assert result.architecture == trials[2].architecture


def test_only_final_trainings_have_teachers(
    tiny_task: GraphTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts: dict[str, set[int]] = {"timed": set(), "candidates": set(), "final": set()}

    def trained(*arguments: Any, **rest: Any) -> tuple[Network, Fit]:
        final = "candidates" if rest["seed"] >= 2**32 else "final"
        what = "timed" if rest["recipe"].epochs == WORTHWHILE else final
        counts[what].add(rest["recipe"].teachers)
        return train_once(*arguments, **rest)

    monkeypatch.setattr(pipeline, "train_once", trained)
    search(tiny_task, short(recipe=Recipe(epochs=2, teachers=2)))
    assert counts == {"timed": {0}, "candidates": {0}, "final": {2}}


def test_teachers_are_part_of_the_estimate(tiny_task: GraphTask, clock: Clock) -> None:
    alone, taught = (
        planned(tiny_task, short(recipe=Recipe(epochs=2, teachers=count))) for count in (0, 3)
    )
    assert taught.final_seconds == 4 * alone.final_seconds
    assert taught.candidate_seconds == alone.candidate_seconds


def test_repeats_are_part_of_the_estimate(tiny_task: GraphTask, clock: Clock) -> None:
    once, thrice = (planned(tiny_task, short(repeats=count)) for count in (1, 3))
    assert thrice.candidate_seconds >= once.candidate_seconds + 2 * 3 * 0.5


def test_a_mutation_has_the_shape_of_the_best_of_a_grid(
    tiny_task: GraphTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend(monkeypatch, lambda architecture, _: 0.9 if architecture.num_blocks == 1 else 0.5)
    job = short(blocks=(2, 1), hidden=(2, 4), candidates=1, mutations=3, seeds=1, controls=())
    result = search(tiny_task, job)
    assert result.search is not None
    shapes = [(t.architecture.num_blocks, t.hidden) for t in result.search.trials]
    assert shapes[:7] == [(2, 2), (2, 4), (1, 2), (1, 4), (1, 2), (1, 2), (1, 2)]


def test_without_mutations_only_candidates_are_trained(tiny_task: GraphTask) -> None:
    result = search(tiny_task, short(mutations=0, seeds=1, controls=()))
    assert result.search is not None
    assert [trial.shared_val is None for trial in result.search.trials] == [False] * 4


def test_a_space_of_one_network_has_no_mutations(tiny_task: GraphTask) -> None:
    paper = SPACES["paper"]
    update = {slot: paper.candidates(slot)[:1] for slot in SLOTS}
    only = SearchSpace.model_validate(paper.model_dump() | update | {"shortcuts": "none"})
    result = search(tiny_task, short(space=only, mutations=5, seeds=1, controls=()))
    assert result.search is not None
    assert only.count(2) == len(result.search.trials) == 1


def test_mutations_end_when_all_were_tried(tiny_task: GraphTask) -> None:
    paper = SPACES["paper"]
    update = {slot: paper.candidates(slot)[:1] for slot in SLOTS}
    few = SearchSpace.model_validate(
        paper.model_dump() | update | {"aggregation": ("sum", "max"), "shortcuts": "none"}
    )
    result = search(
        tiny_task, short(space=few, blocks=(1,), candidates=1, mutations=5, seeds=1, controls=())
    )
    assert result.search is not None
    assert few.count(1) == 2
    assert [trial.seed - 2**32 for trial in result.search.trials] == [0, 0, 1, 1]


@pytest.mark.parametrize("place", ["candidate 3 epoch 1", "candidate 5 epoch 0"])
def test_a_resumed_job_mutates_in_the_same_way(
    undisturbed: Whole, run: RunDirectory, tiny_task: GraphTask, place: str
) -> None:
    job = short(mutations=4, seeds=1, controls=())
    with pytest.raises(KeyboardInterrupt):
        search(tiny_task, job, run=run, watcher=Events(place))
    search(tiny_task, job, run=run)
    assert outcome(run) == outcome(undisturbed(job))


def test_another_seed_mutates_in_another_way(
    tiny_task: GraphTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = SPACES["paper"].sample(2, torch.Generator().manual_seed(0))
    monkeypatch.setattr(
        PdnasSearch, "refine", lambda *_: [Candidate(architecture=first, val=0.5, loss=1.0)]
    )
    pretend(monkeypatch, lambda *_: 0.5)
    results = [
        search(tiny_task, short(candidates=1, mutations=3, seeds=1, controls=(), seed=seed))
        for seed in (0, 1)
    ]
    tried = [[t.architecture for t in r.search.trials[:4]] for r in results if r.search]
    assert tried[0][0] == tried[1][0]
    assert tried[0] != tried[1]


def test_designs_of_the_space_are_trained_after_the_candidates(tiny_task: GraphTask) -> None:
    space = SPACES["extended"]
    job = short(space=space, designs="on", mutations=0, blocks=(2, 1), seeds=1, controls=())
    result = search(tiny_task, job)
    assert result.search is not None
    first = [trial for trial in result.search.trials if trial.seed == job.trial_seed]
    known = [space.plain(design) for design in block_designs() if design in space]
    expected = [architecture for architecture in known if architecture.num_blocks in (1, 2)]
    assert expected
    found = {trial.architecture for trial in first[:4]}
    assert [trial.architecture for trial in first[4:]] == [a for a in expected if a not in found]
    assert {(trial.hidden, trial.shared_val) for trial in first[4:]} == {(4, None)}


def test_incumbents_are_trained_after_the_candidates_and_each_once(tiny_task: GraphTask) -> None:
    mine = Architecture(blocks=(BlockSpec(attention="gat", heads=4), BlockSpec()))
    same = mine.model_copy(update={"blocks": (mine.blocks[0], BlockSpec(heads=16))})
    other = Architecture(blocks=(BlockSpec(),))
    job = short(incumbents=(mine, same, other), blocks=(2, 1), mutations=0, seeds=1, controls=())
    result = search(tiny_task, job)
    assert result.search is not None
    first = [trial for trial in result.search.trials if trial.seed == job.trial_seed]
    assert [trial.architecture for trial in first[4:]] == [mine, other], (
        "heads of gcn are no choice"
    )
    assert {(trial.hidden, trial.shared_val) for trial in first[4:]} == {(4, None)}


def test_an_incumbent_is_trained_again_even_if_it_was_not_among_the_best(
    tiny_task: GraphTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = Architecture(blocks=(BlockSpec(attention="cos"), BlockSpec(expansion=8)))
    vals = iter([0.9, 0.8, 0.7, 0.6, 0.1, *(0.2, 0.2, 0.2, 0.9), *(0.2, 0.2, 0.2, 0.9)])
    pretend(monkeypatch, lambda _, seed: next(vals) if seed >= 2**32 else 0.0)
    job = short(candidates=4, incumbents=(mine,), mutations=0, repeats=2, seeds=1, controls=())
    result = search(tiny_task, job)
    assert result.search is not None
    trials = result.search.trials
    assert [trial.seed - 2**32 for trial in trials] == [0] * 5 + [1] * 4 + [2] * 4
    assert [trials.index(trial) for trial in trials if trial.architecture == mine] == [4, 8, 12]
    # The means are 0.43, 0.40, 0.37 and 0.63.
    assert result.architecture == mine


def test_an_incumbent_that_is_too_large_is_refused(tiny_task: GraphTask) -> None:
    mine = Architecture(blocks=(BlockSpec(expansion=8), BlockSpec()))
    limit = mine.parameters(tiny_task, 4) - 1
    with pytest.raises(
        SearchError, match=f"incumbent has {limit + 1} .*--max-parameters is {limit};"
    ):
        search(tiny_task, lean(incumbents=(mine,), hidden=(8, 4), max_parameters=limit))
    search(tiny_task, lean(incumbents=(mine,), hidden=(8, 4), max_parameters=limit + 1))


def test_designs_that_are_too_large_are_left_out(tiny_task: GraphTask) -> None:
    space = SPACES["extended"]
    known = [space.plain(design) for design in block_designs() if design in space]
    sizes = [a.parameters(tiny_task, 4) for a in known if a.num_blocks == 2]
    job = lean(space=space).model_copy(update={"designs": "on", "max_parameters": min(sizes)})
    result = search(tiny_task, job)
    assert result.search is not None
    first = [trial for trial in result.search.trials if trial.seed == job.trial_seed]
    assert max(size(trial, tiny_task) for trial in first) <= min(sizes)
    assert {size(trial, tiny_task) for trial in first[1:]} == {min(sizes)}


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


def test_final_trainings_and_controls_follow_the_tuned_recipe(
    run: RunDirectory, tiny_task: GraphTask
) -> None:
    job, tuner, events = short(tune=2), Tuned(), Events()
    result = search(tiny_task, job, run=run, tuner=tuner, watcher=events)
    assert result.recipe == Tuned.FOUND.model_dump()
    assert result.search is not None
    assert tuner.asked == [
        {
            "architecture": result.architecture,
            "hidden": result.hidden,
            "base": job.recipe.changed(batching="full"),
            "seed": job.trial_seed,
        }
    ]
    epochs = {"search": 6, "candidate": 2, "final": 3, "control": 3}
    for phase, count in epochs.items():
        own = [line["epoch"] for line in lines(run) if line["phase"] == phase]
        assert max(own) + 1 == count
    where = events.seen.index("tuned 1 of 2")
    assert events.seen[where - 1] == "candidate 6 epoch 1"
    assert events.seen[where + 1] == "found, seed 0 epoch 0"
    network, fit = train_once(
        BASELINES["gcn"].architecture, tiny_task, hidden=4, recipe=Tuned.FOUND, seed=1
    )
    control = result.search.controls[0]
    assert (control.val.values[1], control.test.values[1]) == (
        fit.val,
        read_test(network, tiny_task),
    )


def test_a_job_without_tuning_asks_nobody(tiny_task: GraphTask) -> None:
    tuner = Tuned()
    result = search(tiny_task, lean(), tuner=tuner)
    assert tuner.asked == []
    assert result.recipe == SHORT["recipe"].model_dump()
    assert result.tune_seconds == 0.0


def test_a_tuning_that_is_done_is_not_done_again(
    new_run: Callable[[], RunDirectory], tiny_task: GraphTask
) -> None:
    job, whole, run, tuner = short(tune=2), new_run(), new_run(), Tuned()
    search(tiny_task, job, run=whole, tuner=Tuned())
    for place in ("tuned 1 of 2", "found, seed 0 epoch 2", "gcn, seed 1 epoch 0"):
        with pytest.raises(KeyboardInterrupt):
            search(tiny_task, job, run=run, tuner=tuner, watcher=Events(place))
    search(tiny_task, job, run=run, tuner=tuner)
    assert len(tuner.asked) == 2, "the first was interrupted"
    assert outcome(run) == outcome(whole)


def test_a_tuning_without_a_tuner_is_refused(tiny_task: GraphTask) -> None:
    with pytest.raises(SearchError, match=r"asks for 2 trials of a tuning, but there is no tuner"):
        search(tiny_task, short(tune=2))


def test_a_tuning_is_told_when_nine_tenths_of_the_budget_are_spent(
    tiny_task: GraphTask, clock: Clock
) -> None:
    began, ended, budget = clock.now, [], 100.0

    def takes(is_late: Callable[[], bool]) -> None:
        while not is_late():
            clock.now += 0.25
        ended.append(clock.now - began)

    job = short(mutations=0, tune=9, budget_seconds=budget)
    result = search(tiny_task, job, tuner=Tuned(takes))
    limit = 0.9 * (budget - RESERVE)
    assert limit < ended[0] <= limit + 0.25
    assert clock.now - began <= budget
    assert result.search is not None
    assert result.search.stopped is None
    assert 0 < result.tune_seconds <= ended[0]


def test_a_tuning_is_estimated_as_the_tuner_says(tiny_task: GraphTask, clock: Clock) -> None:
    plain, tuned = (planned(tiny_task, short(tune=tune), tuner=Tuned()) for tune in (0, 5))
    assert (plain.tune_seconds, tuned.tune_seconds) == (0.0, 7 * 2 * 0.5)
    assert tuned.seconds == plain.seconds + tuned.tune_seconds


def test_a_single_candidate_is_trained_once(tiny_task: GraphTask) -> None:
    result = search(tiny_task, lean())
    assert result.search is not None
    assert len(result.search.trials) == 1
    assert result.architecture == result.search.trials[0].architecture


def test_of_equal_candidates_the_first_of_the_smallest_is_chosen(
    tiny_task: GraphTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend(monkeypatch, lambda *_: 0.5)
    known = tuple(
        Architecture(blocks=(BlockSpec(expansion=expansion, activation=activation), BlockSpec()))
        for expansion, activation in ((2, "relu"), (1, "elu"), (1, "tanh"))
    )
    result = search(tiny_task, lean(incumbents=known))
    assert result.search is not None
    found, *others = (size(trial, tiny_task) for trial in result.search.trials[:4])
    assert min(found, others[0]) > others[1] == others[2]
    assert result.architecture == known[1]


def test_no_label_of_the_test_part_changes_a_choice(
    whole: RunDirectory, run: RunDirectory, tiny_task: GraphTask
) -> None:
    graph = tiny_task.graphs[0]
    y = graph.y.clone()
    y[tiny_task.split.test] = (y[tiny_task.split.test] + 1) % 3
    source = replace(tiny_task.source, graphs=(replace(graph, y=y),))
    search(replace(tiny_task, source=source), short(), run=run)
    *one, expected = outcome(whole)
    *other, result = outcome(run)
    assert other == one, "history, architecture and weights"
    assert result["test"]["values"] != expected["test"]["values"]


def test_the_test_part_is_read_once_for_each_training_after_the_choice(
    tiny_task: GraphTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    events, make = Events(), Batches.__init__

    def spy(self: Batches, task: GraphTask, part: Any, *more: Any, **others: Any) -> None:
        make(self, task, part, *more, **others)
        events.seen.append(f"reads {part}")

    monkeypatch.setattr(Batches, "__init__", spy)
    search(tiny_task, short(), watcher=events)
    reads = [number for number, event in enumerate(events.seen) if event == "reads test"]
    chosen = events.seen.index("candidate 6 epoch 1")
    assert len(reads) == 2 * 2
    assert min(reads) > chosen
    names = [f"{name}, seed {seed}" for name in ("found", "gcn") for seed in (0, 1)]
    assert [events.seen[number - 1] for number in reads] == [f"{n} epoch 1" for n in names]


def test_the_seed_of_the_trials_is_none_of_the_final_ones(
    tiny_task: GraphTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    seeds, train = [], train_once

    def spy(*arguments: Any, **settings: Any) -> tuple[Network, Fit]:
        if settings["recipe"].epochs != WORTHWHILE:  # not timed and thrown away
            seeds.append(settings["seed"])
        return train(*arguments, **settings)

    monkeypatch.setattr(pipeline, "train_once", spy)
    search(tiny_task, short(seed=7, controls=("gcn",)))
    assert seeds[6:] == [7, 8, 7, 8]
    assert not set(seeds[:6]) & set(seeds[6:])


def test_a_candidate_that_falls_behind_is_not_trained_to_the_end(
    tiny_task: GraphTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(race, "RUNG", 1 / 3)
    monkeypatch.setattr(race, "KEEP_UP", 1)
    job = short(recipe=Recipe(epochs=3), candidates=6, mutations=0, seeds=1, controls=())
    result = search(tiny_task, job)
    assert result.search is not None
    trials, again = result.search.trials[:6], result.search.trials[6:]
    assert min(trial.epochs for trial in trials) < 3, "somebody falls behind"
    for number, trial in enumerate(trials):
        (rung,) = trial.rungs
        before = [other.rungs[0] for other in trials[:number]]
        assert trial.epochs == (1 if rung < max(before, default=0.0) else 3)
    assert [trial.epochs for trial in again] == [3, 3, 3], "the second time nobody is raced"


def test_designs_are_not_raced_and_changes_are_after_a_quarter(
    tiny_task: GraphTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    rivals, falls_behind = [], Race.falls_behind

    def spy(self: Race, epoch: Epoch) -> bool:
        if epoch.epoch == 0:
            rivals.append(len(self._others))
        return falls_behind(self, epoch)

    monkeypatch.setattr(Race, "falls_behind", spy)
    monkeypatch.setattr(race, "KEEP_UP", 1)
    job = short(
        space=SPACES["extended"],
        designs="on",
        recipe=Recipe(epochs=16),
        candidates=2,
        mutations=4,
        seeds=1,
        controls=(),
    )
    result = search(tiny_task, job)
    assert result.search is not None
    trials = result.search.trials
    # Two candidates, three designs, four changes, and three again.
    assert rivals == [0, 1, 0, 0, 0, 5, 6, 7, 8, 0, 0, 0]
    assert [trial.epochs for trial in trials[2:5]] == [16, 16, 16]
    assert min(trial.epochs for trial in trials[5:9]) >= 4


def test_every_cell_of_a_grid_is_searched_and_validation_chooses(
    run: RunDirectory, tiny_task: GraphTask
) -> None:
    events = Events()
    job = short(blocks=(1, 2), hidden=(2, 4), mutations=0, seeds=1, controls=("random",))
    result = search(tiny_task, job, run=run, watcher=events)
    cells = ["1x2", "1x4", "2x2", "2x4"]
    searched = [event.split()[1] for event in events.seen if event.startswith("search")]
    assert searched == [cell for cell in cells for _ in range(6)]
    assert {line["cell"] for line in lines(run) if line["phase"] == "search"} == {0, 1, 2, 3}
    assert result.search is not None
    trials = result.search.trials
    shapes = [f"{trial.architecture.num_blocks}x{trial.hidden}" for trial in trials]
    assert shapes[:8] == cells + cells, "the first of each cell, then the second of each"
    means = {
        (trial.architecture, trial.hidden): (trial.val + again.val) / 2
        for trial in trials[:8]
        for again in trials[8:]
        if (trial.architecture, trial.hidden) == (again.architecture, again.hidden)
    }
    assert isinstance(result.architecture, Architecture)
    assert means[result.architecture, result.hidden] == max(means.values())
    random = result.search.controls[0]
    assert random.hidden == result.hidden
    assert isinstance(random.architecture, Architecture)
    assert random.architecture.num_blocks == result.architecture.num_blocks


def test_no_network_exceeds_the_number_of_parameters(
    run: RunDirectory, tiny_task: GraphTask
) -> None:
    limit, settings = 90, {"candidates": 4, "mutations": 3, "seeds": 1, "controls": ("random",)}
    free = search(tiny_task, short(**settings))
    result = search(tiny_task, short(max_parameters=limit, **settings), run=run)
    assert free.search is not None
    assert result.search is not None
    assert max(size(trial, tiny_task) for trial in free.search.trials) > limit
    assert max(size(trial, tiny_task) for trial in result.search.trials) <= limit
    assert sum(weight.numel() for weight in result.model.parameters()) <= limit
    assert result.search.controls[0].parameters <= limit


def test_no_path_of_the_search_exceeds_the_number_of_parameters(
    tiny_task: GraphTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes, lend = [], PdnasSearch._lend

    def spy(self: PdnasSearch, architecture: Architecture) -> GraphNetwork:
        sizes.append(architecture.parameters(tiny_task, 4))
        return lend(self, architecture)

    monkeypatch.setattr(PdnasSearch, "_lend", spy)
    search(tiny_task, lean(max_parameters=90))
    assert len(sizes) >= 6
    assert max(sizes) <= 90


def test_cells_that_no_network_fits_into_are_left_out_with_a_note(tiny_task: GraphTask) -> None:
    events = Events()
    job = lean(hidden=(64, 2), max_parameters=100)
    result = search(tiny_task, job, watcher=events)
    assert result.hidden == 2
    assert [note.partition(":")[0] for note in events.notes] == ["Left out"]
    assert "2 block(s) and hidden size 64 has at most 100 parameters" in events.notes[0]
    assert not [event for event in events.seen if event.startswith("search 2x64")]


def test_an_impossible_number_of_parameters_names_the_smallest_possible_one(
    tiny_task: GraphTask,
) -> None:
    with pytest.raises(SearchError, match=r"at most 1 parameters .*; the smallest has ") as caught:
        search(tiny_task, short(max_parameters=1))
    smallest = int(str(caught.value).partition("the smallest has ")[2].partition(":")[0])
    with pytest.raises(SearchError):
        search(tiny_task, short(max_parameters=smallest - 1))
    result = search(tiny_task, lean(max_parameters=smallest))
    assert result.parameters == smallest


def planned(task: GraphTask, job: Job, tuner: Tuner | None = None) -> Plan:
    """The plan of a job that is not begun."""
    events = Events(stop="planned")
    with pytest.raises(KeyboardInterrupt):
        search(task, job, watcher=events, tuner=tuner)
    return events.plans[0]


def test_costs_are_estimated_from_a_few_steps(tiny_task: GraphTask, clock: Clock) -> None:
    plan, each = planned(tiny_task, short()), 2 * 0.5  # two epochs
    assert (plan.epochs, plan.epoch_seconds) == (6, 0.5)
    assert plan.search_seconds >= 6 * 1.0
    assert plan.candidate_seconds >= (2 + 1 + 3) * 0.5, "each ends after a quarter, one epoch here"
    assert plan.tune_seconds == 0.0
    assert plan.final_seconds == 2 * 2 * each, "two networks, each of them twice"
    assert plan.seconds == plan.search_seconds + plan.candidate_seconds + plan.final_seconds


@pytest.mark.parametrize("adapted", [0, 4])
def test_a_job_takes_no_longer_than_estimated(
    tiny_task: GraphTask, clock: Clock, adapted: int
) -> None:
    began, events = clock.now, Events()
    strategy = SHORT["strategy"].changed(adapted=adapted, adapt_epochs=5)
    search(tiny_task, lean(strategy=strategy), watcher=events)
    assert clock.now - began - MEASURING <= events.plans[0].seconds


def test_costs_of_a_grid_are_those_of_all_its_cells(tiny_task: GraphTask, clock: Clock) -> None:
    one, two = (planned(tiny_task, short(hidden=hidden)) for hidden in [(4,), (2, 4)])
    assert two.search_seconds == 2 * one.search_seconds
    assert two.candidate_seconds >= one.candidate_seconds + 2 * 2 * 0.5
    assert two.final_seconds == one.final_seconds


@pytest.mark.parametrize("budget", [0.001, LEAST - 0.1])
def test_an_impossible_budget_is_refused(
    tiny_task: GraphTask, clock: Clock, run: RunDirectory, budget: float
) -> None:
    events = Events()
    with pytest.raises(SearchError, match="too small for this job; the least is about") as no:
        search(tiny_task, short(budget_seconds=budget), run=run, watcher=events)
    least = re.search(r"least is about (\d+) seconds: raise --budget-seconds", str(no.value))
    assert least is not None
    assert LEAST <= int(least[1]) <= LEAST + 2
    assert "\n" not in str(no.value)
    assert events.seen == []
    assert not run.has(HISTORY)


def test_time_spent_before_counts(tiny_task: GraphTask, clock: Clock) -> None:
    with pytest.raises(
        SearchError, match=f"the least is about {math.ceil(LEAST + 10) + 1} seconds"
    ):
        search(tiny_task, short(budget_seconds=LEAST + 9), started=clock.now - 10)


@pytest.mark.parametrize("budget", [LEAST, LEAST + 9, WHOLE - 0.1, WHOLE])
def test_a_job_ends_within_its_budget(tiny_task: GraphTask, clock: Clock, budget: float) -> None:
    began = clock.now
    result = search(tiny_task, short(recipe=Recipe(epochs=8), mutations=0, budget_seconds=budget))
    assert clock.now - began <= budget
    assert result.search is not None
    done = [len(result.val.values), *(len(c.val.values) for c in result.search.controls)]
    assert result.search.stopped == (None if done == [2, 2] else "budget")
    assert (result.search.stopped is None) == (budget >= WHOLE)
    left_out = [text for text in result.search.warnings if "left out a part" in text]
    assert len(left_out) == (result.search.stopped is not None)
    assert all(("found has" in text) == (done[0] < 2) for text in left_out)
    assert validation(result, tiny_task) == pytest.approx(max(result.val.values), abs=1e-6)


@pytest.mark.parametrize(("budget", "is_told"), [(LEAST, True), (10_000, False)])
def test_a_search_that_is_cut_short_says_so(
    tiny_task: GraphTask, clock: Clock, budget: float, is_told: bool
) -> None:
    strategy = PRESETS["paper"].changed(epochs=100)
    result = search(tiny_task, lean(strategy=strategy, budget_seconds=budget))
    assert result.search is not None
    told = [text for text in result.search.warnings if "of 100 epochs to the search" in text]
    assert len(told) == is_told
    assert not (told and "sharpened" in " ".join(result.search.warnings))


def test_a_search_is_shortened_to_fit_the_budget(tiny_task: GraphTask, clock: Clock) -> None:
    """It has 45 % of what is left between the measuring and the end."""
    strategy = PRESETS["paper"].changed(epochs=100)
    for roomy in (None, 1000):
        assert planned(tiny_task, short(strategy=strategy, budget_seconds=roomy)).epochs == 100
    for left in (40, 20):
        job = short(strategy=strategy, budget_seconds=MEASURING + left + RESERVE)
        plan = planned(tiny_task, job)
        assert 0.45 * left - 2 <= plan.search_seconds <= 0.45 * left
        assert 0.45 * left - 2 <= plan.epochs <= 0.45 * left


def test_a_training_that_the_budget_cut_short_is_not_called_whole(
    tiny_task: GraphTask, clock: Clock
) -> None:
    job = short(recipe=Recipe(epochs=400), seeds=1, controls=(), budget_seconds=40)
    result = search(tiny_task, job)
    assert result.epochs[0] < 100
    assert result.search is not None
    assert result.search.stopped == "budget"


@pytest.mark.parametrize("place", ["search 2x4 epoch 4", "candidate 2 epoch 7"])
def test_time_before_an_interrupt_counts(
    tiny_task: GraphTask, clock: Clock, run: RunDirectory, place: str
) -> None:
    began, job = (
        clock.now,
        short(recipe=Recipe(epochs=8), controls=("gcn", "gat"), budget_seconds=WHOLE),
    )
    with pytest.raises(KeyboardInterrupt):
        search(tiny_task, job, run=run, watcher=Events(place))
    result = search(tiny_task, job, run=run)
    assert clock.now - began <= WHOLE
    assert result.search is not None
    assert result.search.stopped == "budget"


PLACES = [
    "search 2x4 epoch 0",
    "candidate 1 epoch 1",
    "candidate 3 epoch 0",
    "candidate 4 epoch 0",
    "found, seed 0 epoch 1",
    "found, seed 1 epoch 0",
    "gcn, seed 1 epoch 1",
]


@pytest.mark.parametrize("place", PLACES)
def test_an_interrupted_job_keeps_the_best_network_and_comes_to_the_same_end(
    whole: RunDirectory, run: RunDirectory, tiny_task: GraphTask, place: str
) -> None:
    with pytest.raises(KeyboardInterrupt):
        search(tiny_task, short(), run=run, watcher=Events(place))
    kept = load_run(run.path)
    assert kept.search is not None
    assert kept.search.stopped == "interrupt"
    assert kept.architecture == Architecture.load(run.path / ARCHITECTURE)
    assert validation(kept, tiny_task) == pytest.approx(max(kept.val.values), abs=1e-6)

    events = Events()
    search(tiny_task, short(), run=run, watcher=events)
    assert outcome(run) == outcome(whole)
    again = {event.rpartition(" ")[0] for event in events.seen}
    assert place.rpartition(" ")[0] in again
    for other in PLACES[: PLACES.index(place)]:
        name = other.rpartition(" ")[0]
        assert name == place.rpartition(" ")[0] or name not in again, "done twice"


@pytest.mark.parametrize("place", ["search 2x4 epoch 5", "search 2x4 epoch 0"])
def test_an_interrupted_search_goes_on_from_its_checkpoint(
    undisturbed: Whole, run: RunDirectory, tiny_task: GraphTask, often: None, place: str
) -> None:
    with pytest.raises(KeyboardInterrupt):
        search(tiny_task, lean(), run=run, watcher=Events(place))
    events = Events()
    search(tiny_task, lean(), run=run, watcher=events)
    assert events.seen[0] == place
    assert outcome(run) == outcome(undisturbed(lean()))


def test_an_interrupted_grid_comes_to_the_same_end(
    new_run: Callable[[], RunDirectory], tiny_task: GraphTask, often: None
) -> None:
    job, expected, run = lean(hidden=(2, 4)), new_run(), new_run()
    search(tiny_task, job, run=expected)
    for place in ("search 2x2 epoch 3", "search 2x4 epoch 4"):
        with pytest.raises(KeyboardInterrupt):
            search(tiny_task, job, run=run, watcher=Events(place))
    search(tiny_task, job, run=run)
    assert outcome(run) == outcome(expected)


def test_before_the_first_epoch_there_is_nothing_to_keep(
    undisturbed: Whole, run: RunDirectory, tiny_task: GraphTask
) -> None:
    with pytest.raises(KeyboardInterrupt):
        search(tiny_task, lean(), run=run, watcher=Events("planned"))
    assert not run.has(RESULT)
    search(tiny_task, lean(), run=run)
    assert outcome(run) == outcome(undisturbed(lean()))


def test_an_interrupted_job_has_the_best_candidate_so_far(
    run: RunDirectory, tiny_task: GraphTask
) -> None:
    with pytest.raises(KeyboardInterrupt):
        search(tiny_task, short(), run=run, watcher=Events("candidate 5 epoch 1"))
    result = load_run(run.path)
    assert result.search is not None
    assert len(result.search.trials) == 4
    best = max(result.search.trials, key=lambda trial: trial.val)
    assert result.architecture == best.architecture
    assert (result.val.values, result.seeds) == ((best.val,), (best.seed,))


def test_an_interrupt_while_weights_are_written_leaves_a_result_that_fits_its_weights(
    new_run: Callable[[], RunDirectory], tiny_task: GraphTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, count, last = RunDirectory.write_weights, 0, 0

    def stop(self: RunDirectory, name: str | Path, weights: Any) -> None:
        nonlocal count
        count += name != WEIGHTS
        if name != WEIGHTS and count == last:
            raise KeyboardInterrupt
        write(self, name, weights)

    monkeypatch.setattr(RunDirectory, "write_weights", stop)
    job = short(candidates=6, seeds=1, controls=())
    search(tiny_task, job, run=new_run())
    assert count >= 3, "a first candidate, a better one, and the final training"
    for number in range(1, count + 1):
        run, count, last = new_run(), 0, number
        with pytest.raises(KeyboardInterrupt):
            search(tiny_task, job, run=run)
        result = load_run(run.path)
        assert validation(result, tiny_task) == pytest.approx(result.val.mean, abs=1e-6)


def test_a_job_killed_after_its_weights_were_written_may_be_interrupted(
    run: RunDirectory, tiny_task: GraphTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The weights are then those of a candidate that is not recorded yet."""
    write, job = RunDirectory.write_json, short(candidates=6, seeds=1, controls=())

    def die(self: RunDirectory, name: str | Path, value: Any) -> None:
        if isinstance(value, Progress) and len(value.trials) > 1:
            *others, last = [trial.val for trial in value.trials]
            if last > max(others):
                raise SystemError("killed")
        write(self, name, value)

    with monkeypatch.context() as patch:
        patch.setattr(RunDirectory, "write_json", die)
        with pytest.raises(SystemError, match="killed"):
            search(tiny_task, job, run=run)
    number = len(run.read_record(PIPELINE, Progress).trials) + 1
    with pytest.raises(KeyboardInterrupt):
        search(tiny_task, job, run=run, watcher=Events(f"candidate {number} epoch 0"))
    result = load_run(run.path)
    assert validation(result, tiny_task) == pytest.approx(result.val.mean, abs=1e-6)


@pytest.mark.parametrize("number", [1, 3, 7])
def test_a_job_that_dies_between_two_files_comes_to_the_same_end(
    whole: RunDirectory,
    run: RunDirectory,
    tiny_task: GraphTask,
    monkeypatch: pytest.MonkeyPatch,
    number: int,
) -> None:
    write, left = RunDirectory.write_json, number + 1

    def fail_once(self: RunDirectory, name: str | Path, value: Any) -> None:
        nonlocal left
        left -= name == PIPELINE
        if name == PIPELINE and left == 0:
            raise RunError("No space left.")
        write(self, name, value)

    monkeypatch.setattr(RunDirectory, "write_json", fail_once)
    with pytest.raises(RunError, match="No space left"):
        search(tiny_task, short(), run=run)
    search(tiny_task, short(), run=run)
    assert outcome(run) == outcome(whole)


@pytest.mark.parametrize("place", ["search 2x4 epoch 4", "found, seed 0 epoch 0"])
def test_half_a_line_of_history_is_forgotten(
    undisturbed: Whole, run: RunDirectory, tiny_task: GraphTask, often: None, place: str
) -> None:
    with pytest.raises(KeyboardInterrupt):
        search(tiny_task, lean(), run=run, watcher=Events(place))
    with (run.path / HISTORY).open("ab") as file:
        file.write(b'{"phase": "sea')
    search(tiny_task, lean(), run=run)
    assert outcome(run) == outcome(undisturbed(lean()))


def test_a_finished_job_is_not_done_again(tiny_task: GraphTask, run: RunDirectory) -> None:
    search(tiny_task, short(), run=run)
    before, events = files(run), Events()
    result = search(tiny_task, short(), run=run, watcher=events)
    assert events.seen == []
    assert files(run) == before
    assert result.model_dump() == load_run(run.path).model_dump()


def test_a_finished_search_leaves_no_checkpoint_of_it(
    run: RunDirectory, tiny_task: GraphTask, often: None
) -> None:
    events = Events("candidate 1 epoch 0")
    with pytest.raises(KeyboardInterrupt):
        search(tiny_task, lean(), run=run, watcher=events)
    assert not run.has(SEARCH_STATE)
    assert not run.has(PREVIOUS)


def test_a_run_on_another_split_is_not_gone_on_with(
    run: RunDirectory, tiny_task: GraphTask
) -> None:
    with pytest.raises(KeyboardInterrupt):
        search(tiny_task, lean(), run=run, watcher=Events("candidate 1 epoch 0"))
    before = files(run)
    with pytest.raises(RunError, match="begun on another split: its data have changed"):
        search(tiny_task.with_split("random", 0), lean(), run=run)
    assert files(run) == before


def test_a_run_on_data_that_changed_is_not_gone_on_with(
    run: RunDirectory, tiny_task: GraphTask, changed_task: GraphTask
) -> None:
    with pytest.raises(KeyboardInterrupt):
        search(tiny_task, lean(), run=run, watcher=Events("candidate 1 epoch 0"))
    before = files(run)
    with pytest.raises(RunError, match="begun with other features, edges or labels: its data"):
        search(changed_task, lean(), run=run)
    assert files(run) == before


def damage(path: Path, how: str) -> None:
    content = path.read_bytes()
    path.write_bytes({"cut": content[:-7], "empty": b"", "other": b"\0" * len(content)}[how])


LATEST, BOTH = [SEARCH_STATE], [SEARCH_STATE, PREVIOUS]


@pytest.mark.parametrize(
    ("damaged", "how", "first"),
    [
        (LATEST, "cut", "search 2x4 epoch 3"),
        (LATEST, "other", "search 2x4 epoch 3"),
        (BOTH, "cut", "search 2x4 epoch 0"),
        (BOTH, "empty", "search 2x4 epoch 0"),
    ],
)
def test_a_damaged_checkpoint_is_reported_and_an_earlier_one_used(
    undisturbed: Whole,
    run: RunDirectory,
    tiny_task: GraphTask,
    often: None,
    damaged: list[Path],
    how: str,
    first: str,
) -> None:
    with pytest.raises(KeyboardInterrupt):
        search(tiny_task, lean(), run=run, watcher=Events("search 2x4 epoch 4"))
    for name in damaged:
        damage(run.path / name, how)
    events = Events()
    search(tiny_task, lean(), run=run, watcher=events)
    assert len(events.notes) == len(damaged)
    for name, note in zip(damaged, events.notes, strict=True):
        assert note.startswith(f"The checkpoint '{run.path / name}' is damaged and is not used")
        assert "\n" not in note
    assert events.seen[0] == first
    assert outcome(run) == outcome(undisturbed(lean()))


def full(name: Path, monkeypatch: pytest.MonkeyPatch, *, after: int = 0) -> None:
    """The disk has no room for one file, once it was written that many times."""
    write, count = RunDirectory._write, 0

    def refuse(self: RunDirectory, other: str | Path, content: bytes) -> None:
        nonlocal count
        count += other == name
        if other == name and count > after:
            error = OSError(errno.ENOSPC, "No space left on device")
            raise self._cannot_write(name, error)
        write(self, other, content)

    monkeypatch.setattr(RunDirectory, "_write", refuse)


def test_a_full_disk_at_a_checkpoint_is_reported_and_the_search_goes_on(
    undisturbed: Whole,
    run: RunDirectory,
    tiny_task: GraphTask,
    often: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    full(SEARCH_STATE, monkeypatch)
    events = Events()
    search(tiny_task, lean(), run=run, watcher=events)
    assert outcome(run) == outcome(undisturbed(lean()))
    assert events.notes
    for note in events.notes:
        assert "search.safetensors' cannot be written (No space left on device)" in note
        assert note.endswith("The search goes on; its checkpoint is an earlier one.")


def test_after_a_full_disk_the_checkpoint_before_it_is_used(
    undisturbed: Whole,
    run: RunDirectory,
    tiny_task: GraphTask,
    often: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as patch:
        full(SEARCH_STATE, patch, after=2)
        with pytest.raises(KeyboardInterrupt):
            search(tiny_task, lean(), run=run, watcher=Events("search 2x4 epoch 5"))
    events = Events()
    search(tiny_task, lean(), run=run, watcher=events)
    assert events.seen[0] == "search 2x4 epoch 2"
    assert outcome(run) == outcome(undisturbed(lean()))


def test_a_full_disk_for_what_is_finished_ends_the_job_with_a_sentence(
    run: RunDirectory, tiny_task: GraphTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    full(PIPELINE, monkeypatch, after=2)
    with pytest.raises(RunError, match=r"pipeline\.json' cannot be written \(No space left on"):
        search(tiny_task, short(), run=run)


@pytest.mark.parametrize(("cost", "expected"), [(0.0, 6), (0.04, 3), (10.0, 1)])
def test_checkpoints_take_a_fiftieth_of_the_time(
    run: RunDirectory,
    tiny_task: GraphTask,
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
    cost: float,
    expected: int,
) -> None:
    write, count = RunDirectory.write_state, 0

    def slow(self: RunDirectory, *arguments: Any) -> None:
        nonlocal count
        count += 1
        clock.now += cost
        write(self, *arguments)

    monkeypatch.setattr(RunDirectory, "write_state", slow)
    search(tiny_task, lean(), run=run)
    assert count == expected


def pretend(monkeypatch: pytest.MonkeyPatch, value: Callable[[Architecture, int], float]) -> None:
    """Let trainings come to a validation that the architecture and the seed decide."""

    def trained(architecture: Architecture, *others: Any, **rest: Any) -> tuple[Network, Fit]:
        network, outcome = train_once(architecture, *others, **rest)
        return network, replace(outcome, val=value(architecture, rest["seed"]))

    monkeypatch.setattr(pipeline, "train_once", trained)


def trials(*figures: tuple[float | None, float]) -> list[Trial]:
    return [
        Trial(
            architecture=Architecture(blocks=(BlockSpec(),)),
            hidden=4,
            seed=7,
            shared_val=shared,
            val=val,
            epoch=0,
            epochs=1,
            rungs=(),
            seconds=0.0,
        )
        for shared, val in figures
    ]


@pytest.mark.parametrize(
    ("figures", "expected"),
    [
        ([(0.1, 0.2), (0.2, 0.3), (0.3, 0.4), (0.4, 0.5), (0.5, 0.9)], 1.0),
        ([(0.1, 0.9), (0.2, 0.5), (0.3, 0.4), (0.4, 0.3), (0.5, 0.2)], -1.0),
        # Places differ by 1, 1, 0, 0, 0: 1 - 6 * 2 / (5 * 24).
        ([(0.1, 0.2), (0.2, 0.1), (0.3, 0.3), (0.4, 0.4), (0.5, 0.5)], 0.9),
        ([(0.1, 0.9), (0.2, 0.5), (0.3, 0.4), (0.4, 0.3)], None),
        ([(0.1, 0.9), (0.2, 0.5), (0.3, 0.4), (0.4, 0.3), (None, 0.2)], None),
        ([(0.1, 0.2), (None, 0.0), (0.2, 0.3), (0.3, 0.4), (0.4, 0.5), (0.5, 0.9)], 1.0),
        ([(0.5, 0.1), (0.5, 0.2), (0.5, 0.3), (0.5, 0.4), (0.5, 0.5)], None),
        ([(0.1, 0.5), (0.2, 0.5), (0.3, 0.5), (0.4, 0.5), (0.5, 0.5)], None),
        ([], None),
    ],
)
def test_agreement_is_the_correlation_of_ranks(
    figures: list[tuple[float | None, float]], expected: float | None
) -> None:
    assert pipeline._rank_correlation(trials(*figures)) == expected


def test_second_trainings_do_not_count_in_the_agreement() -> None:
    first = trials((0.1, 0.2), (0.2, 0.3), (0.3, 0.4), (0.4, 0.5), (0.5, 0.9))
    again = [trial.model_copy(update={"seed": 8, "val": 0.0}) for trial in first[3:]]
    assert pipeline._rank_correlation([*first, *again]) == 1.0


@pytest.mark.parametrize("sign", [1, -1])
def test_a_ranking_that_training_contradicts_is_warned_of(
    tiny_task: GraphTask, monkeypatch: pytest.MonkeyPatch, sign: int
) -> None:
    rated: dict[Architecture, float] = {}
    refine = PdnasSearch.refine

    def spy(self: PdnasSearch, *arguments: Any) -> list[Candidate]:
        found = refine(self, *arguments)
        rated.update({entry.architecture: entry.val for entry in found})
        return found

    monkeypatch.setattr(PdnasSearch, "refine", spy)
    pretend(monkeypatch, lambda architecture, _: 0.5 + 0.4 * sign * rated.get(architecture, 0.0))
    result = search(tiny_task, short(candidates=6, seeds=1, controls=()))
    assert result.search is not None
    assert result.search.rank_correlation == sign
    said = [text for text in result.search.warnings if "rank correlation -1.00" in text]
    assert len(said) == (sign < 0)


@pytest.mark.parametrize("better", [True, False])
def test_a_control_that_is_better_is_warned_of(
    tiny_task: GraphTask, monkeypatch: pytest.MonkeyPatch, better: bool
) -> None:
    gcn = BASELINES["gcn"].architecture
    pretend(monkeypatch, lambda architecture, _: 0.75 if (architecture == gcn) == better else 0.5)
    result = search(tiny_task, short())
    assert result.search is not None
    said = [text for text in result.search.warnings if "The control 'gcn' has a better" in text]
    assert len(said) == better


def test_what_a_search_says_of_itself_is_passed_on(
    tiny_task: GraphTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PdnasSearch, "warnings", lambda self: ["It rained."])
    result = search(tiny_task, lean())
    assert result.search is not None
    assert "It rained." in result.search.warnings


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"blocks": ()}, r"--blocks has the values \[\]; give at least one"),
        ({"blocks": (2, 3, 2)}, r"--blocks has the values \[2, 3, 2\]; .* each of them once"),
        ({"hidden": ()}, r"--hidden has the values \[\]"),
        ({"hidden": (4, 4)}, r"--hidden has the values \[4, 4\]"),
        ({"blocks": (2, 0)}, "The number of blocks is 0; give 1 to 100"),
        ({"blocks": (101,)}, "The number of blocks is 101; give 1 to 100"),
        ({"hidden": (4, 0)}, "The hidden size is 0; give a whole number"),
        ({"hidden": (-4,)}, "The hidden size is -4; give a whole number"),
        ({"seeds": 0}, "--seeds is 0; give 1 to 10000"),
        ({"seeds": 10_001}, "--seeds is 10001; give 1 to 10000"),
        ({"candidates": 0}, "--candidates is 0; give 1 to 10000"),
        ({"candidates": -1}, "--candidates is -1; give 1 to 10000"),
        ({"mutations": -1}, "--mutations is -1; give 0 to 10000"),
        ({"mutations": 10_001}, "--mutations is 10001; give 0 to 10000"),
        ({"repeats": 0}, "--repeats is 0; give 1 to 10000"),
        ({"repeats": 10_001}, "--repeats is 10001; give 1 to 10000"),
        (
            {"incumbents": (Architecture(blocks=(BlockSpec(),)),)},
            r"An incumbent has 1 block\(s\), but --blocks is \[2\]; add its depth",
        ),
        (
            {"incumbents": (BASELINES["gcn"].architecture,)},
            "An incumbent is not a member of the space 'paper'; search in another --space",
        ),
        ({"tune": -1}, "--tune is -1; give 0 to 10000"),
        ({"tune": 10_001}, "--tune is 10001; give 0 to 10000"),
        ({"seed": -1}, "The seed -1 is out of range"),
        ({"seed": 2**62}, f"The seed {2**62} is out of range; give 0 to {2**62 - 1}"),
        ({"budget_seconds": 0.0}, "The budget is 0.0 seconds; give a number above 0"),
        ({"budget_seconds": -1.0}, "The budget is -1.0 seconds"),
        ({"budget_seconds": math.nan}, "The budget is nan seconds"),
        ({"budget_seconds": math.inf}, "The budget is inf seconds"),
        ({"max_parameters": 0}, "has at most 0 parameters on tiny; the smallest has"),
    ],
)
def test_a_job_without_sense_is_refused_before_anything_is_computed(
    tiny_task: GraphTask, changes: dict[str, Any], expected: str
) -> None:
    events = Events()
    with pytest.raises(PdnasError, match=expected) as caught:
        search(tiny_task, short(**changes), watcher=events)
    assert "\n" not in str(caught.value)
    assert events.seen == []


def test_an_unknown_control_is_answered_with_the_closest(tiny_task: GraphTask) -> None:
    with pytest.raises(UnknownNameError, match=r"'randm'; known are: random, .*mean 'random'\?"):
        search(tiny_task, short(controls=("randm",)))


@pytest.mark.parametrize("epochs", [1, 3])
def test_a_search_may_have_few_epochs(
    tiny_task: GraphTask, monkeypatch: pytest.MonkeyPatch, epochs: int
) -> None:
    monkeypatch.setattr(pipeline, "TIMED", TIMED)
    result = search(tiny_task, lean(strategy=SHORT["strategy"].changed(epochs=epochs)))
    assert result.search is not None
    assert result.search.epochs == epochs


def test_a_device_that_is_not_there_is_refused(tiny_task: GraphTask) -> None:
    with pytest.raises(PdnasError, match="cuda:99"):
        search(tiny_task, short(), device="cuda:99")


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_does_the_whole_job(tiny_task: GraphTask, preset: str) -> None:
    strategy = PRESETS[preset].changed(epochs=6, pool=3, adapt_epochs=1)
    result = search(tiny_task, lean(strategy=strategy))
    assert result.architecture in SPACES["paper"]
    assert result.search is not None
    assert result.search.settings == strategy.model_dump()


# Strategies that train what they try.

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


@pytest.mark.parametrize("name", RIVALS)
def test_a_strategy_that_trains_what_it_tries_does_the_whole_job(
    tiny_task: GraphTask, name: str
) -> None:
    counter = Counter()
    result = search(
        tiny_task,
        short(strategy=RIVALS[name], recipe=Recipe(epochs=4), candidates=2, designs="off"),
        watcher=counter,
    )
    assert result.strategy == name
    assert result.search is not None
    assert counter.alone == 5
    assert counter.trials == len(result.search.trials) > 0
    tried = {trial.architecture for trial in result.search.trials}
    assert result.architecture in tried


@pytest.mark.parametrize(("budget", "searched"), [(4, 3), (6, 4), (100, 5)])
def test_the_budget_of_trials_is_kept(tiny_task: GraphTask, budget: int, searched: int) -> None:
    """Three quarters of it are the search's, at most."""
    counter = Counter()
    search(
        tiny_task,
        short(
            strategy=RIVALS["random"],
            recipe=Recipe(epochs=2),
            candidates=6,
            repeats=3,
            budget_trials=budget,
        ),
        watcher=counter,
    )
    assert counter.alone == searched
    assert counter.alone + counter.trials <= budget
    assert counter.trials > 0


def test_a_budget_of_trials_is_kept_over_a_grid_or_refused(tiny_task: GraphTask) -> None:
    grid = short(
        strategy=RIVALS["random"],
        recipe=Recipe(epochs=2),
        blocks=(1, 2),
        hidden=(4, 8),
        controls=(),
    )
    with pytest.raises(SearchError, match=r"too few for 4 search\(es\).* give 5 at least"):
        search(tiny_task, grid.model_copy(update={"budget_trials": 4}))
    for budget in (5, 6, 9):
        counter = Counter()
        search(tiny_task, grid.model_copy(update={"budget_trials": budget}), watcher=counter)
        assert counter.alone + counter.trials <= budget
        assert counter.trials > 0


def test_of_shared_weights_the_budget_of_trials_limits_the_candidates_alone(
    tiny_task: GraphTask,
) -> None:
    counter = Counter()
    result = search(
        tiny_task,
        short(recipe=Recipe(epochs=2), candidates=6, budget_trials=2),
        watcher=counter,
    )
    assert result.search is not None
    assert (counter.alone, counter.trials) == (0, 2)
    assert result.search.epochs == short().strategy.epochs


def test_a_search_of_trainings_is_estimated_by_its_trainings(
    tiny_task: GraphTask, clock: Clock
) -> None:
    events = Events()
    search(
        tiny_task,
        short(strategy=RIVALS["random"], recipe=Recipe(epochs=4), seeds=1),
        watcher=events,
    )
    assert events.plans[0].epoch_seconds == 0.5
    assert events.plans[0].search_seconds == 5 * 3 * 0.5


def test_a_training_within_the_search_ends_with_the_budget(
    tiny_task: GraphTask, clock: Clock
) -> None:
    """Alone the first training would take ten times as long as there is."""
    long = RIVALS["random"].changed(train_epochs=2000)
    result = search(
        tiny_task,
        short(strategy=long, recipe=Recipe(epochs=2000, patience=2000), budget_seconds=100),
    )
    assert result.search is not None
    assert result.search.stopped == "budget"
    assert clock.now - 1000.0 < 110


def test_a_search_of_trainings_is_ended_by_the_clock_alone(
    tiny_task: GraphTask, clock: Clock
) -> None:
    """A whole training of it would take 100 seconds; patience, or the clock, ends it sooner."""
    strategy = STRATEGIES["random"].model_validate({"name": "random", "epochs": 50})
    job = lean(strategy=strategy, recipe=Recipe(epochs=400, patience=5), budget_seconds=60)
    assert planned(tiny_task, job).epochs == 50
    began = clock.now
    result = search(tiny_task, job)
    assert clock.now - began <= 60
    assert result.search is not None
    assert 1 < result.search.epochs < 50


def test_what_a_step_sees_is_decided_once_and_told(
    run: RunDirectory, tiny_task: GraphTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Noting(Watcher):
        def __init__(self) -> None:
            self.sentences: list[str] = []

        def noted(self, sentence: str) -> None:
            self.sentences.append(sentence)

    monkeypatch.setattr(memory, "free_bytes", lambda _: 10_000)
    monkeypatch.setattr(memory, "has_pymetis", lambda: True)
    first, again, insisting = Noting(), Noting(), Noting()
    result = search(tiny_task, short(), run=run, watcher=first)
    assert [sentence[:30] for sentence in first.sentences] == ["A step on the whole graph woul"]
    assert result.recipe["batching"] == "clusters"
    assert 1 <= result.recipe["batch_nodes"] < 20
    monkeypatch.setattr(memory, "free_bytes", lambda _: 2**60)
    resumed = search(tiny_task, short(), run=run, watcher=again)
    assert (resumed.recipe, again.sentences) == (result.recipe, [])
    monkeypatch.setattr(memory, "free_bytes", lambda _: 0)
    full = short(recipe=short().recipe.changed(batching="full"))
    assert search(tiny_task, full, watcher=insisting).recipe["batching"] is None
    assert insisting.sentences == []


def epochs_of(run: RunDirectory) -> list[int]:
    """The epochs of its searches that the history of a run tells of."""
    lines = map(json.loads, (run.path / HISTORY).read_text().splitlines())
    return [line["epoch"] for line in lines if line["phase"] == "search"]


def test_a_callback_ends_the_search_and_the_job_goes_on(
    run: RunDirectory, tiny_task: GraphTask
) -> None:
    asked: list[int] = []

    def enough(epoch: SearchEpoch) -> bool:
        asked.append(epoch.epoch)
        return epoch.epoch == 2

    result = search(tiny_task, short(), run=run, watcher=Callback(enough))
    assert asked == epochs_of(run) == [0, 1, 2]
    assert result.search is not None
    assert (result.search.epochs, result.search.stopped) == (3, None)
    assert "The search was ended by a callback after epoch 3 of 6." in result.search.warnings
    assert len(result.test.values) == 2
    assert [control.name for control in result.search.controls] == ["gcn"]


def test_a_callback_ends_every_search_of_a_grid_on_its_own(tiny_task: GraphTask) -> None:
    asked: list[int] = []

    def enough(epoch: SearchEpoch) -> bool:
        asked.append(epoch.epoch)
        return len(asked) == 2

    result = search(tiny_task, lean(hidden=(2, 4)), watcher=Callback(enough))
    assert asked == [0, 1, 0, 1, 2, 3, 4, 5]
    assert result.search is not None
    told = [warning for warning in result.search.warnings if "callback" in warning]
    assert told == [
        "With 2 block(s) and hidden size 2: The search was ended by a callback after epoch 2 of 6."
    ]


def test_a_run_that_dies_after_its_callback_does_not_search_on(
    new_run: Callable[[], RunDirectory], tiny_task: GraphTask
) -> None:
    class Enough(Watcher):
        def is_enough(self, search: Search, epoch: SearchEpoch) -> bool:
            return epoch.epoch == 3

    class Dies(Watcher):
        def rating(self, search: Search) -> None:
            raise RuntimeError("the process died")

    whole, cut = new_run(), new_run()
    expected = search(tiny_task, lean(), run=whole, watcher=Enough())
    with pytest.raises(RuntimeError, match="died"):
        search(tiny_task, lean(), run=cut, watcher=Watchers(Enough(), Dies()))
    resumed = search(tiny_task, lean(), run=cut)
    assert epochs_of(cut) == [0, 1, 2, 3]
    assert timeless(resumed.model_dump(mode="json")) == timeless(expected.model_dump(mode="json"))


def test_watchers_are_all_told_and_any_of_them_can_end_a_search(tiny_task: GraphTask) -> None:
    class Finish(Events):
        def ended(self, result: Result) -> None:
            self._add(f"finished on {result.task}")

    first, last = Finish(), Finish()
    watcher = Watchers(
        Callback(lambda epoch: epoch.epoch == 1), first, last, Callback(lambda _: None)
    )
    search(tiny_task, lean(), watcher=watcher)
    assert first.seen == last.seen
    assert [event for event in first.seen if event.startswith("search")] == [
        "search 2x4 epoch 0",
        "search 2x4 epoch 1",
    ]
    assert first.seen[0] == "planned"
    assert first.seen[-1] == "finished on tiny"
