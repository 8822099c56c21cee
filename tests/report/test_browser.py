"""The page in a real browser: drawn, silent, asking nobody, legible in dark and light, wide and narrow."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Locator, Page

from stream_osr import OpenSetRecognizer
from stream_osr_connectors.page.report import report_page
from stream_osr_connectors.page.report.files import naming
from tests.blobs import around
from tests.report.browser import Opened, contrasts, covering, faint_texts, luminance, opened_page
from tests.report.conftest import as_written

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


def test_it_is_silent_asks_nobody_and_runs_nothing_of_the_data(opened, path):
    assert opened.said == []
    assert opened.asked == [path.as_uri()]
    assert opened.page.evaluate("window.hacked === undefined")
    assert opened.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    dark = opened.page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches")
    seen = luminance(opened.page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert seen < 0.05 if dark else seen > 0.7


def test_drawings_have_content(opened, run):
    page = opened.page
    for figure in page.locator("[data-figure]").all():
        box = figure.locator("svg").bounding_box()
        assert box is not None
        assert box["width"] > 200
        assert box["height"] > 60
    emerged = {e["subclass_id"] for e in run.events if e["type"] == "SubclassEmerged"}
    told = [e for e in run.events if "subclass_id" in e]
    assert len(boxes(page, "arrivals", ".mark-rect path")) > 200
    assert len(boxes(page, "arrivals", ".events_marks path")) == len(told)
    assert len(boxes(page, "share", ".mark-line path")) == 2
    summary = run.model.summary()
    for plane in ("plane-known", "plane-all"):
        outlines = boxes(page, plane, ".mark-line path")
        assert len(outlines) == sum(len(group.subclasses) for group in summary.known) + len(emerged)
        assert all(b[2] - b[0] > 3 and b[3] - b[1] > 3 for b in outlines)
        assert len(boxes(page, plane, ".mark-symbol path")) == len(run.decisions)
    for key in emerged:
        bars = boxes(page, f"shifts-{key}", ".mark-rect path")
        assert len(bars) == 3
        widths = [b[2] - b[0] for b in bars]
        assert widths == sorted(widths, reverse=True)
        assert widths[0] > 40
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


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


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
    told = page.locator("#vg-tooltip-element.visible")
    told.wait_for(timeout=5_000)
    assert page.evaluate("window.hacked === undefined")
    return told.inner_text()


def test_what_is_under_the_pointer_is_told_as_text(opened):
    page = opened.page
    assert "arrivals" in tip(page, page.locator("[data-figure=arrivals] .mark-rect path").last)
    for plane in ("plane-known", "plane-all"):
        name = page.locator(f"[data-figure={plane}] .names_marks text").first
        assert "a known class" in tip(page, name)


HOSTILE = {
    "script": "</script><script>window.hacked=1</script><img src=x onerror=window.hacked=1>",
    "line": "a\u2028b\u2029c\nd",
    "quotes": "\"'`\\ ${window.hacked=1} {{ 1 }} datum.x['",
    "bidi": "\u202egnp.exe\u2066\u200b\u0000\x1b",
    "long": "wide " + "x" * 10_000,
    "surrogate": "\ud800half",
}


@pytest.fixture(scope="module")
def unbounded() -> Iterator[None]:
    """Labels, keys and names of any length."""
    with pytest.MonkeyPatch.context() as patch:
        for bound in ("stream.intake.check_length", "stream.intake.check_names", "times_and_keys.check_key"):
            patch.setattr(f"stream_osr.{bound}", lambda *_: None)
        yield


@pytest.fixture(scope="module")
def hostile(tmp_path_factory, unbounded) -> Path:
    """A page whose features, labels, keys, true labels, events and title are hostile."""
    rng = np.random.default_rng(2)
    centres = {text: 9.0 * np.eye(6)[number] for number, text in enumerate(HOSTILE.values())}
    new = centres.pop(HOSTILE["line"])
    model = OpenSetRecognizer(batch_size=32, seed=4, chains=1)
    for label, centre in centres.items():
        for x in around(tuple(centre), 60, rng, HOSTILE.values()):
            model.learn_one(x, label)
    model.freeze()
    labels = []
    for number in range(300):
        label = list(centres)[number % 5] if number < 100 or number % 2 else HOSTILE["line"]
        labels.append(label)
        x = around(tuple(centres.get(label, new)), 1, rng, HOSTILE.values())[0]
        model.learn_one(x, key=f"{list(HOSTILE.values())[number % 6]}{number}")
    model.flush()
    decisions, events = as_written(model.drain()), as_written(model.drain_events())
    jump = {"type": HOSTILE["script"], "model": events[0]["model"], "seq": 9, **{text: text for text in centres}}
    page = report_page(
        model,
        decisions,
        [*events, jump],
        lambda key, number: labels[number],
        HOSTILE["script"],
        [HOSTILE["bidi"]],
        [(decision["key"], dict.fromkeys(HOSTILE.values(), HOSTILE["script"])) for decision in decisions],
        naming(Path("<img src=x onerror='window.hacked=1'>.checkpoint")),
    )
    path = tmp_path_factory.mktemp("hostile") / "report.html"
    path.write_text(page, encoding="utf-8")
    return path


@pytest.fixture
def seen(browser, hostile) -> Iterator[Opened]:
    with opened_page(browser, hostile.as_uri(), DRAWN) as it:
        yield it


def test_hostile_text_is_drawn_as_text(seen, hostile):
    page = seen.page
    assert seen.said == []
    assert seen.asked == [hostile.as_uri()]
    assert page.evaluate("window.hacked === undefined")
    assert page.locator("script").count() == 3
    assert page.locator("main img").count() == 0
    assert page.locator(".examples td", has_text="</script><script>window.hacked=1").count() > 10
    assert "<img src=x onerror=" in page.locator("#command-1").inner_text()
    for figure in page.locator("[data-figure]").all():
        assert figure.locator("svg").bounding_box() is not None
        assert figure.locator("svg path, svg line").count() > 3
    labels = page.locator("[data-figure^=shifts] .role-axis-label text").all_text_contents()
    assert any(label.startswith("a\\u2028b") for label in labels), labels
    text = page.evaluate("document.body.innerText")
    assert not set(text) & set("\u202e\u2066\u200b\u2028\x1b\x00")
    assert "\\u202egnp.exe" in text
    assert "\\ud800half" in text
    assert "x" * 500 not in text
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    tip(page, page.locator("[data-figure=arrivals] .mark-rect path").last)
    assert seen.said == []


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


@pytest.fixture(scope="module")
def attacked(browser, hostile) -> Iterator[Opened]:
    """The page, opened once: what it refuses leaves it as it was."""
    with opened_page(browser, hostile.as_uri(), DRAWN) as it:
        yield it


@pytest.mark.parametrize(("deed", "refused"), DEEDS)
def test_the_policy_of_the_page_refuses(attacked, hostile, deed, refused):
    attacked.said.clear()
    attacked.page.evaluate(f"() => {{ {deed} }}")
    attacked.page.wait_for_timeout(200)
    assert any(refused in line for line in attacked.said), attacked.said
    assert attacked.page.evaluate("window.hacked === undefined")
    assert attacked.page.evaluate("getComputedStyle(document.body).display") == "block"
    assert attacked.page.url == hostile.as_uri()


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
