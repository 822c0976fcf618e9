"""Hand-designed networks, one file each, under the names that the command line knows."""

from pdnas.models.baselines.base import BASELINES, Baseline, block_designs
from pdnas.registry import discover

discover(__name__)

__all__ = ["BASELINES", "Baseline", "block_designs"]
