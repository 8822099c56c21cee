"""kafka-python's consumer, as a member of a group and for whole topics without one; no record ends it.

kafka-python takes the names of headers for UTF-8 while it unpacks a batch, which brokers do not check, and after an
error in there a consumer is of no use any more. So the client's own unpacking is overridden in two places, and no
more: names that are no text keep their bytes (as a :class:`stream_osr_connectors.kafka.wire.messages.RawName`), and
an error is reported and does not end the consumer.
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
from .interface import Committed, Offset, Unreadable
from .options import READ_COMMITTED, begin_at, closed_on_error, made, reading

TellUnreadable = Callable[[TopicPartition, int, Exception], None]
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


memory_records.DefaultRecordBatch = _Batch


class _Records(Fetcher.PartitionRecords):  # type: ignore[misc]  # kafka-python carries no types
    """Records of one fetch of one partition.

    ``unreadable`` is called in `poll`, in its thread, when the next record of a partition cannot be read. The
    consumer stays usable, and tries again at once unless the partition is paused.
    """

    def __init__(self, *report: Any, unreadable: TellUnreadable, **named: Any) -> None:
        self._unreadable = unreadable
        super().__init__(*report, **named)

    def take(self, n: int | None = None) -> Any:
        try:
            return super().take(n)
        except MemoryError:
            raise
        except Exception as error:  # a checksum, the structure, a codec: what follows it cannot be had now
            self.drain()
            self._unreadable(self.topic_partition, self.next_fetch_offset, error)
            return []


ANSWER_SECONDS = 2.0
"""How long one question to the brokers may take."""


JOIN_SECONDS = 2.0
"""How long a poll may wait for the group while it is being joined: nothing is read meanwhile."""


class GroupConsumer:
    """A static member of the group, which shares by the cooperative protocol and reads some topics.

    Partitions come and go inside `poll` only.

    Parameters
    ----------
    settings
        Of the service.
    topics
        Topics that it reads.
    most
        Records that a poll may bring.
    unreadable
        Told of a partition that cannot be read on; it is held until somebody lets it go on.

    Attributes
    ----------
    assigned
        Partitions that the group has given and nobody has begun.
    lost
        Partitions that have gone; whoever takes notice empties it.

    Raises
    ------
    ClientError
        If no broker answers, or none that we can talk to.
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
                # before it joins: a leader that does not know the topic gives nobody anything, and leaves it at that
                for topic in topics:
                    client.partitions_for_topic(topic)

    def poll(self, seconds: float) -> dict[Place, list[Received]]:
        """Read what is there, by partition."""
        with translated(self._needs):
            if self._client._coordinator.need_rejoin():
                self._client._coordinator.poll(timeout_ms=int(1000 * JOIN_SECONDS))
            polled: dict[TopicPartition, list[Received]] = self._client.poll(timeout_ms=int(1000 * seconds))
            self._look_at_assignment()
            if self._fenced.is_set():
                raise FencedInstanceIdError("another member has our name")
        return {Place(*place): records for place, records in polled.items()}

    def _look_at_assignment(self) -> None:
        """Join once more if the group has given what it had given our predecessor: the topic may be another since.

        A static member that comes back gets that without an assignment, even as the leader, who alone would notice
        new partitions. As the leader it makes one then; all others get the same again.
        """
        coordinator = self._client._coordinator
        if self._looked or not self.is_member or coordinator.need_rejoin():
            return
        self._looked = True
        if coordinator._assignment_snapshot is None:
            coordinator.request_rejoin()

    def begin(self, place: Place, offset: int) -> None:
        """Read a partition from an offset on."""
        with translated(self._needs):
            self._client.seek(TopicPartition(*place), offset)
            self._client.resume(TopicPartition(*place))
        self.assigned.discard(place)

    def hold(self, *places: Place) -> None:
        """Read no more of some partitions, which stay ours."""
        with translated(self._needs):
            self._client.pause(*(TopicPartition(*place) for place in places if self.has(place)))

    def let_go_on(self, *places: Place) -> None:
        """Read them again."""
        with translated(self._needs):
            self._client.resume(*(TopicPartition(*place) for place in places if self.has(place)))

    def has(self, place: Place) -> bool:
        """Say whether a partition is ours."""
        return TopicPartition(*place) in self._client.assignment()

    def position(self, place: Place) -> int | None:
        """Say which offset is read next; None: not known.

        The client's position counts the marks of transactions, which are no records. Asking for it also wakes up a
        client that has lost track of a partition's leader.
        """
        with translated(self._needs):
            position: int | None = self._client.position(TopicPartition(*place), timeout_ms=1000)
        return position

    def where(self, place: Place, since: int | None = None) -> Committed:
        """Return what the broker says about a partition.

        Parameters
        ----------
        place
            The partition.
        since
            Time at which a stream begins of which nothing is committed, in milliseconds since 1970; None: no time.
        """
        own, milliseconds = TopicPartition(*place), int(1000 * ANSWER_SECONDS)
        committed = self.committed(place)
        with translated(self._needs):
            first = self._client.beginning_offsets([own], timeout_ms=milliseconds)[own]
            end = self._client.end_offsets([own], timeout_ms=milliseconds)[own]
            begin = None
            if committed is None and since is not None:
                found = self._client.offsets_for_times({own: since}, timeout_ms=milliseconds)[own]
                begin = end if found is None else int(found.offset)
        offset, metadata = (None, "") if committed is None else committed
        return Committed(offset, metadata, first, end, begin)

    def committed(self, place: Place) -> Offset | None:
        """Ask what is committed of a partition, whosever it is; None: nothing."""
        with translated(self._needs):
            try:
                found = self._client.committed(
                    TopicPartition(*place), metadata=True, timeout_ms=int(1000 * ANSWER_SECONDS)
                )
            except KafkaTimeoutError:
                raise KafkaTimeoutError(
                    f"what is committed of {place} was not told in {ANSWER_SECONDS:g} s. If it stays "
                    "so while the brokers answer, they left a transaction open (kafka-transactions.sh find-hanging)"
                ) from None
        return None if found is None else Offset(found.offset, found.metadata or "")

    @property
    def is_member(self) -> bool:
        """It is a member of the group, as far as it knows."""
        return bool(self._client.group_metadata().generation_id >= 0)

    @property
    def membership(self) -> Any:
        """Metadata of the member, by which the brokers refuse offsets of a stale one."""
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
            Leave the group: its partitions go to other members at once. Otherwise the group keeps the membership
            until the session ends, for a successor with the same name.
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
    """Let a join that outlasts a poll be ended by the next: the client forgets it, and what it has been given."""
    coordinator = client._coordinator
    need_rejoin = coordinator.need_rejoin
    coordinator.need_rejoin = lambda: coordinator._join_task is not None or need_rejoin()


def _tell_of_fencing(client: KafkaConsumer) -> threading.Event:
    """Note when a heartbeat is refused because another has our name: the client stops them, and is silent."""
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
    """Notes what comes and goes; it runs in the client's thread, inside `poll`, and may do no more than that."""

    def __init__(self, consumer: KafkaConsumer, assigned: set[Place], lost: set[Place]) -> None:
        self._consumer, self._assigned, self._lost = consumer, assigned, lost

    def on_partitions_assigned(self, assigned: Any) -> None:
        """Hold partitions back until their state is there."""
        for place in assigned:
            self._consumer.pause(place)
            self._consumer.seek(place, 0)  # any place: without one, poll would go and ask for the committed offset
            self._assigned.add(Place(*place))

    def on_partitions_revoked(self, revoked: Any) -> None:
        """Let go: everything that counts is committed."""
        for place in revoked:
            self._assigned.discard(Place(*place))
            self._lost.add(Place(*place))

    on_partitions_lost = on_partitions_revoked


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
            self._client: KafkaConsumer = made(KafkaConsumer, **options, group_id=None)
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
