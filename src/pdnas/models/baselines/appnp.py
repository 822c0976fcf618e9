r"""APPNP: Gasteiger et al., Predict then Propagate: Graph Neural Networks meet PageRank, 2019.

A perceptron of two layers tells what each node looks like, :math:`Z^{(0)} = H`, and personalized
PageRank spreads it,

.. math::
    Z^{(k+1)} = (1 - \alpha) \hat A Z^{(k)} + \alpha H, \qquad k = 0, \dots, K - 1.

In training other edges are dropped at every step, as in the paper. PyG's layer drops more of the
same edges from step to step, so the steps are taken here; without dropout both are the same.
"""

from typing import Literal, Unpack

from pydantic import Field
from torch import Tensor, nn

from pdnas.architecture import Channels
from pdnas.models.baselines.base import BASELINES, Baseline
from pdnas.models.published import PUBLISHED, FeatureMap, Published, PublishedNetwork, Rates
from pdnas.ops.adjacency import Adjacency
from pdnas.ops.features import BlockInput, dropout_entries


@PUBLISHED.register("appnp")
class Appnp(Published):
    """What decides an APPNP."""

    name: Literal["appnp"] = "appnp"
    steps: int = Field(10, ge=0, description="Of PageRank, K.")
    alpha: float = Field(0.1, ge=0, le=1, description="Probability to go back to the start.")
    edge_dropout: float = Field(0.5, ge=0, lt=1, description="Dropout of edges at every step.")

    def build(self, task: Channels, hidden: int, **rates: Unpack[Rates]) -> "AppnpNetwork":
        return AppnpNetwork(self, task, hidden, **rates)


class AppnpNetwork(PublishedNetwork):
    """The network of an :class:`Appnp`; only its first map decays, as in the paper."""

    def __init__(self, design: Appnp, task: Channels, hidden: int, **rates: Unpack[Rates]) -> None:
        super().__init__(task, hidden, **rates)
        self.design = design
        self.first = FeatureMap(task.in_channels, hidden)
        self.second = nn.Linear(hidden, task.out_channels, bias=False)

    def logits(self, x: BlockInput, graph: Adjacency) -> Tensor:
        graph, alpha = graph.with_self_loops, self.design.alpha
        looks: Tensor = self.second(self.between(self.first(x).relu()))  # [N, classes]
        weights = graph.gcn_weights.to(looks.dtype).unsqueeze(1)  # [E, 1]
        spread = looks.unsqueeze(1)  # [N, 1, classes]
        for _ in range(self.design.steps):
            kept = dropout_entries(weights, self.design.edge_dropout, self.training)
            arrived = graph.weighted_sum(kept, spread)
            spread = (1 - alpha) * arrived + alpha * looks.unsqueeze(1)
        return spread.squeeze(1)

    def decays(self) -> list[tuple[float, list[nn.Parameter]]]:
        free = list(self.second.parameters())
        others = [weight for weight in self.parameters() if weight is not free[0]]
        return [(1.0, others), (0.0, free)]


BASELINES.register("appnp")(Baseline(Appnp(), hidden=64))
