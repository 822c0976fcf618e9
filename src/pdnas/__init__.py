"""pdnas finds the graph neural network that fits a graph.

The public names are imported when they are first used, so that ``pdnas --help`` need not wait for
torch.
"""

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from pdnas.api import search, train
    from pdnas.architecture import Architecture, BlockSpec
    from pdnas.compare import compare
    from pdnas.errors import PdnasError
    from pdnas.export import export
    from pdnas.models import GraphNetwork
    from pdnas.prediction import predict
    from pdnas.runs import Result, load_run
    from pdnas.space import SearchSpace
    from pdnas.tasks import GraphTask, load_task
    from pdnas.training import Recipe
    from pdnas.watcher import Watcher

_HOMES = {
    "Architecture": "pdnas.architecture",
    "BlockSpec": "pdnas.architecture",
    "GraphNetwork": "pdnas.models",
    "GraphTask": "pdnas.tasks",
    "PdnasError": "pdnas.errors",
    "Recipe": "pdnas.training",
    "Result": "pdnas.runs",
    "SearchSpace": "pdnas.space",
    "Watcher": "pdnas.watcher",
    "compare": "pdnas.compare",
    "export": "pdnas.export",
    "load_run": "pdnas.runs",
    "load_task": "pdnas.tasks",
    "predict": "pdnas.prediction",
    "search": "pdnas.api",
    "train": "pdnas.api",
}

__all__ = [
    "Architecture",
    "BlockSpec",
    "GraphNetwork",
    "GraphTask",
    "PdnasError",
    "Recipe",
    "Result",
    "SearchSpace",
    "Watcher",
    "__version__",
    "compare",
    "export",
    "load_run",
    "load_task",
    "predict",
    "search",
    "train",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'pdnas' has no attribute '{name}'")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
