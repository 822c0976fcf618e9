"""A rival with a seed: what it does, and what it must not look at."""

import pickle
from pathlib import Path

import pytest

from pdnas.compare import work as module
from pdnas.compare.work import Attempt, BaselineWork, StrategyWork, read_attempt
from pdnas.errors import DivergedError
from pdnas.job import Job
from pdnas.models.baselines import BASELINES
from pdnas.search.pdnas import PRESETS
from pdnas.search.random import Random
from pdnas.tasks import GraphTask
from pdnas.training import Recipe
from pdnas.training.fit import read_test
from pdnas.training.seeds import train


def never(epoch: int, val: float) -> bool:
    return False


@pytest.fixture
def job(monkeypatch: pytest.MonkeyPatch) -> Job:
    """A search of a moment, without anything beside it."""
    monkeypatch.setattr("pdnas.pipeline.plan.TIMED", 1)
    return Job(
        strategy=Random(epochs=2, train_epochs=3),
        blocks=(1,),
        hidden=(4,),
        recipe=Recipe(epochs=3),
        seed=5,
        seeds=1,
        candidates=1,
        designs="off",
        controls=(),
    )


def attempt(work: BaselineWork | StrategyWork, task: GraphTask) -> Attempt:
    return Attempt.model_validate(work.do(task, never))


def test_a_baseline_is_one_training_with_its_seed(tiny_task: GraphTask) -> None:
    recipe, gcn = Recipe(epochs=9), BASELINES["gcn"]
    came = attempt(BaselineWork(task="task", rival="gcn", seed=3, recipe=recipe), tiny_task)
    result = train(gcn.architecture, tiny_task, hidden=gcn.hidden, recipe=recipe, seeds=[3])
    assert (came.val, came.test) == (result.val.mean, result.test.mean)
    assert (came.parameters, came.hidden) == (result.parameters, gcn.hidden)
    assert (came.rival, came.seed, came.trainings) == ("gcn", 3, 1)
    assert (came.architecture, came.recipe) == (None, recipe)
    assert (came.task, came.split, len(came.split_sha256)) == ("tiny", "own", 64)
    assert came.environment["device"] == "cpu"
    vals = [val for _, val in came.curve]
    assert vals == sorted(set(vals))
    assert max(vals) >= came.val
    assert 0 < came.curve[-1][0] <= came.seconds


def test_a_baseline_ends_with_its_budget(tiny_task: GraphTask) -> None:
    recipe = Recipe(epochs=10_000_000, patience=10_000_000)
    work = BaselineWork(task="task", rival="gcn", seed=0, recipe=recipe, budget_seconds=2.3)
    came = attempt(work, tiny_task)
    assert 0.2 < came.seconds <= 2.3, "all epochs would take hours; two seconds are kept"
    assert came.warnings == ("The budget ended its training early.",)


def test_a_baseline_with_teachers_is_warned_of_once(tiny_task: GraphTask) -> None:
    recipe = Recipe(epochs=10_000_000, patience=10_000_000, teachers=3)
    work = BaselineWork(task="task", rival="gcn", seed=0, recipe=recipe, budget_seconds=2.3)
    came = attempt(work, tiny_task)
    assert came.seconds <= 2.3
    assert came.warnings == ("The budget ended its training early.",)


def test_a_rival_is_read_from_its_file(tiny_task: GraphTask, job: Job, tmp_path: Path) -> None:
    came = attempt(StrategyWork(task="task", rival="random", seed=5, job=job), tiny_task)
    (tmp_path / "rival.json").write_text(came.model_dump_json())
    assert read_attempt(tmp_path / "rival.json") == came
    (tmp_path / "other.json").write_text("{}")
    assert read_attempt(tmp_path / "other.json") is None
    assert read_attempt(tmp_path / "nothing.json") is None


def test_a_strategy_is_a_search_and_a_training(tiny_task: GraphTask, job: Job) -> None:
    came = attempt(StrategyWork(task="task", rival="random", seed=5, job=job), tiny_task)
    assert came.trainings == 2 + 1 + 1, "two in the search, a candidate, the choice"
    assert came.architecture is not None
    assert came.architecture in job.space
    assert came.parameters == came.architecture.parameters(tiny_task, 4)
    assert came.recipe == job.recipe
    assert came.curve[-1][1] >= came.val
    assert came.curve[-1][0] <= came.seconds


def test_shared_weights_count_for_nothing(tiny_task: GraphTask, job: Job) -> None:
    strategy = PRESETS["default"].changed(pool=2, adapted=1, adapt_epochs=1).lasting(3)
    searched = job.model_copy(update={"strategy": strategy})
    came = attempt(StrategyWork(task="task", rival="pdnas", seed=5, job=searched), tiny_task)
    assert came.trainings == 1 + 1


def test_the_same_work_comes_to_the_same(tiny_task: GraphTask, job: Job) -> None:
    work = StrategyWork(task="task", rival="random", seed=5, job=job)
    one, two = (attempt(work, tiny_task) for _ in range(2))
    assert (one.architecture, one.val, one.test) == (two.architecture, two.val, two.test)
    assert [val for _, val in one.curve] == [val for _, val in two.curve]


def test_the_test_part_is_read_once(
    tiny_task: GraphTask, job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[str] = []

    def read(*given: object) -> float:
        reads.append("test")
        return read_test(*given)  # type: ignore[arg-type]

    for place in ("finals", "outcome"):
        monkeypatch.setattr(f"pdnas.pipeline.{place}.read_test", read)
    monkeypatch.setattr(module, "read_test", read)
    attempt(StrategyWork(task="task", rival="random", seed=5, job=job), tiny_task)
    assert reads == ["test"]
    attempt(BaselineWork(task="task", rival="gcn", seed=5, recipe=Recipe(epochs=2)), tiny_task)
    assert reads == ["test"] * 2


def test_work_can_be_sent(job: Job) -> None:
    for work in (
        StrategyWork(task="task", rival="random", seed=5, job=job),
        BaselineWork(task="task", rival="gcn", seed=5, recipe=Recipe()),
    ):
        assert pickle.loads(pickle.dumps(work)) == work
        assert len(work.sha256) == 64


def test_what_diverges_fails(tiny_task: GraphTask) -> None:
    work = BaselineWork(task="task", rival="gcn", seed=0, recipe=Recipe(lr=1e30, epochs=9))
    with pytest.raises(DivergedError):
        work.do(tiny_task, never)


@pytest.mark.parametrize("sharers", [1, 1000])
def test_attempts_side_by_side_divide_the_memory(
    tiny_task: GraphTask, job: Job, monkeypatch: pytest.MonkeyPatch, sharers: int
) -> None:
    """There is room for the whole graph, but not for a thousand of them."""
    monkeypatch.setattr("pdnas.training.memory.has_pymetis", lambda: True)
    monkeypatch.setattr("pdnas.training.memory.free_bytes", lambda _: 10_000_000)
    about = {"task": "task", "seed": 5, "sharers": sharers}
    for work in (
        BaselineWork(rival="gcn", recipe=Recipe(epochs=2), **about),
        StrategyWork(rival="random", job=job, **about),
    ):
        sent = pickle.loads(pickle.dumps(work))
        assert sent == work, "with how many there are"
        came = attempt(sent, tiny_task)
        is_cut = any("A step on the whole graph would need" in said for said in came.warnings)
        assert (is_cut or came.recipe.way == "clusters") == (sharers == 1000)
        assert work.sha256 == work.model_copy(update={"sharers": 1}).sha256
