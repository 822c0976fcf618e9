"""Architectures in characters: every line, every shortcut, nothing more."""

from dataclasses import dataclass

import torch
from hypothesis import given
from hypothesis import strategies as st

from pdnas.architecture import Architecture, BlockSpec
from pdnas.cli.drawing import draw
from pdnas.space import PAPER


@dataclass(frozen=True)
class Sizes:
    """All that a drawing wants to know of a task."""

    in_channels: int
    out_channels: int


TASK = Sizes(1433, 7)
PLAIN = BlockSpec()
RICH = BlockSpec(expansion=0, attention="gat", heads=8, combine="none", activation="elu", bias=True)


def picture(*specs: BlockSpec, gates: tuple[tuple[int, int], ...] = ()) -> list[str]:
    return draw(Architecture(blocks=specs, gates=gates), TASK, 32)


def test_a_network_without_shortcuts_has_no_lane() -> None:
    assert picture(RICH, PLAIN) == [
        "features 1,433",
        "│",
        "├─ block 0: linear → gat x8 → sum → none → bias, elu",
        "│",
        "hidden 32",
        "│",
        "├─ block 1: mlp x1 → const x1 → sum → add → none",
        "│",
        "logits 7",
    ]


def test_one_shortcut_leads_around_its_block() -> None:
    assert picture(PLAIN, gates=((0, 0),)) == [
        "features 1,433────────────────────────────────────┐",
        "│                                                 │",
        "├─ block 0: mlp x1 → const x1 → sum → add → none  │",
        "+ ◄───────────────────────────────────────────────┘",
        "logits 7",
    ]


def test_two_shortcuts_that_pass_each_other_cross() -> None:
    assert picture(PLAIN, PLAIN, PLAIN, gates=((0, 1), (1, 2))) == [
        "features 1,433────────────────────────────────────┐",
        "│                                                 │",
        "├─ block 0: mlp x1 → const x1 → sum → add → none  │",
        "│                                                 │",
        "hidden 32─────────────────────────────────────────┼──┐",
        "│                                                 │  │",
        "├─ block 1: mlp x1 → const x1 → sum → add → none  │  │",
        "+ ◄───────────────────────────────────────────────┘  │",
        "hidden 32                                            │",
        "│                                                    │",
        "├─ block 2: mlp x1 → const x1 → sum → add → none     │",
        "+ ◄──────────────────────────────────────────────────┘",
        "logits 7",
    ]


def test_shortcuts_that_start_or_end_together_share_a_line() -> None:
    assert picture(PLAIN, PLAIN, gates=((0, 0), (0, 1), (1, 1))) == [
        "features 1,433────────────────────────────────────┬─────┐",
        "│                                                 │     │",
        "├─ block 0: mlp x1 → const x1 → sum → add → none  │     │",
        "+ ◄───────────────────────────────────────────────┘     │",
        "hidden 32────────────────────────────────────────────┐  │",
        "│                                                    │  │",
        "├─ block 1: mlp x1 → const x1 → sum → add → none     │  │",
        "+ ◄──────────────────────────────────────────────────┴──┘",
        "logits 7",
    ]


def at(lines: list[str], row: int, column: int) -> str:
    return lines[row][column] if column < len(lines[row]) else " "


def follow(lines: list[str], column: int) -> tuple[int, int]:
    """The gate whose lane runs in a column, read off the picture: its first and last row."""
    top = min(row for row in range(len(lines)) if at(lines, row, column) in "┐┬")
    bottom = max(row for row in range(len(lines)) if at(lines, row, column) in "┘┴")
    assert all(at(lines, row, column) in "│┼" for row in range(top + 1, bottom))
    for row in (top, bottom):  # a line leads from the words to the lane
        start = max(lines[row].rfind(last) for last in "0123456789◄")
        assert all(at(lines, row, place) in "─┬┴┼" for place in range(start + 1, column))
    assert lines[top][0] in "fhl"
    assert lines[bottom].startswith("+ ◄")
    return top // 4, bottom // 4  # a block takes four rows, below the features


architectures = st.builds(
    lambda blocks, seed: PAPER.sample(blocks, torch.Generator().manual_seed(seed)),
    st.integers(1, 5),
    st.integers(0, 2**32),
)


@given(architecture=architectures, hidden=st.sampled_from([1, 32, 123_456]))
def test_every_shortcut_can_be_followed_from_its_start_to_its_end(
    architecture: Architecture, hidden: int
) -> None:
    lines = draw(architecture, TASK, hidden)
    lanes = {column for line in lines for column, sign in enumerate(line) if sign in "┐┬"}
    assert sorted(follow(lines, column) for column in lanes) == list(architecture.gates)


@given(architecture=architectures)
def test_there_is_one_line_per_thing_and_none_has_trailing_blanks(
    architecture: Architecture,
) -> None:
    lines = draw(architecture, TASK, 32)
    assert len(lines) == 1 + 4 * architecture.num_blocks
    assert all(line == line.rstrip() and "\n" not in line for line in lines)
    for number, block in enumerate(architecture.blocks):
        words = " → ".join(block.words())
        assert lines[4 * number + 2].startswith(f"├─ block {number}: {words}")
        added = any(j == number for _, j in architecture.gates)
        assert lines[4 * number + 3].startswith("+ ◄" if added else "│")
    assert lines[-1] == "logits 7"
    assert all(lines[row].startswith("hidden 32") for row in range(4, len(lines) - 1, 4))
