"""Table 4: accuracy and size on 60/20/20 splits, against jumping knowledge networks."""

import statistics
from pathlib import Path

from pdnas.job import Job
from pdnas.models.baselines import Baseline
from pdnas.models.baselines.jknet import jknet_concat
from pdnas.reproduce.base import (
    TABLES,
    TASKS,
    Figure,
    Records,
    Table,
    compared,
    group,
    validation,
)
from pdnas.reproduce.picture import dots
from pdnas.reproduce.work import GivenWork, Leg, SearchedWork, TableWork
from pdnas.runs import Difference
from pdnas.search.pdnas import PRESETS
from pdnas.space import SPACES
from pdnas.training import Recipe

DEPTHS = (2, 3, 4, 5, 6, 7)
WIDTHS = (32, 64)

RIVAL = Baseline(jknet_concat(2), hidden=64)
"""The smallest JKNet-64; no network found may be larger."""

REPEATS = 4
"""How often the best candidates on each of the splits are trained again."""

CONTROLS = ("random", "gcn", "gat")
"""What the searches of every split are compared with."""

ROWS = (
    "pdnas",
    "random, same cost as pdnas",
    "gcn, recipe of pdnas",
    "gat, recipe of pdnas",
)

PAPER: dict[str, dict[str, list[tuple[float, float]]]] = {
    "jknet-32": {
        "cora": [
            (89.28, 48.30),
            (88.35, 49.35),
            (87.99, 50.41),
            (87.99, 51.46),
            (87.92, 52.52),
            (88.10, 53.58),
        ],
        "pubmed": [
            (88.54, 17.67),
            (87.89, 18.72),
            (87.30, 19.78),
            (86.99, 20.84),
            (86.97, 21.89),
            (86.86, 22.95),
        ],
        "citeseer": [
            (75.49, 120.74),
            (73.68, 121.80),
            (72.63, 122.85),
            (72.08, 123.91),
            (72.78, 124.97),
            (72.23, 126.02),
        ],
    },
    "jknet-64": {
        "cora": [
            (89.28, 98.63),
            (88.17, 102.79),
            (87.98, 106.95),
            (87.98, 111.11),
            (87.80, 115.27),
            (88.11, 119.43),
        ],
        "pubmed": [
            (88.65, 37.38),
            (87.95, 41.54),
            (87.40, 45.70),
            (87.29, 49.86),
            (87.18, 54.02),
            (87.24, 58.18),
        ],
        "citeseer": [
            (75.34, 243.53),
            (74.13, 247.69),
            (72.78, 251.85),
            (72.18, 256.01),
            (72.28, 260.17),
            (71.73, 264.33),
        ],
    },
    "pdnas": {
        "cora": [
            (89.34, 48.06),
            (89.34, 50.22),
            (89.77, 51.29),
            (89.53, 57.66),
            (89.53, 61.93),
            (89.65, 68.65),
        ],
        "pubmed": [
            (89.14, 18.21),
            (89.14, 20.35),
            (89.25, 25.67),
            (89.24, 29.58),
            (89.24, 32.43),
            (89.24, 42.31),
        ],
        "citeseer": [
            (76.29, 119.65),
            (75.54, 123.59),
            (75.64, 125.00),
            (75.99, 129.97),
            (75.74, 131.40),
            (75.54, 141.64),
        ],
    },
}
"""Accuracy in % and size in thousands of weights, by depth, as the paper prints them."""

_TEN = {f"jknet-{width}, {depth} layers" for width in WIDTHS for depth in DEPTHS} | {"pdnas"}

NOTE = (
    "Everything is chosen by validation. Recipes are tuned on the first split, those of JKNets "
    "with two layers. No network found is larger than the JKNet-64 of two layers. Trainings on "
    "each split: "
)


@TABLES.register("citation-split")
class CitationSplit(Table):
    """Recipes are tuned on the first split; every search is on the split that it is tested on.

    On the first split every depth is searched and trained three times, as in the paper. On ten
    splits JKNets of every depth are trained, and networks of the depth that was best on the first
    split's validation are searched.
    """

    name = "citation-split"
    split = "random"

    def works(self, done: Records, *, quick: bool, searches: int) -> dict[str, TableWork]:
        works: dict[str, TableWork] = {}
        splits = range(2 if quick else 10)
        depths = DEPTHS[:2] if quick else DEPTHS
        for task in reversed(TASKS):  # the slowest first
            works |= self._tuned(task, quick=quick)
            recipes = {
                row: legs[0].recipe
                for row in ("jknet-32", "jknet-64", "pdnas")
                if (legs := group(done, task, f"{row}, tuned"))
            }
            if len(recipes) < 3:
                continue
            for seed in range(searches):
                for depth in depths:
                    works[f"{task}-pdnas-{depth}-one-{seed}"] = SearchedWork(
                        task=task,
                        row=f"pdnas, {depth} blocks, one split",
                        seed=seed,
                        seeds=1 if quick else 3,
                        job=_job(depth, recipes["pdnas"], quick=quick),
                        rival=RIVAL,
                    )
            for split in splits:
                works |= self._given(task, split, depths, recipes, quick=quick)
            best = _best_depth(done, task, depths, searches)
            for split in splits if best else ():
                work = SearchedWork(
                    task=task,
                    split_seed=split,
                    row="pdnas",
                    seeds=1 if quick else 3,
                    job=_job(best, recipes["pdnas"], quick=quick, repeats=REPEATS),
                    rival=RIVAL,
                )
                key = f"{task}-pdnas-split-{split}"
                works |= {key: work, **compared(done, key, work, CONTROLS)}
        return works

    def _tuned(self, task: str, *, quick: bool) -> dict[str, TableWork]:
        """What finds the recipes, on the first split."""
        trials, recipe = (1, Recipe(epochs=30)) if quick else (20, Recipe())
        works: dict[str, TableWork] = {
            f"{task}-jknet-{width}-tuned": GivenWork(
                task=task,
                row=f"jknet-{width}, tuned",
                seeds=1,
                architecture=jknet_concat(2),
                hidden=width,
                recipe=recipe,
                trials=trials,
            )
            for width in WIDTHS
        }
        works[f"{task}-pdnas-tuned"] = SearchedWork(
            task=task,
            row="pdnas, tuned",
            seeds=1,
            job=_job(2, recipe, quick=quick),
            rival=RIVAL,
            trials=trials,
        )
        return works

    def _given(
        self,
        task: str,
        split: int,
        depths: tuple[int, ...],
        recipes: dict[str, Recipe],
        *,
        quick: bool,
    ) -> dict[str, TableWork]:
        """JKNets of every depth on a split; on the first also three times, as in the paper."""
        works: dict[str, TableWork] = {}
        for width in WIDTHS:
            for depth in depths:
                work = GivenWork(
                    task=task,
                    split_seed=split,
                    row=f"jknet-{width}, {depth} layers",
                    seeds=1,
                    architecture=jknet_concat(depth),
                    hidden=width,
                    recipe=recipes[f"jknet-{width}"],
                )
                works[f"{task}-jknet-{width}-{depth}-split-{split}"] = work
                if split == 0:
                    one = {"row": f"{work.row}, one split", "seeds": 1 if quick else 3}
                    works[f"{task}-jknet-{width}-{depth}-one"] = work.model_copy(update=one)
        return works

    def markdown(self, done: Records) -> str:
        heads = [f"{TASKS[task]}: {what}" for task in TASKS for what in ("one split", "splits")]
        lines = [
            "| model | " + " | ".join(heads) + " |",
            "|---|" + "---|" * len(heads),
        ]
        for name in ("jknet-32", "jknet-64", "pdnas"):
            for place, depth in enumerate(DEPTHS):
                cells = []
                for task in TASKS:
                    accuracy, size = PAPER[name][task][place]
                    word = "blocks" if name == "pdnas" else "layers"
                    one = group(done, task, f"{name}, {depth} {word}, one split")
                    ten = group(done, task, f"{name}, {depth} {word}")
                    cells += [f"{_cell(one)}; paper {accuracy} ({size}K)", _cell(ten)]
                lines.append(f"| {name}, {depth} | " + " | ".join(cells) + " |")
        for row in ROWS:
            cells = [cell for task in TASKS for cell in ("", _cell(group(done, task, row)))]
            lines.append(f"| {row}, each split | " + " | ".join(cells) + " |")
        margins = [_margin(done, task) for task in TASKS]
        return "\n".join(
            [*lines, "", NOTE + _trainings(done), "", *margins, "", *validation(done, ROWS)]
        )

    def draw(self, done: Records, path: Path) -> None:
        rows = [f"jknet-{width}, {depth} layers" for width in WIDTHS for depth in DEPTHS]
        rows += reversed(ROWS)
        panels = {}
        for task in TASKS:
            figures = {row: group(done, task, row) for row in rows}
            panels[TASKS[task]] = [
                (row, 100 * figure.scores.mean, 100 * figure.scores.std)
                for row, legs in figures.items()
                if legs
                for figure in [Figure.of(legs)]
            ]
        dots(panels, "test accuracy in %, mean ± standard deviation, 60/20/20 splits", path)


def _job(depth: int, recipe: Recipe, *, quick: bool, repeats: int = 1) -> Job:
    strategy = PRESETS["default"].lasting(20) if quick else PRESETS["default"]
    return Job(
        space=SPACES["extended"],
        strategy=strategy,
        recipe=recipe,
        blocks=(depth,),
        hidden=WIDTHS,
        candidates=2 if quick else 6,
        mutations=1 if quick else 8,
        repeats=1 if quick else repeats,
    )


def _best_depth(done: Records, task: str, depths: tuple[int, ...], searches: int) -> int:
    """The depth with the best validation on the first split; 0 while some are not done."""
    val = {}
    for depth in depths:
        legs = group(done, task, f"pdnas, {depth} blocks, one split")
        if len(legs) < searches:
            return 0
        val[depth] = statistics.fmean(value for leg in legs for value in leg.val)
    return max(val, key=lambda depth: val[depth])


def _trainings(done: Records) -> str:
    """How often the networks of the ten splits are trained on each of them."""
    counts = {leg.row.split(",")[0]: len(leg.val) for leg in done.values() if leg.row in _TEN}
    return (", ".join(f"{name} {count}" for name, count in counts.items()) or "none yet") + "."


def _cell(legs: list[Leg]) -> str:
    return str(Figure.of(legs)) if legs else "-"


def _margin(done: Records, task: str) -> str:
    """By how much the searched networks beat the best JKNet, split by split."""
    rivals = {
        row: group(done, task, row)
        for width in WIDTHS
        for depth in DEPTHS
        if group(done, task, row := f"jknet-{width}, {depth} layers")
    }
    ours = group(done, task, "pdnas")
    if not rivals or {len(legs) for legs in rivals.values()} != {len(ours)}:
        return f"{TASKS[task]}: not done."
    means = {
        row: statistics.fmean(value for leg in legs for value in leg.test)
        for row, legs in rivals.items()
    }
    best = max(means, key=lambda row: means[row])
    pairs = zip(ours, rivals[best], strict=True)
    ahead = Difference.of(
        [100 * (statistics.fmean(own.test) - statistics.fmean(other.test)) for own, other in pairs]
    )
    place = "ahead of" if ahead.mean >= 0 else "behind"
    low, high = ahead.interval or (ahead.mean, ahead.mean)
    return (
        f"{TASKS[task]}: pdnas is {abs(ahead.mean):.2f} points {place} {best}, the best of them on "
        f"test, paired over {ahead.pairs} splits, 95 % interval of the difference "
        f"{low:+.2f} to {high:+.2f}.\n"
    )
