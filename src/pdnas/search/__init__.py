"""How an architecture is chosen, one file per strategy; called, this package does the whole job."""

import importlib
import sys
from types import ModuleType
from typing import Any

from pdnas.registry import discover
from pdnas.search.base import STRATEGIES, Candidate, Search, SearchEpoch, Strategy
from pdnas.search.problem import Problem

discover(__name__)


class _Package(ModuleType):
    """``pdnas.search`` is this package and, for those who have a graph, a function."""

    def __call__(self, *arguments: Any, **settings: Any) -> Any:
        """See :func:`pdnas.tuning.search`."""
        return importlib.import_module("pdnas.tuning").search(*arguments, **settings)


sys.modules[__name__].__class__ = _Package

__all__ = ["STRATEGIES", "Candidate", "Problem", "Search", "SearchEpoch", "Strategy"]
