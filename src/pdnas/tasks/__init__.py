"""Tasks and where their graphs come from, one file per source."""

from pdnas.registry import discover
from pdnas.tasks.load import AnyTask, find_task, load_task
from pdnas.tasks.source import Graph, Source
from pdnas.tasks.splits import Split
from pdnas.tasks.task import GraphTask

discover(__name__)

__all__ = ["AnyTask", "Graph", "GraphTask", "Source", "Split", "find_task", "load_task"]
