from dataclasses import dataclass

from pdnas.models.baselines.gcn import GCN


@dataclass
class Cora:
    in_channels: int = 1433
    out_channels: int = 7


def test_gcn_has_the_size_that_its_paper_gives_it() -> None:
    # 16 hidden units, biases included.
    assert GCN.architecture.parameters(Cora(), GCN.hidden) == 1433 * 16 + 16 + 16 * 7 + 7


def test_gcn_says_what_it_is() -> None:
    assert str(GCN.architecture) == (
        "linear, gcn x1, sum, none, bias, relu | linear, gcn x1, sum, none, bias, none"
        " | shortcuts none"
    )
