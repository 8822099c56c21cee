"""State in the log: the files of a group's state folder in a compacted topic.

Each machine then has another folder, which is only a copy. A worker reads the files of a partition from the
topic before it loads the partition, and publishes each file that it writes. So a partition continues on another
machine, and a machine that is lost with its disk loses nothing.

A file is a record for each part, and then a record that describes the whole: size, digest, number of parts. A file is
used only if all its parts are there. A deleted file is a tombstone for each of these records.

If records are deleted or the topic is created again, a worker publishes the files that its folder still has.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import NamedTuple

from stream_osr.atomic import write_whole
from stream_osr.errors import ConnectorError, PersistenceError

from ..backoff import CLOSE_SECONDS, close
from ..client.consumers import TopicFollower
from ..client.interface import ClientError, ErrorKind
from ..client.producer import PlainProducer
from ..exits import NoTopicError
from ..log import Seldom, logger
from ..places import Place
from ..settings import ServiceSettings
from ..wire.messages import Outgoing, Received

PART = 256 << 10
"""Largest part of a file in bytes. It fits into a record with the default limits of brokers."""
SILENCE_SECONDS = 20.0
"""Time without a record after which reading fails."""
DIGEST = 16
"""Bytes of a digest at the beginning of a part, so that parts of different contents are not mixed."""

_seldom = Seldom()


class _Whole(NamedTuple):
    """Description of a file: size, digest as hexadecimal text, number of parts."""

    size: int
    digest: str
    parts: int


class _Published(NamedTuple):
    """File in the topic, with its partition and the first offset."""

    whole: _Whole
    partition: int
    offset: int


class StateLog:
    """Copies files between a folder and a topic.

    Parameters
    ----------
    settings
        Settings of the service.
    folder
        Folder of this machine.
    topic
        Compacted topic.
    """

    def __init__(self, settings: ServiceSettings, folder: Path, topic: str) -> None:
        self._settings, self._folder, self._topic = settings, folder, topic
        self._producer: PlainProducer | None = None
        self._read: dict[int, int] = {}  # next offset of each partition
        self._ends: dict[int, int] = {}  # largest known end of each partition
        self._parts: dict[tuple[str, int], Received] = {}
        self._known: dict[str, _Published] = {}

    def pull(self, partition: int | None = None) -> int:
        """Read new files of a partition, or of all partitions, into the folder.

        Partition 0 has the files of the whole group, too, and is always read.

        Returns
        -------
        The number of files that were written or deleted.

        Raises
        ------
        ConnectorError
            If the topic does not exist.
        ClientError
            If the brokers do not answer.
        PersistenceError
            If a file cannot be written, or a lost one not published again.
        """
        changed, lost = 0, dict[str, int]()
        try:
            follower = TopicFollower.of(self._settings, self._topic)
        except NoTopicError as error:
            raise ConnectorError(f"state_topic: {error}. `stream-osr topics --create` creates it") from None
        with closing(follower):
            first, ends = follower.bounds()
            for place in follower.places:
                if partition is None or place.partition in (0, partition % len(follower.places)):
                    lost |= self._lost(place.partition, first[place], ends[place])
                    begin = max(first[place], self._read.get(place.partition, 0))
                    for record in _records(follower, place, begin, ends[place]):
                        try:
                            changed += self._take(record)
                        except (TypeError, ValueError):  # of another program
                            about = f"topic {self._topic}, partition {record.partition}: record {record.offset}"
                            _seldom.say(self._topic, f"{about} is no state and left aside")
                    self._read[place.partition] = self._ends[place.partition] = ends[place]
        self._publish_again(lost)
        return changed

    def put(self, name: str, partition: int = 0) -> None:
        """Publish a file of the folder, unless the topic has it.

        Raises
        ------
        PersistenceError
            If the file cannot be read, or the brokers do not take it.
        """
        try:
            data = (self._folder / name).read_bytes()
        except OSError as error:
            raise PersistenceError(f"cannot read {self._folder / name}: {error.strerror}") from None
        digest = hashlib.sha256(data)
        parts = [data[at : at + PART] for at in range(0, len(data), PART)]
        whole = _Whole(len(data), digest.hexdigest(), len(parts))
        if name in self._known and self._known[name].whole == whole:
            return
        begin = digest.digest()[:DIGEST]
        messages = [self._message(self._key(name, at), begin + part, partition) for at, part in enumerate(parts)]
        offsets = self._send(name, [*messages, self._message(self._key(name), json.dumps(whole).encode(), partition)])
        assert self._producer is not None, "it has just sent"
        number = partition % self._producer.partitions(self._topic)
        lost = self._lost(number, 0, offsets[-1] + 1)
        self._known[name] = _Published(whole, number, offsets[0])
        self._ends[number] = offsets[-1] + 1
        self._publish_again(lost)

    def drop(self, name: str, partition: int = 0) -> None:
        """Delete a file from the topic.

        Raises
        ------
        PersistenceError
            If the brokers do not take it.
        """
        if (found := self._known.pop(name, None)) is not None:
            keys = [self._key(name), *(self._key(name, at) for at in range(found.whole.parts))]
            self._send(name, [self._message(key, None, partition) for key in keys])

    def close(self) -> None:
        """Close the producer."""
        producer, self._producer = self._producer, None
        if producer is not None:
            close(partial(producer.close, 1.0), CLOSE_SECONDS)

    def _key(self, name: str, number: int | None = None) -> bytes:
        """Key of a file or part. Several groups may share a topic."""
        whole = f"{self._settings.group}\0{name}"
        return whole.encode() if number is None else f"{whole}\0{number}".encode()

    def _message(self, key: bytes, value: bytes | None, partition: int) -> Outgoing:
        return Outgoing(self._topic, partition, key, value, [], None)

    def _send(self, name: str, messages: list[Outgoing]) -> list[int]:
        """Send messages in `transaction_deadline`, and return their offsets. After a failure the producer is new."""
        try:
            if self._producer is None:
                self._producer = PlainProducer.of(self._settings, self._settings.transaction_deadline)
            _, offsets, refused = self._producer.send(messages)
            if refused:
                raise refused[0].error
        except ClientError as error:
            self.close()
            raise PersistenceError(f"{name} cannot be published to topic {self._topic}: {error}") from None
        return offsets

    def _lost(self, partition: int, first: int, end: int) -> dict[str, int]:
        """Forget the files of a partition that the topic has no more, and return their names with the partition."""
        renewed = end < self._ends.get(partition, 0)
        if renewed:
            self._read.pop(partition, None)
            self._ends.pop(partition)
        own = ((name, its) for name, its in self._known.items() if its.partition == partition)
        lost = {name: partition for name, its in own if renewed or its.offset < first}
        for name in lost:
            del self._known[name]
        return lost

    def _publish_again(self, lost: Mapping[str, int]) -> None:
        names = [name for name in lost if name not in self._known and (self._folder / name).exists()]
        if not names:
            return
        logger.warning(
            "topic %s was created again, or its records were deleted: %d files are published again",
            self._topic,
            len(names),
        )
        for name in names:
            self.put(name, lost[name])

    def _take(self, record: Received) -> int:
        """Take a record, and return whether a file has changed."""
        group, name, number, *_ = *(record.key or b"").decode("utf-8", "replace").split("\0"), "", ""
        if group != self._settings.group or not name or "/" in name or name.startswith("."):  # no file of ours
            return 0
        if number:
            if record.value is None:
                self._parts.pop((name, int(number)), None)
            else:
                self._parts[name, int(number)] = record
            return 0
        if record.value is None:
            self._known.pop(name, None)
            found = self._folder / name
            there = found.exists()
            found.unlink(missing_ok=True)
            return int(there)
        size, digest, parts = json.loads(record.value)
        whole = _Whole(int(size), bytes.fromhex(digest).hex(), int(parts))
        received = [self._parts.pop((name, at), None) for at in range(whole.parts)]
        first = min((part.offset for part in received if part is not None), default=record.offset)
        begin = bytes.fromhex(whole.digest)[:DIGEST]
        values = [(part.value if part is not None else None) or b"" for part in received]
        data = b"".join(value[DIGEST:] for value in values)
        complete = all(value[:DIGEST] == begin for value in values)
        return self._write(name, data, _Published(whole, record.partition, first), complete)

    def _write(self, name: str, data: bytes, published: _Published, complete: bool) -> int:
        path, whole = self._folder / name, published.whole
        if not complete or hashlib.sha256(data).hexdigest() != whole.digest:
            self._known.pop(name, None)
            _seldom.say(
                f"{name} {whole.digest}",
                f"topic {self._topic}: {name} is incomplete and left aside ({len(data)} of {whole.size} bytes). An "
                "earlier file is used, if there is one",
            )
            return 0
        self._known[name] = published
        if path.exists() and path.stat().st_size == whole.size and _digest(path) == whole.digest:
            return 0
        try:
            write_whole(path, lambda file: file.write(data))
        except OSError as error:
            raise PersistenceError(f"cannot write {path}: {error.strerror}. Check that the folder has room") from None
        return 1


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


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
