"""The trials of a tuning: what was tried, what it came to, and what was chosen."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic_core import from_json

from pdnas.errors import RunError
from pdnas.picture import BLUE, VERMILION
from pdnas.report.parts import FEW, Figure, Table, layout, literal, percent
from pdnas.report.reading import Run
from pdnas.runs import JOURNAL, Result

if TYPE_CHECKING:
    from pdnas.tuning.entries import Entry

STUDIES = {"grid": "shapes", "recipe": "recipes"}
"""What the trials of each study try."""


@dataclass(frozen=True)
class Tried:
    """A trial.

    Args:
        number: In its study.
        state: What became of it.
        val: Mean validation of its trainings; none if it has none.
        values: What it tried, in words.
        again: Which trial it repeats with other seeds; none if it is the first of its kind.
        chosen: Whether the network that is kept was made with what it tried.
    """

    number: int
    state: str
    val: float | None
    values: str
    again: int | None
    chosen: bool


def read_tried(run: Run) -> dict[str, tuple[Tried, ...]]:
    """The trials of each study of a tuning: none of them where a database keeps them."""
    journal = run.path / JOURNAL
    if run.result is None or not journal.is_file():
        return {}
    fields = tuple(run.settings["tuning"]["fields"])
    return {
        STUDIES[name]: tuple(_tried(trial, name, fields, run.result) for trial in trials)
        for name, trials in _read_studies(journal).items()
        if name in STUDIES
    }


def _read_studies(journal: Path) -> dict[str, list["Entry"]]:
    """The trials that count, study by study."""
    # Imported here: it takes a while, and only tunings have a journal.
    import optuna
    from optuna.storages import JournalStorage
    from optuna.storages.journal import BaseJournalBackend

    from pdnas.tuning.entries import read_entries, reason_of

    class Kept(BaseJournalBackend):
        """The whole lines of the file, which nobody writes to here."""

        def read_logs(self, log_number_from: int) -> Iterable[dict[str, Any]]:
            whole = journal.read_bytes().split(b"\n")[:-1]
            return [from_json(line) for line in whole[log_number_from:]]

        def append_logs(self, logs: list[dict[str, Any]]) -> None:
            raise RunError(f"{journal} is only read; {len(logs)} entries are too many.")

    try:
        storage = JournalStorage(Kept())
        studies = {}
        for name in optuna.get_all_study_names(storage):
            study = optuna.load_study(study_name=name, storage=storage)
            studies[name] = read_entries(study)
    except Exception as error:  # Optuna trusts its entries: what is wrong fails in many ways
        raise RunError(
            f"The study '{journal}' cannot be read ({reason_of(error)}); without the file the page "
            "shows no trials."
        ) from None
    return studies


def _tried(trial: "Entry", study: str, fields: Sequence[str], result: Result) -> Tried:
    values, chosen = trial.params, False
    if study == "recipe":
        recipe = trial.about.recipe or {}
        values = {name: recipe[name] for name in fields if name in recipe}
        chosen = bool(values) and all(result.recipe.get(key) == values[key] for key in values)
    else:
        depth = getattr(result.architecture, "num_blocks", None)
        kept = {"hidden": result.hidden, "blocks": depth}
        chosen = bool(values) and all(kept.get(key) == values[key] for key in values)
    return Tried(
        trial.number,
        trial.state,
        trial.val,
        ", ".join(f"{name} {_short(value)}" for name, value in values.items()),
        trial.about.round,
        chosen,
    )


def draw_tried(what: str, trials: Sequence[Tried]) -> Figure:
    """Validation of each trial and the best so far.

    Args:
        what: What they try, in a word.
        trials: In the order in which they were begun.
    """
    first = [one for one in trials if one.val is not None and one.again is None]
    second = [one for one in trials if one.val is not None and one.again is not None]
    plots: list[dict[str, Any]] = []
    for name, members, color, marker in (
        ("trials", first, BLUE, "circle"),
        ("the best again, with other seeds", second, VERMILION, "diamond"),
    ):
        if members:
            plots.append(
                {
                    "type": "scatter",
                    "mode": "markers",
                    "name": name,
                    "x": [one.number for one in members],
                    "y": [_percent(one) for one in members],
                    "hovertext": [literal(f"{one.number}: {one.values}") for one in members],
                    "hoverinfo": "text",
                    "marker": {"color": color, "symbol": marker, "size": 9},
                }
            )
    if first:
        plots.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": "best so far",
                "x": [one.number for one in first],
                "y": list(accumulate(map(_percent, first), max)),
                "line": {"color": BLUE, "dash": "dot", "width": 2, "shape": "hv"},
                "hoverinfo": "skip",
            }
        )
    words = f"Of {len(trials)} trials {len(first) + len(second)} came to their end."
    if second:
        words += " The best were tried again with other seeds, since the first time was also luck."
    return Figure(
        name=f"tried-{what}",
        title=f"Trials of {what}",
        caption=words,
        plot={
            "data": plots,
            "layout": layout("trial", "mean validation, %", xaxis=_whole(len(trials))),
        },
    )


def tried_table(what: str, trials: Sequence[Tried]) -> Table:
    """A row for each trial."""
    return Table(
        f"Each trial of {what}",
        ("trial", "state", "validation, %", "again", "what was tried"),
        tuple(
            (
                f"{one.number}{' (chosen)' if one.chosen else ''}",
                one.state,
                percent(one.val),
                "-" if one.again is None else f"of {one.again}",
                one.values or "-",
            )
            for one in trials
        ),
    )


def _whole(count: int) -> dict[str, Any]:
    """An axis of numbers of trials: none of them is between two others."""
    return {"title": {"text": "trial"}, **({"dtick": 1} if count <= FEW else {"tickformat": "d"})}


def _percent(one: Tried) -> float:
    assert one.val is not None
    return round(100 * one.val, 2)


def _short(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
