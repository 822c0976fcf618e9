"""What notebooks and terminals show alike: rows of figures, and tables as HTML."""

import sys
from collections.abc import Sequence
from html import escape
from typing import Protocol

LINE = "border-bottom:1px solid color-mix(in srgb, currentColor 20%, transparent)"
CELL = f"text-align:left;padding:3px 12px 3px 0;{LINE}"


def headings(over: str) -> list[str]:
    """What a table says of a network.

    Args:
        over: What its interval is over: seeds, or splits.
    """
    return ["runs", "validation", "test", f"95 % interval over {over}", "parameters", "seconds"]


class Spread(Protocol):
    """A metric over several trainings, as :class:`pdnas.runs.Scores`."""

    @property
    def interval(self) -> tuple[float, float] | None: ...

    @property
    def values(self) -> tuple[float, ...]: ...


def figures(val: Spread, test: Spread, parameters: int, seconds: float) -> list[str]:
    """A network's row under :func:`headings`, in percent."""
    interval = test.interval
    return [
        str(len(test.values)),
        str(val),
        str(test),
        f"{100 * interval[0]:.2f} to {100 * interval[1]:.2f}" if interval else "-",
        f"{parameters:,}",
        f"{seconds:.1f}",
    ]


def html_table(rows: Sequence[Sequence[str]]) -> str:
    """Rows of text under a header; whatever stands in them is only text."""
    head, *body = (
        "".join(f'<{tag} style="{CELL}">{escape(cell)}</{tag}>' for cell in row)
        for tag, row in zip(["th"] + ["td"] * (len(rows) - 1), rows, strict=True)
    )
    lines = "".join(f"<tr>{row}</tr>" for row in body)
    return (
        '<table style="border-collapse:collapse;background:none;color:inherit">'
        f"<thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table>"
    )


def in_notebook() -> bool:
    """Whether a notebook's kernel runs this; a shell of IPython is a terminal."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return shell is not None and hasattr(shell, "kernel")


def noted(note: str) -> str:
    """What follows a name or a figure of data that must not be spoken of without their note."""
    return f" ({note})" if note else ""
