"""The summary of a graph against dense algebra, and what it must not depend on."""

import math

import pytest
import torch
from torch import Generator, Tensor
from torch_geometric.utils import to_undirected

from pdnas.ops import Adjacency, SparseFeatures
from pdnas.supernet import GraphSummary

NODES, FEATURES, WIDTH = 14, 5, 6


@pytest.fixture
def edges(generator: Generator) -> Tensor:
    """A random undirected graph in which the last node is isolated."""
    pairs = torch.randint(NODES - 1, (2, 30), generator=generator)
    undirected: Tensor = to_undirected(pairs[:, pairs[0] != pairs[1]])
    return undirected


@pytest.fixture
def x(generator: Generator) -> Tensor:
    return torch.randn(NODES, FEATURES, generator=generator, dtype=torch.float64)


def make(keep: float = 0.5) -> GraphSummary:
    return GraphSummary(FEATURES, width=WIDTH, keep=keep).double()


def graph_of(edges: Tensor) -> Adjacency:
    return Adjacency.from_edge_index(edges, NODES)


def normalized(neighbors: Tensor) -> Tensor:
    r""":math:`D^{-1/2} (A + I) D^{-1/2}`, dense."""
    looped = neighbors.clone().fill_diagonal_(1)
    scale = looped.sum(dim=1).rsqrt()
    return scale.unsqueeze(1) * looped * scale


def dense_summary(summary: GraphSummary, x: Tensor, edges: Tensor, count: int) -> Tensor:
    """The formula with matrices, on the ``count`` nodes of the highest scores."""
    neighbors = x.new_zeros(NODES, NODES)
    neighbors[edges[1], edges[0]] = 1
    spread = normalized(neighbors)
    hidden = (spread @ x @ summary.weight_1).relu()
    scores = (spread @ hidden @ summary.weight_score).squeeze(1)
    kept = scores.argsort(descending=True)[:count]
    assert scores[kept].unique().numel() == count
    pooled = hidden[kept] * scores[kept].tanh().unsqueeze(1)
    return (normalized(neighbors[kept][:, kept]) @ pooled @ summary.weight_2).relu().mean(dim=0)


def test_a_graph_of_any_size_becomes_one_vector(x: Tensor, edges: Tensor) -> None:
    assert make()(x, graph_of(edges)).shape == (WIDTH,)
    one_node = Adjacency.from_edge_index(torch.empty(2, 0, dtype=torch.long), 1)
    assert make()(x[:1], one_node).shape == (WIDTH,)


@pytest.mark.parametrize("keep", [1.0, 0.5, 0.3])
def test_the_formula_with_dense_matrices(keep: float, x: Tensor, edges: Tensor) -> None:
    summary = make(keep)
    weights = tuple(summary.parameters())
    expected = dense_summary(summary, x, edges, math.ceil(keep * NODES))
    result = summary(x, graph_of(edges))

    # The weights 1 / sqrt(d_i d_j) are single numbers, so seven digits are all there is.
    torch.testing.assert_close(result, expected, rtol=1e-6, atol=1e-6)
    grads, wanted = (torch.autograd.grad(vector.sum(), weights) for vector in (result, expected))
    torch.testing.assert_close(grads, wanted, rtol=1e-6, atol=1e-6)


def test_the_number_of_nodes_kept_is_rounded_up(x: Tensor, edges: Tensor) -> None:
    few, fewer = make(0.11), make(1 / NODES)
    fewer.load_state_dict(few.state_dict())
    torch.testing.assert_close(
        few(x, graph_of(edges)), dense_summary(few, x, edges, 2), rtol=1e-6, atol=1e-6
    )
    torch.testing.assert_close(
        fewer(x, graph_of(edges)), dense_summary(fewer, x, edges, 1), rtol=1e-6, atol=1e-6
    )


@pytest.mark.parametrize("keep", [1.0, 0.5])
def test_a_renumbering_of_the_nodes_changes_nothing(
    keep: float, x: Tensor, edges: Tensor, generator: Generator
) -> None:
    summary = make(keep)
    label = torch.randperm(NODES, generator=generator)
    order = torch.randperm(edges.size(1), generator=generator)
    relabelled = torch.empty_like(x).index_copy_(0, label, x)
    expected = summary(x, graph_of(edges))
    assert expected.any()
    torch.testing.assert_close(summary(relabelled, graph_of(label[edges][:, order])), expected)


def test_a_gradient_reaches_all_three_weights(x: Tensor, edges: Tensor) -> None:
    summary = make()
    summary(x, graph_of(edges)).sum().backward()
    grads = {name: weight.grad for name, weight in summary.named_parameters()}
    assert set(grads) == {"weight_1", "weight_score", "weight_2"}
    assert all(grad is not None and bool(grad.any()) for grad in grads.values())


def test_sparse_features_give_the_same_vector_and_gradients(x: Tensor, edges: Tensor) -> None:
    summary, graph = make(), graph_of(edges)
    sparse = SparseFeatures.from_tensor(x.relu())
    weights = tuple(summary.parameters())
    dense, other = summary(x.relu(), graph), summary(sparse, graph)
    torch.testing.assert_close(other, dense)
    grads, wanted = (torch.autograd.grad(vector.sum(), weights) for vector in (other, dense))
    torch.testing.assert_close(grads, wanted)


def test_the_edges_matter(x: Tensor, edges: Tensor) -> None:
    summary = make()
    fewer = summary(x, graph_of(edges[:, : edges.size(1) // 2]))
    assert not torch.allclose(fewer, summary(x, graph_of(edges)))
