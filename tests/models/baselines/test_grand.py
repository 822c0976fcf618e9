"""GRAND against plain layers on features that have travelled."""

import pytest
import torch
from torch import Generator, Tensor
from torch_geometric.utils import to_undirected

from pdnas.models import GraphNetwork
from pdnas.models.baselines import BASELINES
from pdnas.models.baselines.grand import grand
from pdnas.space import SPACES

NODES = 15


class Sizes:
    in_channels, out_channels = 5, 3


def travelled(x: Tensor, edges: Tensor, order: int) -> Tensor:
    """The mean of the powers of the normalized adjacency, as dense matrices."""
    adjacency = torch.eye(NODES, dtype=x.dtype)
    adjacency[edges[1], edges[0]] = 1
    scale = adjacency.sum(1).rsqrt()
    step = scale[:, None] * adjacency * scale
    powers = [torch.linalg.matrix_power(step, k) @ x for k in range(order + 1)]
    return torch.stack(powers).mean(0)


@pytest.mark.parametrize("order", [2, 4, 8])
def test_grand_is_a_network_of_two_layers_on_travelled_features(
    order: int, generator: Generator
) -> None:
    pairs = torch.randint(NODES, (2, 40), generator=generator)
    edges = to_undirected(pairs[:, pairs[0] != pairs[1]])
    x = torch.randn(NODES, 5, generator=generator, dtype=torch.float64)
    network = GraphNetwork(grand(order), Sizes, 8).double().eval()
    for weight in network.parameters():
        torch.nn.init.normal_(weight, generator=generator)
    named = dict(network.named_parameters())
    first, second = (named[f"blocks.{number}.transform.weight"] for number in (0, 1))
    hidden = travelled(x, edges, order) @ first + named["blocks.0.bias"]
    expected = hidden.relu() @ second + named["blocks.1.bias"]

    # The weights 1 / sqrt(d_i d_j) are single numbers, so seven digits are all there is.
    torch.testing.assert_close(network(x, edges), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("order", [2, 4, 8])
@pytest.mark.parametrize("norm", ["none", "batch"])
def test_every_grand_is_in_the_extended_space(order: int, norm: str) -> None:
    space = SPACES["extended"]
    assert space.plain(grand(order, norm)) in space
    assert grand(order, norm).blocks[0].norm == norm
    assert space.plain(grand(order, norm)) not in SPACES["paper"]


def test_the_baseline_is_of_an_order_between_those_of_the_paper() -> None:
    assert BASELINES["grand"].architecture == grand(4)
    assert BASELINES["grand"].hidden == 32
