"""The picture of a comparison: quality against seconds spent."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from pdnas.compare.curve import value_at
from pdnas.compare.work import Attempt
from pdnas.files import write_whole
from pdnas.picture import (
    BLACK,
    BLUE,
    GREEN,
    ORANGE,
    PURPLE,
    SKY,
    VERMILION,
    new_figure,
    rendered,
)
from pdnas.runs import Record

COLORS = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY, BLACK)
STYLES = ("-", "--", "-.", ":")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")


class Step(Record):
    """A point of a step curve over seeds, in %.

    Args:
        seconds: From when on.
        mean: Over seeds.
        low: The lowest.
        high: The highest.
    """

    seconds: float
    mean: float
    low: float
    high: float


class Picture(Record):
    """What is drawn.

    Args:
        title: Above it.
        axis: What the height is.
        curves: Of each strategy, over the seconds for which all seeds have something.
        marks: Where each baseline ends.
    """

    title: str
    axis: str
    curves: dict[str, tuple[Step, ...]]
    marks: dict[str, Step]


def picture_of(
    attempts: Mapping[str, Sequence[Attempt]],
    baselines: Iterable[str],
    *,
    title: str,
    axis: str,
) -> Picture:
    """Turn the attempts of each rival into what is drawn.

    Args:
        attempts: Of each rival.
        baselines: Rivals that are one training, which is a mark.
        title: Above the picture.
        axis: What the height is.
    """
    marks = set(baselines)
    return Picture(
        title=title,
        axis=axis,
        curves={rival: steps_of(group) for rival, group in attempts.items() if rival not in marks},
        marks={rival: _end_of(group) for rival, group in attempts.items() if rival in marks},
    )


def steps_of(attempts: Sequence[Attempt]) -> tuple[Step, ...]:
    """The mean and the span of several curves, from when on all of them have a point."""
    times = sorted({seconds for attempt in attempts for seconds, _ in attempt.curve})
    steps = []
    for seconds in [*times, max(attempt.seconds for attempt in attempts)]:
        values = [value_at(attempt.curve, seconds) for attempt in attempts]
        there = [100 * value for value in values if value is not None]
        if len(there) == len(attempts):
            steps.append(_step(seconds, there))
    return tuple(steps)


def _end_of(attempts: Sequence[Attempt]) -> Step:
    seconds = statistics.fmean(attempt.seconds for attempt in attempts)
    return _step(seconds, [100 * attempt.val for attempt in attempts])


def _step(seconds: float, values: Sequence[float]) -> Step:
    mean = statistics.fmean(values)
    return Step(seconds=seconds, mean=mean, low=min(values), high=max(values))


def draw(picture: Picture, path: Path) -> None:
    """Draw it: a step curve with a band for each strategy, a mark for each baseline."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    figure = new_figure(8, 4.8)
    axes = figure.subplots()
    for look, (rival, steps) in enumerate(picture.curves.items()):
        color, style = COLORS[look % len(COLORS)], STYLES[look % len(STYLES)]
        seconds = [step.seconds for step in steps]
        axes.fill_between(
            seconds,
            [step.low for step in steps],
            [step.high for step in steps],
            step="post",
            color=color,
            alpha=0.15,
            linewidth=0,
        )
        axes.step(
            seconds,
            [step.mean for step in steps],
            where="post",
            color=color,
            linestyle=style,
            linewidth=2,
            label=rival,
        )
        for last in steps[-1:]:  # where it ends, a last rise would be hard to see
            axes.plot(last.seconds, last.mean, marker=".", markersize=11, color=color)
    for look, (rival, mark) in enumerate(picture.marks.items(), start=len(picture.curves)):
        color = COLORS[look % len(COLORS)]
        axes.axhline(mark.mean, color=color, linewidth=0.8, linestyle=(0, (1, 3)))
        axes.errorbar(
            mark.seconds,
            mark.mean,
            yerr=[[mark.mean - mark.low], [mark.high - mark.mean]],
            fmt=MARKERS[look % len(MARKERS)],
            color=color,
            capsize=3,
            label=rival,
        )
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 3, 5)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda seconds, _: f"{seconds:g}"))
    axes.set_xlabel("seconds spent")
    axes.set_ylabel(picture.axis)
    axes.grid(alpha=0.3, linewidth=0.5)
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside right upper", frameon=False)
    axes.set_title(picture.title, loc="left", fontsize="medium")
    write_whole(path, rendered(figure))
