"""The whole job: search, train the candidates, choose, evaluate, one file per step."""

from pdnas.pipeline.budget import reserve
from pdnas.pipeline.problems import grid
from pdnas.pipeline.trials import brief
from pdnas.pipeline.whole import Pipeline, search

__all__ = ["Pipeline", "brief", "grid", "reserve", "search"]
