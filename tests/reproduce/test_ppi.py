"""The table of the protein graphs: what is done, in which order, and what is said of it."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.reproduce.conftest import MakeLeg

from pdnas.architecture import Architecture
from pdnas.models.baselines import BASELINES
from pdnas.reproduce import base, ppi
from pdnas.reproduce.base import TABLES, reproduce
from pdnas.reproduce.ppi import (
    FOUND,
    GIVEN,
    MAX_PARAMETERS,
    QUICK,
    ROWS,
    WHOLE,
    WIDTHS,
    Ppi,
    Scale,
    plain,
)
from pdnas.reproduce.work import GivenWork, HeatWork, Leg, SearchedWork, TableWork
from pdnas.space import INDUCTIVE
from pdnas.tasks import GraphTask
from pdnas.training import RECIPES
from pdnas.tuning.pieces import PieceWatcher

NOTE = "reconstructed labels"


class Proteins:
    """The sizes of the protein graphs."""

    in_channels = 50
    out_channels = 121


def works(done: dict[str, Leg], *, searches: int = 1, quick: bool = False) -> dict[str, TableWork]:
    return Ppi().works(done, quick=quick, searches=searches)


def chosen(leg_of: MakeLeg, row: str, val: float, blocks: int, hidden: int = 512) -> Leg:
    """What a search or a heat comes to."""
    return leg_of(
        row,
        task="ppi",
        choice_val=val,
        architecture=plain(blocks),
        hidden=hidden,
        recipe=RECIPES["inductive"].changed(epochs=40),
        search_seconds=10.0,
        note=NOTE,
    )


def searched(leg_of: MakeLeg, row: str, *, searches: int = 1) -> dict[str, Leg]:
    """All searches of a row; deeper networks are better, and so are later searches."""
    return {
        f"{row}-search-{depth}-{seed}": chosen(
            leg_of, f"{row}, search", depth / 10 + seed / 100, depth, hidden=100 + seed
        )
        for depth in WIDTHS
        for seed in range(searches)
    }


def heated(leg_of: MakeLeg, row: str) -> dict[str, Leg]:
    """All heats of a row; three blocks are the best."""
    return {
        f"{row}-heat-{depth}": chosen(leg_of, f"{row}, heat", 1 - abs(depth - 3) / 10, depth)
        for depth in WIDTHS
    }


def final(leg_of: MakeLeg, row: str, *test: float, **about: Any) -> dict[str, Leg]:
    return {
        f"{row}-{seed}": leg_of(row, value, task="ppi", seed=seed, note=NOTE, **about)
        for seed, value in enumerate(test)
    }


def test_baselines_and_searches_of_every_depth_come_first() -> None:
    made = works({})
    finals = {key for key, work in made.items() if isinstance(work, GivenWork)}
    assert finals == {f"{row}-{seed}" for row in GIVEN for seed in range(3)}
    searches = {key: work for key, work in made.items() if isinstance(work, SearchedWork)}
    assert set(searches) == {f"{row}-search-{depth}-0" for row in FOUND for depth in WIDTHS}
    assert set(made) == finals | set(searches)
    for key, work in searches.items():
        job = work.job
        job.check()
        assert key == f"{job.strategy.name}-search-{job.blocks[0]}-0"
        assert (job.space, job.hidden) == (INDUCTIVE, (WIDTHS[job.blocks[0]],))
        assert job.max_parameters == MAX_PARAMETERS
        assert job.recipe.epochs < 100, "networks are chosen by short trainings"
        assert work.seeds == 0, "a search ends with a choice"


def test_baselines_are_trained_by_their_own_recipes() -> None:
    made = works({})
    for row, name in GIVEN.items():
        work = made[f"{row}-0"]
        assert isinstance(work, GivenWork)
        assert work.architecture == BASELINES[name].design
        assert (work.hidden, work.recipe) == (BASELINES[name].hidden, RECIPES[name])
    seeds = {made[f"gat-{seed}"].final_seeds() for seed in range(3)}
    assert len(seeds) == 3


def test_the_best_search_of_each_depth_is_trained_longer(leg_of: MakeLeg) -> None:
    done = searched(leg_of, "pdnas", searches=2)
    assert not [key for key in works(dict([*done.items()][:1]), searches=2) if "heat" in key]
    made = works(done, searches=2)
    heats = {key: work for key, work in made.items() if isinstance(work, HeatWork)}
    assert set(heats) == {f"pdnas-heat-{depth}" for depth in WIDTHS}
    for depth in WIDTHS:
        work = heats[f"pdnas-heat-{depth}"]
        assert (work.architecture, work.hidden) == (plain(depth), 101), "of the second search"
        assert work.recipe.epochs == WHOLE.heat_epochs
    assert "pdnas-0" not in made


def test_the_best_of_the_heats_is_trained_to_the_end_with_every_seed(leg_of: MakeLeg) -> None:
    done = searched(leg_of, "pdnas") | heated(leg_of, "pdnas")
    del done["pdnas-heat-2"]
    assert "pdnas-0" not in works(done)
    made = works(searched(leg_of, "pdnas") | heated(leg_of, "pdnas"))
    for seed in range(3):
        work = made[f"pdnas-{seed}"]
        assert isinstance(work, GivenWork)
        assert not isinstance(work, HeatWork)
        assert work.architecture == plain(3)
        assert work.recipe == RECIPES["inductive"].changed(epochs=WHOLE.epochs)
    assert "graphnas-0" not in made
    heat = made["pdnas-heat-3"]
    assert not {*heat.final_seeds()} & {*made["pdnas-0"].final_seeds()}


@pytest.mark.parametrize("depth", WIDTHS)
def test_what_searches_begin_with_is_in_the_space_and_fits(depth: int) -> None:
    assert INDUCTIVE.plain(plain(depth)) in INDUCTIVE
    size = plain(depth).parameters(Proteins, WIDTHS[depth])
    assert size <= MAX_PARAMETERS
    assert depth == 2 or size > 0.95 * MAX_PARAMETERS, "room is left"


def test_the_baselines_have_the_sizes_that_are_known_of_them() -> None:
    sizes = {row: BASELINES[GIVEN[row]] for row in ("gat", "sage")}
    counts = {row: one.design.parameters(Proteins, one.hidden) for row, one in sizes.items()}
    assert round(counts["gat"] / 1e6, 1) == 3.1
    assert round(counts["sage"] / 1e6, 2) == 2.19


def test_the_table_has_the_papers_figures_and_ours_with_the_note(leg_of: MakeLeg) -> None:
    done = {
        **searched(leg_of, "pdnas"),
        **heated(leg_of, "pdnas"),
        **final(leg_of, "pdnas", 0.994, 0.996, parameters=2_000_000, architecture=plain(3)),
        **final(leg_of, "sage", 0.99, 0.992, architecture=BASELINES["sage-ppi"].design),
    }
    text = Ppi().markdown(done)
    assert "| PDNAS, the paper | 4 | 99.27 ± 0.03, released labels | - | 3 | 2.39 M |" in text
    assert "test F1 (micro, %, reconstructed labels)" in text
    assert "validation (%, reconstructed labels)" in text
    assert "| pdnas | 3 | 99.50 ± 0.14 | 99.50 ± 0.14 | 2 | 2,000,000 | 1.0 | 80.0 |" in text
    assert "| sage | 4 | 99.10 ± 0.14 |" in text
    assert "test F1 99.50 %, reconstructed labels with 2,000,000 parameters" in text
    assert "at most 2,390,000: reached." in text
    assert "pdnas is ahead of sage." in text
    assert "Not done: gat, lgcn" in text


@pytest.mark.parametrize(
    ("test", "parameters", "rival", "said"),
    [
        (0.9926, 2_000_000, 0.5, ["at most 2,390,000: missed.", "ahead of sage."]),
        (0.9928, 2_400_000, 0.5, ["at most 2,390,000: missed.", "ahead of sage."]),
        (0.9928, 2_000_000, 0.9928, ["reached.", "behind or level with sage: missed."]),
    ],
)
def test_a_miss_is_called_one(
    test: float, parameters: int, rival: float, said: list[str], leg_of: MakeLeg
) -> None:
    done = {
        **final(leg_of, "pdnas", test, parameters=parameters, architecture=plain(3)),
        **final(leg_of, "sage", rival),
    }
    text = Ppi().markdown(done)
    assert all(part in text for part in said)


def test_without_figures_there_is_a_table_too() -> None:
    text = Ppi().markdown({})
    assert "pdnas: not done." in text
    assert "reconstructed" not in text


def test_the_picture_has_a_row_for_each_network(leg_of: MakeLeg, tmp_path: Path) -> None:
    Ppi().draw(final(leg_of, "gat", 0.97, 0.98), tmp_path / "picture.svg")
    drawn = (tmp_path / "picture.svg").read_text()
    for part in ("PPI, reconstructed labels", "PDNAS, the paper", "gat"):
        assert f">{part}<" in drawn or f"<!-- {part} -->" in drawn


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch, rings: GraphTask, here: None) -> Scale:
    """The table on the rings, with works of a moment in this process."""
    task = replace(rings, source=replace(rings.source, name="ppi", note=NOTE))
    monkeypatch.setattr(base, "load_task", lambda *_, **__: task)
    scale = QUICK._replace(widths={2: 8}, width=4)
    monkeypatch.setattr(ppi, "QUICK", scale)
    return scale


class Told(PieceWatcher[Leg]):
    """Who is told of every piece."""

    def __init__(self) -> None:
        self.keys: list[str] = []

    def done(self, key: str, outcome: Leg) -> None:
        self.keys.append(key)


def test_from_end_to_end_and_gone_on_with(small: Scale, tmp_path: Path) -> None:
    def make() -> list[str]:
        told, folder = Told(), tmp_path / "table"
        reproduce("ppi", folder, quick=True, seeds=2, device="cpu", on_done=told)
        return told.keys

    keys = make()
    assert {f"{row}-{seed}" for row in ROWS for seed in (0, 1)} <= set(keys)
    assert keys.index("pdnas-search-2-0") < keys.index("pdnas-heat-2") < keys.index("pdnas-0")
    text = (tmp_path / "table" / "table.md").read_text()
    assert all(f"| {row} |" in text for row in ROWS)
    assert NOTE in text
    assert "missed" in text
    (tmp_path / "table" / "runs" / "lgcn-1.json").unlink()
    assert make() == ["lgcn-1"]
    stored = Leg.model_validate_json((tmp_path / "table" / "runs" / "pdnas-0.json").read_bytes())
    assert isinstance(stored.architecture, Architecture)
    assert (len(stored.test), stored.note) == (1, NOTE)
    heat = Leg.model_validate_json((tmp_path / "table" / "runs" / "pdnas-heat-2.json").read_bytes())
    assert (heat.test, heat.val) == ((), ())
    assert heat.choice_val is not None


def test_the_table_is_found_by_its_name() -> None:
    assert TABLES["ppi"] is Ppi
    assert Ppi().seeds == 3


def test_nothing_reads_the_test_part_before_the_end(
    small: Scale, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[GraphTask] = []

    def read_test(_network: object, task: GraphTask) -> float:
        read.append(task)
        return 0.5

    monkeypatch.setattr("pdnas.tuning.work.read_test", read_test)
    reproduce("ppi", tmp_path / "table", quick=True, seeds=1, device="cpu")
    assert len(read) == len(ROWS)
