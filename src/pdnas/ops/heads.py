"""Attention heads, the slot ``heads``: how many look at a node's channels, and at which."""

from torch import Tensor

from pdnas.ops.base import Dims, Op
from pdnas.registry import Registry


class Heads(Op):
    """``H`` heads on ``O`` channels.

    Where ``H`` divides ``O``, each head owns a slice of the channels and the heads are
    concatenated, so that the size of a network does not depend on their number. Elsewhere (seven
    classes, say) every head sees all channels and the heads are averaged.
    """

    depends = ("heads",)

    def __init__(self, dims: Dims) -> None:
        super().__init__(dims)
        self.heads = dims.heads
        self.head_channels = dims.head_channels
        self.averaged = not dims.splits_heads

    def split(self, x: Tensor) -> Tensor:
        """What each head sees, ``[N, O] -> [N, H, C]``; no copy is made."""
        if self.averaged:
            return x.unsqueeze(1).expand(-1, self.heads, -1)
        return x.view(-1, self.heads, self.head_channels)

    def merge(self, x: Tensor) -> Tensor:
        """The heads' results as one, ``[N, H, C] -> [N, O]``."""
        return x.mean(dim=1) if self.averaged else x.flatten(1)


HEADS: Registry[int, type[Heads]] = Registry("number of heads")
HEADS.register(1, 2, 4, 8, 16)(Heads)
