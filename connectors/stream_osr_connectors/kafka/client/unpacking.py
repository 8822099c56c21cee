"""How fetched batches are unpacked: whatever lies in a topic, its reader goes on.

kafka-python takes the names of headers for UTF-8 while it unpacks a batch, which brokers do not check, and after an
error in there a consumer is of no use any more. So the client's own unpacking is overridden in two places, and no
more: names that are no text keep their bytes, and an error is told without ending the consumer.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, SupportsIndex

from kafka import KafkaConsumer, TopicPartition
from kafka.consumer.fetcher import Fetcher
from kafka.record.default_records import DefaultRecordBatch

from stream_osr_connectors.kafka.wire.messages import RawName

Unreadable = Callable[[TopicPartition, int, Exception], None]
"""Told of a partition whose records cannot be read on from an offset, and why."""


class _Buffer(bytearray):
    """Bytes of which every part can be decoded."""

    def __getitem__(self, place: SupportsIndex | slice) -> Any:
        found = super().__getitem__(place)
        return _Buffer(found) if isinstance(found, bytearray) else found

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        try:
            return super().decode(encoding)
        except UnicodeDecodeError:
            return RawName(super().decode(encoding, "surrogateescape"))


class _Batch(DefaultRecordBatch):  # type: ignore[misc]  # kafka-python carries no types
    """Records of one batch."""

    _buffer: bytearray

    def _read_msg(self) -> Any:
        try:
            return super()._read_msg()
        except UnicodeDecodeError:  # nothing has moved: the record is read again
            self._buffer = _Buffer(self._buffer)
            return super()._read_msg()


class _Batches:
    """Batches of one fetch."""

    def __init__(self, records: Any) -> None:
        self._records = records

    def next_batch(self) -> Any:
        batch = self._records.next_batch()
        return _Batch(batch._buffer) if isinstance(batch, DefaultRecordBatch) else batch


class _Records(Fetcher.PartitionRecords):  # type: ignore[misc]  # kafka-python carries no types
    """Records of one fetch of one partition."""

    def __init__(self, *told: Any, unreadable: Unreadable | None, **named: Any) -> None:
        self._unreadable = unreadable
        super().__init__(*told, **named)

    def _unpack_records(self, place: TopicPartition, records: Any, *deserializers: Any) -> Any:
        return super()._unpack_records(place, _Batches(records), *deserializers)

    def take(self, n: int | None = None) -> Any:
        if self._unreadable is None:
            return super().take(n)
        try:
            return super().take(n)
        except MemoryError:
            raise
        except Exception as error:  # a checksum, the structure, a codec: what follows it cannot be had now
            self.drain()
            self._unreadable(self.topic_partition, self.next_fetch_offset, error)
            return []


def unpack_all(consumer: KafkaConsumer, unreadable: Unreadable | None = None) -> KafkaConsumer:
    """Make a consumer take names of headers as they are.

    Those that are no text become a :class:`stream_osr_connectors.kafka.wire.messages.RawName`.

    Parameters
    ----------
    consumer
        A new one, which has not read yet.
    unreadable
        Called in `poll`, in its thread, when the next record of a partition cannot be read; the consumer stays
        usable, and tries again at once unless the partition is paused. None: `poll` raises, and the consumer is to
        be closed.
    """
    consumer._fetcher.PartitionRecords = partial(_Records, unreadable=unreadable)
    return consumer
