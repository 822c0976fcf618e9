"""An architecture drawn as SVG: blocks from top to bottom, shortcuts as arcs beside them."""

from html import escape

from pdnas.architecture import Architecture, Channels
from pdnas.picture import BLUE, VERMILION

WIDTH, ROW, HEAD, GAP = 268, 22, 30, 78
"""The least of a block, a line of it and its title, and the height between blocks, in pixels."""

LEFT, LANE, TURN = 8, 24, 12
"""The margin, the room for each shortcut, and the radius of its turns."""

PAD, COLUMN, LONGEST = 14, 104, 60
"""Of a block's text: its margin, where the ops begin, and after how many letters one is cut."""

SLIM, SMALL = frozenset(" !'()*,-./:;I[]fijlrt|"), frozenset("0123456789abcdeghknopqsuvxyz_")
"""Letters that take little room, and those that take a usual one."""

SLOTS = ("transform", "messages", "aggregation", "combine", "activation")

INK = "var(--pdnas-ink, currentColor)"
ACCENT = f"var(--pdnas-accent, {BLUE})"
SHORTCUT = f"var(--pdnas-shortcut, {VERMILION})"
"""Where the page around it sets these, it decides the colors; else they suit light and dark."""


def draw_svg(architecture: Architecture, channels: Channels, hidden: int) -> str:
    """The network as an SVG drawing, for a page or a notebook, light or dark.

    Args:
        architecture: What to draw.
        channels: The number of features and of logits.
        hidden: Channels between blocks.
    """
    widths = architecture.widths(channels, hidden)
    words = [[_cut(word) for word in block.words()] for block in architecture.blocks]
    width = max(WIDTH, *(COLUMN + room(word) + PAD for own in words for word in own))
    center, height = LEFT + width / 2, HEAD + ROW * len(SLOTS)
    tops = [42 + number * (height + GAP) for number in range(architecture.num_blocks)]
    reads = [top - 14 for top in tops]  # where a block's input can be taken from
    sums = [top + height + 20 for top in tops]
    parts = [_text(center, 16, f"features {widths[0]:,}", anchor="middle")]
    for number, own in enumerate(words):
        name = "logits" if number == architecture.num_blocks - 1 else "hidden"
        top, is_sum = tops[number], any(j == number for _, j in architecture.gates)
        parts.append(_line(center, top - 20 if not number else top - 26, top))
        parts.append(_block(number, own, top, width, height))
        parts.append(_line(center, top + height, top + height + 32))
        parts.append(_text(center, top + height + 46, f"{name} {widths[number + 1]:,}", "middle"))
        if is_sum:
            parts.append(_sum(center, sums[number]))
    # Short shortcuts run inside, long ones outside; each has a lane of its own.
    lanes = sorted(architecture.gates, key=lambda gate: (gate[1] - gate[0], gate))
    for lane, (i, j) in enumerate(lanes):
        x = LEFT + width + LANE * (lane + 0.75)
        parts.append(_arc(center, reads[i], sums[j], x, f"shortcut {i} to {j}"))
    right = LEFT + width + LANE * len(lanes) + LEFT
    bottom = tops[-1] + height + 56
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {right} {bottom}" width="{right}" '
        f'height="{bottom}" role="img" aria-label="{escape(describe(architecture, widths))}" '
        'style="max-width:100%;height:auto;font:13px system-ui,sans-serif">'
        + "".join(parts)
        + "</svg>"
    )


def describe(architecture: Architecture, widths: tuple[int, ...]) -> str:
    """The drawing in words, for who cannot see it."""
    blocks = "; ".join(
        f"block {number}: {block}, to {widths[number + 1]:,} channels"
        for number, block in enumerate(architecture.blocks)
    )
    gates = ", ".join(
        f"from the input of block {i} to the output of block {j}" for i, j in architecture.gates
    )
    return f"From {widths[0]:,} features; {blocks}; shortcuts: {gates or 'none'}."


def room(text: str) -> int:
    """The pixels that a text takes at most in a font of 13: no browser is there to ask."""
    return sum(6 if letter in SLIM else 8 if letter in SMALL else 13 for letter in text)


def _cut(word: str) -> str:
    """A name that is not longer than a page is wide; the words of the drawing have all of it."""
    return word if len(word) <= LONGEST else f"{word[: LONGEST - 1]}…"


def _block(number: int, words: list[str], top: float, width: float, height: float) -> str:
    rows = []
    for line, (slot, word) in enumerate(zip(SLOTS, words, strict=True)):
        y = top + HEAD + ROW * line + 12
        rows.append(_text(LEFT + PAD, y, slot, faint=True))
        rows.append(_text(LEFT + COLUMN, y, word))
    return (
        f'<g class="block"><rect x="{LEFT}" y="{top}" width="{width}" height="{height}" rx="10" '
        f'style="fill:{ACCENT};fill-opacity:0.09;stroke:{ACCENT};stroke-width:1.5"/>'
        + _text(LEFT + PAD, top + 21, f"block {number}", bold=True)
        + "".join(rows)
        + "</g>"
    )


def _text(
    x: float, y: float, text: str, anchor: str = "start", *, bold: bool = False, faint: bool = False
) -> str:
    weight = ";font-weight:650" if bold else ""
    opacity = ";opacity:0.72" if faint else ""
    return (
        f'<text x="{x}" y="{y}" text-anchor="{anchor}" style="fill:{INK}{weight}{opacity}">'
        f"{escape(text)}</text>"
    )


def _line(x: float, top: float, bottom: float) -> str:
    return (
        f'<path d="M{x} {top}V{bottom}" style="stroke:{INK};stroke-opacity:0.6;stroke-width:1.5"/>'
    )


def _sum(x: float, y: float) -> str:
    return (
        f'<g class="sum"><circle cx="{x}" cy="{y}" r="8" style="fill:{SHORTCUT}"/>'
        f'<path d="M{x - 4} {y}H{x + 4}M{x} {y - 4}V{y + 4}" style="stroke:#fff;stroke-width:1.8"/>'
        "</g>"
    )


def _arc(center: float, top: float, bottom: float, x: float, title: str) -> str:
    end = center + 8
    return (
        f'<g class="shortcut"><title>{title}</title>'
        f'<circle cx="{center}" cy="{top}" r="3.5" style="fill:{SHORTCUT}"/>'
        f'<path d="M{center} {top}H{x - TURN}Q{x} {top} {x} {top + TURN}V{bottom - TURN}'
        f'Q{x} {bottom} {x - TURN} {bottom}H{end + 6}" '
        f'style="fill:none;stroke:{SHORTCUT};stroke-width:2"/>'
        f'<path d="M{end} {bottom}l9 -5v10z" style="fill:{SHORTCUT}"/></g>'
    )
