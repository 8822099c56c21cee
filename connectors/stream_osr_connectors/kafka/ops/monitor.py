"""What the port tells operators: ``/metrics`` for Prometheus, ``/healthz`` and ``/readyz`` for whoever starts it."""

from __future__ import annotations

import errno
import logging
from collections.abc import Iterator
from http import HTTPStatus

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from stream_osr.errors import ConnectorError
from stream_osr.showing import printable

from ..log import logger
from ..patience import Seldom
from .metrics import PREFIX, Health, Overview
from .port import Answer, Port

LONGEST = 100_000
"""Characters of what is said about health."""


class Monitor(Collector):
    """The port for operators, in a thread of its own.

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
        self._overview, self._seldom = overview, Seldom(logger)
        self._registry = CollectorRegistry()
        self._registry.register(overview)
        try:
            self._port = Port(host, port, self._answer, self._tell)
        except OSError as error:
            why = "another program listens there" if error.errno == errno.EADDRINUSE else error.strerror
            raise ConnectorError(
                f"metrics_port: cannot listen at {host}:{port} ({why}); give another port or metrics_host, "
                "or leave it out"
            ) from None
        self._registry.register(self)
        self.address = f"{f'[{host}]' if ':' in host else host}:{self._port.number}"
        logger.info("metrics at http://%s/metrics", self.address)

    def close(self) -> None:
        """Stop listening."""
        self._port.close()

    def collect(self) -> Iterator[Metric]:
        """Give the figures of the port itself."""
        refused = CounterMetricFamily(
            PREFIX + "port_refused", "Connections to this port that were let go, by the reason.", labels=["reason"]
        )
        for reason, count in self._port.refused.items():
            refused.add_metric([reason], count)
        yield refused

    def _answer(self, path: str, accept: str) -> Answer:
        if path == "/metrics":
            encode, kind = choose_encoder(accept)
            return Answer(HTTPStatus.OK, kind, encode(self._registry))
        if path == "/healthz":
            return _health(self._overview.healthy())
        if path == "/readyz":
            return _health(self._overview.ready())
        return Answer(HTTPStatus.NOT_FOUND, "text/plain", b"/metrics, /healthz, /readyz\n")

    def _tell(self, about: str, what: str) -> None:
        if about == "refused":
            self._seldom.say(about, f"connections to the metrics port were let go, in all: {what}")
        else:
            self._seldom.say(about, f"the metrics port cannot answer: {what}", logging.ERROR)


def _health(health: Health) -> Answer:
    status = HTTPStatus.OK if health.well else HTTPStatus.SERVICE_UNAVAILABLE
    said = printable(health.said, LONGEST)
    return Answer(status, "text/plain; charset=utf-8", f"{said}\n".encode())
