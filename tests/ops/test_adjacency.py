"""A graph's neighborhoods against plain loops over its edges."""

from collections import Counter
from math import sqrt

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.autograd import gradcheck

from pdnas.ops import Adjacency

Edges = list[tuple[int, int]]
MAX_NODES = 6

nodes = st.integers(0, MAX_NODES - 1)
edge_lists = st.lists(st.tuples(nodes, nodes), max_size=14)
"""Up to 14 edges (source, target) among 6 nodes: none, parallel ones, self-loops."""
head_counts = st.integers(1, 4)
seeds = st.integers(0, 99)


def adjacency(edges: Edges) -> Adjacency:
    edge_index = torch.tensor(edges, dtype=torch.long).reshape(-1, 2).t()
    return Adjacency.from_edge_index(edge_index, MAX_NODES)


def pairs(graph: Adjacency) -> Edges:
    return list(zip(graph.sources.tolist(), graph.targets.tolist(), strict=True))


def randn(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64).requires_grad_()


def assert_same(result: Tensor, expected: Tensor, *inputs: Tensor) -> None:
    """Values and gradients."""
    torch.testing.assert_close(result, expected)
    seed = torch.linspace(-1, 2, result.numel(), dtype=result.dtype).view(result.shape)
    grads = torch.autograd.grad(result, inputs, seed, materialize_grads=True)
    wanted = torch.autograd.grad(expected, inputs, seed, materialize_grads=True)
    for grad, want in zip(grads, wanted, strict=True):
        torch.testing.assert_close(grad, want)


def by_target(graph: Adjacency, messages: Tensor) -> list[Tensor]:
    """What arrives at each node, ``[E, ...]`` cut into ``[|N(i)|, ...]``."""
    return [messages[graph.targets == node] for node in range(graph.num_nodes)]


def test_edges_are_sorted_by_target_and_otherwise_keep_their_order(tiny_graph: Tensor) -> None:
    graph = Adjacency.from_edge_index(tiny_graph, 6)
    assert pairs(graph) == [(2, 0), (1, 0), (4, 1), (0, 1), (2, 1), (3, 2), (0, 2), (4, 4)]
    assert (graph.num_nodes, graph.num_edges) == (6, 8)


@given(edges=edge_lists)
def test_every_edge_is_kept_in_the_order_of_a_stable_sort(edges: Edges) -> None:
    assert pairs(adjacency(edges)) == sorted(edges, key=lambda edge: edge[1])


@given(edges=edge_lists)
def test_degrees_count_edges(edges: Edges) -> None:
    graph = adjacency(edges)
    arriving, leaving = Counter(t for _, t in edges), Counter(s for s, _ in edges)
    assert graph.in_degree.tolist() == [arriving[node] for node in range(MAX_NODES)]
    assert graph.out_degree.tolist() == [leaving[node] for node in range(MAX_NODES)]


@given(edges=edge_lists)
def test_every_node_gets_exactly_one_self_loop(edges: Edges) -> None:
    looped = Counter(pairs(adjacency(edges).with_self_loops))
    loops = [(node, node) for node in range(MAX_NODES)]
    assert looped == Counter([*loops, *(edge for edge in edges if edge[0] != edge[1])])


def test_the_graph_with_self_loops_is_made_once() -> None:
    graph = adjacency([(0, 1)])
    assert graph.with_self_loops is graph.with_self_loops


def test_a_graph_that_was_given_self_loops_is_itself_with_self_loops(tiny_graph: Tensor) -> None:
    looped = Adjacency.from_edge_index(tiny_graph, 6).with_self_loops
    assert looped.with_self_loops is looped
    moved = looped.to("cpu")
    assert moved.with_self_loops is moved


def test_a_loop_at_every_node_is_not_taken_for_exactly_one() -> None:
    """Nodes 0 and 1 have theirs, node 2 has two."""
    twice = Adjacency.from_edge_index(torch.tensor([[0, 1, 2, 2], [0, 1, 2, 2]]), 3)
    assert pairs(twice.with_self_loops) == [(0, 0), (1, 1), (2, 2)]


@given(edges=edge_lists)
def test_gcn_weights_by_degree(edges: Edges) -> None:
    arriving, leaving = Counter(t for _, t in edges), Counter(s for s, _ in edges)
    graph = adjacency(edges)
    expected = [1 / sqrt(arriving[t] * leaving[s]) for s, t in pairs(graph)]
    torch.testing.assert_close(graph.gcn_weights, torch.tensor(expected))


def test_a_source_that_nothing_points_to_is_still_heard() -> None:
    graph = adjacency([(0, 1), (0, 2), (3, 2)])
    expected = torch.tensor([1 / sqrt(2), 1 / sqrt(4), 1 / sqrt(2)])
    torch.testing.assert_close(graph.gcn_weights, expected)


@given(edges=edge_lists)
def test_unit_weights_are_one_per_edge(edges: Edges) -> None:
    assert adjacency(edges).unit_weights.tolist() == [1.0] * len(edges)


@given(edges=edge_lists, trailing=st.lists(st.integers(1, 3), max_size=2), seed=seeds)
def test_edges_read_their_ends(edges: Edges, trailing: list[int], seed: int) -> None:
    graph, x = adjacency(edges), randn(MAX_NODES, *trailing, seed=seed)
    assert_same(graph.at_sources(x), x[graph.sources], x)
    assert_same(graph.at_targets(x), x[graph.targets], x)


@given(edges=edge_lists, heads=head_counts, seed=seeds)
def test_sum_edges_adds_what_arrives(edges: Edges, heads: int, seed: int) -> None:
    graph, messages = adjacency(edges), randn(len(edges), heads, seed=seed)
    expected = torch.stack([part.sum(0) for part in by_target(graph, messages)])
    assert_same(graph.sum_edges(messages), expected, messages)


@given(edges=edge_lists, heads=head_counts, seed=seeds)
def test_softmax_is_that_of_each_neighborhood(edges: Edges, heads: int, seed: int) -> None:
    graph, scores = adjacency(edges), randn(len(edges), heads, seed=seed)
    expected = torch.cat([part.softmax(0) for part in by_target(graph, scores)])
    assert_same(graph.softmax(scores), expected, scores)


@given(edges=edge_lists, heads=head_counts, scale=st.sampled_from([0.0, 1.0, 1e3, 1e30]))
def test_softmax_sums_to_one_however_large_the_scores(
    edges: Edges, heads: int, scale: float
) -> None:
    graph = adjacency(edges)
    weights = graph.softmax((randn(len(edges), heads) * scale).float())
    sums = torch.stack([part.sum(0) for part in by_target(graph, weights)])
    expected = (graph.in_degree > 0).float().unsqueeze(1).expand(-1, heads)
    torch.testing.assert_close(sums, expected)
    assert (weights >= 0).all()


@given(edges=edge_lists, heads=head_counts, seed=seeds)
def test_inner_products_per_head(edges: Edges, heads: int, seed: int) -> None:
    graph = adjacency(edges)
    left, right = randn(MAX_NODES, heads, 3, seed=seed), randn(MAX_NODES, heads, 3, seed=seed + 1)
    dense = torch.einsum("ihc,jhc->ijh", left, right)
    assert_same(graph.inner_products(left, right), dense[graph.targets, graph.sources], left, right)


@given(edges=edge_lists, heads=head_counts, seed=seeds)
def test_weighted_sum_per_head(edges: Edges, heads: int, seed: int) -> None:
    graph = adjacency(edges)
    weights, x = randn(len(edges), heads, seed=seed), randn(MAX_NODES, heads, 3, seed=seed + 1)
    dense = weights.new_zeros(MAX_NODES, MAX_NODES, heads)
    dense = dense.index_put((graph.targets, graph.sources), weights, accumulate=True)
    expected = torch.einsum("ijh,jhc->ihc", dense, x)
    assert_same(graph.weighted_sum(weights, x), expected, weights, x)


@given(edges=edge_lists, heads=head_counts, seed=seeds)
def test_weighted_max_per_head(edges: Edges, heads: int, seed: int) -> None:
    graph = adjacency(edges)
    weights, x = randn(len(edges), heads, seed=seed), randn(MAX_NODES, heads, 3, seed=seed + 1)
    messages = by_target(graph, weights.unsqueeze(2) * x[graph.sources])
    zeros = 0 * (x.sum(0) + weights.sum())  # zeros that know where they come from
    expected = torch.stack([part.amax(0) if len(part) else zeros for part in messages])
    assert_same(graph.weighted_max(weights, x), expected, weights, x)


@pytest.mark.parametrize("heads", [1, 2])
@pytest.mark.parametrize("sources", [(0, 2, 3), (3, 0, 2), (0, 0, 2)], ids=str)
def test_the_maximum_has_its_gradient_in_any_order_and_on_parallel_edges(
    sources: tuple[int, ...], heads: int
) -> None:
    graph, x = adjacency([(source, 1) for source in sources]), randn(MAX_NODES, heads, 3)
    weights = randn(3, heads, seed=1)
    messages = weights.unsqueeze(2) * x[graph.sources]
    largest = torch.cat([0 * x[:1], messages.amax(0, keepdim=True), 0 * x[2:]])
    assert_same(graph.weighted_max(weights, x), largest, weights, x)


@pytest.mark.parametrize("heads", [1, 3])
def test_gradcheck_agrees_on_the_softmax(heads: int, tiny_graph: Tensor) -> None:
    graph = Adjacency.from_edge_index(tiny_graph, 6)
    assert gradcheck(graph.softmax, (randn(8, heads),))


def test_heads_may_share_what_they_see() -> None:
    graph, x = adjacency([(0, 1), (2, 1), (1, 0)]), randn(MAX_NODES, 3)
    shared = x.unsqueeze(1).expand(-1, 4, -1)
    weights = randn(3, 4, seed=1)
    for operation in (graph.weighted_sum, graph.weighted_max):
        expected = operation(weights, shared.clone())
        assert_same(operation(weights, shared), expected, weights, x)


def test_weights_take_the_precision_of_the_features() -> None:
    graph = adjacency([(0, 1), (2, 1)])
    result = graph.weighted_sum(graph.unit_weights.unsqueeze(1), randn(MAX_NODES, 1, 3))
    assert result.dtype == torch.float64


@given(edges=edge_lists, kept=st.lists(nodes, unique=True))
def test_a_subgraph_has_the_edges_between_its_nodes_under_their_new_numbers(
    edges: Edges, kept: list[int]
) -> None:
    part = adjacency(edges).subgraph(torch.tensor(kept, dtype=torch.long))
    inside = [(s, t) for s, t in edges if s in kept and t in kept]
    expected = [(kept.index(s), kept.index(t)) for s, t in inside]
    assert part.num_nodes == len(kept)
    assert Counter(pairs(part)) == Counter(expected)


@given(edges=edge_lists, kept=st.lists(st.lists(nodes, unique=True), min_size=2, max_size=4))
def test_a_subgraph_is_the_same_whatever_was_asked_before(
    edges: Edges, kept: list[list[int]]
) -> None:
    graph = adjacency(edges)
    for some in kept:
        index = torch.tensor(some, dtype=torch.long)
        assert pairs(graph.subgraph(index)) == pairs(adjacency(edges).subgraph(index))


def test_the_subgraph_of_all_nodes_is_the_graph(tiny_graph: Tensor) -> None:
    graph = Adjacency.from_edge_index(tiny_graph, 6)
    assert pairs(graph.subgraph(torch.arange(6))) == pairs(graph)


def test_a_subgraph_counts_its_own_degrees(tiny_graph: Tensor) -> None:
    part = Adjacency.from_edge_index(tiny_graph, 6).subgraph(torch.tensor([2, 0, 5]))
    assert pairs(part) == [(1, 0), (0, 1)]  # 0 -> 2 and 2 -> 0
    assert part.in_degree.tolist() == part.out_degree.tolist() == [1, 1, 0]
    assert part.gcn_weights.tolist() == [1.0, 1.0]


@given(edges=edge_lists, kept=st.lists(nodes, unique=True, min_size=1), seed=seeds)
def test_sums_in_a_subgraph_are_those_of_its_edges_alone(
    edges: Edges, kept: list[int], seed: int
) -> None:
    graph, index = adjacency(edges), torch.tensor(kept)
    x = randn(MAX_NODES, 1, 2, seed=seed)
    dense = torch.zeros(MAX_NODES, MAX_NODES, dtype=torch.float64)
    dense.index_put_((graph.targets, graph.sources), dense.new_ones(()), accumulate=True)
    part = graph.subgraph(index)
    result = part.weighted_sum(part.unit_weights.unsqueeze(1), x[index])
    expected = dense[index][:, index] @ x[index].squeeze(1)
    assert_same(result.squeeze(1), expected, x)


copy_counts = st.integers(1, 4)


@given(edges=edge_lists, copies=copy_counts)
def test_copies_lie_side_by_side(edges: Edges, copies: int) -> None:
    graph = adjacency(edges)
    repeated = graph.repeated(copies)
    shifts = [MAX_NODES * number for number in range(copies)]
    assert repeated.num_nodes == copies * MAX_NODES
    assert pairs(repeated) == [(s + shift, t + shift) for shift in shifts for s, t in pairs(graph)]


@given(edges=edge_lists, copies=copy_counts)
def test_copies_weigh_what_the_graph_weighs(edges: Edges, copies: int) -> None:
    graph = adjacency(edges)
    repeated = graph.repeated(copies)
    assert torch.equal(repeated.in_degree, graph.in_degree.repeat(copies))
    assert torch.equal(repeated.out_degree, graph.out_degree.repeat(copies))
    assert torch.equal(repeated.gcn_weights, graph.gcn_weights.repeat(copies))


@given(edges=edge_lists, copies=copy_counts, heads=head_counts, seed=seeds)
def test_sums_in_copies_are_those_of_each_copy(
    edges: Edges, copies: int, heads: int, seed: int
) -> None:
    graph = adjacency(edges)
    weights = randn(copies, len(edges), heads, seed=seed)
    x = randn(copies, MAX_NODES, heads, 2, seed=seed + 1)
    sums = [graph.weighted_sum(*both) for both in zip(weights, x, strict=True)]
    result = graph.repeated(copies).weighted_sum(weights.flatten(0, 1), x.flatten(0, 1))
    assert_same(result, torch.cat(sums), weights, x)


@given(edges=edge_lists, copies=copy_counts)
def test_copies_of_a_graph_with_self_loops_have_theirs(edges: Edges, copies: int) -> None:
    graph = adjacency(edges)
    looped = graph.with_self_loops.repeated(copies)
    assert looped.with_self_loops is looped
    assert pairs(looped) == pairs(graph.repeated(copies).with_self_loops)


@given(parts=st.lists(edge_lists, min_size=1, max_size=3), heads=head_counts, seed=seeds)
def test_joined_graphs_are_what_sorting_all_of_their_edges_gives(
    parts: list[Edges], heads: int, seed: int
) -> None:
    graphs = [adjacency(edges) for edges in parts]
    joined = Adjacency.join(graphs)
    moved = [graph.edge_index + MAX_NODES * place for place, graph in enumerate(graphs)]
    nodes = MAX_NODES * len(graphs)
    sorted_at_once = Adjacency.from_edge_index(torch.cat(moved, dim=1), nodes)
    assert torch.equal(joined.edge_index, sorted_at_once.edge_index)
    assert torch.equal(joined.gcn_weights, sorted_at_once.gcn_weights)
    assert pairs(joined.with_self_loops) == pairs(sorted_at_once.with_self_loops)
    assert joined.with_self_loops.with_self_loops is joined.with_self_loops
    weights = randn(joined.num_edges, heads, seed=seed)
    x = randn(nodes, heads, 2, seed=seed + 1)
    expected = sorted_at_once.weighted_sum(weights, x)
    assert_same(joined.weighted_sum(weights, x), expected, weights, x)


def test_moving_keeps_the_edges(tiny_graph: Tensor) -> None:
    graph = Adjacency.from_edge_index(tiny_graph, 6)
    assert pairs(graph.to("cpu")) == pairs(graph)


def test_weights_of_two_hubs_are_finite() -> None:
    """The product of their degrees exceeds 32 bits."""
    leaves = torch.arange(2, 50_002)
    hubs = torch.cat([torch.zeros_like(leaves), torch.ones_like(leaves)])
    spokes = torch.stack([torch.cat([leaves, leaves]), hubs])
    link = torch.tensor([[0], [1]])
    edges = torch.cat([spokes, spokes.flip(0), link, link.flip(0)], dim=1)
    weights = Adjacency.from_edge_index(edges, 50_002).gcn_weights
    assert bool(torch.isfinite(weights).all())
    assert weights.min().item() == pytest.approx(1 / 50_001)


@given(edges=edge_lists, count=st.integers(1, 9), looped=st.booleans())
def test_parts_hold_all_that_each_node_hears(edges: Edges, count: int, looped: bool) -> None:
    graph = adjacency(edges)
    graph = graph.with_self_loops if looped else graph
    targets, heard, weights = [], [], []
    for part in graph.parts(count):
        arriving = part.adjacency.targets
        assert (arriving < part.size).all(), "nothing arrives at the others"
        assert len(part.nodes.unique()) == len(part.nodes)
        assert part.adjacency.num_edges <= count or part.size == 1
        targets.append(part.nodes[: part.size])
        heard.append(torch.stack([part.nodes[part.adjacency.sources], part.nodes[arriving]]))
        weights.append(part.adjacency.gcn_weights)
    assert torch.equal(torch.cat(targets), torch.arange(graph.num_nodes))
    assert torch.equal(torch.cat(heard, dim=1), graph.edge_index)
    assert torch.equal(torch.cat(weights), graph.gcn_weights)
