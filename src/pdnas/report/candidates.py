"""The candidates: what the search had estimated of them, and what their training came to."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pdnas.architecture import Architecture
from pdnas.picture import BLUE, VERMILION
from pdnas.pipeline.race import RUNG
from pdnas.report.parts import Figure, Plot, Table, layout, literal, percent
from pdnas.runs import Trial

NEAR = 0.04
"""Of the width and the height of a plot: points that are no further apart share a label."""

NAMED = 4
"""Numbers in a label at most."""

STRIP = 0.86
"""Of the width of a plot: to the right of it is what the search had not estimated."""


@dataclass(frozen=True)
class Rated:
    """A training of a candidate.

    Args:
        number: In the order in which they were trained.
        turn: Which training of that network it is: each has another seed.
        network: In words.
        hidden: Its hidden size.
        shared: What the search had estimated of it; none if it did not propose it.
        val: Validation of its training.
        epochs: How long it was trained.
        chosen: Whether it is the network found.
        design: The baseline that is built alike; nothing if there is none.
        is_cut: Whether its training was ended early, because others were better by then.
    """

    number: int
    turn: int
    network: str
    hidden: int
    shared: float | None
    val: float
    epochs: int
    chosen: bool
    design: str = ""
    is_cut: bool = False


def read_candidates(
    trials: Sequence[Trial],
    found: object,
    hidden: int,
    *,
    designs: Mapping[Architecture, str] | None = None,
    epochs: int = 0,
) -> tuple[Rated, ...]:
    """The trainings of candidates.

    Args:
        trials: In the order in which they were trained.
        found: The architecture that was chosen.
        hidden: Its hidden size.
        designs: Baselines by their blocks.
        epochs: Of a whole training at most; 0 if that is not known.
    """
    turns: Counter[tuple[object, int]] = Counter()
    rated = []
    for number, trial in enumerate(trials):
        turns[trial.architecture, trial.hidden] += 1
        rated.append(
            Rated(
                number,
                turns[trial.architecture, trial.hidden],
                str(trial.architecture),
                trial.hidden,
                trial.shared_val,
                trial.val,
                trial.epochs,
                trial.architecture == found and trial.hidden == hidden,
                (designs or {}).get(trial.architecture, ""),
                bool(trial.rungs) and trial.epochs == math.ceil(RUNG * epochs),
            )
        )
    return tuple(rated)


def draw_candidates(rated: Sequence[Rated], correlation: float | None) -> Figure:
    """Estimate against training, where there is an estimate; else the trainings alone.

    What was not estimated stands beside the others, over an axis of its own.

    Args:
        rated: The trainings.
        correlation: Of the ranks of the two; none if there are too few.
    """
    told = [one for one in rated if one.shared is not None]
    rest = [one for one in rated if one.shared is None]
    x = "validation with shared weights, %" if told else "number"
    axes = layout(x, "validation after training, %")
    if told and rest:
        axes["xaxis"]["domain"] = [0, STRIP - 0.03]
        axes["xaxis2"] = {
            "domain": [STRIP, 1],
            "range": [-0.8, len(rest) + 0.3],
            "tickvals": [(len(rest) - 1) / 2],
            "ticktext": ["none"],
            "showgrid": False,
            "zeroline": False,
        }
    return Figure(
        name="candidates",
        title="What the search had estimated, and what training came to",
        caption=_about(rated, told, rest, correlation),
        plot={"data": list(_points(told, rest)), "layout": axes},
        table=Table(
            "Trainings of candidates",
            (
                "number",
                "training",
                "shared weights, %",
                "trained, %",
                "epochs",
                "hidden",
                "network",
            ),
            tuple(
                (
                    f"{one.number}{' (found)' if one.chosen else ''}",
                    str(one.turn),
                    percent(one.shared),
                    percent(one.val),
                    f"{one.epochs}{', ended early' if one.is_cut else ''}",
                    str(one.hidden),
                    f"{one.design}: {one.network}" if one.design else one.network,
                )
                for one in rated
            ),
        ),
    )


def _points(told: Sequence[Rated], rest: Sequence[Rated]) -> list[Plot]:
    """The trainings: those that were estimated, and beside them those that were not."""
    parts = [
        ("x", told, {one.number: round(100 * (one.shared or 0), 2) for one in told}),
        ("x2", rest, {one.number: float(place) for place, one in enumerate(rest)}),
    ]
    if not told:
        parts = [("x", rest, {one.number: float(one.number) for one in rest})]
    plots: list[Plot] = []
    for axis, rated, places in parts:
        labels = _labels(rated, places) if rated else {}
        for name, chosen, color, marker in (
            ("other candidates", False, BLUE, "circle"),
            ("the network found", True, VERMILION, "star"),
        ):
            members = [one for one in rated if one.chosen == chosen]
            if not members:
                continue
            symbols = [f"{marker}-open" if one.is_cut else marker for one in members]
            plots.append(
                {
                    "type": "scatter",
                    "mode": "markers+text",
                    "name": name,
                    "legendgroup": name,
                    "showlegend": all(plot["name"] != name for plot in plots),
                    "x": [places[one.number] for one in members],
                    "y": [round(100 * one.val, 2) for one in members],
                    "xaxis": axis,
                    "text": [labels[one.number] for one in members],
                    "hovertext": [literal(_named(one)) for one in members],
                    "hoverinfo": "text",
                    "textposition": "middle right",
                    "cliponaxis": False,
                    "marker": {"color": color, "symbol": symbols, "size": 11},
                }
            )
    return plots


def _about(
    rated: Sequence[Rated],
    told: Sequence[Rated],
    rest: Sequence[Rated],
    correlation: float | None,
) -> str:
    """What one sees."""
    rank = (
        "There are too few for a rank correlation."
        if correlation is None
        else f"The rank correlation of the two is {correlation:.2f} (1: the same order, 0: none)."
    )
    words = (
        "To the right what the search had estimated with shared weights, upwards what training "
        f"from fresh weights came to; numbers as in the table under the plot. {rank}"
        if told
        else "What training came to, in the order of the trainings; nothing was estimated before."
    )
    stars = sum(one.chosen for one in rated)
    if stars > 1:
        words += f" The {stars} stars are one network, the one found, trained with other seeds."
    if told and rest:
        words += (
            " 1 training without an estimate is at the right edge."
            if len(rest) == 1
            else f" {len(rest)} trainings without an estimate are at the right edge."
        )
    if designs := list(dict.fromkeys(one.design for one in rated if one.design)):
        words += f" Hand-designed networks were candidates too: {', '.join(designs)}."
    if cut := sum(one.is_cut for one in rated):
        words += (
            f" {cut} that {'is' if cut == 1 else 'are'} hollow ended early, because others were "
            "better by then."
        )
    return words


def _labels(rated: Sequence[Rated], places: Mapping[int, float]) -> dict[int, str]:
    """A text for each point; where points all but coincide the first has the numbers of all."""
    wide, high = (
        (max(values) - min(values)) or 1.0 for values in (places.values(), [r.val for r in rated])
    )
    gathered: list[list[Rated]] = []
    for one in rated:
        for others in gathered:
            across = abs(places[one.number] - places[others[0].number]) / wide
            if across < NEAR and abs(one.val - others[0].val) / high < NEAR:
                others.append(one)
                break
        else:
            gathered.append([one])
    labels = dict.fromkeys(places, "")
    for first, *others in gathered:
        numbers = ", ".join(str(one.number) for one in (first, *others[: NAMED - 1]))
        labels[first.number] = numbers + (", …" if len(others) >= NAMED else "")
    return labels


def _named(one: Rated) -> str:
    estimate = "" if one.shared is None else f"estimated {percent(one.shared)} %, "
    design = f"{one.design}: " if one.design else ""
    return (
        f"{one.number}: {design}{one.network}, hidden size {one.hidden}; {estimate}trained "
        f"{percent(one.val)} %"
    )
