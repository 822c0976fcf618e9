"""How likely each shortcut was open, over the epochs of a search."""

from collections.abc import Sequence
from dataclasses import dataclass

from pdnas.report.parts import Figure, Table, over_epochs, spaced
from pdnas.report.reading import Line
from pdnas.space import SearchSpace

EVEN = 0.005
"""Probabilities that are no further from a half are said to be one."""


@dataclass(frozen=True)
class Gates:
    """The gates of a search.

    Args:
        names: ``i→j``, from the input of block i to the output of block j; only numbers where a
            limit on parameters left some out, of which the history does not say which.
        epochs: When.
        probs: Of each gate at each of the epochs.
    """

    names: tuple[str, ...]
    epochs: tuple[int, ...]
    probs: tuple[tuple[float, ...], ...]


def read_gates(lines: Sequence[Line], space: SearchSpace, num_blocks: int) -> Gates | None:
    """How likely they were; none if the strategy does not say or there is nothing to choose."""
    told = [one for one in lines if one.get("gate_probs")]
    if not told:
        return None
    # The history has them row by row of a matrix: by where they begin, then by where they end.
    names = tuple(f"{i}→{j}" for i, j in sorted(space.possible_gates(num_blocks)))
    columns = tuple(zip(*(one["gate_probs"] for one in told), strict=True))
    if len(columns) < len(names):
        names = tuple(f"number {place}" for place in range(len(columns)))
    return Gates(
        names,
        tuple(one["epoch"] for one in told),
        tuple(tuple(p / 1000 for p in column) for column in columns),
    )


def draw_gates(record: Gates, prefix: str) -> Figure:
    """A heat map: a row for each gate, a column for each epoch."""
    count = len(record.epochs)
    shown = spaced(count)
    names = list(record.names)
    is_open = [n for n, row in zip(names, record.probs, strict=True) if row[-1] > 0.5]
    words = f"Likely open at the end: {', '.join(is_open) or 'none'}."
    if all(abs(row[-1] - 0.5) <= EVEN for row in record.probs):
        words = "At the end each is as likely open as closed: nothing was learned of them."
    left = f" {len(shown)} of {count:,} epochs are shown." if len(shown) < count else ""
    return Figure(
        name=f"{prefix}-gates",
        title="Shortcuts",
        caption=(
            "How likely each shortcut is open; i→j leads from the input of block i to the output "
            f"of block j. {words}{left}"
        ),
        plot={
            "data": [
                {
                    "type": "heatmap",
                    "x": [record.epochs[i] for i in shown],
                    "y": names,
                    "z": [[row[i] for i in shown] for row in record.probs],
                    "zmin": 0,
                    "zmax": 1,
                    "colorscale": "Cividis",
                    "colorbar": {
                        "title": {"text": "open", "side": "right"},
                        "thickness": 12,
                    },
                    "hovertemplate": "epoch %{x}, %{y}: %{z:.2f}<extra></extra>",
                }
            ],
            "layout": over_epochs(record.epochs, "shortcut", y_axis={"type": "category"}),
        },
        table=Table(
            "How likely each shortcut is open",
            ("shortcut", "first, %", "last, %"),
            tuple(
                (name, f"{100 * row[0]:.1f}", f"{100 * row[-1]:.1f}")
                for name, row in zip(names, record.probs, strict=True)
            ),
        ),
    )
