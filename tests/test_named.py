"""What names stand for."""

from pathlib import Path

import pytest

from pdnas.errors import ArchitectureError, PdnasError
from pdnas.models.baselines import BASELINES
from pdnas.named import HIDDEN, find_architecture, find_strategy
from pdnas.search.pdnas import PRESETS
from pdnas.training import RECIPES


def test_a_baseline_brings_its_hidden_size_and_its_recipe() -> None:
    baseline = BASELINES["gat"]
    assert find_architecture("gat") == (baseline.design, baseline.hidden, RECIPES["gat"])


@pytest.mark.parametrize("name", ["gcn", "appnp"])
def test_a_design_stands_for_itself(name: str) -> None:
    design = BASELINES[name].design
    assert find_architecture(design) == (design, HIDDEN, RECIPES["default"])


def test_a_file_is_read_wherever_it_lies(tmp_path: Path) -> None:
    BASELINES["gcn"].architecture.save(tmp_path / "mine.json")
    expected = (BASELINES["gcn"].design, HIDDEN, RECIPES["default"])
    assert find_architecture(tmp_path / "mine.json") == expected
    assert find_architecture(str(tmp_path / "mine.json")) == expected


@pytest.mark.parametrize("given", [None, 3, {"blocks": []}, ["gcn"]])
def test_what_is_no_network_is_one_sentence(given: object) -> None:
    with pytest.raises(ArchitectureError, match=r"is no network that can be trained; give a"):
        find_architecture(given)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["nope", "x" * 5000])
def test_an_unknown_name_lists_the_known_ones(name: str) -> None:
    with pytest.raises(PdnasError, match=r"Unknown baseline .*a \.json file, a run directory"):
        find_architecture(name)


@pytest.mark.parametrize("name", ["a\0b", "a\0b.json", "a\ud800.json"])
def test_what_no_file_can_be_called_is_one_sentence(name: str) -> None:
    with pytest.raises(PdnasError, match=r"Unknown baseline|cannot be a path"):
        find_architecture(name)


def test_a_strategy_has_the_settings_of_its_preset() -> None:
    assert find_strategy("pdnas", "paper", changes={}) == PRESETS["paper"]
    with pytest.raises(PdnasError, match="only the strategy 'pdnas' has presets"):
        find_strategy("random", "paper", changes={})
