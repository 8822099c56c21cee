"""The site: it is built without a network, every name that people use is in it, and every page can be reached."""

from __future__ import annotations

import doctest
import re
from collections import Counter
from pathlib import Path

import pytest
from playwright.sync_api import Browser

import stream_osr
from stream_osr import Event, evaluation
from stream_osr_connectors import commands, files, kafka
from stream_osr_connectors.files import checkpoint, file_run
from stream_osr_connectors.page.glossary import TERMS, WORDS
from tests.documents.reading import ROOT
from tests.report.browser import contrasts, faint_texts, luminance, opened_page
from tools.site import hooks

pytestmark = pytest.mark.xdist_group("site")


def anchors(path: Path) -> set[str]:
    """Places of a page that a link can lead to."""
    return set(re.findall(r' id="([^"]+)"', path.read_text()))


def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    pages = [path.read_text() for path in site.rglob("*.html")]
    assert len(pages) > 40
    links = {each for page in pages for each in re.findall(r"<link [^>]*>", page)}
    own = {each for each in links if not re.search('rel="(?:canonical|prev|next)"', each)}
    sources = {each for page in pages for each in re.findall(r'<\w+ [^>]*src="([^"]*)"', page)}
    assert not {each for each in own | sources if "//" in each}
    styles = "".join(path.read_text() for path in site.rglob("*.css"))
    assert not re.findall(r"(?:url\(|@import\s+)[\"']?(?:https?:)?//[^)]+", styles)
    # the theme would request figures of the repository wherever this component is
    assert not [page for page in pages if 'data-md-component="source"' in page]


def test_every_public_name_and_method_is_in_the_reference(site: Path) -> None:
    there = set().union(*map(anchors, (site / "api").rglob("*.html")))
    for module in (stream_osr, evaluation, files, kafka, file_run, checkpoint, commands):
        for name in module.__all__:
            home = getattr(getattr(module, name), "__module__", module.__name__)
            assert there & {f"{module.__name__}.{name}", f"{home}.{name}"}, f"{module.__name__}.{name}"
    there = anchors(site / "api" / "recognizer" / "index.html")
    fields, inherited = stream_osr.config.Arguments.__dataclass_fields__, {"clone", "mutate"}  # river's
    wanted = {name for name in dir(stream_osr.OpenSetRecognizer) if not name.startswith("_") and name not in fields}
    assert {name for name in wanted - inherited if f"stream_osr.OpenSetRecognizer.{name}" not in there} == set()


def test_no_entry_of_the_reference_is_empty_or_private(site: Path) -> None:
    """An empty one follows its heading by nothing, or by its members."""
    heading = re.compile(
        r'id="([^"]+)" class="doc doc-heading"(?:(?!class="doc doc-heading").)*?doc-contents[^>]*>', re.DOTALL
    )
    pages = [path.read_text() for path in sorted((site / "api").rglob("*.html"))]
    entries = [(match[1], page[match.end() :].lstrip()) for page in pages for match in heading.finditer(page)]
    assert len(entries) > 150
    assert [name for name, text in entries if re.match(r'</div>|<div class="doc doc-children">', text)] == []
    names = re.findall(r'id="([^"]+)" class="doc doc-heading"', "".join(pages))
    assert [name for name in names if "._" in name] == []


def test_the_page_of_events_names_each() -> None:
    public = {name: getattr(stream_osr, name) for name in stream_osr.__all__}
    kinds = {name for name, what in public.items() if isinstance(what, type) and issubclass(what, Event)} - {"Event"}
    table = "".join(line for line in (ROOT / "docs/subclasses.md").read_text().splitlines() if line.startswith("| `"))
    assert len(kinds) > 10
    assert kinds - set(re.findall(r"`(\w+)`", table)) == set()


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 380)])
def test_the_home_page_is_legible_and_begins_with_a_picture(
    site: Path, browser: Browser, scheme: str, width: int
) -> None:
    home = (site / "index.html").as_uri()
    with opened_page(browser, home, "main h1", scheme=scheme, width=width) as (page, _, _):
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        ground = luminance(page.evaluate("getComputedStyle(document.body).backgroundColor"))
        assert ground < 0.05 if scheme == "dark" else ground > 0.9
        assert {"Python", "Files", "Kafka", "Installation"} <= set(contrasts(page))
        assert not faint_texts(page)
        assert page.locator(".hero img").evaluate("image => image.naturalWidth") > 0
        shown = [".hero img", *([".doors li >> nth=2"] if width == 1280 else [])]
        boxes = [page.locator(selector).bounding_box() for selector in shown]
        assert all(box and box["y"] + box["height"] <= 900 for box in boxes)


def test_every_page_has_a_title_of_its_own_and_is_in_the_navigation(site: Path) -> None:
    pages = [path.read_text() for path in site.rglob("index.html")]
    titles = [re.search(r"<title>(.*?)</title>", page, re.DOTALL) for page in pages]
    count = Counter(title[1].strip() for title in titles if title)
    assert "Open-set recognition for streams - stream-osr" in count
    assert [title for title, n in count.items() if n > 1] == []
    named = set(re.findall(r"^ +- (?:[^:\n]+: )?(\S+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE))
    there = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    assert named == there | {*hooks.FROM_ROOT.values()}


def test_every_word_is_in_the_glossary(site: Path) -> None:
    words = {**WORDS, **TERMS}
    assert len(words) == len(WORDS) + len(TERMS)
    page = (site / "glossary" / "index.html").read_text()
    text = re.sub(r"<[^>]+>", "", page)
    assert all(word in text and meaning in text for word, meaning in words.items())
    assert "glossary -->" not in page
    assert "In a checkout" not in page
    assert {word.lower().replace(" ", "-") for word in words} <= anchors(site / "glossary" / "index.html")


def test_links_lead_where_the_hooks_say() -> None:
    assert doctest.testmod(hooks).failed == 0
