r"""Transformations :math:`F` of node features, the slot ``expansion``.

Each maps a block's input to its output width, ``[N, in_channels] -> [N, out_channels]``, and
multiplies its result with a factor where there is one: by way of its last weight, which is smaller.
"""

from torch import Tensor, nn

from pdnas.ops.base import Dims, Op
from pdnas.ops.features import BlockInput
from pdnas.registry import Registry

TRANSFORMS: Registry[int, type[Op]] = Registry("expansion")


@TRANSFORMS.register(0)
class LinearTransform(Op):
    """``F(x) = W x``; not in the paper's space, but what GCN, GAT and GraphSAGE use."""

    weight: nn.Parameter

    @classmethod
    def shapes(cls, dims: Dims) -> dict[str, tuple[int, ...]]:
        return {"weight": (dims.in_channels, dims.out_channels)}

    def forward(self, x: BlockInput, factor: Tensor | None = None) -> Tensor:
        return x @ _times(self.weight, factor)


@TRANSFORMS.register(1, 2, 4, 8)
class ExpandingTransform(Op):
    r""":math:`F(x) = W_2\, \mathrm{ReLU}(W_1 x)`, inside :math:`D_E = e \cdot hidden` wide.

    The paper writes :math:`\sigma` without naming it and counts :math:`D_E` in units of
    :math:`D_I`; for the first block that would be the number of raw features, against the paper's
    own network sizes, so the unit here is ``hidden`` in every block.
    """

    depends = ("expansion",)
    weight_1: nn.Parameter
    weight_2: nn.Parameter

    @classmethod
    def shapes(cls, dims: Dims) -> dict[str, tuple[int, ...]]:
        inner = dims.expansion * dims.hidden
        return {"weight_1": (dims.in_channels, inner), "weight_2": (inner, dims.out_channels)}

    def forward(self, x: BlockInput, factor: Tensor | None = None) -> Tensor:
        return (x @ self.weight_1).relu_() @ _times(self.weight_2, factor)


def _times(weight: Tensor, factor: Tensor | None) -> Tensor:
    return weight if factor is None else weight * factor
