"""Table 4: the paper's figures, ours, the stages of the work, and the paired margin."""

from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
import torch
from torch_geometric.data import Data

from pdnas.job import Job
from pdnas.models.baselines import Baseline
from pdnas.models.baselines.jknet import jknet_concat
from pdnas.pipeline import grid
from pdnas.reproduce import citation_split, reproduce
from pdnas.reproduce.base import TASKS
from pdnas.reproduce.citation_split import DEPTHS, ROWS, CitationSplit
from pdnas.reproduce.work import GivenWork, Leg, SearchedWork
from pdnas.tasks import GraphTask
from pdnas.training import Recipe
from pdnas.watcher import Watcher

MakeLeg = Callable[..., Leg]
Loads = list[dict[str, Any]]

TUNED = {"jknet-32": 0.1, "jknet-64": 0.2, "pdnas": 0.3}
"""Learning rates by which the tuned recipes are told apart."""

PAPER = {
    "jknet-32": """
        89.28 48.30 88.54 17.67 75.49 120.74
        88.35 49.35 87.89 18.72 73.68 121.80
        87.99 50.41 87.30 19.78 72.63 122.85
        87.99 51.46 86.99 20.84 72.08 123.91
        87.92 52.52 86.97 21.89 72.78 124.97
        88.10 53.58 86.86 22.95 72.23 126.02
    """,
    "jknet-64": """
        89.28 98.63 88.65 37.38 75.34 243.53
        88.17 102.79 87.95 41.54 74.13 247.69
        87.98 106.95 87.40 45.70 72.78 251.85
        87.98 111.11 87.29 49.86 72.18 256.01
        87.80 115.27 87.18 54.02 72.28 260.17
        88.11 119.43 87.24 58.18 71.73 264.33
    """,
    "pdnas": """
        89.34 48.06 89.14 18.21 76.29 119.65
        89.34 50.22 89.14 20.35 75.54 123.59
        89.77 51.29 89.25 25.67 75.64 125.00
        89.53 57.66 89.24 29.58 75.99 129.97
        89.53 61.93 89.24 32.43 75.74 131.40
        89.65 68.65 89.24 42.31 75.54 141.64
    """,
}
"""Accuracy and size on Cora, PubMed and CiteSeer, in this order, as the paper prints them."""


KINDS = ("one split", "splits")


def cells(text: str, row: str) -> list[str]:
    """The cells of the row of a table that begins so."""
    lines = [line.removeprefix("| ").removesuffix(" |").split(" | ") for line in text.splitlines()]
    return next(line[1:] for line in lines if line[0] == row)


@pytest.fixture
def tuned(leg_of: MakeLeg) -> dict[str, Leg]:
    """The recipes of cora are tuned."""
    return {
        row: leg_of(f"{row}, tuned", 0.5, split_seed=0, recipe=Recipe(lr=lr))
        for row, lr in TUNED.items()
    }


@pytest.mark.parametrize("name", PAPER)
def test_the_figures_of_the_paper_are_quoted(name: str) -> None:
    text = CitationSplit().markdown({})
    for depth, line in zip(DEPTHS, PAPER[name].strip().splitlines(), strict=True):
        figures = [float(value) for value in line.split()]
        cora, pubmed, citeseer = (tuple(figures[place : place + 2]) for place in (0, 2, 4))
        quoted = [f"-; paper {val} ({size}K)" for val, size in (cora, citeseer, pubmed)]
        assert cells(text, f"{name}, {depth}")[::2] == quoted
    heads = [f"{task}: {kind}" for task in ("Cora", "CiteSeer", "PubMed") for kind in KINDS]
    assert cells(text, "model") == heads


def test_ours_stand_beside_the_paper_s(leg_of: MakeLeg) -> None:
    done = {
        "a": leg_of("jknet-32, 3 layers, one split", 0.5, split_seed=0),
        "b": leg_of("jknet-32, 3 layers", 0.6, split_seed=0),
        "c": leg_of("jknet-32, 3 layers", 0.6, split_seed=1),
        "d": leg_of("pdnas, 3 blocks, one split", 0.7, split_seed=0),
        "e": leg_of("pdnas", 0.8, split_seed=0, task="pubmed"),
        "f": leg_of("gcn, recipe of pdnas", 0.4, split_seed=0, task="citeseer"),
    }
    text = CitationSplit().markdown(done)
    assert cells(text, "jknet-32, 3")[:2] == [
        "50.00 (1.5K); paper 88.35 (49.35K)",
        "60.00 ± 0.00 [60.00, 60.00] (1.5K)",
    ]
    assert cells(text, "pdnas, 3")[0] == "70.00 (1.5K); paper 89.34 (50.22K)"
    assert cells(text, "pdnas, each split")[1::2] == ["-", "-", "80.00 (1.5K)"]
    assert cells(text, "gcn, recipe of pdnas, each split")[1::2] == ["-", "40.00 (1.5K)", "-"]


def test_how_often_networks_are_trained_on_each_split_is_said(leg_of: MakeLeg) -> None:
    done = {
        "a": leg_of("jknet-64, 3 layers", 0.5, split_seed=0),
        "b": leg_of("pdnas", 0.5, 0.6, 0.7, split_seed=0),
        "c": leg_of("pdnas, tuned", 0.5, 0.6, split_seed=0),
    }
    assert "Trainings on each split: jknet-64 1, pdnas 3.\n" in CitationSplit().markdown(done)
    assert "Trainings on each split: none yet.\n" in CitationSplit().markdown({})


def test_the_margin_is_paired_split_by_split(leg_of: MakeLeg) -> None:
    ours = [(0.80, 0.82), (0.70, 0.72), (0.90, 0.92)]
    done = {f"p{n}": leg_of("pdnas", *test, split_seed=n) for n, test in enumerate(ours)}
    for number, test in enumerate([0.80, 0.69, 0.88]):
        done[f"j{number}"] = leg_of("jknet-64, 3 layers", test, split_seed=number)
        done[f"k{number}"] = leg_of("jknet-32, 2 layers", 0.1, split_seed=number)
    # The differences are 1, 2 and 3 points: the mean is 2, half the interval 4.302653 / sqrt(3).
    assert citation_split._margin(done, "cora") == (
        "Cora: pdnas is 2.00 points ahead of jknet-64, 3 layers, the best of them on test, paired "
        "over 3 splits, 95 % interval of the difference -0.48 to +4.48.\n"
    )
    assert citation_split._margin(done, "pubmed") == "PubMed: not done."
    text = CitationSplit().markdown(done)
    assert "Cora: pdnas is 2.00 points" in text
    assert "CiteSeer: not done." in text


def test_of_one_split_the_margin_has_no_width(leg_of: MakeLeg) -> None:
    done = {
        "a": leg_of("pdnas", 0.5, split_seed=0),
        "b": leg_of("jknet-32, 2 layers", 0.75, split_seed=0),
    }
    margin = citation_split._margin(done, "cora")
    assert "pdnas is 25.00 points behind jknet-32, 2 layers" in margin
    assert "interval of the difference -25.00 to -25.00." in margin


def test_first_the_recipes_are_tuned() -> None:
    works = CitationSplit().works({}, quick=False, searches=3)
    names = ("jknet-32", "jknet-64", "pdnas")
    assert set(works) == {f"{task}-{name}-tuned" for task in TASKS for name in names}
    for work in works.values():
        assert isinstance(work, SearchedWork | GivenWork)
        assert (work.trials, work.seeds, work.split_seed) == (20, 1, None)


def test_then_every_depth_is_trained_and_searched_on_one_split(tuned: dict[str, Leg]) -> None:
    table = CitationSplit()
    works = {
        key: work
        for key, work in table.works(tuned, quick=False, searches=3).items()
        if key not in table.works({}, quick=False, searches=3)
    }
    assert {work.task for work in works.values()} == {"cora"}, "the others have no recipe yet"
    found = {key: work for key, work in works.items() if isinstance(work, SearchedWork)}
    given = {key: work for key, work in works.items() if isinstance(work, GivenWork)}
    assert set(found) == {f"cora-pdnas-{d}-one-{seed}" for d in DEPTHS for seed in range(3)}
    for work in found.values():
        assert (work.seeds, work.trials, work.split_seed) == (3, 0, None)
        assert work.job.recipe.lr == TUNED["pdnas"]
        (depth,) = work.job.blocks
        assert work.row == f"pdnas, {depth} blocks, one split"
        assert work.rival == Baseline(jknet_concat(2), 64), "the smallest JKNet-64"
        assert (work.job.mutations, work.job.repeats) == (8, 1)
    assert len(given) == 2 * 6 * (10 + 1)
    for key, each in given.items():
        assert each.recipe.lr == TUNED[f"jknet-{each.hidden}"]
        assert each.architecture == jknet_concat(int(key.split("-")[3]))
        assert each.seeds == (3 if key.endswith("-one") else 1)
        assert each.split_seed == 0 or not key.endswith("-one")
    assert {each.split_seed for each in given.values()} == set(range(10))


@pytest.mark.parametrize(("features", "classes"), [(1433, 7), (3703, 6), (500, 3)])
def test_at_every_depth_some_network_is_small_enough(features: int, classes: int) -> None:
    y = torch.arange(classes).repeat(6)
    edges = torch.stack([torch.arange(len(y)), torch.arange(len(y)).roll(1)])
    data = Data(x=torch.ones(len(y), features), edge_index=edges, y=y)
    task = GraphTask.from_data(data, name="cora", split="random", split_seed=0)
    widths = {}
    for depth in DEPTHS:
        job = citation_split._job(depth, Recipe(), quick=False)
        work = SearchedWork(task="cora", row="found", job=job, rival=citation_split.RIVAL)
        (widths[depth],) = work.job_on(task).hidden
        (problem,) = grid(work.job_on(task), task, Watcher())
        assert problem.parameters(problem.smallest) <= jknet_concat(2).parameters(task, 64)
    assert widths[2] == 64
    assert widths[7] == 32


def test_last_the_best_depth_on_validation_is_searched_on_every_split(
    tuned: dict[str, Leg], leg_of: MakeLeg
) -> None:
    table, done = CitationSplit(), dict(tuned)
    vals = {2: 0.7, 3: 0.9, 4: 0.8, 5: 0.1, 6: 0.1, 7: 0.1}
    for depth, val in vals.items():
        assert not any("split" in key for key in searches_of(table, done)), "some are not done"
        row = f"pdnas, {depth} blocks, one split"
        done[row] = leg_of(row, 1.0 - val, split_seed=0, val=(val,))
    last = {key: work for key, work in searches_of(table, done).items() if "split" in key}
    assert set(last) == {f"cora-pdnas-split-{split}" for split in range(10)}
    for split, work in enumerate(last.values()):
        assert (work.split_seed, work.row, work.seeds) == (split, "pdnas", 3)
        assert work.job.blocks == (3,), "the best on validation, not on test"
        assert (work.job.mutations, work.job.repeats) == (8, 4)
    key = "cora-pdnas-split-4"
    done[key] = leg_of("pdnas", 0.5, split_seed=4, search_seconds=9.0)
    works = table.works(done, quick=False, searches=1)
    compared = {other: work for other, work in works.items() if other.startswith(f"{key}-")}
    assert set(compared) == {f"{key}-{name}" for name in ("random", "gcn", "gat")}
    assert {work.split_seed for work in compared.values()} == {4}
    assert {work.row for work in compared.values()} == {*ROWS} - {"pdnas"}


def searches_of(table: CitationSplit, done: dict[str, Leg]) -> dict[str, SearchedWork]:
    works = table.works(done, quick=False, searches=1)
    return {key: work for key, work in works.items() if isinstance(work, SearchedWork)}


def test_a_depth_is_chosen_by_the_mean_over_searches(leg_of: MakeLeg) -> None:
    def leg(depth: int, seed: int, val: float) -> Leg:
        return leg_of(f"pdnas, {depth} blocks, one split", 0.5, seed=seed, val=(val,))

    done = {"a": leg(2, 0, 0.9), "b": leg(2, 1, 0.5), "c": leg(3, 0, 0.8)}
    assert citation_split._best_depth(done, "cora", (2, 3), 2) == 0, "a search is missing"
    done["d"] = leg(3, 1, 0.7)
    assert citation_split._best_depth(done, "cora", (2, 3), 2) == 3
    assert citation_split._best_depth(done, "pubmed", (2, 3), 2) == 0


def test_the_stages_follow_each_other(
    here: None, loads: Loads, tiny_job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def job(depth: int, recipe: Recipe, **_: object) -> Job:
        return tiny_job.model_copy(update={"recipe": recipe, "blocks": (depth,)})

    order: list[str] = []
    finish = SearchedWork.finish

    def spy(self: SearchedWork, *others: Any, **rest: Any) -> dict[str, Any]:
        order.append(self.row)
        return finish(self, *others, **rest)

    monkeypatch.setattr(citation_split, "_job", job)
    monkeypatch.setattr(citation_split, "Recipe", lambda **_: Recipe(epochs=2))
    monkeypatch.setattr(GivenWork, "finish", spy)
    monkeypatch.setattr(SearchedWork, "finish", spy)
    folder = tmp_path / "table"
    reproduce("citation-split", folder, quick=True, device="cpu", only=["cora"])
    stages = [
        "tuned" if "tuned" in row else "one" if "one split" in row else "splits" for row in order
    ]
    assert stages[:3] == ["tuned"] * 3
    assert "tuned" not in stages[3:]
    assert order.index("pdnas") > max(
        place for place, row in enumerate(order) if row.startswith("pdnas, ") and "one" in row
    )
    files = {path.stem for path in (folder / "runs").iterdir()}
    expected = {f"cora-{name}-tuned" for name in TUNED}
    expected |= {f"cora-pdnas-{depth}-one-0" for depth in (2, 3)}
    names = ("", "-random", "-gcn", "-gat")
    expected |= {f"cora-pdnas-split-{split}{name}" for split in (0, 1) for name in names}
    for width in (32, 64):
        for depth in (2, 3):
            expected |= {f"cora-jknet-{width}-{depth}-split-{split}" for split in (0, 1)}
            expected.add(f"cora-jknet-{width}-{depth}-one")
    assert files == expected
    sums = {
        Leg.model_validate_json(path.read_bytes()).split_sha256
        for path in (folder / "runs").glob("*-split-1.json")
    }
    assert len(sums) == 1, "all of them on the same second split"
    text = (folder / "table.md").read_text()
    assert "paired over 2 splits" in text
    assert "**Quick**" in text
    drawn = {"".join(node.itertext()) for node in ET.parse(folder / "picture.svg").iter()}
    assert drawn >= {"pdnas", "random, same cost as pdnas", "jknet-32, 2 layers", "Cora"}
    before, order[:] = text, []
    reproduce("citation-split", folder, quick=True, device="cpu", only=["cora"])
    assert (folder / "table.md").read_text() == before
    assert order == [], "what is done is not done again"
