"""Pages in Chromium: they draw, answer and stay quiet, and what users wrote stays text."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pdnas.architecture import Architecture, BlockSpec
from pdnas.diagram import draw_svg
from pdnas.ops import ACTIVATIONS, NORMS
from pdnas.page import write_page

pytestmark = pytest.mark.browser

HOSTILE = "<script>alert(1)</script>"
CHANNELS = SimpleNamespace(in_channels=1433, out_channels=7)
CHROMIUM = os.environ.get("PDNAS_CHROMIUM") or shutil.which("chromium")
NEEDED = "PDNAS_NEEDS_BROWSER"
"""Where this is set, as it is in CI, a browser that is missing fails the tests."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if CHROMIUM is None:
        if os.environ.get(NEEDED):
            pytest.fail("Chromium is not installed; apt-get install chromium")
        pytest.skip("Chromium is not installed; apt-get install chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def pages(
    made: dict[str, Path], tuned: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Path]:
    """A page of each kind of run, of several runs, and of a run that was stopped."""
    place = tmp_path_factory.mktemp("pages")
    going = place / "going"
    shutil.copytree(made["grid"], going)
    for name in ("result.json", "predictions.safetensors"):
        (going / name).unlink()
    lines = (going / "history.jsonl").read_text().splitlines()
    (going / "history.jsonl").write_text("\n".join(lines[:9]) + '\n{"phase":"se')
    runs = {
        "search": [made["grid"]],
        "training": [made["trained"]],
        "several": [made["grid"], made["rated"], made["trained"]],
        "unfinished": [going],
        "tuning": [tuned],
    }
    written = {name: write_page(paths, place / f"{name}.html") for name, paths in runs.items()}
    return {**written, "watched": write_page([going], place / "watched.html", watched=True)}


class Visit:
    """A page that was opened, and all that it said and asked for.

    Args:
        browser: Where.
        path: The page on disk.
        options: Of the browser's context.
    """

    def __init__(self, browser: Any, path: Path, **options: Any) -> None:
        self.context = browser.new_context(**options)
        self.page = self.context.new_page()
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", self._hear)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", self._refuse)
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(path.as_uri())

    def _hear(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)

    def _refuse(self, dialog: Any) -> None:
        self.complaints.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def draw_all(self) -> int:
        """Unfold and scroll through the page until every plot is drawn; how many there are."""
        page = self.page
        page.evaluate("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
        count: int = page.locator(".plot").count()
        for number in range(count):
            plot = page.locator(".plot").nth(number)
            plot.evaluate("(element) => element.scrollIntoView({behavior: 'instant'})")
            plot.locator("svg.main-svg").first.wait_for(state="attached", timeout=10_000)
        page.wait_for_function(
            "[...document.querySelectorAll('.plot')].every((p) => p.dataset.drawn)"
        )
        return count


@pytest.fixture
def visit(browser: Any, pages: dict[str, Path]) -> Iterator[Any]:
    visits = []

    def start(name: str, **options: Any) -> Visit:
        visits.append(Visit(browser, pages[name], **options))
        return visits[-1]

    yield start
    for one in visits:
        one.context.close()


PLOTS = {"search": 20, "training": 2, "several": 1, "unfinished": 8, "tuning": 5}
"""How many plots a page has at least."""

DRAWN = """(element) => element.querySelectorAll(
    '.scatterlayer .trace path, .heatmaplayer image, .barlayer .point path').length"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", PLOTS)
def test_every_plot_is_drawn_without_errors_or_requests(visit: Any, name: str, scheme: str) -> None:
    visited = visit(name, color_scheme=scheme)

    count = visited.draw_all()

    assert count >= PLOTS[name]
    for number in range(count):
        assert visited.page.locator(".plot").nth(number).evaluate(DRAWN) > 0
    assert visited.complaints == []
    assert all(url.startswith(("file:", "data:", "blob:")) for url in visited.requests)
    assert len([url for url in visited.requests if url.startswith("file:")]) == 1


@pytest.mark.parametrize("name", PLOTS)
def test_a_phone_scrolls_one_way(visit: Any, name: str) -> None:
    visited = visit(name, viewport={"width": 390, "height": 844}, is_mobile=True, has_touch=True)
    visited.draw_all()

    wide = visited.page.evaluate(
        "[document.documentElement.scrollWidth, document.documentElement.clientWidth]"
    )

    assert wide == [390, 390]


UNREADABLE = """(plot) => {
    const legend = plot.querySelector('.legend'), title = plot.querySelector('.xtitle');
    if (!legend || !title) return [];
    const bar = legend.querySelector('.scrollbar');
    const found = [];
    if (bar && bar.getBoundingClientRect().height > 0) found.push('scrolls');
    if (legend.getBoundingClientRect().top < title.getBoundingClientRect().bottom - 1)
        found.push('hides the title of the axis');
    if (plot.querySelector('.nsewdrag').getBoundingClientRect().height < 90)
        found.push('leaves no room');
    return found;
}"""


@pytest.mark.parametrize("width", [390, 1400])
@pytest.mark.parametrize("name", ["search", "several", "tuning"])
def test_legends_are_whole_and_hide_nothing(visit: Any, name: str, width: int) -> None:
    visited = visit(name, viewport={"width": width, "height": 844})
    visited.draw_all()

    for plot in visited.page.locator(".plot").all():
        assert plot.evaluate(UNREADABLE) == [], plot.get_attribute("id")


def test_long_names_leave_room_for_a_matrix_on_a_phone(visit: Any) -> None:
    visited = visit("search", viewport={"width": 390, "height": 844})
    visited.draw_all()

    cells = visited.page.locator("#plot-confusion .heatmaplayer image").bounding_box()

    assert cells["width"] > 120


def test_a_long_word_stays_in_its_cell(visit: Any) -> None:
    page = visit("search", viewport={"width": 390, "height": 844}).page
    page.evaluate(
        "document.querySelector('#classes-section tbody th').textContent = 'a'.repeat(200)"
    )

    cell = page.locator("#classes-section tbody th").first

    assert cell.evaluate("(element) => element.scrollWidth - element.clientWidth") <= 0
    assert cell.bounding_box()["width"] < 300


def test_a_click_toggles_a_trace(visit: Any) -> None:
    visited = visit("search")
    visited.draw_all()
    plot = visited.page.locator("#plot-search0-losses")
    plot.scroll_into_view_if_needed()

    def hidden() -> list[Any]:
        shown: list[Any] = plot.evaluate("(element) => element._fullData.map((t) => t.visible)")
        return shown

    assert hidden() == [True, True, True]
    plot.locator(".legendtoggle").first.click()
    visited.page.wait_for_function(
        "document.getElementById('plot-search0-losses')._fullData[0].visible === 'legendonly'"
    )
    assert hidden()[1:] == [True, True]


def test_names_of_users_stay_text(visit: Any) -> None:
    visited = visit("search")
    visited.draw_all()

    assert visited.page.locator(f"table th:text-is('{HOSTILE}')").count() > 0
    labels = visited.page.locator("#plot-confusion .xtick text").all_text_contents()
    assert any(label.startswith("<script>alert(1)") for label in labels)
    assert visited.page.locator("script").count() == 3
    assert visited.complaints == []


def test_the_button_changes_the_colors_and_the_page_remembers(visit: Any) -> None:
    visited = visit("search", color_scheme="light")
    page = visited.page
    page.locator(".plot").first.scroll_into_view_if_needed()
    before = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert page.get_by_role("button", name="Dark colors", pressed=False).count() == 1

    page.locator("#theme").click()

    assert page.get_by_role("button", name="Dark colors", pressed=True).count() == 1
    assert page.locator("#theme").inner_text() == "Dark"

    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != before
    visited.draw_all()
    font = "document.querySelector('.plot')._fullLayout.font.color"
    assert page.evaluate(font) == "#e8eaed"
    page.reload()
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"


def test_a_watched_page_loads_itself_again_as_it_was_left(visit: Any) -> None:
    page = visit("watched").page
    group = page.locator("details.group[open]").nth(1)
    table = page.locator("details.data").nth(1)
    table.locator("summary").click()
    group.locator("> summary").click()
    shown = page.evaluate("[...document.querySelectorAll('details')].map((d) => d.open)")
    page.evaluate("window.scrollTo({top: document.body.scrollHeight, behavior: 'instant'})")
    place = page.evaluate("window.scrollY")

    page.reload()

    assert page.evaluate("[...document.querySelectorAll('details')].map((d) => d.open)") == shown
    assert place > 1000
    assert abs(page.evaluate("window.scrollY") - place) < 2
    page.locator("details.data").nth(1).locator("summary").click()
    page.reload()
    assert page.locator("details.data").nth(1).get_attribute("open") is None


def test_a_change_of_the_system_is_followed(visit: Any) -> None:
    visited = visit("training", color_scheme="light")

    visited.page.emulate_media(color_scheme="dark")

    visited.page.wait_for_function("document.documentElement.dataset.theme === 'dark'")


UNDRAWN = "[...document.querySelectorAll('.plot')].filter((p) => !p.querySelector('svg')).length"


def test_paper_has_every_plot(visit: Any) -> None:
    page = visit("search", color_scheme="dark").page
    page.locator(".plot").first.scroll_into_view_if_needed()
    assert page.evaluate(UNDRAWN) > 10

    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")

    assert page.evaluate(UNDRAWN) == 0
    assert page.evaluate("document.documentElement.dataset.theme") == "light"
    widest = "Math.max(...[...document.querySelectorAll('svg.main-svg')].map((s) => s.clientWidth))"
    assert page.evaluate(widest) <= 680
    page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    assert page.locator("details.group:not([open])").count() > 0


def test_a_page_shown_as_on_paper_has_every_plot(visit: Any) -> None:
    page = visit("search").page

    page.emulate_media(media="print")

    page.wait_for_function(f"{UNDRAWN} === 0")


def test_a_printed_page_has_its_plots(visit: Any, tmp_path: Path) -> None:
    page = visit("training").page

    page.pdf(path=tmp_path / "page.pdf")

    assert page.evaluate(UNDRAWN) == 0


PHONE = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}


@pytest.mark.parametrize("options", [{}, PHONE], ids=["desktop", "phone"])
def test_flags_and_figures_with_units_are_whole(visit: Any, options: dict[str, Any]) -> None:
    page = visit("search", **options).page

    lines = "(all) => all.map((element) => element.getClientRects().length)"
    assert set(page.locator(".whole:visible").evaluate_all(lines)) == {1}


OUTSIDE = """(svg) => [...svg.querySelectorAll('.block')].flatMap((block) => {
    const box = block.querySelector('rect').getBoundingClientRect();
    return [...block.querySelectorAll('text')].map((text) =>
        text.getBoundingClientRect().right - box.right);
}).filter((over) => over > -4)"""


@pytest.mark.parametrize("options", [{}, PHONE], ids=["desktop", "phone"])
def test_no_op_runs_out_of_its_block(visit: Any, options: dict[str, Any]) -> None:
    page = visit("search", **options).page
    for activation in ACTIVATIONS:
        for norm in NORMS:
            block = BlockSpec(bias=True, norm=norm, activation=activation, propagation=8)
            shown = draw_svg(Architecture(blocks=(block, BlockSpec())), CHANNELS, 16)
            drawing = page.locator(".drawing").first
            drawing.evaluate("(element, svg) => { element.innerHTML = svg; }", shown)

            assert drawing.locator("svg").evaluate(OUTSIDE) == []


TOOLS = """(plot) => {
    const bar = plot.querySelector('.modebar');
    if (!bar || getComputedStyle(bar).visibility === 'hidden') return null;
    const box = bar.getBoundingClientRect();
    return [box.width, plot.querySelector('.main-svg').getBoundingClientRect().top - box.bottom];
}"""


def test_tools_of_plots_come_with_the_mouse_and_hide_nothing(visit: Any) -> None:
    visited = visit("search", viewport={"width": 1400, "height": 900}, color_scheme="light")
    visited.draw_all()
    visited.page.mouse.move(1, 1)
    plots = visited.page.locator(".plot").all()

    assert {plot.evaluate(TOOLS) is None for plot in plots} == {True}
    for plot in plots[:3]:
        plot.hover()
        width, below = plot.evaluate(TOOLS)
        assert width > 50
        assert below >= 0
        icon = plot.locator(".modebar-btn path").first
        assert icon.evaluate("(path) => getComputedStyle(path).fill") == "rgb(87, 96, 106)"


def test_who_cannot_hover_has_no_tools(visit: Any) -> None:
    visited = visit("search", **(PHONE | {"viewport": {"width": 1024, "height": 800}}))
    visited.draw_all()

    assert visited.page.locator(".modebar:visible").count() == 0


def test_a_phone_shows_all_figures_of_the_network_and_its_controls(visit: Any) -> None:
    page = visit("search", **PHONE).page

    for region in page.locator(".beside .scroll").all():
        assert region.evaluate("(element) => element.scrollWidth - element.clientWidth") == 0
    row = page.locator(".beside tbody tr").first
    named = "(all) => all.map((cell) => getComputedStyle(cell, '::before').content)"
    assert row.locator("td").evaluate_all(named)[-2:] == ['"parameters"', '"seconds"']
    assert row.bounding_box()["width"] <= 390


def test_an_odd_card_has_the_whole_row_on_a_phone(visit: Any) -> None:
    page = visit("search", **PHONE).page

    cards = page.locator(".tiles div")
    assert cards.count() == 5
    assert cards.last.bounding_box()["width"] > 2 * cards.first.bounding_box()["width"]


def test_warnings_are_told_under_the_verdict(visit: Any) -> None:
    page = visit("search").page
    told = page.locator("#search .warnings li").count()

    link = page.locator(".verdict .warned a")

    assert link.inner_text() == f"{told} warning{'s' if told > 1 else ''}"
    link.click()
    assert page.evaluate("location.hash") == "#search"


def test_long_cells_have_room_and_captions_stay_in_sight_on_a_phone(visit: Any) -> None:
    page = visit("several", viewport={"width": 390, "height": 844}).page

    row = page.locator("#side-by-side table tbody tr").first
    caption = page.locator("#side-by-side caption span").first.bounding_box()

    assert row.bounding_box()["height"] < 180
    assert caption["x"] + caption["width"] <= 390
    region = page.locator("#side-by-side .scroll").first
    region.evaluate("(element) => { element.scrollLeft = 200; }")
    assert page.locator("#side-by-side caption span").first.bounding_box()["x"] == caption["x"]


def test_commands_are_copied(visit: Any) -> None:
    visited = visit("search")
    visited.context.grant_permissions(["clipboard-read", "clipboard-write"])
    button = visited.page.locator("button.copy").first

    button.click()

    visited.page.wait_for_function("document.getElementById('said').textContent !== ''")
    assert button.text_content() == "Copied"
    copied = visited.page.evaluate("navigator.clipboard.readText()")
    assert copied.startswith("pdnas search ")


def test_the_keyboard_reaches_the_content_first(visit: Any) -> None:
    page = visit("search").page

    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"


def test_a_screen_reader_finds_headings_landmarks_and_names(visit: Any) -> None:
    page = visit("search").page
    page.evaluate("document.querySelectorAll('details').forEach((d) => { d.open = true; })")

    assert page.get_by_role("main").count() == 1
    assert page.get_by_role("navigation", name="Sections").count() == 1
    assert page.get_by_role("heading", level=1).count() == 1
    assert page.get_by_role("heading", level=2).count() >= 6
    assert page.get_by_role("img", name="From 4 features").count() == 1
    for figure in page.get_by_role("figure").all():
        assert figure.locator("figcaption").count() == 1
    assert page.get_by_role("table", name="Each class on the test part").count() == 1
