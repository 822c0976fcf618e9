"""How an architecture is chosen, one file per strategy."""

from pdnas.registry import discover
from pdnas.search.base import STRATEGIES, Candidate, Search, SearchEpoch, Strategy
from pdnas.search.problem import Problem

discover(__name__)

__all__ = ["STRATEGIES", "Candidate", "Problem", "Search", "SearchEpoch", "Strategy"]
