"""A topic as a source of records, for programs that store their own positions, such as training."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

from stream_osr.errors import ConnectorError
from stream_osr_connectors.base import BadRecord, BatchCloser, Position, Record
from stream_osr_connectors.json_fields import JsonFields
from stream_osr_connectors.values import DecodeError, LabelType

from .client.consumers import TopicFollower
from .client.errors import explained_as
from .places import Place
from .wire.decoding import JsonDecoder
from .wire.messages import Received


class KafkaSource(BatchCloser, Iterator[Record | BadRecord]):
    """A source of the records of all partitions of a topic. The service has its own loop (:class:`Service`).

    The source yields each record once, in order within its partition, as a `Record` or a `BadRecord`. Positions are
    ``{"offsets": {partition: next offset}}``. It commits no offsets to the broker.

    Parameters
    ----------
    topic
        Name of the topic. Its values are JSON objects.
    brokers
        Comma-separated host:port of bootstrap brokers.
    key, time, label, features, label_type
        Fields, as for :class:`JsonFields`. The defaults of key and time are the key and timestamp of the record.
    follow
        Wait for new records at the end. Otherwise the source ends where the topic ended when it was opened.
    max_instance_bytes
        Size limit of a record's value in bytes.
    client
        Additional options of kafka-python's consumer, such as ``security_protocol``.

    Raises
    ------
    ConnectorError
        If no broker answers, or the topic does not exist.
    """

    def __init__(
        self,
        topic: str,
        *,
        brokers: str,
        key: str | None = None,
        time: str | None = None,
        label: str | None = None,
        features: Sequence[str] | None = None,
        label_type: LabelType = "auto",
        follow: bool = False,
        max_instance_bytes: int = 1_000_000,
        **client: Any,
    ) -> None:
        self._topic, self._brokers, self._follow = topic, brokers, follow
        self._decode = JsonDecoder(JsonFields(key, time, label, features, label_type), max_instance_bytes)
        self._read: deque[Received] = deque()
        self._rows = 0
        self._closed = False
        with explained_as(f"read topic {topic} at {brokers}"):
            self._follower = TopicFollower.at(brokers, topic, **client)
            self._ends = self._follower.bounds()[1]
        self._offsets: dict[Place, int] = {}
        self.seek(None)

    def __next__(self) -> Record | BadRecord:
        while not self._read:
            if self._closed:
                raise ConnectorError(f"topic {self._topic} is closed: open it again to read")
            with explained_as(f"read on from topic {self._topic} at {self._brokers}"):
                ended = not self._follow and all(self._follower.position(p) >= end for p, end in self._ends.items())
                self._read.extend(() if ended else self._follower.poll(0.2))
            if ended:
                raise StopIteration
        received = self._read.popleft()
        self._rows += 1
        self._offsets[Place(self._topic, received.partition)] = received.offset + 1
        position = {"offsets": {str(place.partition): offset for place, offset in self._offsets.items()}}
        try:
            return self._decode(received)._replace(position=position)
        except DecodeError as error:
            raw = (received.value or b"").decode("utf-8", "surrogateescape")
            return BadRecord(position, self._rows, raw, str(error))

    def seek(self, position: Position | None) -> None:
        """Continue after the record with this position. ``None`` is the beginning.

        Raises
        ------
        ConnectorError
            If the position does not belong to this topic, or the records after it are deleted.
        """
        self._read.clear()
        with explained_as(f"read topic {self._topic} at {self._brokers}"):
            first, ends = self._follower.bounds()
        offsets = dict(first)
        if position is not None:
            reported = position.get("offsets")
            for number, offset in (reported if isinstance(reported, dict) else {"": None}).items():
                place = Place(self._topic, int(number)) if str(number).isdecimal() else None
                if place not in offsets or type(offset) is not int or not first[place] <= offset <= ends[place]:
                    raise ConnectorError(
                        f"{dict(position)!r} is no position of topic {self._topic}, or the records after it are "
                        "deleted: start without a position"
                    )
                offsets[place] = offset
        self._follower.seek(offsets)
        self._offsets = {place: offset for place, offset in offsets.items() if position is not None}

    def close(self) -> None:
        """Close the source. A second call has no effect."""
        if not self._closed:
            self._closed = True
            self._read.clear()
            self._follower.close()
