"""What pages are made of."""

import math

import pytest

from pdnas.report.parts import (
    FEW,
    Section,
    Table,
    layout,
    line,
    literal,
    look,
    over_epochs,
    percent,
    spaced,
    thinned,
    thinning,
)


@pytest.mark.parametrize("count", [1, 2, 149, 150, 151, 5000])
def test_thinned_points_keep_the_ends_and_the_order(count: int) -> None:
    for shown in (thinned([math.sin(n) for n in range(count)]), spaced(count)):
        assert len(shown) <= min(count, 150)
        assert shown == sorted(set(shown))
        assert (shown[0], shown[-1]) == (0, count - 1)
    assert bool(thinning(count)) == (count > 150)


@pytest.mark.parametrize("place", [1, 777, 1998])
def test_thinned_lines_keep_their_peaks(place: int) -> None:
    values = [0.5] * 2000
    values[place] = 1.0

    assert place in thinned(values)
    assert place in thinned([-value for value in values])


def test_few_points_are_marked_and_many_are_not() -> None:
    short, long = (line("a", range(n), [0.5] * n, 0) for n in (FEW, FEW + 1))

    assert (short["mode"], long["mode"]) == ("lines+markers", "lines")


def test_few_epochs_have_whole_numbers() -> None:
    assert over_epochs((0, 1), "y")["xaxis"]["dtick"] == 1
    assert "dtick" not in over_epochs(range(400), "y")["xaxis"]


def test_two_dozen_lines_look_different() -> None:
    assert len({look(number)[:2] for number in range(24)}) == 24


def test_axes_keep_their_titles_when_more_is_said_of_them() -> None:
    assert layout("x", "y", y_axis={"range": [0, 1]})["yaxis"] == {
        "title": {"text": "y"},
        "range": [0, 1],
    }


def test_markup_in_the_title_of_an_axis_is_text() -> None:
    axes = over_epochs(range(3), "<a href='x'>validation</a>, %")

    assert axes["yaxis"]["title"]["text"] == "&lt;a href='x'&gt;validation&lt;/a&gt;, %"
    assert layout("<b>", "y")["xaxis"]["title"]["text"] == "&lt;b&gt;"


def test_markup_of_users_is_text() -> None:
    assert literal("<a href='x'>&") == "&lt;a href='x'&gt;&amp;"


def test_a_section_with_a_sentence_is_not_empty() -> None:
    assert Section("a", "A").is_empty
    assert not Section("a", "A", lead=("Why.",)).is_empty


def test_what_is_unknown_is_a_dash() -> None:
    assert (percent(None), percent(0.5)) == ("-", "50.00")


def test_columns_of_figures_alone_are_known() -> None:
    rows = (("a", "1.50 ± 0.20", "-", "1,204", "x"), ("1", "-", "-", "7", "2"))

    assert Table("t", tuple("abcde"), rows).figures == (False, True, False, True, False)
    assert Table("t", ("a", "b"), ()).figures == (False, False)


def test_a_name_with_markup_is_text_in_a_legend() -> None:
    assert line("<b>a</b>", [0], [1.0], 0)["name"] == "&lt;b&gt;a&lt;/b&gt;"
