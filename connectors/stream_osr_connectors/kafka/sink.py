"""A topic as a sink of records, for programs that keep their own positions."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import orjson

from stream_osr.errors import ConnectorError
from stream_osr_connectors.base import BatchCloser, Position
from stream_osr_connectors.values import plain

from .client import BY_KEY, PlainProducer, explained_as
from .wire.messages import Outgoing

SEND_SECONDS = 60.0
"""How long what waits may take to be acknowledged."""

MOST_WAITING = 10_000
"""Records that wait before they are flushed unasked."""


class KafkaSink(BatchCloser):
    """Records as JSON objects, under their ``key``; the service has its own, transactional way out.

    Delivery: at least once for a writer that repeats itself. What was sent to a topic cannot be taken back, so a run
    that writes to it cannot be resumed (:meth:`truncate`).

    Parameters
    ----------
    topic
        Name of the topic.
    brokers
        Comma-separated host:port of brokers to begin with.
    client
        Further options of kafka-python's producer.

    Raises
    ------
    ConnectorError
        If no broker answers, or there is no such topic.
    """

    def __init__(self, topic: str, *, brokers: str, **client: Any) -> None:
        self._topic, self._brokers = topic, brokers
        self._waiting: list[Outgoing] = []
        self._flushed = 0
        self._closed = False
        with explained_as(f"write to topic {topic} at {brokers}"):
            self._producer = PlainProducer.at(brokers, SEND_SECONDS, linger_ms=5, **client)
            self._producer.partitions(topic)

    def write(self, record: Mapping[str, object]) -> None:
        """Send one record; it is durable after `flush`.

        Raises
        ------
        ConnectorError
            If it cannot be sent, or what was sent before has failed.
        """
        if self._closed:
            raise ConnectorError(f"topic {self._topic} is closed; open it again to write")
        key = record.get("key")
        try:
            value = orjson.dumps(plain(record), option=orjson.OPT_NON_STR_KEYS | orjson.OPT_SERIALIZE_NUMPY)
        except TypeError as error:
            raise ConnectorError(f"cannot write to topic {self._topic} at {self._brokers}: {error}") from None
        name = None if key is None else str(key).encode()
        self._waiting.append(Outgoing(self._topic, BY_KEY, name, value, [], int(1000 * time.time())))
        if len(self._waiting) >= MOST_WAITING:
            self.flush()

    def flush(self) -> None:
        """Send what waits, until everything has been acknowledged.

        Raises
        ------
        ConnectorError
            If something has not.
        """
        waiting, self._waiting = self._waiting, []
        with explained_as(f"write to topic {self._topic} at {self._brokers}"):
            refused = self._producer.send(waiting).refused
        if refused:
            raise ConnectorError(
                f"topic {self._topic} at {self._brokers} has not taken {len(refused)} of {len(waiting)} records: "
                f"{refused[0].error}"
            )
        self._flushed += len(waiting)

    def position(self) -> Position:
        """Say how many records had been written at the last `flush`, by this sink."""
        return {"written": self._flushed}

    def truncate(self, position: Position | None) -> None:
        """Take nothing back; see :meth:`check`."""
        self.check(position)

    def check(self, position: Position | None) -> None:
        """Refuse what :meth:`truncate` cannot do.

        Raises
        ------
        ConnectorError
            If something was written after the position: a topic keeps what it has.
        """
        if (0 if position is None else position.get("written")) != self._flushed + len(self._waiting):
            raise ConnectorError(
                f"topic {self._topic} cannot take back what was written to it; for exactly once there is the service "
                "(`stream-osr serve`), for resuming write to a file"
            )

    def close(self) -> None:
        """Flush and let go; a second call does nothing."""
        if self._closed:
            return
        self._closed = True
        try:
            self.flush()
        finally:
            self._producer.close(5)
