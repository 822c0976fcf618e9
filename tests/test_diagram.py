"""Networks as SVG drawings."""

from itertools import product
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest

from pdnas.architecture import Architecture, BlockSpec
from pdnas.diagram import draw_svg, room
from pdnas.models.baselines import BASELINES
from pdnas.ops import ACTIVATIONS, ATTENTIONS, COMBINES, HEADS, NORMS, PROPAGATIONS

SVG = "{http://www.w3.org/2000/svg}"
CHANNELS = SimpleNamespace(in_channels=1433, out_channels=7)


def network(blocks: int, *gates: tuple[int, int]) -> Architecture:
    specs = [BlockSpec(attention="gat", activation="relu")] * (blocks - 1) + [BlockSpec()]
    return Architecture(blocks=tuple(specs), gates=gates)


def draw(architecture: Architecture) -> ElementTree.Element:
    return ElementTree.fromstring(draw_svg(architecture, CHANNELS, 16))


def groups(root: ElementTree.Element, name: str) -> list[ElementTree.Element]:
    return [group for group in root.iter(f"{SVG}g") if group.get("class") == name]


def test_every_block_and_every_shortcut_is_drawn() -> None:
    root = draw(network(3, (0, 0), (0, 2), (1, 2)))

    assert len(groups(root, "block")) == 3
    assert [group[0].text for group in groups(root, "shortcut")] == [
        "shortcut 0 to 0",
        "shortcut 1 to 2",
        "shortcut 0 to 2",
    ]
    assert len(groups(root, "sum")) == 2  # the outputs of blocks 0 and 2


def test_ops_and_widths_are_written_into_it() -> None:
    texts = [text.text for text in draw(network(2)).iter(f"{SVG}text")]

    assert "gat x1" in texts
    assert {"features 1,433", "hidden 16", "logits 7"} <= set(texts)


@pytest.mark.parametrize("blocks", [1, 2, 5])
def test_nothing_is_outside_of_the_drawing(blocks: int) -> None:
    root = draw(network(blocks, *((i, blocks - 1) for i in range(blocks))))
    right, bottom = float(root.attrib["width"]), float(root.attrib["height"])

    for text in root.iter(f"{SVG}text"):
        assert 0 < float(text.attrib["x"]) < right
        assert 0 < float(text.attrib["y"]) < bottom
    for rect in root.iter(f"{SVG}rect"):
        assert float(rect.attrib["y"]) + float(rect.attrib["height"]) < bottom


LONG = [
    *(BlockSpec(norm=norm, activation=name) for norm, name in product(NORMS, ACTIVATIONS)),
    *(BlockSpec(attention=name, heads=heads) for name, heads in product(ATTENTIONS, HEADS)),
    *(BlockSpec(propagation=times, bias=True) for times in PROPAGATIONS),
    *(BlockSpec(combine=name) for name in COMBINES),
]


@pytest.mark.parametrize("block", LONG, ids=str)
def test_no_op_runs_out_of_its_block(block: BlockSpec) -> None:
    root = draw(Architecture(blocks=(block, BlockSpec()), gates=((0, 0),)))

    rect = groups(root, "block")[0][0]
    right = float(rect.attrib["x"]) + float(rect.attrib["width"])
    for text in groups(root, "block")[0].iter(f"{SVG}text"):
        assert float(text.attrib["x"]) + room(text.text or "") < right
    assert right < float(root.attrib["width"])


def test_the_room_of_a_text_is_at_least_what_a_browser_gives_it() -> None:
    measured = {  # in DejaVu Sans, which is as broad as fonts of systems are
        "bias, batch norm, leaky-relu": 181.7,
        "mean of 9 powers": 117.1,
        "WWWW": 51.5,
        "mmmm": 50.7,
    }

    for text, width in measured.items():
        assert width <= room(text) < 1.2 * width


def test_a_name_that_is_longer_than_a_page_is_cut_in_the_drawing_alone() -> None:
    attention, block = "a" * 200, BlockSpec(attention="gat")
    object.__setattr__(block, "attention", attention)  # as the op of a user might be called
    text = draw_svg(Architecture.model_construct(blocks=(block,)), CHANNELS, 16)

    assert float(ElementTree.fromstring(text).attrib["width"]) < 700
    assert f"{'a' * 59}…</text>" in text
    assert attention in text


def test_it_says_what_it_shows_and_leaves_colors_to_the_page() -> None:
    text = draw_svg(network(2, (0, 1)), CHANNELS, 16)

    assert 'role="img"' in text
    assert "from the input of block 0 to the output of block 1" in text
    assert "var(--pdnas-ink, currentColor)" in text


@pytest.mark.parametrize("name", ["gcn", "gat", "mlp"])
def test_baselines_of_blocks_can_be_drawn(name: str) -> None:
    design = BASELINES[name].design

    assert isinstance(design, Architecture)
    assert groups(draw(design), "block")
