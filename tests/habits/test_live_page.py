"""The live page goes on, or says that it is stale, whatever the files do and however many connections there are."""

from __future__ import annotations

import json
import os
import shutil
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from stream_osr_connectors.page.live import page_host
from stream_osr_connectors.page.live.followers import MOST_FOLLOWERS
from stream_osr_connectors.page.live.state import State
from tests.live.served import Page, make_run, served


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


@pytest.mark.parametrize("name", ["decisions.jsonl", "events.jsonl"])
@pytest.mark.parametrize("other", REPLACE)
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


@pytest.mark.parametrize(
    "error", [MemoryError("none left"), KeyError("x"), RecursionError("deep"), OSError(5, "I/O")]
)
def test_whatever_reading_raises_the_page_says_it_and_goes_on(
    page: Page, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(*_: Any) -> None:
        raise error

    with monkeypatch.context() as patched:
        patched.setattr(page.watcher.feed, "poll", fail)
        state = page.until(lambda state: state["stale"])
        assert type(error).__name__ in state["stale"]["why"]
        page.ask(action="mute", subclass=state["inbox"][0]["id"], reason="a lamp")
        page.until(lambda state: state["history"])
    page.until(lambda state: not state["stale"])


def test_what_cannot_be_shown_leaves_the_last_page_which_says_so(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(page.watcher.view, "facts", lambda: {"plane": {"points": object()}})
        page.watcher.hurry()
        state = page.until(lambda state: state["stale"])
        assert "cannot be updated" in state["stale"]["why"]
        assert state["stream"]["decided"] == 400
    page.watcher.hurry()
    page.until(lambda state: not state["stale"])


NESTED = json.loads("[" * 400 + "]" * 400)


@pytest.mark.parametrize(
    ("odd", "codes"),
    [
        *(({"probabilities": odd}, None) for odd in ([0.9, 0.1], [["a"]], "ab")),
        *(({name: NESTED}, (422, 200)) for name in ("key", "more", "label")),
    ],
    ids=["list", "lists", "text", "deep key", "deep field", "deep label"],
)
def test_an_odd_decision_costs_no_other(page: Page, folder: Path, odd: dict[str, Any], codes: Any) -> None:
    """One of another form is passed over and counted; one that is nested deeply is not shown."""
    one = json.loads((folder / "decisions.jsonl").read_text().splitlines()[-1])
    with (folder / "decisions.jsonl").open("a") as file:
        file.write(json.dumps({**one, "seq": 400, **odd}) + "\n" + json.dumps({**one, "seq": 401}) + "\n")
    state = page.until(lambda state: state["stream"]["decided"] == 401 + (codes is not None))
    assert state["stale"] is None
    if codes is None:
        assert any("1 line is no decision" in note for note in state["notes"])
    else:
        assert tuple(page.client.get(f"/api/instance/{n}").status_code for n in (400, 401)) == codes


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


@pytest.mark.parametrize("number", ["9" * 5000, "-1", "1e3", "٣", "400"])
def test_an_instance_that_is_none_is_not_found(page: Page, number: str) -> None:
    answer = page.client.get(f"/api/instance/{number}")
    assert (answer.status_code, "there is no decision" in answer.json()["error"]) == (404, True)


def opened(page: Page, request: bytes = b"") -> socket.socket:
    host, _, port = page.address.removeprefix("http://").partition(":")
    made = socket.create_connection((host, int(port)), timeout=20)
    made.sendall(request)
    return made


def test_a_burst_of_event_streams_is_cut_exactly(page: Page) -> None:
    host = page.address.removeprefix("http://")
    request = f"GET /api/stream HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()
    some = [opened(page) for _ in range(MOST_FOLLOWERS + 30)]
    try:
        for one in some:
            one.sendall(request)
        codes = [one.recv(12)[9:] for one in some]
        assert (codes.count(b"200"), codes.count(b"503")) == (MOST_FOLLOWERS, 30)
    finally:
        for one in some:
            one.close()
    ends = time.monotonic() + 20
    while True:  # places are free again
        with opened(page, request) as again:
            if again.recv(12)[9:] == b"200":
                break
        assert time.monotonic() < ends
        time.sleep(0.1)


IDLE = pytest.mark.parametrize(
    "begun",
    [
        b"",
        b"GET / HTTP/1.1\r\nHost: x\r\nX-Slow: ",
        b"POST /api/ask HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n1",
    ],
)


@IDLE
def test_idle_connections_never_take_the_page_away(page: Page, begun: bytes) -> None:
    some: list[socket.socket] = []
    try:
        some += [opened(page, begun) for _ in range(page_host.MOST_CONNECTIONS + 20)]
        began = time.monotonic()
        with opened(page, f"GET / HTTP/1.1\r\nHost: {page.address.removeprefix('http://')}\r\n\r\n".encode()) as mine:
            assert mine.recv(12)[9:] == b"200"
        assert time.monotonic() - began < 5
    finally:
        for one in some:
            one.close()


@IDLE
def test_an_idle_connection_is_closed_in_time(page: Page, monkeypatch: pytest.MonkeyPatch, begun: bytes) -> None:
    monkeypatch.setattr(page_host, "IDLE_SECONDS", 0.3)
    with opened(page, begun) as one:
        one.settimeout(10)
        try:
            while one.recv(1000):
                pass
        except ConnectionResetError:
            pass
