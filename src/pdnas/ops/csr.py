"""Sparse matrices in compressed rows: one pattern, many values, products with gradients.

A graph's edges and a sparse feature matrix are both a *pattern* that is found once and *values*
that change at every step (attention, dropout). The products here use torch's CSR kernels and, for
gradients, the pattern's transpose, which is also found only once.
"""

import itertools
import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

with warnings.catch_warnings():
    # Once per process torch says that CSR is in beta and unchecked; it is said here, to nobody.
    warnings.simplefilter("ignore")
    torch.sparse_csr_tensor([0, 1], [0], [1.0], size=(1, 1))

CPU_CHANNELS = 32
"""Channels that a product takes at a time on a CPU; more of them overflow its caches."""

SHORT_ROWS = range(3, 33)
"""Widths of rows that are gathered entry by entry on a GPU."""


@dataclass(frozen=True, eq=False)
class Csr:
    """The pattern of a sparse matrix ``[num_rows, num_cols]``.

    Args:
        rowptr: Where each row starts among the entries, ``[num_rows + 1]``.
        cols: Column of each entry, row by row, ``[nnz]``.
        num_cols: Number of columns.
        blocks: The patterns along the diagonal of which it is made, if it was made so.
    """

    rowptr: Tensor
    cols: Tensor
    num_cols: int
    blocks: tuple["Csr", ...] = ()

    @classmethod
    def from_pointers(cls, rowptr: Tensor, cols: Tensor, num_cols: int) -> "Csr":
        """With indices of 32 bits where they suffice, which CPU kernels read twice as fast."""
        largest = max(cols.numel(), num_cols, rowptr.numel())
        dtype = torch.int32 if largest < 2**31 else torch.int64
        return cls(rowptr.to(dtype), cols.to(dtype).contiguous(), num_cols)

    @classmethod
    def from_rows(cls, rows: Tensor, cols: Tensor, shape: tuple[int, int]) -> "Csr":
        """From the row of each entry, sorted, and its column."""
        rowptr = rows.new_zeros(shape[0] + 1)
        torch.cumsum(torch.bincount(rows, minlength=shape[0]), 0, out=rowptr[1:])
        return cls.from_pointers(rowptr, cols, shape[1])

    @classmethod
    def diagonal(cls, blocks: Sequence["Csr"]) -> "Csr":
        """Several patterns along the diagonal; nothing is sorted, now or for the transpose."""
        entries = offsets([block.nnz for block in blocks])
        columns = offsets([block.num_cols for block in blocks])
        rowptr, cols = [blocks[0].rowptr[:1].long()], []
        for block, entry, column in zip(blocks, entries, columns, strict=False):
            rowptr.append(block.rowptr[1:].long() + entry)
            cols.append(block.cols.long() + column)
        made = cls.from_pointers(torch.cat(rowptr), torch.cat(cols), columns[-1])
        return replace(made, blocks=tuple(blocks))

    @property
    def num_rows(self) -> int:
        return self.rowptr.numel() - 1

    @property
    def nnz(self) -> int:
        return self.cols.numel()

    @cached_property
    def rows(self) -> Tensor:
        """Row of each entry, ``[nnz]``."""
        index = torch.arange(self.num_rows, device=self.rowptr.device)
        return index.repeat_interleave(self.rowptr.diff(), output_size=self.nnz)

    @cached_property
    def transposed(self) -> tuple["Csr", Tensor]:
        """The transpose, and the order in which it reads this pattern's values."""
        if self.blocks:
            parts = [block.transposed for block in self.blocks]
            return Csr.diagonal([part for part, _ in parts]), shifted([own for _, own in parts])
        order = torch.argsort(self.cols, stable=True)
        cols = self.rows[order]
        shape = (self.num_cols, self.num_rows)
        return Csr.from_rows(self.cols[order].long(), cols, shape), order

    def select(self, rows: Tensor) -> tuple["Csr", Tensor]:
        """Some rows, in that order, and which entries these have here, ``[nnz']``."""
        first = self.rowptr[rows].long()  # of these rows alone: a step of a training asks for few
        counts = self.rowptr[rows + 1].long() - first
        rowptr = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
        shifts = (first - rowptr[:-1]).repeat_interleave(counts)
        entries = torch.arange(shifts.numel(), device=rows.device) + shifts
        return Csr.from_pointers(rowptr, self.cols[entries], self.num_cols), entries

    def per_head(self, heads: int) -> tuple["Csr", Tensor, Tensor]:
        r"""A pattern in which row and column ``i`` become ``i H`` to ``i H + H - 1``, one per head.

        One product with ``[N H, C]``, which is ``[N, H, C]`` as it lies in memory, then serves all
        heads. With it come the order in which it reads values ``[nnz, H]``, and that order's
        inverse. Entries (row, entry, head) are to be sorted by (row, head), and where each belongs
        needs no sorting: for entry :math:`k` of a row that begins at :math:`f` and has :math:`d`
        entries, at :math:`H f + h d + (k - f)`.
        """
        head = torch.arange(heads, device=self.cols.device)
        degrees = self.rowptr.diff().long()
        counts = degrees.repeat_interleave(heads)
        rowptr = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
        first = self.rowptr[:-1].long()[self.rows]
        base = torch.arange(self.nnz, device=first.device) + (heads - 1) * first
        inverse = (base.unsqueeze(1) + head * degrees[self.rows].unsqueeze(1)).flatten()
        order = torch.empty_like(inverse)
        order[inverse] = torch.arange(inverse.numel(), device=inverse.device)
        entries = order.div(heads, rounding_mode="floor")
        cols = self.cols.long()[entries] * heads + (order - entries * heads)
        return Csr.from_pointers(rowptr, cols, heads * self.num_cols), order, inverse

    def with_values(self, values: Tensor) -> Tensor:
        """The matrix as a torch CSR tensor; gradients flow to ``values``."""
        size = (self.num_rows, self.num_cols)
        return torch.sparse_csr_tensor(
            self.rowptr, self.cols, values, size=size, check_invariants=False
        )

    def to(self, device: torch.device | str) -> "Csr":
        if self.cols.device == torch.device(device):
            return self
        return Csr(self.rowptr.to(device), self.cols.to(device), self.num_cols)


def offsets(sizes: Sequence[int]) -> list[int]:
    """Where each of some things begins that stand one behind the other, and where all end."""
    return [0, *itertools.accumulate(sizes)]


def shifted(orders: Sequence[Tensor]) -> Tensor:
    """Permutations one behind the other, as a permutation of all."""
    begins = offsets([order.numel() for order in orders])
    return torch.cat([order + begin for order, begin in zip(orders, begins, strict=False)])


def csr_matmul(pattern: Csr, values: Tensor, dense: Tensor) -> Tensor:
    """``A @ dense`` for the matrix ``A`` of a pattern, ``[nnz], [num_cols, C] -> [num_rows, C]``.

    Gradients flow to both arguments.
    """
    result: Tensor = _CsrMatmul.apply(pattern, values, dense)
    return result


def csr_inner(pattern: Csr, left: Tensor, right: Tensor) -> Tensor:
    """``left @ right.T`` at the pattern's entries, ``[num_rows, C], [num_cols, C] -> [nnz]``.

    Gradients flow to both arguments.
    """
    result: Tensor = _CsrInner.apply(pattern, left, right)
    return result


def csr_max(pattern: Csr, values: Tensor, dense: Tensor) -> Tensor:
    r""":math:`\max_j A_{ij} X_j` over the stored entries; rows without entries give 0.

    Shapes as in :func:`csr_matmul`; gradients flow to both arguments. Of equal largest products
    the first gets the gradient on a CPU, and all share it on a GPU.
    """
    if dense.device.type == "cpu":
        largest: Tensor = _CsrMax.apply(pattern, values, dense)
        return largest
    products = values.unsqueeze(1) * dense.index_select(0, pattern.cols)
    rows = pattern.rows.unsqueeze(1).expand_as(products)
    zeros = dense.new_zeros(pattern.num_rows, dense.size(1))
    return zeros.scatter_reduce(0, rows, products, "amax", include_self=False)


def _product(pattern: Csr, values: Tensor, dense: Tensor) -> Tensor:
    """``A @ dense`` without gradients."""
    if pattern.nnz == 0:
        return dense.new_zeros(pattern.num_rows, dense.size(1))
    matrix = pattern.with_values(values)
    if not dense.is_cuda and dense.size(1) > CPU_CHANNELS:
        return torch.cat([_kernel(matrix, part) for part in dense.split(CPU_CHANNELS, 1)], 1)
    return _kernel(matrix, dense)


def _kernel(matrix: Tensor, dense: Tensor) -> Tensor:
    """``matrix @ dense`` by the library that the device has."""
    if dense.is_cuda or torch.backends.mkl.is_available():
        # Given where to write, torch neither zeroes nor copies what it would overwrite.
        out = dense.new_empty(matrix.size(0), dense.size(1))
        return torch.addmm(out, matrix, dense.contiguous(), beta=0, out=out)
    summed: Tensor = torch.sparse.mm(matrix, dense.contiguous(), "sum")
    return summed


def _sampled_product(pattern: Csr, left: Tensor, right: Tensor) -> Tensor:
    """``left @ right.T`` at the entries of the pattern alone, ``[nnz]``."""
    if pattern.nnz == 0:
        return left.new_zeros(0)
    if pattern.nnz > pattern.num_rows * pattern.num_cols:
        # Parallel edges on a tiny graph: torch takes such a matrix for a broken one.
        products = left.index_select(0, pattern.rows) * right.index_select(0, pattern.cols)
        return products.sum(dim=1)
    # Zeros, not whatever lies in memory: the kernel multiplies it by beta, and 0 * nan is nan.
    out = pattern.with_values(left.new_zeros(pattern.nnz))
    torch.sparse.sampled_addmm(out, left.contiguous(), right.t(), beta=0.0, out=out)
    return out.values()


class _CsrMatmul(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, pattern: Csr, values: Tensor, dense: Tensor) -> Tensor:
        ctx.pattern = pattern
        ctx.save_for_backward(values, dense)
        return _product(pattern, values, dense)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor | None, Tensor | None]:
        values, dense = ctx.saved_tensors
        grad_values = grad_dense = None
        if ctx.needs_input_grad[1]:
            grad_values = _sampled_product(ctx.pattern, grad, dense)
        if ctx.needs_input_grad[2]:
            pattern, order = ctx.pattern.transposed
            grad_dense = _product(pattern, values.index_select(0, order), grad)
        return None, grad_values, grad_dense


class _CsrInner(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, pattern: Csr, left: Tensor, right: Tensor) -> Tensor:
        ctx.pattern = pattern
        ctx.save_for_backward(left, right)
        return _sampled_product(pattern, left, right)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor, Tensor]:
        left, right = ctx.saved_tensors
        pattern, order = ctx.pattern.transposed
        grad_left = _product(ctx.pattern, grad, right)
        return None, grad_left, _product(pattern, grad.index_select(0, order), left)


class _CsrMax(torch.autograd.Function):
    """Torch's own maximum and its gradient, but for one step of it.

    On the way from the matrix back to its values torch sorts and merges each row's columns, which
    gives edges each other's gradients; so its record ends at the matrix, and the values, whose
    order nobody touched, are read off there.
    """

    @staticmethod
    def forward(ctx: Any, pattern: Csr, values: Tensor, dense: Tensor) -> Tensor:
        matrix = pattern.with_values(values.detach()).requires_grad_(ctx.needs_input_grad[1])
        dense = dense.detach().contiguous().requires_grad_(ctx.needs_input_grad[2])
        with torch.enable_grad():
            largest: Tensor = torch.sparse.mm(matrix, dense, "amax")
        ctx.record = (matrix, dense, largest)
        return largest.detach()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor | None, Tensor | None]:
        matrix, dense, largest = ctx.record
        wanted = [tensor for tensor in (matrix, dense) if tensor.requires_grad]
        found = torch.autograd.grad(largest, wanted, grad.contiguous(), retain_graph=True)
        grad_values = found[0].values() if matrix.requires_grad else None
        return None, grad_values, found[-1] if dense.requires_grad else None


def take_rows(x: Tensor, index: Tensor) -> Tensor:
    """``x[index]``, ``[N, ...], [E] -> [E, ...]``.

    On a GPU torch gives every row a block of threads, however short the row is; entry by entry is
    then many times faster.
    """
    width = math.prod(x.shape[1:])
    if x.device.type == "cpu" or width not in SHORT_ROWS:
        return x.index_select(0, index)
    rows = x.reshape(-1, width).gather(0, index.unsqueeze(1).repeat(1, width))
    return rows.view(-1, *x.shape[1:])


class Permute(torch.autograd.Function):
    """``values[order]`` for a permutation, whose gradient is a gather too and not a scatter."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, order: Tensor, inverse: Tensor) -> Tensor:
        ctx.inverse = inverse
        return values.index_select(0, order)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        return grad.index_select(0, ctx.inverse), None, None
