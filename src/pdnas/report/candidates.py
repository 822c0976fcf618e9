"""The candidates: what the search had estimated of them, and what their training came to."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from pdnas.picture import BLUE, VERMILION
from pdnas.report.parts import Figure, Table, layout, literal, percent
from pdnas.runs import Trial

NEAR = 0.04
"""Of the width and the height of a plot: points that are no further apart share a label."""

NAMED = 4
"""Numbers in a label at most."""


@dataclass(frozen=True)
class Rated:
    """A training of a candidate.

    Args:
        number: In the order in which they were trained.
        turn: Which training of that network it is: each has another seed.
        network: In words.
        hidden: Its hidden size.
        shared: What the search had estimated of it; none if it is a change of another.
        val: Validation of its training.
        epochs: How long it was trained.
        chosen: Whether it is the network found.
    """

    number: int
    turn: int
    network: str
    hidden: int
    shared: float | None
    val: float
    epochs: int
    chosen: bool


def read_candidates(trials: Sequence[Trial], found: object, hidden: int) -> tuple[Rated, ...]:
    """The trainings of candidates.

    Args:
        trials: In the order in which they were trained.
        found: The architecture that was chosen.
        hidden: Its hidden size.
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
            )
        )
    return tuple(rated)


def draw_candidates(rated: Sequence[Rated], correlation: float | None) -> Figure:
    """Estimate against training, where there is an estimate; else the trainings alone."""
    plots = []
    told = [one for one in rated if one.shared is not None]
    labels = _labels(told or rated)
    for name, chosen, color, marker in (
        ("other candidates", False, BLUE, "circle"),
        ("the network found", True, VERMILION, "star"),
    ):
        members = [one for one in (told or rated) if one.chosen == chosen]
        if members:
            plots.append(
                {
                    "type": "scatter",
                    "mode": "markers+text",
                    "name": name,
                    "x": [_place(one) for one in members],
                    "y": [round(100 * one.val, 2) for one in members],
                    "text": [labels[one.number] for one in members],
                    "hovertext": [literal(_named(one)) for one in members],
                    "hoverinfo": "text",
                    "textposition": "top center",
                    "cliponaxis": False,
                    "marker": {"color": color, "symbol": marker, "size": 11},
                }
            )
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
    stars = sum(one.chosen for one in told or rated)
    if stars > 1:
        words += f" The {stars} stars are one network, the one found, trained with other seeds."
    rest = len(rated) - len(told)
    if told and rest:
        found = "" if any(one.chosen for one in told) else ", the network found among them,"
        missing = found if any(one.chosen for one in rated) else ""
        words += f" {rest} without an estimate{missing} are in the table only."
    x = "validation with shared weights, %" if told else "number"
    return Figure(
        name="candidates",
        title="Candidates",
        caption=words,
        plot={"data": plots, "layout": layout(x, "validation after training, %")},
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
                    str(one.epochs),
                    str(one.hidden),
                    one.network,
                )
                for one in rated
            ),
        ),
    )


def _labels(rated: Sequence[Rated]) -> dict[int, str]:
    """A text for each point; where points all but coincide the first has the numbers of all."""
    wide, high = (
        (max(values) - min(values)) or 1.0
        for values in ([_place(one) for one in rated], [100 * one.val for one in rated])
    )
    gathered: list[list[Rated]] = []
    for one in rated:
        for others in gathered:
            across = abs(_place(one) - _place(others[0])) / wide
            if across < NEAR and abs(one.val - others[0].val) * 100 / high < NEAR:
                others.append(one)
                break
        else:
            gathered.append([one])
    labels = dict.fromkeys((one.number for one in rated), "")
    for first, *others in gathered:
        numbers = ", ".join(str(one.number) for one in (first, *others[: NAMED - 1]))
        labels[first.number] = numbers + (", …" if len(others) >= NAMED else "")
    return labels


def _named(one: Rated) -> str:
    estimate = "" if one.shared is None else f"estimated {percent(one.shared)} %, "
    return (
        f"{one.number}: {one.network}, hidden size {one.hidden}; {estimate}trained "
        f"{percent(one.val)} %"
    )


def _place(one: Rated) -> float:
    return one.number if one.shared is None else round(100 * one.shared, 2)
