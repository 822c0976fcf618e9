"""Node features, dense or sparse, and the two things done to them: products and dropout."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor

from pdnas.ops.csr import Csr, csr_matmul

SPARSE_BELOW = 0.25
"""Density under which features are kept sparse, where a sparse step is the faster one on a CPU."""


@dataclass(frozen=True)
class SparseFeatures:
    """A feature matrix ``[N, F]`` that is never made dense.

    The pattern, its transpose and the order of the values in the transpose are found once; dropout
    and products then touch the ``nnz`` stored values alone.

    Args:
        pattern: Where the non-zero entries are.
        values: The entries, ``[nnz]``, row by row.
    """

    pattern: Csr
    values: Tensor

    @classmethod
    def from_tensor(cls, x: Tensor) -> "SparseFeatures":
        """From a matrix, dense or in one of torch's sparse layouts."""
        if x.layout == torch.sparse_csr:
            pattern = Csr.from_pointers(x.crow_indices(), x.col_indices(), x.size(1))
            return cls(pattern, x.values())
        if x.layout == torch.strided:
            rows, cols = x.nonzero(as_tuple=True)
            values = x[rows, cols]
        else:
            x = x.to_sparse_coo().coalesce()
            rows, cols = x.indices()
            values = x.values()
        return cls(Csr.from_rows(rows, cols, (x.size(0), x.size(1))), values)

    @classmethod
    def stack(cls, parts: Sequence["SparseFeatures"]) -> "SparseFeatures":
        """Several matrices of the same width below each other."""
        counts = torch.cat([part.pattern.rowptr.diff() for part in parts])
        rowptr = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
        cols = torch.cat([part.pattern.cols for part in parts])
        pattern = Csr.from_pointers(rowptr, cols, parts[0].pattern.num_cols)
        return cls(pattern, torch.cat([part.values for part in parts]))

    @property
    def shape(self) -> torch.Size:
        return torch.Size((self.pattern.num_rows, self.pattern.num_cols))

    def to(self, device: torch.device | str) -> "SparseFeatures":
        return SparseFeatures(self.pattern.to(device), self.values.to(device))

    def select(self, rows: Tensor) -> "SparseFeatures":
        """Some rows, in that order."""
        pattern, entries = self.pattern.select(rows)
        return SparseFeatures(pattern, self.values[entries])

    def to_dense(self) -> Tensor:
        """The matrix itself, for inspection; nothing in a network calls this."""
        rows = self.pattern.rows
        dense = self.values.new_zeros(self.shape)
        return dense.index_put_((rows, self.pattern.cols.long()), self.values, accumulate=True)

    def __matmul__(self, weight: Tensor) -> Tensor:
        return csr_matmul(self.pattern, self.values, weight)


Features: TypeAlias = Tensor | SparseFeatures


@dataclass(frozen=True)
class WeightedFeatures:
    """Features of which each has a weight of its own, ``x diag(w)``.

    All that it knows is a product, in which the smaller of the two matrices is the one weighted.

    Args:
        features: ``x``, ``[N, F]``.
        weights: ``w``, ``[F]``.
    """

    features: Features
    weights: Tensor

    @property
    def shape(self) -> torch.Size:
        return self.features.shape

    def __matmul__(self, weight: Tensor) -> Tensor:
        return self.features @ (self.weights.unsqueeze(1) * weight)


BlockInput: TypeAlias = Features | WeightedFeatures
"""What a block reads: raw features or another block's output; a product is all that is asked."""


def take_nodes(x: Features, nodes: Tensor) -> Features:
    """The features of some nodes, in that order."""
    return x.select(nodes) if isinstance(x, SparseFeatures) else x.index_select(0, nodes)


def compact(x: Tensor) -> Features:
    """Features in the faster of the two forms, by their density."""
    if x.layout == torch.strided and int(torch.count_nonzero(x)) >= SPARSE_BELOW * x.numel():
        return x
    return SparseFeatures.from_tensor(x)


def dropout(x: Features, rate: float, training: bool) -> Features:
    """Zero each entry with probability ``rate`` and divide the rest by ``1 - rate``."""
    if isinstance(x, SparseFeatures):
        return SparseFeatures(x.pattern, dropout_entries(x.values, rate, training))
    return dropout_entries(x, rate, training)


def dropout_entries(x: Tensor, rate: float, training: bool) -> Tensor:
    """:func:`dropout` of a dense tensor."""
    if not training or rate == 0:
        return x
    if x.device.type != "cpu":
        return F.dropout(x, rate)
    return x * _cpu_mask(x, rate)


def _cpu_mask(x: Tensor, rate: float) -> Tensor:
    """Zeros with probability ``rate``, the inverse of what remains elsewhere, shaped like ``x``.

    Torch's dropout draws a 64-bit number for each entry; here each serves four entries, with the
    rate rounded to a multiple of 1 / 65536, in a third of the time.
    """
    dropped = min(round(rate * 65536), 65535)
    draws = torch.empty((x.numel() + 3) // 4, dtype=torch.int64).random_(-(2**63), None)
    quarters = draws.view(torch.int16)[: x.numel()]
    # Compared right into floats, which spares a pass over booleans.
    mask = torch.ge(quarters, dropped - 32768, out=x.new_empty(x.numel()))
    return mask.mul_(65536 / (65536 - dropped)).view(x.shape)
