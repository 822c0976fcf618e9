import dataclasses

import pytest

from pdnas.errors import UnknownNameError
from pdnas.models.baselines import BASELINES, Baseline
from pdnas.models.baselines.base import BASELINES as BASE


def test_every_file_registers_its_network() -> None:
    assert BASELINES is BASE
    assert sorted(BASELINES) == ["gat", "gcn", "grand", "jknet-concat", "sage"]


@pytest.mark.parametrize("name", BASELINES)
def test_a_baseline_is_a_fixed_value_that_hears_neighbors_of_neighbors(name: str) -> None:
    baseline = BASELINES[name]
    assert isinstance(baseline, Baseline)
    assert sum(block.propagation for block in baseline.architecture.blocks) >= 2
    with pytest.raises(dataclasses.FrozenInstanceError):
        baseline.hidden = 1  # type: ignore[misc]


def test_a_slip_of_the_pen_names_the_nearest_baseline() -> None:
    with pytest.raises(UnknownNameError, match=r"Unknown baseline 'gatt'.*did you mean 'gat'\?"):
        BASELINES["gatt"]
