from dataclasses import dataclass

from pdnas.models.baselines.sage import SAGE


@dataclass
class Cora:
    in_channels: int = 1433
    out_channels: int = 7


def test_sage_has_a_map_for_neighbors_and_one_for_the_node() -> None:
    first, last = 2 * 1433 * 64 + 64, 2 * 64 * 7 + 7
    assert SAGE.architecture.parameters(Cora(), SAGE.hidden) == first + last


def test_sage_says_what_it_is() -> None:
    assert str(SAGE.architecture) == (
        "linear, const x1, mean, root, bias, relu | linear, const x1, mean, root, bias, none"
        " | shortcuts none"
    )
