"""A page that is really served, over a run that was really made."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from socket import socket
from typing import TYPE_CHECKING, Any, NamedTuple

from stream_osr import OpenSetRecognizer
from stream_osr_connectors.files import open_sink, open_source
from stream_osr_connectors.files.file_run import Sinks
from stream_osr_connectors.page.live.access import KnownHosts, Tokens
from stream_osr_connectors.page.live.checkpoint_view import CheckpointView
from stream_osr_connectors.page.live.examples import ExampleChooser, Images
from stream_osr_connectors.page.live.feeds import FileFeed
from stream_osr_connectors.page.live.file_commands import FileActs
from stream_osr_connectors.page.live.input_rows import InputRows
from stream_osr_connectors.page.live.watcher import Watcher
from tests.blobs import fitted_once, stream_part
from tests.file_runs import run

if TYPE_CHECKING:
    import httpx
    from starlette.types import ASGIApp

ANNA, BERT = "annas-own-token-16", "berts-own-token-16"
TOKENS = f"# who may act\nanna:{ANNA}\n\nbert:{BERT}\n"


def write_input(path: Path, n: int = 400, seed: int = 0) -> None:
    """Instances of two known classes and a new one."""
    lines = [{"id": f"k{i}", **x} for i, (x, _) in enumerate(stream_part(n, seed))]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def make_run(folder: Path, model: OpenSetRecognizer | None = None) -> None:
    """A run over such instances, with its checkpoint."""
    model = fitted_once(batch_size=32, chains=1, window=32, seed=5) if model is None else model
    write_input(folder / "new.jsonl")
    with (
        open_source(folder / "new.jsonl", key="id") as source,
        open_sink(folder / "decisions.jsonl") as decisions,
        open_sink(folder / "events.jsonl") as events,
    ):
        run(model, source, Sinks(decisions, events), checkpoint=folder / "decisions.jsonl.checkpoint")


class Page(NamedTuple):
    """A page that is served."""

    address: str
    client: httpx.Client
    watcher: Watcher

    def state(self) -> dict[str, Any]:
        answer = self.client.get("/api/state")
        assert answer.status_code == 200
        return answer.json()

    def ask(self, token: str | None = ANNA, **wish: Any) -> httpx.Response:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        return self.client.post("/api/ask", json=wish, headers=headers)

    def until(self, done: Callable[[dict[str, Any]], Any], seconds: float = 60) -> dict[str, Any]:
        """Wait until the page shows something."""
        ends = time.monotonic() + seconds
        while not done(state := self.state()):
            assert time.monotonic() < ends, f"not seen in {seconds} s: {json.dumps(state)[:3000]}"
            time.sleep(0.05)
        return state


@contextmanager
def serving(app: ASGIApp, listening: socket) -> Iterator[str]:
    """Serve an application in a thread; its address."""
    import uvicorn

    from stream_osr_connectors.page.live.page_host import configure

    server = uvicorn.Server(configure(app))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(30)
        listening.close()


@contextmanager
def served(
    folder: Path,
    *,
    tokens: str | None = TOKENS,
    images: Images | None = None,
    speed: float | None = None,
    stream: str | None = None,
) -> Iterator[Page]:
    """Serve the run of a folder."""
    import httpx

    from stream_osr_connectors.page.live.page_host import listen
    from stream_osr_connectors.page.live.server import make_app

    checkpoint, given = folder / "decisions.jsonl.checkpoint", folder / "new.jsonl"
    inputs = InputRows(given, "id") if given.exists() else None
    feed = FileFeed(folder / "decisions.jsonl", folder / "events.jsonl", inputs, speed, stream)
    inside = CheckpointView(checkpoint, stream)
    acts = FileActs(checkpoint, allowed=tokens is not None, stream=stream)
    watcher = Watcher(feed, inside, acts, ExampleChooser(feed, images))
    listening = listen("127.0.0.1", 0)
    doors = KnownHosts("127.0.0.1", listening.getsockname()[1])
    app = make_app(watcher, doors, None if tokens is None else Tokens(tokens), images)
    with serving(app, listening) as address, httpx.Client(base_url=address, timeout=30, trust_env=False) as client:
        client.get("/healthz")
        try:
            yield Page(address, client, watcher)
        finally:
            inside.stop()
