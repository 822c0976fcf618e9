"""What searches have in common that propose an architecture in every epoch and have it rated."""

import math
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor

from pdnas.architecture import Architecture
from pdnas.models import GraphNetwork
from pdnas.registry import unknown
from pdnas.runs import MOST
from pdnas.search.base import (
    STRATEGIES,
    Candidate,
    Search,
    SearchEpoch,
    Strategy,
    above,
    below,
    never,
)
from pdnas.search.problem import Problem
from pdnas.search.rating import Rater, SharedRater, TrainingRater
from pdnas.search.shared import once, ranked
from pdnas.training.parallel import agreed

SHARED_EPOCHS = 400
"""Epochs of a search whose architectures share weights, where nothing else is said: weights that
all use learn slowly."""


APART = 2**31
"""Added to the search's seed for its draws: a random control must not be the first of them."""

SHARED = "-shared"
"""What the label of a strategy ends with where weights are shared."""


class Rated(Strategy):
    """Settings of such a search."""

    epochs: int = Field(100, ge=1, le=MOST, description="Epochs of the search.")
    sharing: Literal["off", "on"] = Field(
        "off", description="Whether architectures share weights, or each is trained on its own."
    )
    train_epochs: int = Field(
        200, ge=1, le=MOST, description="Epochs of each training within the search at most."
    )

    @model_validator(mode="before")
    @classmethod
    def _lasts_longer_with_shared_weights(cls, values: Any) -> Any:
        if isinstance(values, dict) and values.get("sharing") == "on":
            return {"epochs": SHARED_EPOCHS, **values}
        return values

    @property
    def label(self) -> str:
        return self.name + (SHARED if self.sharing == "on" else "")

    @abstractmethod
    def rater(self, problem: Problem) -> Rater:
        """Who rates what is proposed."""


class OneShot(Rated):
    """Settings of such a search whose shared weights are a supernet's."""

    weight_lr: float = Field(0.005, gt=0, description="Learning rate of the shared weights.")
    pool: int = Field(
        128,
        ge=1,
        le=MOST,
        description="Architectures that are ranked by the shared weights at the end.",
    )

    def rater(self, problem: Problem) -> Rater:
        if self.sharing == "on":
            return SharedRater(problem, self.weight_lr)
        return TrainingRater(problem, self.train_epochs)

    @property
    def idle(self) -> tuple[str, ...]:
        return ("train_epochs",) if self.sharing == "on" else ("weight_lr", "pool")

    def lasting(self, epochs: int) -> Self:
        """The pool shrinks or grows by as much."""
        return self.changed(epochs=epochs, pool=max(1, round(epochs / self.epochs * self.pool)))

    @property
    def trained_epochs(self) -> int:
        return 0 if self.sharing == "on" else self.train_epochs

    @property
    def refining(self) -> int:
        """Rating an architecture takes about a third of an epoch."""
        return math.ceil(self.pool / 3) if self.sharing == "on" else 0


class RatedSearch(Search):
    """A search that proposes, has it rated, and learns from that.

    Args:
        problem: What to solve.
        settings: How.
        pool: How many of the latest are looked at again in the end, where weights are shared.
    """

    def __init__(self, problem: Problem, settings: Rated, pool: int = 1) -> None:
        super().__init__(problem, settings.epochs)
        self.rater = settings.rater(problem)
        self.generator = torch.Generator().manual_seed(problem.seed + APART)
        self.tried: list[Candidate] = []
        self._pool = pool

    @abstractmethod
    def propose(self) -> Architecture:
        """What to rate next; it fits."""

    def learn(self, rated: Candidate) -> dict[str, Any]:  # noqa: ARG002
        """Take note of what came of the proposal; what the history should know of that."""
        return {}

    def step(self, stop: Callable[[], bool] = never) -> SearchEpoch:
        architecture = agreed(self.problem.space.plain(self.propose()))
        rating = self.rater.rate(architecture, self.epoch, stop)
        rated = Candidate(architecture=architecture, val=rating.val, loss=rating.val_loss)
        details = {"choices": list(self.problem.choices(architecture)), **self.learn(rated)}
        self.tried.append(rated)
        self.epoch += 1
        return SearchEpoch(
            epoch=self.epoch - 1,
            train_loss=rating.train_loss,
            val_loss=rating.val_loss,
            val=rating.val,
            details=details,
            alone=rating.alone,
        )

    def favored(self) -> Architecture:
        """The best of those that were tried; of the latest where weights are shared."""
        latest = self._latest()
        if not latest:
            return self.problem.space.plain(self.problem.smallest)
        return ranked(latest)[0].architecture

    def candidates(self, stop: Callable[[], bool]) -> list[Candidate]:
        """Those that were tried, the best first.

        Weights that are shared have changed since: they are asked again about the latest.
        """
        if not self.tried:
            return [self._again(self.favored())]
        if self.rater.lasting:
            return once(ranked(self.tried))
        favored = self.favored()
        latest = (one.architecture for one in reversed(self._latest()))
        asked = dict.fromkeys([favored, *self.more(), *latest])
        assert isinstance(self.rater, SharedRater)
        return ranked(self.rater.shared.rate_all(asked, stop))

    def more(self) -> Iterable[Architecture]:
        """What else to ask shared weights about in the end."""
        return ()

    def _latest(self) -> list[Candidate]:
        return self.tried if self.rater.lasting else self.tried[-self._pool :]

    def _again(self, architecture: Architecture) -> Candidate:
        if isinstance(self.rater, SharedRater):
            return self.rater.shared.rate(architecture)
        rating = self.rater.rate(architecture, self.epoch, never)
        return Candidate(architecture=architecture, val=rating.val, loss=rating.val_loss)

    def network(self, architecture: Architecture) -> GraphNetwork:
        return self.rater.network(architecture)

    def warnings(self) -> list[str]:
        """Nothing that was tried could be trained."""
        if self.tried and not any(rated.val for rated in self.tried):
            return [
                "None of the architectures that the search tried learned anything; lower the "
                f"learning rate, now {self.problem.recipe.lr:g}."
            ]
        return []

    def tensors(self) -> dict[str, Tensor]:
        places, tried = len(self.problem.places), self.tried
        choices = [self.problem.choices(rated.architecture) for rated in tried]
        figures = [(rated.val, rated.loss) for rated in tried]
        return {
            "generator": self.generator.get_state(),
            "choices": torch.tensor(choices, dtype=torch.long).view(len(tried), places),
            "figures": torch.tensor(figures, dtype=torch.float64).view(len(tried), 2),
            **above("rater/", self.rater.tensors()),
        }

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        self.generator.set_state(tensors["generator"])
        self.rater.load(below("rater/", tensors))
        pairs = zip(tensors["choices"].tolist(), tensors["figures"].tolist(), strict=True)
        self.tried = [
            Candidate(
                architecture=self.problem.space.plain(self.problem.made(choices)),
                val=val,
                loss=loss,
            )
            for choices, (val, loss) in pairs
        ]


def labels() -> list[str]:
    """Of all strategies, with shared weights too where that is a choice."""
    shared = [name + SHARED for name in STRATEGIES if issubclass(STRATEGIES[name], Rated)]
    return [*STRATEGIES, *shared]


def labeled(label: str) -> Strategy:
    """The strategy of a label, otherwise with its own settings."""
    if label not in labels():
        raise unknown("strategy", label, labels())
    name = label.removesuffix(SHARED)
    return STRATEGIES[name].model_validate(
        {"name": name} if name == label else {"name": name, "sharing": "on"}
    )
