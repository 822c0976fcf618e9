"""How good an architecture is, as a search finds out: trained on its own, or by weights at hand."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from pdnas.architecture import Architecture
from pdnas.errors import DivergedError, SearchError
from pdnas.models import GraphNetwork, Network
from pdnas.search.base import above, below
from pdnas.search.problem import Problem
from pdnas.search.shared import HOPELESS, SharedWeights
from pdnas.training.fit import DIGITS, Epoch, seeded
from pdnas.training.parallel import agreed
from pdnas.training.seeds import train_once

SEED = 2**40
"""Added to the search's seed for the trainings within it: no final training has such a seed."""


class Rating(NamedTuple):
    """What came of an architecture.

    Args:
        train_loss: Its loss on the training part.
        val_loss: Its loss on validation.
        val: The task's metric there.
        alone: Whether it was trained on its own, from fresh weights.
    """

    train_loss: float
    val_loss: float
    val: float
    alone: bool = False


WORST = (-1.0, -math.inf)
"""The score of no architecture: validation, and the loss below zero."""

HOPELESS_RATING = Rating(HOPELESS, HOPELESS, 0.0)
"""Of an architecture whose losses are no numbers."""


class Rater(ABC):
    """Whoever rates architectures, one after the other."""

    lasting: ClassVar[bool]
    """Whether what it said of an architecture still holds when others were rated since."""

    @abstractmethod
    def rate(self, architecture: Architecture, epoch: int, stop: Callable[[], bool]) -> Rating:
        """Learn something of an architecture.

        Args:
            architecture: Of the space.
            epoch: Of the search.
            stop: Asked now and then whether there is no more time.
        """

    @abstractmethod
    def network(self, architecture: Architecture) -> GraphNetwork:
        """A network with the weights that are at hand."""

    @abstractmethod
    def tensors(self) -> dict[str, Tensor]:
        """Everything that decides how it goes on."""

    @abstractmethod
    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Take over what :meth:`tensors` gave."""


class SharedRater(Rater):
    """A pass over the training part with weights that all share, then a look at validation.

    Args:
        problem: What to solve.
        lr: Learning rate of the weights.
    """

    lasting = False

    def __init__(self, problem: Problem, lr: float) -> None:
        self.shared, self._lr = SharedWeights(problem, lr), lr

    def rate(self, architecture: Architecture, epoch: int, stop: Callable[[], bool]) -> Rating:  # noqa: ARG002
        network = self.shared.network(architecture)
        train_loss = self.shared.step(network, epoch)
        figures = agreed(torch.stack([train_loss, *self.shared.judge(network)]).tolist())
        if not math.isfinite(sum(figures)):
            raise SearchError(
                f"The loss is no longer finite at epoch {epoch} of the search; lower --weight-lr, "
                f"now {self._lr:g}."
            )
        return Rating(*(round(figure, DIGITS) for figure in figures))

    def network(self, architecture: Architecture) -> GraphNetwork:
        return self.shared.network(architecture)

    def tensors(self) -> dict[str, Tensor]:
        return self.shared.tensors()

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        self.shared.load(tensors)


class TrainingRater(Rater):
    """A training of each architecture, all with the same seed; the best one's weights are kept.

    With ``inherited_epochs`` only the first is trained from fresh weights. Later ones begin with
    what they may inherit from the best so far, see :func:`inherit`, and are trained for a few
    epochs.

    Args:
        problem: What to solve.
        epochs: Of a training at most; fewer where the recipe has fewer.
        inherited_epochs: Of one with inherited weights; 0: nothing is inherited.
    """

    lasting = True

    def __init__(self, problem: Problem, epochs: int, inherited_epochs: int = 0) -> None:
        self.problem = problem
        self.recipe = problem.recipe.changed(epochs=min(epochs, problem.recipe.epochs), teachers=0)
        self.inherited_epochs = inherited_epochs
        self._seed = problem.seed + SEED
        self._best: Architecture | None = None
        self._best_score = WORST
        self._weights: dict[str, Tensor] = {}

    def rate(self, architecture: Architecture, epoch: int, stop: Callable[[], bool]) -> Rating:  # noqa: ARG002
        seen: list[Epoch] = []
        recipe = self.recipe
        inherits = self.inherited_epochs > 0 and self._best is not None
        if inherits:
            recipe = recipe.changed(epochs=min(self.inherited_epochs, recipe.epochs))
        try:
            network, outcome = train_once(
                architecture,
                self.problem.task,
                hidden=self.problem.hidden,
                recipe=recipe,
                seed=self._seed,
                on_epoch=seen.append,
                stop=lambda _: stop(),
                prepare=self._inherit if inherits else None,
            )
        except DivergedError:
            return HOPELESS_RATING
        chosen = seen[outcome.epoch]
        score = chosen.val, -chosen.val_loss
        if score > self._best_score:
            self._best, self._best_score = architecture, score
            self._weights = {
                name: weight.detach().clone() for name, weight in network.state_dict().items()
            }
        return Rating(chosen.train_loss, chosen.val_loss, chosen.val, alone=not inherits)

    def _inherit(self, network: Network) -> None:
        assert self._best is not None
        assert isinstance(network, GraphNetwork)  # of an architecture
        inherit(network, self._best, self._weights)

    def network(self, architecture: Architecture) -> GraphNetwork:
        """The best with its weights, any other with fresh ones."""
        problem = self.problem
        with seeded(self._seed, problem.device):
            network = GraphNetwork(architecture, problem.task, problem.hidden).to(problem.device)
        if architecture == self._best:
            network.load_state_dict(self._weights)
        return network

    def tensors(self) -> dict[str, Tensor]:
        tensors = {"seed": torch.tensor(self._seed), **above("weights/", self._weights)}
        if self._best is not None:
            choices = self.problem.choices(self._best)
            tensors["choices"] = torch.tensor(choices, dtype=torch.long)
            tensors["score"] = torch.tensor(self._best_score, dtype=torch.float64)
        return tensors

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        self._best, self._best_score = None, WORST
        self._seed = int(tensors["seed"])
        self._weights = below("weights/", tensors)
        if "score" in tensors:
            made = self.problem.made(tensors["choices"].tolist())
            self._best = self.problem.space.plain(made)
            val, minus_loss = tensors["score"].tolist()
            self._best_score = val, minus_loss


@torch.no_grad()
def inherit(
    network: GraphNetwork, ancestor: Architecture, weights: Mapping[str, Tensor]
) -> list[str]:
    """Give a fresh network the weights of another one where it is safe; the names of those.

    AGNN's constraints: a block inherits if its attention and its activation are those of the
    ancestor's block, for weights trained under others mislead; a weight must have the same shape;
    norms and shortcuts always begin anew.

    Args:
        network: Whose weights are replaced.
        ancestor: An architecture of as many blocks.
        weights: Of its network, by name.
    """
    pairs = enumerate(zip(network.architecture.blocks, ancestor.blocks, strict=True))
    akin = [
        f"blocks.{number}."
        for number, (own, other) in pairs
        if (own.attention, own.activation) == (other.attention, other.activation)
    ]
    inherited = []
    for name, weight in network.named_parameters():
        block = next((block for block in akin if name.startswith(block)), None)
        if block is None or name.startswith(f"{block}norm."):
            continue
        if name in weights and weights[name].shape == weight.shape:
            weight.copy_(weights[name])
            inherited.append(name)
    return inherited
