"""An epoch of a training: step by step, or recorded once and replayed on a GPU."""

import copy
import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from pdnas.models import PublishedNetwork
from pdnas.tasks import GraphTask
from pdnas.training.batching import Batch, Batches
from pdnas.training.consistency import consistency_loss, drop_nodes
from pdnas.training.metrics import loss, score
from pdnas.training.parallel import mean, world, wrapped
from pdnas.training.precision import precision_of
from pdnas.training.recipe import Recipe
from pdnas.training.teaching import teaching_loss

WARM_UP = 3
"""Epochs before the recording, in which libraries make what they make only once."""

WORTHWHILE = 20
"""Epochs from which a recording pays."""

MOST_EDGES = 2**18
"""Edges up to which launches are worth a thought; above, a graph may be looked at in parts."""


class Epochs:
    """Trains a network on one part of a task and looks at another, an epoch at a time.

    Args:
        network: On the device of the task.
        task: What to learn.
        recipe: How.
        optimizer: Of the network's weights.
        answers: What teachers say of the nodes of each graph, where there are any.
    """

    def __init__(
        self,
        network: nn.Module,
        task: GraphTask,
        recipe: Recipe,
        optimizer: torch.optim.Optimizer,
        answers: Sequence[Tensor] | None = None,
    ) -> None:
        self._network, self._task, self._recipe = network, task, recipe
        self._learner = wrapped(network)
        self._optimizer = optimizer
        self._train = Batches.by(recipe, task, "train", hops=hops(network), answers=answers)
        self._val = Batches(task, "val")

    def __call__(self, epoch: int) -> Tensor:
        """Do an epoch: training loss, validation loss and metric, ``[3]``, on the device."""
        for group in self._optimizer.param_groups:
            group["lr"] = self._recipe.lr_at(epoch)
        return self._do(self._recipe.consistency_at(epoch))

    def _do(self, consistency: float | Tensor) -> Tensor:
        network, task = self._network, self._task
        train_loss = train_epoch(
            self._learner, self._train, task, self._optimizer, self._recipe, consistency
        )
        val_loss, metric = evaluate(network, self._val, task)
        return torch.stack([train_loss, val_loss, metric])


class RecordedEpochs(Epochs):
    """The same, recorded as a CUDA graph: hundreds of launches become one.

    What the recording itself does to weights, optimizer and random state is undone.
    """

    def __init__(
        self,
        network: nn.Module,
        task: GraphTask,
        recipe: Recipe,
        optimizer: torch.optim.Optimizer,
        answers: Sequence[Tensor] | None = None,
    ) -> None:
        super().__init__(network, task, recipe, optimizer, answers)
        device = task.graphs[0].y.device
        self._consistency = torch.zeros((), device=device)
        weights = copy.deepcopy(network.state_dict())
        random = torch.cuda.get_rng_state(device)
        try:
            side = torch.cuda.Stream(device)
            side.wait_stream(torch.cuda.current_stream(device))
            with torch.cuda.stream(side):
                for _ in range(WARM_UP):
                    self._do(self._consistency)
            torch.cuda.current_stream(device).wait_stream(side)
            self._graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self._graph, capture_error_mode="thread_local"):
                self._figures = self._do(self._consistency)
        finally:
            network.load_state_dict(weights)
            for state in optimizer.state.values():
                for tensor in state.values():
                    tensor.zero_()
            torch.cuda.set_rng_state(random, device)

    def __call__(self, epoch: int) -> Tensor:
        self._consistency.fill_(self._recipe.consistency_at(epoch))
        self._graph.replay()
        return self._figures


def make_epochs(
    network: nn.Module,
    task: GraphTask,
    recipe: Recipe,
    answers: Sequence[Tensor] | None = None,
) -> Epochs:
    """Epochs of a training, recorded where that is possible and pays."""
    graph = task.graphs[0]
    is_recordable = (
        graph.y.device.type == "cuda"
        and world() == 1
        and task.split.unit == "node"
        and (task.kind, task.metric) == ("single-label", "accuracy")
        and recipe.epochs >= WORTHWHILE
        and recipe.way != "neighbors"
        and recipe.schedule != "cosine"  # a recording repeats one learning rate
        and (recipe.batch_nodes is None or recipe.batch_nodes >= graph.num_nodes)
        and graph.edge_index.size(1) + graph.num_nodes <= MOST_EDGES  # each with a self-loop
        and (not isinstance(network, PublishedNetwork) or network.recordable)
    )
    if is_recordable:
        optimizer = recipe.make_optimizer(decayed(network, recipe), recorded=True)
        try:
            return RecordedEpochs(network, task, recipe, optimizer, answers)
        except RuntimeError as error:
            reason = " ".join(str(error).split())
            warnings.warn(f"A training is not recorded: {reason}", RuntimeWarning, stacklevel=2)
    optimizer = recipe.make_optimizer(decayed(network, recipe))
    return Epochs(network, task, recipe, optimizer, answers)


def hops(network: nn.Module) -> int:
    """How often a network's messages travel, as far as its blocks or layers tell."""
    layers = getattr(network, "blocks", None) or getattr(network, "layers", None)
    return len(layers) if isinstance(layers, nn.ModuleList) else 2


def decayed(network: nn.Module, recipe: Recipe) -> Iterable[nn.Parameter] | list[dict[str, Any]]:
    """The weights as an optimizer takes them: in groups where a network has several decays."""
    if not isinstance(network, PublishedNetwork):
        return network.parameters()
    return [
        {"params": weights, "weight_decay": share * recipe.weight_decay}
        for share, weights in network.decays()
    ]


def train_epoch(
    network: nn.Module,
    batches: Batches,
    task: GraphTask,
    optimizer: torch.optim.Optimizer,
    recipe: Recipe,
    consistency: float | Tensor,
) -> Tensor:
    """One epoch of steps; the mean loss, still on the device.

    Args:
        network: What is trained.
        batches: What the steps see.
        task: What the loss is.
        optimizer: Of the network's weights.
        recipe: How.
        consistency: The weight of the copies' disagreement now.
    """
    network.train()
    losses = []
    for batch in batches.shuffled():
        optimizer.zero_grad(set_to_none=True)
        with precision_of(recipe):
            value = training_loss(network, batch, task, recipe, consistency)
            value.backward()
        optimizer.step()
        losses.append(value.detach())
    return mean(torch.stack(losses).mean())


def training_loss(
    network: nn.Module,
    batch: Batch,
    task: GraphTask,
    recipe: Recipe,
    consistency: float | Tensor,
    **inputs: Any,
) -> Tensor:
    """What a step lowers: the loss on the labels, disagreement of copies and with teachers.

    Each is a mean, of which a rank has its share: the mean over the ranks is that of all they see.

    Args:
        network: Called as ``network(x, adjacency, **inputs)``.
        batch: What the step sees.
        task: What the loss is.
        recipe: How many copies, and how they are made and compared.
        consistency: The weight of the disagreement now, see :meth:`Recipe.consistency_at`.
        inputs: What else the network takes.
    """
    copies = batch.repeated(recipe.copies)
    x = drop_nodes(copies.x, recipe.node_dropout)
    output = network(x, copies.adjacency, **inputs)
    share = copies.share
    value = share.labels * loss(copies.select(output), copies.y, task.kind)
    if recipe.copies > 1 and recipe.consistency > 0:
        answers = output.unflatten(0, (recipe.copies, -1))  # [S, N, C]
        disagreement = consistency_loss(answers, task.kind, recipe.sharpening)
        value = value + share.nodes * consistency * disagreement
    if copies.answers is not None:
        value = value + share.nodes * teaching_loss(output, copies.answers, task.kind)
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
