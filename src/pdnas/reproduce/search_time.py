"""Table 3: how long a search takes, and how long until it is as good as GraphNAS comes to be."""

import statistics
from pathlib import Path

from pdnas.compare.standing import Catch
from pdnas.job import Job
from pdnas.reproduce.base import TABLES, TASKS, Figure, Records, Table, compared, group, heading
from pdnas.reproduce.picture import dots
from pdnas.reproduce.work import SearchedWork, TableWork
from pdnas.search.graphnas import GraphNas
from pdnas.search.pdnas import PRESETS
from pdnas.space import SPACES
from pdnas.training import Recipe

PAPER = {
    "GraphNAS, the paper": {"cora": 11323, "citeseer": 16333, "pubmed": 26174},
    "PDNAS, the paper": {"cora": 5012, "citeseer": 6044, "pubmed": 10634},
}
"""Seconds, on the paper's hardware."""

CONTROLS = ("random", "gcn", "gat")
"""What a search is compared with."""

ARCHITECTURES = 200
"""Those that GraphNAS trains. Its code goes on for a thousand; the paper does not say."""

ROWS = {
    "pdnas": "search, candidates and choice",
    "graphnas": "the same",
    "random, same cost as pdnas": "random search in that time",
    "gcn, recipe of pdnas": "one training of a GCN",
    "gat, recipe of pdnas": "one training of a GAT",
}


@TABLES.register("search-time")
class SearchTime(Table):
    """The default search and GraphNAS, in the paper's space; worth measuring with one worker."""

    name = "search-time"
    split = "public"

    def works(self, done: Records, *, quick: bool, searches: int) -> dict[str, TableWork]:
        paper = Job(space=SPACES["paper"])
        strategies = {"pdnas": PRESETS["default"], "graphnas": GraphNas(epochs=ARCHITECTURES)}
        if quick:
            paper = Job(space=SPACES["paper"], recipe=Recipe(epochs=30), candidates=2)
            strategies = {"pdnas": PRESETS["default"].lasting(20), "graphnas": GraphNas(epochs=4)}
        jobs = {
            row: paper.model_copy(update={"strategy": strategy})
            for row, strategy in strategies.items()
        }
        works: dict[str, TableWork] = {}
        for seed in range(searches):
            for task in TASKS:
                about = {"task": task, "seed": seed, "seeds": 2 if quick else 3}
                work = SearchedWork(row="pdnas", job=jobs["pdnas"], **about)
                key = f"{task}-{seed}"
                works |= {key: work, **compared(done, key, work, CONTROLS)}
                works[f"{key}-graphnas"] = SearchedWork(
                    row="graphnas", job=jobs["graphnas"], **about
                )
        return works

    def markdown(self, done: Records) -> str:
        lines = heading("seconds")
        for row, seconds in PAPER.items():
            lines.append(f"| {row} | " + " | ".join(str(seconds[task]) for task in TASKS) + " |")
        accuracy = ["", *heading("validation, test in %")]
        for row, about in ROWS.items():
            times, scores = [], []
            for task in TASKS:
                legs = group(done, task, row)
                figure = Figure.of(legs) if legs else None
                spent = "-"
                if figure is not None:
                    spent = f"{figure.choose_seconds or figure.train_seconds:.1f}"
                times.append(spent)
                scores.append(f"{figure.val}, {figure.scores}" if figure else "-")
            lines.append(f"| {row}: {about} | " + " | ".join(times) + " |")
            accuracy.append(f"| {row} | " + " | ".join(scores) + " |")
        caught = [str(_caught(done, task)) for task in TASKS]
        lines.append("| pdnas was as good as graphnas after | " + " | ".join(caught) + " |")
        note = (
            f"GraphNAS trains {ARCHITECTURES} architectures. The last line of seconds says when "
            "pdnas had trained some network to the validation that graphnas's choice came to, on "
            "average over searches, and how many times sooner that is than graphnas's answer; then "
            "after how many seconds graphnas itself had trained some network as good."
        )
        return "\n".join([*lines, *accuracy, "", note])

    def draw(self, done: Records, path: Path) -> None:
        panels = {}
        for task in TASKS:
            own = [
                (row, Figure.of(legs).choose_seconds, 0.0)
                for row in ("pdnas", "graphnas")
                if (legs := group(done, task, row))
            ]
            quoted = [(row, float(seconds[task]), 0.0) for row, seconds in PAPER.items()]
            panels[TASKS[task]] = quoted + own
        dots(panels, "seconds of a search", path, log=True)


def _caught(done: Records, task: str) -> Catch | str:
    """How soon the default search is as good as GraphNAS, where both are done."""
    ours, theirs = group(done, task, "pdnas"), group(done, task, "graphnas")
    if not ours or [leg.seed for leg in ours] != [leg.seed for leg in theirs]:
        return "-"
    vals = [statistics.fmean(leg.val) for leg in theirs]
    ends = [leg.search_seconds for leg in theirs]
    return Catch.of([leg.curve for leg in ours], [leg.curve for leg in theirs], vals, ends)
