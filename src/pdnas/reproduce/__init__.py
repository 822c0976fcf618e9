"""The paper's tables, ours beside theirs, one file each."""

from pdnas.registry import discover
from pdnas.reproduce.base import TABLES, Table, reproduce

discover(__name__)

__all__ = ["TABLES", "Table", "reproduce"]
