"""One graph block: transform, attend, aggregate, combine, activate."""

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from pdnas.architecture import BlockSpec
from pdnas.ops import (
    ACTIVATIONS,
    AGGREGATIONS,
    ATTENTIONS,
    COMBINES,
    HEADS,
    TRANSFORMS,
    Adjacency,
    Features,
    Op,
)
from pdnas.ops.aggregation import Aggregation
from pdnas.ops.attention import Attention, Normalization
from pdnas.ops.combine import Combine
from pdnas.ops.features import dropout_entries
from pdnas.ops.heads import Heads


class Factors(NamedTuple):
    """What a search multiplies a block's inner results with, to learn what its ops are worth.

    Each is a number other than zero, the product of those of the ops named, or nothing where no op
    was chosen.

    Args:
        transform: Of the transform.
        messages: Of the attention, the heads and the aggregation, which all scale the messages.
        combined: Of the combination.
        output: Of the activation.
    """

    transform: Tensor | None = None
    messages: Tensor | None = None
    combined: Tensor | None = None
    output: Tensor | None = None


UNSCALED = Factors()


class GraphBlock(nn.Module):
    r"""A layer of message passing, equation 1 of the paper.

    .. math::
        e_i = \mathrm{AGGREGATE}_{j \in N(i)}(a_{ij} F(h_j)), \qquad
        h'_i = \sigma(\mathrm{COMBINE}(e_i, F(h_i)) + b)

    Args:
        transform: :math:`F`.
        heads: How the channels are shared among attention heads.
        attention: :math:`a_{ij}`.
        aggregation: Of the messages.
        combine: Of messages and node.
        activation: :math:`\sigma`.
        bias: :math:`b`, ``[O]``, or nothing.
        attention_dropout: Rate at which learned attention is dropped in training.
    """

    def __init__(
        self,
        *,
        transform: Op,
        heads: Heads,
        attention: Attention,
        aggregation: Aggregation,
        combine: Combine,
        activation: Op,
        bias: nn.Parameter | None = None,
        attention_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.transform = transform
        self.heads = heads
        self.attention = attention
        self.aggregation = aggregation
        self.combine = combine
        self.activation = activation
        self.bias = bias
        self.attention_dropout = attention_dropout

    @classmethod
    def from_spec(
        cls,
        spec: BlockSpec,
        in_channels: int,
        out_channels: int,
        hidden: int,
        *,
        attention_normalization: Normalization = "softmax",
        attention_dropout: float = 0.0,
    ) -> "GraphBlock":
        """The block that a specification describes, with fresh weights."""
        dims = spec.dims(in_channels, out_channels, hidden)
        return cls(
            transform=TRANSFORMS[spec.expansion](dims),
            heads=HEADS[spec.heads](dims),
            attention=ATTENTIONS[spec.attention](dims, attention_normalization),
            aggregation=AGGREGATIONS[spec.aggregation](dims),
            combine=COMBINES[spec.combine](dims),
            activation=ACTIVATIONS[spec.activation](dims),
            bias=nn.Parameter(torch.zeros(out_channels)) if spec.bias else None,
            attention_dropout=attention_dropout,
        )

    def forward(self, x: Features, graph: Adjacency, factors: Factors = UNSCALED) -> Tensor:
        """``[N, I] -> [N, O]``."""
        if self.combine.self_loops:
            graph = graph.with_self_loops
        transformed = self.transform(x, factors.transform)  # [N, O]
        messages = self._aggregate(transformed, graph, factors.messages)  # [N, O]
        combined = _scaled(self.combine(messages, transformed, x), factors.combined)
        shifted = combined if self.bias is None else combined + self.bias
        return _scaled(self.activation(shifted), factors.output)

    def _aggregate(self, transformed: Tensor, graph: Adjacency, factor: Tensor | None) -> Tensor:
        """Weighted messages of all heads, put together, ``[N, O] -> [N, O]``."""
        weights = self.attention(self.heads.split(transformed), graph)  # [E, H]; [E, 1]: all agree
        if factor is not None:
            transformed = _felt(transformed, factor)
            return self._gather(weights, transformed, graph) * factor.detach()
        return self._gather(weights, transformed, graph)

    def _gather(self, weights: Tensor, transformed: Tensor, graph: Adjacency) -> Tensor:
        """Messages by their weights; twice the features give twice the messages."""
        if self.attention.learned:
            weights = dropout_entries(weights, self.attention_dropout, self.training)
        if self.heads.averaged and self.aggregation.linear:
            # The mean of the heads' results is the result of the heads' mean weights.
            weights = weights.mean(dim=1, keepdim=True)
        if weights.size(1) == 1:
            messages: Tensor = self.aggregation(weights, transformed.unsqueeze(1), graph)
            return messages.squeeze(1)
        return self.heads.merge(self.aggregation(weights, self.heads.split(transformed), graph))


def _scaled(x: Tensor, factor: Tensor | None) -> Tensor:
    return x if factor is None else x * factor


def _felt(x: Tensor, factor: Tensor) -> Tensor:
    r"""``x``, through which a factor of what is made of it feels its gradient.

    For :math:`y = \lambda f(x)` with :math:`f(\lambda x) = \lambda f(x)` the gradients obey
    :math:`\lambda \, \partial \lambda = \langle \partial x, x \rangle`: no need to keep ``y``.
    """
    felt: Tensor = _Felt.apply(x, factor)  # type: ignore[no-untyped-call]
    return felt


class _Felt(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, factor: Tensor) -> Tensor:
        ctx.save_for_backward(x, factor)
        return x.view_as(x)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        x, factor = ctx.saved_tensors
        return grad, (grad * x).sum() / factor
