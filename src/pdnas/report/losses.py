"""Losses, validation and temperature over the epochs of a search."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pdnas.report.parts import MANY, Figure, Plot, Table, line, over_epochs, thinned, thinning
from pdnas.report.reading import Line

SPIKE = 20.0
"""How many times their median the largest loss is where a plain axis would hide the others."""

HEADER = ("line", "first", "best", "at epoch", "last")
"""Of the tables under the plots."""


@dataclass(frozen=True)
class Losses:
    """What the epochs of a search came to.

    Args:
        epochs: Their numbers.
        train: Loss on training of what was tried.
        val_loss: Loss on validation.
        val: The metric there.
        temperature: Of the noise; nothing if the strategy has none.
    """

    epochs: tuple[int, ...]
    train: tuple[float, ...]
    val_loss: tuple[float, ...]
    val: tuple[float, ...]
    temperature: tuple[float, ...]


def read_losses(lines: Sequence[Line]) -> Losses | None:
    """The epochs of a search; none if there are none yet."""
    if not lines:
        return None
    return Losses(
        epochs=tuple(one["epoch"] for one in lines),
        train=tuple(one["train_loss"] for one in lines),
        val_loss=tuple(one["val_loss"] for one in lines),
        val=tuple(one["val"] for one in lines),
        temperature=tuple(one["temperature"] for one in lines if "temperature" in one),
    )


def draw_losses(record: Losses, prefix: str, metric: str) -> tuple[Figure, Figure]:
    """Both losses with the temperature, and validation.

    Args:
        record: Of a search.
        prefix: What the names of its figures begin with.
        metric: What validation is measured by, in words.
    """
    count = len(record.epochs)

    def drawn(name: str, values: Sequence[float], number: int, **more: Any) -> Plot:
        shown = thinned(values, MANY)
        epochs = [record.epochs[i] for i in shown]
        return line(name, epochs, [values[i] for i in shown], number, **more)

    losses = [
        drawn("training loss", record.train, 0),
        drawn("validation loss", record.val_loss, 1),
    ]
    rows = [
        _row(name, record.epochs, values, min(range(count), key=values.__getitem__))
        for name, values in (
            ("training loss", record.train),
            ("validation loss", record.val_loss),
        )
    ]
    more: Plot = {}
    words = ""
    if (times := _spike((*record.train, *record.val_loss))) > SPIKE:
        more["y_axis"] = {"type": "log"}
        words = (
            f" The axis of the losses is logarithmic, since the largest is {times:,.0f} times "
            "their median."
        )
        if min(*record.train, *record.val_loss) <= 0:
            words += " Losses of 0 have no place on it."
    if len(record.temperature) == count:
        losses.append(drawn("temperature", record.temperature, 2, yaxis="y2"))
        rows.append(_row("temperature", record.epochs, record.temperature, None))
        more["yaxis2"] = {
            "title": {"text": "temperature"},
            "overlaying": "y",
            "side": "right",
            "rangemode": "tozero",
            "tickmode": "auto",
            "showgrid": False,
        }
        words += " The temperature of the noise has its axis on the right."
    best = max(range(count), key=lambda i: record.val[i])
    return (
        Figure(
            name=f"{prefix}-losses",
            title="Losses of the search",
            caption=(
                "Each epoch tries another network, so the lines are as rough as the networks "
                f"differ.{words}{thinning(count, MANY)}"
            ),
            plot={"data": losses, "layout": over_epochs(record.epochs, "loss", **more)},
            table=Table("Losses of the search", HEADER, tuple(rows)),
        ),
        Figure(
            name=f"{prefix}-validation",
            title="Validation of what was tried",
            caption=(
                f"The best, {100 * record.val[best]:.2f} %, was tried at epoch "
                f"{record.epochs[best]}.{thinning(count, MANY)}"
            ),
            plot={
                "data": [drawn(metric, [round(100 * val, 2) for val in record.val], 0)],
                "layout": over_epochs(record.epochs, f"{metric}, %"),
            },
            table=Table(
                "Validation of what was tried",
                HEADER,
                (_row(f"{metric}, %", record.epochs, [100 * val for val in record.val], best, 2),),
            ),
        ),
    )


def _spike(losses: Sequence[float]) -> float:
    """How many times their median the largest loss is, of those that a logarithm can show."""
    shown = [loss for loss in losses if loss > 0]
    return max(shown) / statistics.median(shown) if shown else 0.0


def _row(
    name: str, epochs: Sequence[int], values: Sequence[float], best: int | None, digits: int = 3
) -> tuple[str, ...]:
    """A line of a plot in figures.

    Args:
        name: Of the line.
        epochs: Where its points are.
        values: How high they are.
        best: Which of them is the best; none: none is better than another.
        digits: After the point.
    """
    first, last = (f"{values[place]:.{digits}f}" for place in (0, -1))
    if best is None:
        return name, first, "-", "-", last
    return name, first, f"{values[best]:.{digits}f}", str(epochs[best]), last
