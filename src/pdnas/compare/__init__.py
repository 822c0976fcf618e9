"""Rivals on one split under one budget; called, this package compares them."""

from pdnas.compare.base import Comparison, compare
from pdnas.compare.standing import Standing, Verdict
from pdnas.registry import make_callable

make_callable(__name__, "pdnas.compare.base", "compare")

__all__ = ["Comparison", "Standing", "Verdict", "compare"]
