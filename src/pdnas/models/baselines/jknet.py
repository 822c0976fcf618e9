"""JKNet: Xu et al., Representation Learning on Graphs with Jumping Knowledge Networks, 2018.

The concatenation of what all layers give, followed by a linear map: the sum of one map per layer,
which is what shortcuts to a last block that does not propagate are.
"""

from pdnas.architecture import Architecture, BlockSpec
from pdnas.models.baselines.base import BASELINES, Baseline

_LAYER = BlockSpec(expansion=0, attention="gcn", combine="none", activation="relu", bias=True)
_OUTPUT = BlockSpec(expansion=0, propagation=0, combine="none", bias=True)


def jknet_concat(layers: int) -> Architecture:
    """A JKNet of some GCN layers with concatenation; the linear map is one more block."""
    return Architecture(
        blocks=(*[_LAYER] * layers, _OUTPUT),
        gates=tuple((layer, layers) for layer in range(1, layers)),
    )


BASELINES.register("jknet-concat")(Baseline(jknet_concat(2), hidden=32))
