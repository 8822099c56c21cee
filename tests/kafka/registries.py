"""A schema registry over HTTP, as far as the examples use one, and a server of JSON."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Registry:
    """A registry that runs.

    Attributes
    ----------
    address
        Its URL.
    schemas
        Schemas by number.
    subjects
        Numbers by name of the subject.
    requests
        Number of requests so far.
    busy
        Number of first requests that are answered with 503.
    refuses
        Whether every schema is refused as incompatible.
    """

    def __init__(self) -> None:
        self.address = ""
        self.schemas: dict[int, Any] = {}
        self.subjects: dict[str, int] = {}
        self.requests = self.busy = 0
        self.refuses = False

    def add(self, schema: Any, number: int | None = None) -> int:
        """Register a schema; one that is there keeps its number."""
        known = next((each for each, its in self.schemas.items() if its == schema), None)
        if known is None:
            known = 11 + len(self.schemas) if number is None else number
            self.schemas[known] = schema
        return known

    def answer(self, path: str, body: bytes | None) -> tuple[int, Any]:
        """Answer a request: the status, and JSON."""
        self.requests += 1
        if self.requests <= self.busy:
            return 503, {"error_code": 50301, "message": "busy"}
        parts = path.strip("/").split("/")
        if body is None and parts[:2] == ["schemas", "ids"] and int(parts[2]) in self.schemas:
            return 200, {"schema": json.dumps(self.schemas[int(parts[2])])}
        if body is not None and parts[0] == "subjects" and parts[2:] == ["versions"]:
            if self.refuses:
                return 409, {"error_code": 409, "message": "incompatible"}
            self.subjects[parts[1]] = self.add(json.loads(json.loads(body)["schema"]))
            return 200, {"id": self.subjects[parts[1]]}
        return 404, {"error_code": 40403, "message": "not found"}


@contextmanager
def serving(answer: Callable[[str, bytes | None], tuple[int, Any]]) -> Iterator[str]:
    """Serve JSON over HTTP, at the address that it yields; ``answer`` returns the status and the content."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.give(None)

        def do_POST(self) -> None:
            self.give(self.rfile.read(int(self.headers["Content-Length"])))

        def give(self, body: bytes | None) -> None:
            status, content = answer(self.path, body)
            written = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(written)))
            self.end_headers()
            self.wfile.write(written)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def registry() -> Iterator[Registry]:
    """Run a registry."""
    running = Registry()
    with serving(running.answer) as running.address:
        yield running
