"""Table 2: the paper's figures, ours, and the works that they come from."""

from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from pdnas.job import Job
from pdnas.models.baselines import BASELINES
from pdnas.reproduce import citation_public, reproduce
from pdnas.reproduce.citation_public import (
    CONTROLS,
    PAPER,
    PLAIN,
    ROWS,
    STARTS,
    CitationPublic,
)
from pdnas.reproduce.work import GivenWork, Leg, SearchedWork, TableWork
from pdnas.space import SPACES
from pdnas.training import RECIPES, Recipe

MakeLeg = Callable[..., Leg]
Loads = list[dict[str, Any]]

FOUND = "pdnas, paper space"


def cells(text: str, row: str) -> list[list[str]]:
    """The cells of every row of a table that begins so."""
    lines = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    return [line[1:] for line in lines if line[0] == row]


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ("GAT, as the paper quotes it", ["83.0 ± 0.7", "72.5 ± 0.7", "79.0 ± 0.3"]),
        ("GraphNAS, as the paper quotes it", ["84.2 ± 1.0", "73.1 ± 0.9", "79.6 ± 0.4"]),
        ("AGNN, as the paper quotes it", ["83.6 ± 0.3", "73.8 ± 0.7", "79.7 ± 0.4"]),
        ("PDNAS, the paper", ["84.5 ± 0.6", "73.5 ± 0.3", "79.7 ± 0.6"]),
    ],
)
def test_the_figures_of_the_paper_are_quoted(row: str, expected: list[str]) -> None:
    text = CitationPublic().markdown({})
    assert cells(text, "test accuracy in %") == [["Cora", "CiteSeer", "PubMed"]]
    assert cells(text, row) == [expected]
    assert len(PAPER) == 4


def test_ours_are_summed_up_over_searches(leg_of: MakeLeg) -> None:
    about = {
        "search_seconds": 100.0,
        "tune_seconds": 50.0,
        "train_seconds": 3.0,
        "val": (0.85, 0.85),
    }
    done = {
        "a": leg_of(FOUND, 0.80, 0.82, **about),
        "b": leg_of(FOUND, 0.80, 0.82, seed=1, **about),
        "c": leg_of("gcn", 0.5, task="pubmed"),
    }
    text = CitationPublic().markdown(done)
    # Both searches have the mean 0.81: the interval is a point.
    ours, seconds, val = cells(text, FOUND)
    assert ours == ["81.00 ± 1.15 [81.00, 81.00] (1.5K)", "-", "-"]
    assert seconds == ["100, 50, 1.5", "-", "-"]
    assert val == ["85.00 ± 0.00", "-", "-"]
    gcn = ["50.00 (1.5K)", "0, 0, 1.0", "50.00"]
    assert cells(text, "gcn") == [["-", "-", cell] for cell in gcn]
    assert cells(text, "gat") == [], "rows of which nothing is done are left out"


def test_a_plain_network_of_each_space_is_tuned_first() -> None:
    works = CitationPublic().works({}, quick=False, searches=3)
    starts = [f"{task}-{space}-start" for task in ("pubmed", "citeseer", "cora") for space in PLAIN]
    assert list(works)[:6] == starts
    assert not any(isinstance(work, SearchedWork) for work in works.values())
    for key in starts:
        task, space, _ = key.split("-")
        work = works[key]
        assert isinstance(work, GivenWork)
        assert (work.task, work.row) == (task, STARTS[space])
        assert work.architecture == PLAIN[space]
        assert work.architecture in SPACES[space]
        assert work.recipe == RECIPES["consistency"].changed(patience=100)
        assert (work.seeds, work.trials, work.patience) == (10, 16, 200)


def test_gcn_and_gat_are_trained_with_their_own_recipes() -> None:
    works = CitationPublic().works({}, quick=False, searches=3)
    for task in ("cora", "citeseer", "pubmed"):
        for name in ("gcn", "gat"):
            work, baseline = works[f"{task}-{name}"], BASELINES[name]
            assert isinstance(work, GivenWork)
            assert (work.task, work.row, work.seeds, work.trials) == (task, name, 10, 0)
            assert (work.architecture, work.hidden) == (baseline.architecture, baseline.hidden)
            assert work.recipe == RECIPES[name]


def test_two_spaces_are_searched_with_the_recipes_tuned_for_plain_networks(leg_of: MakeLeg) -> None:
    table = CitationPublic()
    done = all_done(leg_of, table.works({}, quick=False, searches=3))
    tuned = RECIPES["consistency"].changed(lr=0.07)
    done = {key: leg.model_copy(update={"recipe": tuned}) for key, leg in done.items()}
    works = table.works(done, quick=False, searches=3)
    found = {key: work for key, work in works.items() if isinstance(work, SearchedWork)}
    assert len(found) == 3 * 3 * 2
    for key, work in found.items():
        task, space, seed = key.split("-")
        assert (work.task, work.seed, work.row) == (task, int(seed), f"pdnas, {space} space")
        assert work.job.space == SPACES[space]
        assert work.job.recipe == tuned.changed(patience=100)
        assert (work.seeds, work.trials) == (10, 10)
        assert work.patience == (None if space == "paper" else 200)
        assert (work.job.candidates, work.job.mutations, work.job.repeats) == (6, 8, 4)
        assert work.job.incumbents == (PLAIN[space],)
        assert work.teachers == (4 if space == "paper" else 0)


def test_who_had_teachers_is_said(leg_of: MakeLeg) -> None:
    taught = Recipe(teachers=3)
    done = {"a": leg_of("gcn", 0.5), "b": leg_of("pdnas, paper space", 0.5, recipe=taught)}
    text = CitationPublic().markdown(done)
    assert "of each final training: `pdnas, paper space` 3; all others have none.\n" in text
    del done["b"]
    assert "Teachers of each final training: none.\n" in CitationPublic().markdown(done)


def test_a_search_that_is_done_is_compared(leg_of: MakeLeg) -> None:
    works = everything(leg_of, searches=2)
    for task in ("cora", "citeseer", "pubmed"):
        for seed in range(2):
            for space, names in CONTROLS.items():
                key = f"{task}-{space}-{seed}"
                assert {other for other in works if other.startswith(f"{key}-")} == {
                    f"{key}-{name}" for name in names
                }
                assert works[f"{key}-random"].seed == seed
    assert {"random"} == set(CONTROLS["paper"])
    assert {"random", "gcn", "gat", "grand"} == set(CONTROLS["extended"])


def everything(leg_of: MakeLeg, *, searches: int, quick: bool = False) -> dict[str, TableWork]:
    """All works, found as they are found when each is done in its turn."""
    table, works, known = CitationPublic(), dict[str, TableWork](), -1
    while len(works) > known:
        known = len(works)
        works = table.works(all_done(leg_of, works), quick=quick, searches=searches)
    return works


def all_done(leg_of: MakeLeg, works: dict[str, TableWork]) -> dict[str, Leg]:
    return {
        key: leg_of(work.row, 0.5, task=work.task, seed=work.seed) for key, work in works.items()
    }


def test_every_row_of_the_table_has_a_work(leg_of: MakeLeg) -> None:
    assert {work.row for work in everything(leg_of, searches=1).values()} == set(ROWS)


def test_quick_is_short(leg_of: MakeLeg) -> None:
    given = CitationPublic().works({}, quick=True, searches=1)
    for work in given.values():
        assert isinstance(work, GivenWork)
        assert (work.seeds, work.recipe.epochs) == (2, 30)
    gat = given["cora-gat"]
    assert isinstance(gat, GivenWork)
    assert gat.recipe == RECIPES["gat"].changed(epochs=30)
    for work in everything(leg_of, searches=1, quick=True).values():
        assert (work.seeds, work.trials <= 1) == (2, True)
        if isinstance(work, SearchedWork):
            assert (work.job.candidates, work.job.mutations) == (2, 1)
            assert work.job.strategy.epochs == 20


def test_the_table_is_made_once(
    here: None, loads: Loads, tiny_job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def job(space: str, *_: object, **__: object) -> Job:
        return tiny_job.model_copy(update={"space": SPACES[space]})

    monkeypatch.setattr(citation_public, "_job", job)
    folder = tmp_path / "table"
    reproduce("citation-public", folder, quick=True, device="cpu", only=["cora"])
    files = {path.stem for path in (folder / "runs").iterdir()}
    found = {"extended": "cora-extended-0", "paper": "cora-paper-0"}
    compared = {f"{found[space]}-{name}" for space, names in CONTROLS.items() for name in names}
    given = {"cora-gcn", "cora-gat", "cora-paper-start", "cora-extended-start"}
    assert files == {*found.values(), *compared, *given}
    text = (folder / "table.md").read_text()
    for row in ROWS:
        accuracy, seconds, val = cells(text, row)
        assert accuracy[1:] == seconds[1:] == val[1:] == ["-", "-"]
        assert 0 <= float(accuracy[0].split()[0]) <= 100
        assert 0 <= float(val[0].split()[0]) <= 100
    drawn = {"".join(node.itertext()) for node in ET.parse(folder / "picture.svg").iter()}
    assert drawn >= {*PAPER, *ROWS, "Cora", "CiteSeer", "PubMed"}
    monkeypatch.setattr(GivenWork, "do", None)
    monkeypatch.setattr(SearchedWork, "do", None)
    reproduce("citation-public", folder, quick=True, device="cpu", only=["cora"])
    assert (folder / "table.md").read_text() == text
