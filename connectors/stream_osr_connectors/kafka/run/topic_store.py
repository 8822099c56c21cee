"""Store of states in a compacted topic.

A state is a record for each part, and then a record that describes the whole: size, digest, number of parts. A state
is complete only if all its parts are there. A deleted state is a tombstone for each of these records.
"""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from typing import NamedTuple

from stream_osr.errors import ConnectorError, PersistenceError
from stream_osr.support.state_store import StateStore, StoreChanges, StoredState, selected

from ..backoff import CLOSE_SECONDS, close
from ..client.consumers import TopicFollower
from ..client.interface import ClientError, ErrorKind
from ..client.producer import PlainProducer
from ..exits import NoTopicError
from ..log import Seldom
from ..places import Place
from ..settings import ServiceSettings
from ..wire.messages import Outgoing, Received
from ..wire.timestamps import NO_TIME, refuses_timestamp

PART = 256 << 10
"""Largest part of a state in bytes. It fits into a record with the default limits of brokers."""
SILENCE_SECONDS = 20.0
"""Time without a record after which reading fails."""
DIGEST = 16
"""Bytes of a digest at the beginning of a part, so that parts of different contents are not mixed."""
REUSED_SECONDS = 5.0
"""Time after its last use for which the consumer is used again. A new one takes some tenths of a second."""
RECENT = 64 << 20
"""Bytes of states in memory between a list and the calls of `get`. Of more, the oldest are read again."""

_seldom = Seldom()


class _Whole(NamedTuple):
    """Description of a state: size, digest as hexadecimal text, number of parts."""

    size: int
    digest: str
    parts: int

    def join(self, parts: Mapping[int, Received]) -> bytes | None:
        """Join the parts, or return ``None`` if they are not complete."""
        if len(parts) < self.parts:
            return None
        values = [(parts[at].value if at in parts else None) or b"" for at in range(self.parts)]
        data = b"".join(value[DIGEST:] for value in values)
        begin = bytes.fromhex(self.digest)[:DIGEST]
        complete = all(value[:DIGEST] == begin for value in values)
        return data if complete and hashlib.sha256(data).hexdigest() == self.digest else None


class _Published(NamedTuple):
    """State in the topic: description, partition, first and last offset, and whether the key names the position.

    ``at`` is its time in seconds since 1970, if it is known.
    """

    whole: _Whole
    partition: int
    begin: int
    end: int
    named: bool
    at: float | None


class TopicStore(StateStore):
    """Store of a group's states in a compacted topic.

    The position selects the partition, modulo the number of partitions. The methods `get` and `drop` see the topic
    as of the latest call of `states`, which reads only new records.

    Outside the service the store suits few states, such as snapshots. Each process reads the whole topic once, and
    each `put` and each `get` of an earlier state waits for the brokers. `Keyed` would wait for each key.

    Reading raises ClientError if the brokers do not answer, and ConnectorError if the topic does not exist.

    Parameters
    ----------
    settings
        Settings of the service.
    topic
        Compacted topic. Several groups may share it.
    """

    def __init__(self, settings: ServiceSettings, topic: str) -> None:
        self._settings, self._topic = settings, topic
        self._producer: PlainProducer | None = None
        self._timestamp: int | None = None  # of the records
        self._follower: TopicFollower | None = None
        self._followed = -math.inf  # when it was used last
        self._read: dict[int, int] = {}  # next offset of each partition
        self._ends: dict[int, int] = {}  # largest known end of each partition
        self._parts: dict[StoredState, dict[int, Received]] = {}  # of states without a description
        self._index: dict[StoredState, _Published] = {}
        self._recent: dict[StoredState, bytes] = {}
        self._changes = StoreChanges(set(), set())

    def states(self, name: str | None = None, positions: Collection[int] | None = None) -> list[StoredState]:
        """Read the new records of the positions' partitions, and list the states.

        Raises
        ------
        ConnectorError
            If the topic does not exist.
        ClientError
            If the brokers do not answer.
        """
        with self._following() as follower:
            first, ends = follower.bounds()
            count = len(follower.places)
            wanted = None if positions is None else {position % count for position in positions}
            for place in follower.places:
                if wanted is None or place.partition in wanted:
                    self._forget(place.partition, first[place], ends[place])
                    begin = max(first[place], self._read.get(place.partition, 0))
                    for record in _records(follower, place, begin, ends[place]):
                        try:
                            self._take(record)
                        except (TypeError, ValueError):  # of another program
                            about = f"topic {self._topic}, partition {record.partition}: record {record.offset}"
                            _seldom.say(self._topic, f"{about} is no state and left aside")
                    self._read[place.partition] = self._ends[place.partition] = ends[place]
        return selected(self._index, name, positions)

    def get(self, state: StoredState) -> bytes | None:
        """Return a state, which is in memory after `states`, or read it again."""
        data = self._fetch(state)
        if data is None:  # it is new, or was replaced
            self.states(positions=[state.position])
            data = self._fetch(state)
        return data

    def modified(self, state: StoredState) -> float | None:
        """Return the timestamp of the description."""
        return self._index[state].at if state in self._index else None

    def put(self, state: StoredState, data: bytes) -> None:
        """Publish a state in `transaction_deadline`.

        Raises
        ------
        PersistenceError
            If the brokers do not take it, or the name contains the character NUL.
        """
        if "\0" in state.name:
            raise PersistenceError(f"state {state.name!r}: a name in topic {self._topic} cannot contain NUL")
        digest = hashlib.sha256(data)
        begin = digest.digest()[:DIGEST]
        parts = [begin + data[at : at + PART] for at in range(0, len(data), PART)]
        whole = _Whole(len(data), digest.hexdigest(), len(parts))
        with self._producing(state) as producer:
            count = producer.partitions(self._topic)
            number, named = state.position % count, state.position >= count
            keys = self._keys(state, len(parts), named)
            values = [*parts, json.dumps(whole).encode()]
            offsets = self._send(state, producer, number, dict(zip(keys, values, strict=True)))
        self._forget(number, 0, offsets[-1] + 1)
        if time.monotonic() - self._followed > REUSED_SECONDS:
            self._recent.clear()  # all partitions are loaded
        self._recent.pop(state, None)
        self._index[state] = _Published(whole, number, offsets[0], offsets[-1], named, time.time())
        self._ends[number] = offsets[-1] + 1

    def drop(self, state: StoredState) -> None:
        """Publish tombstones.

        Raises
        ------
        PersistenceError
            If the brokers do not take them.
        """
        if (found := self._index.get(state)) is not None:
            keys = self._keys(state, found.whole.parts, found.named)
            with self._producing(state) as producer:
                self._send(state, producer, found.partition, dict.fromkeys([keys[-1], *keys[:-1]]))
            del self._index[state]
        self._recent.pop(state, None)

    def take_changes(self) -> StoreChanges:
        """Return the changes since the last call.

        A state is lost if its records were deleted or are incomplete now, or if the topic was created again.
        """
        changes, self._changes = self._changes, StoreChanges(set(), set())
        return StoreChanges(*(states - self._index.keys() for states in changes))

    def close(self) -> None:
        """Close the connections."""
        self._unfollow()
        self._close_producer()

    def _close_producer(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            close(partial(producer.close, 1.0), CLOSE_SECONDS)

    @contextmanager
    def _following(self) -> Iterator[TopicFollower]:
        """Provide the consumer. It stays open for a short time: a worker reads its partitions one after another."""
        if time.monotonic() - self._followed > REUSED_SECONDS:
            self._unfollow()
        try:
            if self._follower is None:
                self._follower = TopicFollower.of(self._settings, self._topic)
            yield self._follower
        except NoTopicError as error:
            raise ConnectorError(f"state_topic: {error}. `stream-osr topics --create` creates it") from None
        except ClientError:
            self._unfollow()
            raise
        self._followed = time.monotonic()

    def _unfollow(self) -> None:
        follower, self._follower = self._follower, None
        if follower is not None:
            close(follower.close, CLOSE_SECONDS)

    def _keys(self, state: StoredState, parts: int, named: bool) -> list[bytes]:
        """Keys of the parts and of the description. A position that is not the partition's number is in the key."""
        position = str(state.position) if named else ""
        keys = ([self._settings.group, state.name, str(at), position] for at in (*range(parts), ""))
        return ["\0".join(key).rstrip("\0").encode() for key in keys]

    @contextmanager
    def _producing(self, state: StoredState) -> Iterator[PlainProducer]:
        """Provide the producer. After a failure the next one is new."""
        try:
            if self._producer is None:
                self._producer = PlainProducer.of(self._settings, self._settings.transaction_deadline)
            yield self._producer
        except ClientError as error:
            self.close()
            raise PersistenceError(f"{state.name} cannot be published to topic {self._topic}: {error}") from None

    def _send(
        self, state: StoredState, producer: PlainProducer, partition: int, values: Mapping[bytes, bytes | None]
    ) -> Sequence[int]:
        """Send records, and return their offsets."""
        messages = [
            Outgoing(self._topic, partition, key, value, [], self._timestamp) for key, value in values.items()
        ]
        _, offsets, refused = producer.send(messages)
        if not refused:
            return offsets
        if self._timestamp is not None or not refuses_timestamp(refused[0].error):
            raise refused[0].error
        self._timestamp = NO_TIME
        _seldom.say(
            f"clock {self._topic}",
            f"the clock of this machine is {datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}, which topic {self._topic} refuses "
            "as a timestamp: it is ahead of the brokers' by more than message.timestamp.after.max.ms. States are "
            "published without a timestamp. Set the clock",
        )
        self._close_producer()  # the client would repeat the refusal
        with self._producing(state) as another:
            return self._send(state, another, partition, values)

    def _forget(self, partition: int, first: int, end: int) -> None:
        """Note which states of a partition the topic has no more, given its first and next offset."""
        renewed = end < self._ends.get(partition, 0)
        if renewed:
            self._read.pop(partition, None)
            self._ends.pop(partition)
        own = ((state, its) for state, its in self._index.items() if its.partition == partition)
        lost = [state for state, its in own if renewed or its.begin < first]
        for state in lost:
            del self._index[state]
            self._recent.pop(state, None)
        self._changes.lost.update(lost)

    def _take(self, record: Received) -> None:
        """Take a record into the index."""
        fields = (record.key or b"").decode("utf-8", "replace").split("\0")
        group, name, number, position = [*fields, "", "", ""][:4]
        if group != self._settings.group or not name:
            return
        state = StoredState(name, int(position or record.partition))
        if number:
            parts = self._parts.setdefault(state, {})
            parts[int(number)] = record
            if record.value is None:
                del parts[int(number)]
            return
        if record.value is None:
            for each in (self._index, self._recent, self._parts):
                each.pop(state, None)
            self._changes.dropped.add(state)
            return
        size, digest, parts = json.loads(record.value)
        whole = _Whole(int(size), bytes.fromhex(digest).hex(), int(parts))
        known, data = self._index.pop(state, None), whole.join(self._parts.get(state, {}))
        self._recent.pop(state, None)
        if data is None:
            if known is not None:
                self._changes.lost.add(state)
            _seldom.say(
                f"{name} {whole.digest}",
                f"topic {self._topic}: {name} is incomplete and left aside ({whole.size} bytes in {whole.parts} "
                "parts). An earlier state is used, if there is one",
            )
            return
        own = self._parts.pop(state, {})
        begin = min((own[at].offset for at in range(whole.parts)), default=record.offset)
        at = None if record.timestamp == NO_TIME else record.timestamp / 1000
        self._index[state] = _Published(whole, record.partition, begin, record.offset, bool(position), at)
        self._recent[state] = data
        while sum(map(len, self._recent.values())) > RECENT:
            del self._recent[next(iter(self._recent))]

    def _fetch(self, state: StoredState) -> bytes | None:
        found = self._index.get(state)
        if found is None or state in self._recent:
            return self._recent.get(state)
        place = Place(self._topic, found.partition)
        with self._following() as follower:
            records = {each.key: each for each in _records(follower, place, found.begin, found.end + 1)}
        keys = self._keys(state, found.whole.parts, found.named)[:-1]
        return found.whole.join({at: records[key] for at, key in enumerate(keys) if key in records})


def _records(follower: TopicFollower, place: Place, begin: int, end: int) -> Iterator[Received]:
    """Yield the records of a partition between two offsets."""
    if begin >= end:
        return
    follower.only(place, begin)
    heard = time.monotonic()
    while follower.position(place) < end:
        for record in follower.poll(0.2):
            heard = time.monotonic()
            if record.offset < end:
                yield record
        if time.monotonic() - heard > SILENCE_SECONDS:
            raise ClientError(ErrorKind.AGAIN, f"no state came from {place} for {SILENCE_SECONDS:g} s")
