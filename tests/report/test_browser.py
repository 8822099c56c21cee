"""The page in a browser: drawn, silent, without requests, legible in dark and light, wide and narrow."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Locator, Page

from stream_osr import OpenSetRecognizer
from stream_osr_connectors.page.report import report_page
from tests.blobs import around
from tests.report.browser import Opened, contrast, contrasts, covering, faint_texts, luminance, opened_page

pytestmark = pytest.mark.needs("browser")

WIDE, NARROW = 1280, 380
DRAWN = "html[data-drawn=yes]"
TALLEST = {WIDE: 4000, NARROW: 8000}
"""Pixels of the report of the demonstration before anything is opened."""

BOXES = """figure => [...figure.querySelectorAll('SELECTOR')]
    .filter(mark => getComputedStyle(mark).visibility === 'visible' && getComputedStyle(mark).opacity !== '0')
    .map(mark => { const b = mark.getBoundingClientRect(); return [b.left, b.top, b.right, b.bottom] })"""


@pytest.fixture(scope="module")
def path(run, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(report_page(run.model, run.decisions, run.events, run.truth), encoding="utf-8")
    return path


@pytest.fixture(scope="module", params=[("light", WIDE), ("dark", WIDE), ("dark", NARROW)], ids=str)
def opened(request, browser, path) -> Iterator[Opened]:
    scheme, width = request.param
    with opened_page(browser, path.as_uri(), DRAWN, scheme=scheme, width=width) as it:
        open_charts(it.page)
        yield it


def open_charts(page: Page) -> None:
    """Open the parts with charts, which are closed at first."""
    page.evaluate("document.querySelectorAll('details.later').forEach(part => { part.open = true; })")
    page.wait_for_timeout(500)


def is_harmless(opened: Opened, path: Path) -> bool:
    """Whether a page fits its window, ran nothing of the data, made no request and wrote nothing to the console."""
    fits = opened.page.evaluate("document.documentElement.scrollWidth <= innerWidth && window.hacked === undefined")
    return bool(fits) and (opened.said, opened.requests) == ([], [path.as_uri()])


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_the_page_is_short_before_anything_is_opened(browser, path, width):
    with opened_page(browser, path.as_uri(), DRAWN, width=width) as (page, _, _):
        size = page.evaluate("[document.documentElement.scrollWidth, document.documentElement.scrollHeight]")
        assert size[0] <= width
        assert size[1] <= TALLEST[width]
        assert page.locator(".tile").count() <= 4
        assert page.locator("#where .figure").first.is_hidden()
        page.evaluate("scrollTo(0, 2000)")
        assert page.locator("nav").bounding_box()["y"] == 0


def boxes(page: Page, figure: str, marks: str) -> list[list[float]]:
    return page.locator(f"[data-figure={figure}]").evaluate(BOXES.replace("SELECTOR", marks))


def test_it_is_silent_makes_no_request_and_runs_nothing_of_the_data(opened, path):
    assert is_harmless(opened, path)
    dark = opened.page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches")
    seen = luminance(opened.page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert seen < 0.05 if dark else seen > 0.7


def test_drawings_have_content(opened, run):
    page = opened.page
    for figure in page.locator("[data-figure]").all():
        box = figure.locator("svg").bounding_box()
        assert (box["width"] > 200, box["height"] > 60) == (True, True)
    emerged = {e["subclass_id"] for e in run.events if e["type"] == "SubclassEmerged"}
    assert len(boxes(page, "arrivals", ".mark-rect path")) > 200
    assert len(boxes(page, "arrivals", ".events_marks path")) == sum("subclass_id" in e for e in run.events)
    assert len(boxes(page, "share", ".mark-line path")) == 2
    summary = run.model.summary()
    for plane in ("plane-known", "plane-all"):
        outlines = boxes(page, plane, ".mark-line path")
        assert len(outlines) == sum(len(group.subclasses) for group in summary.known) + len(emerged)
        assert all(b[2] - b[0] > 3 and b[3] - b[1] > 3 for b in outlines)
        assert len(boxes(page, plane, ".mark-symbol path")) == len(run.decisions)
    for key in emerged:
        widths = [b[2] - b[0] for b in boxes(page, f"shifts-{key}", ".mark-rect path")]
        assert widths == sorted(widths, reverse=True)
        assert (len(widths), widths[0] > 40) == (3, True)
    assert len(boxes(page, "calibration", ".mark-symbol path")) == 15
    assert len(boxes(page, "spread", ".mark-rect path")) == 40


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_names_that_would_cover_others_step_aside(browser, tmp_path, width):
    rng = np.random.default_rng(0)
    model = OpenSetRecognizer(seed=1)
    for number in range(9):
        for x in around((number % 3, number // 3, 0.0), 30, rng, "abc"):
            model.learn_one(x, f"a class with a long name {number}")
    model.freeze()
    path = tmp_path / "crowd.html"
    path.write_text(report_page(model), encoding="utf-8")
    with opened_page(browser, path.as_uri(), DRAWN) as (page, _, _):
        open_charts(page)
        page.set_viewport_size({"width": width, "height": 900})  # drawn anew, names thinned anew
        page.wait_for_timeout(500)
        names = boxes(page, "plane-known", ".names_marks text")
        assert len(names) == 9 if width == WIDE else 3 < len(names) <= 9
        assert page.locator("[data-figure=plane-known] .leaders line").count() > 0
        assert not covering(names)


def test_labels_of_the_rows_and_features_do_not_cover_each_other_or_leave_the_drawing(opened):
    for figure in opened.page.locator("[data-figure]").all():
        name = str(figure.get_attribute("data-figure"))
        (frame,) = boxes(opened.page, name, "svg")
        texts = boxes(opened.page, name, ".role-axis-label text, .role-axis-title text")
        assert len(texts) > 3
        assert all(text[0] >= frame[0] - 1 and text[2] <= frame[2] + 1 for text in texts), name
        assert not covering(texts), name


def test_letters_and_marks_stand_out_from_the_page(opened):
    def style(selector: str, name: str) -> str:
        return str(opened.page.locator(selector).first.evaluate(f"mark => getComputedStyle(mark)['{name}']"))

    card = style("section", "backgroundColor")
    assert len(contrasts(opened.page)) > 100
    assert not faint_texts(opened.page)
    known, new = (style(f".key i.{kind}:not(.line)", "backgroundColor") for kind in ("known", "new"))
    assert min(contrast(known, card), contrast(new, card)) >= 3.0  # ... and for marks
    assert known != new


def tip(page: Page, mark: Locator) -> str:
    """What is said of a mark under the pointer."""
    page.mouse.move(1, 1)
    mark.scroll_into_view_if_needed()
    mark.hover(force=True)
    shown = page.locator("#vg-tooltip-element.visible")
    shown.wait_for(timeout=5_000)
    assert page.evaluate("window.hacked === undefined")
    return shown.inner_text()


def test_the_tip_of_a_mark_is_text(opened):
    page = opened.page
    assert "arrivals" in tip(page, page.locator("[data-figure=arrivals] .mark-rect path").last)
    for plane in ("plane-known", "plane-all"):
        assert "a known class" in tip(page, page.locator(f"[data-figure={plane}] .names_marks text").first)


@pytest.fixture(scope="module")
def attacked(browser, path) -> Iterator[Opened]:
    """The page, opened once: what it refuses leaves it as it was."""
    with opened_page(browser, path.as_uri(), DRAWN) as it:
        assert is_harmless(it, path)
        yield it


MADE = "const made = document.createElement('{}'); made.{}; document.body.append(made)"
DEEDS = (
    (MADE.format("script", "textContent = 'window.hacked = 1'"), "script-src"),
    (MADE.format("script", "src = 'data:,window.hacked = 1'"), "script-src"),
    ("document.body.setAttribute('onclick', 'window.hacked = 1'); document.body.click()", "script-src"),
    ("setTimeout('window.hacked = 1')", "script-src"),
    (MADE.format("base", "href = 'https://example.org/'"), "base-uri"),
    (MADE.format("form", "action = 'https://example.org/'") + "; made.submit()", "form-action"),
    ("document.body.setAttribute('style', 'display: none')", "style-src"),
    (MADE.format("style", "textContent = 'body { display: none }'"), "style-src"),
    (MADE.format("img", "src = 'https://example.org/x.png'"), "img-src"),
    (MADE.format("iframe", "src = 'https://example.org/'"), "default-src"),
    ("fetch('https://example.org/').catch(() => 0)", "default-src"),
)


@pytest.mark.parametrize(("deed", "refused"), DEEDS)
def test_the_policy_of_the_page_refuses(attacked, path, deed, refused):
    attacked.said.clear()
    attacked.page.evaluate(f"() => {{ {deed} }}")
    attacked.page.wait_for_timeout(200)
    assert any(refused in line for line in attacked.said), attacked.said
    assert attacked.page.evaluate("window.hacked === undefined")
    assert attacked.page.evaluate("getComputedStyle(document.body).display") == "block"
    assert attacked.page.url == path.as_uri()


def test_every_column_of_the_decisions_by_true_class_is_seen(opened):
    """On a phone *unknown*, which matters most, was cut off."""
    page = opened.page
    width = page.evaluate("innerWidth")
    cells = page.locator(".confusion td").filter(visible=True)
    found = [(cell.get_attribute("data-decided"), cell.bounding_box()) for cell in cells.all()]
    assert "unknown" in {name for name, _ in found}
    assert all(box is not None and box["x"] >= 0 and box["x"] + box["width"] <= width for _, box in found)
    right = page.locator(".confusion tr.new td[data-decided=unknown]").all_inner_texts()
    assert right == page.locator(".confusion tr.new td.right").all_inner_texts()


def test_a_subclass_leads_to_its_instances_and_back(opened):
    page = opened.page
    page.locator("#candidate-1 .examples a[href^='#i']").first.click()
    row = page.locator(":target")
    assert row.is_visible()  # the list was closed
    row.locator("a").first.click()
    assert str(page.locator(":target").get_attribute("id")).startswith("S")
    page.locator("#of-1 a").first.click()
    assert page.locator("#candidate-1:target").is_visible()


def test_words_are_explained_under_pointer_and_focus_within_the_page(opened):
    page = opened.page
    tip = page.locator("#tip")
    for word in page.locator(".lead .term").all():
        word.focus()
        tip.wait_for(state="visible")
        box = tip.bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= page.evaluate("innerWidth")
        assert len(tip.inner_text()) > 20
        page.keyboard.press("Escape")
        tip.wait_for(state="hidden")
    page.locator(".lead .term").first.hover()
    tip.wait_for(state="visible")
    page.mouse.move(1, 1)
    tip.wait_for(state="hidden")


def test_the_command_is_copied(opened):
    page = opened.page
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    button = page.locator("#candidate-1 .copy")
    button.focus()
    page.keyboard.press("Enter")
    page.get_by_text("Copied").first.wait_for()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied == page.locator("#command-1").text_content()
    assert copied.startswith("model.promote([")


def test_a_subclass_is_chosen_and_the_planes_show_it_alone(opened):
    page = opened.page
    chooser = page.get_by_label("Show")
    name = chooser.locator("option").nth(1).get_attribute("value")
    before = len(boxes(page, "plane-all", ".names_marks text"))
    assert before > 1
    chooser.select_option(name)
    for plane in ("plane-known", "plane-all"):
        page.wait_for_function(
            "plane => document.querySelectorAll(`[data-figure=${plane}] .names_marks text:not([opacity='0'])`)"
            ".length === 1",
            arg=plane,
        )
        page.wait_for_timeout(100)
        assert len(boxes(page, plane, ".names_marks text")) == 1
    assert page.locator("#to-chosen").get_attribute("href") == f"#{name}"
    chooser.select_option("")
    page.wait_for_timeout(200)
    assert len(boxes(page, "plane-all", ".names_marks text")) == before
    assert opened.said == []


def test_planes_zoom_by_buttons_and_by_the_wheel_with_ctrl_alone(opened):
    page = opened.page
    figure = page.locator("[data-figure=plane-all]")
    figure.scroll_into_view_if_needed()

    def ticks() -> str:
        page.wait_for_timeout(250)
        return " ".join(sorted(figure.locator(".role-axis-label text").all_text_contents()))

    whole = ticks()
    buttons = page.locator(".zoom[data-of=plane-all] button")
    buttons.nth(0).focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")
    assert ticks() != whole
    assert len(figure.locator(".mark-line path").all()) > 0
    assert not covering(boxes(page, "plane-all", ".names_marks text"))
    buttons.nth(2).click()
    assert ticks() == whole
    figure.hover()
    page.mouse.wheel(0, -200)
    assert ticks() == whole  # the page has scrolled
    figure.scroll_into_view_if_needed()
    figure.hover()
    page.keyboard.down("Control")
    page.mouse.wheel(0, -200)
    page.keyboard.up("Control")
    assert ticks() != whole
    buttons.nth(2).click()
    assert ticks() == whole
    assert opened.said == []


def test_without_scripts_everything_but_the_drawings_is_there(browser, path):
    context = browser.new_context(java_script_enabled=False, viewport={"width": NARROW, "height": 900})
    page = context.new_page()
    page.goto(path.as_uri())
    assert page.locator("#command-1").is_visible()
    assert not page.locator(".copy").first.is_visible()
    assert not page.locator(".zoom").first.is_visible()
    assert page.locator(".lead .term").first.get_attribute("title")
    page.locator("#instances summary").first.click()
    page.locator("#of-1 summary").click()
    assert page.locator("#of-1 td").first.is_visible()
    context.close()


def test_everything_that_does_something_is_reached_by_the_keyboard_and_has_a_name(opened):
    page = opened.page
    names = page.evaluate(
        "[...document.querySelectorAll('a[href], button, select, summary')].filter(e => e.checkVisibility())"
        ".map(e => [e.tabIndex, (e.getAttribute('aria-label') || e.textContent).trim()])"
    )
    assert len(names) > 30
    assert all(order >= 0 and name for order, name in names)
    page.locator("h1").click()
    page.evaluate("document.activeElement.blur()")
    levels = [
        int(tag[1]) for tag in page.evaluate("[...document.querySelectorAll('h1,h2,h3,h4,h5')].map(e => e.tagName)")
    ]
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(levels)), levels
