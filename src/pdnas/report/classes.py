"""How well each class is told on the test part, and what it is taken for."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from pdnas.picture import BLUE
from pdnas.report.parts import Figure, Table, layout, literal, percent
from pdnas.runs import Predictions

LARGEST, WRITTEN = 200, 25
"""Classes of a matrix at most, and those up to which counts are written into it."""

LONGEST, NARROW = 24, 9
"""Letters of a name in a plot at most, and where there is little room, as on a phone."""

NORMAL = 1.959964
"""Standard deviations of a normal distribution within which 95 % of it lie."""

TEST = 3
"""How the test part is marked."""


@dataclass(frozen=True)
class ClassScore:
    """How well a class is told.

    Args:
        name: Of the class or label.
        precision: How many of those that were taken for it are of it; none if there are none.
        recall: How many of it were taken for it; none if there are none.
        f1: The harmonic mean of the two; none if it neither is met nor was said.
        support: How many nodes of the test part are of it.
    """

    name: str
    precision: float | None
    recall: float | None
    f1: float | None
    support: int


@dataclass(frozen=True)
class Classes:
    """What the network that is kept says of the test part.

    Args:
        scores: Of each class.
        matrix: Nodes of each class, a row, by what they were taken for; nothing where nodes have
            several labels.
        nodes: How many there are.
    """

    scores: tuple[ClassScore, ...]
    matrix: tuple[tuple[int, ...], ...]
    nodes: int

    @property
    def right(self) -> int:
        """How many nodes are taken for what they are."""
        return sum(row[number] for number, row in enumerate(self.matrix))

    @property
    def certainty(self) -> str:
        """Where the share of right nodes is, as far as so many of them can tell."""
        low, high = wilson(self.right, self.nodes)
        return f"95 % interval over nodes {percent(low)} to {percent(high)}"

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(score.name for score in self.scores)


def wilson(hits: int, count: int) -> tuple[float, float]:
    r"""Wilson's 95 % interval of a share.

    .. math:: \frac{\hat p + z^2/2n \pm z \sqrt{\hat p(1-\hat p)/n + z^2/4n^2}}{1 + z^2/n}

    Args:
        hits: How many of them.
        count: How many there are; with none of them, nothing is known.
    """
    if not count:
        return 0.0, 1.0
    share = hits / count
    middle = share + NORMAL**2 / (2 * count)
    half = NORMAL * math.sqrt(share * (1 - share) / count + (NORMAL / (2 * count)) ** 2)
    whole = 1 + NORMAL**2 / count
    return max(0.0, (middle - half) / whole), min(1.0, (middle + half) / whole)


def read_classes(predictions: Predictions, names: Sequence[str]) -> Classes:
    """Count right and wrong answers on the test part.

    Args:
        predictions: Of all nodes.
        names: Of the classes or labels.
    """
    test = predictions.part == TEST
    logits, labels = predictions.logits[test], predictions.labels[test]
    if labels.ndim == 2:
        said, true = (logits > 0).long(), labels.long()
        hits = (said & true).sum(0)
        return Classes(_scores(names, hits, said.sum(0), true.sum(0)), (), int(test.sum()))
    known = labels >= 0
    said = (logits[:, 0] > 0).long() if logits.size(1) == 1 else logits.argmax(dim=1)
    count = max(2, logits.size(1))
    places = labels[known].long() * count + said[known]
    matrix = torch.bincount(places, minlength=count * count).view(count, count)
    scores = _scores(names, matrix.diagonal(), matrix.sum(0), matrix.sum(1))
    return Classes(scores, tuple(map(tuple, matrix.tolist())), int(known.sum()))


def _scores(
    names: Sequence[str], hits: Tensor, said: Tensor, true: Tensor
) -> tuple[ClassScore, ...]:
    rows = zip(names, hits.tolist(), said.tolist(), true.tolist(), strict=True)
    return tuple(
        ClassScore(
            name,
            hit / told if told else None,
            hit / there if there else None,
            2 * hit / (told + there) if told + there else None,
            there,
        )
        for name, hit, told, there in rows
    )


def class_table(record: Classes) -> Table:
    """A row for each class."""
    return Table(
        f"Each {'class' if record.matrix else 'label'} on the test part",
        ("class" if record.matrix else "label", "precision, %", "recall, %", "F1, %", "nodes"),
        tuple(
            (
                score.name,
                *(_tenths(share) for share in (score.precision, score.recall, score.f1)),
                f"{score.support:,}",
            )
            for score in record.scores
        ),
    )


def draw_classes(record: Classes) -> tuple[Figure, ...]:
    """The F1 of each class, and the confusion matrix where there is one of a sensible size."""
    what = "class" if record.matrix else "label"
    labels = _labels(record.names, LONGEST)
    narrow = {"tickvals": labels, "ticktext": _labels(record.names, NARROW)}
    bars = Figure(
        name="classes",
        title=f"F1 of each {what}",
        caption=_about(record.scores, what),
        plot={
            "data": [
                {
                    "type": "bar",
                    "name": "F1",
                    "x": labels,
                    "y": [s.f1 if s.f1 is None else round(100 * s.f1, 2) for s in record.scores],
                    "marker": {"color": BLUE},
                }
            ],
            "layout": layout("", "F1, %", y_axis={"range": [0, 100]}, xaxis=_categories("")),
            "narrow": {"xaxis": narrow} if len(labels) <= WRITTEN else {},
        },
        wide=False,
    )
    if not record.matrix or len(labels) > LARGEST:
        return (bars,)
    shares = [[cell / max(1, sum(row)) for cell in row] for row in record.matrix]
    heat = {
        "type": "heatmap",
        "x": labels,
        "y": labels,
        "z": [[round(share, 4) for share in row] for row in shares],
        "customdata": [list(row) for row in record.matrix],
        "zmin": 0,
        "zmax": 1,
        "colorscale": "Cividis",
        "colorbar": {"title": {"text": "share", "side": "right"}, "thickness": 12},
        "hovertemplate": "%{y} taken for %{x}: %{customdata} (%{z:.1%})<extra></extra>",
    }
    if len(labels) <= WRITTEN:
        heat |= {"text": heat["customdata"], "texttemplate": "%{text}"}
    matrix = Figure(
        name="confusion",
        title="Confusion matrix",
        caption=(
            f"Rows: what {record.nodes:,} nodes are; columns: what they were taken for; colors: "
            f"shares of a row. {record.right:,} of them are on the diagonal, which is right."
        ),
        plot={
            "data": [heat],
            "layout": layout(
                "taken for",
                "is",
                y_axis={**_categories("is"), "autorange": "reversed"},
                xaxis=_categories("taken for"),
            ),
            "narrow": {"xaxis": narrow, "yaxis": narrow} if len(labels) <= WRITTEN else {},
        },
        table=Table(
            "Nodes of each class, by what they were taken for",
            ("is \\ taken for", *record.names),
            tuple(
                (name, *map(str, row))
                for name, row in zip(record.names, record.matrix, strict=True)
            ),
        )
        if len(labels) <= WRITTEN
        else None,
        wide=False,
    )
    return bars, matrix


def _categories(title: str) -> dict[str, object]:
    return {"title": {"text": title}, "type": "category", "automargin": True}


def _about(scores: Sequence[ClassScore], what: str) -> str:
    """Which is the hardest of those that there are, and how many are not there."""
    there = [(score.f1, score.name) for score in scores if score.support and score.f1 is not None]
    if not there:
        return f"No {what} has nodes in the test part."
    f1, name = min(there)
    words = f"The hardest {what} is {_short(name, LONGEST)} with {100 * f1:.1f} %."
    if missing := len(scores) - len(there):
        words += f" {missing} without nodes in the test part cannot be judged."
    return words


def _labels(names: Sequence[str], longest: int) -> list[str]:
    """What classes are called in a plot; those that begin alike are told apart by number."""
    labels = [literal(_short(name, longest)) for name in names]
    if len(set(labels)) < len(labels):
        labels = [f"{number} {label}" for number, label in enumerate(labels)]
    return labels


def _short(name: str, longest: int) -> str:
    return name if len(name) <= longest else name[: longest - 1] + "…"


def _tenths(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f}"
