r"""How far a block's messages travel, the slot ``propagation``.

Order 1 is the paper's: one step, weighted by the block's attention and put together by its
aggregation. The other orders are fixed averages of the powers of the normalized adjacency, as in
GRAND; the block's attention, heads and aggregation then play no part. Each op maps features
``[N, O]`` to messages ``[N, O]``.
"""

from collections.abc import Callable
from typing import ClassVar

from torch import Tensor

from pdnas.ops.adjacency import Adjacency
from pdnas.ops.base import Dims, Op
from pdnas.registry import Registry


class Propagation(Op):
    """A way for messages to travel, linear in the features; an ``attentive`` one takes a step."""

    attentive: ClassVar[bool] = False


Step = Callable[[Tensor], Tensor]
"""One step by a block's attention and aggregation, ``[N, O] -> [N, O]``."""


PROPAGATIONS: Registry[int, type[Propagation]] = Registry("propagation")


@PROPAGATIONS.register(1)
class OneStep(Propagation):
    r""":math:`e_i = \mathrm{AGGREGATE}_{j \in N(i)}(a_{ij} f_j)`, equation 1."""

    attentive = True

    def forward(self, x: Tensor, graph: Adjacency, step: Step) -> Tensor:
        return step(x)


@PROPAGATIONS.register(0, 2, 4, 8)
class MixedOrders(Propagation):
    r""":math:`e = \frac{1}{K + 1} \sum_{k=0}^{K} \hat A^k f`.

    :math:`\hat A` is the adjacency with self-loops, normalized as in GCN. With :math:`K = 0`
    nothing travels and the block is that of a plain network.
    """

    depends = ("propagation",)

    def __init__(self, dims: Dims) -> None:
        super().__init__(dims)
        self.order = dims.propagation

    def forward(self, x: Tensor, graph: Adjacency, step: Step) -> Tensor:
        looped = graph.with_self_loops
        weights, power, total = looped.gcn_weights.unsqueeze(1), x.unsqueeze(1), x
        for _ in range(self.order):
            power = looped.weighted_sum(weights, power)  # [N, 1, O]
            total = total + power.squeeze(1)
        return total / (self.order + 1)
