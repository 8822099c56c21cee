"""How the page looks, whatever it is server: light, dark and narrow, legible, nothing of the data run as markup."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Page

from tests.live.fake_server import FakeServer, act, candidate, example, running, shown, sign_in, state
from tests.report.browser import contrasts, covering, faint_texts, luminance

pytestmark = pytest.mark.needs("browser")

WIDE, NARROW = 1280, 380

EVIL = (
    "<img src=x onerror='window.hacked=1'>",
    "</script><script>window.hacked=1</script>",
    "\u202egnp.exe\u2066\u200b\x00\x1b",
    "wide " + "x" * 10_000,
    "\"'`\\ ${window.hacked=1} {{ 1 }}",
    "",
    "a\u2028b\nc",
    "شمس",
    "\ud800half",
    7,
)

BOXES = "all => all.map(e => e.getBoundingClientRect()).map(b => [b.left, b.top, b.right, b.bottom])"


def ordinary() -> dict[str, Any]:
    waiting = [candidate("11"), candidate("14", "path", status="recurred"), candidate("17", status="dormant")]
    history = [act(2, undoable=True, subclasses=["19"], reason="seen"), act(1, undone=True)]
    found = state([*waiting, candidate("19", status="named", label="fox")])
    return found | {"history": history, "notes": ["a note"]}


def hostile() -> dict[str, Any]:
    features = tuple(str(text) for text in EVIL[:6])
    some = [candidate(str(number), text, features, label=text) for number, text in enumerate(EVIL)]
    for one, text in zip(some, EVIL, strict=True):
        one["examples"]["core"] = [example(5, features, key=text), example(6, features, key=text)]
    some += [{**one, "id": f"{one['id']}/n", "status": "named"} for one in some]
    some[1]["examples"]["known"][0]["image"] = "javascript:window.hacked=1"
    some[2]["id"] = EVIL[3]
    found = state(some, EVIL)
    found["stream"] |= {"name": EVIL[2], "source": EVIL[3]}
    acts = [act(n, what=text, by=text, reason=text, outcome=text, at=text) for n, text in enumerate(EVIL)]
    return found | {"history": acts, "notes": [str(text) for text in EVIL]}


INSTANCE = {
    **{"n": 130, "key": "r130", "t": None, "label": "unknown", "first_label": "cement", "p_unknown": 0.92},
    **{"probabilities": {"cement": 0.05, "path": 0.03, "unknown": 0.92}, "nearest_class": "cement", "distance": 14.2},
    **{"density_rank": 0.01, "subclass": "11", "features": {"hue-mean": 1.5, "flag": None}, "image": None},
    "why": "Unknown: 14 standard deviations from cement.",
}
CONTRIBUTIONS = {
    "unknown": {
        **{"label": "unknown", "against": None, "log_odds": 14.0, "prior": -1.0, "rest": 0.5},
        "features": [
            {"name": "hue-mean", "value": 1.5, "contribution": 16.5},
            {"name": "flag", "value": None, "contribution": -2.0},
        ],
    },
    "nearest": {
        **{"label": "cement", "against": "path", "log_odds": -0.5, "prior": -0.5, "features": [], "rest": 0.0},
    },
}
LOOKS = [("light", WIDE), ("dark", WIDE), ("light", NARROW), ("dark", NARROW)]


@pytest.fixture(scope="module", params=LOOKS, ids=str)
def opened(request, browser) -> Iterator[tuple[Page, list[str]]]:
    scheme, width = request.param
    with (
        running(FakeServer(ordinary(), instance=INSTANCE, contributions=CONTRIBUTIONS)) as address,
        shown(browser, address, scheme=scheme, width=width) as it,
    ):
        sign_in(it[0])
        yield it


def test_it_is_silent_and_does_not_scroll_sideways(opened):
    page, said = opened
    assert said == []
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    dark = page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches")
    seen = luminance(page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert seen < 0.05 if dark else seen > 0.7


def test_every_text_stands_out_from_what_is_under_it(opened):
    page, _ = opened
    page.keyboard.press("j")
    page.keyboard.press("n")  # the form is looked at, too
    seen, faint = contrasts(page), faint_texts(page)
    page.keyboard.press("Escape")
    assert len(seen) > 60
    assert {"S11", "Cancel", "1,518", "Live"} <= set(seen)
    assert not faint


def test_the_panel_of_an_instance_is_legible_and_narrow_enough(opened):
    page, _ = opened
    page.locator(".side button.open").first.click()
    page.wait_for_selector("#panel .bars")
    assert "14 standard deviations from cement" in page.inner_text("#panel .why")
    assert page.locator("#panel .bars tr.new").inner_text().split() == ["unknown", "92", "%"]
    assert page.locator("#panel .parts").count() == 0, "contributions are computed on request"
    page.locator("#panel summary").click()
    page.wait_for_selector("#panel .parts")
    assert page.locator("#panel caption").all_inner_texts() == [
        "unknown against all known classes: log-odds +14.0",
        "cement against path: log-odds −0.5",
    ]
    rows = [row.split() for row in page.locator("#panel .parts").first.locator("tr").all_inner_texts()]
    shown = ["class frequency −1.0", "hue-mean 1.5 +16.5", "flag missing −2.0", "rest +0.5"]
    assert rows == [row.split() for row in shown]
    assert not faint_texts(page)
    assert page.locator("#panel .body").evaluate("body => body.scrollWidth <= body.clientWidth")
    page.keyboard.press("Escape")


def test_candidates_are_described_in_plain_words(opened):
    page, _ = opened
    assert (page.inner_text("h1"), page.title()[:12]) == ("3 candidates to check", "(3) segments")
    first = page.locator("article").first.inner_text()
    assert "24\u00a0σ from cement; larger hue-mean (+12\u00a0σ), smaller rawred-mean (−11\u00a0σ)" in first
    tiles = page.inner_text("#tiles")
    assert all(figures in tiles for figures in ("97 %", "94 % to 99 %, expected 98 %"))


def test_names_in_the_plane_cover_no_other_and_stay_inside(browser):
    labels = tuple(f"a class of a long name {n}" for n in range(9))
    many = state([candidate(str(100 + n)) for n in range(200)], labels)
    for width in (WIDE, NARROW):
        with running(FakeServer(many)) as address, shown(browser, address, width=width) as (page, _):
            names = page.locator("#lies .names text").evaluate_all(BOXES)
            (frame,) = page.locator("#lies svg").evaluate_all(BOXES)
            assert len(names) > 5
            assert page.locator("#lies circle").count() == 209
            assert not covering(names)
            assert all(frame[0] - 1 <= a[0] and a[2] <= frame[2] + 1 for a in names)


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_hostile_names_are_text_and_break_nothing(browser, width):
    server = FakeServer(
        hostile(), instance={**INSTANCE, "key": EVIL[0], "why": EVIL[1], "image": "javascript:window.hacked=1"}
    )
    server.instance["probabilities"] = {str(text): 0.1 for text in EVIL}
    server.instance["features"] = {str(text): text for text in EVIL}
    parts = [{"name": text, "value": text, "contribution": -1.5} for text in (*EVIL, None)]
    odds = {"label": EVIL[0], "against": EVIL[1], "log_odds": EVIL[2], "prior": None, "features": parts, "rest": 0}
    server.instance["contributions"] = {"unknown": odds, "nearest": {**odds, "features": EVIL}}
    with running(server) as address, shown(browser, address, width=width) as (page, said):
        page.evaluate("document.querySelector('#settled').open = true")
        page.locator("#inbox-more button").click()
        text = page.evaluate("document.body.innerText")
        assert not set(text) & set("\u202e\u2066\u200b\u2028\x1b\x00")
        assert all(words in text for words in ("\\u202egnp.exe", "(empty)"))
        assert "x" * 400 not in text
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        assert max(page.locator("article").evaluate_all("all => all.map(e => e.offsetHeight)")) < 1100
        page.locator(".side button.open").first.click()
        page.wait_for_selector("#panel .parts")
        assert page.locator("#panel .parts tr").count() == len(parts) + 4
        assert page.locator("#panel .body").evaluate("body => body.scrollWidth <= body.clientWidth")
        page.keyboard.press("Escape")
        page.mouse.move(5, 5)
        assert page.locator("script").count() == 1
        assert page.evaluate("window.hacked === undefined")
        expected = "Content Security Policy|ERR_UNKNOWN_URL_SCHEME|ERR_BLOCKED"
        assert [line for line in said if not re.search(expected, line)] == []


def test_what_is_empty_says_so(browser):
    nothing = state([], ())
    nothing["stream"] |= {"decided": 0}
    nothing["timeline"] = {"edges": [], "classes": {}, "subclasses": {}, "unknown": []}
    nothing |= dict.fromkeys(("recall", "new_classes", "signals"))
    nothing["unknown"] = {"n": 0, "rate": None, "recent_rate": None}
    with running(FakeServer(nothing)) as address, shown(browser, address) as (page, said):
        text = page.inner_text("main")
        assert page.inner_text("h1") == "No new candidates"
        for words in ("No decisions yet", "Nothing has arrived yet", "The map is empty", "There are no changes yet"):
            assert words in text
        assert "NaN" not in text
        assert said == []
