"""Producers with kafka-python, which check the result of every message."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from kafka import KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka.errors import UnknownError
from kafka.record.default_records import DefaultRecordBatchBuilder

from stream_osr_connectors.kafka.places import Place
from stream_osr_connectors.kafka.settings import ServiceSettings
from stream_osr_connectors.kafka.wire.messages import Outgoing

from .errors import Needs, client_error, translated
from .interface import ClientError, ErrorKind, Offset, RefusedMessage, SendResult
from .options import BOOTSTRAP_SECONDS, begin_at, connection, made

BLOCK_SHARE, FLUSH_SHARE = 0.3, 0.6
"""Shares of the time limit of a transaction. Blocked calls end by themselves before the thread is abandoned."""


BY_KEY = -1
"""Partition number of messages that are partitioned by key."""
ROOM_FOR_HEADERS = 1 << 17
"""Bytes that are left for headers where the size of a message is not computed."""


def transactional_id(settings: ServiceSettings) -> str:
    """Return the transactional id of a worker, which is unique for each pair of group and instance.

    It is ``GROUP-:INSTANCE``, with ``:`` and ``%`` in the instance as ``%3A`` and ``%25``. So its last colon ends the
    group, and an ACL for the prefix ``GROUP-:`` (or ``GROUP-``) covers it.

    >>> of = ServiceSettings(model="m", brokers="b:1", input="in", group="g", instance="a-b")
    >>> transactional_id(of), transactional_id(of.model_copy(update={"group": "g-a", "instance": "b"}))
    ('g-:a-b', 'g-a-:b')
    """
    return f"{settings.group}-:{settings.instance.replace('%', '%25').replace(':', '%3A')}"


def packed_size(message: Outgoing) -> int:
    """Return the size of a message in bytes without compression and without the batch header."""
    return int(DefaultRecordBatchBuilder.size_of(message.key, message.value, message.headers))


class PlainProducer:
    """A producer without transactions.

    Parameters
    ----------
    deadline
        Time limit in seconds for sending.
    options
        Options of kafka-python's producer.

    Raises
    ------
    ClientError
        If the producer cannot be created now.
    """

    def __init__(self, deadline: float, **options: Any) -> None:
        self._deadline = deadline
        self._counts: dict[str, int] = {}
        self._client: KafkaProducer | None = None
        self._needs = Needs("WRITE", transactional_id=options.get("transactional_id", ""))
        durable = {"acks": "all", "enable_idempotence": True, "allow_auto_create_topics": False}
        with translated(self._needs):
            block = int(1000 * BLOCK_SHARE * deadline)
            self._client = made(KafkaProducer, **{**durable, "max_block_ms": block, **options})

    @classmethod
    def of(cls, settings: ServiceSettings, deadline: float) -> PlainProducer:
        """Create a producer with the settings of the service."""
        return PlainProducer(deadline, **connection(settings))

    @classmethod
    def at(cls, brokers: str, deadline: float, **options: Any) -> PlainProducer:
        """Create a producer for some brokers, with additional options of kafka-python's producer."""
        return PlainProducer(deadline, **{**begin_at(brokers), **options})

    def send(self, messages: Sequence[Outgoing]) -> SendResult:
        """Send messages, and wait for the result of each.

        The client does not raise for every failure, and its transaction may not notice it, such as if the metadata of
        a topic is refused. Therefore this method checks each result.
        """
        client = self._own
        refused: list[RefusedMessage] = []
        offsets: list[int] = []
        sent: list[tuple[int, Any]] = []
        acknowledged: Counter[str] = Counter()
        for place, message in enumerate(messages):
            try:
                sent.append((place, self._send(client, message)))
            except Exception as error:
                refused.append(RefusedMessage(place, client_error(error, self._needs)))
                if refused[-1].error.kind is not ErrorKind.RECORD:
                    return SendResult(
                        acknowledged, offsets, refused
                    )  # all others would fail alike, each after a wait
        ends = time.monotonic() + FLUSH_SHARE * self._deadline
        # suppressed: a batch was too large and is split, and its messages have other futures
        with translated(self._needs), suppress(UnknownError):
            client.flush(FLUSH_SHARE * self._deadline)
        for place, future in sent:
            try:
                found = future.value if future.succeeded() else future.get(max(0.0, ends - time.monotonic()))
            except Exception as error:
                refused.append(RefusedMessage(place, client_error(error, self._needs)))
            else:
                acknowledged[messages[place].topic] += 1
                offsets.append(found.offset)
        return SendResult(acknowledged, offsets, refused)

    def partitions(self, topic: str) -> int:
        """Return the number of partitions of a topic."""
        count = self._counts.get(topic)
        if count is None:
            with translated(self._needs):
                count = self._counts[topic] = len(self._own.partitions_for(topic) or (0,))
        return count

    def close(self, seconds: float) -> None:
        """Close the client, and stop its thread, which would otherwise continue to send."""
        client, self._client = self._client, None
        if client is not None:
            try:
                client.close(timeout=seconds)
            finally:
                client._sender.force_close()

    @property
    def _own(self) -> KafkaProducer:
        if self._client is None:
            raise ClientError(ErrorKind.AGAIN, "the producer is closed")
        return self._client

    def _send(self, client: KafkaProducer, message: Outgoing) -> Any:
        """Add a message to a batch, as the client's `send` does for any message in twice the time."""
        topic, number, key, value, headers, timestamp, *_ = message
        if number == BY_KEY:
            return client.send(topic, key=key, value=value, timestamp_ms=timestamp)
        at = TopicPartition(topic, number % self.partitions(topic))
        if client._metadata.partitions_for_topic(topic) is None:
            client._wait_on_metadata(topic, client.config["max_block_ms"])
        if len(key or b"") + len(value or b"") > client.config["max_request_size"] - ROOM_FOR_HEADERS:
            client._ensure_valid_record_size(client._estimate_size_in_bytes(key, value, headers))
        if (transactions := client._transaction_manager) and transactions.is_transactional():
            transactions.maybe_add_partition_to_transaction(at)
        future, full, new, _ = client._accumulator.append(at, timestamp, key, value, _Headers(headers))
        if full or new:
            client._sender.wakeup()
        return future


class TransactionalProducer(PlainProducer):
    """The transactional producer of a worker. A new producer with the same id aborts the previous one's transaction.

    The calls may block without a time limit, so they need a thread that can be abandoned.

    Parameters
    ----------
    settings
        Settings of the service.
    """

    name = staticmethod(transactional_id)
    """Function that returns the transactional id, given the settings."""

    def __init__(self, settings: ServiceSettings) -> None:
        bootstrap = int(1000 * min(BOOTSTRAP_SECONDS, BLOCK_SHARE * settings.transaction_deadline))
        super().__init__(
            settings.transaction_deadline,
            **{**connection(settings), "bootstrap_timeout_ms": bootstrap},
            transactional_id=self.name(settings),
            transaction_timeout_ms=int(1000 * settings.transaction_timeout),
            compression_type=None if settings.compression == "none" else settings.compression,
            batch_size=1 << 17,
            max_request_size=1 << 26,  # the limits of the topics are checked before
            retry_backoff_ms=10,  # the default stalls 100 ms whenever the last transaction is still being marked
        )
        # A fenced client would reopen itself and fence the other one. The service decides when to do that.
        self._own._transaction_manager._supports_epoch_bump = lambda: False

    def open(self) -> None:
        """Abort the transaction of the previous producer, and wait at most a part of `transaction_deadline`."""
        with translated(self._needs):
            self._own.init_transactions()

    def begin(self) -> None:
        """Begin a transaction."""
        with translated(self._needs):
            self._own.begin_transaction()

    def send_offsets(self, offsets: Mapping[Place, Offset], membership: Any) -> None:
        """Add offsets to the transaction."""
        with translated(self._needs._replace(right="READ", topic=", ".join({place.topic for place in offsets}))):
            self._own.send_offsets_to_transaction(
                {TopicPartition(*place): OffsetAndMetadata(*offset, -1) for place, offset in offsets.items()},
                membership,
            )

    def commit(self) -> None:
        """Commit the transaction."""
        with translated(self._needs):
            self._own.commit_transaction()


class _Headers(list[tuple[str, bytes | None]]):
    """Headers, which may be null. They are false, so that the client does not sum up their sizes."""

    def __bool__(self) -> bool:
        return False
