"""The web server of the live page, with deadlines for connections."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from stream_osr.errors import ConnectorError
from stream_osr_connectors.page.live.access import KnownHosts, Tokens
from stream_osr_connectors.page.live.checkpoint_view import ModelView
from stream_osr_connectors.page.live.examples import ExampleChooser, Images
from stream_osr_connectors.page.live.feeds import Feed
from stream_osr_connectors.page.live.file_commands import Acts
from stream_osr_connectors.page.live.server import make_app
from stream_osr_connectors.page.live.watcher import Watcher

MOST_CONNECTIONS = 400
"""Most simultaneous connections."""
IDLE_SECONDS = 10.0
"""Time limit in seconds for a complete request, from the connection or the previous response."""
SLOW_SECONDS = 30.0
"""Time limit in seconds for a client that does not read a response."""
MOST_HEAD = 1 << 16
"""Most bytes of a request without its body."""


class Connection(HttpToolsProtocol):
    """A connection of uvicorn with two deadlines: for a complete request, and for reading a response.

    The parser does not limit the head of a request. This class does.

    If there are more than ``MOST_CONNECTIONS``, the connection that has been idle for the longest time is closed.
    Connections that wait for a response, including event streams, are never closed for another connection.
    """

    _deadline: asyncio.TimerHandle | None = None
    _reading: asyncio.TimerHandle | None = None
    _head = 0

    @property
    def is_idle(self) -> bool:
        """Whether no complete request has arrived since the last response."""
        return self.cycle is None or self.cycle.response_complete or self.cycle.more_body

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin."""
        super().connection_made(transport)
        self._wait()
        if len(self.connections) > MOST_CONNECTIONS:
            idle = [each for each in self.connections if isinstance(each, Connection) and each._deadline is not None]
            longest = min((each for each in idle if each is not self), key=Connection._ends, default=None)
            if longest is not None:
                longest._abort()

    def data_received(self, data: bytes) -> None:
        """Process a part of a request. Only a complete request ends the deadline."""
        before, in_body = self.cycle, self.cycle is not None and self.cycle.more_body
        super().data_received(data)
        self._head = 0 if in_body or self.cycle is not before else self._head + len(data)
        if self._head > MOST_HEAD and not self.transport.is_closing():
            self.send_400_response("The head of the request is too long.")
        self._wait()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        super().on_response_complete()
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        super().connection_lost(exc)
        for timer in (self._deadline, self._reading):
            if timer is not None:
                timer.cancel()
        self._deadline = self._reading = None

    def pause_writing(self) -> None:
        """Wait until the client reads."""
        super().pause_writing()
        self._reading = self._reading or self.loop.call_later(SLOW_SECONDS, self._abort)

    def resume_writing(self) -> None:
        """Continue after the client has read."""
        super().resume_writing()
        if self._reading is not None:
            self._reading.cancel()
            self._reading = None

    def _wait(self) -> None:
        """Start the deadline for a request, or end it."""
        if not self.is_idle:
            if self._deadline is not None:
                self._deadline.cancel()
                self._deadline = None
        elif self._deadline is None and not self.transport.is_closing():
            self._deadline = self.loop.call_later(IDLE_SECONDS, self._abort)

    def _ends(self) -> Any:
        return self.loop.time() if self._deadline is None else self._deadline.when()

    def _abort(self) -> None:
        self.connections.discard(self)
        self.transport.abort()


STOP_SECONDS = 2
"""Most seconds to wait for open pages at shutdown."""


def listen(host: str, port: int) -> socket.socket:
    """Listen at an address. Port 0 selects a free port.

    Raises
    ------
    ConnectorError
        If the address cannot be used.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # asyncio then sends without delay
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen(256)  # early clients wait for the server
    except OSError as error:
        listening.close()
        raise ConnectorError(
            f"cannot listen at {host}:{port}: {error.strerror or error}. --port 0 selects a free port"
        ) from None
    return listening


def configure(app: ASGIApp) -> uvicorn.Config:
    """Configure the server of an application."""
    return uvicorn.Config(
        app,
        http=Connection,
        log_level="warning",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        ws="none",
        timeout_keep_alive=int(IDLE_SECONDS),
        timeout_graceful_shutdown=STOP_SECONDS,
        limit_concurrency=MOST_CONNECTIONS + 1,
    )


def serve(
    listening: socket.socket,
    feed: Feed,
    view: ModelView,
    acts: Acts,
    *,
    tokens: Tokens | None = None,
    images: Images | None = None,
    names: Sequence[str] = (),
    ready: Callable[[str], None] = lambda address: None,
) -> None:
    """Show a stream until SIGINT or SIGTERM.

    Parameters
    ----------
    listening
        From :func:`listen`.
    feed, view, acts
        The stream, further facts about it, and the interface for commands.
    tokens
        Tokens of the people who may make changes.
    images
        Addresses of pictures.
    names
        Additional names (``HOST:PORT``) of the page.
    ready
        Callback that receives the address of the page.
    """
    host, port = listening.getsockname()[:2]
    examples = ExampleChooser(feed, images)
    watcher = Watcher(feed, view, acts, examples)
    app = make_app(watcher, KnownHosts(host, port, names), tokens, images)
    ready(address_of(listening))
    try:
        run_server(uvicorn.Server(configure(app)), listening)
    finally:
        view.stop()
        acts.stop()
        listening.close()


def address_of(listening: socket.socket) -> str:
    """Return the address of a server, with the number of the port."""
    host, port = listening.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/"


def run_server(server: uvicorn.Server, listening: socket.socket) -> None:
    """Run a server until SIGINT or SIGTERM, or until ``should_exit`` is set.

    A running server handles the signals itself, and raises them again when it ends. A signal that arrives while the
    server starts ends it, too.
    """

    def stop(number: int, frame: FrameType | None) -> None:
        server.should_exit = True

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        server.run(sockets=[listening])
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
