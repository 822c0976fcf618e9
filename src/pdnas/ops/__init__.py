"""Candidates for each slot of a block, one file per slot, and the sparse products under them."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from pdnas.ops.activation import ACTIVATIONS
from pdnas.ops.adjacency import Adjacency
from pdnas.ops.aggregation import AGGREGATIONS, Aggregation
from pdnas.ops.attention import ATTENTIONS, Attention, LearnedAttention
from pdnas.ops.base import Dims, Op
from pdnas.ops.combine import COMBINES, Combine
from pdnas.ops.features import BlockInput, Features, SparseFeatures
from pdnas.ops.heads import HEADS
from pdnas.ops.norm import NORMS
from pdnas.ops.propagation import PROPAGATIONS, Propagation
from pdnas.ops.transform import TRANSFORMS
from pdnas.registry import Registry

SLOTS: Mapping[str, Registry[Any, Any]] = MappingProxyType(
    {
        "expansion": TRANSFORMS,
        "propagation": PROPAGATIONS,
        "attention": ATTENTIONS,
        "heads": HEADS,
        "aggregation": AGGREGATIONS,
        "combine": COMBINES,
        "norm": NORMS,
        "activation": ACTIVATIONS,
    }
)
"""Every slot of a block and the registry of its ops, in the order in which a block applies them."""

__all__ = [
    "ACTIVATIONS",
    "AGGREGATIONS",
    "ATTENTIONS",
    "COMBINES",
    "HEADS",
    "NORMS",
    "PROPAGATIONS",
    "SLOTS",
    "TRANSFORMS",
    "Adjacency",
    "Aggregation",
    "Attention",
    "BlockInput",
    "Combine",
    "Dims",
    "Features",
    "LearnedAttention",
    "Op",
    "Propagation",
    "SparseFeatures",
]
