r"""Normalizations of what a block gives to its activation, ``[N, O] -> [N, O]``."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pdnas.ops.base import Dims, Op
from pdnas.registry import Registry

NORMS: Registry[str, type[Op]] = Registry("norm")


@NORMS.register("none")
class NoNorm(Op):
    """``x``."""

    def forward(self, x: Tensor) -> Tensor:
        return x


class Affine(Op):
    r"""A normalization followed by :math:`\gamma x + \beta`, which starts as the identity."""

    scale: nn.Parameter
    shift: nn.Parameter

    @classmethod
    def shapes(cls, dims: Dims) -> dict[str, tuple[int, ...]]:
        return {"scale": (dims.out_channels,), "shift": (dims.out_channels,)}

    def reset_parameters(self) -> None:
        with torch.no_grad():
            self.scale.fill_(1.0)
            self.shift.zero_()


@NORMS.register("layer")
class LayerNorm(Affine):
    """Every node to mean 0 and variance 1 over its channels."""

    def forward(self, x: Tensor) -> Tensor:
        return F.layer_norm(x, x.shape[1:], self.scale, self.shift)


@NORMS.register("batch")
class BatchNorm(Affine):
    """Every channel to mean 0 and variance 1 over the nodes at hand, in training and after it.

    Nothing is remembered from one batch to the next: the nodes of a graph are its batch.
    """

    def forward(self, x: Tensor) -> Tensor:
        # Not torch.nn.functional's, which refuses a graph of one node.
        return torch.batch_norm(x, self.scale, self.shift, None, None, True, 0.0, 1e-5, False)
