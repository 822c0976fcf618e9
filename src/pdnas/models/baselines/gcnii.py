r"""GCNII: Chen et al., Simple and Deep Graph Convolutional Networks, 2020.

Many layers, each of which goes back to the first one's input and is close to the identity,

.. math::
    H^{(l+1)} = \sigma\big(\big((1 - \alpha) \hat A H^{(l)} + \alpha H^{(0)}\big)
    \big((1 - \beta_l) I + \beta_l W^{(l)}\big)\big), \qquad \beta_l = \log(\lambda / l + 1),

between a map of the features, :math:`H^{(0)} = \sigma(X W_0 + b_0)`, and a map to the logits. The
layers are PyG's.
"""

from typing import Literal, Unpack

from pydantic import Field
from torch import Tensor, nn
from torch_geometric.nn import GCN2Conv

from pdnas.architecture import Channels
from pdnas.models.baselines.base import BASELINES, Baseline
from pdnas.models.published import PUBLISHED, FeatureMap, Published, PublishedNetwork, Rates
from pdnas.ops.adjacency import Adjacency
from pdnas.ops.features import BlockInput


@PUBLISHED.register("gcnii")
class Gcnii(Published):
    """What decides a GCNII; the defaults are the paper's for Cora."""

    name: Literal["gcnii"] = "gcnii"
    layers: int = Field(64, ge=1, le=10_000, description="Convolutions.")
    alpha: float = Field(0.1, ge=0, le=1, description="Share of the first layer's input in each.")
    strength: float = Field(0.5, gt=0, description="How far layers are from the identity, lambda.")
    map_decay: float = Field(
        0.05,
        ge=0,
        description="Decay of the two maps in units of the recipe's, which is the rest's.",
    )

    def build(self, task: Channels, hidden: int, **rates: Unpack[Rates]) -> "GcniiNetwork":
        return GcniiNetwork(self, task, hidden, **rates)


class GcniiNetwork(PublishedNetwork):
    """The network of a :class:`Gcnii`."""

    def __init__(self, design: Gcnii, task: Channels, hidden: int, **rates: Unpack[Rates]) -> None:
        super().__init__(task, hidden, **rates)
        self.design = design
        self.first = FeatureMap(task.in_channels, hidden, bias=True)
        self.layers = nn.ModuleList(
            GCN2Conv(hidden, design.alpha, design.strength, layer, normalize=False)
            for layer in range(1, design.layers + 1)
        )
        self.last = nn.Linear(hidden, task.out_channels)

    def logits(self, x: BlockInput, graph: Adjacency) -> Tensor:
        graph = graph.with_self_loops
        flow = start = self.first(x).relu()  # [N, hidden]
        weights = graph.gcn_weights.to(start.dtype)
        for layer in self.layers:
            flow = layer(self.between(flow), start, graph.edge_index, weights).relu()
        logits: Tensor = self.last(self.between(flow))
        return logits

    def decays(self) -> list[tuple[float, list[nn.Parameter]]]:
        maps = [*self.first.parameters(), *self.last.parameters()]
        deep = list(self.layers.parameters())
        if self.feature_weights is not None:
            deep.append(self.feature_weights)
        return [(1.0, deep), (self.design.map_decay, maps)]


BASELINES.register("gcnii")(Baseline(Gcnii(), hidden=64))
BASELINES.register("gcnii-citeseer")(
    Baseline(Gcnii(layers=32, strength=0.6), hidden=256, of="gcnii")
)
# One decay for all weights.
BASELINES.register("gcnii-pubmed")(
    Baseline(Gcnii(layers=16, strength=0.4, map_decay=1.0), hidden=256, of="gcnii")
)
