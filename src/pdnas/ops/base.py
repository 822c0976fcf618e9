"""What all ops share: they state the shapes of their weights once."""

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Dims:
    """The sizes that decide the shapes of an op's weights.

    Args:
        in_channels: Width of the block's input, :math:`D_I`.
        out_channels: Width of the block's output, :math:`D_O`.
        hidden: Width of the network's hidden blocks; the unit of ``expansion``.
        expansion: :math:`D_E` in units of ``hidden``; 0 for a plain linear transform.
        propagation: How many steps messages travel.
        heads: Number of attention heads.
    """

    in_channels: int
    out_channels: int
    hidden: int
    expansion: int = 0
    propagation: int = 1
    heads: int = 1

    @property
    def splits_heads(self) -> bool:
        """Whether each head owns a slice of the channels; otherwise each sees all of them."""
        return self.out_channels % self.heads == 0

    @property
    def head_channels(self) -> int:
        """Channels that one head sees."""
        return self.out_channels // self.heads if self.splits_heads else self.out_channels


class Op(nn.Module):
    """A candidate for a slot.

    A subclass states the shapes of its weights in :meth:`shapes` and its formula in ``forward``.
    The weights are made here, with Glorot's uniform distribution for matrices and zeros for
    biases (one-dimensional), and counted without being made by :meth:`num_parameters`.
    """

    depends: ClassVar[tuple[Literal["expansion", "propagation", "heads"], ...]] = ()
    """Which choices of a block decide what the op is like: a supernet has an op for each."""

    def __init__(self, dims: Dims) -> None:
        super().__init__()
        wider = self.shapes(replace(dims, in_channels=dims.in_channels + 1))
        self._reading: list[str] = []
        for name, shape in self.shapes(dims).items():
            self.register_parameter(name, nn.Parameter(torch.empty(shape)))
            if shape != wider[name]:
                self._reading.append(name)
        self.reset_parameters()

    @classmethod
    def shapes(cls, dims: Dims) -> dict[str, tuple[int, ...]]:
        """Name and shape of each weight; an op without weights keeps this default."""
        return {}

    @classmethod
    def num_parameters(cls, dims: Dims) -> int:
        """Number of weights, without making them."""
        return sum(math.prod(shape) for shape in cls.shapes(dims).values())

    def input_weights(self) -> list[nn.Parameter]:
        """The maps that the block's input is multiplied with: those as high as it is wide."""
        return [self.get_parameter(name) for name in self._reading]

    def reset_parameters(self) -> None:
        for weight in self.parameters(recurse=False):
            glorot_(weight)


@torch.no_grad()
def glorot_(weight: Tensor) -> Tensor:
    r"""Fill ``[m, n]`` from :math:`U(-a, a)`, :math:`a = \sqrt{6 / (m + n)}`; a bias with zeros."""
    if weight.dim() == 1:
        return weight.zero_()
    bound = math.sqrt(6 / (weight.size(-2) + weight.size(-1)))
    return weight.uniform_(-bound, bound)
