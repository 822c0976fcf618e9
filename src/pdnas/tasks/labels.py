"""What labels ask for: the kind of task, its classes, and those that a trained network knows."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from pdnas.errors import TaskError

Kind = Literal["single-label", "multi-label", "binary"]
Metric = Literal["accuracy", "micro-f1", "macro-f1", "roc-auc"]

UNLABELLED = -1
"""The label of a node whose class is not known."""

MOST_CLASSES = 1000
"""Classes that labels may count up to even where there are fewer nodes than that."""


def kind_of(y: Tensor, name: str) -> Kind:
    """Which kind of task labels of this shape and these values pose."""
    if y.numel() == 0:
        raise TaskError(f"'{name}' has no labels; a task needs a label for some of its nodes.")
    if y.dim() == 2:
        return "multi-label"
    if y.dim() != 1:
        raise TaskError(
            f"The labels of '{name}' have shape {list(y.shape)}; give [nodes] for one class per "
            "node or [nodes, labels] for many."
        )
    if y.is_floating_point() and not bool((y.isfinite() & (y == y.round())).all()):
        raise TaskError(
            f"The labels of '{name}' are not whole numbers; pdnas classifies nodes, so give "
            "classes 0, 1, 2, ... or, in a table, names."
        )
    return "binary" if int(y.max()) <= 1 else "single-label"


def kind_and_classes(
    labels: Sequence[Tensor], name: str, class_names: tuple[str, ...] | None
) -> tuple[Kind, tuple[str, ...]]:
    """What labels ask for, and what their classes are called."""
    if len({y.shape[1:] for y in labels}) > 1:
        raise TaskError(f"The graphs of '{name}' differ in their labels; give all the same ones.")
    every = torch.cat(list(labels))
    kind = kind_of(every, name)
    if class_names is None:
        class_names = tuple(str(number) for number in range(_count_classes(every, name)))
    if kind == "binary" and len(class_names) != 2:
        kind = "single-label"
    return kind, class_names


def _count_classes(y: Tensor, name: str) -> int:
    """How many classes numbers up to the highest label make, or how many labels there are."""
    if y.dim() == 2:
        return y.size(1)
    highest = int(y.max())
    if highest >= max(y.numel(), MOST_CLASSES):
        raise TaskError(
            f"A label of '{name}' is {highest}, but it has only {y.numel()} nodes; "
            "number the classes 0, 1, 2, ..."
        )
    return max(highest + 1, 2)


def check_labels(y: Tensor, place: str, kind: Kind, num_classes: int) -> None:
    """Refuse labels that the kind of task has no use for."""
    low, high = y.min(), y.max()
    if kind == "multi-label":
        if not bool(((y == 0) | (y == 1)).all()):
            wrong = y[(y != 0) & (y != 1)][0]
            raise TaskError(f"A label of {place} is {float(wrong):g}; make every label 0 or 1.")
    elif int(low) < UNLABELLED or int(high) >= num_classes:
        worst = int(high) if int(high) >= num_classes else int(low)
        raise TaskError(
            f"A label of {place} is {worst}, but its classes are 0 to {num_classes - 1} "
            f"({UNLABELLED} means unknown); correct the label."
        )


@dataclass(frozen=True)
class Known:
    """What a trained network reads and tells: data that it is asked about need no labels.

    Args:
        kind: Of the task that it was trained for.
        class_names: What its answers stand for.
        in_channels: Features that it reads.
        feature_names: The columns of a table that they were, in order; empty if there was none.
        means: What was subtracted from each feature; empty where nothing was.
        deviations: What each feature was then divided by.
    """

    kind: Kind
    class_names: tuple[str, ...]
    in_channels: int
    feature_names: tuple[str, ...] = ()
    means: tuple[float, ...] = ()
    deviations: tuple[float, ...] = ()

    def check(self, count: int, place: str) -> None:
        """Refuse another number of features than the network was trained on."""
        if count != self.in_channels:
            raise TaskError(
                f"{place} has {count} feature(s) per node, but the network was trained on "
                f"{self.in_channels}; give the same features in the same order."
            )

    def labels(
        self, y: Tensor | None, names: tuple[str, ...] | None, nodes: int, name: str
    ) -> Tensor:
        """Labels by the numbers of the network's classes; -1 where there is none that it knows.

        Args:
            y: As the data have them, if they do.
            names: What the data call their classes; by default they are the network's.
            nodes: How many there are.
            name: What messages call the data.
        """
        is_many, count = self.kind == "multi-label", len(self.class_names)
        if y is None:
            return torch.full((nodes, count) if is_many else (nodes,), UNLABELLED)
        names = self.class_names if names is None else names
        if is_many != (y.dim() == 2) or (
            is_many and (y.size(1) != len(names) or set(names) != set(self.class_names))
        ):
            raise TaskError(
                f"The labels of '{name}', of shape {list(y.shape)}, are not those of the network "
                f"({self.kind}: {', '.join(self.class_names[:8])}); correct them or leave them out."
            )
        number = {known: index for index, known in enumerate(self.class_names)}
        if is_many:
            return y[:, [names.index(known) for known in self.class_names]]
        kind_of(y, name)  # refuses what is not whole numbers
        meaning = torch.tensor([number.get(entry, UNLABELLED) for entry in names])
        inside = (y >= 0) & (y < len(names))
        return torch.where(inside, meaning[y.long().clamp(0, len(names) - 1)], UNLABELLED)

    def strangers(self, y: Tensor | None, names: tuple[str, ...] | None) -> Counter[str]:
        """The labels that the network does not know, and how many nodes have each.

        Args:
            y: As the data have them, if they do; those below 0 are none.
            names: What the data call their classes; by default they are the network's.
        """
        if y is None or y.dim() == 2:  # several labels per node are the network's own, or refused
            return Counter()
        names = self.class_names if names is None else names
        called = (
            names[int(number)] if number < len(names) else f"{number:.0f}"
            for number in y[y >= 0].tolist()  # some are larger than any integer
        )
        return Counter(name for name in called if name not in self.class_names)
