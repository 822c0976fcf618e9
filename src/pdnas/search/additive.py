"""What each choice adds to a path's chances, learned from all the paths that were tried."""

import torch
from torch import Tensor

NEIGHBORS = 50
"""Paths before and after, among which a path's validation is ranked."""

GOOD = 0.75
"""The part of these that a good path must beat."""

PENALTY = 5.0
"""How many observations an effect must outweigh."""

MEMORY = 1000
"""Observations that are kept; earlier ones were seen with weights that are long gone."""


class AdditiveModel:
    r"""Which choices make a path good, by ridge regression on the choices of many paths.

    .. math::
        y_n = c_{g(n)} + \sum_d x_{n,d}\, w_d + \text{noise}, \qquad w \sim N(0, \sigma^2 / \lambda)

    :math:`x_n` has a 1 for every op and every gate of path :math:`n`. :math:`y_n` is 1 if the path
    is good: if its metric beats three quarters of the paths that were tried just before and after
    it. A plain metric will not do. It grows as the shared weights learn; and some paths fail
    utterly with weights that they share with others, which says little about them and would
    drown what distinguishes the good ones.

    Paths of different groups :math:`g` are not compared: those that were just trained by a step,
    and those that were not.

    Args:
        size: Number of choices, :math:`D`.
    """

    def __init__(self, size: int) -> None:
        self.choices = torch.zeros(0, size)
        self.values = torch.zeros(0)
        self.groups = torch.zeros(0, dtype=torch.long)

    def observe(self, choices: Tensor, value: float, group: int = 0) -> None:
        """Add a path.

        Args:
            choices: :math:`x_n`, ``[D]``.
            value: Its metric on validation.
            group: With which others it is compared.
        """
        self.choices = torch.cat([self.choices, choices.float().unsqueeze(0)])[-MEMORY:]
        self.values = torch.cat([self.values, torch.tensor([value])])[-MEMORY:]
        self.groups = torch.cat([self.groups, torch.tensor([group])])[-MEMORY:]

    def good(self) -> Tensor:
        """Which of the paths are good, ``[n]``, as 0 and 1."""
        order = torch.arange(len(self.values))
        near = (order.unsqueeze(0) - order.unsqueeze(1)).abs() <= NEIGHBORS
        near &= self.groups.unsqueeze(0) == self.groups.unsqueeze(1)
        below = (self.values.unsqueeze(0) < self.values.unsqueeze(1)) & near
        equal = (self.values.unsqueeze(0) == self.values.unsqueeze(1)) & near
        beaten = (below.sum(dim=1) + 0.5 * equal.sum(dim=1)) / near.sum(dim=1)
        return (beaten > GOOD).double()

    def effects(self) -> tuple[Tensor, Tensor]:
        """Each choice's effect and how far it may be off, ``[D]`` each.

        The latter is the standard deviation of the posterior. Where one op of a slot is always
        chosen it stays above a bound: a shift of all of them would not be seen.
        """
        y, kinds = self.good(), self.groups.unique()
        constants = self.groups.unsqueeze(1) == kinds.unsqueeze(0)
        x = torch.cat([constants.double(), self.choices.double()], dim=1)
        weights, inverse = ridge(x, y, constants=len(kinds), by=PENALTY)
        variance = ((y - x @ weights).square().mean() if len(y) else y.sum()).clamp(min=1e-6)
        errors = (variance * inverse.diagonal()).sqrt()
        return weights[len(kinds) :], errors[len(kinds) :]


def ridge(x: Tensor, y: Tensor, *, constants: int, by: float) -> tuple[Tensor, Tensor]:
    r"""Weights :math:`A^{-1} X^T y` and :math:`A^{-1}`, with :math:`A = X^T X + \Lambda`.

    The inverse is the covariance of the weights' posterior if the noise has variance 1.

    Args:
        x: ``[n, D]``, constants first.
        y: ``[n]``.
        constants: How many columns are free.
        by: What pulls the others towards zero, the rest of :math:`\Lambda`'s diagonal.
    """
    pull = torch.full((x.size(1),), by, dtype=x.dtype)
    pull[:constants] = 1e-6
    inverse = torch.linalg.inv(x.T @ x + pull.diag())
    return inverse @ (x.T @ y), inverse
