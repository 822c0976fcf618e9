"""GraphSAGE: Hamilton et al., Inductive Representation Learning on Large Graphs, 2017; the mean."""

from pdnas.architecture import Architecture, BlockSpec
from pdnas.models.baselines.base import BASELINES, Baseline

_OUTPUT = BlockSpec(expansion=0, aggregation="mean", combine="root", bias=True)

SAGE = Baseline(
    Architecture(blocks=(_OUTPUT.model_copy(update={"activation": "relu"}), _OUTPUT)),
    hidden=64,
)

BASELINES.register("sage")(SAGE)
