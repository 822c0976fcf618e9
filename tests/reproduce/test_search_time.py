"""Table 3: the paper's seconds, ours, and what they are compared with."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pdnas.job import Job
from pdnas.reproduce import TABLES, reproduce, search_time
from pdnas.reproduce.base import TASKS
from pdnas.reproduce.search_time import ARCHITECTURES, CONTROLS, SearchTime
from pdnas.reproduce.work import Leg, SearchedWork
from pdnas.search.graphnas import GraphNas
from pdnas.space import SPACES
from pdnas.training import Recipe

MakeLeg = Callable[..., Leg]
Loads = list[dict[str, Any]]

RANDOM = "random, same cost as pdnas"
RIVALS = ("", "-graphnas")


def cells(text: str, row: str) -> list[list[str]]:
    """The cells of every row of a table that begins so."""
    lines = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    return [line[1:] for line in lines if line[0] == row]


def test_the_seconds_of_the_paper_are_quoted() -> None:
    text = SearchTime().markdown({})
    assert cells(text, "seconds") == [["Cora", "CiteSeer", "PubMed"]]
    assert cells(text, "GraphNAS, the paper") == [["11323", "16333", "26174"]]
    assert cells(text, "PDNAS, the paper") == [["5012", "6044", "10634"]]


def test_what_is_not_done_is_a_dash() -> None:
    text = SearchTime().markdown({})
    assert cells(text, "pdnas: search, candidates and choice") == [["-", "-", "-"]]
    assert cells(text, "pdnas") == [["-", "-", "-"]]


def test_ours_are_means_over_searches(leg_of: MakeLeg) -> None:
    done = {
        "a": leg_of("pdnas", 0.5, 0.7, search_seconds=10.0, val=(0.6, 0.6)),
        "b": leg_of("pdnas", 0.5, 0.7, seed=1, search_seconds=20.0, val=(0.6, 0.6)),
        "c": leg_of(RANDOM, 0.5, task="pubmed", search_seconds=7.0),
        "d": leg_of("gcn, recipe of pdnas", 0.5, 0.5, task="citeseer", train_seconds=5.0),
    }
    text = SearchTime().markdown(done)
    assert cells(text, "pdnas: search, candidates and choice") == [["15.0", "-", "-"]]
    assert cells(text, f"{RANDOM}: random search in that time") == [["-", "-", "7.0"]]
    assert cells(text, "gcn, recipe of pdnas: one training of a GCN") == [["-", "2.5", "-"]]
    # Twice 0.5 and 0.7: the standard deviation is that of 4 values, 0.2 / sqrt(3).
    assert cells(text, "pdnas") == [["60.00 ± 0.00, 60.00 ± 11.55", "-", "-"]]


def test_the_default_search_of_the_paper_space_is_timed() -> None:
    works = SearchTime().works({}, quick=False, searches=2)
    keys = [f"{task}-{seed}{rival}" for seed in (0, 1) for task in TASKS for rival in RIVALS]
    assert list(works) == keys
    for key, work in works.items():
        assert isinstance(work, SearchedWork)
        strategy = GraphNas(epochs=ARCHITECTURES) if "graphnas" in key else Job().strategy
        assert work.job == Job(space=SPACES["paper"], strategy=strategy)
        assert (work.seeds, work.trials) == (3, 0)
    assert [work.seed for work in works.values()] == [0] * 6 + [1] * 6


def test_it_says_when_the_default_search_was_as_good_as_graphnas(leg_of: MakeLeg) -> None:
    ours = {
        f"p{seed}": leg_of("pdnas", 0.5, seed=seed, curve=((4.0 + seed, 0.6), (9.0, 0.8)))
        for seed in (0, 1)
    }
    theirs = {
        f"g{seed}": leg_of(
            "graphnas", 0.55, seed=seed, curve=((20.0, 0.5), (45.0, 0.7)), search_seconds=90.0
        )
        for seed in (0, 1)
    }
    text = SearchTime().markdown({**ours, **theirs})
    row = "pdnas was as good as graphnas after"
    assert cells(text, row) == [
        ["4.5 s, 20.0 times sooner than its answer; it had one after 45.0 s", "-", "-"]
    ]
    assert cells(SearchTime().markdown(ours), row) == [["-", "-", "-"]]


def test_quick_is_a_short_search() -> None:
    work, rival, *_ = SearchTime().works({}, quick=True, searches=1).values()
    assert isinstance(rival, SearchedWork)
    assert rival.job.strategy == GraphNas(epochs=4)
    assert isinstance(work, SearchedWork)
    assert (work.job.strategy.epochs, work.job.recipe) == (20, Recipe(epochs=30))
    assert (work.job.candidates, work.job.mutations, work.seeds) == (2, 0, 2)


def test_the_table_is_made_of_searches(
    here: None, loads: Loads, tiny_job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search_time, "Job", lambda **_: tiny_job)
    table = reproduce("search-time", tmp_path / "table", quick=True, device="cpu")
    assert isinstance(table, TABLES["search-time"])
    names = ("", "-random", "-gcn", "-gat", "-graphnas")
    files = {path.stem for path in (tmp_path / "table" / "runs").iterdir()}
    assert files == {f"{task}-0{name}" for task in TASKS for name in names}
    assert CONTROLS == ("random", "gcn", "gat")
    text = (tmp_path / "table" / "table.md").read_text()
    for row, about in search_time.ROWS.items():
        ((*seconds,),) = cells(text, f"{row}: {about}")
        assert all(float(value) >= 0 for value in seconds)
        assert len(cells(text, row)[0]) == 3
    assert "**Quick**" in text
    assert "<svg" in (tmp_path / "table" / "picture.svg").read_text()


def test_the_picture_has_the_paper_s_seconds_and_ours(
    leg_of: MakeLeg, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[Any] = []
    monkeypatch.setattr(search_time, "dots", lambda *what, **how: drawn.append((what, how)))
    SearchTime().draw({"a": leg_of("pdnas", 0.5, search_seconds=10.0)}, Path("a.svg"))
    (((panels, _, path), how),) = drawn
    assert (path, how) == (Path("a.svg"), {"log": True})
    paper = [("GraphNAS, the paper", 11323.0, 0.0), ("PDNAS, the paper", 5012.0, 0.0)]
    assert panels["Cora"] == [*paper, ("pdnas", 10.0, 0.0)]
    assert [len(panel) for panel in panels.values()] == [3, 2, 2]
