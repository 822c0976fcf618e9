"""Networks as SVG drawings."""

from types import SimpleNamespace
from xml.etree import ElementTree

import pytest

from pdnas.architecture import Architecture, BlockSpec
from pdnas.diagram import draw_svg
from pdnas.models.baselines import BASELINES

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
