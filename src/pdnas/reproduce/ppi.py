"""Table 5: micro-F1 and size on protein interactions, which are many graphs with many labels."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from pdnas.architecture import Architecture, BlockSpec
from pdnas.job import Job
from pdnas.models import Design
from pdnas.models.baselines import BASELINES
from pdnas.reproduce.base import TABLES, Figure, Records, Table, group
from pdnas.reproduce.picture import Dot, dots
from pdnas.reproduce.work import GivenWork, HeatWork, Leg, SearchedWork, TableWork
from pdnas.search import Strategy
from pdnas.search.graphnas import GraphNas
from pdnas.search.pdnas import PRESETS
from pdnas.space import INDUCTIVE
from pdnas.training import RECIPES, Recipe

TASK = "ppi"


class Quoted(NamedTuple):
    """A line of the paper's table.

    Args:
        row: The method.
        layers: Its depth.
        f1: Mean of three runs, in %.
        std: Their standard deviation.
        size: Millions of weights; none where the paper has none.
    """

    row: str
    layers: int
    f1: float
    std: float
    size: float | None


PAPER = (
    Quoted("GAT", 3, 97.30, 0.20, 0.89),
    Quoted("LGCN", 2, 77.20, 0.20, 0.85),
    Quoted("JKNet-Concat", 2, 95.90, 0.30, None),
    Quoted("JKNet-LSTM", 3, 96.90, 0.60, None),
    Quoted("JKNet-Dense-LSTM", 3, 97.60, 0.70, None),
    Quoted("GraphNAS", 3, 98.60, 0.10, 3.95),
    Quoted("GraphNAS with sc", 3, 97.70, 0.20, 2.11),
    Quoted("AGNN", 3, 99.20, 0.20, 4.60),
    Quoted("AGNN with sharing", 3, 99.10, 0.10, 1.60),
    Quoted("PDNAS", 4, 99.27, 0.03, 2.39),
)

GIVEN = {
    "gat": "gat-ppi",
    "lgcn": "lgcn-ppi",
    "jknet-concat": "jknet-concat-ppi",
    "jknet-max": "jknet-max-ppi",
    "jknet-lstm": "jknet-lstm-ppi",
    "jknet-dense": "jknet-dense-ppi",
    "sage": "sage-ppi",
}
"""Rows of networks that nobody searched for, and the baselines that they are."""

FOUND = ("graphnas", "pdnas")
"""Rows of networks that were searched for."""

ROWS = (*GIVEN, *FOUND)

MAX_PARAMETERS = 2_390_000
"""The size of the paper's network; what is found may not be larger."""

GOAL = 0.9927
"""What the paper's network reaches there."""

WIDTHS = MappingProxyType({2: 1280, 3: 1000, 4: 720, 5: 600})
"""The hidden size at each depth that is searched: about the widest at which :func:`plain` fits."""

CHILD_EPOCHS = 40
"""Of the trainings by which networks are chosen; they too end with a learning rate of zero."""

HEAT_SEED = 1000
"""Of the heats; no final training has one that follows from it."""

HEAT_EPOCHS = 200
"""Of the longer trainings by which the choices of all depths are compared."""

EPOCHS = 700
"""Of the final trainings."""


class Scale(NamedTuple):
    """How much is done.

    Args:
        widths: Blocks of the networks that are searched, a piece of work for each, and their
            hidden size.
        child_epochs: Of the trainings that choose.
        heat_epochs: Of those that compare what was chosen for every depth.
        epochs: Of the final trainings.
        strategies: Those of the searches, by row.
        candidates: Of each search.
        mutations: Changes of the best.
        repeats: Further trainings of the best few.
        width: Of the networks that nobody searched for; none: their own.
    """

    widths: Mapping[int, int]
    child_epochs: int
    heat_epochs: int
    epochs: int
    strategies: dict[str, Strategy]
    candidates: int
    mutations: int
    repeats: int
    width: int | None = None


WHOLE = Scale(
    widths=WIDTHS,
    child_epochs=CHILD_EPOCHS,
    heat_epochs=HEAT_EPOCHS,
    epochs=EPOCHS,
    # About as many epochs for both: a supernet's, or of networks that are trained on their own.
    strategies={
        "pdnas": PRESETS["default"].lasting(120).changed(pool=40, adapted=8),
        "graphnas": GraphNas(epochs=8, train_epochs=CHILD_EPOCHS),
    },
    candidates=3,
    mutations=8,
    repeats=1,
)

QUICK = Scale(
    widths=MappingProxyType({2: 8, 3: 8}),
    child_epochs=2,
    heat_epochs=2,
    epochs=3,
    strategies={
        "pdnas": PRESETS["default"].lasting(2).changed(pool=2, adapted=1, adapt_epochs=1),
        "graphnas": GraphNas(epochs=2, train_epochs=2),
    },
    candidates=1,
    mutations=1,
    repeats=1,
    width=8,
)


def plain(blocks: int) -> Architecture:
    """Blocks of GAT's attention with layer norms and a map of their own for what a node is."""
    last = BlockSpec(expansion=0, aggregation="sum", combine="root", bias=True)
    block = last.model_copy(
        update={"attention": "gat", "heads": 8, "norm": "layer", "activation": "elu"}
    )
    return Architecture(blocks=(*[block] * (blocks - 1), last))


@TABLES.register("ppi")
class Ppi(Table):
    """Searches choose by short trainings; what they chose, and the rivals, are trained for long.

    Every depth is searched by itself. The best of each depth is trained in a heat, longer than the
    candidates of the searches, and the best of these is the row's network. Validation decides all
    that. Every final training is a piece of work of its own, so that they run side by side.
    """

    name = "ppi"
    tasks = MappingProxyType({TASK: "PPI"})
    split = "own"

    def __init__(self) -> None:
        self.seeds = 3

    def works(self, done: Records, *, quick: bool, searches: int) -> dict[str, TableWork]:
        scale = QUICK if quick else WHOLE
        works: dict[str, TableWork] = {}
        chosen: dict[str, Leg] = {}
        for depth in reversed(tuple(scale.widths)):  # the slowest first
            for row in reversed(FOUND):
                works |= _searches(scale, row, depth, searches)
        for row in reversed(FOUND):
            heats = _heats(done, scale, row, searches)
            works |= heats
            if len(heats) == len(scale.widths) and set(heats) <= set(done):
                chosen[row] = _best([done[key] for key in heats])
        for row, leg in chosen.items():
            works |= self._finals(row, leg.architecture, leg.hidden, leg.recipe, scale)
        for row, name in GIVEN.items():
            hidden = scale.width or BASELINES[name].hidden
            works |= self._finals(row, BASELINES[name].design, hidden, RECIPES[name], scale)
        return works

    def _finals(
        self, row: str, design: Design, hidden: int, recipe: Recipe, scale: Scale
    ) -> dict[str, TableWork]:
        """The final trainings of a row, a piece of work for each."""
        assert self.seeds is not None
        epochs = RECIPES[GIVEN.get(row, "inductive")].epochs  # a choice was trained for fewer
        return {
            f"{row}-{seed}": GivenWork(
                task=TASK,
                row=row,
                seed=seed,
                seeds=1,
                architecture=design,
                hidden=hidden,
                recipe=recipe.changed(epochs=min(epochs, scale.epochs)),
            )
            for seed in range(self.seeds)
        }

    def markdown(self, done: Records) -> str:
        note = _note(done)
        head = ["network", "layers", f"test F1 (micro, %{note})", f"validation (%{note})"]
        head += ["seeds", "parameters", "seconds of one training", "seconds of the choice"]
        lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
        for quoted in PAPER:
            size = "-" if quoted.size is None else f"{quoted.size:.2f} M"
            f1 = f"{quoted.f1:.2f} ± {quoted.std:.2f}, released labels"
            cells = [f"{quoted.row}, the paper", str(quoted.layers), f1, "-", "3", size, "-", "-"]
            lines.append(f"| {' | '.join(cells)} |")
        lines += [_line(done, row) for row in ROWS if group(done, TASK, row)]
        return "\n".join([*lines, "", *_verdict(done), "", *_notes(done)])

    def draw(self, done: Records, path: Path) -> None:
        panel: list[Dot] = [(f"{line.row}, the paper", line.f1, line.std) for line in PAPER]
        for row in ROWS:
            if legs := group(done, TASK, row):
                scores = Figure.of(legs).scores
                panel.append((row, 100 * scores.mean, 100 * scores.std))
        dots({f"PPI{_note(done)}": panel}, "test F1 in %, mean ± standard deviation", path)


def _job(scale: Scale, row: str, depth: int) -> Job:
    return Job(
        space=INDUCTIVE,
        strategy=scale.strategies[row],
        blocks=(depth,),
        hidden=(scale.widths[depth],),
        recipe=RECIPES["inductive"].changed(epochs=scale.child_epochs),
        candidates=scale.candidates,
        incumbents=(plain(depth),),
        mutations=scale.mutations,
        repeats=scale.repeats,
        max_parameters=MAX_PARAMETERS,
    )


def _searches(scale: Scale, row: str, depth: int, searches: int) -> dict[str, TableWork]:
    """The searches of a row at a depth; they end with a choice."""
    return {
        f"{row}-search-{depth}-{seed}": SearchedWork(
            task=TASK, row=f"{row}, search", seed=seed, seeds=0, job=_job(scale, row, depth)
        )
        for seed in range(searches)
    }


def _heats(done: Records, scale: Scale, row: str, searches: int) -> dict[str, TableWork]:
    """A longer training of the best of each depth whose searches are done."""
    heats: dict[str, TableWork] = {}
    for depth in scale.widths:
        keys = _searches(scale, row, depth, searches)
        if set(keys) <= set(done):
            best = _best([done[key] for key in keys])
            heats[f"{row}-heat-{depth}"] = HeatWork(
                task=TASK,
                row=f"{row}, heat",
                seed=HEAT_SEED,
                seeds=1,
                architecture=best.architecture,
                hidden=best.hidden,
                recipe=best.recipe.changed(epochs=scale.heat_epochs),
            )
    return heats


def _best(legs: Sequence[Leg]) -> Leg:
    """The choice with the best validation."""
    return max(legs, key=lambda leg: leg.choice_val or 0.0)


def _note(done: Records) -> str:
    """What must be said beside every figure, with a comma before it."""
    notes = dict.fromkeys(leg.note for leg in done.values() if leg.note)
    return "".join(f", {note}" for note in notes)


def _line(done: Records, row: str) -> str:
    """Our line of a row."""
    legs = group(done, TASK, row)
    figure, design = Figure.of(legs), legs[0].architecture
    depth = design.num_blocks if isinstance(design, Architecture) else getattr(design, "layers", 0)
    spent = sum(leg.search_seconds for leg in done.values() if leg.row.startswith(f"{row}, "))
    cells = [
        row,
        str(depth),
        f"{figure.scores}",
        f"{figure.val}",
        str(len(legs)),
        f"{legs[0].parameters:,}",
        f"{figure.train_seconds:.1f}",
        f"{spent:.1f}" if spent else "-",
    ]
    return f"| {' | '.join(cells)} |"


def _verdict(done: Records) -> list[str]:
    """Whether the network found is as good as the paper's and better than its rivals, in words."""
    means = {row: Figure.of(legs).scores.mean for row in ROWS if (legs := group(done, TASK, row))}
    if "pdnas" not in means:
        return ["pdnas: not done."]
    ours, note = means.pop("pdnas"), _note(done)
    size = group(done, TASK, "pdnas")[0].parameters
    reached = ours >= GOAL and size <= MAX_PARAMETERS
    ahead = [row for row, mean in means.items() if mean >= ours]
    missing = [row for row in ROWS if row != "pdnas" and row not in means]
    lines = [
        f"pdnas: test F1 {100 * ours:.2f} %{note} with {size:,} parameters; asked for were "
        f"{100 * GOAL:.2f} % with at most {MAX_PARAMETERS:,}: "
        f"{'reached' if reached else 'missed'}.",
        f"pdnas is behind or level with {', '.join(ahead)}: missed."
        if ahead
        else f"pdnas is ahead of {', '.join(means) or 'nobody yet'}.",
    ]
    return lines + [f"Not done: {', '.join(missing)}."] * bool(missing)


def _notes(done: Records) -> list[str]:
    """How the figures came about."""
    epochs = sorted({leg.recipe.epochs for leg in done.values() if leg.row in ROWS})
    found = [
        f"`{row}`: {legs[0].architecture}, hidden {legs[0].hidden}."
        for row in FOUND
        if (legs := group(done, TASK, row))
    ]
    return [
        "Mean ± standard deviation over final trainings of different seeds, of "
        f"{' or '.join(map(str, epochs)) or 'no'} epochs each. Everything is chosen by validation; "
        "the test part is read once for each final training. Where the labels are not the released "
        "ones, our figures compare with each other and not with the paper's. What is found has at "
        f"most {MAX_PARAMETERS:,} parameters. The seconds of a choice are those of all searches "
        "and heats together, which run side by side.",
        "",
        *found,
    ]
