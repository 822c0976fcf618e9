"""What a search is to solve: a task, a space, a shape, and how large the network may be."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import torch
from torch import Generator, Tensor

from pdnas.architecture import Architecture, BlockSpec
from pdnas.errors import SearchError
from pdnas.ops import SLOTS, Dims
from pdnas.space import SearchSpace
from pdnas.tasks import GraphTask
from pdnas.training import Recipe

Place = tuple[int, str] | tuple[int, int]
"""A slot of a block, or a shortcut."""

TRIES = 100
"""Random architectures that are looked at before one is made to fit."""


@dataclass(frozen=True, eq=False)
class Problem:
    """What a search is to solve.

    Args:
        task: What the network is for; on the device to search on.
        space: Where to look.
        num_blocks: Depth of the networks.
        hidden: Channels between their blocks.
        recipe: How weights are trained.
        max_parameters: How many weights a network may have, or any number.
        seed: Of everything random.
    """

    task: GraphTask
    space: SearchSpace
    num_blocks: int
    hidden: int
    recipe: Recipe
    max_parameters: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        size = self.parameters(self.smallest)
        if self.max_parameters is not None and size > self.max_parameters:
            raise SearchError(
                f"No network of the space '{self.space.name}' with {self.num_blocks} block(s) and "
                f"hidden size {self.hidden} has at most {self.max_parameters:,} parameters on "
                f"{self.task.name}; the smallest has {size:,}: raise --max-parameters or lower "
                "--hidden."
            )

    @property
    def device(self) -> torch.device:
        return self.task.graphs[0].y.device

    def parameters(self, architecture: Architecture) -> int:
        """The number of weights of an architecture."""
        return architecture.parameters(self.task, self.hidden)

    def fits(self, architecture: Architecture) -> bool:
        """Whether an architecture keeps to the number of parameters."""
        return self.max_parameters is None or self.parameters(architecture) <= self.max_parameters

    @cached_property
    def smallest(self) -> Architecture:
        """An architecture with as few parameters as possible."""
        blocks = []
        for number in range(self.num_blocks):
            dims = Dims(*self._widths(number), self.hidden)
            blocks.append(_smallest(self.space, dims, number == self.num_blocks - 1))
        return Architecture(
            blocks=tuple(blocks), attention_normalization=self.space.attention_normalization
        )

    @cached_property
    def places(self) -> tuple[Place, ...]:
        """Where there is something to choose: slots, block by block, and then shortcuts."""
        slots = [
            (number, slot)
            for number in range(self.num_blocks)
            for slot in SLOTS
            if len(self.options((number, slot))) > 1
        ]
        return (*slots, *self.space.possible_gates(self.num_blocks))

    def options(self, place: Place) -> tuple[str | int, ...]:
        """What there is to choose from: the ops of a slot; for a shortcut, not to have it or to."""
        number, what = place
        if isinstance(what, int):
            return (False, True)
        return self.space.candidates(what, last=number == self.num_blocks - 1)

    def choices(self, architecture: Architecture) -> tuple[int, ...]:
        """The number of the option that an architecture has at each place."""
        numbers = []
        for place in self.places:
            number, what = place
            if isinstance(what, int):
                numbers.append(int(place in architecture.gates))
            else:
                spec = architecture.blocks[number]
                numbers.append(self.options(place).index(getattr(spec, what)))
        return tuple(numbers)

    def made(self, choices: Sequence[int]) -> Architecture:
        """The architecture of such numbers."""
        chosen = dict(zip(self.places, choices, strict=True))
        blocks = []
        for number in range(self.num_blocks):
            names = {
                slot: self.options((number, slot))[chosen.get((number, slot), 0)] for slot in SLOTS
            }
            blocks.append(BlockSpec.model_validate({**names, "bias": self.space.bias}))
        return Architecture(
            blocks=tuple(blocks),
            gates=tuple(
                gate for gate in self.space.possible_gates(self.num_blocks) if chosen[gate]
            ),
            attention_normalization=self.space.attention_normalization,
        )

    def sample(self, generator: Generator) -> Architecture:
        """A random architecture that fits; all that fit are equally likely, if many do.

        Where hardly any does, one that does not fit is shrunk at random.
        """
        for _ in range(TRIES):
            architecture = self.space.sample(self.num_blocks, generator)
            if self.fits(architecture):
                return architecture
        return self.shrink_at_random(architecture, generator)

    def shrink_at_random(self, architecture: Architecture, generator: Generator) -> Architecture:
        """The architecture itself if it fits; otherwise a smaller one, whatever it may lose."""
        shape = (self.num_blocks, len(SLOTS), max(len(self.space.candidates(s)) for s in SLOTS))
        gates = torch.rand(self.num_blocks, self.num_blocks, generator=generator)
        return self.shrink(architecture, torch.rand(shape, generator=generator), gates)

    def neighbor(self, architecture: Architecture, generator: Generator) -> Architecture:
        """The architecture with one choice changed at random: an op, or a gate; it fits too.

        Changes that change nothing do not count. Where no other is found, it is the same.
        """
        before = self.space.plain(architecture)
        for _ in range(TRIES if self.places else 0):
            choices = list(self.choices(before))
            place = int(torch.randint(len(choices), (), generator=generator))
            count = len(self.options(self.places[place]))
            further = 1 + int(torch.randint(count - 1, (), generator=generator))
            choices[place] = (choices[place] + further) % count
            changed = self.space.plain(self.made(choices))
            if changed != before and self.fits(changed):
                return changed
        return before

    def shrink(
        self, architecture: Architecture, op_probs: Tensor, gate_probs: Tensor
    ) -> Architecture:
        """The architecture itself if it fits; otherwise a smaller one that does.

        Step by step the change that makes it smaller at the least price is made: another op in
        one slot, or a gate closed. The price is what is lost in log-probability for each parameter
        saved, so that unlikely and large choices go first.

        Args:
            architecture: Of the space.
            op_probs: How likely each op is, ``[L, K, T]``.
            gate_probs: How likely each gate is open, ``[L, L]``.
        """
        if self.max_parameters is None or self.fits(architecture):
            return architecture
        log_probs = op_probs.clamp(min=1e-9).log().tolist()
        gate_logits = torch.logit(gate_probs, eps=1e-6).tolist()
        widths = architecture.widths(self.task, self.hidden)
        gates = {}
        for i, j in architecture.gates:
            saved = widths[i] * widths[j + 1]
            gates[i, j] = _Change(gate_logits[i][j] / saved, -saved, (i, j))
        blocks = list(architecture.blocks)
        changes = [
            self._cheapest(number, blocks[number], log_probs) for number in range(len(blocks))
        ]
        excess = self.parameters(architecture) - self.max_parameters
        while excess > 0:
            possible = [change for change in (*gates.values(), *changes) if change is not None]
            _, growth, (number, what) = min(possible, key=lambda change: change[:2])
            excess += growth
            if isinstance(what, int):
                del gates[number, what]
            else:
                blocks[number] = what
                changes[number] = self._cheapest(number, what, log_probs)
        return architecture.model_copy(update={"blocks": tuple(blocks), "gates": tuple(gates)})

    def _cheapest(
        self, number: int, spec: BlockSpec, log_probs: list[list[list[float]]]
    ) -> "_Change | None":
        """The change of one op that makes a block smaller at the least price, if one does."""
        size, cheapest = self._size(number, spec), None
        for place, slot in enumerate(SLOTS):
            if slot not in self._decisive[number]:
                continue
            names = self.space.candidates(slot, last=number == self.num_blocks - 1)
            before = log_probs[number][place][names.index(getattr(spec, slot))]
            for choice, name in enumerate(names):
                growth = self._size(number, spec, **{slot: name}) - size
                if growth < 0:
                    price = (before - log_probs[number][place][choice]) / -growth
                    if cheapest is None or (price, growth) < cheapest[:2]:
                        changed = spec.model_copy(update={slot: name})
                        cheapest = _Change(price, growth, (number, changed))
        return cheapest

    def _size(self, number: int, spec: BlockSpec, **change: str | int) -> int:
        """The number of weights of a block, with an op changed; each is counted once."""
        slots = self._decisive[number]
        key = (number, *(change.get(slot, getattr(spec, slot)) for slot in slots))
        if key not in self._sizes:
            changed = spec.model_copy(update=change)
            self._sizes[key] = changed.parameters(*self._widths(number), self.hidden)
        return self._sizes[key]

    @cached_property
    def _sizes(self) -> dict[tuple[str | int, ...], int]:
        """Sizes of blocks, by their number and the ops that decide them."""
        return {}

    @cached_property
    def _decisive(self) -> tuple[frozenset[str], ...]:
        """The slots that decide each block's size."""
        last = self.num_blocks - 1
        return tuple(
            _decisive(self.space, Dims(*self._widths(number), self.hidden), last=number == last)
            for number in range(self.num_blocks)
        )

    def _widths(self, number: int) -> tuple[int, int]:
        """Channels before and after a block."""
        first, last = number == 0, number == self.num_blocks - 1
        return (
            self.task.in_channels if first else self.hidden,
            self.task.out_channels if last else self.hidden,
        )


class _Change(NamedTuple):
    """A way to make an architecture smaller.

    Args:
        price: What is lost in log-probability for each parameter saved.
        growth: By how many parameters it grows, below zero.
        what: The gate to close, or the number of a block and what it becomes.
    """

    price: float
    growth: int
    what: tuple[int, int | BlockSpec]


def _decisive(space: SearchSpace, dims: Dims, *, last: bool) -> frozenset[str]:
    """The slots whose ops decide the size of a block."""
    ops = {
        slot: [SLOTS[slot][name] for name in space.candidates(slot, last=last)] for slot in SLOTS
    }
    slots = {slot for slot, kinds in ops.items() if any(kind.shapes(dims) for kind in kinds)}
    slots.add("propagation")  # without one step there is no attention to count
    return frozenset(
        slots | {other for slot in slots for kind in ops[slot] for other in kind.depends}
    )


@lru_cache(maxsize=1024)
def _smallest(space: SearchSpace, dims: Dims, last: bool) -> BlockSpec:
    """A block with as few weights as possible; many problems have blocks of the same sizes."""
    return min(_specs(space, dims, last=last), key=lambda entry: entry[1])[0]


def _specs(space: SearchSpace, dims: Dims, *, last: bool) -> Iterator[tuple[BlockSpec, int]]:
    """A block for each choice that decides a size, and its size."""
    decisive = _decisive(space, dims, last=last)
    names = [space.candidates(slot, last=last)[: None if slot in decisive else 1] for slot in SLOTS]
    for values in itertools.product(*names):
        chosen = dict(zip(SLOTS, values, strict=True))
        spec = BlockSpec.model_validate({**chosen, "bias": space.bias})
        yield spec, spec.parameters(dims.in_channels, dims.out_channels, dims.hidden)
