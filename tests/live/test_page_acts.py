"""Acts of an operator on the page: by keys alone, with a token, with their results and refusals."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page

from tests.live.fake_server import FakeServer, act, candidate, drawn, press, running, shown, sign_in, state

pytestmark = pytest.mark.needs("browser")
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
def server() -> FakeServer:
    return FakeServer(state([candidate("11"), candidate("14"), candidate("17")]))


@pytest.fixture
def page(browser, server) -> Iterator[Page]:
    with running(server) as address, shown(browser, address) as (page, said):
        yield page
        assert [line for line in said if "401" not in line and "409" not in line] == []


FOX = {"action": "promote", "subclass": "11", "label": "fox"}


def name_fox(page: Page) -> None:
    """Name the candidate at hand by keys."""
    press(page, "n", "f", "o", "x", "Enter")


def current(page: Page) -> str:
    return page.locator("article[aria-current=true] h3").inner_text()


def test_a_class_is_named_with_five_keys(page, server):
    sign_in(page)
    name_fox(page)
    page.wait_for_selector("#said:not([hidden])")
    assert server.requests == [FOX]
    assert current(page) == "S14"  # the next one is at hand
    assert page.evaluate(f"{ACTIVE}.tagName") == "ARTICLE"
    press(page, "n", "o", "w", "l", "Enter")
    page.locator("article", has_text="S14").locator(".answer", has_text="done").wait_for()
    assert server.requests[1] == {**FOX, "subclass": "14", "label": "owl"}


def test_keys_go_through_the_inbox_and_act_on_what_is_at_hand(page, server):
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
    assert server.requests == []
    page.keyboard.type("known noise")
    press(page, "Enter")
    page.wait_for_selector("#said:not([hidden])")
    press(page, "k", "k", "i")
    page.locator("article select").select_option(label="grass")
    press(page, "Enter")
    page.locator("article", has_text="S11").locator(".answer", has_text="done").wait_for()
    assert server.requests == [
        {"action": "mute", "subclass": "14", "reason": "known noise"},
        {**FOX, "label": "grass"},
    ]


def test_undo_takes_back_the_newest_act_and_names_it(page, server):
    sign_in(page)
    press(page, "u")
    page.locator("#said", has_text="nothing to undo").wait_for()
    assert server.requests == []
    drawn(page, server.update(lambda state: state.update(history=[act(3, undoable=True, subclasses=["11"]), act(2)])))
    press(page, "u")
    page.locator("#said", has_text="done").wait_for()
    assert server.requests == [{"action": "undo", "n": 3}]
    drawn(page, server.update(lambda state: state["stream"].update(kind="kafka")))
    press(page, "u")
    page.wait_for_timeout(500)
    assert server.requests[1] == {"action": "undo", "n": 3, "subclass": ["11"]}  # of that partition


def test_a_moved_frame_is_accepted_and_rejected(page, server):
    sign_in(page)
    drawn(page, server.update(lambda state: state.update(frame="the stream differs from training in temp")))
    line = page.locator("#frame", has_text="differs from training in temp")
    for number, name in enumerate(("Accept", "Reject"), start=1):
        line.get_by_role("button", name=name).click()
        page.locator("#said", has_text="done").wait_for()
        for _ in range(200):  # the line may still be that of the first one
            if len(server.requests) < number:
                page.wait_for_timeout(20)
    assert server.requests == [{"action": "accept_frame"}, {"action": "reject_frame"}]
    drawn(page, server.update(lambda state: state["stream"].update(kind="kafka")))
    assert line.is_visible()
    assert not line.get_by_role("button").first.is_visible(), "the command needs the name of a partition"


def test_a_refusal_is_shown_at_its_card_and_the_typed_text_stays(page, server):
    server.answer = lambda request: (409, {"error": "there is no subclass 11 any more"})
    sign_in(page)
    name_fox(page)
    page.locator("article .answer.wrong", has_text="Not done: there is no subclass 11 any more").wait_for()
    assert page.locator("article form input").input_value() == "fox"
    assert current(page) == "S11"


def test_a_wrong_token_is_refused_and_the_right_one_goes_on_with_the_request(page, server):
    name_fox(page)
    page.wait_for_selector("#token[open]")
    page.keyboard.type("wrong")
    press(page, "Enter")
    page.locator("#token-wrong", has_text="no such token").wait_for()
    assert server.requests == []
    page.locator("#token-typed").fill("no such token")
    press(page, "Enter")
    page.locator("#token-wrong", has_text="no spaces").wait_for()
    page.locator("#token-typed").fill("a-token")
    press(page, "Enter")
    page.wait_for_selector("#said:not([hidden])")
    assert server.requests == [FOX]
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


def test_every_control_has_a_name_and_single_keys_can_be_switched_off(page):
    sign_in(page)
    press(page, "n")
    assert page.evaluate(NAMELESS) == []
    press(page, "Escape", "Escape", "?")
    page.locator("#single-keys").uncheck()
    press(page, "Escape", "j")
    assert page.locator("article:focus").count() == 0


def test_a_page_without_commands_has_no_active_buttons(browser):
    only = state([candidate("11")])
    only["commands"] = {"allowed": False, "labels": ["cement"]}
    server = FakeServer(only)
    with running(server) as address, shown(browser, address) as (page, _):
        assert page.inner_text("#who") == "Read-only"
        assert page.locator("article button:visible").all_inner_texts()[-1].startswith("Instances")
        name = page.locator("button", has_text="Name it")
        assert name.is_disabled()
        assert "sign in" in str(name.get_attribute("title"))
        assert name.evaluate("button => getComputedStyle(button).backgroundColor") == "rgba(0, 0, 0, 0)"
        press(page, "n")
        page.locator("#said", has_text="Read-only: ").wait_for()
        assert server.requests == []


def test_what_another_operator_does_is_seen_and_takes_nothing_out_of_the_hands(page, server):
    sign_in(page)
    press(page, "n", "f", "o")
    drawn(page, server.update(lambda state: state["inbox"][0].update(status="named", label="owl")))
    assert "is owl" in page.locator("article").first.inner_text()
    assert page.locator("article form input").input_value() == "fo"
    press(page, "Escape", "j")
    page.locator("article:focus button", has_text="Mute").focus()
    drawn(page, server.update(lambda state: state["inbox"][1].update(status="muted")))
    assert page.evaluate(f"{ACTIVE}.tagName") == "ARTICLE"
    assert current(page) == "S14"


def test_pictures_stand_side_by_side_and_one_that_is_missing_says_so(page, server):
    dot = "data:image/gif;base64,R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7"

    def change(state):
        for kind, image in (("core", dot), ("boundary", "data:image/png;base64,AAAA"), ("known", dot)):
            for one in state["inbox"][0]["examples"][kind]:
                one["image"] = image

    drawn(page, server.update(change))
    page.locator("article").first.get_by_text("no picture").nth(2).wait_for()
    assert page.locator("article img").count() == 6
    tops = set(page.locator("article").first.locator(".pictures").evaluate_all("all => all.map(e => e.offsetTop)"))
    assert len(tops) == 1


def test_an_inbox_that_was_left_is_put_in_order_though_nothing_comes(page, server):
    def answer(request):
        server.update(lambda state: state["inbox"][0].update(status="named", label="fox"))
        return 200, {"said": "done", "standing": "done"}

    server.answer = answer
    sign_in(page)
    name_fox(page)
    page.locator("article.settled", has_text="S11").wait_for()
    press(page, "Escape")
    page.mouse.move(5, 5)
    page.locator("#settled", has_text="1 subclass named or muted").wait_for()
    assert page.locator("article h3").all_inner_texts() == ["S14", "S17"]
