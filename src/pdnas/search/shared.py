"""Weights that all architectures of a space share: trained path by path, and asked about others."""

import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from pdnas.architecture import Architecture
from pdnas.models import GraphNetwork
from pdnas.search.base import Candidate, learned, load_learned
from pdnas.search.problem import Problem
from pdnas.supernet import Supernet
from pdnas.training.batching import Batches
from pdnas.training.epochs import evaluate, train_epoch, training_loss
from pdnas.training.fit import DIGITS

HOPELESS = 1e9
"""The loss of a network whose logits are no numbers."""


class Judged(NamedTuple):
    """What validation says of a network, still on the device.

    Args:
        loss: The loss.
        val: The task's metric.
    """

    loss: Tensor
    val: Tensor


class SharedWeights:
    """A supernet, its optimizer, and the data that both see.

    Args:
        problem: What to solve.
        lr: Learning rate of the weights.
    """

    def __init__(self, problem: Problem, lr: float) -> None:
        recipe = problem.recipe
        self.problem = problem
        self.supernet = Supernet(
            problem.space,
            problem.task,
            problem.num_blocks,
            problem.hidden,
            input_dropout=recipe.input_dropout,
            dropout=recipe.dropout,
            attention_dropout=recipe.attention_dropout,
        ).to(problem.device)
        self.optimizer = torch.optim.Adam(
            self.supernet.parameters(), lr=lr, weight_decay=recipe.weight_decay, fused=True
        )
        self.train = Batches(problem.task, "train", recipe.batch_graphs)
        self.val = Batches(problem.task, "val")

    def network(self, architecture: Architecture) -> GraphNetwork:
        """The network of an architecture, which learns and forgets with all others."""
        return self.supernet.network(architecture)

    def step(self, network: GraphNetwork, epoch: int, gates: Tensor | None = None) -> Tensor:
        """One pass over the training part; the mean loss, still on the device.

        Args:
            network: Of an architecture.
            epoch: Of the search.
            gates: What the shortcuts are multiplied with, ``[L, L]``, where they are.
        """
        task, recipe, losses = self.problem.task, self.problem.recipe, []
        consistency = recipe.consistency_at(epoch)
        network.train()
        for batch in self.train.shuffled():
            value = training_loss(network, batch, task, recipe, consistency, gates=gates)
            value.backward()
            self.optimizer.step()
            for weight in network.parameters():
                weight.grad = None
            losses.append(value.detach())
        return torch.stack(losses).mean()

    def judge(self, network: GraphNetwork, gates: Tensor | None = None) -> Judged:
        """What validation says of a network."""
        return Judged(*evaluate(network, self.val, self.problem.task, gates=gates))

    def rate(self, architecture: Architecture) -> Candidate:
        """What the shared weights say of an architecture."""
        judged = self.judge(self.network(architecture))
        loss, val = torch.stack(judged).tolist()
        if not math.isfinite(loss):
            return Candidate(architecture=architecture, val=0.0, loss=HOPELESS)
        return Candidate(
            architecture=architecture, val=round(val, DIGITS), loss=round(loss, DIGITS)
        )

    def adapt(self, architecture: Architecture, epochs: int) -> Candidate:
        """What a few epochs of training make of the shared weights, which stay as they are."""
        network, task = self.network(architecture), self.problem.task
        shared = {name: weight.clone() for name, weight in network.state_dict().items()}
        recipe = self.problem.recipe
        optimizer = recipe.make_optimizer(network.parameters())
        best = self.rate(architecture)
        try:
            for _ in range(epochs):
                train_epoch(network, self.train, task, optimizer, recipe, recipe.consistency)
                now = self.rate(architecture)
                best = max(best, now, key=lambda candidate: (candidate.val, -candidate.loss))
        finally:
            network.load_state_dict(shared)
            for weight in network.parameters():
                weight.grad = None
        return best

    def tensors(self) -> dict[str, Tensor]:
        """Everything that decides how the weights go on."""
        return learned(self.supernet, self.optimizer)

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Take over what :meth:`tensors` gave."""
        load_learned(self.supernet, self.optimizer, tensors)


def ranked(rated: Iterable[Candidate]) -> list[Candidate]:
    """By validation: the metric, then the loss."""
    return sorted(rated, key=lambda candidate: (-candidate.val, candidate.loss))
