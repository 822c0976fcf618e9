"""Validation over the epochs of the final trainings and of the controls'."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from pdnas.report.parts import (
    MANY,
    Figure,
    Table,
    line,
    over_epochs,
    percent,
    thinned,
    thinning,
)
from pdnas.report.reading import Line, Run

CURVES = 40
"""The most curves of a plot, unless there are more networks than that."""


@dataclass(frozen=True)
class Curve:
    """A training.

    Args:
        network: Whose: ``found``, or a control's name.
        label: Of which seed, and of which split where there are several.
        epochs: Their numbers.
        val: Validation at each of them.
    """

    network: str
    label: str
    epochs: tuple[int, ...]
    val: tuple[float, ...]


def read_curves(run: Run) -> tuple[Curve, ...]:
    """The trainings of a run, in the order of its history."""
    found: dict[tuple[str, str], list[Line]] = {}
    own = "found" if run.command == "search" else str(run.settings.get("name", "network"))
    for epoch in (*run.phase("final"), *run.phase("control")):
        label = f"seed {epoch['seed']}"
        if epoch.get("split_seed") is not None:
            label = f"split {epoch['split_seed']}, {label}"
        found.setdefault((epoch.get("name", own), label), []).append(epoch)
    return tuple(
        Curve(network, label, tuple(x["epoch"] for x in lines), tuple(x["val"] for x in lines))
        for (network, label), lines in found.items()
    )


def draw_curves(curves: Sequence[Curve], metric: str, name: str = "trainings") -> Figure:
    """A line for each training; those of a network look alike and are toggled together."""
    networks = list(dict.fromkeys(curve.network for curve in curves))
    drawn, traces = _in_turn(curves), []
    for curve in drawn:
        shown = thinned(curve.val, MANY)
        is_first = curve == next(one for one in drawn if one.network == curve.network)
        traces.append(
            line(
                curve.network,
                [curve.epochs[i] for i in shown],
                [round(100 * curve.val[i], 2) for i in shown],
                networks.index(curve.network),
                legendgroup=curve.network,
                showlegend=is_first,
                hovertemplate=f"{curve.label}, epoch %{{x}}: %{{y:.2f}} %",
            )
        )
    left = ""
    if len(drawn) < len(curves):
        left = f" {len(drawn)} of {len(curves)} trainings are shown, the first of each network."
    longest = max(len(curve.epochs) for curve in drawn)
    return Figure(
        name=name,
        title="Validation during training",
        caption=(
            "A line for each training; those of a network look alike. A training ends where its "
            f"epochs or its patience do.{left}{thinning(longest, MANY)}"
        ),
        plot={
            "data": traces,
            "layout": over_epochs(
                [epoch for curve in drawn for epoch in curve.epochs],
                f"{metric}, %",
                showlegend=True,
            ),
        },
        table=Table(
            "Each training",
            ("network", "training", "epochs", "highest validation, %", "at epoch"),
            tuple(map(_row, curves)),
        ),
    )


def _in_turn(curves: Sequence[Curve]) -> list[Curve]:
    """Those that a plot has room for: one of each network, then another of each, and so on."""
    turns: Counter[str] = Counter()
    waiting = []
    for place, curve in enumerate(curves):
        waiting.append((turns[curve.network], place))
        turns[curve.network] += 1
    most = max(CURVES, len(turns))
    return [curves[place] for place in sorted(place for _, place in sorted(waiting)[:most])]


def _row(curve: Curve) -> tuple[str, ...]:
    best = max(range(len(curve.val)), key=curve.val.__getitem__)
    epochs = f"{len(curve.epochs):,}"
    return curve.network, curve.label, epochs, percent(curve.val[best]), str(curve.epochs[best])
