"""What all strategies have in common: settings that start a search, and a search in progress."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Any, Self

import torch
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SerializeAsAny,
    ValidationError,
)
from torch import Tensor, nn

from pdnas.architecture import Architecture
from pdnas.errors import SearchError, first_complaint, shown
from pdnas.models import GraphNetwork
from pdnas.registry import Registry
from pdnas.runs import MOST, Record
from pdnas.search.problem import Problem
from pdnas.training.fit import seeded


class Candidate(Record):
    """An architecture that a search proposes.

    Args:
        architecture: What.
        val: The task's metric on validation, as the search estimates it.
        loss: The loss there, likewise.
    """

    architecture: Architecture
    val: float
    loss: float


@dataclass(frozen=True)
class SearchEpoch:
    """What an epoch of a search showed.

    Args:
        epoch: Its number, from 0.
        train_loss: Of the architecture that was tried.
        val_loss: The same on validation.
        val: The task's metric there.
        details: What else the strategy keeps of it, as plain values for the history.
        alone: Whether that architecture was trained on its own, so that ``val`` is what it comes
            to and not what weights say that it shares with others.
    """

    epoch: int
    train_loss: float
    val_loss: float
    val: float
    details: Mapping[str, Any]
    alone: bool = False


def never() -> bool:
    """There is time for everything."""
    return False


class Search(ABC):
    """A search in progress: step by step, and able to go on from a saved state.

    Torch's random state is the search's while it lasts, see :meth:`Strategy.begin`.

    Args:
        problem: What to solve.
        epochs: How many there are.
    """

    def __init__(self, problem: Problem, epochs: int) -> None:
        self.problem = problem
        self.epochs = epochs
        self.epoch = 0

    @property
    def is_over(self) -> bool:
        return self.epoch >= self.epochs

    @abstractmethod
    def step(self, stop: Callable[[], bool] = never) -> SearchEpoch:
        """Do an epoch.

        Args:
            stop: Asked now and then, where an epoch takes long, whether there is no more time.
        """

    @abstractmethod
    def favored(self) -> Architecture:
        """What the search would choose now."""

    @abstractmethod
    def candidates(self, stop: Callable[[], bool]) -> list[Candidate]:
        """What the search proposes to train, the most promising first, the favored among them.

        Args:
            stop: Asked now and then whether there is no more time to look for more.
        """

    def refine(self, candidates: list[Candidate], stop: Callable[[], bool]) -> list[Candidate]:  # noqa: ARG002
        """The same candidates, looked at closer and ranked again; by default as they are.

        Args:
            candidates: What :meth:`candidates` gave.
            stop: Asked now and then whether there is no more time for it.
        """
        return candidates

    @abstractmethod
    def network(self, architecture: Architecture) -> GraphNetwork:
        """A network of the space with the weights that the search has at hand."""

    @abstractmethod
    def warnings(self) -> list[str]:
        """What went wrong with the search, a sentence each."""

    @abstractmethod
    def tensors(self) -> dict[str, Tensor]:
        """Everything that decides how the search goes on, random states apart."""

    @abstractmethod
    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Take over what :meth:`tensors` gave."""

    def state(self) -> dict[str, Tensor]:
        """Everything that decides how the search goes on, to be saved."""
        state = {
            "epoch": torch.tensor(self.epoch),
            "random": torch.get_rng_state(),
            **above("search/", self.tensors()),
        }
        if self.problem.device.type == "cuda":
            state["random-cuda"] = torch.cuda.get_rng_state(self.problem.device)
        return state

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Take over a saved state."""
        self.load(below("search/", state))
        self.epoch = int(state["epoch"])
        if not 0 <= self.epoch <= self.epochs:
            raise ValueError(f"epoch {self.epoch} of {self.epochs} is none")
        torch.set_rng_state(state["random"])
        if self.problem.device.type == "cuda":
            torch.cuda.set_rng_state(state["random-cuda"], self.problem.device)


class Strategy(BaseModel, ABC):
    """Frozen settings of a way to search; its fields are flags and what a run records."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    name: str
    epochs: int = Field(400, ge=1, le=MOST, description="Epochs of the search.")

    @abstractmethod
    def start(self, problem: Problem) -> Search:
        """A search that has not begun, with fresh weights."""

    @contextmanager
    def begin(self, problem: Problem) -> Iterator[Search]:
        """A search to be stepped inside, where torch's random state is its own."""
        with seeded(problem.seed, problem.device):
            yield self.start(problem)

    @property
    def label(self) -> str:
        """What tells it from others beside it: its name, or that and what matters most."""
        return self.name

    @property
    def idle(self) -> tuple[str, ...]:
        """Settings that change nothing beside the others."""
        return ()

    @property
    def trained_epochs(self) -> int:
        """Epochs for which each epoch of the search trains an architecture on its own; 0: none."""
        return 0

    @property
    def climbs(self) -> bool:
        """Whether the rest of a budget of seconds is spent on changes of its best candidates."""
        return False

    @property
    def refining(self) -> int:
        """What it costs to find candidates and to look closer at them, in epochs."""
        return 0

    def lasting(self, epochs: int) -> Self:
        """These settings over another number of epochs, whose schedule shrinks or grows with it."""
        return self.changed(epochs=epochs)

    def changed(self, **values: Any) -> Self:
        """These settings with some values replaced, all of them checked."""
        try:
            return type(self).model_validate({**self.model_dump(), **values})
        except ValidationError as error:
            problem = error.errors()[0]
            if problem["type"] == "extra_forbidden":
                known = [name for name in type(self).model_fields if name != "name"]
                raise SearchError(
                    f"The strategy '{self.name}' has no setting '{problem['loc'][0]}'; it has: "
                    f"{', '.join(known)}."
                ) from None
            raise SearchError(
                f"The strategy '{self.name}' cannot be set so: {first_complaint(error)}, but got "
                f"{shown(repr(problem['input']))}."
            ) from None


STRATEGIES: Registry[str, type[Strategy]] = Registry("strategy")


def read_strategy(values: Any) -> Any:
    """Settings from what they were written as: the name says whose they are."""
    if isinstance(values, dict) and isinstance(values.get("name"), str):
        return STRATEGIES[values["name"]].model_validate(values)
    return values


AnyStrategy = Annotated[SerializeAsAny[Strategy], BeforeValidator(read_strategy)]
"""The type of a field that holds settings of any strategy."""


def learned(module: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The values of a module and the state of its optimizer, as named tensors.

    What was never stepped has no state.

    Args:
        module: Whose parameters are learned.
        optimizer: Of one group, the module's parameters in their order.
    """
    values = {f"values/{name}": value for name, value in module.state_dict().items()}
    parameters = optimizer.param_groups[0]["params"]
    state = {
        f"optimizer/{name}/{key}": value
        for (name, _), parameter in zip(module.named_parameters(), parameters, strict=True)
        for key, value in optimizer.state.get(parameter, {}).items()
    }
    return values | state


def load_learned(
    module: nn.Module, optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]
) -> None:
    """Take over what :func:`learned` gave."""
    module.load_state_dict(below("values/", tensors))
    state: dict[int, dict[str, Tensor]] = {}
    parameters = dict(module.named_parameters())
    numbers = {name: number for number, name in enumerate(parameters)}
    for path, value in below("optimizer/", tensors).items():
        name, _, key = path.rpartition("/")
        if value.dim() and value.shape != parameters[name].shape:
            raise ValueError(f"{path} has the shape {list(value.shape)}")
        state.setdefault(numbers[name], {})[key] = value
    optimizer.load_state_dict({**optimizer.state_dict(), "state": state})


def like(own: Tensor, stored: Tensor) -> Tensor:
    """A stored tensor, which must be of the kind of that whose place it takes."""
    if (stored.shape, stored.dtype) != (own.shape, own.dtype):
        raise ValueError(
            f"{stored.dtype} {list(stored.shape)} is not as {own.dtype} {list(own.shape)}"
        )
    return stored


def above(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors under names that begin so."""
    return {prefix + name: tensor for name, tensor in tensors.items()}


def below(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors whose names begin so, without that beginning."""
    return {
        name.removeprefix(prefix): tensor
        for name, tensor in tensors.items()
        if name.startswith(prefix)
    }
