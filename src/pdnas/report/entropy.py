"""How open each slot's choice was, over the epochs of a search."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from pdnas.report.parts import Figure, Table, line, over_epochs, thinned, thinning
from pdnas.report.slots import Slot

OPEN = 0.999
"""The entropy from which on nothing is settled."""


@dataclass(frozen=True)
class Openness:
    """The entropy of a slot: 1 if nothing is known, 0 if all is settled.

    Args:
        slot: Block and name.
        epochs: When.
        entropy: At each of them.
    """

    slot: str
    epochs: tuple[int, ...]
    entropy: tuple[float, ...]


def read_entropy(slots: Sequence[Slot]) -> tuple[Openness, ...]:
    """The entropy of every slot, as a part of the largest that it can have."""
    return tuple(
        Openness(
            f"block {slot.block}, {slot.name}",
            slot.epochs,
            tuple(_entropy(column) for column in zip(*slot.probs, strict=True)),
        )
        for slot in slots
    )


def draw_entropy(records: Sequence[Openness], prefix: str) -> Figure:
    """All slots in one plot."""
    settled = min(records, key=lambda record: record.entropy[-1])
    words = (
        f"The most settled at the end is {settled.slot} with {settled.entropy[-1]:.2f}."
        if settled.entropy[-1] < OPEN
        else "At the end every slot is as open as can be: nothing was learned."
    )
    traces = []
    for number, record in enumerate(records):
        shown = thinned(record.entropy)
        epochs = [record.epochs[i] for i in shown]
        traces.append(
            line(record.slot, epochs, [round(record.entropy[i], 3) for i in shown], number)
        )
    return Figure(
        name=f"{prefix}-entropy",
        title="Entropy of each slot",
        caption=(
            f"1: all ops are as likely as each other; 0: one is certain. {words}"
            + thinning(len(settled.epochs))
        ),
        plot={
            "data": traces,
            "layout": over_epochs(settled.epochs, "entropy", y_axis={"range": [0, 1.03]}),
        },
        table=Table(
            "Entropy of each slot",
            ("slot", "first", "last"),
            tuple((r.slot, f"{r.entropy[0]:.2f}", f"{r.entropy[-1]:.2f}") for r in records),
        ),
    )


def _entropy(probs: Sequence[float]) -> float:
    total = math.fsum(probs)  # per mille is rounded
    parts = [p / total for p in probs if p > 0]
    return math.fsum(p * math.log(1 / p) for p in parts) / math.log(len(probs))
