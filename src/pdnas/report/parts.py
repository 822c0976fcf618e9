"""What a page is made of: sections with figures and tables, as plain values."""

import itertools
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pdnas.picture import BLACK, BLUE, GREEN, ORANGE, PURPLE, SKY, VERMILION, YELLOW

COLORS = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY, BLACK, YELLOW)
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
MARKERS = ("circle", "square", "diamond", "cross", "triangle-up", "x", "star", "pentagon")

TOGETHER = math.lcm(len(COLORS), len(DASHES))
"""After how many lines colors and dashes meet again; a shift makes other pairs of them."""

Plot = dict[str, Any]
"""A part of a plotly figure, as plain values."""

POINTS = 150
"""The most points of one of many lines: more would make the page heavy."""

MANY = 1000
"""The most points of one of a few lines."""

FIGURE = re.compile(r"[-+]?[\d,]+(\.\d+)?( (±|to) [\d,]+(\.\d+)?)?")
"""What is written in figures alone, so that a column of it is aligned."""

FEW = 12
"""Points up to which each of a line is marked: a line through one point is not seen."""


@dataclass(frozen=True)
class Table:
    """Rows of text under a header; the first cell of a row names it.

    Args:
        caption: What it is of.
        header: Names of the columns.
        rows: As many cells each.
    """

    caption: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    @property
    def figures(self) -> tuple[bool, ...]:
        """Of each column but the first whether it has figures alone, or dashes for none."""
        columns = [[row[place] for row in self.rows] for place in range(len(self.header))]
        told = [[cell for cell in column if cell != "-"] for column in columns]
        return (False, *(bool(own) and all(map(FIGURE.fullmatch, own)) for own in told[1:]))


@dataclass(frozen=True)
class Figure:
    """A plot with what one sees in it, and the same as a table where that is short.

    Args:
        name: Its own on the page.
        title: A few words.
        caption: What one sees.
        plot: ``data`` and ``layout`` of a plotly figure, and as ``narrow`` what axes are where
            there is little room.
        table: The same in figures.
        wide: Whether it takes the whole width of the page.
    """

    name: str
    title: str
    caption: str
    plot: Mapping[str, Any]
    table: Table | None = None
    wide: bool = True


@dataclass(frozen=True)
class Group:
    """Figures that belong together under a heading, and that can be folded.

    Args:
        title: The heading; none: there is nothing to fold.
        figures: In the order of the page.
        folded: Whether it is closed at first.
    """

    title: str
    figures: tuple[Figure, ...]
    folded: bool = False


@dataclass(frozen=True)
class CommandList:
    """Commands to copy, of one run where there are several.

    Args:
        title: The heading; none: there is nothing to fold.
        commands: What each does, and the command.
    """

    title: str
    commands: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Section:
    """A part of the page under a heading of its own.

    Args:
        name: Its own on the page.
        title: The heading.
        lead: Paragraphs before everything else.
        warnings: Sentences that stand out.
        groups: Figures.
        tables: Under the figures.
        drawings: Networks as SVG, each with its caption.
        commands: At its end.
    """

    name: str
    title: str
    lead: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    groups: tuple[Group, ...] = ()
    tables: tuple[Table, ...] = ()
    drawings: tuple[tuple[str, str], ...] = ()
    commands: tuple[CommandList, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to show under the heading."""
        return not (self.lead or self.groups or self.tables or self.drawings or self.commands)


def look(number: int) -> tuple[str, str, str]:
    """Color, dash and marker of the so-manieth line: each differs in more than its color."""
    return (
        COLORS[number % len(COLORS)],
        DASHES[(number + number // TOGETHER) % len(DASHES)],
        MARKERS[number % len(MARKERS)],
    )


def line(
    name: str, x: Sequence[float], y: Sequence[float | None], number: int, **more: Any
) -> Plot:
    """A line of a plot, told from others by color and dash.

    Args:
        name: In the legend.
        x: Where.
        y: How high.
        number: Of the line in its plot.
        more: What else plotly should know of it.
    """
    color, dash, marker = look(number)
    style = {"color": color, "dash": dash, "width": 2}
    plain: Plot = {"type": "scatter", "mode": "lines", "name": literal(name)}
    plain |= {"x": list(x), "y": list(y)}
    if len(x) <= FEW:
        plain |= {"mode": "lines+markers", "marker": {"color": color, "symbol": marker, "size": 8}}
    return {**plain, "line": style, **more}


def layout(x: str, y: str, *, y_axis: Mapping[str, Any] | None = None, **more: Any) -> Plot:
    """Axes with titles; what does not depend on the figure is set by the page.

    Args:
        x: Title of the axis to the right.
        y: Title of the axis upwards.
        y_axis: What else plotly should know of that one.
        more: What else it should know of the whole.
    """
    upwards = {"title": {"text": literal(y)}, **(y_axis or {})}
    return {"xaxis": {"title": {"text": literal(x)}}, "yaxis": upwards, **more}


def over_epochs(epochs: Sequence[int], y: str, **more: Any) -> Plot:
    """Axes of lines over epochs; a few epochs are whole numbers with room beside them.

    Args:
        epochs: From the first to the last.
        y: Title of the axis upwards.
        more: See :func:`layout`.
    """
    axes = layout("epoch", y, **more)
    first, last = min(epochs), max(epochs)
    if last - first < FEW:
        axes["xaxis"] |= {"range": [first - 0.5, last + 0.5], "dtick": 1, "zeroline": False}
    return axes


def spaced(count: int, most: int = POINTS) -> list[int]:
    """Which of so many points to show, evenly spaced, the first and the last among them."""
    if count <= most:
        return list(range(count))
    return sorted({round(place * (count - 1) / (most - 1)) for place in range(most)})


def thinned(values: Sequence[float], most: int = POINTS) -> list[int]:
    """Which points of a line to show: both ends, and the lowest and highest of each stretch."""
    count = len(values)
    if count <= most:
        return list(range(count))
    stretches = (most - 2) // 2
    edges = [round(place * count / stretches) for place in range(stretches + 1)]
    shown = {0, count - 1}
    for first, last in itertools.pairwise(edges):
        shown |= {min(range(first, last), key=values.__getitem__)}
        shown |= {max(range(first, last), key=values.__getitem__)}
    return sorted(shown)


def thinning(count: int, most: int = POINTS) -> str:
    """What a caption says of points of a line that were left out."""
    if count <= most:
        return ""
    return f" Of {count:,} points {most:,} at most are shown, peaks among them."


def percent(value: float | None) -> str:
    """A share as people read it."""
    return "-" if value is None else f"{100 * value:.2f}"


def literal(text: str) -> str:
    """Text of users' data in a plot, where plotly would take tags for markup and links."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
