"""Topics with instances, workers that decide them, and what the output has to be."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeVar

from stream_osr import OpenSetRecognizer
from stream_osr.config import grouped
from stream_osr_connectors.kafka.client.producer import PlainProducer
from stream_osr_connectors.kafka.places import Place
from stream_osr_connectors.kafka.run.partition import seed_of
from stream_osr_connectors.kafka.wire.boundaries import Progress
from stream_osr_connectors.kafka.wire.messages import Outgoing
from tests.blobs import fitted_once, stream_part
from tests.processes import Process

if TYPE_CHECKING:
    from kafka import TopicPartition

CONSUMER = {"isolation_level": "read_committed", "auto_offset_reset": "earliest", "enable_auto_commit": False}
ANSWER_MS, PATIENCE = 15_000, 4
"""For how long an answer is awaited, and from how many clients in turn."""
LARGEST = 6_000_000
"""Bytes that a record of the input may have; the broker's own limit is 1 MiB."""
OPEN_SECONDS = 10.0
"""For how long the end of a transaction is awaited before what is committed is read: a killed one may stay open."""


class Sent(NamedTuple):
    """A record as it was put into the input."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp: int | None = None


class Stream:
    """An input topic with its outputs on a broker, and the settings of a service for it."""

    def __init__(
        self,
        address: str,
        folder: Path,
        partitions: int,
        model: OpenSetRecognizer,
        limits: dict[str, int] | None = None,
        **settings: Any,
    ) -> None:
        self.address = address
        self.folder = folder
        self.partitions = partitions
        self.model = model
        self.topic = f"in-{uuid.uuid4().hex[:8]}"
        self.sent: list[list[Sent]] = [[] for _ in range(partitions)]
        self.counted: dict[str, float] | None = None
        """Lost and repeated records by the metrics of the service, over all processes that ended as they should."""
        names = {"input": self.topic, "group": f"group-of-{self.topic}"}
        paths = {"model": str(folder / "model.osr"), "state": str(folder / "state")}
        quick = {"session_timeout": 6.0, "max_wait": 0.3, "log_level": "debug"}
        self.settings = {"brokers": address, **names, **paths, **quick, **settings}
        model.save(folder / "model.osr")
        largest_of = dict.fromkeys(["", ".decisions", ".events"], LARGEST) | {".dlq": LARGEST + (1 << 16)}
        of_all = {"retention.ms": "-1"}  # the timestamps are old
        configs = {
            f"{self.topic}{suffix}": {"max.message.bytes": str(largest), **of_all}
            for suffix, largest in (largest_of | (limits or {})).items()
        }
        make_topics(address, partitions, configs)

    def config(self) -> Path:
        """Write the settings to a file, at once: a worker that starts may be reading it."""
        import yaml

        path, written = self.folder / "service.yaml", self.folder / f"{uuid.uuid4().hex}.yaml"
        written.write_text(yaml.safe_dump(self.settings))
        return written.replace(path)

    def send(self, records: Iterable[tuple[int, Sent]], **client: Any) -> None:
        """Put records into partitions of the input."""
        messages = []
        for partition, sent in records:
            key, value, headers, timestamp = sent
            time_ms = 1_700_000_000_000 + len(self.sent[partition]) if timestamp is None else timestamp
            self.sent[partition].append(sent)
            messages.append(Outgoing(self.topic, partition, key, value, list(headers), time_ms))
        producer = PlainProducer.at(self.address, 60, max_request_size=LARGEST, linger_ms=5, **client)
        assert not producer.send(messages).refused
        producer.close(1)

    def read(self, suffix: str) -> list[list[Any]]:
        """Read all committed records of an output, partition by partition."""
        records = records_of(self.address, f"{self.topic}.{suffix}")
        return [[record for record in records if record.partition == number] for number in range(self.partitions)]

    def values(self, suffix: str) -> list[list[dict[str, Any]]]:
        """Contents of all committed records of an output, partition by partition."""
        return [[json.loads(record.value) for record in partition] for partition in self.read(suffix)]

    def event_types(self, partition: int) -> list[str]:
        """Types of the events of a partition, in order."""
        return [value["type"] for value in self.values("events")[partition]]

    def committed(self) -> list[int]:
        """Offsets that the group has committed."""
        return [offset for offset, _ in self.commits()]

    def commits(self) -> list[tuple[int, str]]:
        """Offsets and metadata that the group has committed.

        A client without an answer, because a broker was killed, is replaced.
        A broker that was killed may have lost track of a transaction. The documented remedy is applied, once.
        """
        from kafka import KafkaConsumer, TopicPartition
        from kafka.errors import KafkaTimeoutError

        places = [TopicPartition(self.topic, number) for number in range(self.partitions)]
        for attempt in range(2 * PATIENCE):
            if attempt == PATIENCE and not abort_hanging_offsets(self.address, PATIENCE * ANSWER_MS / 1000):
                break
            consumer = KafkaConsumer(bootstrap_servers=self.address, group_id=self.settings["group"], **CONSUMER)
            try:
                found = [consumer.committed(place, metadata=True, timeout_ms=ANSWER_MS) for place in places]
                return [(0, "") if each is None else (each.offset, each.metadata) for each in found]
            except KafkaTimeoutError:
                continue
            finally:
                consumer.close()
        raise TimeoutError(f"{self.address} sent no committed offsets in {attempt} attempts of {ANSWER_MS} ms")

    def wait(self, done: Callable[[], bool] | None = None, seconds: float = 60) -> None:
        """Wait until everything that was sent has been committed, and no micro-batch is unfinished."""

        def is_committed() -> bool:
            commits = self.commits()
            finished = all(metadata == "" or is_finished(metadata) for _, metadata in commits)
            return finished and [offset for offset, _ in commits] == [len(sent) for sent in self.sent]

        until(done or is_committed, seconds, lambda: f"committed {self.committed()} of {list(map(len, self.sent))}")


def is_finished(metadata: str) -> bool:
    """Return whether a partition has no unfinished micro-batch, by the metadata of its offset."""
    progress = Progress.parse(metadata)
    return progress.first is None or progress.history.last.closes


def make_topics(address: str, partitions: int, configs: dict[str, dict[str, str]]) -> None:
    """Create topics with these configurations."""
    from kafka import KafkaAdminClient

    common = {"num_partitions": partitions, "replication_factor": 1}
    admin = KafkaAdminClient(bootstrap_servers=address)
    admin.create_topics({name: {**common, "configs": own} for name, own in configs.items()}, wait_for_metadata=True)
    admin.close()


def make_topic(address: str, name: str, partitions: int, **configs: str) -> str:
    """Create a topic, and return its name."""
    make_topics(address, partitions, {name: configs})
    return name


def send_commands(stream: Stream, *commands: Any) -> None:
    """Put commands into the topic of labels of a stream; bytes as they are."""
    values = [command if isinstance(command, bytes) else json.dumps(command).encode() for command in commands]
    messages = [Outgoing(stream.settings["labels"], 0, None, value, [], None) for value in values]
    producer = PlainProducer.at(stream.address, 10)
    assert not producer.send(messages).refused
    producer.close(10)


def abort_hanging_offsets(address: str, seconds: float) -> list[str]:
    """Abort the transactions with offsets that had no record for some seconds; a line for each, which is printed."""
    from kafka import KafkaAdminClient, TopicPartition
    from kafka.admin import AbortTransactionSpec

    admin, lines = KafkaAdminClient(bootstrap_servers=address), []
    try:
        (topic,) = admin.describe_topics(["__consumer_offsets"])
        places = [TopicPartition(topic["name"], one["partition_index"]) for one in topic["partitions"]]
        for place, found in admin.describe_producers(places).items():
            for one in found.active_producers:
                if one.current_transaction_start_offset >= 0 and time.time() - one.last_timestamp / 1000 > seconds:
                    own = one.producer_id, one.producer_epoch, one.coordinator_epoch
                    admin.abort_transaction(AbortTransactionSpec(place, *own))
                    lines.append(f"aborted the hanging transaction {one} in {place}")
    finally:
        admin.close()
    print(*lines, sep="\n")
    return lines


Found = TypeVar("Found")


def until(done: Callable[[], Found], seconds: float, found: Callable[[], str]) -> Found:
    """Wait until a function returns something true, and return that; fail with what was found instead."""
    ends = time.monotonic() + seconds
    while not (result := done()):
        if time.monotonic() > ends:
            raise AssertionError(f"not within {seconds:g} s: {found()}")
        time.sleep(0.2)
    return result


def records_of(address: str, topic: str) -> list[Any]:
    """All committed records of a topic."""
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(bootstrap_servers=address, max_poll_records=5000, **CONSUMER)
    try:
        places = [TopicPartition(topic, number) for number in sorted(consumer.partitions_for_topic(topic) or ())]
        consumer.assign(places)
        ends = settled_ends(consumer, places, address)
        found: list[Any] = []
        while any(consumer.position(place) < ends[place] for place in places):
            for records in consumer.poll(timeout_ms=200).values():
                found.extend(records)
        return found
    finally:
        consumer.close()


def settled_ends(consumer: Any, places: Sequence[TopicPartition], address: str) -> dict[TopicPartition, int]:
    """Ends of partitions for a reader of what is committed, once no transaction is open in them.

    A producer hears that a transaction is committed before each partition does: on a busy machine its records come
    into sight later than the offsets that were committed with them. Where none ends in time, what is in sight counts.
    """
    from kafka import KafkaConsumer

    anything = KafkaConsumer(bootstrap_servers=address)
    try:
        last = anything.end_offsets(places)
        until = time.monotonic() + OPEN_SECONDS
        while True:
            seen = consumer.end_offsets(places)
            if all(seen[place] >= last[place] for place in places) or time.monotonic() > until:
                return dict(seen)
            time.sleep(0.1)
    finally:
        anything.close()


class Worker:
    """A worker process and its log.

    It is forked, unless its first moments count (``anew``), or what stands in its environment has to from the start:
    all but the settings of the service.
    """

    numbers = itertools.count()
    started: ClassVar[list[Worker]] = []

    def __init__(
        self, stream: Stream, instance: str = "w", subcommand: str = "run", *, anew: bool = False, **environment: str
    ) -> None:
        self.log = stream.folder / f"worker-{instance}-{next(self.numbers)}.log"
        command = ["-m", "stream_osr_connectors", subcommand, "--config", str(stream.config())]
        self._start([*command, "--instance", instance], anew=anew, **environment)

    def _start(self, arguments: Sequence[str], *, anew: bool = False, **environment: str) -> None:
        command = ["-W", "ignore", *arguments]
        self.process: Process | subprocess.Popen[bytes]
        with self.log.open("w") as log:
            env = {**os.environ, **environment}
            if anew or not all(name.startswith("STREAM_OSR_") for name in environment):
                self.process = subprocess.Popen([sys.executable, *command], stderr=log, stdout=log, env=env)
            else:
                self.process = Process(command, stdout=log.fileno(), stderr=log.fileno(), env=env)
        self.started.append(self)

    def kill(self) -> None:
        """SIGKILL."""
        self.process.kill()
        self.process.wait()

    def stop(self, seconds: float = 40) -> int:
        """SIGTERM, when it has got so far as to hear it; return the exit code."""
        self.await_line("topics: ")
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(seconds)

    def lines(self) -> list[str]:
        """What it has logged."""
        return self.log.read_text(errors="replace").splitlines()

    def in_transaction(self) -> bool:
        """Say whether, by the log, a transaction is open."""
        last = [line for line in self.lines() if " transaction " in line][-1:]
        return bool(last) and "committed" not in last[0]

    def await_transaction(self, seconds: float) -> None:
        """Wait until a transaction is open, the worker ends, or the time is over."""
        ends = time.monotonic() + seconds
        while time.monotonic() < ends and self.process.poll() is None and not self.in_transaction():
            time.sleep(0.001)

    def await_line(self, text: str, seconds: float = 40) -> None:
        """Wait until it has logged something."""
        ends = time.monotonic() + seconds
        while not any(text in line for line in self.lines()):
            if self.process.poll() is not None or time.monotonic() > ends:
                raise AssertionError(f"the worker never said {text!r}:\n" + "\n".join(self.lines()[-30:]))
            time.sleep(0.02)


def instances(n: int, partitions: int, seed: int = 0, begin: int = 0) -> list[tuple[int, Sent]]:
    """Instances of two known classes and a new one, dealt out to the partitions."""
    sent = [
        Sent(f"k{begin + number}".encode(), json.dumps(x).encode(), (("trace", b"%d" % number),))
        for number, (x, _) in enumerate(stream_part(n, seed))
    ]
    return [(number % partitions, record) for number, record in enumerate(sent)]


def small_model(**arguments: Any) -> OpenSetRecognizer:
    """A recognizer that is fast."""
    return fitted_once(**{"batch_size": 32, "chains": 1, "window": 32, "seed": 5, **arguments})


def check_exactly_once(stream: Stream) -> list[int]:
    """Check that every record has one decision or one dead letter, in order, and that they are the right bits.

    The right ones are those of a recognizer in this process, fed with the same micro-batches; where these ended, the
    decisions say. Returns the number of batches of each partition.
    """
    counts = []
    everything = zip(stream.read("decisions"), stream.read("events"), stream.read("dlq"), strict=True)
    for number, (decisions, events, dead) in enumerate(everything):
        sent = stream.sent[number]
        values = [json.loads(record.value) for record in decisions]
        offsets = [value["offset"] for value in values]
        refused = [int(dict(record.headers)["__connect.errors.offset"]) for record in dead]
        assert sorted([*offsets, *refused]) == list(range(len(sent))), f"partition {number}: lost or doubled"
        assert offsets == sorted(offsets), f"partition {number}: out of order"
        assert refused == sorted(refused), f"partition {number}: dead letters out of order"
        for record, offset in zip(decisions, offsets, strict=True):
            assert record.key == sent[offset].key
            assert dict(record.headers)["ce_id"] == f"{stream.topic}-{number}-{offset}".encode()
            assert trace_of(record.headers) == trace_of(sent[offset].headers)
        model = recognizer_after(stream, number, values)
        check_outputs(model, values, [json.loads(record.value) for record in events], f"partition {number}")
        counts.append(len(ends_of(values)))
    return counts


def trace_of(headers: Iterable[tuple[str, bytes | None]]) -> list[bytes | None]:
    """Values of the header that :func:`instances` sets."""
    return [value for name, value in headers if name == "trace"]


def check_outputs(
    model: OpenSetRecognizer, decisions: list[dict[str, Any]], events: list[dict[str, Any]], about: str
) -> None:
    """Check that decisions and events hold what the recognizer returns, to the last bit."""
    for kind, values, drained in (("decisions", decisions, model.drain()), ("events", events, model.drain_events())):
        expected = [json.loads(json.dumps(each.as_dict())) for each in drained]
        assert len(values) == len(expected), f"{about}: another number of {kind}"
        shown = [{name: value[name] for name in each} for value, each in zip(values, expected, strict=True)]
        assert shown == expected, f"{about}: other {kind}"


def ends_of(decisions: list[dict[str, Any]]) -> set[int]:
    """Offsets of the last instances of the micro-batches, by the decisions of a partition."""
    return {*{value["batch"]: value["offset"] for value in decisions}.values()}


def recognizer_after(
    stream: Stream, number: int, decisions: list[dict[str, Any]], seed: int | None = None
) -> OpenSetRecognizer:
    """Return a recognizer of a partition that has decided the same micro-batches in this process."""
    arguments = stream.model.arguments
    seed = seed_of(arguments["seed"], Place(stream.topic, number)) if seed is None else seed
    whole = {**arguments, "seed": seed, "batch_size": 1 << 40, "max_wait": None}
    model, ends = OpenSetRecognizer.from_trained(stream.model.trained, **grouped(**whole)), ends_of(decisions)
    for offset in (value["offset"] for value in decisions):
        sent = stream.sent[number][offset]
        x = json.loads(sent.value or b"{}")
        timestamp = 1_700_000_000_000 + offset if sent.timestamp is None else sent.timestamp
        model.learn_one(x.get("features", x), t=timestamp / 1000, key=(sent.key or b"").decode())
        if offset in ends:
            model.close_batch()
    return model
