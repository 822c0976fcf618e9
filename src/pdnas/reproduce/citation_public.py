"""Table 2: accuracy on the public splits of Cora, CiteSeer and PubMed."""

from pathlib import Path

from pdnas.architecture import Architecture, BlockSpec
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

PLAIN = {
    "paper": Architecture(
        blocks=(
            BlockSpec(expansion=1, attention="gcn", activation="relu"),
            BlockSpec(expansion=1, attention="gcn"),
        )
    ),
    "extended": BASELINES["grand"].architecture,
}
"""A network of each space that nobody searched for; searches begin with it and its tuned recipe."""

STARTS = {"paper": "plain, tuned, paper space", "extended": "grand, tuned"}
"""Its row in the table."""

START = RECIPES["consistency"]
"""The recipe that its tuning begins with."""

TEACHERS = {"paper": 4, "extended": 0}
"""Of the final trainings; what is found in the extended space depends less on its seed."""

QUICK = Recipe(epochs=30)
"""What stands for all tuned recipes where a look is enough."""

PATIENCE = 100
"""Of the trainings that choose a network and its recipe, and of teachers and their pupils; other
final trainings have more."""

ROWS = (
    "gcn",
    "gat",
    STARTS["paper"],
    "random, same cost as pdnas, paper space",
    "pdnas, paper space",
    STARTS["extended"],
    "gcn, recipe of pdnas, extended space",
    "gat, recipe of pdnas, extended space",
    "grand, recipe of pdnas, extended space",
    "random, same cost as pdnas, extended space",
    "pdnas, extended space",
)


@TABLES.register("citation-public")
class CitationPublic(Table):
    """GCN and GAT with their own recipes, and searches in two spaces with their controls.

    In each space the recipe of a plain network is tuned first; candidates, the plain network among
    them, are trained with it, and the tuning of what is found begins with it.
    """

    name = "citation-public"
    split = "public"

    def works(self, done: Records, *, quick: bool, searches: int) -> dict[str, TableWork]:
        seeds = 2 if quick else 10
        works: dict[str, TableWork] = {}
        for task in reversed(TASKS):  # the slowest first
            for space, row in STARTS.items():
                works[f"{task}-{space}-start"] = GivenWork(
                    task=task,
                    row=row,
                    seeds=seeds,
                    architecture=PLAIN[space],
                    hidden=BASELINES["grand"].hidden,
                    recipe=QUICK if quick else START.changed(patience=PATIENCE),
                    trials=1 if quick else 16,
                    patience=None if quick else START.patience,
                )
        for task in reversed(TASKS):
            for name in ("gcn", "gat"):
                recipe = RECIPES[name].changed(epochs=QUICK.epochs) if quick else RECIPES[name]
                works[f"{task}-{name}"] = GivenWork(
                    task=task,
                    row=name,
                    seeds=seeds,
                    architecture=BASELINES[name].architecture,
                    hidden=BASELINES[name].hidden,
                    recipe=recipe,
                )
        searched = {
            f"{task}-{space}-{seed}": SearchedWork(
                task=task,
                row=f"pdnas, {space} space",
                seed=seed,
                seeds=seeds,
                job=_job(space, start[0].recipe, quick=quick),
                trials=1 if quick else 10,
                patience=None if quick or TEACHERS[space] else START.patience,
                teachers=0 if quick else TEACHERS[space],
            )
            for seed in range(searches)
            for task in reversed(TASKS)
            for space, row in STARTS.items()
            if (start := group(done, task, row))
        }
        works |= searched
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


def _job(space: str, recipe: Recipe, *, quick: bool) -> Job:
    if quick:
        return Job(
            space=SPACES[space],
            strategy=PRESETS["default"].lasting(20),
            recipe=recipe,
            candidates=2,
            incumbents=(PLAIN[space],),
            mutations=1,
        )
    return Job(
        space=SPACES[space],
        recipe=recipe.changed(patience=PATIENCE),
        candidates=6,
        incumbents=(PLAIN[space],),
        mutations=8,
        repeats=4,
    )


def _notes(done: Records) -> list[str]:
    """How the figures came about, and what they cost."""
    return [
        "Mean ± standard deviation of all final trainings, [95 % interval: of the searches' means "
        "where there are several, else of the trainings], (parameters). Everything is chosen by "
        "validation; test is read once for each final training. `recipe of` rows are trained with "
        "the recipe that was tuned for that network. " + _taught(done),
        "",
        *heading("seconds: choice, tuning, one training"),
        *rows_of(done, ROWS, _seconds),
        "",
        *validation(done, ROWS),
    ]


def _taught(done: Records) -> str:
    """Which networks had teachers."""
    counts = {leg.row: leg.recipe.teachers for leg in done.values()}
    rows = [f"`{row}` {counts[row]}" for row in ROWS if counts.get(row)]
    listed = f"{', '.join(rows)}; all others have none" if rows else "none"
    return f"Teachers of each final training: {listed}."


def _seconds(figure: Figure) -> str:
    times = figure.choose_seconds, figure.tune_seconds
    return ", ".join([*(f"{time:.0f}" for time in times), f"{figure.train_seconds:.1f}"])
