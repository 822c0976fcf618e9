r"""A graph as the ops see it: edges sorted by target, in compressed rows, made once per graph.

Edge :math:`j \to i` carries a message from its source :math:`j` to its target :math:`i`, as in
PyG's ``edge_index = [sources, targets]``. Everything that is indexed by edge follows the sorted
order of this class, not that of the ``edge_index`` it came from.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from pdnas.errors import TaskError
from pdnas.ops.csr import Csr, Permute, csr_inner, csr_matmul, csr_max, shifted, take_rows

INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)


class Adjacency:
    """The neighborhoods of a graph of ``N`` nodes and ``E`` edges.

    Args:
        pattern: Targets as rows, sources as columns, ``[N, N]``.
        looped: Whether it is known to have exactly one self-loop at every node.
        members: The graphs that stand side by side in this one, if it was made of such.
    """

    def __init__(
        self, pattern: Csr, *, looped: bool = False, members: tuple["Adjacency", ...] = ()
    ) -> None:
        self.pattern = pattern
        self._looped, self._members = looped, members
        self._per_heads: dict[int, PerHead] = {}

    @classmethod
    def from_edge_index(cls, edge_index: Tensor, num_nodes: int) -> "Adjacency":
        """From ``[2, E]`` in any order; parallel edges and self-loops are kept as they are."""
        by_target = torch.argsort(edge_index[1], stable=True)
        sources, targets = edge_index[:, by_target]
        return cls(Csr.from_rows(targets, sources, (num_nodes, num_nodes)))

    @classmethod
    def join(cls, members: Sequence["Adjacency"]) -> "Adjacency":
        """Several graphs side by side, without edges between them.

        Whatever takes sorting (transposes, self-loops, heads) is found once for each of them and
        put together here: batches of graphs that meet anew in every step cost next to nothing.
        """
        return cls(
            Csr.diagonal([member.pattern for member in members]),
            looped=all(member._looped for member in members),
            members=tuple(members),
        )

    @property
    def num_nodes(self) -> int:
        return self.pattern.num_rows

    @property
    def num_edges(self) -> int:
        return self.pattern.nnz

    @cached_property
    def sources(self) -> Tensor:
        """Source of each edge, ``[E]``."""
        return self.pattern.cols.long()

    @cached_property
    def targets(self) -> Tensor:
        """Target of each edge, ``[E]``, sorted."""
        return self.pattern.rows

    @cached_property
    def edge_index(self) -> Tensor:
        """Sources and targets as PyG's layers read them, ``[2, E]``."""
        return torch.stack([self.sources, self.targets])

    @cached_property
    def first_edges(self) -> Tensor:
        """Where the edges of each target begin, ``[N + 1]``."""
        return self.pattern.rowptr.long()

    @cached_property
    def in_degree(self) -> Tensor:
        """Edges that arrive at each node, ``[N]``."""
        return self.pattern.rowptr.diff()

    @cached_property
    def out_degree(self) -> Tensor:
        """Edges that leave each node, ``[N]``."""
        return self.pattern.transposed[0].rowptr.diff()

    @property
    def with_self_loops(self) -> "Adjacency":
        """This graph with exactly one self-loop at every node."""
        return self if self._looped else self._with_self_loops

    @cached_property
    def _with_self_loops(self) -> "Adjacency":
        if self._members:
            return Adjacency.join([member.with_self_loops for member in self._members])
        nodes = torch.arange(self.num_nodes, device=self.sources.device)
        other = self.sources != self.targets
        edges = torch.stack([self.sources[other], self.targets[other]])
        loops = torch.stack([nodes, nodes])
        looped = Adjacency.from_edge_index(torch.cat([edges, loops], dim=1), self.num_nodes)
        return Adjacency(looped.pattern, looped=True)

    @cached_property
    def gcn_weights(self) -> Tensor:
        r""":math:`1 / \sqrt{d_i d_j}` per edge, ``[E]``, of target and source."""
        if self._members:
            return torch.cat([member.gcn_weights for member in self._members])
        # Roots first: the product of two degrees can exceed 32 bits.
        target, source = (degree.float().rsqrt() for degree in (self.in_degree, self.out_degree))
        return target[self.targets] * source[self.sources]

    @cached_property
    def unit_weights(self) -> Tensor:
        """1 per edge, ``[E]``."""
        return torch.ones(self.num_edges, device=self.pattern.cols.device)

    def at_sources(self, x: Tensor) -> Tensor:
        """What each edge's source holds, ``[N, ...] -> [E, ...]``."""
        result: Tensor = _Gather.apply(self.sources, self._edges_by_source, x)
        return result

    def at_targets(self, x: Tensor) -> Tensor:
        """What each edge's target holds, ``[N, ...] -> [E, ...]``."""
        result: Tensor = _Gather.apply(self.targets, self._edges_by_target, x)
        return result

    def sum_edges(self, messages: Tensor) -> Tensor:
        """Sum of what the edges carry to each target, ``[E, H] -> [N, H]``."""
        unit = self.unit_weights.to(messages.dtype)
        return csr_matmul(self._edges_by_target, unit, messages)

    def softmax(self, scores: Tensor) -> Tensor:
        r""":math:`e^{s_{ij}} / \sum_{k \in N(i)} e^{s_{ik}}`, per head, ``[E, H] -> [E, H]``."""
        result: Tensor = _EdgeSoftmax.apply(self, scores)
        return result

    def inner_products(self, at_target: Tensor, at_source: Tensor) -> Tensor:
        r""":math:`\langle u_i, v_j \rangle` on each edge, per head, ``[N, H, C] x 2 -> [E, H]``."""
        per_head = self._per_head(at_target.size(1))
        left, right = at_target.flatten(0, 1), at_source.flatten(0, 1)
        return per_head.by_edge(csr_inner(per_head.pattern, left, right))

    def weighted_sum(self, weights: Tensor, x: Tensor) -> Tensor:
        r""":math:`\sum_{j \in N(i)} a_{ij} x_j` per head, ``[E, H], [N, H, C] -> [N, H, C]``."""
        per_head = self._per_head(x.size(1))
        values = per_head.by_entry(weights.to(x.dtype))
        return csr_matmul(per_head.pattern, values, x.flatten(0, 1)).view(x.shape)

    def weighted_max(self, weights: Tensor, x: Tensor) -> Tensor:
        r""":math:`\max_{j \in N(i)} a_{ij} x_j` per head and channel; 0 without neighbors."""
        per_head = self._per_head(x.size(1))
        values = per_head.by_entry(weights.to(x.dtype))
        return csr_max(per_head.pattern, values, x.flatten(0, 1)).view(x.shape)

    def subgraph(self, nodes: Tensor) -> "Adjacency":
        """The graph of some nodes, numbered in their order, and of the edges between them."""
        count = nodes.numel()
        heard, _ = self.pattern.select(nodes)
        sources = self._renumbered(heard.cols.long(), nodes)
        inside = sources >= 0
        return Adjacency(Csr.from_rows(heard.rows[inside], sources[inside], (count, count)))

    def parts(self, edges: int) -> Iterator["Part"]:
        """What each node hears, for a few nodes at a time, all nodes in order.

        Weights are those of the whole graph, so that what the nodes hear is the same.

        Args:
            edges: How many edges there are at a time, unless a single node has more.
        """
        pointers, first, arrived = self.first_edges, 0, 0
        while first < self.num_nodes:
            until = int(torch.searchsorted(pointers, arrived + edges, right=True)) - 1
            last = min(max(until, first + 1), self.num_nodes)
            end = int(pointers[last])
            yield self._part(first, last, arrived, end)
            first, arrived = last, end

    def _part(self, first: int, last: int, begin: int, end: int) -> "Part":
        """What nodes ``first`` to ``last`` hear by their edges ``begin`` to ``end``."""
        sources, size = self.sources[begin:end], last - first
        others = sources[(sources < first) | (sources >= last)].unique()
        rowptr = self.first_edges[first : last + 1] - begin
        rest = rowptr[-1:].expand(others.numel())  # nothing arrives at the others
        nodes = torch.cat([torch.arange(first, last, device=others.device), others])
        numbers = self._renumbered(sources, nodes)
        pattern = Csr.from_pointers(torch.cat([rowptr, rest]), numbers, nodes.numel())
        adjacency = Adjacency(pattern)
        adjacency.gcn_weights = self.gcn_weights[begin:end]
        return Part(nodes, size, adjacency)

    def _renumbered(self, which: Tensor, nodes: Tensor) -> Tensor:
        """The place among ``nodes`` of each of some nodes; -1 for those that are not there.

        It costs as much as there are of both, however large the graph is: the table of all nodes
        is made once and cleared after use.
        """
        self._places[nodes] = torch.arange(nodes.numel(), device=nodes.device)
        places = self._places[which]
        self._places[nodes] = -1
        return places

    @cached_property
    def _places(self) -> Tensor:
        return torch.full((self.num_nodes,), -1, device=self.pattern.cols.device)

    def repeated(self, copies: int) -> "Adjacency":
        """As many copies of this graph side by side, without edges between them."""
        return Adjacency.join([self] * copies)

    def to(self, device: torch.device | str) -> "Adjacency":
        return Adjacency(self.pattern.to(device), looped=self._looped)

    def _per_head(self, heads: int) -> "PerHead":
        if heads not in self._per_heads:
            members = [member._per_head(heads) for member in self._members if heads > 1]
            made = PerHead.join(members) if members else PerHead.of(self.pattern, heads)
            self._per_heads[heads] = made
        return self._per_heads[heads]

    @cached_property
    def _edges_by_target(self) -> Csr:
        """Which edges arrive at each node, ``[N, E]``."""
        edges = torch.arange(self.num_edges, device=self.pattern.cols.device)
        return Csr.from_pointers(self.pattern.rowptr, edges, self.num_edges)

    @cached_property
    def _edges_by_source(self) -> Csr:
        """Which edges leave each node, ``[N, E]``."""
        pattern, order = self.pattern.transposed
        return Csr.from_pointers(pattern.rowptr, order, self.num_edges)


class Part(NamedTuple):
    """Some nodes of a graph with all that they hear.

    Args:
        nodes: These nodes, then the others that they hear, ``[M]``.
        size: How many there are of the first kind.
        adjacency: The edges that arrive at these, numbered in that order, ``[M, M]``.
    """

    nodes: Tensor
    size: int
    adjacency: Adjacency


def check_edges(edges: Tensor, place: str, nodes: int) -> None:
    """Refuse edges of a wrong shape, and edges that point outside the graph."""
    if edges.dim() != 2 or edges.size(0) != 2 or edges.dtype not in INTEGERS:
        raise TaskError(
            f"The edges of {place} are {str(edges.dtype).removeprefix('torch.')} of shape "
            f"{list(edges.shape)}; give whole numbers of shape [2, edges]."
        )
    if edges.numel() and not 0 <= int(edges.min()) <= int(edges.max()) < nodes:
        worst = int(edges.max()) if int(edges.max()) >= nodes else int(edges.min())
        raise TaskError(
            f"An edge of {place} points to node {worst}, but its nodes are 0 to {nodes - 1}; "
            "remove the edge or add the node."
        )


@dataclass(frozen=True, eq=False)
class PerHead:
    """The pattern of a graph with one node per node and head, ``[N H, N H]``.

    Args:
        pattern: Of all heads.
        heads: Their number.
        order: Where each entry's value stands among the edges' values ``[E, H]``.
        inverse: The inverse of ``order``.
    """

    pattern: Csr
    heads: int
    order: Tensor
    inverse: Tensor

    @classmethod
    def of(cls, pattern: Csr, heads: int) -> "PerHead":
        """Of a graph's pattern."""
        if heads == 1:
            same = torch.arange(0)
            return cls(pattern, 1, same, same)
        expanded, order, inverse = pattern.per_head(heads)
        return cls(expanded, heads, order, inverse)

    @classmethod
    def join(cls, members: Sequence["PerHead"]) -> "PerHead":
        """Of several graphs side by side."""
        return cls(
            Csr.diagonal([member.pattern for member in members]),
            members[0].heads,
            shifted([member.order for member in members]),
            shifted([member.inverse for member in members]),
        )

    def by_entry(self, weights: Tensor) -> Tensor:
        """From the order of the edges to that of the pattern, ``[E, H] -> [E H]``."""
        if self.heads == 1:
            return weights.flatten()
        values: Tensor = Permute.apply(weights.flatten(), self.order, self.inverse)
        return values

    def by_edge(self, values: Tensor) -> Tensor:
        """The inverse of :meth:`by_entry`."""
        if self.heads == 1:
            return values.unsqueeze(1)
        weights: Tensor = Permute.apply(values, self.inverse, self.order)
        return weights.view(-1, self.heads)


class _Gather(torch.autograd.Function):
    """``x[index]``, whose gradient is a sum over edges: a CSR product instead of a scatter."""

    @staticmethod
    def forward(ctx: Any, index: Tensor, edges_by_node: Csr, x: Tensor) -> Tensor:
        ctx.edges_by_node = edges_by_node
        return take_rows(x, index)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[None, None, Tensor]:
        unit = grad.new_ones(grad.size(0))
        flat = grad.reshape(grad.size(0), math.prod(grad.shape[1:]))
        summed = csr_matmul(ctx.edges_by_node, unit, flat)
        return None, None, summed.view(-1, *grad.shape[1:])


class _EdgeSoftmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, graph: Adjacency, scores: Tensor) -> Tensor:
        largest = torch.segment_reduce(scores, "max", offsets=graph.first_edges, axis=0)
        weights = (scores - take_rows(largest, graph.targets)).exp_()
        weights /= take_rows(graph.sum_edges(weights), graph.targets)
        ctx.graph = graph
        ctx.save_for_backward(weights)
        return weights

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor]:
        graph, (weights,) = ctx.graph, ctx.saved_tensors
        grad = grad * weights
        total = take_rows(graph.sum_edges(grad), graph.targets)
        return None, grad - weights * total
