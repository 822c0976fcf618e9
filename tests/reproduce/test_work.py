"""The works of tables: what is chosen, by what, and when the test part is read."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from pdnas import pipeline
from pdnas.architecture import Architecture, BlockSpec
from pdnas.errors import DivergedError
from pdnas.job import Job
from pdnas.models.baselines import BASELINES, Baseline
from pdnas.pipeline import Pipeline
from pdnas.reproduce import work
from pdnas.reproduce.work import GivenWork, Leg, Legs, SearchedWork, TableWork, tuned
from pdnas.runs import Trial
from pdnas.tasks import GraphTask
from pdnas.training import Recipe
from pdnas.training.fit import read_test
from pdnas.training.seeds import train_once
from pdnas.tuning import inline
from pdnas.tuning import work as trainings

MINE = Architecture(blocks=(BlockSpec(attention="cos", activation="tanh"), BlockSpec()))


class Clock:
    """A clock that stands still but for the work that the tests say takes time."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """To choose takes five seconds; nothing else takes any."""
    clock, choose = Clock(), Pipeline.choose

    def slow(self: Pipeline) -> Trial:
        clock.now += 5.0
        return choose(self)

    monkeypatch.setattr(Pipeline, "choose", slow)
    monkeypatch.setattr(work, "time", clock)
    monkeypatch.setattr(pipeline, "TIMED", 1)
    return clock


def done(made: TableWork, task: GraphTask) -> Legs:
    return Legs.model_validate(made.do(task, lambda _epoch, _val: False))


def given(**changes: Any) -> GivenWork:
    settings = {"task": "tiny", "row": "mine", "seeds": 2, "hidden": 4, "architecture": MINE}
    return GivenWork.model_validate({**settings, "recipe": Recipe(epochs=2), **changes})


@pytest.fixture
def searched(tiny_job: Job) -> Callable[..., SearchedWork]:
    def make(**changes: Any) -> SearchedWork:
        settings = {"task": "tiny", "row": "found", "seeds": 2, "job": tiny_job, "trials": 0}
        return SearchedWork.model_validate({**settings, **changes})

    return make


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What happened: trainings to choose, by their part, final ones, and looks at the test."""
    seen: list[str] = []

    def spied(name: str) -> Callable[..., Any]:
        def train(*arguments: Any, **settings: Any) -> Any:
            final = settings["seed"] < 2**32
            seen.append("final" if final and name == "trains" else name)
            return train_once(*arguments, **settings)

        return train

    def read(*arguments: Any) -> float:
        seen.append("reads test")
        return read_test(*arguments)

    monkeypatch.setattr(pipeline, "train_once", spied("chooses"))
    monkeypatch.setattr(work, "train_once", spied("random"))
    monkeypatch.setattr(trainings, "train_once", spied("trains"))
    monkeypatch.setattr(trainings, "read_test", read)
    monkeypatch.setattr(pipeline, "read_test", read)
    return seen


def test_a_given_network_is_trained_with_final_seeds_and_tested(tiny_task: GraphTask) -> None:
    legs = done(given(seed=3), tiny_task)
    (leg,) = legs.legs
    assert (legs.task, legs.split, legs.split_seed, legs.seed) == ("tiny", "own", None, 3)
    assert legs.split_sha256 == tiny_task.split.sha256
    assert (leg.row, leg.architecture, leg.hidden, leg.recipe) == (
        "mine",
        MINE,
        4,
        Recipe(epochs=2),
    )
    assert leg.parameters == MINE.parameters(tiny_task, 4)
    assert leg.seeds == (4000, 4001)
    for place, seed in enumerate(leg.seeds):
        network, fit = train_once(MINE, tiny_task, hidden=4, recipe=leg.recipe, seed=seed)
        assert (leg.val[place], leg.test[place]) == (fit.val, read_test(network, tiny_task))
    assert (leg.tried, leg.choice_val, leg.tune_seconds) == (0, None, 0.0)
    assert leg.train_seconds > 0


def test_works_are_on_their_split(tiny_task: GraphTask) -> None:
    task = tiny_task.with_split("random", 0)
    legs = [done(given(split_seed=seed), task) for seed in (0, 5)]
    assert [entry.split_seed for entry in legs] == [0, 5]
    expected = [task.with_split("random", seed).split.sha256 for seed in (0, 5)]
    assert [entry.split_sha256 for entry in legs] == expected


def test_the_tuned_recipe_is_the_one_that_is_trained(
    tiny_task: GraphTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[int, int, Recipe]] = []
    found = Recipe(epochs=3, lr=0.5)

    class Tuner:
        def __init__(self, trials: int) -> None:
            self._trials = trials

        def __call__(self, *_: object, base: Recipe, seed: int, **__: object) -> Recipe:
            asked.append((self._trials, seed, base))
            return found

    monkeypatch.setattr(work, "RecipeTuner", Tuner)
    (leg,) = done(given(trials=7, seed=2), tiny_task).legs
    (same,) = done(given(recipe=found, seed=2), tiny_task).legs
    assert asked == [(7, 2 + 2**32, Recipe(epochs=2))]
    assert (leg.recipe, leg.val, leg.test) == (found, same.val, same.test)


def test_without_trials_a_recipe_stays_as_it_is(tiny_task: GraphTask) -> None:
    assert tuned(MINE, tiny_task, 4, Recipe(lr=0.5), 0, 0) == (Recipe(lr=0.5), 0.0)


def test_a_tuned_recipe_is_one_of_those_tried(tiny_task: GraphTask) -> None:
    recipe, seconds = tuned(MINE, tiny_task, 4, Recipe(epochs=2), 1, 0)
    assert recipe == Recipe(epochs=2), "the first that is tried is the one that there is"
    assert seconds > 0


def test_a_search_comes_with_random_search_and_controls(
    searched: Callable[..., SearchedWork],
    tiny_task: GraphTask,
    tiny_job: Job,
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(work, "_validation", tick(clock, 5.0, lambda: 0.5))
    legs = done(searched(seed=1), tiny_task)
    found, random, gcn, gat = legs.legs
    assert [leg.row for leg in legs.legs] == [
        "found",
        "random, same cost as found",
        "gcn, recipe of found",
        "gat, recipe of found",
    ]
    assert {leg.seeds for leg in legs.legs} == {(2000, 2001)}
    assert found.architecture in tiny_job.space
    assert random.architecture in tiny_job.space
    assert gcn.architecture == BASELINES["gcn"].architecture
    assert gat.architecture == BASELINES["gat"].architecture
    assert {(leg.hidden, leg.recipe) for leg in legs.legs} == {(4, tiny_job.recipe)}
    assert (found.search_seconds, random.search_seconds) == (5.0, 5.0)
    assert (gcn.search_seconds, gcn.tried) == (0.0, 0)
    assert (random.tried, random.choice_val) == (1, 0.5)


def test_nothing_searched_is_larger_than_the_rival(
    searched: Callable[..., SearchedWork],
    tiny_task: GraphTask,
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(work, "_validation", tick(clock, 5.0, lambda: 0.5))
    rival = Baseline(BASELINES["gcn"].architecture, 8)
    limit = rival.architecture.parameters(tiny_task, 8)
    sizes: dict[Baseline | None, list[int]] = {None: [], rival: []}
    for seed in range(3):
        for one, parameters in sizes.items():
            legs = done(searched(seed=seed, controls=("random",), rival=one), tiny_task).legs
            parameters += [leg.parameters for leg in legs]
    assert max(sizes[None]) > limit >= max(sizes[rival])


def test_without_controls_the_network_found_is_alone(
    searched: Callable[..., SearchedWork], tiny_task: GraphTask, clock: Clock
) -> None:
    (found,) = done(searched(controls=()), tiny_task).legs
    assert (found.row, found.search_seconds) == ("found", 5.0)


def tick(clock: Clock, seconds: float, value: Callable[[], float]) -> Callable[..., float]:
    """A validation that takes some seconds."""

    def validate(*_: object) -> float:
        clock.now += seconds
        return value()

    return validate


@pytest.mark.parametrize(
    ("seconds", "values", "tried", "best"),
    [
        (1.0, [0.1, 0.3, 0.2, 0.3, 0.1], 5, 1),  # the fifth ends in time
        (2.0, [0.1, 0.2, 0.9], 3, 1),  # the third is the best, but ends too late
        (9.0, [0.4], 1, 0),  # one there must be
    ],
)
def test_random_search_takes_as_long_as_the_search(
    searched: Callable[..., SearchedWork],
    tiny_task: GraphTask,
    tiny_job: Job,
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
    seconds: float,
    values: list[float],
    tried: int,
    best: int,
) -> None:
    left, seen = iter(values), list[Architecture]()

    def validate(architecture: Architecture, *_: object) -> float:
        seen.append(architecture)
        clock.now += seconds
        return next(left)

    monkeypatch.setattr(work, "_validation", validate)
    random = done(searched(controls=("random",)), tiny_task).legs[1]
    assert (random.tried, len(seen)) == (tried, tried)
    assert random.architecture == seen[best]
    assert random.choice_val == values[best]
    assert random.search_seconds == seconds * tried


def test_random_search_takes_turns_among_the_shapes(
    searched: Callable[..., SearchedWork],
    tiny_task: GraphTask,
    tiny_job: Job,
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shapes: list[tuple[int, int]] = []

    def validate(architecture: Architecture, _: GraphTask, hidden: int, __: Job) -> float:
        shapes.append((architecture.num_blocks, hidden))
        clock.now += 1.0
        return 0.5

    monkeypatch.setattr(work, "_validation", validate)
    job = tiny_job.model_copy(update={"blocks": (1, 2), "hidden": (2, 4)})
    done(searched(job=job, controls=("random",)), tiny_task)
    assert shapes == [(1, 2), (1, 4), (2, 2), (2, 4), (1, 2)]


def test_a_random_network_that_diverges_counts_nothing(
    tiny_task: GraphTask, tiny_job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    def diverge(*_: object, **__: object) -> None:
        raise DivergedError("The loss is no longer finite.")

    val = work._validation(MINE, tiny_task, 4, tiny_job)
    _, fit = train_once(MINE, tiny_task, hidden=4, recipe=tiny_job.recipe, seed=tiny_job.trial_seed)
    assert val == fit.val
    monkeypatch.setattr(work, "train_once", diverge)
    assert work._validation(MINE, tiny_task, 4, tiny_job) == 0.0


def test_the_test_part_is_read_after_the_network_and_its_recipe_are_chosen(
    searched: Callable[..., SearchedWork],
    tiny_task: GraphTask,
    events: list[str],
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    validate = work._validation

    def timed(*arguments: Any) -> float:
        clock.now += 5.0
        return validate(*arguments)

    monkeypatch.setattr(work, "_validation", timed)
    done(searched(trials=1, controls=("gcn", "random")), tiny_task)
    chosen = [event for event in events if event == "chooses"]
    final = ["final", "reads test"] * 2
    tuning = ["trains"] * (2 + 2)  # one recipe, tried twice, with two seeds each
    assert events[len(chosen) :] == [*tuning, *final, *final, "random", *tuning, *final]


def test_a_given_network_is_tested_after_its_recipe_is_tuned(
    tiny_task: GraphTask, events: list[str]
) -> None:
    done(given(trials=1), tiny_task)
    assert events == ["trains"] * 4 + ["final", "reads test"] * 2


def test_no_label_of_the_test_part_changes_anything_but_the_test(
    searched: Callable[..., SearchedWork],
    tiny_task: GraphTask,
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    validate = work._validation

    def timed(*arguments: Any) -> float:
        clock.now += 2.0
        return validate(*arguments)

    monkeypatch.setattr(work, "_validation", timed)
    graph, part = tiny_task.graphs[0], tiny_task.split.test
    y = graph.y.clone()
    y[part] = (y[part] + 1) % 3
    source = replace(tiny_task.source, graphs=(replace(graph, y=y),))
    tasks = (tiny_task, replace(tiny_task, source=source))
    one, other = (done(searched(trials=1), task).legs for task in tasks)

    def plain(leg: Leg) -> dict[str, Any]:
        return leg.model_dump(exclude={"test", "train_seconds"})

    assert [plain(leg) for leg in one] == [plain(leg) for leg in other]
    assert [leg.test for leg in one] != [leg.test for leg in other]


@pytest.mark.parametrize("seed", [0, 1, 99])
def test_no_final_seed_chose_anything(
    searched: Callable[..., SearchedWork], tiny_job: Job, seed: int
) -> None:
    made = searched(seed=seed, seeds=10)
    job = tiny_job.model_copy(update={"seed": seed})
    count = inline.SEEDS
    choosing = {job.trial_seed, job.trial_seed + 1, *range(seed + 2**32, seed + 2**32 + 2 * count)}
    assert len(set(made.final_seeds())) == 10
    assert not choosing & set(made.final_seeds())
    assert not set(made.final_seeds()) & set(searched(seed=seed + 1).final_seeds())


def test_the_same_work_gives_the_same_figures(
    searched: Callable[..., SearchedWork],
    tiny_task: GraphTask,
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(work, "_validation", tick(clock, 5.0, lambda: 0.5))
    runs = [done(searched(controls=("random",)), tiny_task).legs for _ in range(2)]
    for first, second in zip(*runs, strict=True):
        (one, two) = (leg.model_dump(exclude={"train_seconds"}) for leg in (first, second))
        assert one == two
