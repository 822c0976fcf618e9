"""Networks that are no rows of blocks: a settings value for each, and what such networks share."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Generic, TypedDict, TypeVar, Unpack
from weakref import WeakKeyDictionary

import torch
from pydantic import BaseModel, ConfigDict
from torch import Tensor, nn

from pdnas.architecture import Channels, check_hidden
from pdnas.models.network import read_input
from pdnas.ops.adjacency import Adjacency
from pdnas.ops.base import glorot_
from pdnas.ops.features import BlockInput, Features, WeightedFeatures, dropout, dropout_entries
from pdnas.registry import Registry

T = TypeVar("T")


class Rates(TypedDict, total=False):
    """What a recipe says of a network.

    Args:
        input_dropout: Rate for the raw features.
        dropout: Rate for what flows between layers.
        feature_weights: Whether each raw feature has a weight of its own, until they are folded.
    """

    input_dropout: float
    dropout: float
    feature_weights: bool


class Published(BaseModel, ABC):
    """A network that somebody published and that is no row of blocks.

    Its fields are its hyper-parameters, but for those that every network has: the hidden size, and
    what a recipe says. Its name says whose fields they are when it is read back from JSON.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    name: str

    @abstractmethod
    def build(self, task: Channels, hidden: int, **rates: Unpack[Rates]) -> "PublishedNetwork":
        """The network with fresh weights.

        Args:
            task: What is to be read and told: the number of features and of logits.
            hidden: Channels inside.
            rates: What a recipe says of it.
        """

    def parameters(self, task: Channels, hidden: int) -> int:
        """Number of weights on a task; no memory is taken for them."""
        check_hidden(hidden)
        with torch.device("meta"):
            network = self.build(task, hidden)
        return sum(weight.numel() for weight in network.parameters())

    def __str__(self) -> str:
        """One line: the name, then the fields."""
        return ", ".join([self.name, *(" ".join(pair) for pair in self._pairs())])

    def table(self) -> list[list[str]]:
        """Rows of text under a header: the fields and their values."""
        pairs = list(self._pairs())
        return [
            ["network", *(name for name, _ in pairs)],
            [self.name, *(value for _, value in pairs)],
        ]

    def _pairs(self) -> Iterator[tuple[str, str]]:
        for name, value in self.model_dump().items():
            if name != "name":
                yield name.replace("_", " "), str(value)


PUBLISHED: Registry[str, type[Published]] = Registry("published network")


class PublishedNetwork(nn.Module, ABC):
    """What these networks share: their input is checked, dropped and, if asked for, weighted.

    Raw features are read by a :class:`FeatureMap` only, so that sparse ones stay sparse.

    Args:
        task: What is to be read and told.
        hidden: Channels inside.
        rates: What a recipe says of it.
    """

    def __init__(self, task: Channels, hidden: int, **rates: Unpack[Rates]) -> None:
        super().__init__()
        check_hidden(hidden)
        self.in_channels = task.in_channels
        self.input_dropout = rates.get("input_dropout", 0.0)
        self.dropout = rates.get("dropout", 0.0)
        self.feature_weights: nn.Parameter | None = None
        if rates.get("feature_weights", False):
            self.feature_weights = nn.Parameter(torch.ones(task.in_channels))

    def forward(self, x: Features, edge_index: Tensor | Adjacency) -> Tensor:
        """Logits of every node, ``[N, F] -> [N, classes]``.

        Args:
            x: Features; a torch sparse matrix is welcome.
            edge_index: ``[2, E]``, or the adjacency made of it once, which saves the sorting.
        """
        features, graph = read_input(x, edge_index, self.in_channels)
        dropped = dropout(features, self.input_dropout, self.training)
        if self.feature_weights is None:
            return self.logits(dropped, graph)
        return self.logits(WeightedFeatures(dropped, self.feature_weights), graph)

    @abstractmethod
    def logits(self, x: BlockInput, graph: Adjacency) -> Tensor:
        """From features that are dropped already to logits, ``[N, F] -> [N, classes]``."""

    @property
    def recordable(self) -> bool:
        """Whether its steps may be recorded as a CUDA graph: all shapes are known beforehand."""
        return True

    def between(self, x: Tensor) -> Tensor:
        """What flows between layers, dropped in training."""
        return dropout_entries(x, self.dropout, self.training)

    def decays(self) -> list[tuple[float, list[nn.Parameter]]]:
        """All weights, in groups, each with its decay in units of the recipe's."""
        return [(1.0, list(self.parameters()))]

    @torch.no_grad()
    def fold_feature_weights(self) -> None:
        """Multiply the feature weights into the maps that read features; logits stay the same."""
        if self.feature_weights is None:
            return
        for module in self.modules():
            if isinstance(module, FeatureMap):
                module.weight.mul_(self.feature_weights.unsqueeze(1))
        self.feature_weights = None


class FeatureMap(nn.Module):
    """A linear map of raw features, sparse or dense, ``[N, F] -> [N, C]``.

    Args:
        in_channels: ``F``.
        out_channels: ``C``.
        bias: Whether a bias, zero at first, is added.
    """

    def __init__(self, in_channels: int, out_channels: int, *, bias: bool = False) -> None:
        super().__init__()
        self.weight = nn.Parameter(glorot_(torch.empty(in_channels, out_channels)))
        self.bias = nn.Parameter(torch.zeros(out_channels)) if bias else None

    def forward(self, x: BlockInput) -> Tensor:
        mapped = x @ self.weight
        return mapped if self.bias is None else mapped + self.bias


class PerGraph(Generic[T]):
    """What is computed once for each graph, and forgotten with it.

    Args:
        make: Computes it; the result must not hold the graph.
    """

    def __init__(self, make: Callable[[Adjacency], T]) -> None:
        self._make = make
        self._made: WeakKeyDictionary[Adjacency, T] = WeakKeyDictionary()

    def __call__(self, graph: Adjacency) -> T:
        if graph not in self._made:
            self._made[graph] = self._make(graph)
        return self._made[graph]
