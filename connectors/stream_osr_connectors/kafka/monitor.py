"""The port for operators: ``/metrics`` for Prometheus, ``/healthz`` and ``/readyz`` for whoever starts it."""

from __future__ import annotations

import errno
import logging
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from stream_osr.errors import ConnectorError

from .metrics import Health, Overview

logger = logging.getLogger("stream_osr.kafka")

REQUEST_SECONDS = 10.0
"""A client that is slower than this is let go."""


class Monitor:
    """An HTTP server in threads of its own.

    Parameters
    ----------
    host, port
        Where it listens; port 0: any that is free.
    overview
        What it tells.

    Raises
    ------
    ConnectorError
        If it cannot listen there.
    """

    def __init__(self, host: str, port: int, overview: Overview) -> None:
        registry = CollectorRegistry()
        registry.register(overview)

        class Handler(BaseHTTPRequestHandler):
            timeout = REQUEST_SECONDS

            def do_GET(self) -> None:
                path = self.path.partition("?")[0]
                if path == "/metrics":
                    encode, kind = choose_encoder(self.headers.get("Accept", ""))
                    self._answer(HTTPStatus.OK, kind, encode(registry))
                elif path in ("/healthz", "/readyz"):
                    self._tell(overview.healthy() if path == "/healthz" else overview.ready())
                else:
                    self._answer(HTTPStatus.NOT_FOUND, "text/plain", b"/metrics, /healthz, /readyz\n")

            def _tell(self, health: Health) -> None:
                status = HTTPStatus.OK if health.well else HTTPStatus.SERVICE_UNAVAILABLE
                self._answer(status, "text/plain; charset=utf-8", f"{health.said}\n".encode())

            def _answer(self, status: HTTPStatus, kind: str, content: bytes) -> None:
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, format: str, *args: object) -> None:
                """Say nothing: a line for each scrape helps nobody."""

        try:
            self._server = ThreadingHTTPServer((host, port), Handler)
        except OSError as error:
            why = "another program listens there" if error.errno == errno.EADDRINUSE else error.strerror
            raise ConnectorError(
                f"metrics_port: cannot listen at {host}:{port} ({why}); give another port or metrics_host, "
                "or leave it out"
            ) from None
        self._server.daemon_threads = True
        self.address = f"{host}:{self._server.server_address[1]}"
        logger.info("metrics at http://%s/metrics", self.address)
        threading.Thread(target=self._server.serve_forever, name="monitor", daemon=True).start()

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()
