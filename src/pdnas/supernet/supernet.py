"""All candidates at once, one of them active per slot: the weights that a search shares."""

import itertools
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn

from pdnas.architecture import Architecture, BlockSpec, Channels
from pdnas.errors import SearchError
from pdnas.models import GraphBlock, GraphNetwork
from pdnas.models.block import Factors, make_op
from pdnas.ops import SLOTS, Dims, Op
from pdnas.ops.base import glorot_
from pdnas.space import SearchSpace

MESSAGES = ("propagation", "attention", "heads", "aggregation")
"""The slots whose ops all scale the messages of a block; without attention only the first."""


class Supernet(nn.Module):
    """The weights of every op of a space, lent to one network at a time.

    A network of an architecture, :meth:`network`, is made of the chosen ops alone. The others are
    neither evaluated nor given a gradient, so that an optimizer leaves them and their state alone.

    Args:
        space: The candidates.
        task: The number of features and of logits.
        num_blocks: Depth, :math:`L`.
        hidden: Channels between blocks.
        input_dropout: Rate for the raw features.
        dropout: Rate for what flows between blocks.
        attention_dropout: Rate for learned attention.
    """

    def __init__(
        self,
        space: SearchSpace,
        task: Channels,
        num_blocks: int,
        hidden: int,
        *,
        input_dropout: float = 0.0,
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.space = space
        self.num_blocks = num_blocks
        self.hidden = hidden
        self.in_channels = task.in_channels
        self.out_channels = task.out_channels
        self.input_dropout, self.dropout = input_dropout, dropout
        self.attention_dropout = attention_dropout
        widths = (task.in_channels, *[hidden] * (num_blocks - 1), task.out_channels)
        self.ops = nn.ModuleDict()
        for number, width in enumerate(itertools.pairwise(widths)):
            for slot in SLOTS:
                for spec in self._variants(slot, last=number == num_blocks - 1):
                    self.ops[_key(number, slot, spec)] = self._fresh(slot, spec, *width)
        self.shortcuts = nn.ParameterDict(
            {
                f"{i}_{j}": nn.Parameter(glorot_(torch.empty(widths[i], widths[j + 1])))
                for i, j in space.possible_gates(num_blocks)
            }
        )
        self.biases = nn.ParameterList(
            [nn.Parameter(torch.zeros(width)) for width in widths[1:]] if space.bias else []
        )

    def network(self, architecture: Architecture) -> GraphNetwork:
        """The network of an architecture of the space, with the shared weights."""
        blocks = [
            GraphBlock(
                {slot: self.ops[_key(number, slot, spec)] for slot in SLOTS},
                bias=self.biases[number] if spec.bias else None,
                attention_dropout=self.attention_dropout,
            )
            for number, spec in enumerate(architecture.blocks)
        ]
        shortcuts = {(i, j): self.shortcuts[f"{i}_{j}"] for i, j in architecture.gates}
        return GraphNetwork(
            architecture,
            self,
            self.hidden,
            input_dropout=self.input_dropout,
            dropout=self.dropout,
            blocks=blocks,
            shortcuts=shortcuts,
        )

    def candidates(self, number: int, slot: str, **others: str | int) -> list[Op]:
        """The ops of a slot of a block, in the order of the space's candidates.

        Args:
            number: Of the block.
            slot: Which.
            others: What is chosen in the slots that the ops depend on.
        """
        last, ops = number == self.num_blocks - 1, []
        for name in self.space.candidates(slot, last=last):
            missing: set[str] = set(SLOTS[slot][name].depends) - {slot, *others}
            if missing:
                raise SearchError(
                    f"The op '{name}' of the slot '{slot}' depends on the slot "
                    f"'{min(missing)}' too, so that its candidates cannot be mixed; use another "
                    "--strategy, or a space without it."
                )
            spec = BlockSpec.model_validate({**others, slot: name})
            op = self.ops[_key(number, slot, spec)]
            assert isinstance(op, Op)
            ops.append(op)
        return ops

    def architecture(self, op_index: Tensor, gates: Tensor) -> Architecture:
        """What was chosen, as a value.

        Args:
            op_index: The chosen candidate of each slot, ``[L, K]``.
            gates: The shortcuts, ``[L, L]``; those above 0.5 are open.
        """
        chosen, is_open = op_index.tolist(), (gates > 0.5).tolist()
        blocks = []
        for number, row in enumerate(chosen):
            last = number == self.num_blocks - 1
            names = {
                slot: self.space.candidates(slot, last=last)[choice]
                for slot, choice in zip(SLOTS, row, strict=True)
            }
            blocks.append(BlockSpec.model_validate({**names, "bias": self.space.bias}))
        return Architecture(
            blocks=tuple(blocks),
            gates=tuple(
                (i, j) for i, j in self.space.possible_gates(self.num_blocks) if is_open[i][j]
            ),
            attention_normalization=self.space.attention_normalization,
        )

    def op_index(self, architecture: Architecture) -> Tensor:
        """The candidates of an architecture as numbers, ``[L, K]``."""
        last = self.num_blocks - 1
        return torch.tensor(
            [
                [
                    self.space.candidates(slot, last=number == last).index(getattr(spec, slot))
                    for slot in SLOTS
                ]
                for number, spec in enumerate(architecture.blocks)
            ]
        )

    def factors(self, architecture: Architecture, chosen: Tensor) -> Sequence[Factors]:
        """What each block's results are multiplied with.

        Args:
            architecture: What was chosen.
            chosen: The factor of each chosen op, ``[L, K]``.
        """
        by_slot = dict(zip(SLOTS, chosen.unbind(dim=1), strict=True))

        def product(*slots: str) -> list[Tensor | None]:
            """Of some slots, block by block; nothing where there is nothing to choose."""
            values = torch.stack([by_slot[slot] for slot in slots]).prod(dim=0).unbind()
            is_open = [any(self._is_open(slot, block) for slot in slots) for block in range(size)]
            return [
                value if any_open else None for value, any_open in zip(values, is_open, strict=True)
            ]

        size = self.num_blocks
        transform, combined = product("expansion"), product("combine")
        messages, steps = product(*MESSAGES), product(*MESSAGES[:1])
        output = product("norm", "activation")
        return [
            Factors(
                transform=transform[block],
                messages=messages[block] if spec.attends else steps[block],
                combined=combined[block],
                output=output[block],
            )
            for block, spec in enumerate(architecture.blocks)
        ]

    def _is_open(self, slot: str, number: int) -> bool:
        """Whether there is anything to choose in a slot of a block."""
        return len(self.space.candidates(slot, last=number == self.num_blocks - 1)) > 1

    def _variants(self, slot: str, *, last: bool) -> Iterator[BlockSpec]:
        """One block for each op that a slot needs: its candidates, and what their shapes need."""
        for name in self.space.candidates(slot, last=last):
            depends: set[str] = set(SLOTS[slot][name].depends) - {slot}
            others = [self.space.candidates(other) for other in sorted(depends)]
            for values in itertools.product(*others):
                fixed = dict(zip(sorted(depends), values, strict=True))
                yield BlockSpec.model_validate({slot: name, **fixed})

    def _fresh(self, slot: str, spec: BlockSpec, in_channels: int, out_channels: int) -> Op:
        dims: Dims = spec.dims(in_channels, out_channels, self.hidden)
        return make_op(spec.op(slot), dims, self.space.attention_normalization)


def _key(number: int, slot: str, spec: BlockSpec) -> str:
    """Where an op is kept: its block, its slot, its name and what its shapes depend on."""
    name = getattr(spec, slot)
    others = sorted(set(SLOTS[slot][name].depends) - {slot})
    return "/".join(map(str, [number, slot, name, *(getattr(spec, other) for other in others)]))
