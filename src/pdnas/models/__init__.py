"""Networks with the choices made."""

from pdnas.models.baselines import BASELINES, Baseline
from pdnas.models.block import GraphBlock
from pdnas.models.design import AnyDesign, Design, Network, load_design, make_network
from pdnas.models.network import GraphNetwork
from pdnas.models.published import Published, PublishedNetwork

__all__ = [
    "BASELINES",
    "AnyDesign",
    "Baseline",
    "Design",
    "GraphBlock",
    "GraphNetwork",
    "Network",
    "Published",
    "PublishedNetwork",
    "load_design",
    "make_network",
]
