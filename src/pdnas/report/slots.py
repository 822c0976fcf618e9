"""Op probabilities of every slot over the epochs of a search."""

from collections.abc import Sequence
from dataclasses import dataclass

from pdnas.ops import SLOTS
from pdnas.report.parts import Figure, Group, Table, line, over_epochs, thinned, thinning
from pdnas.report.reading import Line
from pdnas.space import SearchSpace

ABOUT = {
    "expansion": "How wide the transform is inside, in hidden sizes; 0 is a plain linear map.",
    "propagation": "How far messages travel: 0 is nowhere, 1 one step by the attention, K the mean "
    "of the powers 0 to K of the adjacency.",
    "attention": "How much each neighbor counts, where messages travel one step.",
    "heads": "How many attentions look side by side.",
    "aggregation": "How what neighbors say becomes one message.",
    "combine": "How the message meets the node itself.",
    "norm": "How channels are scaled before the activation.",
    "activation": "What every channel goes through at the end of the block.",
}
"""What is chosen in each slot."""

OPEN = 3
"""Blocks whose plots are unfolded at first."""

ALIKE = 0.01
"""Probabilities that differ by no more are said to be the same."""


@dataclass(frozen=True)
class Slot:
    """How likely the ops of a slot were.

    Args:
        block: Its block.
        name: Its own.
        ops: The candidates.
        epochs: When.
        probs: Of each op at each of the epochs.
    """

    block: int
    name: str
    ops: tuple[str, ...]
    epochs: tuple[int, ...]
    probs: tuple[tuple[float, ...], ...]

    @property
    def is_told(self) -> bool:
        """Whether anything was learned: at the end some op is likelier than another."""
        last = [row[-1] for row in self.probs]
        return max(last) - min(last) > ALIKE


def read_slots(lines: Sequence[Line], space: SearchSpace, num_blocks: int) -> tuple[Slot, ...]:
    """The slots where there was something to choose; none if the strategy has no probabilities."""
    told = [one for one in lines if "op_probs" in one]
    if not told:
        return ()
    epochs = tuple(one["epoch"] for one in told)
    found = []
    for block in range(num_blocks):
        for place, name in enumerate(SLOTS):
            ops = space.candidates(name, last=block == num_blocks - 1)
            if len(ops) > 1:
                rows = [one["op_probs"][block][place] for one in told]
                probs = tuple(tuple(p / 1000 for p in column) for column in zip(*rows, strict=True))
                found.append(Slot(block, name, tuple(map(str, ops)), epochs, probs))
    return tuple(found)


def draw_slots(slots: Sequence[Slot], prefix: str) -> tuple[Group, ...]:
    """A group of figures for each block.

    Args:
        slots: Of a search.
        prefix: What the names of its figures begin with.
    """
    blocks = sorted({slot.block for slot in slots})
    return tuple(
        Group(
            f"Op probabilities of block {block}",
            tuple(_draw(slot, prefix) for slot in slots if slot.block == block),
            folded=block >= OPEN or not any(slot.is_told for slot in slots if slot.block == block),
        )
        for block in blocks
    )


def _draw(slot: Slot, prefix: str) -> Figure:
    last = sorted(
        ((row[-1], op) for op, row in zip(slot.ops, slot.probs, strict=True)), reverse=True
    )
    words = (
        f"At the end {last[0][1]} is the likeliest with {100 * last[0][0]:.0f} %, then "
        f"{last[1][1]} with {100 * last[1][0]:.0f} %."
        if slot.is_told
        else f"At the end all {len(last)} are as likely as each other: nothing was learned of them."
    )
    traces = []
    for number, (op, row) in enumerate(zip(slot.ops, slot.probs, strict=True)):
        shown = thinned(row)
        traces.append(line(op, [slot.epochs[i] for i in shown], [row[i] for i in shown], number))
    return Figure(
        name=f"{prefix}-ops-{slot.block}-{slot.name}",
        title=f"Block {slot.block}, {slot.name}",
        caption=f"{ABOUT[slot.name]} {words}{thinning(len(slot.epochs))}",
        plot={
            "data": traces,
            "layout": over_epochs(slot.epochs, "probability", y_axis={"rangemode": "tozero"}),
        },
        table=Table(
            f"Probabilities at the end, block {slot.block}, {slot.name}",
            ("op", "first, %", "last, %"),
            tuple(
                (op, f"{100 * row[0]:.1f}", f"{100 * row[-1]:.1f}")
                for op, row in zip(slot.ops, slot.probs, strict=True)
            ),
        ),
        wide=False,
    )
