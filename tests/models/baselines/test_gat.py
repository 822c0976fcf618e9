from dataclasses import dataclass

import pytest
import torch
import torch.nn.functional as F

from pdnas.errors import ArchitectureError
from pdnas.models.baselines import BASELINES
from pdnas.models.baselines.gat import GAT, SkipGat


@dataclass
class Cora:
    in_channels: int = 1433
    out_channels: int = 7


class Sizes:
    in_channels, out_channels = 5, 4


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


def test_heads_at_the_end_have_maps_of_their_own_and_every_layer_hears_its_input() -> None:
    design = SkipGat(layers=2, heads=2, last_heads=3)
    maps = 5 * 8 + 8 * 3 * 4
    vectors = 2 * 8 + 2 * 3 * 4
    skips = (5 + 1) * 8 + (8 + 1) * 4
    assert design.parameters(Sizes(), 8) == maps + vectors + skips


def test_without_edges_the_heads_at_the_end_are_averaged() -> None:
    network = SkipGat(layers=2, heads=2, last_heads=3).build(Sizes(), 8)
    x = torch.randn(4, 5)
    alone = network(x, torch.empty(2, 0, dtype=torch.long))  # each node hears itself, with weight 1
    inner = F.elu(network.maps[0](x) + network.skips[0](x))
    heads = network.maps[1](inner).view(4, 3, 4)
    torch.testing.assert_close(alone, heads.mean(dim=1) + network.skips[1](inner))


def test_heads_must_divide_the_hidden_size() -> None:
    with pytest.raises(ArchitectureError, match=r"size is 10, but 4 heads share it; give a mult"):
        SkipGat().build(Sizes(), 10)
