import pytest
import torch

from pdnas.ops import HEADS, Dims
from pdnas.ops.heads import Heads

X = torch.arange(12.0).view(2, 6)


def heads_of(out_channels: int, heads: int) -> Heads:
    return Heads(Dims(3, out_channels, 4, heads=heads))


def test_the_paper_has_five_numbers_of_heads() -> None:
    assert list(HEADS) == [1, 2, 4, 8, 16]


def test_heads_that_divide_the_channels_own_a_slice_each() -> None:
    op = heads_of(6, 2)
    split = op.split(X)
    assert not op.averaged
    assert split.tolist() == [[[0, 1, 2], [3, 4, 5]], [[6, 7, 8], [9, 10, 11]]]
    assert op.merge(split + torch.tensor([[100.0], [200]])).tolist() == [
        [100, 101, 102, 203, 204, 205],
        [106, 107, 108, 209, 210, 211],
    ]


def test_heads_that_do_not_divide_them_see_all_and_are_averaged() -> None:
    op = heads_of(6, 4)
    split = op.split(X)
    assert op.averaged
    assert split.shape == (2, 4, 6)
    assert all(torch.equal(split[:, head], X) for head in range(4))
    factors = torch.tensor([1.0, 2, 3, 6]).view(1, 4, 1)
    assert torch.equal(op.merge(split * factors), 3 * X)


@pytest.mark.parametrize("heads", HEADS)
@pytest.mark.parametrize("out_channels", [1, 6, 7, 16])
def test_merge_undoes_split_and_split_makes_no_copy(out_channels: int, heads: int) -> None:
    op = heads_of(out_channels, heads)
    x = torch.arange(2.0 * out_channels).view(2, out_channels)
    split = op.split(x)
    assert split.shape == (2, heads, op.head_channels)
    assert split.data_ptr() == x.data_ptr()
    assert torch.equal(op.merge(split), x)
