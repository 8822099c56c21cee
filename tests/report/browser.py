"""A headless Chromium to look at pages with, or the reason why there is none."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from tests.tiers import chromium

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


@contextmanager
def open_browser() -> Iterator[Browser]:
    """Start the browser; it makes no requests of its own."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as player:
        browser = player.chromium.launch(
            executable_path=chromium(), args=["--no-sandbox", "--disable-background-networking"]
        )
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with open_browser() as opened:
        yield opened


class Opened(NamedTuple):
    """A page, its lines on the console, and the addresses of its requests."""

    page: Page
    said: list[str]
    requests: list[str]


@contextmanager
def opened_page(
    browser: Browser, address: str, drawn: str, *, scheme: Any = "light", width: int = 1280
) -> Iterator[Opened]:
    """Open a page, and wait until it is drawn."""
    page = browser.new_page(color_scheme=scheme, viewport={"width": width, "height": 900})
    opened = Opened(page, [], [])
    said = opened.said
    page.on("console", lambda message: said.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("dialog", lambda dialog: said.append(f"dialog: {dialog.message}"))
    page.on("request", lambda request: opened.requests.append(request.url))
    page.goto(address)
    page.wait_for_selector(drawn, timeout=30_000)
    yield opened
    page.close()


def covering(boxes: list[list[float]]) -> bool:
    """Whether one of them covers a part of another."""
    pairs = combinations(boxes, 2)
    return any(a[0] < b[2] - 1 and b[0] < a[2] - 1 and a[1] < b[3] - 1 and b[1] < a[3] - 1 for a, b in pairs)


TEXTS = """() => {
  const seen = [];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walk.nextNode(); node; node = walk.nextNode()) {
    const own = node.parentElement, style = getComputedStyle(own), box = own.getBoundingClientRect();
    if (!node.textContent.trim() || style.visibility === 'hidden' || box.width === 0) continue;
    if (own.closest('.aside, .skip, title, :disabled, noscript, script, style')) continue;
    let strength = 1;
    const under = [];
    for (let at = own; at; at = at.parentElement) {
      const its = getComputedStyle(at);
      strength *= Number(its.opacity);
      under.unshift(its.backgroundColor);
    }
    if (!strength) continue;
    const size = parseFloat(style.fontSize), bold = Number(style.fontWeight) >= 700;
    const large = size >= 24 || (bold && size >= 18.66);
    const drawn = own.closest('svg') !== null;
    seen.push([node.textContent.trim().slice(0, 40), drawn ? style.fill : style.color, under, strength, large]);
  }
  return seen;
}"""
"""Each text that is seen: what it says, its colour, what is under it, how much of it shows, if it is large."""


def contrast(one: str, other: str) -> float:
    """How far two colours stand apart (WCAG 2)."""
    return _contrast(luminance(one), luminance(other))


def contrasts(page: Page) -> dict[str, float]:
    """By text, how far it stands out from what is under it (WCAG 2)."""
    return {text: ratio for text, ratio, _ in _contrasts(page)}


def faint_texts(page: Page) -> dict[str, float]:
    """Texts that stand out less than WCAG 2 asks for at level AA: 4.5 to 1, or 3 to 1 if they are large."""
    return {text: ratio for text, ratio, large in _contrasts(page) if ratio < (3.0 if large else 4.5)}


def _contrasts(page: Page) -> Iterator[tuple[str, float, bool]]:
    for text, colour, grounds, strength, large in page.evaluate(TEXTS):
        ground = [255.0] * 3
        for under in grounds:
            ground = _over(under, ground)
        yield text, _contrast(_luminance(_over(colour, ground, strength)), _luminance(ground)), large


def _contrast(*luminances: float) -> float:
    dark, light = sorted(luminances)
    return (light + 0.05) / (dark + 0.05)


def _over(colour: str, ground: list[float], strength: float = 1.0) -> list[float]:
    """A colour as CSS writes it, over another."""
    assert colour.startswith("rgb"), colour
    *parts, alpha = [*map(float, re.findall(r"[\d.]+", colour)), 1.0][:4]
    return [alpha * strength * own + (1 - alpha * strength) * its for own, its in zip(parts, ground, strict=True)]


def luminance(colour: str) -> float:
    """Brightness of a colour as CSS writes it (WCAG 2)."""
    return _luminance([float(c) for c in re.findall(r"\d+", colour)[:3]])


def _luminance(parts: list[float]) -> float:
    parts = [c / 255 for c in parts]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
