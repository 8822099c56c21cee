"""The page in a browser: drawn, silent, without requests, legible in dark and light, wide and narrow."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from stream_osr_connectors.page.report import report_page
from tests.report.browser import Opened, contrasts, faint_texts, luminance, opened_page

pytestmark = pytest.mark.needs("browser")

WIDE, NARROW = 1280, 380
DRAWN = "html[data-seq]"


@pytest.fixture(scope="module")
def path(run, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(report_page(run.model, run.decisions, run.events, run.truth), encoding="utf-8")
    return path


@pytest.fixture(scope="module", params=[("light", WIDE), ("dark", NARROW)], ids=str)
def opened(request, browser, path) -> Iterator[Opened]:
    scheme, width = request.param
    with opened_page(browser, path.as_uri(), DRAWN, scheme=scheme, width=width) as it:
        yield it


def is_harmless(opened: Opened, path: Path) -> bool:
    """Whether a page fits its window, ran nothing of the data, made no request and wrote nothing to the console."""
    fits = opened.page.evaluate("document.documentElement.scrollWidth <= innerWidth && window.hacked === undefined")
    return bool(fits) and (opened.said, opened.requests) == ([], [path.as_uri()])


def test_it_is_silent_makes_no_request_and_runs_nothing_of_the_data(opened, path):
    assert is_harmless(opened, path)
    dark = opened.page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches")
    seen = luminance(opened.page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert seen < 0.05 if dark else seen > 0.7


def test_all_parts_are_drawn(opened, run):
    page = opened.page
    found = run.model.new_classes().candidates
    assert page.inner_text("h1").startswith(f"{len(found)} candidate")
    assert page.locator("article h3").all_inner_texts() == [each.name for each in found[:5]]
    assert page.locator("#tiles .tile").count() == 5
    assert page.locator("#came .strip.known").count() == 3
    assert page.locator("#came .strip.new .marks").count() >= len(found)
    assert page.locator("#lies circle").count() > 4
    assert page.locator("#calibration circle").count() > 3
    rows = page.locator("#confusion tbody tr")
    assert rows.count() == len(set(run.labels))
    assert rows.last.locator("td").first.inner_text() == rows.last.locator("td.right").inner_text()
    assert page.locator("#link").is_hidden()
    assert page.locator("#changes").is_hidden()
    assert opened.said == []


def test_letters_stand_out_from_the_page(opened):
    assert len(contrasts(opened.page)) > 60
    assert not faint_texts(opened.page)


def test_the_instances_of_a_candidate_are_opened_without_a_server(opened, path):
    page = opened.page
    page.locator("article button", has_text="Instances").first.click()
    rows = page.locator("#panel tbody button")
    rows.first.wait_for()
    assert rows.count() == 30
    rows.first.click()
    page.locator("#panel .why").wait_for()
    assert page.locator("#panel .bars tr").count() == 4
    assert "true class" in page.locator("#panel dl").inner_text()
    page.keyboard.press("Escape")
    page.evaluate("document.querySelector('article').focus()")
    assert is_harmless(opened, path)


def test_the_command_is_shown_and_copied(opened):
    page = opened.page
    assert page.locator("article code").first.inner_text().startswith("model.promote([")
    assert page.locator("article button", has_text="Name it").first.is_hidden()
    copy = page.locator(".naming button").first
    copy.click()
    copied = page.locator(".naming button").filter(has_text=re.compile("^(Copied|Selected)$"))
    copied.first.wait_for()


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
