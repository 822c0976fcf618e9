"""A grid that is searched side by side comes to what one process finds, whatever dies meanwhile."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.conftest import Here
from tests.tuning.conftest import Open

from pdnas.errors import DivergedError, RunError, SearchError
from pdnas.job import Cell, Job
from pdnas.pipeline import search
from pdnas.pipeline.ledger import Ledger
from pdnas.pipeline.searches import Searches
from pdnas.runs import HISTORY, SETTINGS, Result, RunDirectory
from pdnas.search.pdnas import PRESETS
from pdnas.settings import WorkerFlags
from pdnas.space import SPACES
from pdnas.tasks import GraphTask
from pdnas.training import Recipe
from pdnas.tuning import cells
from pdnas.tuning.cells import CELLS, CellWork, GridSearcher
from pdnas.tuning.folders import Folders
from pdnas.watcher import Watcher, Watchers

JOB = Job(
    strategy=PRESETS["default"].changed(pool=4, adapted=1, adapt_epochs=1).lasting(3),
    recipe=Recipe(epochs=4, patience=4, batching="full"),
    blocks=(1, 2),
    hidden=(3, 4),
    seeds=1,
    candidates=2,
    controls=("gcn",),
)

Find = Callable[..., Result]


class Found(Watcher):
    """Remembers the cells that others searched."""

    def __init__(self) -> None:
        self.cells: list[Cell] = []

    def found(self, cell: Cell) -> None:
        self.cells.append(cell)


@pytest.fixture(autouse=True)
def _measured_in_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pdnas.pipeline.plan.TIMED", 1)
    monkeypatch.setattr("pdnas.tuning.place.LocalExecutor", Here)


@pytest.fixture
def find(tiny_task: GraphTask) -> Find:
    """Searches in a run, new or begun, as one process or with workers."""

    def run(
        path: Path,
        workers: WorkerFlags | None = None,
        job: Job = JOB,
        watcher: Watcher | None = None,
    ) -> Result:
        known = path.exists()
        run = RunDirectory(path) if known else RunDirectory.create(path, "test")
        if not known:
            run.write_json(SETTINGS, {"command": "search"})
        searcher = None
        if workers is not None:
            searcher = GridSearcher(workers, run, device=torch.device("cpu"), threads=1)
        return search(tiny_task, job, device="cpu", run=run, searcher=searcher, watcher=watcher)

    return run


def timeless(value: Any) -> Any:
    """The same without the times."""
    if isinstance(value, dict):
        return {k: timeless(v) for k, v in value.items() if not k.endswith("seconds")}
    return [*map(timeless, value)] if isinstance(value, list) else value


def kept(path: Path, result: Result) -> list[Any]:
    """A result and a history."""
    lines = (path / HISTORY).read_text().splitlines()
    return [timeless(result.model_dump(mode="json")), *(timeless(json.loads(x)) for x in lines)]


def test_workers_come_to_what_one_process_finds(find: Find, tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    watcher = Found()
    expected = kept(one, find(one))
    assert kept(two, find(two, WorkerFlags(workers=2), watcher=Watchers(watcher))) == expected
    shapes = [(cell.num_blocks, cell.hidden) for cell in watcher.cells]
    assert shapes == [(1, 3), (1, 4), (2, 3), (2, 4)]
    assert not (one / CELLS).exists()
    assert sorted(path.name for path in (two / CELLS).iterdir()) == [
        f"blocks-{blocks}-hidden-{hidden}" for blocks, hidden in shapes
    ]


def test_a_shape_that_no_network_has_is_left_out(find: Find, tmp_path: Path) -> None:
    small = {"space": SPACES["paper"], "hidden": (1, 64), "max_parameters": 60, "controls": ()}
    job = JOB.model_copy(update=small)
    watcher = Found()
    find(tmp_path / "run", WorkerFlags(workers=2), job, watcher)
    assert {cell.hidden for cell in watcher.cells} == {1}


@pytest.mark.parametrize("moment", [1, 2, 3, 5])
def test_a_grid_that_was_stopped_comes_to_the_same_end(
    find: Find, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: int
) -> None:
    """What is searched is not searched again; the fifth moment is while cells are written down."""
    expected = kept(tmp_path / "whole", find(tmp_path / "whole"))
    run, workers, begun = tmp_path / "run", WorkerFlags(workers=1), 0
    record, searched = Ledger.record, Searches.search

    def count(self: Searches, number: int) -> None:
        nonlocal begun
        begun += 1
        if begun == moment:
            raise KeyboardInterrupt
        searched(self, number)

    def die(self: Ledger, lines: Any, **update: Any) -> None:
        if moment == 5 and lines and len(update.get("cells", ())) == 2:
            assert self.run is not None
            self.run.append_history(lines)
            raise KeyboardInterrupt
        record(self, lines, **update)

    with monkeypatch.context() as patch:
        patch.setattr(Searches, "search", count)
        patch.setattr(Ledger, "record", die)
        with pytest.raises(KeyboardInterrupt):
            find(run, workers)
    monkeypatch.setattr(Searches, "search", count)
    before, moment = begun, 0
    assert kept(run, find(run, workers)) == expected
    assert begun - before == {1: 4, 2: 3, 3: 2, 4: 0}[min(before, 4)]


def test_a_search_that_fails_is_one_sentence_and_the_others_are_kept(
    find: Find, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workers = WorkerFlags(workers=2, trial_timeout=600)
    run, do = tmp_path / "run", CellWork.do

    def fail(self: CellWork, *arguments: Any) -> dict[str, Any]:
        if self.job.hidden == (4,):
            raise DivergedError("The loss is gone.")
        return do(self, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(CellWork, "do", fail)
        with pytest.raises(RunError) as refused:
            find(run, workers)
    assert str(refused.value) == (
        "2 of 4 searches failed, the first of them with 1 block(s) and hidden size 4: The loss is "
        f"gone; what is done is kept: go on with pdnas resume {run}, and a larger --trial-timeout "
        "if that was too short."
    )
    expected = kept(tmp_path / "whole", find(tmp_path / "whole"))
    assert kept(run, find(run, workers)) == expected


def test_processes_that_share_a_search_cannot_have_others_do_it(
    find: Find, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pdnas.pipeline.whole.world", lambda: 2)
    with pytest.raises(SearchError, match="Several processes share this search already; leave out"):
        find(tmp_path / "run", WorkerFlags(workers=2))


@pytest.mark.ray
@pytest.mark.parametrize("shared", [True, False], ids=["shared", "apart"])
def test_a_cluster_comes_to_what_one_process_finds(
    find: Find,
    open_ray: Open,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    shared: bool,
) -> None:
    """Where it sees the run's folder, and where histories have to travel."""
    monkeypatch.setattr(cells, "open_executor", lambda *_, **__: open_ray())
    if not shared:
        offer, token = Folders.offer, tmp_path / "elsewhere"
        monkeypatch.setattr(
            Folders, "offer", lambda self, path: replace(offer(self, path), token=token)
        )
    one, two = tmp_path / "one", tmp_path / "two"
    assert kept(two, find(two, WorkerFlags(executor="ray"))) == kept(one, find(one))
    assert all((folder / SETTINGS).is_file() for folder in (two / CELLS).iterdir())
    assert len([*(two / CELLS).iterdir()]) == 4
