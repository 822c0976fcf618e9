"""Weights that all architectures of a space share: trained path by path, and asked about others."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Generator, Tensor, nn

from pdnas.architecture import Architecture
from pdnas.models import GraphNetwork
from pdnas.search.base import Candidate, learned, load_learned
from pdnas.search.problem import Problem
from pdnas.supernet import Supernet
from pdnas.training.batching import Batch, Batches
from pdnas.training.epochs import evaluate, train_epoch, training_loss
from pdnas.training.fit import DIGITS
from pdnas.training.metrics import loss, score
from pdnas.training.parallel import agreed, mean, summed, totals, world, wrapped
from pdnas.training.precision import precision_of

SETTLED = 0.05
"""Entropy of probabilities that leave one architecture only."""

UNDECIDED = 0.9
"""Entropy of probabilities of which next to nothing was learned."""

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


class Lender(nn.Module):
    """A supernet as one module, which calls the network of a path: gradients of all are in sight.

    Args:
        supernet: Whose weights the networks have.
    """

    def __init__(self, supernet: Supernet) -> None:
        super().__init__()
        self.supernet = supernet

    def forward(self, network: nn.Module, *features: Any, **inputs: Any) -> Tensor:
        """Logits of every node by a network with weights of the supernet."""
        logits: Tensor = network(*features, **inputs)
        return logits


class Lent(nn.Module):
    """A network of a path whose gradients are the mean of all ranks'.

    Args:
        network: With weights of the supernet.
        lender: Which has all of them, and averages their gradients.
    """

    def __init__(self, network: nn.Module, lender: nn.Module) -> None:
        super().__init__()
        self.network = network
        self._lender = (lender,)  # no part of this one

    def forward(self, *features: Any, **inputs: Any) -> Tensor:
        """Logits of every node."""
        logits: Tensor = self._lender[0](self.network, *features, **inputs)
        return logits


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
        self._lender = wrapped(Lender(self.supernet), in_parts=True)
        self.optimizer = torch.optim.Adam(
            self.supernet.parameters(), lr=lr, weight_decay=recipe.weight_decay, fused=True
        )
        self.train = Batches.by(recipe, problem.task, "train", hops=problem.num_blocks)
        self.val = Batches(problem.task, "val")
        self._steep = Batches.by(recipe, problem.task, "val", hops=problem.num_blocks)

    def network(self, architecture: Architecture) -> GraphNetwork:
        """The network of an architecture, which learns and forgets with all others."""
        return self.supernet.network(architecture)

    def _learner(self, network: nn.Module) -> nn.Module:
        """A network to be trained: as it is, or together with other ranks."""
        return network if world() == 1 else Lent(network, self._lender)

    def step(self, network: nn.Module, epoch: int, **inputs: Any) -> Tensor:
        """One pass over the training part; the mean loss, still on the device.

        Args:
            network: Called as ``network(x, adjacency, **inputs)``, with weights of the supernet.
            epoch: Of the search.
            inputs: What else the network takes.
        """
        task, recipe, losses = self.problem.task, self.problem.recipe, []
        consistency = recipe.consistency_at(epoch)
        learner = self._learner(network).train()
        for batch in self.train.shuffled():
            with precision_of(recipe):
                value = training_loss(learner, batch, task, recipe, consistency, **inputs)
                value.backward()
            self.optimizer.step()
            for weight in network.parameters():
                weight.grad = None
            losses.append(value.detach())
        return mean(torch.stack(losses).mean())

    def judge(self, network: nn.Module, **inputs: Any) -> Judged:
        """What validation says of a network."""
        return Judged(*evaluate(network, self.val, self.problem.task, **inputs))

    def slopes(
        self, network: nn.Module, leaves: Sequence[Tensor], forward: Callable[[Batch], Tensor]
    ) -> tuple[list[Tensor], Judged]:
        """The gradient of the validation loss for each of some tensors, and what validation says.

        Dropout is off, and the weights get no gradient. Where a step does not see the whole graph
        the gradient is that of such steps, and validation looks at the whole graph afterwards.
        Ranks share these steps; where there are none each does all of it.

        Args:
            network: With weights of the supernet.
            leaves: What the logits depend on.
            forward: The logits of all nodes of a batch, by the network and the leaves.
        """
        task, count = self.problem.task, 0
        grads = [torch.zeros_like(leaf) for leaf in leaves]
        outputs, labels = [], []
        network.eval()
        network.requires_grad_(False)  # what only the weights' gradients need is not kept
        is_cut = self.problem.task.split.unit == "node" and not self._steep.is_whole
        for batch in self._steep.shuffled() if is_cut else self.val.in_order():
            if not batch.share.labels:
                continue
            logits = batch.select(forward(batch))
            value = loss(logits, batch.y, task.kind) * len(batch.y)
            if value.requires_grad:  # there is something to choose
                parts = torch.autograd.grad(value, leaves, allow_unused=True)
                for total, part in zip(grads, parts, strict=True):
                    if part is not None:
                        total += part
            count += len(batch.y)
            if not is_cut:
                outputs.append(logits.detach())
                labels.append(batch.y)
        if is_cut:
            (whole,) = self.val.in_order()
            with torch.no_grad():
                outputs.append(whole.select(forward(whole)))
            labels.append(whole.y)
        network.requires_grad_(True)
        output, y = torch.cat(outputs), torch.cat(labels)
        judged = Judged(loss(output, y, task.kind), score(output, y, task.kind, task.metric))
        (everywhere,) = totals([count])
        return [summed(grad) / everywhere for grad in grads], judged

    def likeliest(self, op_probs: Tensor, gate_probs: Tensor) -> Architecture:
        """The likeliest op of every slot and the gates that are likely open, made to fit.

        Args:
            op_probs: How likely each op is, ``[L, K, T]``.
            gate_probs: How likely each gate is open, ``[L, L]``.
        """
        architecture = self.supernet.architecture(op_probs.argmax(dim=-1), gate_probs)
        fitting = self.problem.shrink(architecture, op_probs, gate_probs)
        return self.problem.space.plain(fitting)

    def draw(
        self,
        op_probs: Tensor,
        gate_probs: Tensor,
        count: int,
        generator: Generator,
        stop: Callable[[], bool],
    ) -> list[Architecture]:
        """The likeliest architecture and random ones, different from each other; all fit.

        Args:
            op_probs: How likely each op is, ``[L, K, T]``.
            gate_probs: How likely each gate is open, ``[L, L]``.
            count: How many; fewer where the same ones come up again and again.
            generator: Draws them.
            stop: Asked now and then whether there is no more time for others.
        """
        found = {self.likeliest(op_probs, gate_probs): None} if count else {}
        space, shape = self.problem.space, op_probs.shape[:2]
        for _ in range(4 * count):
            if len(found) >= count or stop():
                break
            flat = torch.multinomial(op_probs.flatten(0, 1), 1, generator=generator)
            draws = torch.rand(gate_probs.shape, generator=generator)
            drawn = self.supernet.architecture(flat.view(shape), (draws < gate_probs).float())
            found[space.plain(self.problem.shrink(drawn, op_probs, gate_probs))] = None
        return list(found)

    def rate(self, architecture: Architecture) -> Candidate:
        """What the shared weights say of an architecture."""
        judged = self.judge(self.network(architecture))
        value, val = agreed(torch.stack(judged).tolist())
        if not math.isfinite(value):
            return Candidate(architecture=architecture, val=0.0, loss=HOPELESS)
        return Candidate(
            architecture=architecture, val=round(val, DIGITS), loss=round(value, DIGITS)
        )

    def rate_all(
        self, architectures: Iterable[Architecture], stop: Callable[[], bool]
    ) -> list[Candidate]:
        """What they say of several: of the first, and of others while there is time."""
        rated: list[Candidate] = []
        for architecture in architectures:
            if rated and stop():
                break
            rated.append(self.rate(architecture))
        return rated

    def adapt(self, architecture: Architecture, epochs: int) -> Candidate:
        """What a few epochs of training make of the shared weights, which stay as they are."""
        network, task = self.network(architecture), self.problem.task
        shared = {name: weight.clone() for name, weight in network.state_dict().items()}
        recipe, learner = self.problem.recipe, self._learner(network)
        optimizer = recipe.make_optimizer(network.parameters())
        best = self.rate(architecture)
        try:
            for _ in range(epochs):
                train_epoch(learner, self.train, task, optimizer, recipe, recipe.consistency)
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


def fitting_gates(problem: Problem) -> Tensor:
    """The shortcuts that an architecture within the number of parameters may have, ``[L, L]``."""
    possible = torch.zeros(problem.num_blocks, problem.num_blocks, dtype=torch.bool)
    for i, j in problem.space.possible_gates(problem.num_blocks):
        possible[i, j] = problem.fits(problem.smallest.model_copy(update={"gates": ((i, j),)}))
    return possible


def per_mille(values: Tensor) -> Any:
    """Probabilities as whole numbers, which keeps a line of the history short."""
    return (1000 * values).round().int().tolist()


def per_mille_of_ops(op_probs: Tensor, mask: Tensor) -> list[list[list[int]]]:
    """Block by block and slot by slot the probabilities of the candidates that there are.

    Args:
        op_probs: ``[L, K, T]``.
        mask: Where there is an op, ``[L, K, T]``.
    """
    return [
        [row[:count] for row, count in zip(*block, strict=True)]
        for block in zip(per_mille(op_probs), mask.sum(dim=-1).tolist(), strict=True)
    ]


def once(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Every architecture once, where it stands first."""
    found: dict[Architecture, Candidate] = {}
    for candidate in candidates:
        found.setdefault(candidate.architecture, candidate)
    return list(found.values())
