"""What commands show: progress on stderr, tables on stdout."""

import io
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pdnas.cli.drawing import draw
from pdnas.notebook import figures, headings, noted

if TYPE_CHECKING:  # what is only shown need not be imported, which takes seconds
    from pdnas.architecture import Channels
    from pdnas.runs import Result

FILES = {
    "report.html": "all of this and how it came about, as a page for a browser",
    "result.json": "all of this, and every value",
    "architecture.json": "the choices; train it again with: pdnas train RUN TASK",
    "model.safetensors": "the weights of the best training; in Python: pdnas.load_run(RUN).model",
    "predictions.safetensors": "what it says of every node; as a table: pdnas predict RUN",
    "recipe.toml": "the recipe that was tuned; use it with --recipe in search and train",
    "history.jsonl": "every epoch of the search and of the trainings",
    "settings.json": "what was asked for",
    "environment.json": "versions and device",
}
"""What a search leaves behind, for those who look for it."""


def show(name: str, result: "Result", run: Path, page: Path | None = None) -> None:
    """The architecture, the result and where it lies."""
    task = result.task + noted(result.note)
    print_table(result.architecture.table(), title=f"{name} on {task}, hidden size {result.hidden}")
    row = figures(result.val, result.test, result.parameters, result.train_seconds)
    rows = [["split", *headings(result.over)], [result.split.name, *row]]
    print_table(rows, title=_figures(result))
    print(f"run: {run}")
    if page is not None:
        print(f"report: {page}")


def print_table(rows: Sequence[Sequence[str]], title: str | None = None) -> None:
    """Rows of text under a header; markup in them is only text."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False, title_justify="left")
    table.title = title and Text(title, style="bold")
    for heading in rows[0]:
        table.add_column(Text(heading), overflow="fold")
    for row in rows[1:]:
        table.add_row(*(Text(cell) for cell in row))
    terminal = sys.stdout.isatty()
    page = io.StringIO()
    Console(file=page, force_terminal=terminal, width=None if terminal else 200).print(table)
    print(page.getvalue())


def show_search(result: "Result", task: "Channels", run: Path, page: Path | None = None) -> None:
    """The network that was found, how it compares, what it cost, and where everything lies."""
    from pdnas.architecture import Architecture  # it waits for torch

    report, found = result.search, result.architecture
    assert report is not None
    assert isinstance(found, Architecture)  # a search finds blocks
    name = result.task + noted(result.note)
    print(f"The network found for {name}, split {result.split.name}:\n")
    print("\n".join(draw(found, task, result.hidden)) + "\n")
    row = figures(result.val, result.test, result.parameters, result.train_seconds)
    rows = [["network", *headings(result.over)], ["found", *row]]
    rows += [
        [control.name, *figures(control.val, control.test, control.parameters, control.seconds)]
        for control in report.controls
    ]
    print_table(rows, title=_figures(result))
    times = result.search_seconds / report.training_seconds if report.training_seconds else 0.0
    print(
        f"The search took {result.search_seconds:.1f} s, {times:.1f} times one training of the "
        f"network found of {result.recipe['epochs']} epochs ({report.training_seconds:.1f} s); its "
        f"candidates were rated and trained in {report.candidate_seconds:.1f} s; to choose took "
        f"{result.search_seconds + report.candidate_seconds:.1f} s in all."
    )
    if result.tune_seconds:
        print(f"Its recipe was tuned for {result.tune_seconds:.1f} s more: see recipe.toml.")
    if report.stopped:
        why = "the budget was spent" if report.stopped == "budget" else "it was interrupted"
        print(f"The job ended early, because {why}; this is the best network so far.")
    for warning in report.warnings:
        print(f"warning: {warning}")
    print(f"\nrun: {run}")
    if page is not None:
        print(f"report: {page}")
    for file, about in FILES.items():
        if (run / file).is_file():
            print(f"  {file:24} {about}")


def _figures(result: "Result") -> str:
    """What a table of figures shows, and what must be said of them."""
    return f"{result.metric} in %{noted(result.note)}, mean ± standard deviation"
