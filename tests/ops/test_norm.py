"""Norms by hand, and what they depend on."""

from math import sqrt

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from pdnas.architecture import BlockSpec
from pdnas.ops import NORMS, Dims, Op

EPS = 1e-5
X = torch.tensor(
    [[1.0, 3.0, 5.0], [5.0, 3.0, 1.0], [0.0, 3.0, 0.0], [2.0, 3.0, 2.0]], dtype=torch.float64
)

# Means 3, 3, 1 and 2; variances 8 / 3, 8 / 3, 2 and 2 / 9.
LAYER = [
    [-2 / sqrt(8 / 3 + EPS), 0, 2 / sqrt(8 / 3 + EPS)],
    [2 / sqrt(8 / 3 + EPS), 0, -2 / sqrt(8 / 3 + EPS)],
    [-1 / sqrt(2 + EPS), 2 / sqrt(2 + EPS), -1 / sqrt(2 + EPS)],
    [-1 / 3 / sqrt(2 / 9 + EPS), 2 / 3 / sqrt(2 / 9 + EPS), -1 / 3 / sqrt(2 / 9 + EPS)],
]
# Means 2, 3 and 2; variances 14 / 4, 0 and 14 / 4.
UNIT = 1 / sqrt(14 / 4 + EPS)
BATCH = [[-UNIT, 0, 3 * UNIT], [3 * UNIT, 0, -UNIT], [-2 * UNIT, 0, -2 * UNIT], [0, 0, 0]]

BY_HAND = {"none": X.tolist(), "layer": LAYER, "batch": BATCH}
LEARNED = ["layer", "batch"]
AXIS = {"layer": 1, "batch": 0}
"""What each is normalized over: the channels of a node, or the nodes of a channel."""

seeds = st.integers(0, 99)


def make(name: str, channels: int = 3) -> Op:
    """In double precision: a division by the root of 1e-5 makes much of a rounding error."""
    return NORMS[name](Dims(2, channels, 2)).double()


def draw(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def test_there_are_values_for_every_norm() -> None:
    assert set(BY_HAND) == set(NORMS)


@pytest.mark.parametrize("name", BY_HAND)
def test_values_by_hand(name: str) -> None:
    torch.testing.assert_close(make(name)(X), torch.tensor(BY_HAND[name], dtype=torch.float64))


@pytest.mark.parametrize("name", LEARNED)
def test_scale_and_shift_follow_the_norm(name: str) -> None:
    op = make(name)
    scale, shift = torch.tensor([[2.0, -1.0, 0.5], [0.0, 10.0, -1.0]], dtype=torch.float64)
    plain = op(X)
    op.load_state_dict({"scale": scale, "shift": shift})
    torch.testing.assert_close(op(X), scale * plain + shift)


@pytest.mark.parametrize("name", LEARNED)
def test_scale_and_shift_change_nothing_at_first(name: str) -> None:
    op = make(name)
    assert {key: weight.tolist() for key, weight in op.state_dict().items()} == {
        "scale": [1, 1, 1],
        "shift": [0, 0, 0],
    }


def test_none_gives_back_what_it_gets() -> None:
    assert make("none")(X) is X
    assert list(make("none").parameters()) == []


@given(name=st.sampled_from(LEARNED), shape=st.tuples(st.integers(2, 6), st.integers(2, 6)))
def test_the_formula(name: str, shape: tuple[int, int]) -> None:
    op, x, axis = make(name, shape[1]), draw(*shape), AXIS[name]
    variance = x.var(dim=axis, unbiased=False, keepdim=True)
    expected = (x - x.mean(dim=axis, keepdim=True)) / (variance + EPS).sqrt()
    torch.testing.assert_close(op(x), expected)


@given(name=st.sampled_from(LEARNED), shift=st.floats(-9, 9), scale=st.floats(0.5, 9), seed=seeds)
def test_neither_offset_nor_unit_matters(name: str, shift: float, scale: float, seed: int) -> None:
    op, x = make(name, 5), 100 * draw(7, 5, seed=seed)
    # All but for the 1e-5 that is added to the variance.
    torch.testing.assert_close(op(scale * x + shift), op(x), rtol=1e-3, atol=1e-3)


def test_the_norm_of_a_layer_reads_one_node_at_a_time() -> None:
    op, x = make("layer", 4), draw(5, 4)
    alone = torch.cat([op(row.unsqueeze(0)) for row in x])
    torch.testing.assert_close(op(x), alone)


def test_the_norm_of_a_batch_reads_one_channel_at_a_time() -> None:
    x = draw(5, 4)
    alone = torch.cat([make("batch", 1)(column.unsqueeze(1)) for column in x.t()], dim=1)
    torch.testing.assert_close(make("batch", 4)(x), alone)


def test_the_norm_of_a_batch_is_that_of_torch_in_training() -> None:
    x = draw(5, 4)
    torch.testing.assert_close(make("batch", 4)(x), torch.nn.BatchNorm1d(4).double().train()(x))


def test_nothing_is_remembered_from_one_batch_to_the_next() -> None:
    op, x = make("batch", 4), draw(5, 4)
    first = op.train()(x)
    op(100 + draw(9, 4, seed=1))
    assert torch.equal(op(x), first)
    assert torch.equal(op.eval()(x), first)
    assert set(op.state_dict()) == {"scale", "shift"}


@pytest.mark.parametrize("name", LEARNED)
def test_equal_values_become_the_shift(name: str) -> None:
    op, shift = make(name), torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
    op.load_state_dict({"scale": torch.ones(3), "shift": shift})
    torch.testing.assert_close(op(torch.full_like(X, 7.0)), shift.expand(4, 3))


@pytest.mark.parametrize("name", NORMS)
def test_a_graph_of_one_node_is_no_obstacle(name: str) -> None:
    x = draw(1, 3).requires_grad_()
    result = make(name)(x)
    assert result.shape == (1, 3)
    (grad,) = torch.autograd.grad(result.sum(), x)
    assert bool(result.isfinite().all())
    assert bool(grad.isfinite().all())


@pytest.mark.parametrize(("name", "count"), [("none", 0), ("layer", 12), ("batch", 12)])
def test_a_norm_costs_two_weights_per_channel(name: str, count: int) -> None:
    spec = BlockSpec(expansion=0, norm=name)
    assert spec.parameters(10, 6, 4) == 10 * 6 + count
