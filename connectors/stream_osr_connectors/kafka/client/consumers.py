"""Consumers with kafka-python: a member of a group, and a reader of whole topics. No record stops them.

kafka-python decodes the names of headers as UTF-8 while it unpacks a batch. Brokers do not check them, and after an
error a consumer is unusable. This module overrides the unpacking in two places. Names that are not UTF-8 keep their
bytes (as a :class:`stream_osr_connectors.kafka.wire.messages.RawName`), and an error is reported and does not stop
the consumer.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from functools import partial
from typing import Any, SupportsIndex

from kafka import ConsumerRebalanceListener, KafkaConsumer, TopicPartition
from kafka.consumer.fetcher import Fetcher
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.errors import FencedInstanceIdError, KafkaTimeoutError, UnsupportedCodecError
from kafka.record import memory_records
from kafka.record.default_records import DefaultRecordBatch

from stream_osr_connectors.kafka.exits import NoTopicError
from stream_osr_connectors.kafka.places import Place
from stream_osr_connectors.kafka.settings import ServiceSettings
from stream_osr_connectors.kafka.wire.messages import RawName, Received

from .errors import Needs, client_error, translated
from .interface import ClientError, Committed, Offset, Unreadable
from .options import READ_COMMITTED, begin_at, closed_on_error, made, reading

TellUnreadable = Callable[[TopicPartition, int, Exception], None]
"""Callback for a partition that cannot be read from an offset on, with the error."""


class _Buffer(bytearray):
    """Bytes that can always be decoded."""

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


memory_records.DefaultRecordBatch = _Batch


class _Records(Fetcher.PartitionRecords):  # type: ignore[misc]  # kafka-python carries no types
    """Records of one fetch of one partition.

    `poll` calls ``unreadable`` in its thread when the next record of a partition cannot be read. The consumer stays
    usable, and retries at once unless the partition is paused.
    """

    def __init__(self, *report: Any, unreadable: TellUnreadable, **named: Any) -> None:
        self._unreadable = unreadable
        super().__init__(*report, **named)

    def take(self, n: int | None = None) -> Any:
        try:
            return super().take(n)
        except MemoryError:
            raise
        except Exception as error:  # a checksum, the structure, a codec: the next records cannot be read now
            self.drain()
            self._unreadable(self.topic_partition, self.next_fetch_offset, error)
            return []


ANSWER_SECONDS = 2.0
"""Time limit in seconds for one request to the brokers."""


JOIN_SECONDS = 2.0
"""Time limit in seconds for a poll during a join, when no records are read."""


class GroupConsumer:
    """A static member of the group with the cooperative protocol, which reads some topics.

    The assignment changes only inside `poll`.

    Parameters
    ----------
    settings
        Of the service.
    topics
        Topics to read.
    most
        Most records of one poll.
    unreadable
        Callback for a partition that cannot be read. The partition is paused until :meth:`let_go_on`.

    Attributes
    ----------
    assigned
        Assigned partitions that are not started yet.
    lost
        Revoked partitions. The caller removes them after handling.

    Raises
    ------
    ClientError
        If no broker answers, or the connection fails.
    """

    def __init__(self, settings: ServiceSettings, topics: Sequence[str], most: int, unreadable: Unreadable) -> None:
        self.assigned: set[Place] = set()
        self.lost: set[Place] = set()
        self._needs = Needs("READ", ", ".join(topics))
        self._unreadable = unreadable
        self._looked = False
        session = int(1000 * settings.session_timeout)
        with translated(self._needs):
            client = made(
                KafkaConsumer,
                **reading(settings),
                group_id=settings.group,
                group_instance_id=settings.instance,
                partition_assignment_strategy=[CooperativeStickyAssignor()],
                session_timeout_ms=session,
                heartbeat_interval_ms=min(1000, session // 5),
                max_poll_records=most,
            )
            self._client: KafkaConsumer = client
            client._fetcher.PartitionRecords = partial(_Records, unreadable=self._hold)
            self._fenced = _tell_of_fencing(client)
            _end_joins(client)
            with closed_on_error(client):
                client.subscribe(list(topics), listener=_Listener(client, self.assigned, self.lost))
                # before the join: a leader without metadata of the topic would assign no partitions and stop there
                for topic in topics:
                    client.partitions_for_topic(topic)

    def poll(self, seconds: float) -> dict[Place, list[Received]]:
        """Return new records by partition."""
        with translated(self._needs):
            if self._client._coordinator.need_rejoin():
                self._client._coordinator.poll(timeout_ms=int(1000 * JOIN_SECONDS))
            polled: dict[TopicPartition, list[Received]] = self._client.poll(timeout_ms=int(1000 * seconds))
            self._look_at_assignment()
            if self._fenced.is_set():
                raise FencedInstanceIdError("another member has our name")
        return {Place(*place): records for place, records in polled.items()}

    def _look_at_assignment(self) -> None:
        """Rejoin if the group has returned the predecessor's assignment, because the topic may have changed.

        A returning static member gets the old assignment without a rebalance, even if it is the leader, which alone
        would notice new partitions. After a rejoin the leader computes an assignment, and other members get the same
        again.
        """
        coordinator = self._client._coordinator
        if self._looked or not self.is_member or coordinator.need_rejoin():
            return
        self._looked = True
        if coordinator._assignment_snapshot is None:
            coordinator.request_rejoin()

    def begin(self, place: Place, offset: int) -> None:
        """Start reading a partition at an offset."""
        with translated(self._needs):
            self._client.seek(TopicPartition(*place), offset)
            self._client.resume(TopicPartition(*place))
        self.assigned.discard(place)

    def hold(self, *places: Place) -> None:
        """Pause some partitions, which stay assigned."""
        with translated(self._needs):
            self._client.pause(*(TopicPartition(*place) for place in places if self.has(place)))

    def let_go_on(self, *places: Place) -> None:
        """Resume some partitions."""
        with translated(self._needs):
            self._client.resume(*(TopicPartition(*place) for place in places if self.has(place)))

    def has(self, place: Place) -> bool:
        """Return whether a partition is assigned to this member."""
        return TopicPartition(*place) in self._client.assignment()

    def position(self, place: Place) -> int | None:
        """Return the next offset to read, or ``None`` if unknown.

        The client's position includes transaction markers, which are not records. This call also refreshes the
        metadata of a client that does not know the partition's leader.
        """
        with translated(self._needs):
            position: int | None = self._client.position(TopicPartition(*place), timeout_ms=1000)
        return position

    def where(self, places: Sequence[Place], since: int | None = None) -> dict[Place, Committed]:
        """Return the state of partitions at the brokers, up to the first with an unknown committed offset.

        One request for all of them is as quick as one for each, which may wait for a fetch of records. ``since`` is
        the start time of streams without a committed offset, in milliseconds since 1970. If nothing is known,
        ClientError is raised.
        """
        committed: dict[TopicPartition, Offset | None] = {}
        for place in places:
            try:
                committed[TopicPartition(*place)] = self.committed(place)
            except ClientError:
                if not committed:
                    raise
                break
        own, milliseconds, out = [*committed], int(1000 * ANSWER_SECONDS), {}
        with translated(self._needs):
            firsts = self._client.beginning_offsets(own, timeout_ms=milliseconds)
            ends = self._client.end_offsets(own, timeout_ms=milliseconds)
            new = {each: since for each, offset in committed.items() if offset is None}
            begins = {} if since is None or not new else self._client.offsets_for_times(new, timeout_ms=milliseconds)
        for each, offset in committed.items():
            found = begins.get(each)
            begin = None if each not in begins else ends[each] if found is None else int(found.offset)
            at, metadata = (None, "") if offset is None else offset
            out[Place(*each)] = Committed(at, metadata, firsts[each], ends[each], begin)
        return out

    def committed(self, place: Place) -> Offset | None:
        """Return the committed offset of any partition, or ``None``."""
        with translated(self._needs):
            try:
                found = self._client.committed(
                    TopicPartition(*place), metadata=True, timeout_ms=int(1000 * ANSWER_SECONDS)
                )
            except KafkaTimeoutError:
                raise KafkaTimeoutError(
                    f"the committed offset of {place} did not arrive in {ANSWER_SECONDS:g} s. If it stays "
                    "so while the brokers answer, they left a transaction open (kafka-transactions.sh find-hanging)"
                ) from None
        return None if found is None else Offset(found.offset, found.metadata or "")

    @property
    def is_member(self) -> bool:
        """Whether this consumer is a member of the group, as far as it knows."""
        return bool(self._client.group_metadata().generation_id >= 0)

    @property
    def membership(self) -> Any:
        """Metadata of the member, with which the brokers reject offsets of a stale member."""
        with translated(self._needs):
            return self._client.group_metadata()

    def topic_id(self, topic: str) -> str:
        """Id of a topic, as far as this client knows it."""
        return str(self._client._cluster.topic_id(topic) or "")

    def close(self, *, leave: bool) -> None:
        """Close the client, without waiting for long.

        Parameters
        ----------
        leave
            Leave the group, so that other members get the partitions at once. Otherwise the group keeps the
            membership until the session ends, for a successor with the same name.
        """
        if leave and not self._fenced.is_set():
            # The client lets static members never leave. Its request names the member id, too, so that the broker
            # refuses it when a successor already has the name.
            self._client._coordinator.is_dynamic_member = lambda: True
        with suppress(Exception):
            self._client.close(autocommit=False, timeout_ms=int(1000 * ANSWER_SECONDS))

    def _hold(self, place: TopicPartition, offset: int, error: Exception) -> None:
        self._client.pause(place)
        remedy = (
            "install what this codec needs"
            if isinstance(error, UnsupportedCodecError)
            else "the leader's copy may be damaged: let another replica lead"
        )
        self._unreadable(Place(*place), offset, client_error(error), remedy)


def _end_joins(client: KafkaConsumer) -> None:
    """Complete a join that outlasts a poll in the next poll. The client would forget it and its assignment."""
    coordinator = client._coordinator
    need_rejoin = coordinator.need_rejoin
    coordinator.need_rejoin = lambda: coordinator._join_task is not None or need_rejoin()


def _tell_of_fencing(client: KafkaConsumer) -> threading.Event:
    """Record when a heartbeat is refused because another member has the same name. The client does not report it."""
    fenced, coordinator = threading.Event(), client._coordinator
    handle = coordinator._handle_heartbeat_response

    def noted(response: Any, sent: float) -> Any:
        try:
            return handle(response, sent)
        except FencedInstanceIdError:
            fenced.set()
            raise

    coordinator._handle_heartbeat_response = noted
    return fenced


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]  # kafka-python carries no types
    """Records assignments and revocations. It runs in the client's thread inside `poll`, and must do nothing else."""

    def __init__(self, consumer: KafkaConsumer, assigned: set[Place], lost: set[Place]) -> None:
        self._consumer, self._assigned, self._lost = consumer, assigned, lost

    def on_partitions_assigned(self, assigned: Any) -> None:
        """Pause partitions until their state is loaded."""
        for place in assigned:
            self._consumer.pause(place)
            self._consumer.seek(place, 0)  # any place: without one, poll would go and ask for the committed offset
            self._assigned.add(Place(*place))

    def on_partitions_revoked(self, revoked: Any) -> None:
        """Record revoked partitions. All their results are committed."""
        for place in revoked:
            self._assigned.discard(Place(*place))
            self._lost.add(Place(*place))

    on_partitions_lost = on_partitions_revoked


SILENCE_SECONDS = 30.0
"""Time limit in seconds for existing records to arrive."""

READ = Needs("READ")


class TopicFollower:
    """A reader of all partitions of a topic without a group.

    Parameters
    ----------
    topic
        Topic to read.
    brokers
        Brokers, for the message if the topic does not exist.
    options
        Options of kafka-python's consumer.

    Raises
    ------
    NoTopicError
        If the topic does not exist.
    ClientError
        If no broker answers.
    """

    def __init__(self, topic: str, brokers: str, **options: Any) -> None:
        with translated(READ):
            self._client: KafkaConsumer = made(KafkaConsumer, **options, group_id=None)
            with closed_on_error(self._client):
                numbers = self._client.partitions_for_topic(topic)
        if not numbers:
            self.close()
            raise NoTopicError(f"topic {topic} does not exist at {brokers}. Create it, or correct the name")
        self.places: Sequence[Place] = [Place(topic, number) for number in sorted(numbers)]
        with translated(READ):
            self._client.assign([TopicPartition(*place) for place in self.places])

    @classmethod
    def at(cls, brokers: str, topic: str, **options: Any) -> TopicFollower:
        """Read a topic of some brokers, with additional options of kafka-python's consumer."""
        return cls(topic, brokers, **{**begin_at(brokers), **READ_COMMITTED, **options})

    @classmethod
    def of(cls, settings: ServiceSettings, topic: str) -> TopicFollower:
        """Read a topic of the service."""
        with translated():  # a file of a token or a certificate may just be written
            options = reading(settings)
        return cls(topic, settings.brokers, **options)

    def poll(self, seconds: float, most: int | None = None) -> Sequence[Received]:
        """Return new records."""
        with translated(READ):
            polled = self._client.poll(timeout_ms=int(1000 * seconds), max_records=most)
        return [record for records in polled.values() for record in records]

    def only(self, place: Place, offset: int) -> None:
        """Read only one partition, from an offset on."""
        with translated(READ):
            self._client.assign([TopicPartition(*place)])
            self._client.seek(TopicPartition(*place), offset)

    def position(self, place: Place) -> int:
        """Return the next offset to read."""
        with translated(READ):
            return int(self._client.position(TopicPartition(*place), timeout_ms=5000) or 0)

    def seek(self, offsets: Mapping[Place, int]) -> None:
        """Set the next offsets of some partitions."""
        with translated(READ):
            for place, offset in offsets.items():
                self._client.seek(TopicPartition(*place), offset)

    def bounds(self) -> tuple[dict[Place, int], dict[Place, int]]:
        """Return the first offset of each partition, and the offset after the last record."""
        places = [TopicPartition(*place) for place in self.places]
        with translated(READ):
            first, end = self._client.beginning_offsets(places), self._client.end_offsets(places)
        return _by_place(first), _by_place(end)

    def close(self) -> None:
        """Close the consumer."""
        with translated(READ):
            self._client.close()


def _by_place(offsets: Mapping[TopicPartition, int]) -> dict[Place, int]:
    return {Place(*place): offset for place, offset in offsets.items()}


def read_all(settings: ServiceSettings, topic: str, end: int | None = None) -> Iterator[Received]:
    """Yield the committed records of a topic. With ``end``, the topic has one partition and reading stops there.

    Raises
    ------
    NoTopicError
        If the topic does not exist.
    ClientError
        If the brokers do not answer, or no record arrives for half a minute.
    """
    with closing(TopicFollower.of(settings, topic)) as follower:
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
                raise client_error(KafkaTimeoutError(f"nothing came from {topic} for {SILENCE_SECONDS:g} s"))
