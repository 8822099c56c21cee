"""What a member of the group reads: its consumer, replaced whenever it fails, and the partitions that it has.

Partitions come and go inside `poll` only. One that comes is held back until somebody says where it begins.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from kafka import ConsumerRebalanceListener, KafkaConsumer, TopicPartition
from kafka.errors import (
    FencedInstanceIdError,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    UnsupportedCodecError,
)

from stream_osr.errors import ConnectorError

from .clients import explained, group_consumer
from .exits import NoBrokerError
from .figures import Figures
from .messages import Received
from .settings import ServiceSettings
from .transactions import InDoubtError, close
from .unpacking import unpack_all

logger = logging.getLogger("stream_osr.kafka")

POLL_SECONDS = 0.1
RETRY_SECONDS = 0.5

CLOSE_SECONDS = 3.0
"""How long closing a client may take before it is left behind."""

ANSWER_SECONDS = 2.0
"""How long one question to the brokers may take."""

FIRST_HOLD, LONGEST_HOLD = 1.0, 60.0
"""Seconds before a record that cannot be read is fetched again: doubled each time."""


class Committed(NamedTuple):
    """What the broker says about a partition: the committed offset with its metadata, and what it still holds.

    Attributes
    ----------
    offset, metadata
        As committed; None: nothing yet.
    first, end
        Offset of the first record, and the one after the last.
    """

    offset: int | None
    metadata: str
    first: int
    end: int


class Held(NamedTuple):
    """A partition whose record at an offset cannot be read: how long it is left alone, and until when."""

    offset: int
    seconds: float
    until: float


class Reader:
    """The consumer of a topic.

    Parameters
    ----------
    settings
        Of the service.
    topic
        What it reads.
    most
        Records that a poll may bring.
    figures
        Where it counts consumers made and fetches that could not be unpacked.
    make
        Maker of the client.

    Attributes
    ----------
    assigned
        Partitions that the group has given and that :meth:`begin` has not begun.
    """

    def __init__(
        self,
        settings: ServiceSettings,
        topic: str,
        most: int,
        figures: Figures,
        make: Callable[[ServiceSettings, int], KafkaConsumer] = group_consumer,
    ) -> None:
        self._settings, self._topic, self._most, self._figures, self._make = settings, topic, most, figures, make
        self._client: KafkaConsumer | None = None
        self.assigned: set[int] = set()
        self._begun: set[int] = set()
        self._lost: set[int] = set()
        self._held: dict[int, Held] = {}

    def open(self) -> None:
        """Connect and join the group.

        Raises
        ------
        KafkaError
            If no broker answers, or none that we can talk to.
        """
        client = unpack_all(self._make(self._settings, self._most), self._hold)
        client.subscribe([self._topic], listener=_Listener(client, self.assigned, self._lost))
        self._figures.add("consumers")
        self._client = client

    def close(self) -> None:
        """Leave, without waiting for long."""
        client, self._client = self._client, None
        if client is not None:
            close(lambda: client.close(autocommit=False, timeout_ms=2000), CLOSE_SECONDS)

    @property
    def client(self) -> KafkaConsumer:
        """The consumer, where there is one for sure: after a poll, while something is read."""
        assert self._client is not None
        return self._client

    @property
    def joined(self) -> bool:
        """It is a member of the group, as far as it knows."""
        return self._client is not None and self._client.group_metadata().generation_id >= 0

    # What comes, and what goes.

    def poll(self) -> dict[int, list[Received]]:
        """Read what is there, by partition; with a client that has failed or no broker, nothing.

        Raises
        ------
        ConnectorError
            If another member has our name.
        """
        try:
            if self._client is None:
                self.open()
            self._fetch_held()
            polled: dict[TopicPartition, list[Received]] = self.client.poll(timeout_ms=int(1000 * POLL_SECONDS))
        except FencedInstanceIdError:
            raise ConnectorError(
                f"another worker of group {self._settings.group} has the name {self._settings.instance}; "
                "give each its own instance"
            ) from None
        except Exception as error:  # after any error the client may be wedged: a new one is not
            if self._client is None:
                logger.warning("no broker at %s: %s", self._settings.brokers, error)
            else:
                logger.warning("the consumer failed and is replaced: %s: %s", type(error).__name__, error)
            self.close()
            self._lost.update(self._begun)
            self.assigned.clear()
            time.sleep(RETRY_SECONDS)
            return {}
        for place, records in polled.items():
            held = self._held.get(place.partition)
            if held is not None and records[-1].offset >= held.offset:
                del self._held[place.partition]
                logger.info("%s/%d can be read again", place.topic, place.partition)
        return {place.partition: records for place, records in polled.items() if place.partition in self._begun}

    def gone(self) -> list[int]:
        """Name the partitions that have gone since this was last asked."""
        gone = sorted(self._lost)
        self._lost.clear()
        self._begun.difference_update(gone)
        for number in gone:
            self._held.pop(number, None)
        return gone

    def begin(self, number: int, offset: int) -> None:
        """Read a partition from an offset on."""
        place = TopicPartition(self._topic, number)
        self.client.seek(place, offset)
        self.client.resume(place)
        self.assigned.discard(number)
        self._begun.add(number)

    def put_off(self, number: int) -> None:
        """Hold a partition back again, as if it had just been assigned, if it is still ours."""
        place = TopicPartition(self._topic, number)
        if place in self.client.assignment():
            self.client.pause(place)
            self._begun.discard(number)
            self.assigned.add(number)

    # What cannot be read.

    def _hold(self, place: TopicPartition, offset: int, error: Exception) -> None:
        """Leave a partition alone that cannot be read on, for a while; the others go on. Nothing is skipped."""
        self.client.pause(place)
        held = self._held.get(place.partition)
        again = held is not None and held.offset == offset
        seconds = min(2 * held.seconds, LONGEST_HOLD) if held is not None and again else FIRST_HOLD
        self._held[place.partition] = Held(offset, seconds, time.monotonic() + seconds)
        self._figures.add("unreadable", place.partition)
        remedy = (
            "install what this codec needs"
            if isinstance(error, UnsupportedCodecError)
            else "the leader's copy may be damaged: let another replica lead"
        )
        logger.error(
            "%s/%d cannot be read from %d on: %s; %s. Tried again in %.0f s; other partitions go on",
            place.topic,
            place.partition,
            offset,
            error,
            remedy,
            seconds,
        )

    def _fetch_held(self) -> None:
        """Fetch again what could not be read, when its time has come."""
        now = time.monotonic()
        for number, held in self._held.items():
            if now >= held.until and number in self._begun:
                self._held[number] = held._replace(until=math.inf)
                self.client.resume(TopicPartition(self._topic, number))

    # What the brokers know.

    def where(self, number: int) -> Committed:
        """Ask where a partition stands.

        Raises
        ------
        KafkaError
            If no broker answers.
        """
        place, milliseconds = TopicPartition(self._topic, number), int(1000 * ANSWER_SECONDS)
        committed = self.client.committed(place, metadata=True, timeout_ms=milliseconds)
        first = self.client.beginning_offsets([place], timeout_ms=milliseconds)[place]
        end = self.client.end_offsets([place], timeout_ms=milliseconds)[place]
        offset, metadata = (None, "") if committed is None else (committed.offset, committed.metadata or "")
        return Committed(offset, metadata, first, end)

    def lag(self, number: int) -> tuple[int | None, int | None]:
        """Say where a partition ends, and how many of its records have not been read; None: not known.

        The client's position counts the marks of transactions, which are no records. Asking for it also wakes up a
        client that has lost track of a partition's leader.
        """
        place = TopicPartition(self._topic, number)
        end = None if self._client is None else self._client.highwater(place)
        if end is None:
            return None, None
        try:
            read = self.client.position(place, timeout_ms=1000)
        except KafkaError as error:
            logger.info("the position in %s/%d is not known: %s", self._topic, number, error)
            return end, None
        return end, None if read is None else max(0, end - read)


@contextmanager
def start_explained(settings: ServiceSettings) -> Iterator[None]:
    """Say in a line why it cannot start; later any patience with the brokers is right.

    Raises
    ------
    ConnectorError
        In place of what the client raises.
    """
    try:
        yield
    except InDoubtError as error:
        raise NoBrokerError(f"cannot begin transactions at {settings.brokers}: {error}") from None
    except KafkaError as error:
        kind = NoBrokerError if isinstance(error, KafkaTimeoutError | KafkaConnectionError) else ConnectorError
        raise kind(explained(settings, error)) from None


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]  # kafka-python carries no types
    """Notes what comes and goes; it runs in the client's thread, inside `poll`, and may do no more than that."""

    def __init__(self, consumer: KafkaConsumer, assigned: set[int], lost: set[int]) -> None:
        self._consumer, self._assigned, self._lost = consumer, assigned, lost

    def on_partitions_assigned(self, assigned: Any) -> None:
        """Hold partitions back until their state is there."""
        for place in assigned:
            self._consumer.pause(place)
            self._consumer.seek(place, 0)  # any place: without one, poll would go and ask for the committed offset
            self._assigned.add(place.partition)

    def on_partitions_revoked(self, revoked: Any) -> None:
        """Let go: everything that counts is committed."""
        for place in revoked:
            self._assigned.discard(place.partition)
            self._lost.add(place.partition)

    on_partitions_lost = on_partitions_revoked
