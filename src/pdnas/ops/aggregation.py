r"""Aggregations of weighted messages :math:`a_{ij} F(h_j)` over :math:`j \in N(i)`.

Each op maps weights ``[E, H]`` and features ``[N, H, C]`` to ``[N, H, C]``; a node without
neighbors gets zeros.
"""

from typing import ClassVar

from torch import Tensor

from pdnas.ops.adjacency import Adjacency
from pdnas.ops.base import Op
from pdnas.registry import Registry


class Aggregation(Op):
    """A kind of aggregation; ``linear`` ones may average the heads' weights beforehand."""

    linear: ClassVar[bool] = True


AGGREGATIONS: Registry[str, type[Aggregation]] = Registry("aggregation")


@AGGREGATIONS.register("sum")
class SumAggregation(Aggregation):
    r""":math:`e_i = \sum_{j \in N(i)} a_{ij} F(h_j)`."""

    def forward(self, weights: Tensor, x: Tensor, graph: Adjacency) -> Tensor:
        return graph.weighted_sum(weights, x)


@AGGREGATIONS.register("mean")
class MeanAggregation(Aggregation):
    r""":math:`e_i = \frac{1}{|N(i)|} \sum_{j \in N(i)} a_{ij} F(h_j)`."""

    def forward(self, weights: Tensor, x: Tensor, graph: Adjacency) -> Tensor:
        return graph.weighted_sum(weights, x) / graph.in_degree.clamp(min=1).view(-1, 1, 1)


@AGGREGATIONS.register("max")
class MaxAggregation(Aggregation):
    r""":math:`e_i = \max_{j \in N(i)} a_{ij} F(h_j)`, channel by channel."""

    linear = False

    def forward(self, weights: Tensor, x: Tensor, graph: Adjacency) -> Tensor:
        return graph.weighted_max(weights, x)
