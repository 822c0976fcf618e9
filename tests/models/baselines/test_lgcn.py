"""LGCN against its definition, node by node."""

import pytest
import torch
from torch import Generator, Tensor

from pdnas.models.baselines import BASELINES
from pdnas.models.baselines.lgcn import LearnableLayer, Lgcn, LgcnNetwork, largest_neighbors
from pdnas.ops.adjacency import Adjacency


class Sizes:
    in_channels, out_channels = 5, 3


def slow(x: Tensor, edges: Tensor, count: int) -> Tensor:
    """The definition: sort each neighborhood, channel by channel."""
    found = torch.zeros(len(x), count, x.size(1), dtype=x.dtype)
    for node in range(len(x)):
        values = x[edges[0, edges[1] == node]].sort(dim=0, descending=True).values[:count]
        found[node, : len(values)] = values
    return found


def test_the_largest_of_three_neighbors() -> None:
    edges = torch.tensor([[1, 2, 3], [0, 0, 0]])
    x = torch.tensor([[9.0, 9.0], [1.0, -1.0], [3.0, -3.0], [2.0, -2.0]])
    found = largest_neighbors(x, Adjacency.from_edge_index(edges, 4), 2)
    assert found[0].tolist() == [[3.0, -1.0], [2.0, -2.0]]
    assert not found[1:].any()


@pytest.mark.parametrize("count", [1, 3, 8, 12])
def test_neighborhoods_of_all_sizes_are_sorted(count: int, generator: Generator) -> None:
    # Node n has about n neighbors: none, few, and more than any table is wide at first.
    targets = torch.arange(40).repeat_interleave(torch.arange(40))
    sources = torch.randint(40, targets.shape, generator=generator)
    x = torch.randn(40, 3, generator=generator, dtype=torch.float64, requires_grad=True)
    edges = torch.stack([sources, targets])
    found = largest_neighbors(x, Adjacency.from_edge_index(edges, 40), count)
    expected = slow(x, edges, count)
    torch.testing.assert_close(found, expected)
    grads = [torch.autograd.grad(one.square().sum(), x)[0] for one in (found, expected)]
    torch.testing.assert_close(*grads)


@pytest.mark.parametrize("largest", [1, 2, 5, 8])
def test_two_convolutions_leave_one_row(
    largest: int, tiny_graph: Tensor, generator: Generator
) -> None:
    layer = LearnableLayer(6, 4, largest).double()
    x = torch.randn(6, 6, generator=generator, dtype=torch.float64)
    rows = torch.cat([x.unsqueeze(1), slow(x, tiny_graph, largest)], dim=1)  # [N, 1 + k, C]
    first, second = layer.first.weight, layer.second.weight  # [O, I, width]
    assert layer.first.bias is not None
    height, width = first.size(2), second.size(2)
    halves = [
        torch.einsum("nhc,och->no", rows[:, start : start + height], first) + layer.first.bias
        for start in range(largest + 2 - height)
    ]
    assert len(halves) == width
    read = torch.einsum("nhc,och->no", torch.stack(halves, dim=1), second)
    expected = (read - read.mean(0)) / (read.var(0, unbiased=False) + 1e-5).sqrt()
    for mode in (True, False):
        layer.train(mode)
        torch.testing.assert_close(layer(x, Adjacency.from_edge_index(tiny_graph, 6)), expected)


def test_what_a_layer_gives_stands_beside_what_it_read() -> None:
    network = Lgcn(layers=3, channels=4).build(Sizes, 10)
    assert isinstance(network, LgcnNetwork)
    assert [layer.first.in_channels for layer in network.layers] == [10, 14, 18]  # type: ignore[union-attr]
    assert network.last.in_channels == 22


def test_the_settings_of_the_paper_are_per_graph() -> None:
    found = {name: BASELINES[name].design for name in BASELINES if name.startswith("lgcn")}
    assert {name: one.layers for name, one in found.items() if isinstance(one, Lgcn)} == {
        "lgcn": 2,
        "lgcn-citeseer": 1,
        "lgcn-pubmed": 1,
        "lgcn-ppi": 2,
    }
