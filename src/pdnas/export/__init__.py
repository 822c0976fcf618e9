"""Found networks as files of their own, which need no pdnas; called, this package writes them."""

from pdnas.export.ops import Place, Snippet, Weight, learned_attention, source_of
from pdnas.export.published import NetworkSource, Sizes, network_source_of
from pdnas.export.write import export
from pdnas.registry import make_callable

make_callable(__name__, "pdnas.export.write", "export")

__all__ = [
    "NetworkSource",
    "Place",
    "Sizes",
    "Snippet",
    "Weight",
    "export",
    "learned_attention",
    "network_source_of",
    "source_of",
]
