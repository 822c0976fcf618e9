"""What a search is to solve: a task, a space, a shape, and how large the network may be."""

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Generator, Tensor

from pdnas.architecture import Architecture, BlockSpec
from pdnas.errors import SearchError
from pdnas.ops import SLOTS, Dims
from pdnas.space import SearchSpace
from pdnas.tasks import GraphTask
from pdnas.training import Recipe

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
        widths = (
            self.task.in_channels,
            *[self.hidden] * (self.num_blocks - 1),
            self.task.out_channels,
        )
        blocks = []
        for number in range(self.num_blocks):
            dims = Dims(widths[number], widths[number + 1], self.hidden)
            options = _specs(self.space, dims, last=number == self.num_blocks - 1)
            blocks.append(min(options, key=lambda entry: entry[1])[0])
        return Architecture(
            blocks=tuple(blocks), attention_normalization=self.space.attention_normalization
        )

    def sample(self, generator: Generator) -> Architecture:
        """A random architecture that fits; all that fit are equally likely, if many do.

        Where hardly any does, one that does not fit is shrunk at random.
        """
        for _ in range(TRIES):
            architecture = self.space.sample(self.num_blocks, generator)
            if self.fits(architecture):
                return architecture
        shape = (self.num_blocks, len(SLOTS), max(len(self.space.candidates(s)) for s in SLOTS))
        gates = torch.rand(self.num_blocks, self.num_blocks, generator=generator)
        return self.shrink(architecture, torch.rand(shape, generator=generator), gates)

    def neighbor(self, architecture: Architecture, generator: Generator) -> Architecture:
        """The architecture with one choice changed at random: an op, or a gate; it fits too.

        Changes that change nothing do not count. Where no other is found, it is the same.
        """
        last, before = self.num_blocks - 1, self.space.plain(architecture)
        choices: list[tuple[int, str] | tuple[int, int]] = [
            (number, slot)
            for number in range(self.num_blocks)
            for slot in SLOTS
            if len(self.space.candidates(slot, last=number == last)) > 1
        ]
        choices += self.space.possible_gates(self.num_blocks)
        for _ in range(TRIES if choices else 0):
            place = choices[int(torch.randint(len(choices), (), generator=generator))]
            changed = self.space.plain(self._changed(before, place, generator))
            if changed != before and self.fits(changed):
                return changed
        return before

    def _changed(
        self,
        architecture: Architecture,
        place: tuple[int, str] | tuple[int, int],
        generator: Generator,
    ) -> Architecture:
        """The architecture with another op in a slot of a block, or with a gate turned."""
        number, slot = place
        if isinstance(slot, int):
            gates = set(architecture.gates) ^ {(number, slot)}
            return architecture.model_copy(update={"gates": tuple(sorted(gates))})
        spec, blocks = architecture.blocks[number], list(architecture.blocks)
        names = self.space.candidates(slot, last=number == self.num_blocks - 1)
        others = [name for name in names if name != getattr(spec, slot)]
        name = others[int(torch.randint(len(others), (), generator=generator))]
        blocks[number] = spec.model_copy(update={slot: name})
        return architecture.model_copy(update={"blocks": tuple(blocks)})

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
        if self.fits(architecture):
            return architecture
        log_probs = op_probs.clamp(min=1e-9).log().tolist()
        gate_logits = torch.logit(gate_probs, eps=1e-6).tolist()
        while not self.fits(architecture):
            size = self.parameters(architecture)
            changes: list[tuple[float, int, Architecture]] = []
            for smaller, price in self._changes(architecture, log_probs, gate_logits):
                saved = size - self.parameters(smaller)
                if saved > 0:
                    changes.append((price / saved, -saved, smaller))
            architecture = min(changes, key=lambda change: change[:2])[2]
        return architecture

    def _changes(
        self,
        architecture: Architecture,
        log_probs: list[list[list[float]]],
        gate_logits: list[list[float]],
    ) -> Iterable[tuple[Architecture, float]]:
        """Every architecture with one choice changed, and what it loses in log-probability."""
        for gate in architecture.gates:
            rest = tuple(other for other in architecture.gates if other != gate)
            yield architecture.model_copy(update={"gates": rest}), gate_logits[gate[0]][gate[1]]
        for number, spec in enumerate(architecture.blocks):
            for place, slot in enumerate(SLOTS):
                names = self.space.candidates(slot, last=number == self.num_blocks - 1)
                now = log_probs[number][place][names.index(getattr(spec, slot))]
                for choice, name in enumerate(names):
                    blocks = list(architecture.blocks)
                    blocks[number] = spec.model_copy(update={slot: name})
                    price = now - log_probs[number][place][choice]
                    yield architecture.model_copy(update={"blocks": tuple(blocks)}), price


def _specs(space: SearchSpace, dims: Dims, *, last: bool) -> Iterator[tuple[BlockSpec, int]]:
    """A block for each choice that decides a size, and its size."""
    ops = {
        slot: [SLOTS[slot][name] for name in space.candidates(slot, last=last)] for slot in SLOTS
    }
    decisive = {slot for slot, kinds in ops.items() if any(kind.shapes(dims) for kind in kinds)}
    decisive.add("propagation")  # without one step there is no attention to count
    decisive |= {other for slot in decisive for kind in ops[slot] for other in kind.depends}
    names = [space.candidates(slot, last=last)[: None if slot in decisive else 1] for slot in SLOTS]
    for values in itertools.product(*names):
        chosen = dict(zip(SLOTS, values, strict=True))
        spec = BlockSpec.model_validate({**chosen, "bias": space.bias})
        yield spec, spec.parameters(dims.in_channels, dims.out_channels, dims.hidden)
