"""Regularized evolution: Real et al., Regularized Evolution for Image Classifiers, 2019."""

from typing import Literal, Self

import torch
from pydantic import Field, model_validator

from pdnas.architecture import Architecture
from pdnas.errors import SearchError
from pdnas.runs import MOST
from pdnas.search.base import STRATEGIES
from pdnas.search.problem import Problem
from pdnas.search.rated import OneShot, RatedSearch
from pdnas.search.shared import ranked


@STRATEGIES.register("evolution")
class Evolution(OneShot):
    """Settings of a regularized evolution."""

    name: Literal["evolution"] = "evolution"
    population: int = Field(
        20, ge=1, le=MOST, description="The latest architectures, which alone breed."
    )
    tournament: int = Field(
        5, ge=1, le=MOST, description="Drawn from them, of which the best is changed in one choice."
    )

    @model_validator(mode="after")
    def _is_possible(self) -> Self:
        if self.tournament > self.population:
            raise SearchError(
                f"--tournament is {self.tournament}, but --population only {self.population}; "
                "draw no more than there are."
            )
        return self

    def lasting(self, epochs: int) -> Self:
        """The population shrinks with it where it is more than a third of all."""
        population = max(1, min(self.population, epochs // 3))
        fitting = super().lasting(epochs)
        return fitting.changed(population=population, tournament=min(self.tournament, population))

    def start(self, problem: Problem) -> "EvolutionSearch":
        return EvolutionSearch(problem, self)


class EvolutionSearch(RatedSearch):
    """Random architectures at first; then changes of the best of a few of the latest.

    The oldest dies, not the worst: what was rated well by luck is forgotten.

    Args:
        problem: What to solve.
        settings: How.
    """

    def __init__(self, problem: Problem, settings: Evolution) -> None:
        super().__init__(problem, settings, settings.pool)
        self.settings = settings

    def warnings(self) -> list[str]:
        """There was no time to breed."""
        found, size = super().warnings(), self.settings.population
        if 0 < self.epoch <= size:
            found.append(
                f"Nothing was bred: the search ended after {self.epoch} architectures, and the "
                f"first {size} are random; use a smaller --population or more time."
            )
        return found

    def propose(self) -> Architecture:
        size = self.settings.population
        if len(self.tried) < size:
            return self.problem.sample(self.generator)
        drawn = torch.randperm(size, generator=self.generator)[: self.settings.tournament]
        living = self.tried[-size:]
        parent = ranked(living[number] for number in drawn.tolist())[0]
        return self.problem.neighbor(parent.architecture, self.generator)
