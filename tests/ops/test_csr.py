"""Sparse products against dense ones, on whatever the kernels have to face."""

import math
from collections.abc import Iterator

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.autograd import gradcheck

from pdnas.ops.csr import (
    CPU_CHANNELS,
    SHORT_ROWS,
    Csr,
    Permute,
    csr_inner,
    csr_matmul,
    csr_max,
    take_rows,
)

FLOATS = (torch.float32, torch.float64)
WIDTHS = (1, 3, CPU_CHANNELS, CPU_CHANNELS + 1, 2 * CPU_CHANNELS + 5)


@st.composite
def patterns(draw: st.DrawFn) -> Csr:
    """Any pattern of up to 6 x 5, empty rows, empty columns and repeated entries included."""
    num_rows, num_cols = draw(st.integers(1, 6)), draw(st.integers(1, 5))
    place = st.tuples(st.integers(0, num_rows - 1), st.integers(0, num_cols - 1))
    places = sorted(draw(st.lists(place, max_size=12)), key=lambda entry: entry[0])
    rows, cols = torch.tensor(places, dtype=torch.long).reshape(-1, 2).unbind(1)
    return Csr.from_rows(rows, cols, (num_rows, num_cols))


def dense_of(pattern: Csr, values: Tensor) -> Tensor:
    """The matrix; entries at the same place add up."""
    dense = values.new_zeros(pattern.num_rows, pattern.num_cols)
    return dense.index_put((pattern.rows, pattern.cols.long()), values, accumulate=True)


def randn(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=dtype).requires_grad_()


def loop_max(pattern: Csr, values: Tensor, dense: Tensor) -> Tensor:
    """Row by row: the largest product, or zeros."""
    products, rows = values.unsqueeze(1) * dense[pattern.cols.long()], pattern.rows
    empty = 0 * (dense.sum(0) + values.sum())  # zeros that know where they come from
    found = [products[rows == row] for row in range(pattern.num_rows)]
    return torch.stack([part.amax(0) if len(part) else empty for part in found])


def assert_same_gradients(result: Tensor, expected: Tensor, *inputs: Tensor) -> None:
    seed = torch.linspace(-1, 2, result.numel(), dtype=result.dtype).view(result.shape)
    grads = torch.autograd.grad(result, inputs, seed, materialize_grads=True)
    wanted = torch.autograd.grad(expected, inputs, seed, materialize_grads=True)
    for grad, want in zip(grads, wanted, strict=True):
        torch.testing.assert_close(grad, want)


@pytest.fixture(params=["mkl", "no mkl"])
def either_library(request: pytest.FixtureRequest) -> Iterator[None]:
    """Both ways to multiply on a CPU."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "no mkl":
            patch.setattr(torch.backends.mkl, "is_available", lambda: False)
        elif not torch.backends.mkl.is_available():
            pytest.skip("this torch has no MKL")
        yield


EXAMPLE = Csr.from_rows(torch.tensor([0, 0, 0, 2, 4, 4]), torch.tensor([3, 1, 1, 0, 2, 3]), (5, 4))
"""Rows 1 and 3 are empty; the entry (0, 1) stands there twice."""

EMPTY = Csr.from_rows(torch.empty(0).long(), torch.empty(0).long(), (5, 4))


def test_rows_are_pointed_at() -> None:
    assert EXAMPLE.rowptr.tolist() == [0, 3, 3, 4, 4, 6]
    assert EXAMPLE.rows.tolist() == [0, 0, 0, 2, 4, 4]
    assert (EXAMPLE.num_rows, EXAMPLE.num_cols, EXAMPLE.nnz) == (5, 4, 6)


@given(pattern=patterns())
def test_indices_have_32_bits_everywhere(pattern: Csr) -> None:
    for each in (pattern, pattern.transposed[0], pattern.per_head(3)[0]):
        assert each.rowptr.dtype == each.cols.dtype == torch.int32
        assert each.cols.is_contiguous()


def test_indices_have_64_bits_where_32_do_not_suffice() -> None:
    wide = Csr.from_pointers(torch.tensor([0, 1]), torch.tensor([2**31]), num_cols=2**31 + 1)
    assert wide.rowptr.dtype == wide.cols.dtype == torch.int64


@given(pattern=patterns(), seed=st.integers(0, 99))
def test_the_matrix_has_its_values_where_the_pattern_says(pattern: Csr, seed: int) -> None:
    values = randn(pattern.nnz, seed=seed).detach()
    expected = torch.zeros(pattern.num_rows, pattern.num_cols, dtype=torch.float64)
    for row, col, value in zip(pattern.rows, pattern.cols, values, strict=True):
        expected[row, col] += value
    torch.testing.assert_close(dense_of(pattern, values), expected)


@given(pattern=patterns(), seed=st.integers(0, 99))
def test_the_transpose_is_the_transpose(pattern: Csr, seed: int) -> None:
    values = randn(pattern.nnz, seed=seed)
    flipped, order = pattern.transposed
    expected = dense_of(pattern, values).t()
    torch.testing.assert_close(dense_of(flipped, values[order]), expected)


def test_the_transpose_is_found_once() -> None:
    assert EXAMPLE.transposed is EXAMPLE.transposed


@given(pattern=patterns(), heads=st.integers(1, 4), seed=st.integers(0, 99))
def test_each_head_has_the_pattern_to_itself(pattern: Csr, heads: int, seed: int) -> None:
    values = randn(pattern.nnz, heads, seed=seed).detach()
    expanded, order, inverse = pattern.per_head(heads)
    assert torch.equal(inverse[order], torch.arange(pattern.nnz * heads))
    # Those of a row come head by head, each in their own order.
    rows = (pattern.rows.unsqueeze(1) * heads + torch.arange(heads)).flatten()
    assert torch.equal(order, torch.argsort(rows, stable=True))
    dense = dense_of(expanded, values.flatten()[order])
    shape = (pattern.num_rows, heads, pattern.num_cols, heads)
    expected = torch.zeros(shape, dtype=torch.float64)
    for head in range(heads):
        expected[:, head, :, head] = dense_of(pattern, values[:, head])
    torch.testing.assert_close(dense.view(shape), expected)


@given(pattern=patterns(), seed=st.integers(0, 99), width=st.sampled_from(WIDTHS))
def test_product_and_gradients_are_the_dense_ones(pattern: Csr, seed: int, width: int) -> None:
    values, dense = randn(pattern.nnz, seed=seed), randn(pattern.num_cols, width, seed=seed + 1)
    result = csr_matmul(pattern, values, dense)
    expected = dense_of(pattern, values) @ dense
    torch.testing.assert_close(result, expected)
    assert_same_gradients(result, expected, values, dense)


@pytest.mark.usefixtures("either_library")
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("pattern", [EXAMPLE, EMPTY], ids=["example", "empty"])
def test_product_is_right_with_and_without_mkl(
    pattern: Csr, width: int, dtype: torch.dtype
) -> None:
    values, dense = randn(pattern.nnz, dtype=dtype), randn(4, width, seed=1, dtype=dtype)
    result = csr_matmul(pattern, values, dense)
    expected = dense_of(pattern, values) @ dense
    assert result.dtype == dtype
    torch.testing.assert_close(result, expected)
    assert_same_gradients(result, expected, values, dense)


@pytest.mark.usefixtures("either_library")
def test_operands_need_not_be_contiguous() -> None:
    values, dense = randn(12)[::2], randn(6, 4, seed=1).t()
    result = csr_matmul(EXAMPLE, values, dense)
    torch.testing.assert_close(result, dense_of(EXAMPLE, values) @ dense)


@given(pattern=patterns(), seed=st.integers(0, 99), width=st.sampled_from(WIDTHS))
def test_inner_products_and_gradients_are_the_dense_ones(
    pattern: Csr, seed: int, width: int
) -> None:
    left = randn(pattern.num_rows, width, seed=seed)
    right = randn(pattern.num_cols, width, seed=seed + 1)
    result = csr_inner(pattern, left, right)
    expected = (left @ right.t())[pattern.rows, pattern.cols.long()]
    torch.testing.assert_close(result, expected)
    assert_same_gradients(result, expected, left, right)


@pytest.mark.usefixtures("either_library")
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_inner_products_keep_the_precision(dtype: torch.dtype) -> None:
    left, right = randn(5, 7, dtype=dtype), randn(4, 7, seed=1, dtype=dtype)
    result = csr_inner(EXAMPLE, left, right)
    assert result.dtype == dtype
    torch.testing.assert_close(result, (left @ right.t())[EXAMPLE.rows, EXAMPLE.cols.long()])


@given(pattern=patterns(), seed=st.integers(0, 99), width=st.sampled_from(WIDTHS))
def test_maximum_and_gradients_are_those_of_a_loop(pattern: Csr, seed: int, width: int) -> None:
    values, dense = randn(pattern.nnz, seed=seed), randn(pattern.num_cols, width, seed=seed + 1)
    result = csr_max(pattern, values, dense)
    expected = loop_max(pattern, values, dense)
    torch.testing.assert_close(result, expected)
    assert_same_gradients(result, expected, values, dense)


@pytest.mark.parametrize("product", [csr_matmul, csr_max], ids=["matmul", "max"])
def test_gradcheck_agrees_on_products(product: object) -> None:
    assert callable(product)
    values, dense = randn(6), randn(4, 3, seed=1)
    assert gradcheck(lambda *both: product(EXAMPLE, *both), (values, dense))


def test_gradcheck_agrees_on_inner_products() -> None:
    left, right = randn(5, 3), randn(4, 3, seed=1)
    assert gradcheck(lambda *both: csr_inner(EXAMPLE, *both), (left, right))


def test_more_entries_than_places_leave_the_pattern_alone() -> None:
    pattern = Csr.from_rows(torch.tensor([0, 0]), torch.tensor([0, 0]), (1, 1))
    products = csr_inner(pattern, randn(1, 3), randn(1, 3, seed=1))
    assert products.shape == (2,)
    assert pattern.cols.tolist() == [0, 0]


@pytest.mark.parametrize("wanted", ["values", "dense"])
def test_one_gradient_is_found_without_the_other(wanted: str) -> None:
    values, dense = randn(6), randn(4, 3, seed=1)
    other = dense if wanted == "values" else values
    other.requires_grad_(False)
    csr_matmul(EXAMPLE, values, dense).sum().backward()
    one = values if wanted == "values" else dense
    assert one.grad is not None
    assert one.grad.abs().sum() > 0
    assert other.grad is None


def test_nothing_reads_memory_that_nobody_wrote(monkeypatch: pytest.MonkeyPatch) -> None:
    def poisoned(tensor: Tensor, *size: int) -> Tensor:
        return tensor.new_full(size, torch.nan)

    monkeypatch.setattr(Tensor, "new_empty", poisoned)
    left, right = randn(5, 7), randn(4, 7, seed=1)
    assert left.new_empty(1).isnan()
    assert csr_inner(EXAMPLE, left, right).isfinite().all()
    assert csr_matmul(EXAMPLE, randn(6), right).isfinite().all()


@pytest.mark.parametrize("rows", [[], [0], [4, 1, 1], [3, 2, 1, 0]])
def test_selected_rows_are_those_of_the_matrix(rows: list[int]) -> None:
    values, index = randn(EXAMPLE.nnz).detach(), torch.tensor(rows, dtype=torch.long)
    pattern, entries = EXAMPLE.select(index)
    whole = EXAMPLE.with_values(values).to_dense()
    if rows:
        assert torch.equal(pattern.with_values(values[entries]).to_dense(), whole[index])
    assert (pattern.num_rows, pattern.num_cols) == (len(rows), EXAMPLE.num_cols)


def test_a_permutation_and_its_gradient() -> None:
    order = torch.tensor([2, 0, 3, 1])
    values = randn(4)
    permuted = Permute.apply(values, order, torch.argsort(order))
    assert torch.equal(permuted, values[order])
    assert_same_gradients(permuted, values[order], values)


def test_to_the_same_device_is_the_same_object() -> None:
    assert EXAMPLE.to("cpu") is EXAMPLE


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("shape", [(), (1,), (3,), (4, 2), (32,), (33,), (16, 4)])
def test_rows_are_taken_whatever_their_width(shape: tuple[int, ...], device: str) -> None:
    x = torch.arange(7 * math.prod(shape), dtype=torch.float32, device=device).view(7, *shape)
    index = torch.tensor([6, 0, 0, 3], device=device)
    assert torch.equal(take_rows(x, index), x[index])
    assert take_rows(x, index[:0]).shape == (0, *shape)
    assert {math.prod(size) in SHORT_ROWS for size in ((1,), (3,), (4, 2), (33,))} == {True, False}


@given(blocks=st.lists(patterns(), min_size=1, max_size=3))
def test_blocks_along_the_diagonal_are_a_pattern_and_so_is_its_transpose(blocks: list[Csr]) -> None:
    joined = Csr.diagonal(blocks)
    values = [1 + torch.arange(block.nnz, dtype=torch.float64) for block in blocks]
    expected = torch.block_diag(
        *[dense_of(block, own) for block, own in zip(blocks, values, strict=True)]
    )
    assert torch.equal(dense_of(joined, torch.cat(values)), expected)
    transposed, order = joined.transposed
    assert torch.equal(dense_of(transposed, torch.cat(values)[order]), expected.t())
    plain = Csr(joined.rowptr, joined.cols, joined.num_cols).transposed
    assert torch.equal(order, plain[1]), "as if everything had been sorted at once"


def test_transposes_of_blocks_are_found_once_for_all_diagonals() -> None:
    block = Csr.from_rows(torch.tensor([0, 1]), torch.tensor([1, 0]), (2, 2))
    before = block.transposed
    assert Csr.diagonal([block, block]).transposed[0].blocks == (before[0], before[0])
