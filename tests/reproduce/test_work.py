"""The works of tables: what is chosen, by what, and when the test part is read."""

import statistics
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from pdnas.architecture import Architecture, BlockSpec
from pdnas.errors import DivergedError
from pdnas.job import Job, settle_job
from pdnas.models.baselines import BASELINES, Baseline
from pdnas.pipeline import Pipeline
from pdnas.pipeline.race import Race
from pdnas.reproduce import work
from pdnas.reproduce.work import (
    GivenWork,
    HeatWork,
    Leg,
    RandomWork,
    SearchedWork,
    TableWork,
    controls,
    tuned,
)
from pdnas.runs import Trial
from pdnas.tasks import GraphTask
from pdnas.training import Recipe
from pdnas.training.fit import read_test
from pdnas.training.seeds import train_once
from pdnas.tuning import inline, study
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
    monkeypatch.setattr("pdnas.pipeline.plan.TIMED", 1)
    return clock


def done(made: TableWork, task: GraphTask) -> Leg:
    return Leg.model_validate(made.do(task, lambda _epoch, _val: False))


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
def random(searched: Callable[..., SearchedWork]) -> Callable[..., RandomWork]:
    """Random search of five seconds."""

    def make(**changes: Any) -> RandomWork:
        return RandomWork(**{**dict(searched()), "row": "random", "seconds": 5.0, **changes})

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

    for place in ("plan", "trials", "finals"):
        monkeypatch.setattr(f"pdnas.pipeline.{place}.train_once", spied("chooses"))
    monkeypatch.setattr(work, "train_once", spied("random"))
    monkeypatch.setattr(trainings, "train_once", spied("trains"))
    monkeypatch.setattr(trainings, "read_test", read)
    for place in ("finals", "outcome"):
        monkeypatch.setattr(f"pdnas.pipeline.{place}.read_test", read)
    return seen


def test_a_given_network_is_trained_with_final_seeds_and_tested(tiny_task: GraphTask) -> None:
    leg = done(given(seed=3), tiny_task)
    assert (leg.task, leg.split, leg.split_seed, leg.seed) == ("tiny", "own", None, 3)
    assert leg.split_sha256 == tiny_task.split.sha256
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
    assert (leg.environment["device"], leg.environment["threads"]) == ("cpu", 1)


def test_a_heat_is_compared_by_validation_and_not_tested(
    tiny_task: GraphTask, events: list[str]
) -> None:
    leg = done(HeatWork(**dict(given(seed=3))), tiny_task)
    assert events == ["final", "final"], "no look at the test"
    vals = [
        train_once(MINE, tiny_task, hidden=4, recipe=leg.recipe, seed=seed)[1].val
        for seed in (4000, 4001)
    ]
    assert leg.choice_val == pytest.approx(statistics.fmean(vals))
    assert (leg.val, leg.test, leg.seeds) == ((), (), ())
    assert leg.search_seconds > 0


def test_a_published_network_is_trained_too_and_keeps_its_note(rings: GraphTask) -> None:
    design = BASELINES["jknet-max"].design
    leg = done(given(architecture=design, seeds=1), rings)
    assert leg.architecture == design
    assert Leg.model_validate_json(leg.model_dump_json()) == leg
    assert (leg.note, leg.parameters) == ("rebuilt rings", design.parameters(rings, 4))


def test_works_are_on_their_split(tiny_task: GraphTask) -> None:
    task = tiny_task.with_split("random", 0)
    legs = [done(given(split_seed=seed), task) for seed in (0, 5)]
    assert [leg.split_seed for leg in legs] == [0, 5]
    expected = [task.with_split("random", seed).split.sha256 for seed in (0, 5)]
    assert [leg.split_sha256 for leg in legs] == expected


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
    leg = done(given(trials=7, seed=2), tiny_task)
    same = done(given(recipe=found, seed=2), tiny_task)
    assert asked == [(7, 2 + 2**32, Recipe(epochs=2))]
    assert (leg.recipe, leg.val, leg.test) == (found, same.val, same.test)


@pytest.mark.parametrize("kind", ["searched", "random"])
def test_final_trainings_may_be_more_patient(
    request: pytest.FixtureRequest,
    tiny_task: GraphTask,
    tiny_job: Job,
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
) -> None:
    monkeypatch.setattr(work, "_tried", tick(clock, 5.0, lambda: 0.5))
    asked: list[Recipe] = []
    do = trainings.TrainingWork.do

    def spy(self: trainings.TrainingWork, *arguments: Any) -> dict[str, Any]:
        asked.append(self.recipe)
        return do(self, *arguments)

    monkeypatch.setattr(trainings.TrainingWork, "do", spy)
    leg = done(request.getfixturevalue(kind)(trials=1, patience=7, teachers=2), tiny_task)
    final = tiny_job.recipe.changed(patience=7, teachers=2)
    assert asked == [tiny_job.recipe, tiny_job.recipe, final]
    assert leg.recipe == final


def test_without_trials_a_recipe_stays_as_it_is(tiny_task: GraphTask) -> None:
    assert tuned(MINE, tiny_task, 4, Recipe(lr=0.5), 0, 0) == (Recipe(lr=0.5), 0.0)


def test_a_tuned_recipe_is_one_of_those_tried(tiny_task: GraphTask) -> None:
    recipe, seconds = tuned(MINE, tiny_task, 4, Recipe(epochs=2), 1, 0)
    assert recipe == Recipe(epochs=2), "the first that is tried is the one that there is"
    assert seconds > 0


def test_a_search_is_of_its_space_and_says_what_it_cost(
    searched: Callable[..., SearchedWork], tiny_task: GraphTask, tiny_job: Job, clock: Clock
) -> None:
    found = done(searched(seed=1), tiny_task)
    assert (found.row, found.seeds, found.hidden) == ("found", (2000, 2001), 4)
    assert found.architecture in tiny_job.space
    assert found.recipe == tiny_job.recipe
    assert (found.search_seconds, found.tune_seconds) == (5.0, 0.0)
    assert found.tried >= 1
    assert found.choice_val is not None
    assert found.curve
    assert found.curve[-1][1] >= found.choice_val


def test_a_search_is_compared_with_random_search_and_given_networks(
    searched: Callable[..., SearchedWork], leg_of: Callable[..., Leg]
) -> None:
    tuned = Recipe(lr=0.5)
    work = searched(seed=1, split_seed=4, trials=7)
    found = leg_of("found", 0.5, hidden=6, recipe=tuned, search_seconds=12.0)
    made = controls(work, found, ("random", "gcn", "gat"))
    assert list(made) == ["random", "gcn", "gat"]
    for control in made.values():
        assert (control.task, control.seed, control.split_seed, control.seeds) == ("tiny", 1, 4, 2)
    other = made.pop("random")
    assert isinstance(other, RandomWork)
    assert other.row == "random, same cost as found"
    assert (other.job, other.trials, other.seconds) == (work.job, 7, 12.0)
    for name, given in made.items():
        assert isinstance(given, GivenWork)
        assert given.row == f"{name}, recipe of found"
        assert given.architecture == BASELINES[name].architecture
        assert (given.hidden, given.recipe, given.trials) == (6, tuned, 0)


def test_nothing_searched_is_larger_than_the_rival(
    searched: Callable[..., SearchedWork],
    random: Callable[..., RandomWork],
    tiny_task: GraphTask,
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(work, "_tried", tick(clock, 5.0, lambda: 0.5))
    rival = Baseline(BASELINES["gcn"].architecture, 8)
    limit = rival.architecture.parameters(tiny_task, 8)
    sizes: dict[Baseline | None, list[int]] = {None: [], rival: []}
    for seed in range(3):
        for one, parameters in sizes.items():
            works = (make(seed=seed, rival=one) for make in (searched, random))
            parameters += [done(made, tiny_task).parameters for made in works]
    assert max(sizes[None]) > limit >= max(sizes[rival])


def tick(clock: Clock, seconds: float, value: Callable[[], float]) -> Callable[..., Trial]:
    """A brief training that takes some seconds."""

    def train(
        architecture: Architecture, _task: GraphTask, hidden: int, _job: Job, seed: int, _race: Race
    ) -> Trial:
        clock.now += seconds
        return Trial(
            architecture=architecture,
            hidden=hidden,
            seed=seed,
            shared_val=None,
            val=value(),
            epoch=0,
            epochs=1,
            rungs=(),
            seconds=seconds,
        )

    return train


@pytest.mark.parametrize(
    ("seconds", "values", "trained", "best"),
    [
        # Of nine seconds six are for new ones, the rest for the best three of them again.
        (1.0, [*(0.1, 0.3, 0.2, 0.3, 0.1, 0.2), *(0.1, 0.2, 0.9)], [0, 1, 2, 3, 4, 5, 1, 3, 2], 2),
        (2.5, [0.1, 0.4, 0.2, 0.9], [0, 1, 2, 1], 1),  # what is trained again ends too late
        (9.5, [0.4], [0], 0),  # one there must be
    ],
)
def test_random_search_takes_as_long_as_the_search(
    random: Callable[..., RandomWork],
    tiny_task: GraphTask,
    tiny_job: Job,
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
    seconds: float,
    values: list[float],
    trained: list[int],
    best: int,
) -> None:
    left, seen = iter(values), list[Architecture]()
    train = tick(clock, seconds, lambda: next(left))

    def watched(architecture: Architecture, *others: Any) -> Trial:
        seen.append(architecture)
        return train(architecture, *others)

    monkeypatch.setattr(work, "_tried", watched)
    leg = done(random(seconds=9.0), tiny_task)
    drawn = list(dict.fromkeys(seen))
    assert [drawn.index(architecture) for architecture in seen] == trained
    assert (leg.row, leg.tried) == ("random", len(drawn))
    assert leg.architecture == drawn[best]
    assert all(architecture in tiny_job.space for architecture in seen)
    ends = [seconds * (number + 1) for number in range(len(values))]
    own = [
        value
        for value, place, end in zip(values, trained, ends, strict=True)
        if place == best and (end <= 9.0 or end == ends[0])
    ]
    assert leg.choice_val == pytest.approx(statistics.fmean(own))
    assert leg.search_seconds == seconds * len(trained)


def test_random_search_takes_turns_among_the_shapes(
    random: Callable[..., RandomWork],
    tiny_task: GraphTask,
    tiny_job: Job,
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shapes: list[tuple[int, int]] = []
    train = tick(clock, 1.0, lambda: 0.5)

    def watched(architecture: Architecture, task: GraphTask, hidden: int, *others: Any) -> Trial:
        shapes.append((architecture.num_blocks, hidden))
        return train(architecture, task, hidden, *others)

    monkeypatch.setattr(work, "_tried", watched)
    job = tiny_job.model_copy(update={"blocks": (1, 2), "hidden": (2, 4)})
    done(random(job=job, seconds=7.5), tiny_task)
    assert shapes[:5] == [(1, 2), (1, 4), (2, 2), (2, 4), (1, 2)]


def test_random_search_trains_as_a_search_does(tiny_task: GraphTask, tiny_job: Job) -> None:
    job = tiny_job.model_copy(update={"recipe": Recipe(epochs=16, patience=6, teachers=2)})
    trial = work._tried(MINE, tiny_task, 4, job, 5, Race([], 16))
    recipe = Recipe(epochs=16, patience=3)
    _, fit = train_once(MINE, tiny_task, hidden=4, recipe=recipe, seed=5)
    assert (trial.val, trial.epoch, trial.epochs) == (fit.val, fit.epoch, fit.epochs)
    better = [(2.0,), (2.0,), (2.0,)]
    given_up = work._tried(MINE, tiny_task, 4, job, 5, Race(better, 16))
    assert (given_up.epochs, len(given_up.rungs)) == (4, 1), "it falls behind after a quarter"


def test_a_random_network_that_diverges_counts_nothing(
    tiny_task: GraphTask, tiny_job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    def diverge(*_: object, **__: object) -> None:
        raise DivergedError("The loss is no longer finite.")

    monkeypatch.setattr(work, "train_once", diverge)
    trial = work._tried(MINE, tiny_task, 4, tiny_job, 0, Race([], 1))
    assert (trial.val, trial.epochs) == (0.0, 0)


TUNING = ["trains"] * (2 + 4)
"""One recipe, tried twice, with two seeds and with four."""

FINAL = ["final", "reads test"] * 2


@pytest.mark.parametrize("kind", ["searched", "random"])
def test_the_test_part_is_read_after_the_network_and_its_recipe_are_chosen(
    request: pytest.FixtureRequest,
    tiny_task: GraphTask,
    events: list[str],
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
) -> None:
    train = work._tried

    def timed(*arguments: Any) -> Trial:
        clock.now += 2.0
        return train(*arguments)

    monkeypatch.setattr(work, "_tried", timed)
    done(request.getfixturevalue(kind)(trials=1), tiny_task)
    choosing = {"searched": "chooses", "random": "random"}[kind]
    chosen = [event for event in events if event == choosing]
    assert chosen
    assert events == [*chosen, *TUNING, *FINAL]


def test_a_given_network_is_tested_after_its_recipe_is_tuned(
    tiny_task: GraphTask, events: list[str]
) -> None:
    done(given(trials=1), tiny_task)
    assert events == [*TUNING, *FINAL]


@pytest.mark.parametrize("kind", ["searched", "random"])
def test_no_label_of_the_test_part_changes_anything_but_the_test(
    request: pytest.FixtureRequest,
    tiny_task: GraphTask,
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
) -> None:
    train = work._tried

    def timed(*arguments: Any) -> Trial:
        clock.now += 1.0
        return train(*arguments)

    monkeypatch.setattr(work, "_tried", timed)
    graph, part = tiny_task.graphs[0], tiny_task.split.test
    y = graph.y.clone()
    y[part] = 0
    source = replace(tiny_task.source, graphs=(replace(graph, y=y),))
    tasks = (tiny_task, replace(tiny_task, source=source))
    made = request.getfixturevalue(kind)(trials=1)
    one, other = (done(made, task) for task in tasks)

    def plain(leg: Leg) -> dict[str, Any]:
        return leg.model_dump(exclude={"test", "train_seconds"})

    assert plain(one) == plain(other)
    assert one.test != other.test


@pytest.mark.parametrize("seed", [0, 1, 99])
def test_no_final_seed_chose_anything(
    searched: Callable[..., SearchedWork], tiny_job: Job, seed: int
) -> None:
    made = searched(seed=seed, seeds=10)
    job = tiny_job.model_copy(update={"seed": seed})
    tried = (1 + study.AGAIN) * inline.SEEDS
    choosing = {
        *range(job.trial_seed, job.trial_seed + 1 + job.repeats),
        *range(seed + 2**32, seed + 2**32 + tried),
    }
    assert len(set(made.final_seeds())) == 10
    assert not choosing & set(made.final_seeds())
    assert not set(made.final_seeds()) & set(searched(seed=seed + 1).final_seeds())


@pytest.mark.parametrize("kind", ["searched", "random"])
def test_the_same_work_gives_the_same_figures(
    request: pytest.FixtureRequest,
    tiny_task: GraphTask,
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
) -> None:
    monkeypatch.setattr(work, "_tried", tick(clock, 5.0, lambda: 0.5))
    made = request.getfixturevalue(kind)()
    one, two = (done(made, tiny_task).model_dump(exclude={"train_seconds"}) for _ in range(2))
    assert one == two


def test_a_search_divides_the_memory_among_those_that_share_it(
    searched: Callable[..., SearchedWork], tiny_task: GraphTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared: list[int] = []

    def see(*arguments: Any, sharers: int, **settings: Any) -> Job:
        shared.append(sharers)
        return settle_job(*arguments, sharers=sharers, **settings)

    monkeypatch.setattr("pdnas.pipeline.plan.TIMED", 1)
    monkeypatch.setattr("pdnas.pipeline.whole.settle_job", see)
    works = [searched(sharers=count) for count in (1, 4)]
    for made in works:
        done(made, tiny_task)
    assert shared == [1, 4]
    assert works[0].sha256 == works[1].sha256
