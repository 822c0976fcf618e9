"""The router: which shortcuts are open."""

from typing import Literal

import torch
from torch import Generator, Tensor, nn

from pdnas.supernet.relaxation import GateNoise, gate_noise, gumbel_sigmoid

Gating = Literal["soft", "hard"]


class Router(nn.Module):
    r"""A trainable prior for each shortcut, :math:`\bar P^r`, an upper-triangular matrix.

    Row ``i``, column ``j`` is the shortcut from the input of block ``i`` to the output of block
    ``j``. All start at 0.

    Args:
        possible: Which shortcuts there may be, ``[L, L]``.
        noise: Of the Gumbel-sigmoid, see :func:`~pdnas.supernet.relaxation.gate_noise`.
        gating: ``soft`` gates lie between 0 and 1 and all shortcuts are evaluated, as in the paper;
            ``hard`` ones are open or closed and closed shortcuts are not evaluated.
    """

    possible: Tensor

    def __init__(
        self, possible: Tensor, *, noise: GateNoise = "gumbel", gating: Gating = "soft"
    ) -> None:
        super().__init__()
        self.register_buffer("possible", possible)
        self.gate_logits = nn.Parameter(torch.zeros(possible.shape))
        self.noise = noise
        self.gating = gating

    def forward(self, temperature: float, generator: Generator, *, fair: bool = False) -> Tensor:
        """Gates ``[L, L]``, 0 where there can be no shortcut.

        A hard gate has the value 0 or 1 and the gradient of the soft one.

        Args:
            temperature: Of the Gumbel-sigmoid.
            generator: Draws the noise.
            fair: Whether every prior counts as 0.
        """
        noise = gate_noise(tuple(self.possible.shape), self.noise, generator).to(self.gate_logits)
        logits = torch.zeros_like(self.gate_logits) if fair else self.gate_logits
        soft = gumbel_sigmoid(logits, noise, temperature) * self.possible
        if self.gating == "soft":
            return soft
        return (soft > 0.5).to(soft) + (soft - soft.detach())

    def probs(self) -> Tensor:
        r"""How likely each gate is to be open, whatever the temperature, ``[L, L]``.

        .. math::
            P(\log a + g > 0) = \sigma(\log a) \text{ for logistic noise}, \quad
            1 - \exp(-a) \text{ for Gumbel noise}
        """
        logits = self.gate_logits.detach()
        chance = logits.sigmoid() if self.noise == "logistic" else -torch.expm1(-logits.exp())
        return chance * self.possible
