"""The live page goes on, or says that it is stale, whatever the files do and however many connections there are."""

from __future__ import annotations

import json
import os
import shutil
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from stream_osr_connectors.summary.state import State
from tests.habits.values import each_value
from tests.live.served import Page, make_run, served
from tests.test_cli import lines_of


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    make_run(folder)
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "run"))


@pytest.fixture
def page(folder: Path) -> Iterator[Page]:
    with served(folder) as page:
        page.until(lambda state: state["stream"]["decided"] == 400)
        yield page


REPLACE: dict[str, Callable[[Path], None]] = {
    "folder": lambda path: path.mkdir(),
    "loop": lambda path: path.symlink_to(path.name),
    "device": lambda path: path.symlink_to("/dev/zero"),
    "pipe": os.mkfifo,
}


@pytest.mark.parametrize(
    ("name", "other"),
    each_value(["decisions.jsonl", "events.jsonl"], list(REPLACE), first=2),
)
def test_a_file_that_turns_into_something_else_makes_the_page_stale_until_it_is_back(
    page: Page, folder: Path, name: str, other: str
) -> None:
    path = folder / name
    before = path.rename(folder / "before")
    REPLACE[other](path)
    state = page.until(lambda state: state["stale"])
    assert "cannot be read" in state["stale"]["why"]
    assert state["stream"]["decided"] == 400, "what was read stays"
    health = page.client.get("/healthz")
    assert (health.status_code, health.text.startswith(f"stale since {state['stale']['since']}")) == (503, True)
    path.rmdir() if path.is_dir() else path.unlink()
    before.rename(path)
    page.until(lambda state: not state["stale"] and state["stream"]["decided"] == 400)
    assert page.client.get("/healthz").text == "ok\n"


def test_the_page_shows_an_error_of_reading_and_goes_on(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    for error in (MemoryError("none left"), KeyError("x"), RecursionError("deep"), OSError(5, "I/O")):
        with monkeypatch.context() as patched:
            patched.setattr(page.watcher.feed, "poll", Mock(side_effect=error))
            state = page.until(lambda state: state["stale"])
            assert type(error).__name__ in state["stale"]["why"]
            if isinstance(error, MemoryError):
                page.ask(action="mute", subclass=state["inbox"][0]["id"], reason="a lamp")
                page.until(lambda state: state["history"])
        page.until(lambda state: not state["stale"])


def test_a_state_that_cannot_be_shown_leaves_the_last_page(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(page.watcher.view, "facts", lambda: {"plane": {"points": object()}})
        page.watcher.hurry()
        state = page.until(lambda state: state["stale"])
        assert "cannot be updated" in state["stale"]["why"]
        assert state["stream"]["decided"] == 400
    page.watcher.hurry()
    page.until(lambda state: not state["stale"])


NESTED = json.loads("[" * 400 + "]" * 400)


@pytest.mark.parametrize("odd", [[0.9, 0.1], [["a"]], "ab"], ids=["list", "lists", "text"])
def test_a_decision_of_another_form_is_passed_over_and_counted(page: Page, folder: Path, odd: Any) -> None:
    one = lines_of(folder / "decisions.jsonl")[-1]
    with (folder / "decisions.jsonl").open("a") as file:
        file.write(
            json.dumps({**one, "seq": 400, "probabilities": odd}) + "\n" + json.dumps({**one, "seq": 401}) + "\n"
        )
    state = page.until(lambda state: state["stream"]["decided"] == 401)
    assert state["stale"] is None
    assert any("1 line is no decision" in note for note in state["notes"])


def test_a_deeply_nested_decision_is_not_shown(page: Page, folder: Path) -> None:
    one, names = lines_of(folder / "decisions.jsonl")[-1], ("key", "more", "label")
    with (folder / "decisions.jsonl").open("a") as file:
        for at, name in enumerate(names):
            file.write(json.dumps({**one, "seq": 400 + at, name: NESTED}) + "\n")
        file.write(json.dumps({**one, "seq": 403}) + "\n")
    assert page.until(lambda state: state["stream"]["decided"] == 404)["stale"] is None
    codes = [page.client.get(f"/api/instance/{n}").status_code for n in range(400, 404)]
    assert codes == [422, 422, 422, 200]


def merged(key: int, into: int) -> dict[str, Any]:
    return {"type": "SubclassMerged", "seq": 1, "subclass_id": key, "into": into, "size": 8}


CIRCLES = [[(1, 1)], [(1, 2), (2, 1)], [(1, 2), (2, 3), (3, 1)]]


@pytest.mark.parametrize("pairs", [*CIRCLES, [(key, key + 1) for key in range(1900)]], ids=["1", "2", "3", "chain"])
def test_mergers_in_a_circle_are_passed_over_and_a_long_chain_is_followed(pairs: list[tuple[int, int]]) -> None:
    state = State([""], events=True)
    for pair in pairs:
        state.event(0, merged(*pair))
    state.caught_up()
    decision = {"label": "unknown", "probabilities": {"a": 0.1, "unknown": 0.9}, "seq": 2, "t": None}
    for number, key in enumerate((1, 2, 3)):
        state.decision(0, number, 0, {**decision, "subclass_id": key})
    assert (state.decided, state.unusable) == (3, {"event": 1} if pairs in CIRCLES else {})
    if pairs not in CIRCLES:
        found = state.find("1900")
        assert found is not None
        assert found.n == 3


def test_an_instance_that_is_none_is_not_found(page: Page) -> None:
    for number in ("9" * 5000, "-1", "1e3", "٣", "400"):
        answer = page.client.get(f"/api/instance/{number}")
        assert (answer.status_code, "there is no decision" in answer.json()["error"]) == (404, True), number


def request(page: Page, path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: {page.address.removeprefix('http://')}\r\n\r\n".encode()


def opened(page: Page, sent: bytes) -> socket.socket:
    host, _, port = page.address.removeprefix("http://").partition(":")
    made = socket.create_connection((host, int(port)), timeout=20)
    made.sendall(sent)
    return made


def code(connection: socket.socket) -> bytes:
    return connection.recv(12)[9:]


def test_a_burst_of_event_streams_is_cut_exactly(page: Page) -> None:
    from stream_osr_connectors.page.live.followers import MOST_FOLLOWERS

    with ExitStack() as stack:
        some = [stack.enter_context(opened(page, b"")) for _ in range(MOST_FOLLOWERS + 30)]
        for one in some:
            one.sendall(request(page, "/api/stream"))
        assert Counter(map(code, some)) == {b"200": MOST_FOLLOWERS, b"503": 30}
    ends = time.monotonic() + 20
    while True:  # places are free again
        with opened(page, request(page, "/api/stream")) as again:
            if code(again) == b"200":
                break
        assert time.monotonic() < ends
        time.sleep(0.1)


BEGUN = (
    b"",
    b"GET / HTTP/1.1\r\nHost: x\r\nX-Slow: ",
    b"POST /api/ask HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n1",
)
"""What a connection sends before it is idle."""


@pytest.mark.parametrize("begun", BEGUN)
def test_idle_connections_never_take_the_page_away(page: Page, begun: bytes) -> None:
    from stream_osr_connectors.page.live.page_host import MOST_CONNECTIONS

    with ExitStack() as stack:
        for _ in range(MOST_CONNECTIONS + 20):
            stack.enter_context(opened(page, begun))
        began = time.monotonic()
        with opened(page, request(page, "/")) as mine:
            assert code(mine) == b"200"
        assert time.monotonic() - began < 5


def test_an_idle_connection_is_closed_in_time(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stream_osr_connectors.page.live.page_host.IDLE_SECONDS", 0.3)
    for begun in BEGUN:
        with opened(page, begun) as one, suppress(ConnectionResetError):
            one.settimeout(10)
            while one.recv(1000):
                pass


def test_a_head_without_end_is_refused(page: Page) -> None:
    with opened(page, b"GET / HTTP/1.1\r\nHost: x\r\nX-Long: " + (1 << 17) * b"x") as one:
        assert code(one) == b"400"
