"""GraphSAGE against PyG's layers with the same weights, where PyG reads all neighbors."""

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Generator, Tensor
from torch_geometric.nn import SAGEConv

from pdnas.models import GraphBlock
from pdnas.models.baselines import BASELINES
from pdnas.models.baselines.sage import SAGE, ResidualSage, Sage, draw_neighbors
from pdnas.ops.adjacency import Adjacency


@dataclass
class Cora:
    in_channels: int = 1433
    out_channels: int = 7


class Sizes:
    in_channels, out_channels = 8, 3


@pytest.fixture
def ring() -> Tensor:
    """12 nodes, each of which hears the three that follow it."""
    nodes = torch.arange(12)
    edges = torch.stack([torch.stack([(nodes + step) % 12, nodes]) for step in (1, 2, 3)], dim=2)
    return edges.flatten(1)  # sorted by target, as PyG wants it


def test_sage_has_a_map_for_neighbors_and_one_for_the_node() -> None:
    first, last = 2 * 1433 * 64 + 64, 2 * 64 * 7 + 7
    assert SAGE.architecture.parameters(Cora(), SAGE.hidden) == first + last


def test_sage_says_what_it_is() -> None:
    assert str(SAGE.architecture) == (
        "linear, const x1, mean, root, bias, relu | linear, const x1, mean, root, bias, none"
        " | shortcuts none"
    )


def test_the_maximum_is_that_of_pyg(ring: Tensor, generator: Generator) -> None:
    x = torch.randn(12, 8, generator=generator, dtype=torch.float64)
    network: Any = Sage(aggregator="max").build(Sizes, 8).double()
    first = SAGEConv(8, 8, aggr="max", project=True).double()
    weights = {
        "lin.weight": network.projection.weight.t(),
        "lin.bias": network.projection.bias,
        "lin_l.weight": network.first.lin_l.weight,
        "lin_l.bias": network.first.lin_l.bias,
        "lin_r.weight": network.root.weight.t(),
    }
    first.load_state_dict(weights)
    expected = network.second(first(x, ring).relu(), ring)
    torch.testing.assert_close(network(x, ring), expected)


def test_the_lstm_is_that_of_pyg(ring: Tensor, generator: Generator) -> None:
    x = torch.randn(12, 8, generator=generator, dtype=torch.float64)
    network: Any = Sage(aggregator="lstm").build(Sizes, 8).double().eval()
    with torch.no_grad():
        network.projection.weight.copy_(torch.eye(8))
    first, second = (SAGEConv(8, width, aggr="lstm").double() for width in (8, 3))
    roots = (network.root.weight.t(), network.second_root.weight)
    for layer, ours, root in zip(
        (first, second), (network.first, network.second), roots, strict=True
    ):
        layer.aggr_module.lstm.load_state_dict(ours.lstm.state_dict())
        layer.lin_l.load_state_dict(ours.map.state_dict())
        layer.lin_r.load_state_dict({"weight": root})
    expected = second(first(x, ring).relu(), ring)
    torch.testing.assert_close(network(x, ring), expected)


def test_the_last_neighbor_s_state_counts_however_many_there_are(generator: Generator) -> None:
    edges = torch.tensor([[1, 2, 3, 2], [0, 0, 0, 1]])
    x = torch.randn(4, 8, generator=generator, dtype=torch.float64)
    layer: Any = Sage(aggregator="lstm").build(Sizes, 8).double().eval()
    layer = layer.first
    heard = layer(x, Adjacency.from_edge_index(edges, 4))
    for node, neighbors in ((0, [1, 2, 3]), (1, [2])):
        _, (last, _) = layer.lstm(x[neighbors].unsqueeze(0))
        torch.testing.assert_close(heard[node], layer.map(last[0, 0]))
    assert torch.equal(heard[2:], layer.map(torch.zeros(2, 8, dtype=torch.float64)))


def test_neighbors_are_the_first_ones_or_drawn_without_repetition(ring: Tensor) -> None:
    graph = Adjacency.from_edge_index(ring, 12)
    table, count = draw_neighbors(graph, 2, shuffled=False)
    assert count.tolist() == [2] * 12
    assert table[0].tolist() == [1, 2]
    seen = set()
    for _ in range(100):
        table, _ = draw_neighbors(graph, 2, shuffled=True)
        seen.add(tuple(table[0].tolist()))
        ahead = (table - torch.arange(12).unsqueeze(1)) % 12
        assert ((ahead >= 1) & (ahead <= 3)).all()
    assert seen == {(i, j) for i in (1, 2, 3) for j in (1, 2, 3) if i != j}
    table, count = draw_neighbors(graph, 5, shuffled=True)
    assert count.tolist() == [3] * 12
    assert sorted(table[0, :3].tolist()) == [1, 2, 3]


def test_the_baselines_hear_neighbors_in_three_ways() -> None:
    assert BASELINES["sage-max"].design == Sage(aggregator="max")
    assert BASELINES["sage-lstm"].design == Sage(aggregator="lstm", neighbors=10)
    assert {BASELINES[name].hidden for name in ("sage", "sage-max", "sage-lstm")} == {64}


def test_residual_layers_are_added_to_what_they_read(ring: Tensor) -> None:
    network = ResidualSage(layers=2).build(Sizes(), 4)
    graph, x = Adjacency.from_edge_index(ring, 12), torch.randn(12, 8)
    flow = network.first(x)
    for layer in network.layers:
        flow = flow + layer(flow, graph)
    torch.testing.assert_close(network(x, graph), network.last(flow))
    for layer in network.layers:
        assert isinstance(layer, GraphBlock)
        torch.nn.init.zeros_(layer.norm.get_parameter("scale"))
    torch.testing.assert_close(network(x, graph), network.last(network.first(x)))
