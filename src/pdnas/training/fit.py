"""The one training loop: train, validate, keep the best weights. The test part is read apart."""

import copy
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from pdnas.errors import DivergedError
from pdnas.tasks import GraphTask
from pdnas.training.batching import Batch, Batches
from pdnas.training.consistency import consistency_loss, drop_nodes
from pdnas.training.metrics import loss, score
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
    on_epoch: Callable[[Epoch], None] | None = None,
    stop: Callable[[Epoch], bool] | None = None,
) -> Fit:
    """Train a network on a task, without a look at the test part.

    Args:
        network: Called as ``network(x, adjacency)``; on the same device as the task.
        task: What to learn.
        recipe: How.
        on_epoch: Told of every epoch.
        stop: Asked after every epoch whether to end there.
    """
    started = time.perf_counter()
    optimizer = recipe.make_optimizer(network.parameters())
    train = Batches(task, "train", recipe.batch_graphs)
    val = Batches(task, "val")
    best: Epoch | None = None
    best_weights: dict[str, Tensor] = {}
    for number in range(recipe.epochs):
        train_loss = train_epoch(network, train, task, optimizer, recipe, number)
        val_loss, metric = evaluate(network, val, task)
        # One transfer for all three figures of the epoch.
        figures = torch.stack([train_loss, val_loss, metric]).tolist()
        epoch = Epoch(number, *(round(figure, DIGITS) for figure in figures))
        _check(epoch, recipe)
        if best is None or _score(recipe, epoch) > _score(recipe, best):
            best = epoch
            best_weights = copy.deepcopy(network.state_dict())
        if on_epoch is not None:
            on_epoch(epoch)
        if number - best.epoch >= recipe.patience or (stop is not None and stop(epoch)):
            break
    assert best is not None
    network.load_state_dict(best_weights)
    return Fit(best.epoch, best.val, number + 1, time.perf_counter() - started)


def read_test(network: nn.Module, task: GraphTask) -> float:
    """The task's metric on the test part: to be called once, for the network that was chosen."""
    _, metric = evaluate(network, Batches(task, "test"), task)
    return round(float(metric), DIGITS)


def train_epoch(
    network: nn.Module,
    batches: Batches,
    task: GraphTask,
    optimizer: torch.optim.Optimizer,
    recipe: Recipe,
    epoch: int,
) -> Tensor:
    """One epoch of steps; the mean loss, still on the device."""
    network.train()
    losses = []
    for batch in batches.shuffled():
        optimizer.zero_grad(set_to_none=True)
        value = training_loss(network, batch, task, recipe, epoch)
        value.backward()
        optimizer.step()
        losses.append(value.detach())
    return torch.stack(losses).mean()


def training_loss(
    network: nn.Module, batch: Batch, task: GraphTask, recipe: Recipe, epoch: int, **inputs: Any
) -> Tensor:
    """What a step lowers: the loss on the labels and, with several copies, their disagreement.

    Args:
        network: Called as ``network(x, adjacency, **inputs)``.
        batch: What the step sees.
        task: What the loss is.
        recipe: How many copies, and how they are made and compared.
        epoch: When; disagreement hardly counts at first, lest the network be sure too early.
        inputs: What else the network takes.
    """
    copies = batch.repeated(recipe.copies)
    x = drop_nodes(copies.x, recipe.node_dropout)
    output = network(x, copies.adjacency, **inputs)
    value = loss(copies.select(output), copies.y, task.kind)
    weight = recipe.consistency_at(epoch)
    if weight > 0:
        answers = output.unflatten(0, (recipe.copies, -1))  # [S, N, C]
        value = value + weight * consistency_loss(answers, task.kind, recipe.sharpening)
    return value


@torch.no_grad()
def evaluate(
    network: nn.Module, batches: Batches, task: GraphTask, **inputs: Any
) -> tuple[Tensor, Tensor]:
    """Loss and metric of a part, as tensors on the device, without dropout.

    Args:
        network: Called as ``network(x, adjacency, **inputs)``.
        batches: The part.
        task: What the loss and the metric are.
        inputs: What else the network takes.
    """
    network.eval()
    outputs = [
        (batch.select(network(batch.x, batch.adjacency, **inputs)), batch.y)
        for batch in batches.in_order()
    ]
    logits = torch.cat([output for output, _ in outputs])
    y = torch.cat([labels for _, labels in outputs])
    return loss(logits, y, task.kind), score(logits, y, task.kind, task.metric)


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
        torch.manual_seed(seed)
        yield
