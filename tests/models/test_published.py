"""What published networks share, with the smallest one that there can be."""

import gc
from typing import Literal, Unpack

import pytest
import torch
from torch import Tensor

from pdnas.architecture import Channels
from pdnas.errors import ArchitectureError
from pdnas.models.published import FeatureMap, PerGraph, Published, PublishedNetwork, Rates
from pdnas.ops import SparseFeatures
from pdnas.ops.adjacency import Adjacency
from pdnas.ops.features import BlockInput


class Sizes:
    in_channels, out_channels = 5, 3


class Flat(Published):
    name: Literal["flat"] = "flat"
    how_often: int = 2

    def build(self, task: Channels, hidden: int, **rates: Unpack[Rates]) -> "FlatNetwork":
        return FlatNetwork(task, hidden, **rates)


class FlatNetwork(PublishedNetwork):
    def __init__(self, task: Channels, hidden: int, **rates: Unpack[Rates]) -> None:
        super().__init__(task, hidden, **rates)
        self.map = FeatureMap(task.in_channels, task.out_channels, bias=True)

    def logits(self, x: BlockInput, graph: Adjacency) -> Tensor:
        mapped: Tensor = self.map(x)
        return mapped


def test_its_fields_are_what_is_shown_of_it() -> None:
    assert str(Flat()) == "flat, how often 2"
    assert Flat(how_often=3).table() == [["network", "how often"], ["flat", "3"]]


def test_weights_are_counted_without_memory() -> None:
    assert Flat().parameters(Sizes, 4) == 5 * 3 + 3

    class Huge:
        in_channels, out_channels = 10**9, 10**6

    assert Flat().parameters(Huge, 4) == 10**15 + 10**6


@pytest.mark.parametrize("hidden", [0, -1, 10**7])
def test_a_hidden_size_that_no_network_can_have_is_refused(hidden: int) -> None:
    for ask in (Flat().parameters, Flat().build):
        with pytest.raises(ArchitectureError, match="The hidden size is"):
            ask(Sizes, hidden)


def test_features_are_dropped_in_training_only(tiny_graph: Tensor) -> None:
    network, x = Flat().build(Sizes, 4, input_dropout=0.5), torch.ones(6, 5)
    assert not torch.equal(network(x, tiny_graph), network(x, tiny_graph))
    network.eval()
    assert torch.equal(network(x, tiny_graph), network(x, tiny_graph))
    network.train()
    network.dropout = 0.5
    assert set(network.between(torch.ones(1000)).unique().tolist()) == {0.0, 2.0}


def test_all_weights_decay_as_the_recipe_says_unless_told_otherwise() -> None:
    network = Flat().build(Sizes, 4, feature_weights=True)
    ((share, weights),) = network.decays()
    assert share == 1.0
    assert len(weights) == 3
    assert network.recordable


def test_a_map_reads_sparse_and_dense_features() -> None:
    layer, x = FeatureMap(5, 3, bias=True), torch.randn(6, 5).relu()
    assert layer.bias is not None
    torch.nn.init.normal_(layer.bias)
    expected = x @ layer.weight + layer.bias
    torch.testing.assert_close(layer(x), expected)
    torch.testing.assert_close(layer(SparseFeatures.from_tensor(x)), expected)
    assert FeatureMap(5, 3).bias is None


def test_what_is_computed_of_a_graph_is_forgotten_with_it(tiny_graph: Tensor) -> None:
    asked: list[int] = []

    def edges(graph: Adjacency) -> int:
        asked.append(graph.num_edges)
        return graph.num_edges

    remembered = PerGraph(edges)
    graph = Adjacency.from_edge_index(tiny_graph, 6)
    assert (remembered(graph), remembered(graph), asked) == (8, 8, [8])
    del graph
    gc.collect()
    assert not remembered._made
