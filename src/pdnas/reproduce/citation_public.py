"""Table 2: accuracy on the public splits of Cora, CiteSeer and PubMed."""

from pathlib import Path

from pdnas.job import Job
from pdnas.models.baselines import BASELINES
from pdnas.reproduce.base import (
    TABLES,
    TASKS,
    Figure,
    Records,
    Table,
    compared,
    group,
    heading,
    rows_of,
    validation,
)
from pdnas.reproduce.picture import dots
from pdnas.reproduce.work import GivenWork, SearchedWork, TableWork
from pdnas.search.pdnas import PRESETS
from pdnas.space import SPACES
from pdnas.training import RECIPES, Recipe

PAPER = {
    "GAT, as the paper quotes it": {
        "cora": (83.0, 0.7),
        "citeseer": (72.5, 0.7),
        "pubmed": (79.0, 0.3),
    },
    "GraphNAS, as the paper quotes it": {
        "cora": (84.2, 1.0),
        "citeseer": (73.1, 0.9),
        "pubmed": (79.6, 0.4),
    },
    "AGNN, as the paper quotes it": {
        "cora": (83.6, 0.3),
        "citeseer": (73.8, 0.7),
        "pubmed": (79.7, 0.4),
    },
    "PDNAS, the paper": {"cora": (84.5, 0.6), "citeseer": (73.5, 0.3), "pubmed": (79.7, 0.6)},
}
"""Mean and standard deviation of test accuracy in %."""

CONTROLS = {"extended": ("gcn", "gat", "grand", "random"), "paper": ("random",)}
"""What the searches of each space are compared with."""

STARTS = {"paper": "consistency-deep", "extended": "consistency"}
"""The recipe that candidates of each space are trained with, and that tuning begins from."""

PATIENCE = 100
"""Of the trainings that choose a network and its recipe; the final ones have more."""

ROWS = (
    "gcn",
    "gat",
    "random, same cost as pdnas, paper space",
    "pdnas, paper space",
    "gcn, recipe of pdnas, extended space",
    "gat, recipe of pdnas, extended space",
    "grand, recipe of pdnas, extended space",
    "random, same cost as pdnas, extended space",
    "pdnas, extended space",
)


@TABLES.register("citation-public")
class CitationPublic(Table):
    """GCN and GAT with their own recipes, and searches in two spaces with their controls."""

    name = "citation-public"
    split = "public"

    def works(self, done: Records, *, quick: bool, searches: int) -> dict[str, TableWork]:
        seeds, trials = (2, 1) if quick else (10, 16)
        searched = {
            f"{task}-{space}-{seed}": SearchedWork(
                task=task,
                row=f"pdnas, {space} space",
                seed=seed,
                seeds=seeds,
                job=_job(space, quick=quick),
                trials=trials,
                patience=RECIPES[STARTS[space]].patience,
            )
            for seed in range(searches)
            for task in reversed(TASKS)  # the slowest first
            for space in CONTROLS
        }
        works: dict[str, TableWork] = dict(searched)
        for task in TASKS:
            for name in ("gcn", "gat"):
                recipe = RECIPES[name].changed(epochs=30) if quick else RECIPES[name]
                works[f"{task}-{name}"] = GivenWork(
                    task=task,
                    row=name,
                    seeds=seeds,
                    architecture=BASELINES[name].architecture,
                    hidden=BASELINES[name].hidden,
                    recipe=recipe,
                )
        for key, work in searched.items():
            works |= compared(done, key, work, CONTROLS[work.job.space.name])
        return works

    def markdown(self, done: Records) -> str:
        lines = heading("test accuracy in %")
        for row, figures in PAPER.items():
            cells = [f"{figures[task][0]} ± {figures[task][1]}" for task in TASKS]
            lines.append(f"| {row} | " + " | ".join(cells) + " |")
        return "\n".join([*lines, *rows_of(done, ROWS, str), "", *_notes(done)])

    def draw(self, done: Records, path: Path) -> None:
        series = {row: {task: group(done, task, row) for task in TASKS} for row in ROWS}
        dots(
            {
                TASKS[task]: [
                    *[(row, figures[task][0], figures[task][1]) for row, figures in PAPER.items()],
                    *[
                        (row, 100 * figure.scores.mean, 100 * figure.scores.std)
                        for row, legs in series.items()
                        if legs[task]
                        for figure in [Figure.of(legs[task])]
                    ],
                ]
                for task in TASKS
            },
            "test accuracy in %, mean ± standard deviation, public split",
            path,
        )


def _job(space: str, *, quick: bool) -> Job:
    recipe, strategy = RECIPES[STARTS[space]].changed(patience=PATIENCE), PRESETS["default"]
    if quick:
        recipe, strategy = Recipe(epochs=30), strategy.lasting(20)
    return Job(
        space=SPACES[space],
        strategy=strategy,
        recipe=recipe,
        candidates=2 if quick else 6,
        mutations=1 if quick else 12,
    )


def _notes(done: Records) -> list[str]:
    """How the figures came about, and what they cost."""
    return [
        "Mean ± standard deviation of all final trainings, [95 % interval: of the searches' means "
        "where there are several, else of the trainings], (parameters). Everything is chosen by "
        "validation; test is read once for each final training. `recipe of` rows are trained with "
        "the recipe that was tuned for that network.",
        "",
        *heading("seconds: choice, tuning, one training"),
        *rows_of(done, ROWS, _seconds),
        "",
        *validation(done, ROWS),
    ]


def _seconds(figure: Figure) -> str:
    times = figure.choose_seconds, figure.tune_seconds
    return ", ".join([*(f"{time:.0f}" for time in times), f"{figure.train_seconds:.1f}"])
