"""GCN: Kipf and Welling, Semi-Supervised Classification with Graph Convolutional Networks, 2017."""

from pdnas.architecture import Architecture, BlockSpec
from pdnas.models.baselines.base import BASELINES, Baseline

_CONVOLUTION = BlockSpec(expansion=0, attention="gcn", combine="none", bias=True)

GCN = Baseline(
    Architecture(blocks=(_CONVOLUTION.model_copy(update={"activation": "relu"}), _CONVOLUTION)),
    hidden=16,
)

BASELINES.register("gcn")(GCN)
