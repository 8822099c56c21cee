"""A topic as a sink of records, for programs that store their own positions."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import orjson

from stream_osr.errors import ConnectorError
from stream_osr_connectors.base import BatchCloser, Position
from stream_osr_connectors.values import plain

from .client.errors import explained_as
from .client.producer import BY_KEY, PlainProducer
from .wire.messages import Outgoing

SEND_SECONDS = 60.0
"""Time limit in seconds for acknowledgements."""

MOST_WAITING = 10_000
"""Number of buffered records after which a flush is automatic."""


class KafkaSink(BatchCloser):
    """A sink that writes records as JSON objects with their ``key``. The service has its own transactional output.

    Delivery is at least once for a writer that retries. A topic cannot be truncated, so a run that writes to it
    cannot be resumed (:meth:`truncate`).

    Parameters
    ----------
    topic
        Name of the topic.
    brokers
        Comma-separated host:port of bootstrap brokers.
    client
        Additional options of kafka-python's producer.

    Raises
    ------
    ConnectorError
        If no broker answers, or the topic does not exist.
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
        """Write one record. It is durable after `flush`.

        Raises
        ------
        ConnectorError
            If the record cannot be sent, or an earlier record has failed.
        """
        if self._closed:
            raise ConnectorError(f"topic {self._topic} is closed: open it again to write")
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
        """Send all buffered records, and wait for all acknowledgements.

        Raises
        ------
        ConnectorError
            If a record is not acknowledged.
        """
        waiting, self._waiting = self._waiting, []
        with explained_as(f"write to topic {self._topic} at {self._brokers}"):
            refused = self._producer.send(waiting).refused
        if refused:
            raise ConnectorError(
                f"topic {self._topic} at {self._brokers} rejected {len(refused)} of {len(waiting)} records: "
                f"{refused[0].error}"
            )
        self._flushed += len(waiting)

    def position(self) -> Position:
        """Return the number of records that this sink had written at the last `flush`."""
        return {"written": self._flushed}

    def truncate(self, position: Position | None) -> None:
        """Only check the position (see :meth:`check`)."""
        self.check(position)

    def check(self, position: Position | None) -> None:
        """Fail if :meth:`truncate` is not possible.

        Raises
        ------
        ConnectorError
            If records were written after the position, because a topic cannot be truncated.
        """
        if (0 if position is None else position.get("written")) != self._flushed + len(self._waiting):
            raise ConnectorError(
                f"topic {self._topic} cannot be truncated: for exactly-once delivery use the service "
                "(`stream-osr serve`), to resume runs write to a file"
            )

    def close(self) -> None:
        """Flush and close. A second call has no effect."""
        if self._closed:
            return
        self._closed = True
        try:
            self.flush()
        finally:
            self._producer.close(5)
