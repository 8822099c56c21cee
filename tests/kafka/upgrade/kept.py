"""What a service had left behind when it was killed: kept in files, and put back where it lay.

``kept.jsonl.gz`` holds the topics with all committed records and where each lay, and the committed offsets;
``files.zip`` the folder of the snapshots and the model.
"""

from __future__ import annotations

import gzip
import json
import shutil
import time
import uuid
from base64 import b64decode, b64encode
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka.errors import (
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    NoError,
    NotCoordinatorError,
    TopicAlreadyExistsError,
)
from kafka.record.memory_records import MemoryRecordsBuilder

from tests.kafka.streams import CONSUMER, Stream

FILE, FILES = "kept.jsonl.gz", "files.zip"
PATIENCE = 90.0


class Record(NamedTuple):
    """A committed record, where it lay; it is also what a consumer hands over."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


class Commit(NamedTuple):
    """What a group had committed of a partition."""

    group: str
    topic: str
    partition: int
    offset: int
    metadata: str


class Topic(NamedTuple):
    """A topic, and the offsets at which its partitions ended."""

    name: str
    ends: tuple[int, ...]
    configs: dict[str, str]


class Kept(NamedTuple):
    """Everything.

    Attributes
    ----------
    release
        Commit whose code has made it.
    settings
        Of the service; without brokers, model and state.
    """

    release: str
    settings: dict[str, Any]
    topics: tuple[Topic, ...]
    commits: tuple[Commit, ...]
    records: tuple[Record, ...]

    def of(self, name: str, partition: int | None = None) -> list[Record]:
        """Records of a topic, ``input`` or what stands behind its name (``decisions``), in order."""
        whole = self.settings["input"] if name == "input" else f"{self.settings['input']}.{name}"
        return [r for r in self.records if r.topic == whole and partition in (None, r.partition)]

    def commits_of(self, topic: str) -> list[Commit]:
        """What was committed of a topic, by partition."""
        return sorted((c for c in self.commits if c.topic == topic), key=lambda c: c.partition)

    def write(self, folder: Path) -> None:
        """Write it to a folder; the same content gives the same bytes."""
        about = self._replace(records=())._asdict()
        about["topics"] = [topic._asdict() for topic in self.topics]
        about["commits"] = [commit._asdict() for commit in self.commits]
        lines = [json.dumps(about), *(json.dumps(_written(record)) for record in self.records)]
        with (folder / FILE).open("wb") as file:
            file.write(gzip.compress("\n".join(lines).encode(), mtime=0))

    @classmethod
    def read(cls, folder: Path) -> Kept:
        """Read what :meth:`write` wrote."""
        first, *lines = gzip.decompress((folder / FILE).read_bytes()).decode().split("\n")
        about = json.loads(first)
        about["topics"] = tuple(Topic(t["name"], tuple(t["ends"]), t["configs"]) for t in about["topics"])
        about["commits"] = tuple(Commit(**each) for each in about["commits"])
        about["records"] = tuple(_read(json.loads(line)) for line in lines)
        return cls(**about)


class Resumed(Stream):
    """A stream with names of its own, whose topics are there as they are wanted."""

    def __init__(self, address: str, folder: Path, settings: Mapping[str, Any], topics: Sequence[Topic]) -> None:
        self.address, self.folder, self.topic = address, folder, settings["input"]
        own = {"brokers": address, "model": str(folder / "model.osr"), "state": str(folder / "state")}
        self.settings = {**settings, **own}
        self.partitions = next(len(topic.ends) for topic in topics if topic.name == self.topic)
        self.sent = [[] for _ in range(self.partitions)]
        make_topics(address, topics)


def make_topics(address: str, topics: Sequence[Topic]) -> None:
    """Make topics anew, empty; those of earlier runs go."""
    admin = KafkaAdminClient(bootstrap_servers=address)
    ends = time.monotonic() + PATIENCE
    try:
        old = {topic.name for topic in topics} & set(admin.list_topics())
        if old:
            admin.delete_topics(sorted(old))
        for name, partitions, configs in ((topic.name, len(topic.ends), topic.configs) for topic in topics):
            asked = {"num_partitions": partitions, "replication_factor": 1, "configs": configs}
            while True:
                try:
                    admin.create_topics({name: asked}, wait_for_metadata=True)
                    break
                except TopicAlreadyExistsError:  # it has not gone yet
                    if time.monotonic() > ends:
                        raise
                    time.sleep(0.3)
    finally:
        admin.close()


def read(address: str, topic: str, partitions: int) -> tuple[list[Record], tuple[int, ...]]:
    """Read all committed records of a topic, and where its partitions end, once no transaction is open."""
    consumer = KafkaConsumer(bootstrap_servers=address, max_poll_records=5000, **CONSUMER)
    anything = KafkaConsumer(bootstrap_servers=address)
    places = [TopicPartition(topic, number) for number in range(partitions)]
    ends = time.monotonic() + PATIENCE
    try:
        while (last := consumer.end_offsets(places)) != anything.end_offsets(places):
            if time.monotonic() > ends:
                raise TimeoutError(f"a transaction in {topic} does not end")
            time.sleep(0.3)
        consumer.assign(places)
        found: list[Record] = []
        while any(consumer.position(place) < last[place] for place in places):
            for polled in consumer.poll(timeout_ms=200).values():
                found += [
                    Record(r.topic, r.partition, r.offset, r.timestamp, r.key, r.value, tuple(r.headers))
                    for r in polled
                ]
        return sorted(found, key=lambda r: (r.partition, r.offset)), tuple(last[place] for place in places)
    finally:
        consumer.close()
        anything.close()


def resume(source: Path, address: str, folder: Path, **settings: Any) -> tuple[Kept, Resumed]:
    """Put everything back: topics with each record at its offset, committed offsets, snapshots and model.

    Parameters
    ----------
    source
        Where it is kept.
    address
        Of a broker.
    folder
        An empty one.
    settings
        Other than those that were.
    """
    kept = Kept.read(source)
    shutil.unpack_archive(source / FILES, folder)
    stream = Resumed(address, folder, {**kept.settings, **settings}, kept.topics)
    for record in kept.of("input"):
        stream.sent[record.partition].append(record)  # type: ignore[arg-type]  # what is looked at is the same
    _write(address, kept)
    _commit(address, kept.commits)
    return kept, stream


def _write(address: str, kept: Kept) -> None:
    """Write records so that each has its offset: what ends a transaction takes one, and so does what was aborted."""
    places: dict[tuple[str, int], list[Record]] = {
        (topic.name, number): [] for topic in kept.topics for number in range(len(topic.ends))
    }
    ends = {(topic.name, number): end for topic in kept.topics for number, end in enumerate(topic.ends)}
    for record in kept.records:
        places[record.topic, record.partition].append(record)
    rounds: dict[int, dict[tuple[str, int], tuple[list[Record], int]]] = defaultdict(dict)
    for place, records in places.items():
        for number, run in enumerate(_runs(records, ends[place])):
            rounds[number][place] = run
    plain = KafkaProducer(bootstrap_servers=address, linger_ms=5)
    transactional = KafkaProducer(
        bootstrap_servers=address, transactional_id=f"upgrade-{uuid.uuid4().hex}", retry_backoff_ms=10
    )
    transactional.init_transactions()
    with headers_of_no_value():
        for runs in rounds.values():
            marked = [record for records, gap in runs.values() if gap == 1 for record in records]
            send(plain, [record for records, gap in runs.values() if gap != 1 for record in records])
            plain.flush(60)
            if marked:
                transactional.begin_transaction()
                send(transactional, marked)
                transactional.commit_transaction()
            left_out = [place for place, (_, gap) in runs.items() for _ in range(gap - 1)]
            if left_out:
                transactional.begin_transaction()
                for topic, number in left_out:
                    transactional.send(topic, key=b"aborted", value=b"aborted", partition=number)
                transactional.flush(60)
                transactional.abort_transaction()
    plain.close()
    transactional.close()
    for topic in kept.topics:
        found, last = read(address, topic.name, len(topic.ends))
        assert found == [r for r in kept.records if r.topic == topic.name], f"{topic.name} is not as it was"
        assert last == topic.ends, f"{topic.name} ends at {last}, not at {topic.ends}"


def _runs(records: Sequence[Record], end: int) -> list[tuple[list[Record], int]]:
    """Cut records where offsets are left out; each run with the number of those that follow it."""
    runs: list[tuple[list[Record], int]] = []
    run: list[Record] = []
    at = 0
    for record in records:
        if record.offset > at:
            runs.append((run, record.offset - at))
            run = []
        run.append(record)
        at = record.offset + 1
    runs.append((run, end - at))
    if not runs[0][0] and runs[0][1] == 1:
        raise ValueError("the mark of a transaction without a record cannot be written")
    return runs


def send(producer: KafkaProducer, records: Sequence[Record]) -> None:
    """Send records to where they lay; see :func:`headers_of_no_value`."""
    for record in records:
        producer.send(
            record.topic,
            key=record.key,
            value=record.value,
            headers=[(name, NULL if value is None else value) for name, value in record.headers],
            partition=record.partition,
            timestamp_ms=record.timestamp,
        )


class _Null(bytes):
    """Stands for no value."""


NULL = _Null()
"""Value of a header that has none: other clients write it, and kafka-python asks for bytes."""


@contextmanager
def headers_of_no_value() -> Iterator[None]:
    """Let producers write ``NULL`` as Kafka has it."""
    append = MemoryRecordsBuilder.append

    def with_null(
        builder: Any, timestamp: int, key: bytes | None, value: bytes | None, headers: Sequence[Any] = ()
    ) -> Any:
        return append(builder, timestamp, key, value, [(n, None if v is NULL else v) for n, v in headers])

    with patch.object(MemoryRecordsBuilder, "append", with_null):
        yield


def _commit(address: str, commits: Sequence[Commit]) -> None:
    """Commit offsets with their metadata; members of earlier runs may have to be forgotten first."""
    admin = KafkaAdminClient(bootstrap_servers=address)
    ends = time.monotonic() + PATIENCE
    try:
        for group in {commit.group for commit in commits}:
            offsets = {
                TopicPartition(c.topic, c.partition): OffsetAndMetadata(c.offset, c.metadata, -1)
                for c in commits
                if c.group == group
            }
            while any(e is not NoError for e in _answer(admin.alter_group_offsets, group, offsets).values()):
                if time.monotonic() > ends:
                    raise TimeoutError(f"the offsets of {group} cannot be committed")
                time.sleep(0.5)
    finally:
        admin.close()


def committed(address: str, group: str) -> tuple[Commit, ...]:
    """What a group has committed."""
    admin = KafkaAdminClient(bootstrap_servers=address)
    try:
        found = _answer(admin.list_group_offsets, group)[group]
    finally:
        admin.close()
    return tuple(
        Commit(group, place.topic, place.partition, its.offset, its.metadata) for place, its in sorted(found.items())
    )


def _answer(ask: Callable[..., Any], *about: Any) -> Any:
    """Ask for offsets; a broker that has just started makes the topic of them first."""
    ends = time.monotonic() + PATIENCE
    while True:
        try:
            return ask(*about)
        except (CoordinatorNotAvailableError, CoordinatorLoadInProgressError, NotCoordinatorError):
            if time.monotonic() > ends:
                raise
            time.sleep(0.3)


def _written(record: Record) -> list[Any]:
    *place, key, value, headers = record
    return [*place, _coded(key), _coded(value), [[name, _coded(item)] for name, item in headers]]


def _read(written: list[Any]) -> Record:
    *place, key, value, headers = written
    return Record(*place, _decoded(key), _decoded(value), tuple((name, _decoded(item)) for name, item in headers))


def _coded(content: bytes | None) -> str | None:
    return None if content is None else b64encode(content).decode()


def _decoded(content: str | None) -> bytes | None:
    return None if content is None else b64decode(content)
