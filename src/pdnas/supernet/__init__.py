"""Networks with the choices open."""

from pdnas.supernet.controller import Controller, candidate_mask
from pdnas.supernet.mixture import MixedNetwork
from pdnas.supernet.router import Router
from pdnas.supernet.summary import GraphSummary
from pdnas.supernet.supernet import Supernet

__all__ = ["Controller", "GraphSummary", "MixedNetwork", "Router", "Supernet", "candidate_mask"]
