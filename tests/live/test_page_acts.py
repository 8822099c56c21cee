"""What an operator does on the page: by keys alone, in few of them, with a token, and told what came of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page

from tests.live.told import Told, act, candidate, drawn, shown, sign_in, state, telling

ACTIVE = "document.activeElement"
FOCUSED = """() => {
    const node = document.activeElement, { outlineStyle, strokeWidth } = getComputedStyle(node);
    return [node.dataset.stop, outlineStyle, strokeWidth];
}"""
STOPS = """() => [...document.querySelectorAll('button, summary, [tabindex="0"]')]
    .filter(e => e.checkVisibility()).map((e, number) => e.dataset.stop = String(number))"""
NAMELESS = """() => [...document.querySelectorAll('button, input, select, [role=button], dialog, section, article')]
    .filter(e => !e.ariaLabel && !e.textContent.trim() && !e.labels?.length)
    .filter(e => !document.getElementById(e.getAttribute('aria-labelledby'))).map(e => e.outerHTML)"""


@pytest.fixture
def told() -> Told:
    return Told(state([candidate("11"), candidate("14"), candidate("17")]))


@pytest.fixture
def page(browser, told) -> Iterator[Page]:
    with telling(told) as address, shown(browser, address) as (page, said):
        yield page
        assert [line for line in said if "401" not in line and "409" not in line] == []


def press(page: Page, *keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)


def current(page: Page) -> str:
    return page.locator("article[aria-current=true] h3").inner_text()


def test_a_class_is_named_with_five_keys(page, told):
    sign_in(page)
    press(page, "n", "f", "o", "x", "Enter")
    page.wait_for_selector("#said:not([hidden])")
    assert told.asked == [{"action": "promote", "subclass": "11", "label": "fox"}]
    assert current(page) == "S14"  # the next one is at hand
    assert page.evaluate(f"{ACTIVE}.tagName") == "ARTICLE"
    press(page, "n", "o", "w", "l", "Enter")
    page.locator("article", has_text="S14").locator(".answer", has_text="done").wait_for()
    assert told.asked[1] == {"action": "promote", "subclass": "14", "label": "owl"}


def test_keys_go_through_the_inbox_and_act_on_what_is_at_hand(page, told):
    sign_in(page)
    press(page, "j")
    assert current(page) == "S11"
    press(page, "j", "j", "j")
    assert current(page) == "S17"
    press(page, "k")
    assert current(page) == "S14"
    assert page.locator("article:focus-visible").evaluate("card => getComputedStyle(card).outlineStyle") == "solid"
    press(page, "m", "Enter")
    assert "Give a short reason" in page.inner_text("article form .wrong")
    assert told.asked == []
    page.keyboard.type("known noise")
    press(page, "Enter")
    page.wait_for_selector("#said:not([hidden])")
    press(page, "k", "k", "i")
    page.locator("article select").select_option(label="grass")
    press(page, "Enter")
    page.locator("article", has_text="S11").locator(".answer", has_text="done").wait_for()
    assert told.asked[0] == {"action": "mute", "subclass": "14", "reason": "known noise"}
    assert told.asked[1] == {"action": "promote", "subclass": "11", "label": "grass"}


def test_undo_takes_back_the_newest_act_and_names_it(page, told):
    sign_in(page)
    press(page, "u")
    page.locator("#said", has_text="nothing to undo").wait_for()
    assert told.asked == []
    drawn(page, told.tell(lambda state: state.update(history=[act(3, undoable=True, subclasses=["11"]), act(2)])))
    press(page, "u")
    page.locator("#said", has_text="done").wait_for()
    assert told.asked == [{"action": "undo", "n": 3}]
    drawn(page, told.tell(lambda state: state["stream"].update(kind="kafka")))
    press(page, "u")
    page.wait_for_timeout(500)
    assert told.asked[1] == {"action": "undo", "n": 3, "subclass": ["11"]}  # of that partition


def test_what_is_refused_is_told_where_it_was_asked_and_what_was_typed_stays(page, told):
    told.answer = lambda asked: (409, {"error": "there is no subclass 11 any more"})
    sign_in(page)
    press(page, "n", "f", "o", "x", "Enter")
    page.locator("article .answer.wrong", has_text="Not done: there is no subclass 11 any more").wait_for()
    assert page.locator("article form input").input_value() == "fox"
    assert current(page) == "S11"


def test_a_wrong_token_is_refused_and_told_and_the_right_one_goes_on_with_what_was_asked(page, told):
    press(page, "n", "f", "o", "x", "Enter")
    page.wait_for_selector("#token[open]")
    page.keyboard.type("wrong")
    press(page, "Enter")
    page.locator("#token-wrong", has_text="no such token").wait_for()
    assert told.asked == []
    page.locator("#token-typed").fill("no such token")
    press(page, "Enter")
    page.locator("#token-wrong", has_text="no spaces").wait_for()
    page.locator("#token-typed").fill("a-token")
    press(page, "Enter")
    page.wait_for_selector("#said:not([hidden])")
    assert told.asked == [{"action": "promote", "subclass": "11", "label": "fox"}]
    assert page.inner_text("#who") == "anna: sign out"
    page.reload()
    page.locator("#who", has_text="anna: sign out").wait_for()  # kept for this tab ...
    assert page.evaluate("localStorage.length + document.cookie.length") == 0  # ... and nowhere else
    page.locator("#who").click()
    assert page.inner_text("#who") == "Sign in to make changes"
    assert page.evaluate("sessionStorage.length") == 0


def test_escape_closes_what_is_open_and_gives_the_focus_back(page):
    sign_in(page)
    press(page, "j", "n", "x", "Escape")
    assert page.locator("article form").count() == 0
    assert page.evaluate(f"{ACTIVE}.tagName") == "ARTICLE"
    press(page, "?")
    assert page.locator("#help").is_visible()
    press(page, "Escape")
    assert not page.locator("#help").is_visible()
    press(page, "o")
    page.locator("#panel", has_text="No decision of this subclass can be read").wait_for()
    press(page, "j", "Escape")  # keys of the page rest while a panel is open
    assert page.evaluate(f"{ACTIVE}.tagName") == "ARTICLE"
    assert current(page) == "S11"


def test_every_button_and_name_is_reached_by_tab_and_shows_the_focus(page):
    sign_in(page)
    wanted = set(page.evaluate(STOPS))
    reached, bare = set(), []
    for _ in range(len(wanted) + 10):
        press(page, "Tab")
        stop, outline, width = page.evaluate(FOCUSED)
        reached.add(stop)
        if stop is not None and outline == "none" and width != "4px":
            bare.append(page.evaluate(f"{ACTIVE}.outerHTML"))
    assert len(wanted) > 30
    assert wanted <= reached
    assert bare == []


def test_every_control_has_a_name_for_those_who_do_not_see_it(page):
    sign_in(page)
    press(page, "n")
    assert page.evaluate(NAMELESS) == []


def test_single_keys_can_be_switched_off(page):
    press(page, "?")
    page.locator("#single-keys").uncheck()
    press(page, "Escape", "j")
    assert page.locator("article:focus").count() == 0


def test_where_nobody_may_act_nothing_can_be_pressed(browser):
    only = state([candidate("11")])
    only["commands"] = {"allowed": False, "labels": ["cement"]}
    told = Told(only)
    with telling(told) as address, shown(browser, address) as (page, _):
        assert page.inner_text("#who") == "Read-only"
        assert page.locator("article button:visible").all_inner_texts()[-1].startswith("Instances")
        name = page.locator("button", has_text="Name it")
        assert name.is_disabled()
        assert "sign in" in str(name.get_attribute("title"))
        assert name.evaluate("button => getComputedStyle(button).backgroundColor") == "rgba(0, 0, 0, 0)"
        press(page, "n")
        page.locator("#said", has_text="Read-only: ").wait_for()
        assert told.asked == []


def test_what_another_operator_does_is_seen_and_takes_nothing_out_of_the_hands(page, told):
    sign_in(page)
    press(page, "n", "f", "o")
    drawn(page, told.tell(lambda state: state["inbox"][0].update(status="named", label="owl")))
    assert "is owl" in page.locator("article").first.inner_text()
    assert page.locator("article form input").input_value() == "fo"
    press(page, "Escape", "j")
    page.locator("article:focus button", has_text="Mute").focus()
    drawn(page, told.tell(lambda state: state["inbox"][1].update(status="muted")))
    assert page.evaluate(f"{ACTIVE}.tagName") == "ARTICLE"
    assert current(page) == "S14"


def test_pictures_stand_side_by_side_and_one_that_is_missing_says_so(page, told):
    dot = "data:image/gif;base64,R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7"

    def change(state):
        for kind, image in (("core", dot), ("boundary", "data:image/png;base64,AAAA"), ("known", dot)):
            for one in state["inbox"][0]["examples"][kind]:
                one["image"] = image

    drawn(page, told.tell(change))
    page.locator("article").first.get_by_text("no picture").nth(2).wait_for()
    assert page.locator("article img").count() == 6
    tops = set(page.locator("article").first.locator(".pictures").evaluate_all("all => all.map(e => e.offsetTop)"))
    assert len(tops) == 1


def test_an_inbox_that_was_left_is_put_in_order_though_nothing_comes(page, told):
    def answer(asked):
        told.tell(lambda state: state["inbox"][0].update(status="named", label="fox"))
        return 200, {"said": "done", "standing": "done"}

    told.answer = answer
    sign_in(page)
    press(page, "n", "f", "o", "x", "Enter")
    page.locator("article.settled", has_text="S11").wait_for()
    press(page, "Escape")
    page.mouse.move(5, 5)
    page.locator("#settled", has_text="1 subclass named or muted").wait_for()
    assert page.locator("article h3").all_inner_texts() == ["S14", "S17"]
