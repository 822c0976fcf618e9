"""Figures are written as SVG whose text can be read, and the same each time."""

from pdnas import picture


def drawn() -> bytes:
    figure = picture.new_figure(3, 2)
    axes = figure.subplots()
    axes.plot([0, 1], [0, 1], color=picture.BLUE)
    axes.set_title("a <title> & more")
    return picture.rendered(figure)


def test_text_stays_text_and_a_color_is_used() -> None:
    text = drawn().decode()
    assert "a &lt;title&gt; &amp; more" in text
    assert picture.BLUE in text


def test_the_same_figure_is_the_same_file() -> None:
    assert drawn() == drawn()
