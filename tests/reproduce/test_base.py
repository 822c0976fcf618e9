"""What every table does: only what is not done yet, and what fails is said."""

import errno
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch

from pdnas.architecture import Architecture, BlockSpec
from pdnas.errors import RunError, UnknownNameError
from pdnas.reproduce import TABLES, Table, base, reproduce
from pdnas.reproduce.base import Figure, Records, Watcher, group
from pdnas.reproduce.work import GivenWork, Leg, TableWork
from pdnas.settings import WorkerFlags
from pdnas.tasks import GraphTask
from pdnas.training import Recipe
from pdnas.tuning.work import Report

MakeLeg = Callable[..., Leg]
Loads = list[dict[str, Any]]


class Said(TableWork):
    """Work that is done at once, or fails."""

    fails: bool = False

    def do(self, task: GraphTask, report: Report) -> dict[str, Any]:
        if self.fails:
            raise RunError("It rained.")
        return Leg(
            task=task.name,
            split=task.split.name,
            split_seed=task.split.seed,
            split_sha256=task.split.sha256,
            seed=self.seed,
            row="said",
            architecture=Architecture(blocks=(BlockSpec(),)),
            hidden=4,
            parameters=10,
            recipe=Recipe(),
            val=(0.5,),
            test=(0.25,),
            seeds=(0,),
            train_seconds=1.0,
            environment={},
        ).model_dump(mode="json")


class Small(Table):
    """A work for each task and search, and one that waits for those of cora."""

    name = "small"
    split = "public"
    fails: ClassVar[set[str]] = set()
    asked: ClassVar[list[tuple[bool, int]]] = []

    def works(self, done: Records, *, quick: bool, searches: int) -> dict[str, TableWork]:
        self.asked.append((quick, searches))
        works: dict[str, TableWork] = {
            f"{task}-{seed}": Said(
                task=task, row="said", seed=seed, fails=f"{task}-{seed}" in self.fails
            )
            for task in base.TASKS
            for seed in range(searches)
        }
        if {f"cora-{seed}" for seed in range(searches)} <= done.keys():
            works["cora-last"] = Said(task="cora", row="said", seed=99)
        return works

    def markdown(self, done: Records) -> str:
        return " ".join(sorted(done))

    def draw(self, done: Records, path: Path) -> None:
        path.write_text(f"<svg>{len(done)}</svg>")


class Kept(Watcher):
    def __init__(self) -> None:
        self.keys: list[str] = []
        self.failures: dict[str, str] = {}

    def done(self, key: str, leg: Leg) -> None:
        assert leg.row in ("said", "mine")
        self.keys.append(key)

    def failed(self, key: str, reason: str) -> None:
        self.failures[key] = reason


ALL = {f"{task}-{seed}" for task in base.TASKS for seed in (0, 1)} | {"cora-last"}


@pytest.fixture
def small(here: None, loads: Loads, monkeypatch: pytest.MonkeyPatch) -> type[Small]:
    """The small table, registered."""
    monkeypatch.setitem(TABLES._entries, "small", Small)
    monkeypatch.setattr(Small, "fails", set())
    monkeypatch.setattr(Small, "asked", [])
    return Small


@pytest.fixture
def make(small: type[Small], tmp_path: Path) -> Callable[..., Kept]:
    """Does the small table of two searches; what was told."""

    def run(**settings: Any) -> Kept:
        watcher = Kept()
        made = reproduce(
            "small",
            tmp_path / "table",
            **{"searches": 2, "device": "cpu", "on_done": watcher, **settings},
        )
        assert isinstance(made, small)
        return watcher

    return run


def test_all_works_are_done_and_those_that_wait_for_others_last(
    make: Callable[..., Kept], tmp_path: Path
) -> None:
    told = make()
    assert set(told.keys) == ALL
    assert len(told.keys) == len(ALL)
    assert told.keys.index("cora-last") > max(told.keys.index(f"cora-{seed}") for seed in (0, 1))
    assert {path.stem for path in (tmp_path / "table" / "runs").iterdir()} == ALL
    assert (tmp_path / "table" / "table.md").read_text() == " ".join(sorted(ALL)) + "\n"
    assert (tmp_path / "table" / "picture.svg").read_text() == "<svg>7</svg>"


def test_a_disk_that_is_full_leaves_the_table_that_was_there(
    make: Callable[..., Kept], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(searches=1)
    table = tmp_path / "table" / "table.md"
    before, replace = table.read_bytes(), Path.replace

    def full(self: Path, target: Path) -> Path:
        if target == table:
            raise OSError(errno.ENOSPC, "No space left on device")
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match="No space left"):
        make()
    assert table.read_bytes() == before


@pytest.mark.ray
def test_works_are_done_on_a_ray_cluster_too(
    connected: None, make: Callable[..., Kept], tmp_path: Path
) -> None:
    told = make(workers=WorkerFlags(executor="ray"))
    assert (set(told.keys), told.failures) == (ALL, {})
    assert {path.stem for path in (tmp_path / "table" / "runs").iterdir()} == ALL


@pytest.mark.parametrize("workers", [1, 3])
def test_works_know_how_many_of_them_share_the_memory(
    make: Callable[..., Kept], monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    seen: list[int] = []
    do = Said.do

    def see(self: Said, *arguments: Any) -> dict[str, Any]:
        seen.append(self.sharers)
        return do(self, *arguments)

    monkeypatch.setattr(Said, "do", see)
    make(workers=workers)
    assert seen == [workers] * len(ALL)
    assert make(workers=5).keys == [], "how many there are makes no other work of them"


def test_what_other_settings_came_to_is_refused(
    make: Callable[..., Kept], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make()
    place = tmp_path / "table" / "runs" / "cora-0.json"
    kept = place.read_bytes()
    monkeypatch.setattr(Small, "fails", {"cora-0"})  # another setting of that work
    with pytest.raises(RunError, match=r"cora-0.json' is of other settings .* delete it") as caught:
        make()
    assert "\n" not in str(caught.value)
    assert place.read_bytes() == kept
    monkeypatch.setattr(Small, "fails", set())
    place.unlink()
    assert make().keys == ["cora-0"]
    assert place.read_bytes() == kept


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("test", [], "is damaged: it is of other work than its name says, or of no training"),
        ("row", "another", "is damaged: it is of other work"),
        ("test", [1e308], "is damaged: test.0: "),
        ("parameters", 10**400, "is damaged: parameters: "),
        ("train_seconds", 1e308, "is damaged: train_seconds: "),
    ],
    ids=["no test", "row", "test", "parameters", "seconds"],
)
def test_what_no_work_comes_to_is_one_sentence(
    make: Callable[..., Kept], tmp_path: Path, name: str, value: Any, said: str
) -> None:
    make()
    place = tmp_path / "table" / "runs" / "cora-0.json"
    place.write_text(json.dumps({**json.loads(place.read_bytes()), name: value}))
    with pytest.raises(RunError, match=f"cora-0.json' {said}"):
        make()


def test_what_is_done_is_not_done_again(make: Callable[..., Kept], tmp_path: Path) -> None:
    make()
    files = [path for path in (tmp_path / "table").rglob("*") if path.is_file()]
    before = {path: path.read_bytes() for path in files}
    assert make().keys == []
    assert {path: path.read_bytes() for path in files} == before
    (tmp_path / "table" / "runs" / "pubmed-1.json").unlink()
    assert make().keys == ["pubmed-1"]
    assert {path: path.read_bytes() for path in files} == before


def test_more_searches_are_added_to_those_that_are_there(make: Callable[..., Kept]) -> None:
    make()
    assert set(make(searches=3).keys) == {f"{task}-2" for task in base.TASKS}


def test_a_part_that_fails_is_reported_and_the_others_are_kept(
    make: Callable[..., Kept], small: type[Small], tmp_path: Path
) -> None:
    small.fails |= {"cora-1", "pubmed-0"}
    watcher = Kept()
    with pytest.raises(
        RunError,
        match=r"^2 part\(s\) of the table failed, the first of them 'cora-1': It "
        r"rained; what is done is kept: run the same command again, or leave out what always "
        r"fails\.$",
    ):
        make(on_done=watcher)
    expected = ALL - {"cora-1", "pubmed-0", "cora-last"}
    assert set(watcher.keys) == {path.stem for path in (tmp_path / "table/runs").iterdir()}
    assert set(watcher.keys) == expected
    assert watcher.failures == dict.fromkeys(small.fails, "It rained.")
    assert not (tmp_path / "table" / "table.md").exists()
    small.fails.clear()
    assert set(make().keys) == ALL - expected


def test_quick_is_one_search_and_says_that_it_is_quick(
    make: Callable[..., Kept], small: type[Small], tmp_path: Path
) -> None:
    make(quick=True, searches=7)
    assert set(small.asked) == {(True, 1)}
    assert (tmp_path / "table" / "table.md").read_text() == (
        "citeseer-0 cora-0 cora-last pubmed-0\n\n"
        "**Quick**: a small version of the table, for a look only.\n"
    )


def test_only_some_tasks_are_taken(make: Callable[..., Kept], loads: Loads) -> None:
    assert set(make(only=["pubmed"]).keys) == {"pubmed-0", "pubmed-1"}
    assert [asked["name"] for asked in loads] == ["pubmed"]


@pytest.mark.parametrize(("split", "seed"), [("public", None), ("random", 0)])
def test_tasks_are_on_the_split_of_the_table(
    make: Callable[..., Kept],
    loads: Loads,
    monkeypatch: pytest.MonkeyPatch,
    split: str,
    seed: int | None,
) -> None:
    monkeypatch.setattr(Small, "split", split)
    make(data_root="there", only=["cora"])
    assert loads == [{"name": "cora", "split": split, "split_seed": seed, "data_root": "there"}]


def test_the_splits_are_recorded(make: Callable[..., Kept], tmp_path: Path) -> None:
    make(only=["cora"])
    leg = Leg.model_validate_json((tmp_path / "table/runs/cora-1.json").read_bytes())
    assert (leg.task, leg.split, leg.seed, len(leg.split_sha256)) == ("cora", "own", 1, 64)


def test_an_unknown_task_is_refused_before_anything_is_written(
    make: Callable[..., Kept], tmp_path: Path
) -> None:
    with pytest.raises(RunError, match="no task 'ppi'; it has cora, citeseer, pubmed"):
        make(only=["ppi"])
    assert list(tmp_path.iterdir()) == []


def test_seeds_are_refused_where_a_table_has_its_own(
    make: Callable[..., Kept], tmp_path: Path
) -> None:
    with pytest.raises(RunError, match=r"'small' has its own numbers of seeds; leave out --seeds"):
        make(seeds=2)
    assert not (tmp_path / "table").exists()


@pytest.mark.parametrize("only", [[], ["cora", "cora"]])
def test_tasks_are_named_once_each(
    make: Callable[..., Kept], tmp_path: Path, only: list[str]
) -> None:
    with pytest.raises(RunError, match=r"--only has \[.*\]; name at least one task, each of them"):
        make(only=only)
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_table_is_answered_with_the_closest(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'search-time'"):
        reproduce("search-tim", tmp_path / "table")


def test_the_tables_of_the_paper_are_there() -> None:
    assert set(TABLES) >= {"citation-public", "citation-split", "search-time"}
    assert all(TABLES[name].name == name for name in TABLES)


@pytest.mark.parametrize("change", ["quick", "table"])
def test_a_folder_of_another_table_is_refused(
    make: Callable[..., Kept], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    make()
    monkeypatch.setitem(TABLES._entries, "other", Small)
    name = "other" if change == "table" else "small"
    with pytest.raises(RunError, match="holds something else: another table, a quick one"):
        reproduce(name, tmp_path / "table", quick=change == "quick", device="cpu")


def test_a_folder_that_cannot_be_made_is_one_sentence(
    make: Callable[..., Kept], tmp_path: Path
) -> None:
    (tmp_path / "table").write_text("a file")
    with pytest.raises(RunError, match=r"cannot be made \(Not a directory\); give an --output"):
        make()


@pytest.mark.parametrize("content", ["", "{", '{"task": 1}', "\x00"])
def test_a_damaged_run_is_one_sentence(
    make: Callable[..., Kept], tmp_path: Path, content: str
) -> None:
    make()
    (tmp_path / "table" / "runs" / "cora-0.json").write_text(content)
    with pytest.raises(RunError, match=r"cora-0\.json' is damaged: .*; delete it and run") as no:
        make()
    assert "\n" not in str(no.value)


@pytest.mark.parametrize("content", ["", "{", "\x00"])
def test_damaged_settings_are_one_sentence(
    make: Callable[..., Kept], tmp_path: Path, content: str
) -> None:
    make()
    (tmp_path / "table" / "settings.json").write_text(content)
    with pytest.raises(RunError, match=r"holds something else: .*; give another --output") as no:
        make()
    assert "\n" not in str(no.value)


def test_processes_do_the_work_and_what_fails_there_is_reported(
    loads: Loads, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The only test with processes: they take seconds to start."""

    class Given(Small):
        name = "given"

        def works(self, done: Records, *, quick: bool, searches: int) -> dict[str, TableWork]:
            return {
                f"cora-{lr:g}": GivenWork(
                    task="cora",
                    row="mine",
                    seeds=2,
                    architecture=Architecture(blocks=(BlockSpec(),)),
                    hidden=4,
                    recipe=Recipe(epochs=3, lr=lr),
                )
                for lr in (1e30, 0.01)
            }

    monkeypatch.setitem(TABLES._entries, "given", Given)
    watcher = Kept()
    with pytest.raises(RunError, match=r"^1 part.* 'cora-1e\+30': The loss is no longer finite"):
        reproduce("given", tmp_path / "table", device="cpu", on_done=watcher)
    assert watcher.keys == ["cora-0.01"]
    assert {path.stem for path in (tmp_path / "table" / "runs").iterdir()} == {"cora-0.01"}
    assert torch.initial_seed() == 0, "whatever is random is random elsewhere"


def test_a_row_is_in_the_order_of_splits_and_seeds(leg_of: MakeLeg) -> None:
    done = {
        "d": leg_of("mine", 0.4, split_seed=1, seed=0),
        "c": leg_of("mine", 0.3, split_seed=0, seed=1),
        "b": leg_of("other", 0.9, split_seed=0, seed=0),
        "a": leg_of("mine", 0.9, task="pubmed"),
        "e": leg_of("mine", 0.1, split_seed=0, seed=0),
    }
    assert [leg.test for leg in group(done, "cora", "mine")] == [(0.1,), (0.3,), (0.4,)]
    assert group(done, "citeseer", "mine") == []


def test_a_figure_sums_up_by_hand(leg_of: MakeLeg) -> None:
    one = leg_of("mine", 0.5, 0.7, parameters=1000, search_seconds=10.0, tune_seconds=2.0)
    two = leg_of("mine", 0.7, 0.9, parameters=2000, search_seconds=30.0, tune_seconds=4.0)
    figure = Figure.of([one, two])
    assert figure.scores.mean == pytest.approx(0.7)
    assert figure.scores.std == pytest.approx((0.08 / 3) ** 0.5)
    # The means of the groups are 0.6 and 0.8; t of one degree of freedom is 12.7062.
    assert figure.scores.interval == (0.0, 1.0)
    assert (figure.parameters, figure.choose_seconds, figure.tune_seconds) == (1500, 20, 3)
    assert figure.train_seconds == 2.0 / 4
    assert str(figure) == "70.00 ± 16.33 [0.00, 100.00] (1.5K)"


def test_a_single_training_has_no_interval(leg_of: MakeLeg) -> None:
    assert str(Figure.of([leg_of("mine", 0.5)])) == "50.00 (1.5K)"


@pytest.mark.parametrize("name", ["citation-public", "citation-split", "search-time"])
def test_the_tables_of_this_repository_are_of_the_work_that_there_is_now(name: str) -> None:
    folder = Path(__file__).parents[2] / "benchmarks" / "results" / name
    done = {path.stem: Leg.model_validate_json(path.read_bytes()) for path in folder.glob("runs/*")}
    works = base.TABLES[name]().works(done, quick=False, searches=3)
    assert works.keys() == done.keys()
    assert {key: done[key].work_sha256 for key in works} == {
        key: work.sha256 for key, work in works.items()
    }
