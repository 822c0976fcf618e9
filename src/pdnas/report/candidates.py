"""The candidates: what the search had estimated of them, and what their training came to."""

from collections.abc import Sequence
from dataclasses import dataclass

from pdnas.picture import BLUE, VERMILION
from pdnas.report.parts import Figure, Table, layout, percent
from pdnas.runs import Trial


@dataclass(frozen=True)
class Rated:
    """A training of a candidate.

    Args:
        number: In the order in which they were trained.
        network: In words.
        hidden: Its hidden size.
        shared: What the search had estimated of it; none if it is a change of another.
        val: Validation of its training.
        epochs: How long it was trained.
        chosen: Whether it is the network found.
    """

    number: int
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
    return tuple(
        Rated(
            number,
            str(trial.architecture),
            trial.hidden,
            trial.shared_val,
            trial.val,
            trial.epochs,
            trial.architecture == found and trial.hidden == hidden,
        )
        for number, trial in enumerate(trials)
    )


def draw_candidates(rated: Sequence[Rated], correlation: float | None) -> Figure:
    """Estimate against training, where there is an estimate; else the trainings alone."""
    plots = []
    told = [one for one in rated if one.shared is not None]
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
                    "text": [str(one.number) for one in members],
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
        f"from fresh weights came to; numbers as in the table. {rank}"
        if told
        else "What training came to, in the order of the trainings; nothing was estimated before."
    )
    hidden = len(rated) - len(told)
    if told and hidden:
        words += f" {hidden} without an estimate are in the table only."
    x = "validation with shared weights, %" if told else "number"
    return Figure(
        name="candidates",
        title="Candidates",
        caption=words,
        plot={"data": plots, "layout": layout(x, "validation after training, %")},
        table=Table(
            "Trainings of candidates",
            ("number", "shared weights, %", "trained, %", "epochs", "hidden", "network"),
            tuple(
                (
                    f"{one.number}{' (found)' if one.chosen else ''}",
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


def _place(one: Rated) -> float:
    return one.number if one.shared is None else round(100 * one.shared, 2)
