"""The HTTP port for operators: ``/metrics`` for Prometheus, ``/healthz`` and ``/readyz`` for supervisors.

`http.server` speaks HTTP, and `prometheus_client` writes the metrics. Neither limits slow clients or the number of
clients. Health checks must work nevertheless, so each connection has a deadline. If there are too many connections,
the oldest one is closed.
"""

from __future__ import annotations

import errno
import logging
import socket
import sys
import threading
import time
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from socketserver import TCPServer, ThreadingMixIn
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from stream_osr.errors import ConnectorError
from stream_osr.printable_text import printable

from ..log import Seldom, logger
from .metrics import Health, Overview

CONNECTION_SECONDS = 10.0
"""Time limit in seconds for a whole connection."""

MOST_CONNECTIONS = 64
"""Most simultaneous connections, each with a thread."""

LOOK_SECONDS = 0.1
"""Seconds between two checks for expired connections and for shutdown."""

LONGEST = 100_000
"""Most characters of the text of a health check."""

_Answer = tuple[HTTPStatus, str, bytes]
"""Status, content type and content."""


class Monitor(ThreadingMixIn, TCPServer):
    """The HTTP port for operators, with threads, a deadline for each connection, and a limit on connections.

    Parameters
    ----------
    host, port
        Address of the port. Port 0 selects a free port.
    overview
        Statistics to report.

    Raises
    ------
    ConnectorError
        If the address cannot be used.
    """

    allow_reuse_address = daemon_threads = True
    block_on_close = False
    request_queue_size = 2 * MOST_CONNECTIONS

    def __init__(self, host: str, port: int, overview: Overview) -> None:
        self._overview, self._seldom = overview, Seldom()
        self._registry = CollectorRegistry()
        self._registry.register(overview)
        self._deadlines: dict[socket.socket, float] = {}  # of the connections, in the order of coming
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            super().__init__((host, port), _Request)
        except OSError as error:
            why = "another program listens there" if error.errno == errno.EADDRINUSE else error.strerror
            raise ConnectorError(
                f"metrics_port: cannot listen at {host}:{port} ({why}). Set another port or metrics_host, "
                "or omit metrics_port"
            ) from None
        self.address = f"{f'[{host}]' if ':' in host else host}:{self.server_address[1]}"
        threading.Thread(target=self.serve_forever, args=(LOOK_SECONDS,), name="monitor", daemon=True).start()
        logger.info("metrics at http://%s/metrics", self.address)

    def close(self) -> None:
        """Stop listening, and close all connections."""
        self.shutdown()
        self.server_close()
        for request in list(self._deadlines):
            self._let_go(request)

    def answer(self, path: str, accept: str) -> _Answer:
        """Return the response to a request."""
        if path == "/metrics":
            encode, kind = choose_encoder(accept)
            return HTTPStatus.OK, kind, encode(self._registry)
        if path == "/healthz":
            return _health(self._overview.healthy())
        if path == "/readyz":
            return _health(self._overview.ready())
        return HTTPStatus.NOT_FOUND, "text/plain", b"/metrics, /healthz, /readyz\n"

    def failed(self, error: BaseException) -> None:
        """Log an internal error, at a limited rate."""
        self._seldom.say("error", f"the metrics port cannot answer: {type(error).__name__}: {error}", logging.ERROR)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Process a request in a thread. If there are too many connections, close the oldest."""
        for oldest in list(self._deadlines)[: -(MOST_CONNECTIONS - 1)]:
            self._let_go(oldest)
        self._deadlines[request] = time.monotonic() + CONNECTION_SECONDS
        super().process_request(request, client_address)

    def service_actions(self) -> None:
        """Close expired connections. The server calls this regularly."""
        now = time.monotonic()
        for request in [request for request, ends in list(self._deadlines.items()) if now > ends]:
            self._let_go(request)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection."""
        self._deadlines.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that hang up, and log other errors."""
        error = sys.exception()
        if error is not None and not isinstance(error, OSError):
            self.failed(error)

    def _let_go(self, request: socket.socket) -> None:
        """Shut down a connection, which ends its thread."""
        self._deadlines.pop(request, None)
        with suppress(OSError):
            request.shutdown(socket.SHUT_RDWR)


class _Request(BaseHTTPRequestHandler):
    """One request with one response."""

    server: Monitor
    server_version, sys_version = "stream-osr", ""
    default_request_version = "HTTP/1.0"  # a response without headers is useless

    def do_GET(self) -> None:
        """Send the response. An internal error is a response, too."""
        try:
            status, kind, content = self.server.answer(self.path.partition("?")[0], self.headers.get("Accept", ""))
        except Exception as error:
            self.server.failed(error)
            status, kind, content = HTTPStatus.INTERNAL_SERVER_ERROR, "text/plain", b"Internal Server Error\n"
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content)

    do_HEAD = do_GET  # noqa: N815  # the name is http.server's

    def log_message(self, format: str, *what: Any) -> None:
        """Log nothing, because probes arrive every few seconds."""


def _health(health: Health) -> _Answer:
    status = HTTPStatus.OK if health.well else HTTPStatus.SERVICE_UNAVAILABLE
    said = printable(health.message, LONGEST)
    return status, "text/plain; charset=utf-8", f"{said}\n".encode()
