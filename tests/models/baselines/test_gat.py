from dataclasses import dataclass

from pdnas.models.baselines import BASELINES
from pdnas.models.baselines.gat import GAT


@dataclass
class Cora:
    in_channels: int = 1433
    out_channels: int = 7


def test_gat_has_the_size_that_its_paper_gives_it() -> None:
    # 8 heads of 8 channels, then one head; two attention vectors and a bias in each layer.
    first, last = 1433 * 64 + 3 * 64, 64 * 7 + 3 * 7
    assert GAT.architecture.parameters(Cora(), GAT.hidden) == first + last


def test_gat_says_what_it_is() -> None:
    assert str(GAT.architecture) == (
        "linear, gat x8, sum, none, bias, elu | linear, gat x1, sum, none, bias, none"
        " | shortcuts none"
    )
    assert GAT.architecture.attention_normalization == "softmax"


def test_on_pubmed_there_are_eight_heads_at_the_end() -> None:
    heads = [block.heads for block in BASELINES["gat-pubmed"].architecture.blocks]
    assert heads == [8, 8]
