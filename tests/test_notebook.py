"""What is shown in notebooks."""

import sys
from html.parser import HTMLParser

import pytest
from IPython.core.interactiveshell import InteractiveShell

from pdnas.notebook import headings, html_table, in_notebook, noted


class Cells(HTMLParser):
    """Collects the cells of tables, by their tag."""

    def __init__(self) -> None:
        super().__init__()
        self.cells: list[tuple[str, str]] = []
        self._tag = ""

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self._tag = tag

    def handle_data(self, data: str) -> None:
        self.cells.append((self._tag, data))


def test_a_table_has_its_header_and_its_rows() -> None:
    page = Cells()
    page.feed(html_table([["a", "b"], ["1", "2"], ["3", "4"]]))
    assert page.cells == [("th", "a"), ("th", "b"), *(("td", text) for text in "1234")]


def test_an_interval_says_what_it_is_over() -> None:
    assert headings("splits")[3] == "95 % interval over splits"


def test_markup_in_a_cell_is_only_text() -> None:
    page = Cells()
    hostile = "<script>alert('&')</script>"
    page.feed(html_table([[hostile], [hostile]]))
    assert [text for _, text in page.cells] == [hostile, hostile]


def test_a_script_is_no_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    assert not in_notebook()


def test_a_shell_without_a_kernel_is_no_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    shell = InteractiveShell.instance()
    try:
        assert not in_notebook()
        monkeypatch.setattr(shell, "kernel", object(), raising=False)
        assert in_notebook()
    finally:
        InteractiveShell.clear_instance()


@pytest.mark.parametrize(("note", "said"), [("", ""), ("rebuilt", " (rebuilt)")])
def test_a_note_follows_in_parentheses(note: str, said: str) -> None:
    assert noted(note) == said
