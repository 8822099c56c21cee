"""The walk of docs/live.md, step by step, at the pace of a person who sees the page for the first time."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.live.fake_server import press, shown, sign_in
from tests.live.served import ANNA, make_run
from tests.live.watching import watching
from tests.test_cli import call

pytestmark = pytest.mark.needs("browser")
LONGEST = 180.0
"""Seconds of the whole walk."""
READING = 2.0
"""Seconds that a person looks at each thing before the next step."""


def test_a_new_class_is_named_and_a_report_made_within_three_minutes(browser: Browser, tmp_path: Path) -> None:
    make_run(tmp_path)
    began = time.monotonic()
    with (
        watching(tmp_path, "--allow-commands", "--input", "new.jsonl", "--key", "id") as address,
        shown(browser, address) as (page, said),
    ):
        page.locator("h1", has_text="1 candidate to check").wait_for(timeout=60_000)
        time.sleep(READING)
        assert "from" in page.locator("article .like").first.inner_text()
        page.locator("article .side table").nth(2).wait_for()  # typical, doubtful, and nearest known ones
        page.locator("article button", has_text="Instances").first.click()
        page.locator("#panel tbody button").first.click()
        page.locator("#panel .why").wait_for()
        assert page.locator("#panel .bars tr").count() == 3
        time.sleep(READING)
        page.keyboard.press("Escape")
        sign_in(page, ANNA)
        press(page, "n", "f", "o", "x", "Enter")
        page.locator("h1", has_text="No new candidates").wait_for(timeout=60_000)
        assert "anna" in page.locator("#history li").first.inner_text()
        assert said == []
    files = ("decisions.jsonl.checkpoint", "decisions.jsonl", "events.jsonl")
    report = call("report", *files, "-o", "report.html", cwd=tmp_path)
    assert report.returncode == 0, report.stderr
    assert "fox" in (tmp_path / "report.html").read_text()
    assert time.monotonic() - began < LONGEST
