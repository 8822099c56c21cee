"""A headless Chromium to look at pages with, or the reason why there is none."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import combinations
from typing import Any, NamedTuple

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

MISSING = "no Chromium to look at the page with: `make browser` installs one, or set CHROMIUM to its path"


def find_chromium() -> str:
    """The browser's path; without one the test is skipped, under continuous integration (``CI=true``) it fails."""
    path = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        if os.environ.get("CI", "").lower() == "true":
            pytest.fail(MISSING, pytrace=False)
        pytest.skip(MISSING)
    return path


@contextmanager
def open_browser() -> Iterator[Browser]:
    """Start the browser; it asks nobody outside for anything."""
    path = find_chromium()
    with sync_playwright() as player:
        browser = player.chromium.launch(
            executable_path=path, args=["--no-sandbox", "--disable-background-networking"]
        )
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with open_browser() as opened:
        yield opened


class Opened(NamedTuple):
    """A page, what it said to the console, and what it asked for."""

    page: Page
    said: list[str]
    asked: list[str]


@contextmanager
def opened_page(
    browser: Browser, address: str, drawn: str, *, scheme: Any = "light", width: int = 1280
) -> Iterator[Opened]:
    """Open a page, and wait until it is drawn."""
    page = browser.new_page(color_scheme=scheme, viewport={"width": width, "height": 900})
    said: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: said.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("dialog", lambda dialog: said.append(f"dialog: {dialog.message}"))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(address)
    page.wait_for_selector(drawn, timeout=30_000)
    yield Opened(page, said, asked)
    page.close()


def covering(boxes: list[list[float]]) -> bool:
    """Whether one of them covers a part of another."""
    pairs = combinations(boxes, 2)
    return any(a[0] < b[2] - 1 and b[0] < a[2] - 1 and a[1] < b[3] - 1 and b[1] < a[3] - 1 for a, b in pairs)


def luminance(colour: str) -> float:
    """Brightness of a colour as CSS writes it (WCAG 2)."""
    parts = [int(c) / 255 for c in re.findall(r"\d+", colour)[:3]]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
