"""A perceptron of two layers, which hears no neighbor: what the features alone are worth."""

from pdnas.architecture import Architecture, BlockSpec
from pdnas.models.baselines.base import BASELINES, Baseline

_OUTPUT = BlockSpec(expansion=0, propagation=0, combine="none", bias=True)

MLP = Baseline(
    Architecture(blocks=(_OUTPUT.model_copy(update={"activation": "relu"}), _OUTPUT)),
    hidden=64,
)

BASELINES.register("mlp")(MLP)
