"""The topic of labels as a log in memory: what was asked between two places."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import Protocol

from kafka import KafkaConsumer, TopicPartition

from stream_osr.errors import ConnectorError
from stream_osr_connectors.values import DecodeError

from .clients import plain_consumer
from .labelling import Command, parse
from .settings import ServiceSettings

logger = logging.getLogger("stream_osr.kafka")

REFRESH_SECONDS = 0.5


class Labels(Protocol):
    """What has been asked so far."""

    @property
    def end(self) -> int:
        """Place after the last command that has been read."""

    def refresh(self) -> None:
        """Read on, without waiting."""

    def between(self, begin: int, end: int) -> Sequence[Command]:
        """Return the commands from one place up to another, which has been read."""

    def close(self) -> None:
        """Let go of the topic."""


class NoLabels:
    """A service without a topic of labels."""

    end = 0

    def refresh(self) -> None:
        """Do nothing."""

    def between(self, begin: int, end: int) -> Sequence[Command]:
        """Return nothing.

        Raises
        ------
        ConnectorError
            If labels were applied when this stream was first run: a replay without them would differ.
        """
        if end > begin:
            raise ConnectorError("labels were applied to this stream before; name their topic again as labels")
        return ()

    def close(self) -> None:
        """Do nothing."""


class LabelLog:
    """The commands of a topic, all of them in memory: people ask for little.

    Raises
    ------
    ConnectorError
        If the topic has not one partition.
    """

    def __init__(self, settings: ServiceSettings) -> None:
        self._topic = settings.labels or ""
        self._consumer: KafkaConsumer = plain_consumer(settings)
        count = len(self._consumer.partitions_for_topic(self._topic) or ())
        if count != 1:
            raise ConnectorError(
                f"the topic of labels, {self._topic}, has {count} partitions; it needs one, so that all workers see "
                "the same order (`stream-osr topics --create` makes it)"
            )
        self._partition = TopicPartition(self._topic, 0)
        self._consumer.assign([self._partition])
        self._consumer.seek_to_beginning(self._partition)
        self._first = self._consumer.beginning_offsets([self._partition])[self._partition]
        self._places: list[int] = []
        self._commands: list[Command] = []
        self._looked = 0.0
        self.end = self._first
        last = self._consumer.end_offsets([self._partition])[self._partition]
        while self._consumer.position(self._partition) < last:
            self._read(200)

    def refresh(self) -> None:
        """Read on, without waiting; not more often than twice a second."""
        now = time.monotonic()
        if now - self._looked >= REFRESH_SECONDS:
            self._looked = now
            self._read(0)

    def between(self, begin: int, end: int) -> Sequence[Command]:
        """Return the commands from one place up to another.

        Raises
        ------
        ConnectorError
            If the topic no longer holds them, or does not hold them yet.
        """
        if begin < end and not self._first <= begin <= end <= self.end:
            raise ConnectorError(
                f"a replay needs the labels from {begin} to {end}, and topic {self._topic} holds {self._first} to "
                f"{self.end}; keep labels for ever (retention.ms=-1)"
            )
        return [c for place, c in zip(self._places, self._commands, strict=True) if begin <= place < end]

    def close(self) -> None:
        """Let go of the topic."""
        self._consumer.close()

    def _read(self, timeout_ms: int) -> None:
        try:
            polled = self._consumer.poll(timeout_ms=timeout_ms, max_records=500)
        except Exception as error:  # after any error the client may be wedged
            raise ConnectorError(f"the topic of labels, {self._topic}, cannot be read: {error}") from error
        for received in polled.get(self._partition, ()):
            try:
                command = parse(received.value)
            except DecodeError as error:
                logger.warning("%s at %d is left: %s", self._topic, received.offset, error)
                continue
            self._places.append(received.offset)
            self._commands.append(command)
        self.end = self._consumer.position(self._partition)
