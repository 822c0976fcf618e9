"""The one training loop: train, validate, keep the best weights. The test part is read apart."""

import copy
import hashlib
import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from pdnas.errors import DivergedError
from pdnas.tasks import GraphTask
from pdnas.training.batching import Batches
from pdnas.training.epochs import evaluate, make_epochs
from pdnas.training.parallel import agreed
from pdnas.training.recipe import Recipe

DIGITS = 6
"""Decimals of a figure: what single precision can tell."""


@dataclass(frozen=True)
class Epoch:
    """What an epoch of training showed.

    Args:
        epoch: Its number, from 0.
        train_loss: Mean over the epoch's steps, with dropout.
        val_loss: On the validation part, after the epoch.
        val: The task's metric there.
    """

    epoch: int
    train_loss: float
    val_loss: float
    val: float


@dataclass(frozen=True)
class Fit:
    """What a training came to; the network holds the weights of the chosen epoch.

    Args:
        epoch: The chosen one: the best on validation.
        val: The task's metric on the validation part at that epoch.
        epochs: How many were run.
        seconds: How long they took.
    """

    epoch: int
    val: float
    epochs: int
    seconds: float


def fit(
    network: nn.Module,
    task: GraphTask,
    recipe: Recipe,
    *,
    answers: Sequence[Tensor] | None = None,
    on_epoch: Callable[[Epoch], None] | None = None,
    stop: Callable[[Epoch], bool] | None = None,
) -> Fit:
    """Train a network on a task, without a look at the test part.

    Args:
        network: Called as ``network(x, adjacency)``; on the same device as the task.
        task: What to learn.
        recipe: How.
        answers: What teachers say of the nodes of each graph, where there are any.
        on_epoch: Told of every epoch.
        stop: Asked after every epoch whether to end there.
    """
    started = time.perf_counter()
    epochs = make_epochs(network, task, recipe, answers)
    best: Epoch | None = None
    best_weights: dict[str, Tensor] = {}
    for number in range(recipe.epochs):
        figures = agreed(epochs(number).tolist())  # one transfer for all three
        epoch = Epoch(number, *(round(figure, DIGITS) for figure in figures))
        _check(epoch, recipe)
        if best is None or _score(recipe, epoch) > _score(recipe, best):
            best = epoch
            best_weights = copy.deepcopy(network.state_dict())
        if on_epoch is not None:
            on_epoch(epoch)
        waited = number - max(best.epoch, recipe.settled)
        if waited >= recipe.patience or (stop is not None and stop(epoch)):
            break
    assert best is not None
    network.load_state_dict(best_weights)
    return Fit(best.epoch, best.val, number + 1, time.perf_counter() - started)


def read_test(network: nn.Module, task: GraphTask) -> float:
    """The task's metric on the test part: to be called once, for the network that was chosen."""
    _, metric = evaluate(network, Batches(task, "test"), task)
    return round(float(metric), DIGITS)


def _score(recipe: Recipe, epoch: Epoch) -> tuple[float, float]:
    return recipe.score(metric=epoch.val, loss=epoch.val_loss)


def _check(epoch: Epoch, recipe: Recipe) -> None:
    if not math.isfinite(epoch.train_loss + epoch.val_loss):
        raise DivergedError(
            f"The loss is no longer finite at epoch {epoch.epoch}; lower the learning rate, "
            f"now {recipe.lr:g}."
        )


@contextmanager
def seeded(seed: int, device: torch.device | str = "cpu") -> Iterator[None]:
    """Torch's random state set by a seed inside, and untouched outside."""
    device = torch.device(device)
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        torch.manual_seed(_low_bits(seed))
        yield


def _low_bits(seed: int) -> int:
    """A seed of 32 bits, all that torch's generator on a CPU looks at; small ones as they are.

    Larger ones are hashed, so that seeds which differ in their high bits alone differ here.
    """
    if seed < 2**32:
        return seed
    return int.from_bytes(hashlib.sha256(str(seed).encode()).digest()[:4], "big")
