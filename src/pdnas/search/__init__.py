"""How an architecture is chosen, one file per strategy; called, this package does the whole job."""

from pdnas.registry import discover, make_callable
from pdnas.search.base import STRATEGIES, Candidate, Search, SearchEpoch, Strategy
from pdnas.search.problem import Problem

discover(__name__)
make_callable(__name__, "pdnas.api", "search")

__all__ = ["STRATEGIES", "Candidate", "Problem", "Search", "SearchEpoch", "Strategy"]
