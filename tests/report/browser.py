"""A headless Chromium to look at pages with, or the reason why there is none."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, sync_playwright

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
