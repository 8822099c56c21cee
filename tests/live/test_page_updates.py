"""The page while the stream goes on: nothing moves under the hands, nothing grows, a lost link comes back."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from tests.live.fake_server import FakeServer, candidate, drawn, press, running, shown, sign_in, state

pytestmark = pytest.mark.needs("browser")
TOP = "document.activeElement.getBoundingClientRect().top"


def test_what_is_typed_in_stays_where_it_is_and_what_is_new_comes_last(browser):
    server = FakeServer(state([candidate(str(n)) for n in (11, 14, 17)]))
    with running(server) as address, shown(browser, address) as (page, _):
        sign_in(page)
        press(page, "j", "j", "n", "f", "o")
        before = page.evaluate(TOP)

        def change(state):
            state["inbox"][0]["differs"] *= 3  # higher cards above, others first
            state["inbox"][0]["examples"]["core"] = []
            state["inbox"] = [candidate("30"), candidate("31"), *reversed(state["inbox"])]
            state["recall"] = None

        drawn(page, server.update(change))
        drawn(page, server.update(lambda state: state["inbox"].pop()))  # S11 is gone
        assert abs(page.evaluate(TOP) - before) <= 1
        press(page, "x")
        assert page.locator("article form input").input_value() == "fox"
        assert page.locator("article h3").all_inner_texts() == ["S11", "S14", "S17", "S30", "S31"]
        assert "is gone" in page.locator("article").first.inner_text()
        press(page, "Escape", "Escape")  # out of the inbox
        page.mouse.move(5, 5)
        drawn(page, server.update())
        assert page.locator("article h3").all_inner_texts() == ["S30", "S31", "S17", "S14"]


def test_what_is_new_is_heard_once_and_politely(browser):
    server = FakeServer(state([candidate("11")]))
    with running(server) as address, shown(browser, address) as (page, _):
        heard = page.locator("#heard")
        assert (heard.get_attribute("aria-live"), heard.inner_text()) == ("polite", "")
        drawn(page, server.update(lambda state: state["inbox"].append(candidate("12", "path"))))
        page.locator("#heard", has_text="New in the inbox: S12, 24\u00a0σ from path.").wait_for(state="attached")


@pytest.mark.parametrize("updates", [40, pytest.param(3600, marks=pytest.mark.long)])
def test_two_hundred_subclasses_and_an_hour_of_updates_leave_no_more_nodes_behind(browser, updates):
    server = FakeServer(state([candidate(str(n)) for n in range(200)]))
    with running(server) as address, shown(browser, address) as (page, said):
        client = page.context.new_cdp_session(page)

        def held() -> tuple[int, float]:
            client.send("HeapProfiler.collectGarbage")
            counted = client.send("Memory.getDOMCounters")
            return counted["nodes"], page.evaluate("performance.memory.usedJSHeapSize") / 2**20

        def change(state):
            number = state["seq"]
            state["timeline"]["edges"] = [(26 + number) * place for place in range(61)]
            state["timeline"]["unknown"] = [((number + place) % 50) / 50 for place in range(60)]
            for place in range(number % 7, 200, 7):
                one = state["inbox"][place]
                one["size"] += 1
                one["growth"] = [*one["growth"][1:], number % 9]
                one["examples"]["core"] = [{**each, "n": each["n"] + 1} for each in one["examples"]["core"]]
                state["plane"]["points"][place + 3]["x"] += 0.1
            state["inbox"] = [*state["inbox"][1:], candidate(str(1000 + number))]

        for _ in range(20):
            drawn(page, server.update(change))
        nodes, megabytes = held()
        for _ in range(updates):
            drawn(page, server.update(change))
        after, then = held()
        assert page.evaluate("document.querySelectorAll('*').length") < 6000
        assert after < 1.1 * nodes + 200, (nodes, after)
        assert then < 1.2 * megabytes + 2, (megabytes, then)
        assert said == []


def test_a_lost_link_is_shown_and_comes_back_by_itself(browser):
    server = FakeServer(state([candidate("11")]))
    with ExitStack() as stack:
        with running(server) as address:
            page, _ = stack.enter_context(shown(browser, address))
        page.locator("#link[data-standing=lost]", has_text="Connection lost: the page may be out of date.").wait_for()
        assert "Next attempt in" in page.inner_text("#link")
        assert page.locator("#link button").is_visible()
        waits = page.evaluate("""() => new Promise(done => {
            const seen = []; let last = 0;
            new MutationObserver(() => {
                const left = Number(/in (\\d+) s/.exec(document.getElementById('link').textContent)?.[1]);
                if (left > last) seen.push(left);
                if (left) last = left;
                if (seen.length === 2) done(seen);
            }).observe(document.getElementById('link'), {childList: true, characterData: true, subtree: true});
        })""")
        assert waits[1] > waits[0]  # it waits longer each time
        with running(server):
            page.locator("#link button").click()
            page.locator("#link[data-standing=live]").wait_for()
            drawn(page, server.update(lambda state: state["inbox"].append(candidate("12"))))
            assert page.inner_text("h1") == "2 candidates to check"
