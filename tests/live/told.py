"""A page and what it is told: the page's own files, and states, answers and silences that a test chooses.

What the real server tells is in the tests of the server; here the page is shown what a server may tell, however odd.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader
from playwright.sync_api import Browser, Page

import stream_osr_connectors.page.live

HERE = Path(stream_osr_connectors.page.live.__file__).parent
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)
KINDS = {".js": "text/javascript", ".css": "text/css"}
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
class Told:
    """What the page is told, and what it asked for; ``tell`` tells it something else."""

    state: dict[str, Any]
    answer: Answer = lambda asked: (200, {"said": "done", "standing": "done"})
    instance: dict[str, Any] = field(default_factory=dict)
    instances: dict[str, Any] = field(default_factory=lambda: {"id": "11", "instances": [], "more": False})
    asked: list[dict[str, Any]] = field(default_factory=list)
    port: int = 0
    changed: threading.Condition = field(default_factory=threading.Condition)
    ended: bool = False

    def tell(self, change: Callable[[dict[str, Any]], Any] = lambda state: None) -> int:
        with self.changed:
            self.state = deepcopy(self.state)
            change(self.state)
            self.state["seq"] += 1
            self.changed.notify_all()
            return int(self.state["seq"])


def _handler(told: Told) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

        def give(self, code: int, kind: str, body: bytes) -> None:
            self.send_response(code)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Security-Policy", POLICY)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def give_json(self, code: int, value: Any) -> None:
            self.give(code, "application/json", json.dumps(value).encode())

        def may(self) -> bool:
            return self.headers.get("Authorization") == f"Bearer {TOKEN}"

        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            if path == "/":
                loader = Environment(loader=FileSystemLoader(HERE / "templates"), autoescape=True)
                page = loader.get_template("page.html.j2").render(version="0", name=told.state["stream"]["name"])
                self.give(200, "text/html; charset=utf-8", page.encode("utf-8", "replace"))
            elif path.startswith("/static/"):
                file = HERE / "static" / Path(path).name
                self.give(200, KINDS[file.suffix], file.read_bytes())
            elif path == "/api/state":
                self.give_json(200, told.state)
            elif path == "/api/who":
                self.give_json(*((200, {"by": "anna"}) if self.may() else (401, {"error": "no such token"})))
            elif path.startswith("/api/subclass/"):
                self.give_json(200, told.instances)
            elif path.startswith("/api/instance/"):
                self.give_json(200, told.instance)
            else:
                self.stream()

        def stream(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            seen = 0
            while not told.ended:
                with told.changed:
                    while not told.ended and told.state["seq"] == seen:
                        told.changed.wait(30)
                    seen, text = told.state["seq"], json.dumps(told.state)
                try:
                    self.wfile.write(f"event: state\ndata: {text}\n\n".encode())
                except OSError:
                    return

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if not self.may():
                self.give_json(401, {"error": "no such token"})
                return
            told.asked.append(asked)
            self.give_json(*told.answer(asked))

    return Handler


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: Any) -> None:
        """Nobody listens any more: browsers leave when they like."""


@contextmanager
def telling(told: Told) -> Iterator[str]:
    """Serve the page; its address."""
    told.ended = False
    with _Server(("127.0.0.1", told.port), _handler(told)) as server:
        told.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield f"http://127.0.0.1:{told.port}/"
        finally:
            with told.changed:
                told.ended = True
                told.changed.notify_all()
            server.shutdown()
            thread.join()


@contextmanager
def shown(
    browser: Browser, address: str, *, scheme: Any = "light", width: int = 1280
) -> Iterator[tuple[Page, list[str]]]:
    """Open the page; what it says to the console beside it."""
    page = browser.new_page(color_scheme=scheme, viewport={"width": width, "height": 900})
    said: list[str] = []
    page.on("console", lambda message: said.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("dialog", lambda dialog: said.append(f"dialog: {dialog.message}"))
    page.goto(address)
    page.wait_for_selector("html[data-seq]", timeout=30_000)
    try:
        yield page, said
    finally:
        page.close()


def drawn(page: Page, seq: int) -> None:
    """Wait until the page shows that state, or a later one."""
    page.wait_for_function("seq => Number(document.documentElement.dataset.seq) >= seq", arg=seq, timeout=30_000)


def sign_in(page: Page, token: str = TOKEN) -> None:
    page.keyboard.press("t")
    page.locator("#token-typed").fill(token)
    page.keyboard.press("Enter")
    page.wait_for_selector("#token:not([open])", state="attached", timeout=30_000)
