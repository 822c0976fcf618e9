"""What each choice adds to the validation metric, learned from all the paths that were tried."""

import torch
from torch import Tensor

NUISANCES = 2
"""A constant and a trend, which belong to no choice: the shared weights improve on their own."""


class AdditiveModel:
    r"""Ridge regression of the metric on the choices of a path.

    .. math::
        y_e = c_0 + c_1 e + \sum_{d} x_{e,d}\, w_d + \text{noise}, \qquad
        w \sim N(0, \sigma^2 / \lambda)

    :math:`x_e` has a 1 for every op and every gate of the path of epoch :math:`e`. Earlier epochs
    count less, by a factor :math:`\gamma` per epoch, since they were seen with other weights.

    Args:
        size: Number of choices, :math:`D`.
        penalty: :math:`\lambda`, how many observations an effect must outweigh.
        memory: Epochs after which an observation counts :math:`1 / e`; :math:`\gamma` follows.
    """

    def __init__(self, size: int, *, penalty: float = 5.0, memory: float = 200.0) -> None:
        self._decay = 1 - 1 / memory
        self._ridge = torch.full((size + NUISANCES,), penalty, dtype=torch.float64)
        self._ridge[:NUISANCES] = 1e-6
        total = size + NUISANCES
        # Decayed sums over the epochs: of x x', of x y, and of 1, y, y y.
        self.products = torch.zeros(total, total, dtype=torch.float64)
        self.responses = torch.zeros(total, dtype=torch.float64)
        self.moments = torch.zeros(3, dtype=torch.float64)

    def observe(self, choices: Tensor, value: float, time: float) -> None:
        """Add what an epoch showed.

        Args:
            choices: :math:`x_e`, ``[D]``.
            value: :math:`y_e`.
            time: The epoch, as a part of the whole search.
        """
        x = torch.cat([torch.tensor([1.0, time]), choices.float()]).double()
        for total, part in (
            (self.products, torch.outer(x, x)),
            (self.responses, x * value),
            (self.moments, torch.tensor([1.0, value, value * value])),
        ):
            total.mul_(self._decay).add_(part)

    def effects(self) -> tuple[Tensor, Tensor]:
        """Each choice's effect and its standard error, ``[D]`` each."""
        inverse = torch.linalg.inv(self.products + self._ridge.diag())
        weights = inverse @ self.responses
        count, _, squares = self.moments.tolist()
        error = squares - float(weights @ self.responses)
        variance = max(error / max(count, 1.0), 1e-12)
        errors = (variance * inverse.diagonal()).sqrt()
        return weights[NUISANCES:], errors[NUISANCES:]
