import math

import pytest
import torch

from pdnas.ops.base import Dims, Op, glorot_


class Affine(Op):
    """A matrix and a bias."""

    @classmethod
    def shapes(cls, dims: Dims) -> dict[str, tuple[int, ...]]:
        return {"weight": (dims.in_channels, dims.out_channels), "bias": (dims.out_channels,)}


@pytest.mark.parametrize(
    ("out_channels", "heads", "splits", "channels"),
    [(32, 1, True, 32), (32, 8, True, 4), (7, 1, True, 7), (7, 2, False, 7), (1, 16, False, 1)],
)
def test_heads_split_the_channels_where_they_divide_them(
    out_channels: int, heads: int, splits: bool, channels: int
) -> None:
    dims = Dims(3, out_channels, 4, heads=heads)
    assert (dims.splits_heads, dims.head_channels) == (splits, channels)


def test_weights_have_the_shapes_that_the_op_states() -> None:
    op = Affine(Dims(3, 2, 4))
    shapes = {name: tuple(weight.shape) for name, weight in op.named_parameters()}
    assert shapes == {"weight": (3, 2), "bias": (2,)}
    assert Affine.num_parameters(Dims(3, 2, 4)) == 8


def test_an_op_has_no_weights_unless_it_says_so() -> None:
    assert Op.num_parameters(Dims(3, 2, 4)) == 0
    assert list(Op(Dims(3, 2, 4)).parameters()) == []


def test_counting_makes_nothing() -> None:
    huge = Dims(10**9, 10**9, 1)
    assert Affine.num_parameters(huge) == 10**18 + 10**9


def test_a_bias_starts_at_zero_and_resets_to_it() -> None:
    op = Affine(Dims(3, 2, 4))
    bias = op.get_parameter("bias")
    assert bias.tolist() == [0, 0]
    with torch.no_grad():
        bias.fill_(5)
    op.reset_parameters()
    assert bias.tolist() == [0, 0]


@pytest.mark.parametrize("shape", [(300, 100), (5, 100, 60)])
def test_glorot_is_uniform_within_its_bound(shape: tuple[int, ...]) -> None:
    bound = math.sqrt(6 / sum(shape[-2:]))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        weight = glorot_(torch.empty(shape)) / bound
    assert 0.999 < weight.abs().max() <= 1
    # Of 30000 draws from U(-1, 1): five standard errors of the mean and of the mean square.
    assert abs(weight.mean()) < 5 * math.sqrt(1 / 3 / weight.numel())
    assert abs(weight.square().mean() - 1 / 3) < 5 * math.sqrt(4 / 45 / weight.numel())


def test_glorot_fills_in_place_and_leaves_no_graph() -> None:
    weight = torch.empty(3, 2, requires_grad=True)
    assert glorot_(weight) is weight
    assert weight.is_leaf
