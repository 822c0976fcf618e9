"""Pictures can be read, and show every row."""

from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from pdnas.reproduce.picture import COLORS, Dot, dots

PANELS: dict[str, list[Dot]] = {
    "Cora": [("GAT, the paper", 83.0, 0.7), ("pdnas", 84.0, 0.0)],
    "PubMed": [("pdnas", 79.0, 0.5), ("random, <same> & cost", 78.0, 0.5)],
}


def words(path: Path) -> list[str]:
    return ["".join(node.itertext()) for node in ET.parse(path).iter() if node.tag.endswith("text")]


@pytest.mark.parametrize("log", [False, True])
def test_a_picture_holds_the_title_all_panels_and_all_rows_once(tmp_path: Path, log: bool) -> None:
    dots(PANELS, "accuracy in %", tmp_path / "a.svg", log=log)
    found = words(tmp_path / "a.svg")
    rows = ["GAT, the paper", "pdnas", "random, <same> & cost"]
    for text in ("accuracy in %", *PANELS, *rows):
        assert found.count(text) == 1


def test_what_the_paper_says_has_a_color_of_its_own(tmp_path: Path) -> None:
    quoted, ours = ({"Cora": [dot]} for dot in PANELS["Cora"])
    for place, panels in enumerate((quoted, ours)):
        dots(panels, "accuracy", tmp_path / "a.svg")
        drawn = (tmp_path / "a.svg").read_text()
        assert [color in drawn for color in COLORS] == [place == 0, place == 1]


def test_a_panel_may_be_empty(tmp_path: Path) -> None:
    dots({**PANELS, "CiteSeer": []}, "accuracy", tmp_path / "a.svg")
    assert "CiteSeer" in words(tmp_path / "a.svg")


def test_a_picture_is_an_svg(tmp_path: Path) -> None:
    dots(PANELS, "accuracy", tmp_path / "a.svg")
    assert ET.parse(tmp_path / "a.svg").getroot().tag == "{http://www.w3.org/2000/svg}svg"


def test_the_same_dots_are_the_same_file(tmp_path: Path) -> None:
    for name in ("a.svg", "b.svg"):
        dots(PANELS, "accuracy", tmp_path / name)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


def test_a_row_far_below_the_others_is_a_number_at_the_edge(tmp_path: Path) -> None:
    for mean, log, written in ((75.0, False, False), (73.0, False, True), (73.0, True, False)):
        dots({"Cora": [("pdnas", 84.0, 0.5), ("gcn", mean, 0.5)]}, "a", tmp_path / "a.svg", log=log)
        assert (f"← {mean:.1f}" in words(tmp_path / "a.svg")) == written
