"""Nodes to learn from with a few of their neighbors, and of those neighbors' neighbors.

Hamilton et al., Inductive Representation Learning on Large Graphs, 2017. PyG samples; it needs
pyg-lib or torch-sparse for that.
"""

import warnings
from collections.abc import Iterator
from typing import NamedTuple

import torch_geometric.typing
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.loader import NeighborLoader

from pdnas.errors import RecipeError
from pdnas.ops.adjacency import Adjacency
from pdnas.training.parallel import dealt, permutation, world

FAN_OUT = 10
"""Neighbors that each node hears in a block, where nobody says how many."""


class Neighborhood(NamedTuple):
    """Some nodes and whom they hear.

    Args:
        nodes: First those to learn from, then those that they hear, ``[M]``.
        size: How many there are of the first kind.
        adjacency: The edges that were sampled, numbered in that order, ``[M, M]``.
        is_own: Whether it counts on this rank, see :func:`~pdnas.training.parallel.dealt`.
    """

    nodes: Tensor
    size: int
    adjacency: Adjacency
    is_own: bool = True


class Neighborhoods:
    """Samples neighborhoods of some nodes; torch's random state decides.

    Args:
        graph: Where they lie.
        seeds: The nodes to learn from.
        size: How many of them are in a batch.
        hops: How often messages travel: the blocks of a network.
        fan_out: How many neighbors of a node are heard each time.
    """

    def __init__(
        self, graph: Adjacency, seeds: Tensor, *, size: int, hops: int, fan_out: int | None
    ) -> None:
        check_sampler()
        self._device = graph.pattern.cols.device
        self._count, self._size = seeds.numel(), size
        data = Data(edge_index=graph.edge_index.cpu(), num_nodes=graph.num_nodes)
        with warnings.catch_warnings():
            # PyG would rather have pyg-lib; the same is sampled with torch-sparse.
            warnings.filterwarnings("ignore", message=".*without a 'pyg-lib'.*")
            self._loader = NeighborLoader(
                data,
                num_neighbors=[fan_out or FAN_OUT] * hops,
                input_nodes=seeds.cpu(),
                batch_size=size,
                shuffle=True,
            )

    def __iter__(self) -> Iterator[Neighborhood]:
        """Every seed once, in a random order; those of one batch of every few on each rank."""
        for sampled, is_own in self._sampled():
            nodes = sampled.n_id.to(self._device)
            edges = sampled.edge_index.to(self._device)
            adjacency = Adjacency.from_edge_index(edges, nodes.numel())
            yield Neighborhood(nodes, sampled.batch_size, adjacency, is_own)

    def _sampled(self) -> Iterator[tuple[Data, bool]]:
        if world() == 1:
            for sampled in self._loader:
                yield sampled, True
            return
        for chosen, is_own in dealt(permutation(self._count).split(self._size)):
            yield self._loader(chosen), is_own


def check_sampler() -> None:
    """Refuse to sample where nothing is installed that PyG could do it with."""
    if not (torch_geometric.typing.WITH_PYG_LIB or torch_geometric.typing.WITH_TORCH_SPARSE):
        raise RecipeError(
            "--batching neighbors needs pyg-lib or torch-sparse, and neither is installed; install "
            "one of them (see PyG's installation guide), or give --batching clusters."
        )
