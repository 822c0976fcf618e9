r"""JKNet: Xu et al., Representation Learning on Graphs with Jumping Knowledge Networks, 2018.

GCN layers :math:`h^{(1)}, \dots, h^{(L)}`, of which the last map hears all at once:

- concatenated, followed by a linear map: the sum of one map per layer, which is what shortcuts to a
  last block that does not propagate are;
- their maximum, :math:`\max(h_v^{(1)}, \dots, h_v^{(L)})`, channel by channel;
- their mean by an attention that an LSTM gives in both directions, node by node,
  :math:`\sum_l \alpha_v^{(l)} h_v^{(l)}`.

In the dense form each layer reads what all layers before it gave, side by side; the raw features
are read by the first one only. The first kind is made of blocks; the layers and the jump of the
others are PyG's.
"""

from typing import Literal, Unpack

import torch
from pydantic import Field
from torch import Tensor, nn
from torch_geometric.nn import GCNConv, JumpingKnowledge

from pdnas.architecture import Architecture, BlockSpec, Channels
from pdnas.models.baselines.base import BASELINES, Baseline
from pdnas.models.published import PUBLISHED, FeatureMap, Published, PublishedNetwork, Rates
from pdnas.ops.adjacency import Adjacency
from pdnas.ops.features import BlockInput

_LAYER = BlockSpec(expansion=0, attention="gcn", combine="none", activation="relu", bias=True)
_OUTPUT = BlockSpec(expansion=0, propagation=0, combine="none", bias=True)


def jknet_concat(layers: int) -> Architecture:
    """A JKNet of some GCN layers with concatenation; the linear map is one more block."""
    return Architecture(
        blocks=(*[_LAYER] * layers, _OUTPUT),
        gates=tuple((layer, layers) for layer in range(1, layers)),
    )


@PUBLISHED.register("jknet")
class JkNet(Published):
    """What decides a JKNet that does not concatenate."""

    name: Literal["jknet"] = "jknet"
    jump: Literal["max", "lstm"] = Field("max", description="How the last map hears all layers.")
    layers: int = Field(2, ge=1, le=1000, description="Convolutions.")
    dense: bool = Field(False, description="Whether each layer hears all layers before it.")

    def build(self, task: Channels, hidden: int, **rates: Unpack[Rates]) -> "JkNetwork":
        return JkNetwork(self, task, hidden, **rates)


class JkNetwork(PublishedNetwork):
    """The network of a :class:`JkNet`."""

    def __init__(self, design: JkNet, task: Channels, hidden: int, **rates: Unpack[Rates]) -> None:
        super().__init__(task, hidden, **rates)
        self.design = design
        self.layers = nn.ModuleList(
            GCNConv(hidden * (max(1, layer) if design.dense else 1), hidden, normalize=False)
            for layer in range(design.layers)
        )
        self.layers[0].lin = FeatureMap(task.in_channels, hidden)  # for sparse features
        self.jump = JumpingKnowledge(design.jump, hidden, design.layers)
        self.last = nn.Linear(hidden, task.out_channels)

    @property
    def recordable(self) -> bool:
        return self.design.jump != "lstm"

    def logits(self, x: BlockInput, graph: Adjacency) -> Tensor:
        graph = graph.with_self_loops
        weights = graph.gcn_weights.to(self.last.weight.dtype)
        heard: list[Tensor] = []  # [N, hidden] each
        for layer in self.layers:
            flow: BlockInput = x
            if heard:
                flow = self.between(torch.cat(heard, dim=1) if self.design.dense else heard[-1])
            heard.append(layer(flow, graph.edge_index, weights).relu())
        logits: Tensor = self.last(self.between(self.jump(heard)))
        return logits


BASELINES.register("jknet-concat")(Baseline(jknet_concat(2), hidden=32))
BASELINES.register("jknet-max")(Baseline(JkNet(jump="max"), hidden=32))
BASELINES.register("jknet-lstm")(Baseline(JkNet(jump="lstm"), hidden=32))
BASELINES.register("jknet-dense")(Baseline(JkNet(jump="lstm", layers=3, dense=True), hidden=32))
# For proteins: the depths of its paper, and wider, since nothing there is overfitted.
BASELINES.register("jknet-concat-ppi")(Baseline(jknet_concat(2), hidden=512, of="jknet-concat"))
BASELINES.register("jknet-max-ppi")(Baseline(JkNet(jump="max", layers=3), 512, of="jknet-max"))
BASELINES.register("jknet-lstm-ppi")(Baseline(JkNet(jump="lstm", layers=3), 512, of="jknet-lstm"))
BASELINES.register("jknet-dense-ppi")(
    Baseline(JkNet(jump="lstm", layers=3, dense=True), hidden=512, of="jknet-dense")
)
