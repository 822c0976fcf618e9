"""Pictures as SVG files: text stays text, and the same figures are the same file."""

import io
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BLUE, VERMILION, GREEN, PURPLE = "#0072b2", "#d55e00", "#009e73", "#cc79a7"
ORANGE, SKY, YELLOW, BLACK = "#e69f00", "#56b4e9", "#f0e442", "#000000"
"""The colors of Okabe and Ito, which color-blind people can tell apart."""


def new_figure(width: float, height: float) -> "Figure":
    """An empty figure of a size in inches."""
    # Imported here: it takes a while, and only what is finished is drawn.
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasSVG(figure)
    return figure


def rendered(figure: "Figure") -> bytes:
    """A figure as the content of a file."""
    from matplotlib import rc_context

    content = io.BytesIO()
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "pdnas"}):
        figure.savefig(content, format="svg", metadata={"Date": None})
    return content.getvalue()
