"""What each choice adds to a network's place among those that were trained, and what follows."""

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Generator, Tensor

from pdnas.architecture import Architecture
from pdnas.ops import SLOTS
from pdnas.search.additive import ridge
from pdnas.search.problem import Problem

PENALTY = 5.0
"""How many networks an effect must outweigh."""

BOLDNESS = 0.3
"""How far draws stray from the likeliest effects, in standard deviations of the posterior."""

DRAWS = 20
"""Draws that are looked at before it is said that they propose nothing new."""


class Effects:
    r"""A posterior of what each choice adds, and networks that are the best by draws from it.

    .. math::
        z_n = c + \sum_p w_{p, a_p(n)} + \text{noise}, \qquad
        z_n = \sqrt{12} \Big( \frac{r_n - 1/2}{N} - \frac{1}{2} \Big), \qquad
        w \sim N(0, I / \lambda)

    :math:`r_n` is the rank of network :math:`n` among the :math:`N` that were trained, which says
    the same whatever the metric and however far the worst are behind, and :math:`a_p(n)` its
    option at place :math:`p`. Effects drawn from the posterior make some network the best of all:
    now and then it is one of which little is known (Thompson, On the Likelihood that One Unknown
    Probability Exceeds Another, 1933).

    Args:
        problem: Where the networks are from.
        trained: Networks, and what they came to on validation.
    """

    def __init__(self, problem: Problem, trained: Mapping[Architecture, float]) -> None:
        self._problem = problem
        self._sizes = [len(problem.options(place)) for place in problem.places]
        x = self._coded(list(trained))
        z = places(torch.tensor(list(trained.values()), dtype=torch.float64))
        constant = torch.ones(len(x), 1, dtype=torch.float64)
        weights, covariance = ridge(torch.cat([constant, x], dim=1), z, constants=1, by=PENALTY)
        self._mean = weights[1:]
        self._root = torch.linalg.cholesky(covariance[1:, 1:])

    def worth(self, architectures: Sequence[Architecture]) -> Tensor:
        """What is expected of networks, from their choices alone, ``[n]``."""
        return self._coded(architectures) @ self._mean

    def draw(self, generator: Generator) -> Architecture:
        """The best network by effects that are drawn from the posterior; it fits."""
        noise = torch.randn(len(self._mean), generator=generator, dtype=torch.float64)
        return self._best(self._mean + BOLDNESS * (self._root @ noise))

    def propose(
        self, tried: Mapping[Architecture, float], generator: Generator
    ) -> Architecture | None:
        """The first of some draws that was not tried; none where all were."""
        draws = (self.draw(generator) for _ in range(DRAWS))
        return next((drawn for drawn in draws if drawn not in tried), None)

    def _coded(self, architectures: Sequence[Architecture]) -> Tensor:
        """A 1 for the option of each architecture at each place, ``[N, D]``."""
        sizes = torch.tensor(self._sizes)
        chosen = torch.tensor([self._problem.choices(one) for one in architectures])  # [N, P]
        coded = torch.zeros(len(chosen), int(sizes.sum()), dtype=torch.float64)
        return coded.scatter_(1, sizes.cumsum(0) - sizes + chosen, 1.0)

    def _best(self, effects: Tensor) -> Architecture:
        """The network of the best option at each place, made to fit."""
        problem = self._problem
        by_place = torch.split(effects, self._sizes)
        best = problem.made([int(own.argmax()) for own in by_place])
        if not problem.fits(best):
            best = problem.shrink(best, *self._chances(by_place))
        return problem.space.plain(best)

    def _chances(self, by_place: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        """Effects as chances: of ops, ``[L, K, T]``, and of gates, ``[L, L]``."""
        depth, most = self._problem.num_blocks, max(self._sizes)
        ops, gates = torch.ones(depth, len(SLOTS), most), torch.zeros(depth, depth)
        for (number, what), own in zip(self._problem.places, by_place, strict=True):
            chances = own.softmax(dim=0).float()
            if isinstance(what, int):
                gates[number, what] = chances[1]
            else:
                ops[number, list(SLOTS).index(what), : len(own)] = chances
        return ops, gates


def places(values: Tensor) -> Tensor:
    r"""Ranks spread evenly around 0 with a variance of about 1, ``[N]``; equals share theirs."""
    below = (values.unsqueeze(0) < values.unsqueeze(1)).sum(dim=1)
    equal = (values.unsqueeze(0) == values.unsqueeze(1)).sum(dim=1)
    return math.sqrt(12) * ((below + equal.to(values) / 2) / len(values) - 0.5)
