"""GCNII against its formula, written with dense matrices."""

import math

import pytest
import torch
from torch import Generator, Tensor
from torch_geometric.utils import to_undirected

from pdnas.models.baselines import BASELINES
from pdnas.models.baselines.gcnii import Gcnii, GcniiNetwork


class Sizes:
    in_channels, out_channels = 5, 3


def normalized(edges: Tensor, nodes: int) -> Tensor:
    adjacency = torch.eye(nodes, dtype=torch.float64)
    adjacency[edges[1], edges[0]] = 1
    scale = adjacency.sum(1).rsqrt()
    return scale[:, None] * adjacency * scale


@pytest.mark.parametrize("layers", [1, 3])
def test_gcnii_is_its_formula(layers: int, generator: Generator) -> None:
    pairs = torch.randint(14, (2, 40), generator=generator)
    edges = to_undirected(pairs[:, pairs[0] != pairs[1]], num_nodes=15)
    x = torch.randn(15, 5, generator=generator, dtype=torch.float64)
    network = Gcnii(layers=layers, alpha=0.2, strength=0.7).build(Sizes, 8).double().eval()
    assert isinstance(network, GcniiNetwork)
    step, named = normalized(edges, 15), dict(network.named_parameters())
    flow = start = (x @ named["first.weight"] + named["first.bias"]).relu()
    for layer in range(layers):
        mixed = 0.8 * step @ flow + 0.2 * start
        beta = math.log(0.7 / (layer + 1) + 1)
        flow = ((1 - beta) * mixed + beta * mixed @ named[f"layers.{layer}.weight1"]).relu()
    expected = flow @ named["last.weight"].t() + named["last.bias"]

    # The weights 1 / sqrt(d_i d_j) are single numbers, so seven digits are all there is.
    torch.testing.assert_close(network(x, edges), expected, rtol=1e-6, atol=1e-6)


def test_maps_and_layers_decay_apart_and_all_weights_decay() -> None:
    network = Gcnii(layers=2).build(Sizes, 8, feature_weights=True)
    (deep_share, deep), (map_share, maps) = network.decays()
    assert (deep_share, map_share) == (1.0, 0.05)
    assert {*map(id, deep), *map(id, maps)} == {id(weight) for weight in network.parameters()}
    assert len(deep) == 3
    assert len(maps) == 4


def test_the_settings_of_the_paper_are_per_graph() -> None:
    found = {name: BASELINES[name] for name in BASELINES if name.startswith("gcnii")}
    assert {name: one.hidden for name, one in found.items()} == {
        "gcnii": 64,
        "gcnii-citeseer": 256,
        "gcnii-pubmed": 256,
    }
    designs = [one.design for one in found.values()]
    assert [one.layers for one in designs if isinstance(one, Gcnii)] == [64, 32, 16]
    assert [one.of for one in found.values()] == [None, "gcnii", "gcnii"]
    assert designs[0].parameters(Sizes, 64) == 5 * 64 + 64 + 64 * 64 * 64 + 64 * 3 + 3
