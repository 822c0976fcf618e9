r"""All candidates at once, all of them active: every slot gives the weighted mean of its ops.

The continuous relaxation of Liu, Simonyan and Yang, DARTS: Differentiable Architecture Search,
2019: a choice among ops becomes :math:`\sum_t p_t\, o_t(x)`, whose probabilities have gradients.
"""

import operator
from collections.abc import Collection, Iterable, Mapping
from functools import reduce
from typing import Any

from torch import Tensor, nn

from pdnas.models.block import aggregate, in_parts
from pdnas.ops import SLOTS, Adjacency, BlockInput, Features
from pdnas.ops.features import dropout, dropout_entries
from pdnas.supernet.supernet import Supernet

Probs = tuple[Tensor, ...]
"""The probability of each candidate of a slot."""


class MixedBlock(nn.Module):
    r"""A block whose every slot is the mixture of its candidates.

    With :math:`p` the probabilities of a slot's ops,

    .. math::
        f = \sum_t p_t F_t(h), \qquad
        a^H = \sum_t p_t\, \mathrm{ATTEND}^H_t(f), \qquad
        s(x) = \sum_H p_H \sum_t p_t\, \mathrm{AGGREGATE}_t(a^H, x),

    .. math::
        e = \sum_t p_t\, \mathrm{PROPAGATE}_t(f, s), \qquad
        c = \sum_t p_t\, \mathrm{COMBINE}_t(e, f, h), \qquad
        h' = \sum_t p_t\, \sigma_t \Big(\sum_u p_u \mathrm{NORM}_u(c + b)\Big).

    Attentions are mixed on the edges, for each number of heads :math:`H` apart; numbers of heads
    where the heads have been put together. Messages are found on the graph with self-loops, on the
    one without, or on both, as the candidates for the combination need them. With all of every
    slot's probability on one op this is the plain block of these ops.

    Learned attention is dropped once for each number of heads, after it was mixed. A slot with a
    single candidate costs nothing extra, and its probability is not read.

    Args:
        supernet: Whose ops are mixed.
        number: Of the block.
    """

    def __init__(self, supernet: Supernet, number: int) -> None:
        super().__init__()

        def candidates(slot: str, **others: str | int) -> Any:
            return nn.ModuleList(supernet.candidates(number, slot, **others))

        self.transforms, self.propagations = candidates("expansion"), candidates("propagation")
        self.attentions: Any = nn.ModuleList(
            [candidates("attention", heads=count) for count in supernet.space.heads]
        )
        self.heads, self.aggregations = candidates("heads"), candidates("aggregation")
        self.combines, self.norms = candidates("combine"), candidates("norm")
        self.activations = candidates("activation")
        self.bias = supernet.biases[number] if supernet.space.bias else None
        self.attention_dropout = supernet.attention_dropout
        last = number == supernet.num_blocks - 1
        self._counts = {slot: len(supernet.space.candidates(slot, last=last)) for slot in SLOTS}

    def forward(self, x: BlockInput, graph: Adjacency, op_probs: Tensor) -> Tensor:
        """``[N, I] -> [N, O]``.

        Args:
            x: The block's input.
            graph: Where messages travel.
            op_probs: Of each candidate of each slot, ``[K, T]``.
        """
        probs = {
            slot: row[:count].unbind()
            for (slot, count), row in zip(self._counts.items(), op_probs, strict=True)
        }
        transformed = self._transform(x, probs["expansion"])  # [N, O]
        messages = {
            looped: self._gather(transformed, graph.with_self_loops if looped else graph, probs)
            for looped in sorted({bool(op.self_loops) for op in self.combines})
        }
        combined = mixed(
            (op(messages[bool(op.self_loops)], transformed, x) for op in self.combines),
            probs["combine"],
        )
        shifted = combined if self.bias is None else combined + self.bias
        normed = mixed((op(shifted) for op in self.norms), probs["norm"])
        return mixed((op(normed) for op in self.activations), probs["activation"])

    def _transform(self, x: BlockInput, probs: Probs) -> Tensor:
        """``[N, I] -> [N, O]``; the transforms multiply with their probabilities themselves."""
        factors = probs if len(probs) > 1 else (None,)
        return _total(op(x, factor) for op, factor in zip(self.transforms, factors, strict=True))

    def _gather(self, transformed: Tensor, graph: Adjacency, probs: Mapping[str, Probs]) -> Tensor:
        """What arrives at each node, ``[N, O] -> [N, O]``."""

        def step(x: Tensor) -> Tensor:
            widest = max(op.heads for op in self.heads) * x.size(1)
            return in_parts(every_way, x, transformed, graph, widest)

        def every_way(x: Tensor, transformed: Tensor, graph: Adjacency) -> Tensor:
            ways = (of_heads(number, x, transformed, graph) for number in range(len(self.heads)))
            return mixed(ways, probs["heads"])

        def of_heads(number: int, x: Tensor, transformed: Tensor, graph: Adjacency) -> Tensor:
            weights = self._attend(number, transformed, graph, probs["attention"])
            heads = self.heads[number]
            parts = (
                aggregate(weights, x, graph, heads=heads, aggregation=op)
                for op in self.aggregations
            )
            return mixed(parts, probs["aggregation"])

        return mixed(
            (op(transformed, graph, step) for op in self.propagations), probs["propagation"]
        )

    def _attend(self, number: int, transformed: Tensor, graph: Adjacency, probs: Probs) -> Tensor:
        """The weight of each edge for each head, ``[N, O] -> [E, H]``; ``[E, 1]`` if all agree.

        Args:
            number: Of the candidate for the heads.
            transformed: What the attentions look at.
            graph: Along whose edges.
            probs: Of the attentions.
        """
        split = self.heads[number].split(transformed)  # [N, H, C]
        sums: dict[bool, Tensor] = {}
        for op, prob in zip(self.attentions[number], probs, strict=True):
            weights = op(split, graph) if len(probs) == 1 else op(split, graph) * prob
            sums[op.learned] = sums[op.learned] + weights if op.learned in sums else weights
        if True in sums:
            sums[True] = dropout_entries(sums[True], self.attention_dropout, self.training)
        return _total(sums.values())


class MixedNetwork(nn.Module):
    r"""A network of mixed blocks, with every shortcut weighted by its gate.

    .. math::
        O_j = O'_j + \sum_{i \le j} \gamma_{ij}\, g_{ij}(I_i), \qquad I_{j+1} = O_j

    in the words of :class:`~pdnas.models.GraphNetwork`. All weights are the supernet's. With all
    probabilities and gates 0 or 1 it is the plain network of the architecture that they choose.

    Args:
        supernet: Whose ops are mixed, at its rates of dropout.
        gates: The shortcuts that there are, or all that the space has.
    """

    def __init__(
        self, supernet: Supernet, gates: Collection[tuple[int, int]] | None = None
    ) -> None:
        super().__init__()
        if gates is None:
            gates = supernet.space.possible_gates(supernet.num_blocks)
        self.blocks = nn.ModuleList(
            [MixedBlock(supernet, number) for number in range(supernet.num_blocks)]
        )
        self.shortcuts = nn.ParameterDict(
            {f"{i}_{j}": supernet.shortcuts[f"{i}_{j}"] for i, j in gates}
        )
        self.input_dropout, self.dropout = supernet.input_dropout, supernet.dropout

    def forward(self, x: Features, graph: Adjacency, *, op_probs: Tensor, gates: Tensor) -> Tensor:
        """Logits of every node, ``[N, F] -> [N, classes]``.

        Args:
            x: Features.
            graph: The edges.
            op_probs: Of each candidate of each slot of each block, ``[L, K, T]``; nothing is read
                where there is no candidate.
            gates: What the shortcuts are multiplied with, ``[L, L]``.
        """
        block_inputs: list[Features] = []
        flow = x
        for j, block in enumerate(self.blocks):
            rate = self.dropout if j else self.input_dropout
            block_inputs.append(dropout(flow, rate, self.training))
            routed_output: Tensor = block(block_inputs[j], graph, op_probs[j])
            for i in range(j + 1):
                if f"{i}_{j}" in self.shortcuts:
                    weight = self.shortcuts[f"{i}_{j}"] * gates[i, j]
                    routed_output = routed_output + block_inputs[i] @ weight
            flow = routed_output
        return routed_output


def mixed(values: Iterable[Tensor], probs: Probs) -> Tensor:
    r""":math:`\sum_t p_t v_t`; a single value as it is.

    Args:
        values: :math:`v`, of one shape.
        probs: :math:`p`, a number each.
    """
    if len(probs) == 1:
        (only,) = values
        return only
    return _total(value * prob for value, prob in zip(values, probs, strict=True))


def _total(values: Iterable[Tensor]) -> Tensor:
    return reduce(operator.add, values)
