import pytest
import torch
from torch import Generator

from pdnas.ops import TRANSFORMS, Dims, SparseFeatures
from pdnas.ops.transform import ExpandingTransform, LinearTransform

X = torch.tensor([[1.0, -1.0], [2.0, 0.5]])


def test_the_linear_transform_by_hand() -> None:
    op = LinearTransform(Dims(2, 3, 4))
    op.load_state_dict({"weight": torch.tensor([[1.0, 0.0, 2.0], [0.0, 1.0, -2.0]])})
    assert op(X).tolist() == [[1, -1, 4], [2, 0.5, 3]]


def test_the_expanding_transform_by_hand() -> None:
    op = ExpandingTransform(Dims(2, 1, 1, expansion=2))
    weights = {"weight_1": torch.tensor([[1.0, -1.0], [1.0, 2.0]])}
    op.load_state_dict({**weights, "weight_2": torch.tensor([[10.0], [1.0]])})
    # W1 x is (0, -3) and (2.5, -1): what is negative goes.
    assert op(X).tolist() == [[0], [25]]


@pytest.mark.parametrize("name", TRANSFORMS)
def test_the_inner_width_counts_in_hidden_sizes(name: int) -> None:
    shapes = TRANSFORMS[name].shapes(Dims(5, 7, 3, expansion=name))
    if name == 0:
        assert shapes == {"weight": (5, 7)}
    else:
        assert shapes == {"weight_1": (5, 3 * name), "weight_2": (3 * name, 7)}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_sparse_features_give_what_dense_ones_give(name: int, generator: Generator) -> None:
    op = TRANSFORMS[name](Dims(5, 7, 3, expansion=name))
    x = torch.randn(6, 5, generator=generator).relu()
    torch.testing.assert_close(op(SparseFeatures.from_tensor(x)), op(x))
