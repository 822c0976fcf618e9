"""Values on a graph of three nodes: 1 -> 0 and 2 -> 0 with two heads, 0 -> 1; node 2 is bare."""

import pytest
import torch
from torch import Tensor

from pdnas.ops import AGGREGATIONS, Adjacency, Dims

EDGES = torch.tensor([[0, 1, 2], [1, 0, 0]])
FEATURES = torch.tensor([[[1.0, -1.0]], [[2.0, 3.0]], [[-4.0, 5.0]]])  # [N, 1, C]
WEIGHTS = torch.tensor([[0.5], [2.0], [-3.0]])  # of 1 -> 0, 2 -> 0 and 0 -> 1

BY_HAND = {
    "sum": [[0.5 * 2 + 2 * -4, 0.5 * 3 + 2 * 5], [-3.0, 3.0], [0.0, 0.0]],
    "mean": [[(1 - 8) / 2, (1.5 + 10) / 2], [-3.0, 3.0], [0.0, 0.0]],
    "max": [[1.0, 10.0], [-3.0, 3.0], [0.0, 0.0]],
}


def aggregate(name: str, weights: Tensor, x: Tensor) -> Tensor:
    op = AGGREGATIONS[name](Dims(2, 2, 2, heads=x.size(1)))
    result: Tensor = op(weights, x, Adjacency.from_edge_index(EDGES, 3))
    return result


def test_there_are_values_for_every_aggregation() -> None:
    assert set(BY_HAND) == set(AGGREGATIONS)


@pytest.mark.parametrize("name", BY_HAND)
def test_values_by_hand(name: str) -> None:
    result = aggregate(name, WEIGHTS, FEATURES)
    torch.testing.assert_close(result, torch.tensor(BY_HAND[name]).unsqueeze(1))


@pytest.mark.parametrize("name", BY_HAND)
def test_a_node_without_neighbors_gets_exactly_zero(name: str) -> None:
    assert aggregate(name, WEIGHTS, FEATURES)[2].tolist() == [[0, 0]]


@pytest.mark.parametrize("name", BY_HAND)
def test_heads_do_not_mix(name: str) -> None:
    weights = torch.cat([WEIGHTS, -WEIGHTS], dim=1)
    x = torch.cat([FEATURES, FEATURES + 1], dim=1)
    result = aggregate(name, weights, x)
    torch.testing.assert_close(result[:, :1], aggregate(name, WEIGHTS, FEATURES))
    torch.testing.assert_close(result[:, 1:], aggregate(name, -WEIGHTS, FEATURES + 1))


def test_a_maximum_of_negative_messages_is_negative() -> None:
    result = aggregate("max", torch.ones(3, 1), -FEATURES.abs())
    assert result.squeeze(1).tolist() == [[-2, -3], [-1, -1], [0, 0]]


@pytest.mark.parametrize("name", BY_HAND)
def test_linear_ones_add_up(name: str) -> None:
    whole = aggregate(name, torch.ones(3, 1), FEATURES)
    parts = aggregate(name, torch.tensor([[0.3], [0.8], [0.5]]), FEATURES)
    parts = parts + aggregate(name, torch.tensor([[0.7], [0.2], [0.5]]), FEATURES)
    assert torch.allclose(whole, parts) == AGGREGATIONS[name].linear
