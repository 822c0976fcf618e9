"""One graph block: transform, attend and aggregate, combine, normalize, activate."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from pdnas.architecture import BlockSpec
from pdnas.ops import SLOTS, Adjacency, BlockInput, Dims, Op
from pdnas.ops.aggregation import Aggregation
from pdnas.ops.attention import Attention, Normalization
from pdnas.ops.combine import Combine
from pdnas.ops.features import dropout_entries
from pdnas.ops.heads import Heads
from pdnas.ops.propagation import Propagation

AT_ONCE = 2**28
"""Numbers that edges carry at once where no gradients are asked for: a GiB of them."""


class Factors(NamedTuple):
    """What a search multiplies a block's inner results with, to learn what its ops are worth.

    Each is a number other than zero, the product of those of the ops named, or nothing where no op
    was chosen.

    Args:
        transform: Of the transform.
        messages: Of the propagation, the attention, the heads and the aggregation, which all scale
            the messages.
        combined: Of the combination.
        output: Of the norm and the activation.
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
        h'_i = \sigma(\mathrm{NORM}(\mathrm{COMBINE}(e_i, F(h_i)) + b))

    The paper has no norm. With another propagation than one step, :math:`e` is that of
    :mod:`pdnas.ops.propagation`, and there is no attention and no aggregation.

    Args:
        ops: The op of every slot.
        bias: :math:`b`, ``[O]``, or nothing.
        attention_dropout: Rate at which learned attention is dropped in training.
    """

    attention: Attention
    heads: Heads
    aggregation: Aggregation

    def __init__(
        self,
        ops: Mapping[str, Any],
        *,
        bias: nn.Parameter | None = None,
        attention_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.transform: Op = ops["expansion"]
        self.propagation: Propagation = ops["propagation"]
        if self.propagation.attentive:
            self.attention, self.heads = ops["attention"], ops["heads"]
            self.aggregation = ops["aggregation"]
        self.combine: Combine = ops["combine"]
        self.norm: Op = ops["norm"]
        self.activation: Op = ops["activation"]
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
            {slot: make_op(spec.op(slot), dims, attention_normalization) for slot in SLOTS},
            bias=nn.Parameter(torch.zeros(out_channels)) if spec.bias else None,
            attention_dropout=attention_dropout,
        )

    def forward(self, x: BlockInput, graph: Adjacency, factors: Factors = UNSCALED) -> Tensor:
        """``[N, I] -> [N, O]``."""
        if self.combine.self_loops:
            graph = graph.with_self_loops
        transformed = self.transform(x, factors.transform)  # [N, O]
        messages = self._gather(transformed, graph, factors.messages)  # [N, O]
        combined = _scaled(self.combine(messages, transformed, x), factors.combined)
        shifted = combined if self.bias is None else combined + self.bias
        return _scaled(self.activation(self.norm(shifted)), factors.output)

    def input_weights(self) -> list[nn.Parameter]:
        """The maps that this block's input is multiplied with."""
        return [*self.transform.input_weights(), *self.combine.input_weights()]

    def _gather(self, transformed: Tensor, graph: Adjacency, factor: Tensor | None) -> Tensor:
        """What arrives at each node, ``[N, O] -> [N, O]``."""

        def step(x: Tensor) -> Tensor:
            return in_parts(self._step, x, transformed, graph, self._numbers_per_edge(x))

        if factor is None:
            messages: Tensor = self.propagation(transformed, graph, step)
            return messages
        scaled: Tensor = self.propagation(_felt(transformed, factor), graph, step)
        return scaled * factor.detach()

    def _numbers_per_edge(self, x: Tensor) -> int:
        """What an edge carries in a step: its weight alone where messages are summed as they go."""
        wide = self.attention.wide or (x.is_cuda and not self.aggregation.linear)
        if wide and self.heads.averaged:
            return self.heads.heads * x.size(1)
        return x.size(1) if wide or self.attention.learned else 1

    def _step(self, x: Tensor, transformed: Tensor, graph: Adjacency) -> Tensor:
        """One step by attention and aggregation, ``[N, O] -> [N, O]``."""
        weights = self._attend(transformed, graph)
        return aggregate(weights, x, graph, heads=self.heads, aggregation=self.aggregation)

    def _attend(self, transformed: Tensor, graph: Adjacency) -> Tensor:
        """The weight of each edge for each head, ``[N, O] -> [E, H]``; ``[E, 1]`` if all agree."""
        weights: Tensor = self.attention(self.heads.split(transformed), graph)
        if self.attention.learned:
            weights = dropout_entries(weights, self.attention_dropout, self.training)
        return weights


def in_parts(
    step: Callable[[Tensor, Tensor, Adjacency], Tensor],
    x: Tensor,
    transformed: Tensor,
    graph: Adjacency,
    numbers: int,
) -> Tensor:
    """A step for a part of the nodes at a time where it would take too much; the same result.

    Gradients need all of it anyway.

    Args:
        step: Messages from what travels and what attention looks at, ``[N, O] x 2 -> [N, O]``.
        x: What travels.
        transformed: What attention looks at.
        graph: Where.
        numbers: What an edge carries in the step.
    """
    edges = max(1, AT_ONCE // numbers)
    if torch.is_grad_enabled() or graph.num_edges <= edges:
        return step(x, transformed, graph)
    heard = [
        step(x[part.nodes], transformed[part.nodes], part.adjacency)[: part.size]
        for part in graph.parts(edges)
    ]
    return torch.cat(heard)


def aggregate(
    weights: Tensor, x: Tensor, graph: Adjacency, *, heads: Heads, aggregation: Aggregation
) -> Tensor:
    """Messages of all heads, put together, ``[E, H], [N, O] -> [N, O]``.

    Args:
        weights: Of each edge for each head; ``[E, 1]`` if all agree.
        x: What travels.
        graph: Where.
        heads: Which channels each head sees.
        aggregation: How messages meet.
    """
    if heads.averaged and aggregation.linear:
        # The mean of the heads' results is the result of the heads' mean weights.
        weights = weights.mean(dim=1, keepdim=True)
    if weights.size(1) == 1:
        messages: Tensor = aggregation(weights, x.unsqueeze(1), graph)
        return messages.squeeze(1)
    return heads.merge(aggregation(weights, heads.split(x), graph))


def make_op(kind: type[Op], dims: Dims, attention_normalization: Normalization) -> Op:
    """An op with fresh weights."""
    if issubclass(kind, Attention):
        return kind(dims, attention_normalization)
    return kind(dims)


def _scaled(x: Tensor, factor: Tensor | None) -> Tensor:
    return x if factor is None else x * factor


def _felt(x: Tensor, factor: Tensor) -> Tensor:
    r"""``x``, through which a factor of the messages that are made of it feels its gradient.

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
