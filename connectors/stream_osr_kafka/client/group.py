"""kafka-python's consumer as a member of a group: one topic, positions set by hand, nothing that ends it for good."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Any

from kafka import ConsumerRebalanceListener, KafkaConsumer, TopicPartition
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.errors import FencedInstanceIdError, KafkaTimeoutError, UnsupportedCodecError

from stream_osr_kafka.settings import ServiceSettings
from stream_osr_kafka.wire.messages import Received

from .kinds import Needs, told, translated
from .options import closed_on_error, made, reading
from .seam import Committed, Offset, Unreadable
from .unpacking import unpack_all

ANSWER_SECONDS = 2.0
"""How long one question to the brokers may take."""


JOIN_SECONDS = 2.0
"""How long a poll may wait for the group while it is being joined: nothing is read meanwhile."""


class GroupConsumer:
    """A static member of the group, which shares by the cooperative protocol and reads one topic.

    Partitions come and go inside `poll` only.

    Parameters
    ----------
    settings
        Of the service.
    topic
        What it reads.
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

    def __init__(self, settings: ServiceSettings, topic: str, most: int, unreadable: Unreadable) -> None:
        self.assigned: set[int] = set()
        self.lost: set[int] = set()
        self._topic, self._needs = topic, Needs("READ", topic)
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
            self._client: KafkaConsumer = unpack_all(client, self._hold)
            self._fenced = _tell_of_fencing(client)
            _end_joins(client)
            with closed_on_error(client):
                client.subscribe([topic], listener=_Listener(client, self.assigned, self.lost))
                # before it joins: a leader that does not know the topic gives nobody anything, and leaves it at that
                client.partitions_for_topic(topic)

    def poll(self, seconds: float) -> dict[int, list[Received]]:
        """Read what is there, by partition."""
        with translated(self._needs):
            if self._client._coordinator.need_rejoin():
                self._client._coordinator.poll(timeout_ms=int(1000 * JOIN_SECONDS))
            polled: dict[TopicPartition, list[Received]] = self._client.poll(timeout_ms=int(1000 * seconds))
            self._look_at_assignment()
            if self._fenced.is_set():
                raise FencedInstanceIdError("another member has our name")
        return {place.partition: records for place, records in polled.items()}

    def _look_at_assignment(self) -> None:
        """Join once more if the group has given what it had given our predecessor: the topic may be another since.

        A static member that comes back gets that without an assignment, even as the leader, who alone would notice
        new partitions. As the leader it makes one then; all others get the same again.
        """
        coordinator = self._client._coordinator
        if self._looked or not self.joined or coordinator.need_rejoin():
            return
        self._looked = True
        if coordinator._assignment_snapshot is None:
            coordinator.request_rejoin()

    def begin(self, number: int, offset: int) -> None:
        """Read a partition from an offset on."""
        with translated(self._needs):
            self._client.seek(self._place(number), offset)
            self._client.resume(self._place(number))
        self.assigned.discard(number)

    def hold(self, *numbers: int) -> None:
        """Read no more of some partitions, which stay ours."""
        with translated(self._needs):
            self._client.pause(*(self._place(number) for number in numbers if self.has(number)))

    def let_go_on(self, *numbers: int) -> None:
        """Read them again."""
        with translated(self._needs):
            self._client.resume(*(self._place(number) for number in numbers if self.has(number)))

    def has(self, number: int) -> bool:
        """Say whether a partition is ours."""
        return self._place(number) in self._client.assignment()

    def position(self, number: int) -> int | None:
        """Say which offset is read next; None: not known.

        The client's position counts the marks of transactions, which are no records. Asking for it also wakes up a
        client that has lost track of a partition's leader.
        """
        with translated(self._needs):
            position: int | None = self._client.position(self._place(number), timeout_ms=1000)
        return position

    def where(self, number: int) -> Committed:
        """Ask where a partition stands."""
        place, milliseconds = self._place(number), int(1000 * ANSWER_SECONDS)
        committed = self.committed(number)
        with translated(self._needs):
            first = self._client.beginning_offsets([place], timeout_ms=milliseconds)[place]
            end = self._client.end_offsets([place], timeout_ms=milliseconds)[place]
        return Committed(None, "", first, end) if committed is None else Committed(*committed, first, end)

    def committed(self, number: int) -> Offset | None:
        """Ask what is committed of a partition, whosever it is; None: nothing."""
        place = self._place(number)
        with translated(self._needs):
            try:
                found = self._client.committed(place, metadata=True, timeout_ms=int(1000 * ANSWER_SECONDS))
            except KafkaTimeoutError:
                raise KafkaTimeoutError(
                    f"what is committed of {place.topic}/{number} was not told in {ANSWER_SECONDS:g} s. If it stays "
                    "so while the brokers answer, they left a transaction open (kafka-transactions.sh find-hanging)"
                ) from None
        return None if found is None else Offset(found.offset, found.metadata or "")

    @property
    def joined(self) -> bool:
        """It is a member of the group, as far as it knows."""
        return bool(self._client.group_metadata().generation_id >= 0)

    @property
    def membership(self) -> Any:
        """What a producer needs so that offsets of a stale member are refused."""
        with translated(self._needs):
            return self._client.group_metadata()

    @property
    def topic_id(self) -> str:
        """Id of the topic, as far as this client knows it."""
        return str(self._client._cluster.topic_id(self._topic) or "")

    def close(self) -> None:
        """Leave, without waiting for long."""
        with suppress(Exception):
            self._client.close(autocommit=False, timeout_ms=2000)

    def _place(self, number: int) -> TopicPartition:
        return TopicPartition(self._topic, number)

    def _hold(self, place: TopicPartition, offset: int, error: Exception) -> None:
        self._client.pause(place)
        remedy = (
            "install what this codec needs"
            if isinstance(error, UnsupportedCodecError)
            else "the leader's copy may be damaged: let another replica lead"
        )
        self._unreadable(place.partition, offset, told(error), remedy)


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
