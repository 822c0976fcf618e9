"""A comparison: what it is made of, what it refuses, and that it goes on where it stopped."""

import errno
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import pdnas
from pdnas.compare import Comparison, Verdict, base, compare
from pdnas.compare.base import make_comparison
from pdnas.compare.work import Attempt, BaselineWork, RivalWork, StrategyWork
from pdnas.errors import DivergedError, PdnasError, RunError, SearchError, UnknownNameError
from pdnas.job import MANY, Job
from pdnas.pipeline import plan
from pdnas.search.random import Random
from pdnas.settings import WorkerFlags
from pdnas.space import SPACES
from pdnas.tasks import GraphTask
from pdnas.training import RECIPES
from pdnas.tuning.pieces import PieceWatcher

Make = Callable[..., tuple[Verdict, list[str]]]

SMALL: dict[str, Any] = {
    "strategies": ("pdnas", "random"),
    "baselines": ("gcn",),
    "epochs": 2,
    "blocks": (1,),
    "hidden": (4,),
    "candidates": 1,
    "seeds": 2,
    "budget_trials": 4,
}
ALL = [f"{rival}-{seed}" for seed in (0, 1) for rival in ("pdnas", "random", "gcn")]


class Keys(PieceWatcher[Attempt]):
    def __init__(self) -> None:
        self.told: list[str] = []

    def done(self, key: str, outcome: Attempt) -> None:
        self.told.append(key)


@pytest.fixture
def make(here: None, tiny_task: GraphTask, tmp_path: Path) -> Make:
    """Makes the small comparison; what it came to, and what was done for it."""

    def run(task: GraphTask = tiny_task, **changed: Any) -> tuple[Verdict, list[str]]:
        watcher = Keys()
        given = {**SMALL, "device": "cpu", "watcher": watcher, **changed}
        return compare(task, tmp_path / "mine", **given), watcher.told

    return run


def test_every_rival_is_tried_with_every_seed(make: Make, tmp_path: Path) -> None:
    verdict, done = make()
    assert done == ALL
    folder = tmp_path / "mine"
    assert {path.stem for path in (folder / "runs").iterdir()} == set(ALL)
    assert [one.rival for one in verdict.standings] == ["pdnas", "random", "gcn"]
    assert [one.kind for one in verdict.standings] == ["strategy", "strategy", "baseline"]
    assert verdict == Verdict.model_validate_json((folder / "result.json").read_bytes())
    assert (folder / "table.md").read_text(encoding="utf-8") == verdict.markdown()
    drawn = (folder / "picture.svg").read_text()
    assert all(rival in drawn for rival in ("pdnas", "random", "gcn"))
    assert json.loads((folder / "settings.json").read_bytes())["command"] == "compare"
    sums = {
        Attempt.model_validate_json(path.read_bytes()).split_sha256
        for path in (folder / "runs").iterdir()
    }
    assert sums == {verdict.split_sha256}, "all of them on the same split"


def test_what_is_done_is_not_done_again(make: Make, tmp_path: Path) -> None:
    make()
    files = [path for path in (tmp_path / "mine").rglob("*") if path.is_file()]
    before = {path: path.read_bytes() for path in files}
    assert make()[1] == []
    assert {path: path.read_bytes() for path in files} == before
    (tmp_path / "mine" / "runs" / "gcn-1.json").unlink()
    assert make()[1] == ["gcn-1"]


def test_a_comparison_that_was_stopped_goes_on(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:

        def stop(*_: object) -> None:
            raise KeyboardInterrupt

        patch.setattr(BaselineWork, "attempt", stop)
        with pytest.raises(KeyboardInterrupt):
            make()
    assert not (tmp_path / "mine" / "table.md").exists()
    assert make()[1] == ALL[2:]


@pytest.mark.parametrize("name", ["table.md", "picture.svg"])
def test_a_disk_that_is_full_leaves_what_was_there(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    make()
    folder, replace = tmp_path / "mine", Path.replace
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}

    def full(self: Path, target: Path) -> Path:
        if target.name == name:
            raise OSError(errno.ENOSPC, "No space left on device")
        return replace(self, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", full)
        with pytest.raises(OSError, match="No space left"):
            make(seeds=1)
    now = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    assert now.keys() == before.keys()
    assert now[name] == before[name]


@pytest.mark.parametrize("workers", [1, 3])
def test_attempts_know_how_many_of_them_share_the_memory(
    make: Make, monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    seen: list[int] = []
    do = RivalWork.do

    def see(self: RivalWork, *arguments: Any) -> dict[str, Any]:
        seen.append(self.sharers)
        return do(self, *arguments)

    monkeypatch.setattr(RivalWork, "do", see)
    make(workers=workers)
    assert seen == [workers] * len(ALL)


def test_other_rivals_and_more_seeds_are_added(make: Make) -> None:
    make()
    verdict, done = make(seeds=3, baselines=("gcn", "sage"))
    assert done == ["sage-0", "sage-1", "pdnas-2", "random-2", "gcn-2", "sage-2"]
    assert [one.rival for one in verdict.standings] == ["pdnas", "random", "gcn", "sage"]
    verdict, done = make(strategies=("random",), baselines=())
    assert done == []
    assert [one.rival for one in verdict.standings] == ["random"]
    assert len(verdict.standings[0].val.values) == 2


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"budget_seconds": 50.0}, "budget_seconds was 60.0 and is 50.0"),
        ({"hidden": (8,)}, "hidden was [4] and is [8]"),
        ({"seed": 1}, "seed was 0 and is 1"),
        ({"recipe": "shared"}, "recipe was own and is shared"),
        ({"shared_recipe": "gat"}, "another shared_recipe"),
        ({"space": SPACES["paper"]}, "another space"),
        ({"workers": 2}, "workers was 1 and is 2"),
        ({"threads": 2}, "threads was 1 and is 2"),
        ({"asked": {"normalize": "on"}}, "normalize was not given and is on"),
        (
            {"workers": WorkerFlags(executor="ray", ray_address="local")},
            "executor was local and is ray",
        ),
        (
            {"workers": WorkerFlags(executor="ray", gpus_per_trial=0.5), "device": "auto"},
            "executor was local and is ray",
        ),
    ],
)
def test_other_settings_are_refused(make: Make, changed: dict[str, Any], said: str) -> None:
    make(strategies=("random",), seeds=1, baselines=())
    with pytest.raises(RunError, match="holds a comparison with other settings: ") as no:
        make(strategies=("random",), seeds=1, baselines=(), **changed)
    assert f": {said}; repeat them, or give another --output." in str(no.value)


def test_another_task_is_refused(make: Make, tiny_task: GraphTask) -> None:
    make(strategies=("random",), seeds=1, baselines=())
    with pytest.raises(RunError, match="other settings: another task; repeat"):
        make(tiny_task.with_split("random", 0), strategies=("random",), seeds=1, baselines=())


def test_data_that_have_changed_are_refused(make: Make, tiny_task: GraphTask) -> None:
    make(strategies=("random",), seeds=1, baselines=())
    (graph,) = tiny_task.graphs
    assert isinstance(graph.x, Tensor)
    other = replace(graph, x=graph.x.clone().index_fill_(0, torch.tensor([3]), 0.5))
    changed = replace(tiny_task, source=replace(tiny_task.source, graphs=(other,)))
    with pytest.raises(RunError, match="on other data: features, edges or labels have changed"):
        make(changed, strategies=("random",), seeds=1, baselines=())


def test_other_settings_of_a_strategy_are_refused(make: Make) -> None:
    make(strategies=("random",), seeds=1, baselines=())
    with pytest.raises(RunError, match=r"random-0\.json' is of other settings"):
        make(strategies=(Random(train_epochs=7),), seeds=1, baselines=())


@pytest.mark.parametrize("content", ["", "{", '{"command": "reproduce"}', '{"command": "compare"}'])
def test_a_folder_of_something_else_is_refused(make: Make, tmp_path: Path, content: str) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "settings.json").write_text(content)
    with pytest.raises(RunError, match="holds something else than a comparison; give another"):
        make()


@pytest.mark.parametrize(
    ("changed", "kind", "said"),
    [
        ({"strategies": ()}, SearchError, r"--strategies names none; .*pdnas.*\.$"),
        ({"strategies": ("rendom",)}, UnknownNameError, "did you mean 'random'"),
        ({"strategies": ("random", "random")}, SearchError, "'random' is named twice"),
        ({"baselines": ("gnc",)}, UnknownNameError, "Unknown baseline 'gnc'; known are: .*gcn"),
        ({"baselines": ("gcn", "gcn")}, SearchError, "'gcn' is named twice"),
        ({"seeds": 0}, SearchError, "--seeds is 0; give 1 to"),
        ({"budget_seconds": 0.0}, SearchError, "The budget is 0.0 seconds"),
        ({"max_parameters": 1}, SearchError, "parameters"),
        ({"workers": 0}, PdnasError, "The number of workers is 0"),
        ({"device": "gpu"}, PdnasError, "Unknown device 'gpu'"),
        ({"epochs": 0}, PdnasError, "epochs"),
        ({"recipe": "mine"}, SearchError, "The comparison cannot be set so: recipe: "),
        ({"sedes": 3}, SearchError, "sedes"),
        ({"comparison": Comparison()}, SearchError, r"Both a comparison and settings \(strat"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_written(
    make: Make, tmp_path: Path, changed: dict[str, Any], kind: type[Exception], said: str
) -> None:
    with pytest.raises(kind, match=said) as no:
        make(**changed)
    assert "\n" not in str(no.value)
    assert list(tmp_path.iterdir()) == []


def test_a_rival_that_fails_is_told_and_the_others_are_kept(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise DivergedError("It rained.")

    monkeypatch.setattr(BaselineWork, "attempt", fail)
    with pytest.raises(
        RunError, match=r"^1 part\(s\) of the comparison failed, .* 'gcn-0': It rained"
    ):
        make(seeds=1)
    assert {path.stem for path in (tmp_path / "mine/runs").iterdir()} == {"pdnas-0", "random-0"}
    assert not (tmp_path / "mine" / "table.md").exists()


def test_rivals_are_trained_by_their_own_recipe_or_by_the_shared_one() -> None:
    shared = RECIPES["consistency"]
    for recipe, expected in (("own", RECIPES["gat"]), ("shared", shared)):
        comparison = make_comparison(recipe=recipe, shared_recipe="consistency")
        assert comparison.recipe_of("gat") == expected
        assert comparison.recipe_of("pdnas") == shared
    assert make_comparison(epochs=7).recipe_of("gat") == RECIPES["gat"].changed(epochs=7)


def test_works_are_the_same_job_but_for_strategy_and_seed() -> None:
    comparison = make_comparison(seed=4, seeds=2, budget_seconds=9.0, candidates=3)
    works = comparison.works()
    assert list(works) == [
        f"{name}-{seed}" for seed in (4, 5) for name in ("pdnas", "random", "gcn", "gat")
    ]
    jobs = {key: work.job for key, work in works.items() if isinstance(work, StrategyWork)}
    for key, job in jobs.items():
        assert key == f"{job.strategy.name}-{job.seed}"
        assert (job.seeds, job.designs, job.controls) == (1, "off", ())
        assert (job.budget_seconds, job.candidates) == (9.0, 3)
    plain = {job.model_copy(update={"strategy": Random(), "seed": 0}) for job in jobs.values()}
    assert len({job.model_dump_json() for job in plain}) == 1
    assert {work.budget_seconds for work in works.values() if isinstance(work, BaselineWork)} == {
        9.0
    }


def test_a_strategy_may_have_settings_of_its_own() -> None:
    comparison = make_comparison(strategies=(Random(pool=3), "evolution"))
    assert comparison.rivals == ["random", "evolution", "gcn", "gat"]
    again = Comparison.model_validate_json(comparison.model_dump_json())
    assert again == comparison
    assert again.strategies[0] == Random(pool=3)


def test_who_trains_what_it_tries_goes_on_until_its_time_is_over() -> None:
    names = ("pdnas", "random", "random-shared", "agnn-shared")
    epochs = {
        budget: [
            comparison.job_of(strategy, 0).strategy.epochs for strategy in comparison.strategies
        ]
        for budget in (60.0, None)
        for comparison in [make_comparison(strategies=names, budget_seconds=budget)]
    }
    assert epochs == {60.0: [400, MANY, 400, MANY], None: [400, 100, 400, 400]}
    few = make_comparison(strategies=names, epochs=7)
    assert {few.job_of(strategy, 0).strategy.epochs for strategy in few.strategies} == {7}


def test_a_budget_that_leaves_nothing_is_refused_before_anything_is_done(
    make: Make, tmp_path: Path
) -> None:
    said = r"0\.5 seconds for each rival, of which 2 are kept for its end; give 3 or more"
    with pytest.raises(SearchError, match=said):
        make(budget_seconds=0.5)
    assert not (tmp_path / "mine").exists()


def test_there_is_a_budget_by_default() -> None:
    assert make_comparison().job.budget_seconds == Comparison().job.budget_seconds == base.BUDGET
    assert make_comparison(job=Job(seeds=7)).job.seeds == 7


def test_the_package_can_be_called(here: None, tiny_task: GraphTask, tmp_path: Path) -> None:
    given = {**SMALL, "strategies": ("random",), "baselines": (), "seeds": 1, "device": "cpu"}
    verdict = pdnas.compare(tiny_task, tmp_path / "mine", **given)
    assert re.match(r"tiny: accuracy in %", verdict.markdown())


@pytest.mark.slow
def test_processes_do_the_work(tiny_task: GraphTask, tmp_path: Path) -> None:
    """The only test with processes: they take seconds to start."""
    given = {**SMALL, "strategies": ("random",), "seeds": 1, "budget_seconds": None}
    verdict = compare(tiny_task, tmp_path / "mine", device="cpu", workers=1, **given)
    assert [one.rival for one in verdict.standings] == ["random", "gcn"]
    assert plan.TIMED == 5


@pytest.mark.parametrize("task", ["cora", "citeseer", "pubmed"])
def test_the_comparisons_of_this_repository_are_of_the_work_that_there_is_now(task: str) -> None:
    folder = Path(__file__).parents[2] / "benchmarks" / "results" / "compare" / task
    settings = base.CompareSettings.model_validate_json((folder / "settings.json").read_bytes())
    works = settings.comparison.works()
    for key, work in works.items():
        attempt = Attempt.model_validate_json((folder / "runs" / f"{key}.json").read_bytes())
        assert attempt.work_sha256 == work.sha256, key
    verdict = Verdict.model_validate_json((folder / "result.json").read_bytes())
    assert verdict.markdown() == (folder / "table.md").read_text()


def test_a_piece_of_another_rival_is_refused(
    here: None, tiny_task: GraphTask, tmp_path: Path
) -> None:
    settings = {**SMALL, "seeds": 1}
    compare(tiny_task, tmp_path / "out", **settings)
    path = tmp_path / "out" / "runs" / "random-0.json"
    stored = json.loads(path.read_bytes())
    path.write_text(json.dumps({**stored, "rival": "gcn"}))
    with pytest.raises(RunError, match=r"random-0\.json' is damaged: it is of 'gcn'"):
        compare(tiny_task, tmp_path / "out", **settings)


@pytest.mark.parametrize(
    "changes",
    [
        {"val": 2},
        {"curve": [[-1, 0.5]]},
        {"seconds": 0},
        {"seconds": 1e300},
        {"trainings": -1},
        {"parameters": 10**400},
    ],
)
def test_a_piece_that_cannot_be_is_refused(
    here: None, tiny_task: GraphTask, tmp_path: Path, changes: dict[str, Any]
) -> None:
    settings = {**SMALL, "seeds": 1}
    compare(tiny_task, tmp_path / "out", **settings)
    path = tmp_path / "out" / "runs" / "random-0.json"
    path.write_text(json.dumps({**json.loads(path.read_bytes()), **changes}))
    with pytest.raises(RunError, match=r"random-0\.json' is damaged: "):
        compare(tiny_task, tmp_path / "out", **settings)
