"""APPNP against PyG's layer with the same weights."""

import torch
from torch import Generator
from torch_geometric.nn import APPNP
from torch_geometric.utils import to_undirected

from pdnas.models.baselines import BASELINES
from pdnas.models.baselines.appnp import Appnp, AppnpNetwork


class Sizes:
    in_channels, out_channels = 5, 3


def test_appnp_is_that_of_pyg(generator: Generator) -> None:
    pairs = torch.randint(14, (2, 40), generator=generator)
    edges = to_undirected(pairs[:, pairs[0] != pairs[1]], num_nodes=15)
    x = torch.randn(15, 5, generator=generator, dtype=torch.float64)
    network = Appnp().build(Sizes, 8).double().eval()
    assert isinstance(network, AppnpNetwork)
    looks = (x @ network.first.weight).relu() @ network.second.weight.t()
    expected = APPNP(K=10, alpha=0.1)(looks, edges)

    # The weights 1 / sqrt(d_i d_j) are single numbers, so seven digits are all there is.
    torch.testing.assert_close(network(x, edges), expected, rtol=1e-6, atol=1e-6)


def test_edges_are_dropped_anew_at_every_step_of_training(tiny_graph: torch.Tensor) -> None:
    x = torch.ones(6, 5)
    network = Appnp(alpha=0.0, steps=2).build(Sizes, 8).train()
    plain = Appnp(alpha=0.0, steps=2, edge_dropout=0.0).build(Sizes, 8)
    plain.load_state_dict(network.state_dict())
    drawn = torch.stack([network(x, tiny_graph)[5, 0] for _ in range(300)])
    # Node 5 has its own loop only: it is kept in both of two steps once in four times, fourfold.
    kept = drawn != 0
    torch.testing.assert_close(drawn[kept] / 4, plain(x, tiny_graph)[5, 0].expand(int(kept.sum())))
    assert 0.15 < kept.double().mean() < 0.35
    assert torch.equal(network.eval()(x, tiny_graph), plain.eval()(x, tiny_graph))


def test_only_the_first_map_decays() -> None:
    network = Appnp().build(Sizes, 8)
    assert isinstance(network, AppnpNetwork)
    assert network.decays() == [(1.0, [network.first.weight]), (0.0, [network.second.weight])]


def test_the_baseline_has_the_size_of_its_paper() -> None:
    baseline = BASELINES["appnp"]
    assert baseline.design == Appnp(steps=10, alpha=0.1, edge_dropout=0.5)
    assert baseline.design.parameters(Sizes, baseline.hidden) == 5 * 64 + 64 * 3
    assert str(baseline.design) == "appnp, steps 10, alpha 0.1, edge dropout 0.5"
