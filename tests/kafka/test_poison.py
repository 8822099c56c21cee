"""Records that cannot be read, used or published: dead letters with the reason, and nothing else notices."""

from __future__ import annotations

import math
import re
import time
from pathlib import Path

import numpy as np
import pytest

from stream_osr_connectors.kafka import KafkaSource
from stream_osr_connectors.kafka.places import Place
from stream_osr_connectors.kafka.run.service import Service
from stream_osr_connectors.kafka.wire.messages import RawName
from stream_osr_connectors.kafka.wire.timestamps import TimestampLimits
from tests.kafka.brokers import Broker
from tests.kafka.faults.doing import configure
from tests.kafka.faults.trials import running
from tests.kafka.scraping import metrics, total
from tests.kafka.streams import Sent, Stream, Worker, check_exactly_once, instances, small_model
from tests.kafka.test_service import decide_all

pytestmark = pytest.mark.needs("broker")

GOOD = b'{"a": 1.0, "b": 2.0}'
LATIN = RawName(b"gr\xf6\xdfe".decode("utf-8", "surrogateescape"))
DEEP = b"[" * 100_000 + b"]" * 100_000

POISON = {
    "broken JSON": (Sent(b"p", b'{"a": 1.0, "b"'), "DECODE", "not JSON"),
    "no JSON at all": (Sent(b"p", b"\x00\x00\x00\x00\x07\x02\x04"), "DECODE", "schema registry"),
    "empty": (Sent(b"p", b""), "DECODE", "not JSON"),
    "a list": (Sent(b"p", b"[1.0, 2.0]"), "DECODE", "not a JSON object"),
    "text for a number": (Sent(b"p", b'{"a": "high", "b": 2.0}'), "VALIDATE", "feature 'a' is 'high'"),
    "an object for a number": (Sent(b"p", b'{"a": {"b": 1}, "b": 2.0}'), "VALIDATE", "feature 'a'"),
    "features as a list": (Sent(b"p", b'{"features": [1.0, 2.0]}'), "VALIDATE", "none of the model's 2"),
    "NaN": (Sent(b"p", b'{"a": NaN, "b": 2.0}'), "DECODE", "not JSON"),
    "infinite": (Sent(b"p", b'{"a": 1e999, "b": 2.0}'), "DECODE", ""),
    "huge": (Sent(b"p", b'{"a": 1e300, "b": 2.0}'), "VALIDATE", "feature 'a'"),
    "5 MB": (Sent(b"p", b'{"a": 1.0, "b": 2.0, "c": "' + b"x" * 5_000_000 + b'"}'), "DECODE", "bytes"),
    "Latin-1": (Sent(b"p", '{"a": 1.0, "b": 2.0, "größe": 1}'.encode("latin-1")), "DECODE", "not JSON"),
    "UTF-16": (Sent(b"p", '{"a": 1.0, "b": 2.0}'.encode("utf-16")), "DECODE", "not JSON"),
    "a feature is missing": (Sent(b"p", b'{"a": 1.0}'), "VALIDATE", "feature 'b' is None"),
    "deep": (Sent(b"p", DEEP), "DECODE", "not JSON"),
    "deep in a feature": (Sent(b"p", b'{"a": ' + b"[" * 900 + b"]" * 900 + b', "b": 2}'), "VALIDATE", "feature 'a'"),
    "a tombstone": (Sent(b"p", None), "DECODE", "no value"),
    "headers of ours": (Sent(b"p", b"{", (("ce_id", b"theirs"), ("__connect.errors.topic", b"old"))), "DECODE", ""),
    "an empty header": (Sent(b"p", b"{", (("h", b""),)), "DECODE", ""),
    "a null header": (Sent(b"p", b"{", (("h", None), ("g", b""), ("h", b"1"))), "DECODE", ""),
    "a key that is no text": (Sent(b"\xff\xfe", b"{"), "DECODE", ""),
    "a long key": (Sent(b"p" * 5000, GOOD), "DECODE", "the key has 5000 bytes"),
    "a header that is no text": (Sent(b"p", GOOD, ((LATIN, b"1"),)), "DECODE", "header 1 of 1"),
    "long headers": (Sent(b"p", GOOD, (("h", b"x" * 70_000),)), "DECODE", "the headers have"),
    "before 1970": (Sent(b"p", b"{", (), 0), "DECODE", ""),
}


def test_poison_is_set_aside_with_its_reason(broker: Broker, tmp_path: Path) -> None:
    stream = Stream(broker.address, tmp_path, 2, small_model(), on_missing="error", commit_batches=4)
    rng = np.random.default_rng(0)
    feed = instances(2200, 2)
    for place, (sent, _, _) in zip(np.sort(rng.choice(2100, len(POISON), False))[::-1], POISON.values(), strict=True):
        feed.insert(int(place), (int(rng.integers(2)), sent))
    stream.send(feed)
    decide_all(stream)
    check_exactly_once(stream)
    dead = [record for partition in stream.read("dlq") for record in partition]
    assert len(dead) == len(POISON)
    for record in dead:
        found = dict(record.headers)
        sent = stream.sent[int(found["__connect.errors.partition"])][int(found["__connect.errors.offset"])]
        name, (_, stage, reason) = next(item for item in POISON.items() if item[1][0] is sent)
        assert (record.key, record.value) == (sent.key, sent.value), name
        assert tuple(record.headers[: len(sent.headers)]) == sent.headers, name
        assert found["__connect.errors.topic"] == stream.topic.encode(), name
        assert found["__connect.errors.stage"] == stage.encode(), (name, found)
        assert reason in found["__connect.errors.exception.message"].decode(), (name, found)
        assert found["__connect.errors.exception.class.name"], name


def test_records_that_the_client_cannot_send_as_they_are(broker: Broker, tmp_path: Path) -> None:
    """Neither key nor value, or larger than the topic of dead letters takes; after them a whole batch of poison."""
    stream = Stream(broker.address, tmp_path, 1, small_model(), {".dlq": 300_000}, commit_batches=2)
    poison = [Sent(b"large", b"x" * 1_000_000), Sent(b"", None), *[Sent(b"p", b"{")] * 100]
    stream.send([*instances(40, 1), *((0, sent) for sent in poison), *instances(40, 1, 1, begin=40)])
    worker = decide_all(stream)
    check_exactly_once(stream)
    (dead,) = stream.read("dlq")
    assert [(record.key, record.value) for record in dead[:2]] == [(b"large", None), (b"", None)]
    assert len(dead) == len(poison)
    assert any("the largest dead letters have no value" in line for line in worker.lines())
    assert dict(dead[0].headers)["stream-osr.value"] == b"too large"
    assert dict(dead[0].headers)["__connect.errors.offset"] == b"40", "the headers name the original"
    assert [value["seq"] for value in stream.values("decisions")[0]] == list(range(80))


# What the client itself cannot unpack


def test_names_of_headers_that_are_no_text(broker: Broker, tmp_path: Path) -> None:
    """Between other records of a compressed batch; the bytes are in the broker's own files."""
    stream = Stream(broker.address, tmp_path, 1, small_model())
    poison = Sent(b"p", GOOD, (("größe", b"1"), (LATIN, b"2"), (RawName("\udcff"), b""), ("trace", b"x")))
    plain = Sent(b"good", GOOD, (("größe", b"1"), ("trace", b"y")))
    feed = [*instances(40, 1), (0, poison), (0, plain), (0, poison), *instances(40, 1, 1, begin=40), (0, poison)]
    stream.send(feed, compression_type="gzip")
    worker = decide_all(stream)
    check_exactly_once(stream)
    (dead,) = stream.read("dlq")
    assert [dict(record.headers)["__connect.errors.offset"] for record in dead] == [b"40", b"42", b"83"]
    names = ["größe".encode(), b"gr\xf6\xdfe", b"\xff", b"trace"]
    for record in dead:
        assert (record.key, record.value) == (b"p", GOOD)
        given = [(name.encode(), value) for name, value in record.headers[:4]]
        assert given == list(zip(names, [b"1", b"2", b"", b"x"], strict=True))
        message = dict(record.headers)["__connect.errors.exception.message"]
        assert message == b"the name of header 2 of 4 is not UTF-8"
    for suffix, count in (("dlq", 3), ("decisions", 0)):
        stored = b"".join(file.read_bytes() for file in broker.files_of(f"{stream.topic}.{suffix}", 0))
        assert stored.count(b"gr\xf6\xdfe") == count
    with KafkaSource(f"{stream.topic}.dlq", brokers=broker.address) as source:
        assert len(list(source)) == 3
    assert not any(word in line for line in worker.lines() for word in ("Traceback", "replaced"))


def test_a_damaged_batch_holds_up_its_partition_alone_until_it_is_mended(broker: Broker, tmp_path: Path) -> None:
    """A byte on the broker's disk is changed, and later changed back."""
    stream = Stream(broker.address, tmp_path, 2, small_model(), metrics_port=0)
    stream.send(instances(600, 2))
    (file,) = broker.files_of(stream.topic, 0)
    damaged = file.stat().st_size - 1
    change_byte(file, damaged)
    worker = Worker(stream)
    stream.wait(lambda: stream.committed()[1] == 300)
    worker.await_line("again in 2 s")
    stream.send(instances(100, 2, 1, begin=600))
    stream.wait(lambda: stream.committed()[1] == 350)
    assert 0 < stream.committed()[0] < 300, "what lies before it has been decided"
    lines = [line for line in worker.lines() if "cannot be read from" in line]
    places = {found.groups() for line in lines if (found := re.search(r"(\S+) cannot be read from (\d+) on", line))}
    assert places == {(f"{stream.topic}/0", str(stream.committed()[0]))}
    assert all("crc" in line and "let another replica lead" in line for line in lines)
    assert len(lines) <= 5, "it is tried less and less often"
    figures = metrics(worker)
    assert total(figures, "stream_osr_unreadable_total", partition="0") >= 2
    assert total(figures, "stream_osr_unreadable_total", partition="1") == 0
    change_byte(file, damaged)
    stream.wait()
    assert worker.stop() == 0
    check_exactly_once(stream)
    assert any(f"{stream.topic}/0 can be read again" in line for line in worker.lines())
    assert not any("replaced" in line for line in worker.lines())


def test_batches_of_every_codec(broker: Broker, tmp_path: Path) -> None:
    """A producer's choice, not ours."""
    for module in ("lz4", "snappy", "zstandard"):
        pytest.importorskip(module)
    stream = Stream(broker.address, tmp_path, 1, small_model(), compression="zstd")
    for number, codec in enumerate(("gzip", "lz4", "snappy", "zstd")):
        stream.send(instances(40, 1, number, begin=40 * number), compression_type=codec)
    decide_all(stream)
    check_exactly_once(stream)


# What a topic refuses


def counted(service: Service, stream: Stream, name: str) -> int:
    """A count over both partitions."""
    return sum(service.stats.counts[name, Place(stream.topic, number)] for number in range(2))


def test_a_timestamp_that_is_refused_after_all_is_left_out(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clocks of the brokers and of a worker may differ."""
    monkeypatch.setattr(TimestampLimits, "between", lambda self, now_ms: (-math.inf, math.inf))
    stream = Stream(broker.address, tmp_path, 2, small_model())
    configure(stream.address, stream.topic, {"message.timestamp.after.max.ms": str(10**12)})
    late = int(1000 * time.time()) + 10**8
    feed = instances(300, 2)
    for place in (50, 51, 201):
        feed[place] = (feed[place][0], feed[place][1]._replace(timestamp=late))
    stream.send(feed)
    with running(stream) as service:
        stream.wait()
    check_exactly_once(stream)
    replaced = [
        (record.key, record.timestamp)
        for partition in stream.read("decisions")
        for record in partition
        if dict(record.headers).get("stream-osr.timestamp") == b"%d" % late
    ]
    assert sorted(replaced) == [(b"k201", -1), (b"k50", -1), (b"k51", -1)]
    assert counted(service, stream, "timestamps_replaced") == 3
    assert service.stats.counts["transactions_retried", None] >= 1
    assert counted(service, stream, "unaccounted_records") == 0


def change_byte(file: Path, place: int) -> None:
    """Change a byte, or change it back."""
    with file.open("r+b") as log:
        log.seek(place)
        byte = log.read(1)[0]
        log.seek(place)
        log.write(bytes([byte ^ 0xFF]))
