"""GAT: Velickovic et al., Graph Attention Networks, 2018; 8 heads of 8 channels, then one head.

On PubMed the paper has eight heads at the end too, each with a map of its own, whose answers are
averaged; here it has one as on the other graphs.
"""

from pdnas.architecture import Architecture, BlockSpec
from pdnas.models.baselines.base import BASELINES, Baseline

_OUTPUT = BlockSpec(expansion=0, attention="gat", heads=1, combine="none", bias=True)

GAT = Baseline(
    Architecture(blocks=(_OUTPUT.model_copy(update={"heads": 8, "activation": "elu"}), _OUTPUT)),
    hidden=64,
)

BASELINES.register("gat")(GAT)
