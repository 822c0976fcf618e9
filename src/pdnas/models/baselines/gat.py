"""GAT: Velickovic et al., Graph Attention Networks, 2018; 8 heads of 8 channels, then one head.

On PubMed the paper has eight heads at the end too, whose answers are averaged. Its heads have a map
each, here they share one.
"""

from pdnas.architecture import Architecture, BlockSpec
from pdnas.models.baselines.base import BASELINES, Baseline

_OUTPUT = BlockSpec(expansion=0, attention="gat", heads=1, combine="none", bias=True)


def gat(last_heads: int) -> Architecture:
    """A GAT with so many heads at the end."""
    first = _OUTPUT.model_copy(update={"heads": 8, "activation": "elu"})
    return Architecture(blocks=(first, _OUTPUT.model_copy(update={"heads": last_heads})))


GAT = Baseline(gat(last_heads=1), hidden=64)

BASELINES.register("gat")(GAT)
BASELINES.register("gat-pubmed")(Baseline(gat(last_heads=8), hidden=64, of="gat"))
