"""Op probabilities over epochs."""

from pathlib import Path

import pytest

from pdnas.ops import SLOTS
from pdnas.report.reading import Run, read_run
from pdnas.report.slots import ABOUT, OPEN, Slot, draw_slots, read_slots
from pdnas.space import PAPER


def lines(run: Run) -> list[dict[str, object]]:
    return [line for line in run.phase("search") if line["cell"] == 0]


def test_open_slots_have_the_candidates_of_the_space(searched: Run) -> None:
    slots = read_slots(lines(searched), PAPER, 2)

    names = [(slot.block, slot.name) for slot in slots]
    assert (0, "activation") in names
    assert (1, "activation") not in names  # the last block gives logits
    assert (0, "combine") not in names  # the paper has one only
    attention = next(slot for slot in slots if slot.name == "attention")
    assert attention.ops == PAPER.attention
    assert len(attention.epochs) == 12


def test_probabilities_are_shares_of_one(searched: Run) -> None:
    for slot in read_slots(lines(searched), PAPER, 2):
        for column in zip(*slot.probs, strict=True):
            assert sum(column) == pytest.approx(1, abs=0.01)


def test_strategies_without_probabilities_have_no_slots(made: dict[str, Path]) -> None:
    assert read_slots(read_run(made["rated"]).phase("search"), PAPER, 2) == ()


def test_each_block_is_a_group_and_each_op_a_line() -> None:
    slots = [Slot(n, "heads", ("1", "2"), (0, 1), ((0.5, 0.2), (0.5, 0.8))) for n in range(5)]

    groups = draw_slots(slots, "p")

    assert [group.folded for group in groups] == [n >= OPEN for n in range(5)]
    figure = groups[0].figures[0]
    assert [trace["name"] for trace in figure.plot["data"]] == ["1", "2"]
    assert figure.caption.startswith(f"{ABOUT['heads']} At the end 2 is the likeliest with 80 %")
    assert figure.table is not None
    assert figure.table.rows == (("1", "50.0", "20.0"), ("2", "50.0", "80.0"))


def test_what_was_not_learned_is_folded_and_said() -> None:
    slot = Slot(0, "activation", ("tanh", "relu", "elu"), (0,), ((0.333,), (0.334,), (0.333,)))

    (group,) = draw_slots([slot], "p")

    assert group.folded
    assert "At the end all 3 are as likely as each other" in group.figures[0].caption


def test_every_slot_is_explained() -> None:
    assert tuple(ABOUT) == tuple(SLOTS)


def test_lines_differ_in_more_than_their_color() -> None:
    slot = Slot(0, "heads", tuple("abcdefgh"), (0,), ((0.125,),) * 8)
    traces = draw_slots([slot], "p")[0].figures[0].plot["data"]

    assert len({(t["line"]["color"], t["line"]["dash"]) for t in traces}) == 8
    assert len({t["line"]["dash"] for t in traces}) > 4
