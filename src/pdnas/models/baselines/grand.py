r"""GRAND: Feng et al., Graph Random Neural Networks for Semi-Supervised Learning on Graphs, 2020.

A network of two layers on features that have travelled, :math:`\bar X = \frac{1}{K + 1}
\sum_{k=0}^{K} \hat A^k X`, trained with consistency. The first layer's map comes before the
travelling, which is the same by linearity and cheaper; its dropout then falls on :math:`X`.
"""

from pdnas.architecture import Architecture, BlockSpec
from pdnas.models.baselines.base import BASELINES, Baseline

_OUTPUT = BlockSpec(expansion=0, propagation=0, combine="none", bias=True)


def grand(order: int, norm: str = "none") -> Architecture:
    """A GRAND of some order K: 8, 2 and 5, the last with batch norm, in its paper, by the graph."""
    layer = {"propagation": order, "norm": norm, "activation": "relu"}
    return Architecture(blocks=(_OUTPUT.model_copy(update=layer), _OUTPUT))


BASELINES.register("grand")(Baseline(grand(4), hidden=32))
# The same network with a recipe of its own, see docs/baselines.md.
BASELINES.register("grand-pubmed")(Baseline(grand(4), hidden=32, of="grand"))
