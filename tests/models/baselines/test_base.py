import dataclasses

import pytest

from pdnas.architecture import Architecture
from pdnas.errors import ArchitectureError, UnknownNameError
from pdnas.models.baselines import BASELINES, Baseline, block_designs
from pdnas.models.baselines.base import BASELINES as BASE

OF_BLOCKS = {"gat", "gcn", "grand", "jknet-concat", "mlp", "sage"}
OTHERS = {
    "appnp",
    "gcnii",
    "jknet-dense",
    "jknet-lstm",
    "jknet-max",
    "lgcn",
    "sage-lstm",
    "sage-max",
}


def test_every_file_registers_its_networks() -> None:
    assert BASELINES is BASE
    assert {name for name in BASELINES if BASELINES[name].of is None} == OF_BLOCKS | OTHERS


@pytest.mark.parametrize("name", BASELINES)
def test_a_baseline_is_a_fixed_value(name: str) -> None:
    baseline = BASELINES[name]
    assert isinstance(baseline, Baseline)
    with pytest.raises(dataclasses.FrozenInstanceError):
        baseline.hidden = 1  # type: ignore[misc]


@pytest.mark.parametrize("name", sorted(OF_BLOCKS - {"mlp"}))
def test_baselines_of_blocks_hear_neighbors_of_neighbors(name: str) -> None:
    assert sum(block.propagation for block in BASELINES[name].architecture.blocks) >= 2


OTHERWISE = {"gat-ppi", "sage-ppi"}
"""Baselines that hear their input by a skip, for which blocks have no place."""


def test_settings_for_one_graph_say_of_which_baseline_they_are() -> None:
    for name in BASELINES:
        whole = BASELINES[name].of
        if whole is not None:
            assert name.startswith(f"{whole}-")
            alike = type(BASELINES[name].design) is type(BASELINES[whole].design)
            assert alike == (name not in OTHERWISE)


def test_candidates_of_a_search_are_made_of_blocks_and_hear_neighbors() -> None:
    designs = block_designs()
    assert all(isinstance(design, Architecture) for design in designs)
    assert designs == [BASELINES[name].design for name in BASELINES if name in OF_BLOCKS - {"mlp"}]


def test_what_is_not_made_of_blocks_has_no_architecture() -> None:
    with pytest.raises(ArchitectureError, match="The network 'gcnii' is not made of blocks"):
        BASELINES["gcnii"].architecture  # noqa: B018


def test_a_slip_of_the_pen_names_the_nearest_baseline() -> None:
    with pytest.raises(UnknownNameError, match=r"Unknown baseline 'gatt'.*did you mean 'gat'\?"):
        BASELINES["gatt"]
