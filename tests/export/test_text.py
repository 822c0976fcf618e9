"""Text inside source code, as a formatter would leave it."""

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdnas.export.text import LINE, constant, docstring, literal, numbers, paragraph, prose


@given(st.text())
def test_a_literal_is_the_text(text: str) -> None:
    assert ast.literal_eval(literal(text)) == text


@given(st.lists(st.text(max_size=300), max_size=4))
def test_a_constant_is_its_values_in_lines_that_fit(values: list[str]) -> None:
    lines = constant("NAMES", values)
    assert max(map(len, lines)) <= LINE
    space: dict[str, tuple[str, ...]] = {}
    exec("\n".join(lines), space)
    assert space["NAMES"] == tuple(values)


def test_numbers_are_not_listed() -> None:
    assert constant("C", ["0", "1", "2"]) == ["C = tuple(str(number) for number in range(3))"]


@given(st.text())
def test_prose_cannot_leave_its_docstring(text: str) -> None:
    about = f"Of {prose(text)}."
    assert ast.literal_eval(f'"""{about}"""') == about


@pytest.mark.parametrize("word", ["a ", "a" * 50 + " ", "a" * 300])
def test_paragraphs_fit(word: str) -> None:
    assert max(map(len, paragraph(word * 20))) <= LINE


def test_docstrings_stay_in_one_line_where_they_fit() -> None:
    assert docstring("Short.", 4) == '"""Short."""'
    lines = docstring("word " * 40 + "end.", 4).splitlines()
    assert max(map(len, lines)) <= LINE
    assert lines[-1] == '    """'


@pytest.mark.parametrize("values", [(), (0.5,), (1.0, 1e-45, -3e38), (0.1,) * 40])
def test_numbers_are_their_values_in_lines_that_fit(values: tuple[float, ...]) -> None:
    lines = numbers("MEANS", values)
    assert max(map(len, lines)) <= LINE
    space: dict[str, tuple[float, ...]] = {}
    exec("\n".join(lines), space)
    assert space["MEANS"] == values
