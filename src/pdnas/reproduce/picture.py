"""Pictures of tables, as SVG."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from pdnas.files import write_whole
from pdnas.picture import BLUE, VERMILION, new_figure, rendered

COLORS = (BLUE, VERMILION)
"""Blue for what others say, vermilion for what was measured here: both kinds of color-blind
people can tell them apart."""

FAR = 10.0
"""Below a panel's best by more than this a row is a number at the edge: its dot would squeeze all
others together."""

Dot = tuple[str, float, float]
"""A row, its mean and its standard deviation."""


def dots(panels: Mapping[str, Sequence[Dot]], title: str, path: Path, *, log: bool = False) -> None:
    """A panel of dots with error bars for each task, rows below each other."""
    rows = max(len(panel) for panel in panels.values())
    figure = new_figure(4 * len(panels) + 2, 0.35 * rows + 1.5)
    axes = figure.subplots(1, len(panels), squeeze=False)[0]
    names = list(dict.fromkeys(name for panel in panels.values() for name, _, _ in panel))
    for place, (ax, (task, panel)) in enumerate(zip(axes, panels.items(), strict=True)):
        best = max((mean for _, mean, _ in panel), default=0.0)
        for name, mean, std in panel:
            row, color = names.index(name), COLORS["the paper" not in name]
            if mean < best - FAR and not log:
                edge = ax.get_yaxis_transform()
                ax.text(0.02, row, f"← {mean:.1f}", va="center", color=color, transform=edge)
            else:
                ax.errorbar(mean, row, xerr=std, fmt="o", color=color, capsize=3)
        ax.set_title(task)
        ax.set_xscale("log" if log else "linear")
        ax.set_ylim(len(names) - 0.5, -0.5)
        ax.set_yticks(range(len(names)), names if place == 0 else [""] * len(names))
        ax.grid(axis="x", alpha=0.3)
    figure.suptitle(title)
    write_whole(path, rendered(figure))
