"""Neighborhoods: every seed once, edges of the graph alone, and no more of them than asked for."""

from collections import Counter

import pytest
import torch
import torch_geometric.typing
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pdnas.errors import RecipeError
from pdnas.ops import Adjacency
from pdnas.training.neighbors import FAN_OUT, Neighborhood, Neighborhoods, check_sampler

pytestmark = pytest.mark.usefixtures("sampler")


def wheel(nodes: int) -> Adjacency:
    """A hub that everyone points to and a ring around it, which leads one way."""
    rim = torch.arange(1, nodes)
    spokes = torch.stack([rim, torch.zeros_like(rim)])
    ring = torch.stack([rim, rim.roll(-1)])
    return Adjacency.from_edge_index(torch.cat([spokes, ring], dim=1), nodes)


def epoch(neighborhoods: Neighborhoods, seed: int) -> list[Neighborhood]:
    torch.manual_seed(seed)
    return list(neighborhoods)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    nodes=st.integers(3, 40),
    size=st.integers(1, 12),
    hops=st.integers(1, 3),
    fan_out=st.integers(1, 5),
    seed=st.integers(0, 2**31),
)
def test_every_seed_is_there_once_and_edges_are_those_of_the_graph(
    nodes: int, size: int, hops: int, fan_out: int, seed: int
) -> None:
    graph, seeds = wheel(nodes), torch.arange(0, nodes, 2)
    known = {tuple(edge) for edge in graph.edge_index.T.tolist()}
    found = epoch(Neighborhoods(graph, seeds, size=size, hops=hops, fan_out=fan_out), seed)
    counted = torch.cat([one.nodes[: one.size] for one in found])
    assert torch.equal(counted.sort().values, seeds)
    for one in found:
        assert 1 <= one.size <= size
        assert len(one.nodes.unique()) == len(one.nodes) == one.adjacency.num_nodes
        edges = [tuple(edge) for edge in one.nodes[one.adjacency.edge_index].T.tolist()]
        assert set(edges) <= known
        assert max(Counter(edges).values(), default=1) == 1, "each edge is heard once"
        assert int(one.adjacency.in_degree.max()) <= fan_out


def test_all_neighbors_are_heard_where_there_are_few() -> None:
    graph = wheel(8)
    (one,) = epoch(Neighborhoods(graph, torch.tensor([3]), size=4, hops=2, fan_out=9), 0)
    heard = {tuple(edge) for edge in one.nodes[one.adjacency.edge_index].T.tolist()}
    assert heard == {(2, 3), (1, 2)}, "what points to node 3, and to what points to it"


def test_ten_neighbors_are_heard_unless_someone_says_otherwise() -> None:
    (one,) = epoch(Neighborhoods(wheel(40), torch.tensor([0]), size=1, hops=1, fan_out=None), 0)
    assert one.adjacency.num_edges == FAN_OUT == 10


def test_torchs_random_state_decides() -> None:
    neighborhoods = Neighborhoods(wheel(40), torch.arange(40), size=7, hops=2, fan_out=2)
    first, again, other = (epoch(neighborhoods, seed) for seed in (0, 0, 1))
    assert all(torch.equal(a.nodes, b.nodes) for a, b in zip(first, again, strict=True))
    assert any(not torch.equal(a.nodes, b.nodes) for a, b in zip(first, other, strict=True))


def test_without_a_library_to_sample_with_it_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    check_sampler()
    monkeypatch.setattr(torch_geometric.typing, "WITH_TORCH_SPARSE", False)
    monkeypatch.setattr(torch_geometric.typing, "WITH_PYG_LIB", False)
    with pytest.raises(RecipeError, match=r"^--batching neighbors needs pyg-lib or torch-sparse, "):
        Neighborhoods(wheel(5), torch.arange(5), size=1, hops=1, fan_out=1)
