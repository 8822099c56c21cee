"""The page's own files with a server whose states, answers and silences a test chooses.

The tests of the server have the answers of the real one; here a server may answer anything, however odd.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader
from playwright.sync_api import Browser, Page
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

import stream_osr_connectors.page.live
from stream_osr_connectors.page.live.page_host import listen
from tests.live.served import serving
from tests.report.browser import opened_page

HERE = Path(stream_osr_connectors.page.live.__file__).parent
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)
TOKEN = "a-token"
FEATURES = ("hue-mean", "rawred-mean", "exgreen-mean", "value-mean")


def example(n: int | None, features: tuple[str, ...] = FEATURES, key: Any = None) -> dict[str, Any]:
    values = {name: ((n or 1) % 17) * 1.7 - place for place, name in enumerate(features)}
    found = {"key": f"r{n}" if key is None else key, "features": values, "image": None, "label": "unknown", "n": n}
    return {**found, "p_unknown": None if n is None else 0.9}


def candidate(id: str, nearest: Any = "cement", features: tuple[str, ...] = FEATURES, **other: Any) -> dict[str, Any]:
    differs = [
        {"feature": name, "here": 9.0 - place, "there": 1.0, "deviations": (-1) ** place * (12.0 - place)}
        for place, name in enumerate(features)
    ]
    return {
        **{"id": id, "size": 192, "share": 0.13, "recent": 23, "nearest_class": nearest, "distance": 23.7},
        **{"differs": differs, "since": 120, "last": 1518, "status": "emerging", "label": None},
        "growth": [place % 7 for place in range(40)],
        "examples": {
            "core": [example(n, features) for n in (130, 150, 170)],
            "boundary": [example(n, features) for n in (131, 151, 171)],
            "known": [example(None, features, key=key) for key in ("a", "b", "c")],
        },
        **other,
    }


def state(candidates: list[dict[str, Any]], labels: tuple[Any, ...] = ("cement", "path", "grass")) -> dict[str, Any]:
    bins = 60
    sure = {"value": 0.97, "low": 0.94, "high": 0.99}
    points = [
        {"id": f"k{place}", "x": 3.0 * place, "y": (place * 7) % 5, "n": 90, "kind": "known", "label": label}
        for place, label in enumerate(labels)
    ] + [
        {"id": one["id"], "x": 5.0 + (place * 3) % 31, "y": (place * 5) % 23, "n": one["size"], "kind": "emerging"}
        | {"label": one["label"]}
        for place, one in enumerate(candidates)
    ]
    return {
        "seq": 1,
        "stream": {"name": "segments", "kind": "file", "decided": 1518, "first_t": 0, "last_t": 1518}
        | {"running": True, "behind": None, "source": "decisions.jsonl"},
        "known": [{"label": label, "n": 200, "share": 0.2, "recall": sure} for label in labels],
        "recall": {**sure, "promised": 0.98},
        "dependent": False,
        "frame": "",
        "unknown": {"n": 900, "rate": 0.59, "recent_rate": 0.81},
        "signals": {"novelty": 5, "drift": 0, "outliers": 17, "data_quality": 0},
        "new_classes": {"number": 2, "low": 2, "high": 4},
        "timeline": {
            "edges": [25 * place for place in range(bins + 1)],
            "classes": {str(label): [place % 4 for place in range(bins)] for label in labels},
            "subclasses": {one["id"]: [place % 5 for place in range(bins)] for one in candidates[:30]},
            "unknown": [place / bins for place in range(bins)],
        },
        "plane": {"axes": None, "points": points},
        "inbox": candidates,
        "history": [],
        "commands": {"allowed": True, "labels": list(labels)},
        "notes": [],
    }


def act(n: int, what: str = "named subclass 11 fox", **other: Any) -> dict[str, Any]:
    found = {"n": n, "at": "2026-03-01T10:00:00Z", "by": "anna", "action": "promote", "label": "fox", "what": what}
    return {**found, "outcome": "done", "reason": None, "undone": False, "undoable": False, "subclasses": []} | other


Answer = Callable[[dict[str, Any]], tuple[int, dict[str, Any]]]


@dataclass
class FakeServer:
    """Answers to the page, and its requests to act; ``update`` sends it another state."""

    state: dict[str, Any]
    answer: Answer = lambda request: (200, {"said": "done", "standing": "done"})
    instance: dict[str, Any] = field(default_factory=dict)
    contributions: dict[str, Any] = field(default_factory=dict)
    instances: dict[str, Any] = field(default_factory=lambda: {"id": "11", "instances": [], "more": False})
    requests: list[dict[str, Any]] = field(default_factory=list)
    port: int = 0
    ended: bool = False

    def update(self, change: Callable[[dict[str, Any]], Any] = lambda state: None) -> int:
        state = deepcopy(self.state)
        change(state)
        state["seq"] += 1
        self.state = state
        return int(state["seq"])


def _app(server: FakeServer) -> Starlette:
    page = Environment(loader=FileSystemLoader(HERE / "templates"), autoescape=True).get_template("page.html.j2")

    def as_json(value: Any, code: int = 200) -> Response:
        return Response(json.dumps(value), code, media_type="application/json")

    def who(request: Request) -> Response:
        known = request.headers.get("Authorization") == f"Bearer {TOKEN}"
        return as_json({"by": "anna"}) if known else as_json({"error": "no such token"}, 401)

    def shell(_: Request) -> Response:
        text = page.render(version="0", name=server.state["stream"]["name"], words={"word": "meaning"}, frozen=None)
        return HTMLResponse(text.encode("utf-8", "replace"), headers={"Content-Security-Policy": POLICY})

    async def states() -> AsyncIterator[str]:
        seen = 0
        while not server.ended:
            if server.state["seq"] != seen:
                seen, text = server.state["seq"], json.dumps(server.state)
                yield f"event: state\ndata: {text}\n\n"
            await asyncio.sleep(0.01)

    async def ask(request: Request) -> Response:
        if (known := who(request)).status_code != 200:
            return known
        server.requests.append(await request.json())
        code, answer = server.answer(server.requests[-1])
        return as_json(answer, code)

    routes = [
        Route("/", shell),
        Route("/api/state", lambda _: as_json(server.state)),
        Route("/api/who", who),
        Route("/api/subclass/{id:path}", lambda _: as_json(server.instances)),
        Route("/api/instance/{n}/contributions", lambda _: as_json({"contributions": server.contributions})),
        Route("/api/instance/{n:path}", lambda _: as_json(server.instance)),
        Route("/api/ask", ask, methods=["POST"]),
        Mount("/static", StaticFiles(directory=HERE / "static")),
        Route("/{other:path}", lambda _: StreamingResponse(states(), media_type="text/event-stream")),
    ]
    return Starlette(routes=routes)


@contextmanager
def running(server: FakeServer) -> Iterator[str]:
    """Serve the page; its address."""
    server.ended = False
    listening = listen("127.0.0.1", server.port)
    server.port = listening.getsockname()[1]
    with serving(_app(server), listening) as address:
        try:
            yield f"{address}/"
        finally:
            server.ended = True


@contextmanager
def shown(browser: Browser, address: str, **looks: Any) -> Iterator[tuple[Page, list[str]]]:
    """Open the page; what it says to the console beside it."""
    with opened_page(browser, address, "html[data-seq]", **looks) as (page, said, _):
        yield page, said


def drawn(page: Page, seq: int) -> None:
    """Wait until the page shows that state, or a later one."""
    page.wait_for_function("seq => Number(document.documentElement.dataset.seq) >= seq", arg=seq, timeout=30_000)


def press(page: Page, *keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)


def sign_in(page: Page, token: str = TOKEN) -> None:
    press(page, "t")
    page.locator("#token-typed").fill(token)
    press(page, "Enter")
    page.wait_for_selector("#token:not([open])", state="attached", timeout=30_000)
