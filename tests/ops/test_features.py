import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from pdnas.ops.features import (
    SPARSE_BELOW,
    SparseFeatures,
    WeightedFeatures,
    compact,
    dropout,
    dropout_entries,
    take_nodes,
)

DENSE = torch.tensor([[0.0, 1.0, 0.0], [0.0, 0.0, 0.0], [2.0, 0.0, -3.0]])


def random_sparse(rows: int, cols: int, density: float, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, cols, generator=generator, dtype=torch.float64)
    return x * (torch.rand(rows, cols, generator=generator) < density)


matrices = st.builds(
    random_sparse,
    rows=st.integers(1, 7),
    cols=st.integers(1, 6),
    density=st.sampled_from([0.0, 0.2, 0.7, 1.0]),
    seed=st.integers(0, 99),
)


@given(x=matrices)
def test_a_matrix_survives_being_sparse(x: Tensor) -> None:
    sparse = SparseFeatures.from_tensor(x)
    assert torch.equal(sparse.to_dense(), x)
    assert sparse.shape == x.shape
    assert sparse.values.numel() == int(x.count_nonzero())


@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr, torch.sparse_csc])
@pytest.mark.filterwarnings("ignore:Sparse .* tensor support is in beta:UserWarning")
def test_every_layout_of_torch_is_read(layout: torch.layout) -> None:
    sparse = SparseFeatures.from_tensor(DENSE.to_sparse(layout=layout))
    assert torch.equal(sparse.to_dense(), DENSE)


def test_a_coo_matrix_with_repeated_entries_adds_them() -> None:
    index = torch.tensor([[0, 0, 1], [1, 1, 0]])
    values = torch.tensor([1.0, 2, 5])
    repeated = torch.sparse_coo_tensor(index, values, (2, 2), check_invariants=True)
    assert SparseFeatures.from_tensor(repeated).to_dense().tolist() == [[0, 3], [5, 0]]


@given(x=matrices, width=st.sampled_from([1, 4, 40]))
def test_product_and_gradient_are_the_dense_ones(x: Tensor, width: int) -> None:
    generator = torch.Generator().manual_seed(7)
    weight = torch.randn(x.size(1), width, generator=generator, dtype=x.dtype).requires_grad_()
    result, expected = SparseFeatures.from_tensor(x) @ weight, x @ weight
    torch.testing.assert_close(result, expected)
    seed = torch.randn(expected.shape, generator=generator, dtype=x.dtype)
    (grad,) = torch.autograd.grad(result, weight, seed)
    (want,) = torch.autograd.grad(expected, weight, seed)
    torch.testing.assert_close(grad, want)


@given(parts=st.lists(st.integers(0, 5), min_size=1, max_size=4))
def test_stacked_matrices_lie_below_each_other(parts: list[int]) -> None:
    dense = [random_sparse(rows, 3, 0.5, seed=rows) for rows in parts]
    stacked = SparseFeatures.stack([SparseFeatures.from_tensor(part) for part in dense])
    assert torch.equal(stacked.to_dense(), torch.cat(dense))


def test_nodes_are_taken_in_any_order_in_both_forms() -> None:
    x = torch.tensor([[0.0, 1.0], [2.0, 0.0], [0.0, 0.0], [3.0, 4.0]])
    nodes = torch.tensor([3, 0, 2])
    taken = take_nodes(SparseFeatures.from_tensor(x), nodes)
    assert isinstance(taken, SparseFeatures)
    assert torch.equal(taken.to_dense(), x[nodes])
    plain = take_nodes(x, nodes)
    assert isinstance(plain, Tensor)
    assert torch.equal(plain, x[nodes])


def test_moving_keeps_pattern_and_values() -> None:
    sparse = SparseFeatures.from_tensor(DENSE)
    assert sparse.values.device == torch.device("cpu")
    assert torch.equal(sparse.to("cpu").to_dense(), DENSE)


@pytest.mark.parametrize(
    ("nonzero", "is_sparse"), [(0, True), (24, True), (25, False), (99, False)]
)
def test_density_decides_the_form(nonzero: int, is_sparse: bool) -> None:
    assert SPARSE_BELOW == 0.25
    x = (torch.arange(100) < nonzero).float().view(10, 10)
    features = compact(x)
    assert isinstance(features, SparseFeatures) == is_sparse
    assert torch.equal(features.to_dense(), x)
    if not is_sparse:
        assert features is x


def test_a_sparse_matrix_stays_sparse_whatever_its_density() -> None:
    assert isinstance(compact(torch.ones(3, 3).to_sparse()), SparseFeatures)


@pytest.mark.parametrize(("rate", "training"), [(0.5, False), (0.0, True), (0.0, False)])
def test_without_anything_to_drop_the_same_values_come_back(rate: float, training: bool) -> None:
    assert dropout(DENSE, rate, training) is DENSE
    assert dropout_entries(DENSE, rate, training) is DENSE
    sparse = SparseFeatures.from_tensor(DENSE)
    result = dropout(sparse, rate, training)
    assert isinstance(result, SparseFeatures)
    assert result.values is sparse.values


@pytest.mark.parametrize("rate", [1e-4, 0.1, 0.25, 0.5, 0.6, 0.9, 0.999])
def test_the_rate_is_the_fraction_dropped_and_the_mean_stays(rate: float) -> None:
    count = 400_003  # not a multiple of the four entries that share a random number
    with torch.random.fork_rng():
        torch.manual_seed(0)
        result = dropout_entries(torch.ones(count, dtype=torch.float64), rate, True)
    # Five standard errors of a binomial fraction, and the rounding of the rate to 1 / 65536.
    tolerance = 5 * math.sqrt(rate * (1 - rate) / count)
    assert abs(float((result == 0).double().mean()) - rate) < tolerance + 0.5 / 65536
    assert abs(float(result.mean()) - 1) < tolerance / (1 - rate)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("rate", [0.1, 0.5, 0.999])
def test_entries_are_dropped_or_scaled_by_the_rounded_rate(rate: float, dtype: torch.dtype) -> None:
    x = torch.linspace(1, 2, 5000, dtype=dtype).view(50, 100)
    result = dropout_entries(x, rate, True)
    kept = result != 0
    rounded = round(rate * 65536) / 65536
    assert result.dtype == dtype
    torch.testing.assert_close(result[kept], x[kept] / (1 - rounded))
    assert 0 < int((~kept).sum()) < x.numel()


def test_entries_are_dropped_independently() -> None:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        kept = dropout_entries(torch.ones(100_000, 4), 0.5, True) != 0
    # Neighbors share a random number of 64 bits, yet all 16 patterns of four are equally likely.
    codes = (kept * torch.tensor([1, 2, 4, 8])).sum(1).bincount(minlength=16).double()
    chi_square = ((codes - 6250).square() / 6250).sum()
    assert chi_square < 44.3  # 15 degrees of freedom: 1 in 10 000 exceeds it


def test_the_seed_decides_what_is_dropped() -> None:
    with torch.random.fork_rng():
        torch.manual_seed(1)
        first, other = (dropout_entries(torch.ones(99), 0.5, True) for _ in range(2))
        torch.manual_seed(1)
        again = dropout_entries(torch.ones(99), 0.5, True)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_gradients_pass_what_is_kept_alone() -> None:
    x = torch.ones(1000, requires_grad=True)
    result = dropout_entries(x, 0.5, True)
    result.sum().backward()
    assert x.grad is not None
    assert torch.equal(x.grad, result.detach())


def test_sparse_dropout_touches_stored_values_alone() -> None:
    x = random_sparse(40, 30, 0.3, 0)
    sparse = SparseFeatures.from_tensor(x)
    result = dropout(sparse, 0.5, True)
    assert isinstance(result, SparseFeatures)
    assert result.pattern is sparse.pattern
    dense = result.to_dense()
    assert ((dense == 0) | (dense == 2 * x)).all()
    assert 0 < int(dense.count_nonzero()) < int(x.count_nonzero())
    assert torch.equal(sparse.to_dense(), x)


@given(x=matrices, sparse=st.booleans())
def test_weighted_features_are_a_product_with_a_diagonal(x: Tensor, sparse: bool) -> None:
    generator = torch.Generator().manual_seed(5)
    weights, matrix = (
        torch.randn(x.size(1), *more, generator=generator, dtype=x.dtype).requires_grad_()
        for more in ((), (4,))
    )
    weighted = WeightedFeatures(SparseFeatures.from_tensor(x) if sparse else x, weights)
    assert weighted.shape == x.shape
    result, expected = weighted @ matrix, x @ weights.diag() @ matrix
    torch.testing.assert_close(result, expected)
    seed = torch.randn(expected.shape, generator=generator, dtype=x.dtype)
    for grad, want in zip(
        torch.autograd.grad(result, (weights, matrix), seed),
        torch.autograd.grad(expected, (weights, matrix), seed),
        strict=True,
    ):
        torch.testing.assert_close(grad, want)
