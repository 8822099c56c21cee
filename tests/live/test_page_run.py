"""The page on a real run on files, by `stream-osr watch`: acts on the checkpoint, two operators at once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page

from tests.live.told import shown, sign_in
from tests.live.watching import RUN, TOKENS, add, call, decisions, make_run, records, watching


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("watched")
    make_run(path)
    return path


@pytest.fixture(scope="module")
def address(folder) -> Iterator[str]:
    with watching(folder, "--allow-commands", "--input", "stream.jsonl", "--key", "id") as address:
        yield address


@pytest.fixture
def page(browser, address) -> Iterator[Page]:
    with shown(browser, address) as (page, said):
        yield page
        assert [line for line in said if "401" not in line] == []


def settled(page: Page, text: str) -> None:
    page.locator("#settled:not([hidden]) li, article.settled", has_text=text).first.wait_for(
        state="attached", timeout=60_000
    )


def headline(page: Page, text: str) -> None:
    page.locator("h1", has_text=text).wait_for(timeout=60_000)


def test_it_shows_what_the_run_has_found(page, folder):
    headline(page, "1 candidate to look at")
    assert page.locator("#tiles .tile").first.inner_text().split()[0] == str(len(decisions(folder)))
    card = page.locator("article").first
    assert "from" in card.locator(".like").inner_text()
    card.locator(".side table").nth(2).wait_for()
    assert card.locator(".side table").count() == 3
    card.locator(".side button.open").first.click()
    page.locator("#panel .why").wait_for()
    assert page.locator("#panel .bars tr").count() == 3
    assert page.locator("#panel th", has_text="a").count() >= 1


def test_a_wrong_token_is_refused_and_told(page):
    page.keyboard.press("t")
    page.keyboard.type("no such token")
    page.keyboard.press("Enter")
    page.locator("#token-wrong:not(:empty)").wait_for()
    assert page.locator("#token").is_visible()
    page.locator("#token-typed").fill("no-such-token")
    page.keyboard.press("Enter")
    page.wait_for_function("() => !/blank/.test(document.getElementById('token-wrong').textContent)")
    assert page.locator("#token").is_visible()


def test_five_keys_name_a_class_another_operator_sees_it_and_undo_takes_it_back(browser, address, folder):
    with shown(browser, address) as (first, _), shown(browser, address) as (second, said):
        sign_in(first, TOKENS["anna"])
        sign_in(second, TOKENS["ben"])
        headline(second, "1 candidate")
        for key in ("n", "f", "o", "x", "Enter"):
            first.keyboard.press(key)
        for page in (first, second):
            headline(page, "Nothing new to look at")
            settled(page, "is fox")
        assert "anna" in second.locator("#history li").first.inner_text()
        second.keyboard.press("u")
        for page in (first, second):
            headline(page, "1 candidate to look at")
        assert "ben" in first.locator("#history li").first.inner_text()
        assert "taken back" in first.locator("#history li", has_text="anna").inner_text()
        for key in ("n", "f", "o", "x", "Enter"):
            first.keyboard.press(key)
        headline(first, "Nothing new to look at")
        assert said == []
    before = len(decisions(folder))
    add(folder, records(64, 7, 0.5))
    done = call(folder, *RUN, "--resume")
    assert done.returncode == 0, done.stderr
    after = decisions(folder)[before:]
    assert sum(one["label"] == "fox" for one in after) > 20
