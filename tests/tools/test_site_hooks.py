"""What is done to the pages of the site."""

from collections.abc import Callable
from types import ModuleType

import pytest


@pytest.fixture
def hooks(script: Callable[[str], ModuleType]) -> ModuleType:
    pytest.importorskip("mkdocs")
    return script("tools/site_hooks.py")


@pytest.mark.parametrize("text", ["maps\n$`g`$\nwith", "$`g`$ with", "maps $`g`$"])
def test_a_symbol_stays_in_its_paragraph(hooks: ModuleType, text: str) -> None:
    markdown = pytest.importorskip("markdown")
    page = markdown.markdown(hooks.typeset(text))
    assert page.count("<p>") == 1
    assert page.startswith("<p>")
    assert page.endswith("</p>")
    assert "<mi>g</mi>" in page


def test_an_equation_stands_alone(hooks: ModuleType) -> None:
    assert hooks.typeset("```math\na = b\n```").startswith("<div><math")


def test_an_equation_that_cannot_be_shown_is_refused(hooks: ModuleType) -> None:
    with pytest.raises(hooks.PluginError, match="cannot be shown"):
        hooks.typeset(r"$`\arg\max_t p`$")


@pytest.mark.parametrize("page", ['<img src="//other/a.png">', '<script src="https://other/a.js">'])
def test_a_page_that_asks_another_server_is_refused(page: str, hooks: ModuleType) -> None:
    assert hooks.REMOTE.search(page)
