r"""Attention :math:`a_{ij}` on the edge from :math:`j` to :math:`i`: Table 1 of the paper.

Each op maps transformed features ``[N, H, C]`` to weights per edge and head. The two fixed kinds
give ``[E, 1]``, the same for all heads, and are used as they are. The five learned kinds give
scores ``[E, H]``, which a softmax over each neighborhood normalizes, as in GraphNAS and AGNN, from
where the paper takes them; the normalization ``none`` gives the paper's literal table. As the
paper says, their :math:`W` are vectors, one per head: :math:`W h` is an inner product where the
table needs a number and an element-wise product where it needs a vector.
"""

from abc import ABC, abstractmethod
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pdnas.ops.adjacency import Adjacency
from pdnas.ops.base import Dims, Op
from pdnas.registry import Registry

Normalization = Literal["softmax", "none"]


class Attention(Op):
    """A kind of attention; ``learned`` kinds are subject to normalization and attention dropout.

    For a ``wide`` one every edge carries all channels of every head.
    """

    depends = ("heads",)
    learned: ClassVar[bool]
    wide: ClassVar[bool] = False

    def __init__(self, dims: Dims, normalization: Normalization = "softmax") -> None:
        super().__init__(dims)
        self.normalization = normalization
        self.shared = not dims.splits_heads  # whether all heads see the same channels


ATTENTIONS: Registry[str, type[Attention]] = Registry("attention")


@ATTENTIONS.register("const")
class ConstAttention(Attention):
    r""":math:`a_{ij} = 1`."""

    learned = False

    def forward(self, x: Tensor, graph: Adjacency) -> Tensor:
        return graph.unit_weights.unsqueeze(1)


@ATTENTIONS.register("gcn")
class GcnAttention(Attention):
    r""":math:`a_{ij} = 1 / \sqrt{d_i d_j}`: in-degree of the target, out-degree of the source.

    On an undirected graph the two degrees are one. On a directed one, where PyG takes the
    in-degree of both, messages from nodes that nothing points to are kept.
    """

    learned = False

    def forward(self, x: Tensor, graph: Adjacency) -> Tensor:
        return graph.gcn_weights.unsqueeze(1)


class LearnedAttention(Attention, ABC):
    """Scores from the features at both ends of an edge, normalized."""

    learned = True
    vectors: ClassVar[tuple[str, ...]]
    """The op's parameter vectors, each ``[H, C]``."""

    @classmethod
    def shapes(cls, dims: Dims) -> dict[str, tuple[int, ...]]:
        return dict.fromkeys(cls.vectors, (dims.heads, dims.head_channels))

    def forward(self, x: Tensor, graph: Adjacency) -> Tensor:
        scores = self.scores(x, graph)
        return graph.softmax(scores) if self.normalization == "softmax" else scores

    @abstractmethod
    def scores(self, x: Tensor, graph: Adjacency) -> Tensor:
        """The table's formula, ``[N, H, C] -> [E, H]``."""


def inner(x: Tensor, *vectors: Tensor, shared: bool = False) -> tuple[Tensor, ...]:
    """Inner products of each row with each head's vectors, ``[N, H, C], [H, C]... -> [N, H]...``.

    All of them come from one product of matrices: of block-diagonal shape where each head has its
    own channels, dense where all heads see the ``shared`` ones.
    """
    heads, channels = vectors[0].shape
    if shared:
        return torch.split(x[:, 0] @ torch.cat(vectors).t(), heads, dim=1)
    own = torch.eye(heads, dtype=x.dtype, device=x.device).unsqueeze(1)  # [H, 1, H]
    spread = torch.cat([vector.unsqueeze(-1) * own for vector in vectors], dim=-1)
    return torch.split(x.flatten(1) @ spread.view(heads * channels, -1), heads, dim=1)


@ATTENTIONS.register("gat")
class GatAttention(LearnedAttention):
    r""":math:`a_{ij} = \mathrm{LeakyReLU}(W_a (h_i \| h_j))` with slope 0.2, as in GAT."""

    vectors = ("at_target", "at_source")
    at_target: nn.Parameter
    at_source: nn.Parameter

    def scores(self, x: Tensor, graph: Adjacency) -> Tensor:
        target, source = inner(x, self.at_target, self.at_source, shared=self.shared)
        return F.leaky_relu(graph.at_targets(target) + graph.at_sources(source), 0.2)


@ATTENTIONS.register("sym-gat")
class SymGatAttention(LearnedAttention):
    r""":math:`a_{ij} = a^{gat}_{ij} + a^{gat}_{ji}`."""

    vectors = ("at_target", "at_source")
    at_target: nn.Parameter
    at_source: nn.Parameter

    def scores(self, x: Tensor, graph: Adjacency) -> Tensor:
        both = torch.cat(inner(x, self.at_target, self.at_source, shared=self.shared), dim=1)
        target_i, source_i = graph.at_targets(both).chunk(2, dim=1)
        target_j, source_j = graph.at_sources(both).chunk(2, dim=1)
        return F.leaky_relu(target_i + source_j, 0.2) + F.leaky_relu(target_j + source_i, 0.2)


@ATTENTIONS.register("cos")
class CosAttention(LearnedAttention):
    r""":math:`a_{ij} = \langle W_{a1} h_i, W_{a2} h_j \rangle`."""

    vectors = ("at_target", "at_source")
    at_target: nn.Parameter
    at_source: nn.Parameter

    def scores(self, x: Tensor, graph: Adjacency) -> Tensor:
        return graph.inner_products(x * self.at_target, x * self.at_source)


@ATTENTIONS.register("linear")
class LinearAttention(LearnedAttention):
    r""":math:`a_{ij} = \tanh(W_a h_j)`, or literally :math:`\tanh(\sum_{k \in N(i)} W_a h_k)`.

    The literal form is the same for all neighbors of a node, so a softmax would turn it into a
    mean that nothing can learn. It is used without normalization; with the softmax each neighbor
    has its own score, as in GraphNAS.
    """

    vectors = ("at_source",)
    at_source: nn.Parameter

    def scores(self, x: Tensor, graph: Adjacency) -> Tensor:
        (score,) = inner(x, self.at_source, shared=self.shared)
        scores = graph.at_sources(score)
        if self.normalization == "none":
            scores = graph.at_targets(graph.sum_edges(scores))
        return scores.tanh()


@ATTENTIONS.register("gene-linear")
class GeneLinearAttention(LearnedAttention):
    r""":math:`a_{ij} = W_g \tanh(W_{a1} h_i + W_{a2} h_j)`."""

    wide = True
    vectors = ("at_target", "at_source", "at_sum")
    at_target: nn.Parameter
    at_source: nn.Parameter
    at_sum: nn.Parameter

    def scores(self, x: Tensor, graph: Adjacency) -> Tensor:
        target = graph.at_targets(x * self.at_target)
        source = graph.at_sources(x * self.at_source)
        (scores,) = inner((target + source).tanh(), self.at_sum)
        return scores
