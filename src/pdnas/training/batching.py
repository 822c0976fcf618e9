"""What one step of a training sees: a whole graph, clusters or neighborhoods, or a few graphs."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from pdnas.errors import RecipeError
from pdnas.ops.adjacency import Adjacency
from pdnas.ops.features import Features, SparseFeatures, take_nodes
from pdnas.tasks import Graph, GraphTask
from pdnas.training.clusters import clusters
from pdnas.training.neighbors import Neighborhoods
from pdnas.training.parallel import dealt, own, permutation, totals, world
from pdnas.training.recipe import Recipe

Part = Literal["train", "val", "test"]


class Share(NamedTuple):
    r"""What a rank's means are multiplied with, so that the ranks' mean is that of the whole batch.

    For :math:`n_r` things on rank :math:`r` of :math:`R` it is :math:`R\,n_r / \sum_q n_q`.

    Args:
        labels: For a mean over the nodes that count.
        nodes: For a mean over all nodes.
    """

    labels: float = 1.0
    nodes: float = 1.0


ALL = Share()
"""Where there is one rank."""


@dataclass(frozen=True, eq=False)
class Batch:
    """Features and edges to read, and the nodes whose labels count.

    Args:
        x: ``[N, F]``.
        adjacency: Of the ``N`` nodes.
        nodes: Which of them count, or all.
        y: Labels of those that count.
        answers: What teachers say of every node, ``[N, C]``, where there are any.
        share: How much it is of the batch that all ranks see together.
    """

    x: Features
    adjacency: Adjacency
    nodes: Tensor | None
    y: Tensor
    answers: Tensor | None = None
    share: Share = ALL
    _repeated: dict[int, "Batch"] = field(default_factory=dict, init=False)

    def repeated(self, copies: int) -> "Batch":
        """As many copies side by side as one batch; made once, since most steps see the same."""
        if copies == 1:
            return self
        if copies not in self._repeated:
            offsets = self.adjacency.num_nodes * torch.arange(copies, device=self.y.device)
            nodes = self.nodes
            if nodes is not None:
                nodes = (offsets.unsqueeze(1) + nodes).flatten()
            self._repeated[copies] = Batch(
                _stack([self.x] * copies),
                self.adjacency.repeated(copies),
                nodes,
                torch.cat([self.y] * copies),
                None if self.answers is None else torch.cat([self.answers] * copies),
                self.share,
            )
        return self._repeated[copies]

    def select(self, logits: Tensor) -> Tensor:
        """The logits of the nodes that count."""
        return logits if self.nodes is None else logits.index_select(0, self.nodes)


class Batches:
    """The batches of one part of a task.

    With one graph there is a single batch, the whole graph, made once, or in training a batch for
    every few clusters that meet, or for some nodes with neighbors. With several graphs, each batch
    joins ``size`` of the part's; in the order of the split they are the same every time, so they
    are kept.

    Args:
        task: Where the graphs are.
        part: ``train``, ``val`` or ``test``.
        size: Graphs per batch, where there are several.
        answers: What teachers say of the nodes of each graph, where there are any.
        nodes: About how many of a single graph are in a batch of a training; none: all.
        hops: How far away neighbors are sampled; none: batches are clusters.
        fan_out: How many of each node's neighbors, where they are sampled.
    """

    def __init__(
        self,
        task: GraphTask,
        part: Part,
        size: int = 1,
        answers: Sequence[Tensor] | None = None,
        nodes: int | None = None,
        hops: int | None = None,
        fan_out: int | None = None,
    ) -> None:
        self._graphs, self._answers, self._nodes = task.graphs, answers, nodes
        self._hops, self._fan_out = hops, fan_out
        self._neighborhoods: Neighborhoods | None = None
        self._index: Tensor = getattr(task.split, part)
        self._size = size
        self._whole: Batch | None = None
        self._ordered: list[Batch] = []
        if task.split.unit == "node":
            graph = task.graphs[0]
            counting = self._index.to(graph.y.device)
            said = None if answers is None else answers[0]
            self._whole = Batch(graph.x, graph.adjacency, counting, graph.y[counting], said)

    @classmethod
    def by(
        cls,
        recipe: Recipe,
        task: GraphTask,
        part: Part,
        *,
        hops: int,
        answers: Sequence[Tensor] | None = None,
    ) -> "Batches":
        """As a recipe says.

        Args:
            recipe: Whose batches.
            task: Where the graphs are.
            part: ``train``, ``val`` or ``test``.
            hops: How often a network's messages travel.
            answers: What teachers say of the nodes of each graph, where there are any.
        """
        if recipe.way != "auto" and not recipe.is_decided:
            raise RecipeError(
                f"--batching is {recipe.way}, but nobody says how large batches are; give "
                "--batch-nodes."
            )
        check_shared(recipe, task)
        return cls(
            task,
            part,
            recipe.batch_graphs,
            answers=answers,
            nodes=recipe.batch_nodes,
            hops=hops if recipe.way == "neighbors" else None,
            fan_out=recipe.neighbors,
        )

    @property
    def is_whole(self) -> bool:
        """Whether a step of a training sees a single graph as it is."""
        if self._whole is None:
            return False
        nodes = self._whole.adjacency.num_nodes
        return self._nodes is None or (self._hops is None and self._nodes >= nodes)

    def in_order(self) -> Iterator[Batch]:
        """The batches in the order of the split."""
        if self._whole is not None:
            return iter([self._whole])
        if not self._ordered:
            parts = self._index.split(self._size)
            self._ordered = [self._joined(chosen.tolist()) for chosen in parts]
        return iter(self._ordered)

    def shuffled(self) -> Iterator[Batch]:
        """The batches of one epoch of training; torch's random state decides which graphs meet.

        Of several ranks each sees its share of every batch.
        """
        if self._whole is None:
            return self._drawn()
        if self._nodes is None or self.is_whole:
            return iter([self._whole])
        if self._hops is None:
            return self._meetings(self._whole, self._nodes)
        return self._sampled(self._whole, self._nodes, self._hops)

    def _meetings(self, whole: Batch, count: int) -> Iterator[Batch]:
        """A batch for every few clusters with a node that counts."""
        counts = torch.zeros(whole.adjacency.num_nodes, dtype=torch.bool, device=whole.y.device)
        counts[whole.nodes] = True
        found = (
            (nodes, counts[nodes].nonzero().flatten())
            for nodes in clusters(whole.adjacency, count).meetings()
        )
        for (nodes, inside), is_own in dealt(pair for pair in found if pair[1].numel()):
            batch = Batch(
                take_nodes(whole.x, nodes),
                whole.adjacency.subgraph(nodes),
                inside,
                self._graphs[0].y[nodes[inside]],
                None if whole.answers is None else whole.answers[nodes],
            )
            yield _shared(batch, is_own)

    def _sampled(self, whole: Batch, size: int, hops: int) -> Iterator[Batch]:
        """A batch for every few nodes that count, which come first in it."""
        if self._neighborhoods is None:
            self._neighborhoods = Neighborhoods(
                whole.adjacency, self._index, size=size, hops=hops, fan_out=self._fan_out
            )
        for nodes, count, adjacency, is_own in self._neighborhoods:
            batch = Batch(
                take_nodes(whole.x, nodes),
                adjacency,
                torch.arange(count, device=nodes.device),
                self._graphs[0].y[nodes[:count]],
                None if whole.answers is None else whole.answers[nodes],
            )
            yield _shared(batch, is_own)

    def _drawn(self) -> Iterator[Batch]:
        """A batch for every few graphs."""
        for chosen in self._index[permutation(self._index.numel())].split(self._size):
            numbers, is_own = own(chosen.tolist())
            yield _shared(self._joined(numbers), is_own)

    def _joined(self, numbers: Sequence[int]) -> Batch:
        """A batch of some of the graphs."""
        said = None
        if self._answers is not None:
            said = torch.cat([self._answers[number] for number in numbers])
        return _join([self._graphs[number] for number in numbers], said)


def check_shared(recipe: Recipe, task: GraphTask) -> None:
    """Refuse several processes where each step sees all of the only graph.

    Args:
        recipe: Which says what a step sees.
        task: On what.
    """
    if world() == 1 or task.split.unit == "graph" or recipe.way == "neighbors":
        return
    if recipe.batch_nodes is None or recipe.batch_nodes >= task.graphs[0].num_nodes:
        raise RecipeError(
            f"{world()} processes were started, but every step sees the whole of the only graph, "
            "so that there is nothing to share; give --batching clusters or a smaller "
            "--batch-nodes, or start one process."
        )


def _shared(batch: Batch, is_own: bool) -> Batch:
    """A batch that knows how much it is of what all ranks see.

    Args:
        batch: Of this rank.
        is_own: Whether it counts; otherwise it was taken for want of another.
    """
    if world() == 1:
        return batch
    counts = [is_own * len(batch.y), is_own * batch.adjacency.num_nodes]
    shares = (world() * mine / all_ for mine, all_ in zip(counts, totals(counts), strict=True))
    return replace(batch, share=Share(*shares))


def _join(graphs: list[Graph], answers: Tensor | None) -> Batch:
    """Several graphs as one without edges between them."""
    if len(graphs) == 1:
        return Batch(graphs[0].x, graphs[0].adjacency, None, graphs[0].y, answers)
    adjacency = Adjacency.join([graph.adjacency for graph in graphs])
    x, y = _stack([graph.x for graph in graphs]), torch.cat([graph.y for graph in graphs])
    return Batch(x, adjacency, None, y, answers)


def _stack(features: list[Features]) -> Features:
    """Features of several graphs below each other; sparse ones stay sparse."""
    dense = [x for x in features if isinstance(x, Tensor)]
    if len(dense) == len(features):
        return torch.cat(dense)
    return SparseFeatures.stack(
        [x if isinstance(x, SparseFeatures) else SparseFeatures.from_tensor(x) for x in features]
    )
