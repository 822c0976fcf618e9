"""Values on a graph of three nodes, worked out by hand from the paper's table."""

from math import exp, sqrt, tanh
from typing import Any

import pytest
import torch
from torch import Generator, Tensor

from pdnas.ops import ATTENTIONS, Adjacency, Dims
from pdnas.ops.attention import Normalization, inner
from pdnas.ops.heads import Heads

# Edges 1 -> 0, 2 -> 0 and 0 -> 1, in the adjacency's order; node 2 has no neighbors.
EDGES = torch.tensor([[0, 1, 2], [1, 0, 0]])

# Features and vectors of two heads of two channels each. With one head only the first is used.
FEATURES = torch.tensor(
    [[[1.0, 1], [1, -1]], [[0, 2], [1, 1]], [[-3, 1], [2, 2]]], dtype=torch.float64
)
VECTORS = {
    "at_target": [[1.0, -2], [1, 1]],  # inner products with nodes 0, 1, 2: -1 -4 -5 and 0 2 4
    "at_source": [[2.0, 1], [0, 1]],  # 3 2 -5 and -1 1 2
    "at_sum": [[1.0, -0.5], [2, 1]],
}

SCORES: dict[str, tuple[list[float], list[float]]] = {
    # LeakyReLU(t_i + s_j): of 1, -6 and -1; of 1, 2 and 1
    "gat": ([1, -1.2, -0.2], [1, 2, 1]),
    # and of t_j + s_i: of -1, -2 and 1; of 1, 3 and 1
    "sym-gat": ([1 - 0.2, -1.2 - 0.4, -0.2 + 1], [1 + 1, 2 + 3, 1 + 1]),
    # 2 h_i0 h_j0 - 2 h_i1 h_j1; h_i1 h_j1
    "cos": ([-4, -6 - 2, -4], [-1, -2, -1]),
    # tanh s_j
    "linear": ([tanh(2), tanh(-5), tanh(3)], [tanh(1), tanh(2), tanh(-1)]),
    # of (1, 0), (-5, -1) and (2, -3); of (1, 0), (1, 1) and (1, 0)
    "gene-linear": (
        [tanh(1), tanh(-5) + 0.5 * tanh(1), tanh(2) + 0.5 * tanh(3)],
        [2 * tanh(1), 2 * tanh(1) + tanh(1), 2 * tanh(1)],
    ),
}
# The literal form sums s_j over the neighborhood: 2 - 5 and 3; 1 + 2 and -1.
LITERAL = {**SCORES, "linear": ([tanh(-3), tanh(-3), tanh(3)], [tanh(3), tanh(3), tanh(-1)])}

LEARNED = list(SCORES)


def softmax(scores: list[float]) -> list[float]:
    """Over the two edges of node 0 and the one of node 1."""
    first, second, _ = scores
    total = exp(first) + exp(second)
    return [exp(first) / total, exp(second) / total, 1.0]


@pytest.fixture
def graph() -> Adjacency:
    return Adjacency.from_edge_index(EDGES, 3)


def attention(name: str, heads: int, normalization: Normalization) -> Any:
    op = ATTENTIONS[name](Dims(2, 2 * heads, 2, heads=heads), normalization).double()
    with torch.no_grad():
        for vector, weight in op.named_parameters():
            weight.copy_(torch.tensor(VECTORS[vector][:heads]))
    return op


def test_the_learned_kinds_are_the_five_of_the_table() -> None:
    assert {name for name in ATTENTIONS if ATTENTIONS[name].learned} == set(LEARNED)
    assert {name for name in ATTENTIONS if not ATTENTIONS[name].learned} == {"const", "gcn"}


@pytest.mark.parametrize("heads", [1, 2])
@pytest.mark.parametrize("name", LEARNED)
def test_softmax_weights_by_hand(name: str, heads: int, graph: Adjacency) -> None:
    weights = attention(name, heads, "softmax")(FEATURES[:, :heads], graph)
    expected = [softmax(scores) for scores in SCORES[name][:heads]]
    torch.testing.assert_close(weights, torch.tensor(expected, dtype=torch.float64).t())


@pytest.mark.parametrize("heads", [1, 2])
@pytest.mark.parametrize("name", LEARNED)
def test_literal_scores_by_hand(name: str, heads: int, graph: Adjacency) -> None:
    weights = attention(name, heads, "none")(FEATURES[:, :heads], graph)
    expected = list(LITERAL[name][:heads])
    torch.testing.assert_close(weights, torch.tensor(expected, dtype=torch.float64).t())


@pytest.mark.parametrize("normalization", ["softmax", "none"])
def test_const_is_one_whatever_the_normalization(
    normalization: Normalization, graph: Adjacency
) -> None:
    weights = attention("const", 2, normalization)(FEATURES, graph)
    assert weights.tolist() == [[1], [1], [1]]


@pytest.mark.parametrize("normalization", ["softmax", "none"])
def test_gcn_divides_by_the_roots_of_both_degrees(normalization: Normalization) -> None:
    # In-degrees 2, 1, 0; node 0 is the source of one edge, 1 of one and 2 of one.
    graph = Adjacency.from_edge_index(EDGES, 3)
    weights = attention("gcn", 2, normalization)(FEATURES, graph)
    torch.testing.assert_close(weights, torch.tensor([[1 / sqrt(2)], [1 / sqrt(2)], [1]]))


def test_normalization_is_the_softmax_unless_said_otherwise() -> None:
    assert ATTENTIONS["gat"](Dims(2, 2, 2)).normalization == "softmax"


@pytest.mark.parametrize("out_channels", [6, 7], ids=["own channels", "all channels"])
@pytest.mark.parametrize("normalization", ["softmax", "none"])
@pytest.mark.parametrize("name", LEARNED)
def test_each_of_several_heads_does_what_it_would_do_alone(
    name: str,
    normalization: Normalization,
    out_channels: int,
    tiny_graph: Tensor,
    generator: Generator,
) -> None:
    graph = Adjacency.from_edge_index(tiny_graph, 6)
    dims = Dims(5, out_channels, 3, heads=2)
    together = ATTENTIONS[name](dims, normalization).double()
    x = torch.randn(6, out_channels, generator=generator, dtype=torch.float64)
    split = Heads(dims).split(x)
    weights = together(split, graph)
    for head in range(2):
        alone = ATTENTIONS[name](Dims(5, dims.head_channels, 3), normalization).double()
        own = {key: rows[head : head + 1] for key, rows in together.state_dict().items()}
        alone.load_state_dict(own)
        expected = alone(split[:, head].unsqueeze(1).contiguous(), graph)
        torch.testing.assert_close(weights[:, head : head + 1], expected)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_inner_products_are_those_of_each_head(
    shared: bool, count: int, generator: Generator
) -> None:
    x = torch.randn(5, 1 if shared else 3, 4, generator=generator).expand(5, 3, 4)
    vectors = torch.randn(count, 3, 4, generator=generator)
    products = inner(x, *vectors)
    assert len(products) == count
    for product, vector in zip(products, vectors, strict=True):
        torch.testing.assert_close(product, (x * vector).sum(2))
