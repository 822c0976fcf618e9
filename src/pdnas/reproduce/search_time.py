"""Table 3: how long a search takes."""

from pathlib import Path

from pdnas.job import Job
from pdnas.reproduce.base import TABLES, TASKS, Figure, Records, Table, compared, group, heading
from pdnas.reproduce.picture import dots
from pdnas.reproduce.work import SearchedWork, TableWork
from pdnas.search.pdnas import PRESETS
from pdnas.training import Recipe

PAPER = {
    "GraphNAS, the paper": {"cora": 11323, "citeseer": 16333, "pubmed": 26174},
    "PDNAS, the paper": {"cora": 5012, "citeseer": 6044, "pubmed": 10634},
}
"""Seconds, on the paper's hardware."""

CONTROLS = ("random", "gcn", "gat")
"""What a search is compared with."""

ROWS = {
    "pdnas": "search, candidates and choice",
    "random, same cost as pdnas": "random search in that time",
    "gcn, recipe of pdnas": "one training of a GCN",
    "gat, recipe of pdnas": "one training of a GAT",
}


@TABLES.register("search-time")
class SearchTime(Table):
    """The default search, in the paper's space; worth measuring with one worker only."""

    name = "search-time"
    split = "public"

    def works(self, done: Records, *, quick: bool, searches: int) -> dict[str, TableWork]:
        job = Job()
        if quick:
            job = Job(
                strategy=PRESETS["default"].lasting(20), recipe=Recipe(epochs=30), candidates=2
            )
        works: dict[str, TableWork] = {}
        for seed in range(searches):
            for task in TASKS:
                work = SearchedWork(
                    task=task, row="pdnas", seed=seed, seeds=2 if quick else 3, job=job
                )
                key = f"{task}-{seed}"
                works |= {key: work, **compared(done, key, work, CONTROLS)}
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
        return "\n".join([*lines, *accuracy])

    def draw(self, done: Records, path: Path) -> None:
        panels = {}
        for task in TASKS:
            legs = group(done, task, "pdnas")
            own = [("pdnas", Figure.of(legs).choose_seconds, 0.0)] if legs else []
            quoted = [(row, float(seconds[task]), 0.0) for row, seconds in PAPER.items()]
            panels[TASKS[task]] = quoted + own
        dots(panels, "seconds of a search", path, log=True)
