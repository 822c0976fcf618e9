"""GraphNAS: Gao et al., Graph Neural Architecture Search with Reinforcement Learning, 2019.

An LSTM decides op after op and shortcut after shortcut. What it decided is trained, and the
accuracy on validation is the reward; with ``sharing`` that is what a pass over the training part
makes of weights that all share.
"""

import math
from collections.abc import Iterable, Mapping
from typing import Any, Literal

import torch
from torch import Tensor

from pdnas.architecture import Architecture
from pdnas.search.base import STRATEGIES, Candidate, above, below
from pdnas.search.policy import Learned, Policy, entropies, something
from pdnas.search.problem import Problem
from pdnas.search.rated import OneShot, RatedSearch
from pdnas.training.fit import DIGITS


@STRATEGIES.register("graphnas")
class GraphNas(OneShot, Learned):
    """Settings of GraphNAS."""

    name: Literal["graphnas"] = "graphnas"

    def start(self, problem: Problem) -> "GraphNasSearch":
        return GraphNasSearch(problem, self)


class GraphNasSearch(RatedSearch):
    """One policy for all decisions.

    Args:
        problem: What to solve.
        settings: How.
    """

    def __init__(self, problem: Problem, settings: GraphNas) -> None:
        super().__init__(problem, settings, math.ceil(settings.pool / 2))
        self.settings = settings
        self.policy = Policy([len(problem.options(place)) for place in something(problem)])
        self.reinforce = settings.reinforce([self.policy])
        self._actions = torch.zeros(0, dtype=torch.long)

    def propose(self) -> Architecture:
        """What the policy decides, made to fit at random where it is too large."""
        self._actions = self.policy.sample(self.generator)
        decided = self.problem.made(self._actions.tolist())
        if self.problem.fits(decided):
            return decided
        fitting = self.problem.shrink_at_random(decided, self.generator)
        self._actions = torch.tensor(self.problem.choices(fitting))
        return fitting

    def learn(self, rated: Candidate) -> dict[str, Any]:
        self.reinforce.learn(0, self._actions, rated.val)
        with torch.no_grad():
            openness = entropies(self.policy.log_probs(self._actions)).mean()
        return {"entropy": round(float(openness), DIGITS)}

    def more(self) -> Iterable[Architecture]:
        """What the policy would decide now: half of the pool."""
        for _ in range(self.settings.pool // 2):
            yield self.problem.space.plain(self.propose())

    def tensors(self) -> dict[str, Tensor]:
        return super().tensors() | above("policy/", self.reinforce.tensors())

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        super().load(tensors)
        self.reinforce.load(below("policy/", tensors))
