"""AGNN: Zhou et al., Auto-GNN: Neural Architecture Search of Graph Neural Networks, 2019.

The best architecture so far is changed in one class of choices at a time: all attentions, or all
activations, or all shortcuts. Each class has a policy of its own, which is rewarded by how much the
change adds. With ``sharing`` a changed architecture inherits the weights of the best where AGNN's
constraints allow it, and is trained for a few epochs only.
"""

from collections.abc import Mapping
from typing import Any, Literal

import torch
from pydantic import Field
from torch import Tensor

from pdnas.architecture import Architecture
from pdnas.runs import MOST
from pdnas.search.base import STRATEGIES, Candidate, above, below
from pdnas.search.policy import Learned, Policy, entropies, something
from pdnas.search.problem import Problem
from pdnas.search.rated import RatedSearch
from pdnas.search.rating import Rater, TrainingRater
from pdnas.search.shared import ranked

TRIES = 20
"""Decisions that are looked at before one is tried that changes nothing."""

GATES = "gates"
"""The class of all shortcuts."""


@STRATEGIES.register("agnn")
class Agnn(Learned):
    """Settings of AGNN."""

    name: Literal["agnn"] = "agnn"
    inherited_epochs: int = Field(
        20, ge=1, le=MOST, description="Epochs of a training that begins with inherited weights."
    )

    def rater(self, problem: Problem) -> Rater:
        inherited = self.inherited_epochs if self.sharing == "on" else 0
        return TrainingRater(problem, self.train_epochs, inherited)

    @property
    def idle(self) -> tuple[str, ...]:
        return () if self.sharing == "on" else ("inherited_epochs",)

    @property
    def trained_epochs(self) -> int:
        return self.inherited_epochs if self.sharing == "on" else self.train_epochs

    def start(self, problem: Problem) -> "AgnnSearch":
        return AgnnSearch(problem, self)


class AgnnSearch(RatedSearch):
    """A policy for each class of choices, and the best architecture, which all begin with.

    Args:
        problem: What to solve.
        settings: How.
    """

    def __init__(self, problem: Problem, settings: Agnn) -> None:
        super().__init__(problem, settings)
        self.classes: dict[str, list[int]] = {}
        for number, (_, what) in enumerate(something(problem)):
            name = GATES if isinstance(what, int) else what
            self.classes.setdefault(name, []).append(number)
        self.policies = {
            name: Policy([len(problem.options(problem.places[n])) for n in numbers])
            for name, numbers in self.classes.items()
        }
        self.reinforce = settings.reinforce(list(self.policies.values()))
        self._best: Candidate | None = None
        self._class = ""

    def propose(self) -> Architecture:
        """A random architecture at first, then the best with one class decided anew.

        Decisions that change nothing are made again, but not for ever: a policy may be sure.
        """
        if self._best is None:
            return self.problem.sample(self.generator)
        best = self._best.architecture
        before, names = torch.tensor(self.problem.choices(best)), list(self.classes)
        openness = torch.stack([self._entropy(name, before) for name in names])
        for _ in range(TRIES):
            drawn = torch.multinomial(openness.clamp(min=1e-9), 1, generator=self.generator)
            self._class, choices = names[int(drawn)], before.clone()
            choices[self.classes[self._class]] = self.policies[self._class].sample(self.generator)
            decided = self.problem.made(choices.tolist())
            fitting = self.problem.shrink_at_random(decided, self.generator)
            if self.problem.space.plain(fitting) != best:
                break
        return fitting

    @torch.no_grad()
    def _entropy(self, name: str, choices: Tensor) -> Tensor:
        """How open a class is: the more, the likelier it is to be decided anew."""
        return entropies(self.policies[name].log_probs(choices[self.classes[name]])).sum()

    def learn(self, rated: Candidate) -> dict[str, Any]:
        """Reward the class by what it adds to the best, which is replaced if that is much."""
        best, name = self._best, self._class
        if best is None or (rated.val, -rated.loss) > (best.val, -best.loss):
            self._best = rated
        if best is None or not name:
            return {"class": None}
        choices = torch.tensor(self.problem.choices(rated.architecture))
        number = list(self.classes).index(name)
        self.reinforce.learn(number, choices[self.classes[name]], rated.val - best.val)
        return {"class": name}

    def tensors(self) -> dict[str, Tensor]:
        return super().tensors() | above("policy/", self.reinforce.tensors())

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        super().load(tensors)
        self.reinforce.load(below("policy/", tensors))
        self._best = ranked(self.tried)[0] if self.tried else None
        self._class = ""
