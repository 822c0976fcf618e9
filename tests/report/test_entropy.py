"""How open choices are."""

import pytest

from pdnas.report.entropy import draw_entropy, read_entropy
from pdnas.report.slots import Slot


def test_entropy_is_one_for_equals_and_zero_for_certainty() -> None:
    probs = ((0.25, 1.0, 0.5), (0.25, 0.0, 0.5), (0.25, 0.0, 0.0), (0.25, 0.0, 0.0))

    (record,) = read_entropy([Slot(1, "heads", ("1", "2", "4", "8"), (0, 1, 2), probs)])

    assert record.slot == "block 1, heads"
    assert record.entropy == pytest.approx((1.0, 0.0, 0.5))


def test_the_most_settled_slot_is_named() -> None:
    open_slot = Slot(0, "heads", ("1", "2"), (0,), ((0.5,), (0.5,)))
    settled = Slot(1, "attention", ("a", "b"), (0,), ((1.0,), (0.0,)))

    figure = draw_entropy(read_entropy([open_slot, settled]), "p")

    assert "block 1, attention with 0.00" in figure.caption
    assert len(figure.plot["data"]) == 2


def test_nothing_settled_names_no_slot() -> None:
    slot = Slot(0, "heads", ("1", "2"), (0,), ((0.5,), (0.5,)))

    caption = draw_entropy(read_entropy([slot]), "p").caption

    assert "every slot is as open as can be: nothing was learned." in caption
