import hashlib

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pdnas.errors import TaskError
from pdnas.tasks.splits import PARTS, Split, mask_split, random_split


def test_sha256_is_that_of_the_sorted_indices() -> None:
    split = Split("own", torch.tensor([2, 0]), torch.tensor([1]), torch.tensor([3]))
    content = b"node"
    for part, index in (("train", (0, 2)), ("val", (1,)), ("test", (3,))):
        content += f"{part}:{len(index)}:".encode()
        content += b"".join(entry.to_bytes(8, "little") for entry in index)
    assert split.sha256 == hashlib.sha256(content).hexdigest()
    assert split.sha256 == "354c8498a26a2bf2e8f4d11af69d6551d6f9498bd650cd19de2b62968fb8ade3"


def test_sha256_ignores_the_name_and_heeds_the_unit() -> None:
    parts = torch.tensor([0]), torch.tensor([1]), torch.tensor([2])
    assert Split("a", *parts, seed=1).sha256 == Split("b", *parts).sha256
    assert Split("a", *parts, unit="graph").sha256 != Split("a", *parts).sha256


def test_random_split_of_ten_items_is_fixed_for_a_seed() -> None:
    split = random_split(torch.arange(10), 0)
    assert [getattr(split, part).tolist() for part in PARTS] == [[0, 1, 2, 3, 6, 8], [4, 7], [5, 9]]
    assert split.sha256 == "ea758216ffa822361004b0790db562197b2c9358ab21bd0bf332b928d9f929a1"


@given(count=st.integers(5, 200), seed=st.integers(0, 2**32), step=st.integers(1, 3))
def test_random_split_divides_all_items_60_20_20(count: int, seed: int, step: int) -> None:
    items = torch.arange(0, count * step, step)
    split = random_split(items, seed)
    assert torch.equal(torch.cat([split.train, split.val, split.test]).sort().values, items)
    assert split.train.numel() == int(0.6 * count)
    assert split.val.numel() == int(0.8 * count) - int(0.6 * count)
    assert split.seed == seed


@given(seed=st.integers(0, 1000))
def test_random_split_repeats_for_a_seed_and_differs_between_seeds(seed: int) -> None:
    items = torch.arange(60)
    assert random_split(items, seed).sha256 == random_split(items, seed).sha256
    assert random_split(items, seed).sha256 != random_split(items, seed + 1).sha256


@pytest.mark.parametrize("count", [0, 1, 2])
def test_random_split_refuses_too_few_items(count: int) -> None:
    advice = "no labelled node for .*; it takes 3 labelled nodes at least: label more of them"
    with pytest.raises(TaskError, match=advice) as caught:
        random_split(torch.arange(count), 0)
    assert "--split" not in str(caught.value)


def test_random_split_is_content_with_three_items() -> None:
    split = random_split(torch.arange(3), 0)
    assert [getattr(split, part).numel() for part in PARTS] == [1, 1, 1]


def test_another_split_without_a_part_could_be_random() -> None:
    none = torch.tensor([], dtype=torch.long)
    with pytest.raises(TaskError, match="for test; give every part at least one, or use --split r"):
        Split("own", torch.tensor([0]), torch.tensor([1]), none)


def test_parts_must_not_overlap() -> None:
    with pytest.raises(TaskError, match=r"1 node\(s\) in both train and test, node 2 among them"):
        Split("own", torch.tensor([0, 2]), torch.tensor([1]), torch.tensor([2]))


def test_masks_with_a_column_per_split_need_a_seed_in_range() -> None:
    one = torch.eye(6, dtype=torch.bool)
    masks = (one[:, :2], one[:, 2:4], one[:, 4:])
    assert mask_split("own", masks, None).train.tolist() == [0]
    assert mask_split("own", masks, 1).train.tolist() == [1]
    assert mask_split("own", masks, 1).seed == 1
    with pytest.raises(TaskError, match=r"--split-seeds 0\.\.1"):
        mask_split("own", masks, 2)


def test_one_test_mask_may_serve_several_splits() -> None:
    one = torch.eye(6, dtype=torch.bool)
    for masks in ((one[:, :2], one[:, 2:4], one[:, 5]), (one[:, 5], one[:, :2], one[:, 2:4])):
        first, second = mask_split("own", masks, 0), mask_split("own", masks, 1)
        assert first.sha256 != second.sha256
        assert 5 in torch.cat([second.train, second.test])


def test_a_single_split_has_no_seed_but_may_be_called_the_first() -> None:
    one = torch.eye(3, dtype=torch.bool)
    assert mask_split("public", (one[:, 0], one[:, 1], one[:, 2]), 0).seed is None


def test_a_second_one_of_a_single_split_is_refused() -> None:
    one = torch.eye(3, dtype=torch.bool)
    with pytest.raises(TaskError, match=r"1 split\(s\) named 'public'.*--split random"):
        mask_split("public", (one[:, 0], one[:, 1], one[:, 2]), 7)
