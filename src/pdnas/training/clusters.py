"""A graph cut into clusters: many nodes, few edges between them.

Chiang et al., Cluster-GCN: An Efficient Algorithm for Training Deep and Large Graph Convolutional
Networks, 2019. A step of a training sees a few clusters that meet at random, with all edges between
them, so that its cost does not grow with the graph.
"""

import importlib.util
import math
from collections.abc import Iterator
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor

from pdnas.ops.adjacency import Adjacency
from pdnas.training.parallel import by_first, permutation

JOINED = 8
"""Clusters that meet in a step: the more, the fewer edges are lost and the more steps differ."""


@dataclass(frozen=True, eq=False)
class Clusters:
    """Every node in one of several clusters.

    Args:
        nodes: All nodes, cluster by cluster, ``[N]``.
        sizes: Of the clusters.
    """

    nodes: Tensor
    sizes: tuple[int, ...]

    def meetings(self) -> Iterator[Tensor]:
        """The nodes of a few clusters at a time, all clusters once; torch's random state decides.

        The nodes are sorted.
        """
        parts = self.nodes.split(self.sizes)
        for together in permutation(len(parts)).split(JOINED):
            yield torch.cat([parts[number] for number in together.tolist()]).sort().values


_KNOWN: "WeakKeyDictionary[Adjacency, dict[int, Clusters]]" = WeakKeyDictionary()


def clusters(graph: Adjacency, batch_nodes: int) -> Clusters:
    """The clusters of a graph, of which a few hold about so many nodes; found once for each graph.

    With pymetis (``pip install 'pdnas[large]'``) few edges run between them; without it nodes are
    dealt out at random, and most edges are lost in every step.

    Args:
        graph: What to cut.
        batch_nodes: Nodes of the clusters that meet in a step.
    """
    known = _KNOWN.setdefault(graph, {})
    if batch_nodes not in known:
        steps = math.ceil(graph.num_nodes / batch_nodes)
        count = min(steps * JOINED if steps > 1 else 1, graph.num_nodes)
        members = by_first(lambda: _cut(graph, count))
        known[batch_nodes] = _of_members(members, count, graph.first_edges.device)
    return known[batch_nodes]


def has_pymetis() -> bool:
    """Whether there is something to cut with where few edges are."""
    return importlib.util.find_spec("pymetis") is not None


def _of_members(members: Tensor, count: int, device: torch.device) -> Clusters:
    """From the cluster of each node, ``[N]``; clusters without nodes are left out."""
    sizes = torch.bincount(members, minlength=count)
    order = torch.argsort(members, stable=True)
    return Clusters(order.to(device), tuple(size for size in sizes.tolist() if size))


def _cut(graph: Adjacency, count: int) -> Tensor:
    """The cluster of each node, ``[N]``, on the CPU."""
    if count == 1:
        return torch.zeros(graph.num_nodes, dtype=torch.long)
    if not has_pymetis():
        generator = torch.Generator().manual_seed(0)
        return torch.randperm(graph.num_nodes, generator=generator) % count
    import pymetis

    # It wants every edge in both directions, once, and no self-loops.
    sources, targets = graph.sources.cpu().numpy(), graph.targets.cpu().numpy()
    other = sources != targets
    ends = np.stack([np.minimum(sources, targets)[other], np.maximum(sources, targets)[other]])
    keys = np.unique(ends[0].astype(np.int64) * graph.num_nodes + ends[1])
    low, high = keys // graph.num_nodes, keys % graph.num_nodes
    rows, cols = np.concatenate([low, high]), np.concatenate([high, low])
    order = np.argsort(rows, kind="stable")
    starts = np.searchsorted(rows[order], np.arange(graph.num_nodes + 1))
    adjacency = pymetis.CSRAdjacency(starts.astype(np.int32), cols[order].astype(np.int32))
    _, members = pymetis.part_graph(count, adjacency=adjacency)
    return torch.tensor(members, dtype=torch.long)
