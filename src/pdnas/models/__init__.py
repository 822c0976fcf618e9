"""Networks with the choices made."""

from pdnas.models.block import GraphBlock
from pdnas.models.network import GraphNetwork

__all__ = ["GraphBlock", "GraphNetwork"]
