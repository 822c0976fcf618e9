"""The whole job: search, train the candidates, choose, evaluate, one file per step."""

from pdnas.pipeline.budget import reserve
from pdnas.pipeline.plan import new_progress
from pdnas.pipeline.problems import grid
from pdnas.pipeline.trials import brief
from pdnas.pipeline.whole import Pipeline, search

__all__ = ["Pipeline", "brief", "grid", "new_progress", "reserve", "search"]
