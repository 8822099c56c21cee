"""kafka-python's consumer without a group: whole topics, read from wherever one likes."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kafka import KafkaConsumer, TopicPartition
from kafka.errors import KafkaTimeoutError

from stream_osr_connectors.kafka.exits import NoTopicError
from stream_osr_connectors.kafka.places import Place
from stream_osr_connectors.kafka.settings import ServiceSettings
from stream_osr_connectors.kafka.wire.messages import Received

from .kinds import Needs, told, translated
from .options import READ_COMMITTED, begin_at, closed_on_error, made, reading
from .unpacking import unpack_all

SILENCE_SECONDS = 30.0
"""How long records that are there may take to come."""

READ = Needs("READ")


class TopicFollower:
    """A reader of all partitions of a topic, which belongs to no group.

    Parameters
    ----------
    topic
        What it reads.
    brokers
        For the message when there is no such topic.
    options
        Of kafka-python's consumer.

    Raises
    ------
    NoTopicError
        If there is no such topic.
    ClientError
        If no broker answers.
    """

    def __init__(self, topic: str, brokers: str, **options: Any) -> None:
        with translated(READ):
            self._client: KafkaConsumer = unpack_all(made(KafkaConsumer, **options, group_id=None))
            with closed_on_error(self._client):
                numbers = self._client.partitions_for_topic(topic)
        if not numbers:
            self.close()
            raise NoTopicError(f"topic {topic} does not exist at {brokers}; create it, or correct the name")
        self.places: Sequence[Place] = [Place(topic, number) for number in sorted(numbers)]
        with translated(READ):
            self._client.assign([TopicPartition(*place) for place in self.places])

    @classmethod
    def at(cls, brokers: str, topic: str, **options: Any) -> TopicFollower:
        """Read a topic of some brokers, with further options of kafka-python's consumer."""
        return cls(topic, brokers, **{**begin_at(brokers), **READ_COMMITTED, **options})

    @classmethod
    def of(cls, settings: ServiceSettings, topic: str) -> TopicFollower:
        """Read a topic of the service."""
        with translated():  # a file of a token or a certificate may just be written
            options = reading(settings)
        return cls(topic, settings.brokers, **options)

    def poll(self, seconds: float, most: int | None = None) -> Sequence[Received]:
        """Read what is there."""
        with translated(READ):
            polled = self._client.poll(timeout_ms=int(1000 * seconds), max_records=most)
        return [record for records in polled.values() for record in records]

    def only(self, place: Place, offset: int) -> None:
        """Read one partition alone, from an offset on."""
        with translated(READ):
            self._client.assign([TopicPartition(*place)])
            self._client.seek(TopicPartition(*place), offset)

    def position(self, place: Place) -> int:
        """Say which offset is read next."""
        with translated(READ):
            return int(self._client.position(TopicPartition(*place), timeout_ms=5000) or 0)

    def seek(self, offsets: Mapping[Place, int]) -> None:
        """Go somewhere in some partitions."""
        with translated(READ):
            for place, offset in offsets.items():
                self._client.seek(TopicPartition(*place), offset)

    def bounds(self) -> tuple[dict[Place, int], dict[Place, int]]:
        """Ask for the first offset of each partition, and the one after the last."""
        places = [TopicPartition(*place) for place in self.places]
        with translated(READ):
            first, end = self._client.beginning_offsets(places), self._client.end_offsets(places)
        return _by_place(first), _by_place(end)

    def close(self) -> None:
        """Let go of the topic."""
        with translated(READ):
            self._client.close()


def _by_place(offsets: Mapping[TopicPartition, int]) -> dict[Place, int]:
    return {Place(*place): offset for place, offset in offsets.items()}


def read_all(settings: ServiceSettings, topic: str, end: int | None = None) -> Iterator[Received]:
    """Read the committed records of a topic, or of its one partition up to an offset.

    Raises
    ------
    NoTopicError
        If there is no such topic.
    ClientError
        If the brokers do not answer, or nothing comes for half a minute.
    """
    follower = TopicFollower.of(settings, topic)
    try:
        first, ends = follower.bounds()
        ends = ends if end is None else dict.fromkeys(ends, end)
        follower.seek(first)
        heard = time.monotonic()
        while any(follower.position(place) < ends[place] for place in follower.places):
            for record in follower.poll(0.2):
                heard = time.monotonic()
                if record.offset < ends[Place(topic, record.partition)]:
                    yield record
            if time.monotonic() - heard > SILENCE_SECONDS:
                raise told(KafkaTimeoutError(f"nothing came from {topic} for {SILENCE_SECONDS:g} s"))
    finally:
        follower.close()
