"""An architecture drawn in characters: blocks from top to bottom, shortcuts beside them."""

from collections import defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # what is only shown need not be imported, which takes seconds
    from pdnas.architecture import Architecture, Channels

LEFT, RIGHT, UP, DOWN = 1, 2, 4, 8
LINES = {
    0: " ",
    LEFT | RIGHT: "─",
    UP | DOWN: "│",
    LEFT | DOWN: "┐",
    LEFT | UP: "┘",
    LEFT | RIGHT | DOWN: "┬",
    LEFT | RIGHT | UP: "┴",
    LEFT | RIGHT | UP | DOWN: "┼",
}
"""The character for each set of directions in which lines leave it."""


def draw(architecture: "Architecture", task: "Channels", hidden: int) -> list[str]:
    """Lines of text: what each block does, how wide the flow is, and where shortcuts lead.

    Args:
        architecture: What to draw.
        task: The number of features and of logits.
        hidden: Channels between blocks.
    """
    widths = architecture.widths(task, hidden)
    lines, leaves, arrives = [f"features {widths[0]:,}"], [0], []
    for number, block in enumerate(architecture.blocks):
        added = any(j == number for _, j in architecture.gates)
        name = "logits" if number == architecture.num_blocks - 1 else "hidden"
        lines += [
            "│",
            f"├─ block {number}: {' → '.join(block.words())}",
            "+ ◄" if added else "│",
            f"{name} {widths[number + 1]:,}",
        ]
        arrives.append(len(lines) - 2)
        leaves.append(len(lines) - 1)
    edge = max(map(len, lines)) + 2
    canvas: defaultdict[tuple[int, int], int] = defaultdict(int)
    # Short shortcuts run inside, long ones outside; each has a column of its own.
    lanes = sorted(architecture.gates, key=lambda gate: (gate[1] - gate[0], gate))
    for lane, (i, j) in enumerate(lanes):
        column, top, bottom = edge + 3 * lane, leaves[i], arrives[j]
        for row, turn in ((top, LEFT | DOWN), (bottom, LEFT | UP)):
            for place in range(len(lines[row]), column):
                canvas[row, place] |= LEFT | RIGHT
            canvas[row, column] |= turn
        for row in range(top + 1, bottom):
            canvas[row, column] |= UP | DOWN
    far = edge + 3 * len(lanes)
    return [
        (line + "".join(LINES[canvas[row, place]] for place in range(len(line), far))).rstrip()
        for row, line in enumerate(lines)
    ]
