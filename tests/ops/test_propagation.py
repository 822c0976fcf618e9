"""Mixed orders against powers of a dense matrix, and by hand where the powers are known."""

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Generator, Tensor

from pdnas.architecture import BlockSpec
from pdnas.models import GraphBlock
from pdnas.ops import ATTENTIONS, PROPAGATIONS, Adjacency, Dims

NODES = 6
MIXED = [order for order in PROPAGATIONS if not PROPAGATIONS[order].attentive]
FAR = [order for order in MIXED if order > 0]

nodes = st.integers(0, NODES - 1)
edge_lists = st.lists(st.tuples(nodes, nodes), max_size=14)
"""Up to 14 edges (source, target) among 6 nodes: none, parallel ones, self-loops."""


def no_step(x: Tensor) -> Tensor:
    raise AssertionError("there is no attention here")


def propagate(order: int, x: Tensor, graph: Adjacency) -> Tensor:
    op: Any = PROPAGATIONS[order](Dims(2, x.size(1), 2, propagation=order))
    result: Tensor = op(x, graph, no_step)
    return result


def adjacency(edges: list[tuple[int, int]]) -> Adjacency:
    edge_index = torch.tensor(edges, dtype=torch.long).reshape(-1, 2).t()
    return Adjacency.from_edge_index(edge_index, NODES)


def path(length: int) -> Adjacency:
    """Nodes in a row, each of them a neighbor of the next."""
    forth = torch.stack([torch.arange(length - 1), torch.arange(1, length)])
    return Adjacency.from_edge_index(torch.cat([forth, forth.flip(0)], dim=1), length)


def dense_mixture(order: int, edges: list[tuple[int, int]], x: Tensor) -> Tensor:
    r"""The formula with matrices; :math:`\hat A` has the targets as rows."""
    looped = torch.eye(NODES, dtype=x.dtype)
    for source, target in edges:
        if source != target:
            looped[target, source] += 1
    arriving, leaving = looped.sum(dim=1, keepdim=True), looped.sum(dim=0)
    normalized = looped / (arriving * leaving).sqrt()
    powers = [torch.linalg.matrix_power(normalized, k) @ x for k in range(order + 1)]
    return torch.stack(powers).mean(dim=0)


def test_only_one_step_attends() -> None:
    assert sorted(PROPAGATIONS) == [0, 1, 2, 4, 8]
    assert [order for order in PROPAGATIONS if PROPAGATIONS[order].attentive] == [1]


def test_one_step_is_the_block_s_own(tiny_graph: Tensor, generator: Generator) -> None:
    x, graph = torch.randn(NODES, 3, generator=generator), Adjacency.from_edge_index(tiny_graph, 6)
    given: list[Tensor] = []

    def step(x: Tensor) -> Tensor:
        given.append(x)
        return 3 * x

    op: Any = PROPAGATIONS[1](Dims(2, 3, 2))
    assert torch.equal(op(x, graph, step), 3 * x)
    assert [each is x for each in given] == [True]


@pytest.mark.parametrize("order", MIXED)
def test_mixed_orders_by_hand(order: int) -> None:
    # Nodes 0 and 1 are neighbors, 2 is alone; every power of the matrix but the 0th is the same.
    graph = Adjacency.from_edge_index(torch.tensor([[0, 1], [1, 0]]), 3)
    x = torch.tensor([[1.0, -2.0], [3.0, 4.0], [5.0, 6.0]])
    spread = torch.tensor([[2.0, 1.0], [2.0, 1.0], [5.0, 6.0]])
    expected = (x + order * spread) / (order + 1)
    torch.testing.assert_close(propagate(order, x, graph), expected)


def test_two_steps_along_a_path_by_hand() -> None:
    # Degrees 2, 3 and 2 with the loops; a unit at the first node.
    graph, x = path(3), torch.tensor([[1.0], [0.0], [0.0]])
    once = torch.tensor([1 / 2, 1 / 6**0.5, 0])
    twice = torch.tensor([1 / 4 + 1 / 6, 1 / 2 / 6**0.5 + 1 / 3 / 6**0.5, 1 / 6])
    expected = (x.squeeze(1) + once + twice) / 3
    torch.testing.assert_close(propagate(2, x, graph).squeeze(1), expected)


@given(edges=edge_lists, order=st.sampled_from(MIXED), seed=st.integers(0, 99))
def test_mixed_orders_are_the_mean_of_matrix_powers(
    edges: list[tuple[int, int]], order: int, seed: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(NODES, 3, generator=generator, dtype=torch.float64).requires_grad_()
    result, expected = propagate(order, x, adjacency(edges)), dense_mixture(order, edges, x)
    # The weights 1 / sqrt(d_i d_j) are single numbers, so seven digits are all there is.
    torch.testing.assert_close(result, expected, rtol=1e-6, atol=1e-6)
    seed_grad = torch.linspace(-1, 2, result.numel(), dtype=x.dtype).view(result.shape)
    grads = [torch.autograd.grad(each, x, seed_grad)[0] for each in (result, expected)]
    torch.testing.assert_close(*grads, rtol=1e-6, atol=1e-6)


@given(edges=edge_lists, seed=st.integers(0, 99))
def test_order_zero_is_the_identity(edges: list[tuple[int, int]], seed: int) -> None:
    x = torch.randn(NODES, 3, generator=torch.Generator().manual_seed(seed)).requires_grad_()
    result = propagate(0, x, adjacency(edges))
    assert torch.equal(result, x)
    (grad,) = torch.autograd.grad(result.sum(), x)
    assert torch.equal(grad, torch.ones_like(x))


@pytest.mark.parametrize("order", MIXED)
def test_messages_travel_as_far_as_the_order_says(order: int) -> None:
    start = torch.zeros(10, 1)
    start[0] = 1
    arrived = propagate(order, start, path(10)).squeeze(1) > 0
    assert arrived.tolist() == [node <= order for node in range(10)]


@pytest.mark.parametrize("order", FAR)
def test_messages_travel_from_sources_to_targets(order: int) -> None:
    graph = Adjacency.from_edge_index(torch.tensor([[0, 1], [1, 2]]), 3)
    arrived = [propagate(order, torch.eye(3)[:, [node]], graph).squeeze(1) > 0 for node in (0, 2)]
    assert arrived[0].tolist() == [True, True, True]
    assert arrived[1].tolist() == [False, False, True]


@pytest.mark.parametrize("order", MIXED)
def test_self_loops_that_are_there_already_change_nothing(
    order: int, tiny_graph: Tensor, generator: Generator
) -> None:
    graph = Adjacency.from_edge_index(tiny_graph, NODES)
    x = torch.randn(NODES, 3, generator=generator)
    bare = Adjacency.from_edge_index(tiny_graph[:, tiny_graph[0] != tiny_graph[1]], NODES)
    assert bare.num_edges < graph.num_edges
    expected = propagate(order, x, graph)
    assert torch.equal(propagate(order, x, graph.with_self_loops), expected)
    torch.testing.assert_close(propagate(order, x, bare), expected)


@pytest.mark.parametrize("order", MIXED)
def test_an_isolated_node_keeps_what_it_has(order: int, tiny_graph: Tensor) -> None:
    x = torch.rand(NODES, 3)
    result = propagate(order, x, Adjacency.from_edge_index(tiny_graph, NODES))
    torch.testing.assert_close(result[5], x[5])


@given(edges=edge_lists, order=st.sampled_from(MIXED), scale=st.floats(-3, 3))
def test_mixed_orders_are_linear(edges: list[tuple[int, int]], order: int, scale: float) -> None:
    graph = adjacency(edges)
    x, y = (torch.randn(NODES, 2, dtype=torch.float64) for _ in range(2))
    parts = propagate(order, x, graph) + scale * propagate(order, y, graph)
    torch.testing.assert_close(propagate(order, x + scale * y, graph), parts)


@pytest.mark.parametrize("attention", ATTENTIONS)
@pytest.mark.parametrize("order", MIXED)
def test_a_block_of_mixed_orders_has_no_weights_for_attention(order: int, attention: str) -> None:
    spec = BlockSpec(expansion=2, propagation=order, attention=attention, heads=2, combine="none")
    assert not spec.attends
    assert spec.parameters(10, 6, 4) == 10 * 8 + 8 * 6
    made = GraphBlock.from_spec(spec, 10, 6, 4)
    assert sum(weight.numel() for weight in made.parameters()) == 10 * 8 + 8 * 6
