r"""Combinations of a node's messages :math:`e_i` with the node itself.

Each op maps messages ``[N, O]``, transformed features :math:`f_i = F(h_i)` ``[N, O]`` and the
block's input :math:`h_i` ``[N, I]`` to ``[N, O]``. The paper examines ``add`` and ``concat-mlp``
and keeps ``add``; ``none`` and ``root`` make GCN, GAT and GraphSAGE architectures of these blocks.
"""

from typing import ClassVar

import torch
from torch import Tensor, nn

from pdnas.ops.base import Dims, Op
from pdnas.ops.features import BlockInput
from pdnas.registry import Registry


class Combine(Op):
    """A kind of combination; with ``self_loops`` a node is among its own neighbors."""

    self_loops: ClassVar[bool] = False


COMBINES: Registry[str, type[Combine]] = Registry("combine")


@COMBINES.register("add")
class AddCombine(Combine):
    """``e + f``."""

    def forward(self, messages: Tensor, transformed: Tensor, x: BlockInput) -> Tensor:
        return messages + transformed


@COMBINES.register("concat-mlp")
class ConcatMlpCombine(Combine):
    r""":math:`W_2\, \mathrm{ReLU}(W_1 (e \| f))`, as wide inside as outside."""

    weight_1: nn.Parameter
    weight_2: nn.Parameter

    @classmethod
    def shapes(cls, dims: Dims) -> dict[str, tuple[int, ...]]:
        out = dims.out_channels
        return {"weight_1": (2 * out, out), "weight_2": (out, out)}

    def forward(self, messages: Tensor, transformed: Tensor, x: BlockInput) -> Tensor:
        both = torch.cat([messages, transformed], dim=1)
        return (both @ self.weight_1).relu() @ self.weight_2


@COMBINES.register("none")
class NoCombine(Combine):
    """``e``, with self-loops: a node is one of its own neighbors, as in GCN and GAT."""

    self_loops = True

    def forward(self, messages: Tensor, transformed: Tensor, x: BlockInput) -> Tensor:
        return messages


@COMBINES.register("root")
class RootCombine(Combine):
    """``e + W_r h``: the node's own linear map, as in GraphSAGE."""

    weight: nn.Parameter

    @classmethod
    def shapes(cls, dims: Dims) -> dict[str, tuple[int, ...]]:
        return {"weight": (dims.in_channels, dims.out_channels)}

    def forward(self, messages: Tensor, transformed: Tensor, x: BlockInput) -> Tensor:
        return messages + x @ self.weight
