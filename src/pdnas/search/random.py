"""Random search: what every other strategy has to beat at the same cost."""

from typing import Literal

from pdnas.architecture import Architecture
from pdnas.search.base import STRATEGIES
from pdnas.search.problem import Problem
from pdnas.search.rated import OneShot, RatedSearch


@STRATEGIES.register("random")
class Random(OneShot):
    """Settings of a random search, with or without shared weights."""

    name: Literal["random"] = "random"

    def start(self, problem: Problem) -> "RandomSearch":
        return RandomSearch(problem, self, self.pool)


class RandomSearch(RatedSearch):
    """All architectures that fit are equally likely, whatever came of those before."""

    def propose(self) -> Architecture:
        return self.problem.sample(self.generator)
