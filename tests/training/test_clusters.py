"""Graphs cut into clusters: every node once, few edges lost, and found once."""

import importlib.util

import pytest
import torch
from torch import Tensor

from pdnas.ops import Adjacency
from pdnas.training import clusters as module
from pdnas.training.clusters import JOINED, Clusters, clusters


def ring(nodes: int) -> Adjacency:
    ahead = torch.arange(nodes)
    edges = torch.stack([ahead, (ahead + 1) % nodes])
    return Adjacency.from_edge_index(torch.cat([edges, edges.flip(0)], dim=1), nodes)


@pytest.fixture(params=["pymetis", "at random"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "at random":
        monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    elif importlib.util.find_spec("pymetis") is None:
        pytest.skip("pymetis is not installed")
    name: str = request.param
    return name


@pytest.mark.parametrize(("nodes", "batch"), [(400, 100), (400, 101), (30, 10), (9, 3), (3, 1)])
def test_every_node_meets_others_once_in_an_epoch(way: str, nodes: int, batch: int) -> None:
    found = clusters(ring(nodes), batch)
    assert sum(found.sizes) == nodes
    assert min(found.sizes) > 0
    seen = [meeting for _ in range(2) for meeting in found.meetings()]
    assert torch.equal(torch.cat(seen).sort().values, torch.arange(nodes).repeat_interleave(2))
    for meeting in seen:
        assert torch.equal(meeting, meeting.sort().values)


def test_about_as_many_nodes_meet_as_are_asked_for(way: str) -> None:
    found = clusters(ring(4000), 1000)
    assert len(found.sizes) == 4 * JOINED
    assert all(900 < len(meeting) < 1100 for meeting in found.meetings())


def test_with_pymetis_few_edges_run_between_clusters() -> None:
    pytest.importorskip("pymetis")
    graph, found = ring(4000), clusters(ring(4000), 1000)
    inside = [graph.subgraph(part).num_edges for part in found.nodes.split(found.sizes)]
    assert sum(inside) > 0.95 * graph.num_edges


def test_loops_parallel_edges_and_one_way_edges_are_welcome(way: str) -> None:
    edges = torch.tensor([[0, 0, 1, 1, 2, 3, 4, 5, 5], [0, 1, 2, 2, 3, 4, 5, 0, 5]])
    found = clusters(Adjacency.from_edge_index(edges, 7), 3)  # the last node is alone
    assert torch.equal(found.nodes.sort().values, torch.arange(7))


def test_clusters_meet_at_random_and_by_torchs_random_state() -> None:
    found = Clusters(torch.arange(64), (2,) * 32)

    def epoch(seed: int) -> list[Tensor]:
        torch.manual_seed(seed)
        return list(found.meetings())

    first, again, other = epoch(0), epoch(0), epoch(1)
    assert len(first) == 32 // JOINED
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert any(not torch.equal(a, b) for a, b in zip(first, other, strict=True))


def test_a_graph_is_cut_once(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, cut = ring(40), module._cut
    counts: list[int] = []

    def spy(graph: Adjacency, count: int) -> Tensor:
        counts.append(count)
        return cut(graph, count)

    monkeypatch.setattr(module, "_cut", spy)
    assert clusters(graph, 10) is clusters(graph, 10)
    clusters(graph, 20)
    clusters(ring(40), 10)
    assert counts == [4 * JOINED, 2 * JOINED, 4 * JOINED]
