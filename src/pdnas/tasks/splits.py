"""Which nodes, or which graphs, are for training, validation and test."""

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from pdnas.errors import TaskError

PARTS = ("train", "val", "test")
Unit = Literal["node", "graph"]


@dataclass(frozen=True, eq=False)
class Split:
    """Three disjoint sets of nodes of one graph, or of whole graphs.

    Args:
        name: ``own``, ``public``, ``random`` or ``column:NAME``.
        train: Sorted indices.
        val: Sorted indices.
        test: Sorted indices.
        unit: What the indices count.
        seed: Which of several splits of that name this is, if there are several.
    """

    name: str
    train: Tensor
    val: Tensor
    test: Tensor
    unit: Unit = "node"
    seed: int | None = None

    def __post_init__(self) -> None:
        for part in PARTS:
            index = torch.as_tensor(getattr(self, part), dtype=torch.long).cpu()
            object.__setattr__(self, part, torch.from_numpy(np.unique(index.numpy())))
            if index.numel() == 0:
                remedy = "give every part at least one, or use --split random"
                if self.name == "random":
                    remedy = f"it takes 3 labelled {self.unit}s at least: label more of them"
                raise TaskError(
                    f"The split '{self.name}' has no labelled {self.unit} for {part}; {remedy}."
                )
        for first, second in (("train", "val"), ("train", "test"), ("val", "test")):
            both = np.intersect1d(getattr(self, first), getattr(self, second))
            if both.size:
                raise TaskError(
                    f"The split '{self.name}' has {both.size} {self.unit}(s) in both {first} and "
                    f"{second}, {self.unit} {both[0]} among them; put each into one part only."
                )

    @cached_property
    def sha256(self) -> str:
        """Fingerprint of what is in each part, the same on every machine, whatever the name."""
        digest = hashlib.sha256(self.unit.encode())
        for part in PARTS:
            index: Tensor = getattr(self, part)
            digest.update(f"{part}:{index.numel()}:".encode())
            digest.update(index.numpy().astype("<i8").tobytes())
        return digest.hexdigest()


def random_split(items: Tensor, seed: int, *, unit: Unit = "node") -> Split:
    """60 % for training, 20 % for validation and 20 % for test: the paper's second setting.

    The order comes from the raw stream of PCG64, which numpy keeps fixed across versions, so a
    seed means the same split everywhere.

    Args:
        items: The labelled nodes, or the graphs, to divide.
        seed: Which of all such splits.
        unit: What the items are.
    """
    if seed < 0:
        raise TaskError(f"The split seed is {seed}; give 0 or more.")
    keys = np.random.PCG64(seed).random_raw(items.numel())
    shuffled = items[torch.from_numpy(np.argsort(keys, kind="stable"))]
    train, val = int(0.6 * items.numel()), int(0.8 * items.numel())
    return Split("random", shuffled[:train], shuffled[train:val], shuffled[val:], unit, seed)


def check_split_seed(name: str, seed: int | None, count: int) -> int:
    """Which of the ``count`` splits of a name is meant; a seed beyond them is refused."""
    if seed is not None and not 0 <= seed < count:
        there = f"--split-seeds 0..{count - 1}" if count > 1 else "leave out --split-seeds"
        raise TaskError(
            f"The split seed {seed} is out of range: the data bring {count} split(s) named "
            f"'{name}'; {there}, or use --split random."
        )
    return seed or 0


def mask_split(name: str, masks: tuple[Tensor, Tensor, Tensor], seed: int | None) -> Split:
    """From three masks ``[N]``, or ``[N, S]`` for ``S`` splits of which ``seed`` picks one."""
    count = max(1 if mask.dim() == 1 else mask.size(1) for mask in masks)
    chosen = check_split_seed(name, seed, count)
    columns = (mask if mask.dim() == 1 else mask[:, chosen] for mask in masks)
    train, val, test = (mask.nonzero().flatten() for mask in columns)
    return Split(name, train, val, test, seed=None if count == 1 else chosen)
