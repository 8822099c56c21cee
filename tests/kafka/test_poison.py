"""Records that cannot be used: dead letters with the reason, byte for byte, and nothing else notices."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from stream_osr_connectors.kafka.wire.messages import RawName
from tests.kafka.brokers import Broker
from tests.kafka.streams import Sent, Stream, Worker, check_exactly_once, instances, small_model

GOOD = b'{"a": 1.0, "b": 2.0}'
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
    "a header's name that is no text": (
        Sent(b"p", GOOD, ((RawName("gr\udcf6\udcdfe"), b"1"),)),
        "DECODE",
        "header 1 of 1",
    ),
    "long headers": (Sent(b"p", GOOD, (("h", b"x" * 70_000),)), "DECODE", "the headers have"),
    "before 1970": (Sent(b"p", b"{", (), 0), "DECODE", ""),
}


def test_poison_is_set_aside_with_its_reason(broker: Broker, tmp_path: Path) -> None:
    stream = Stream(broker.address, tmp_path, 2, small_model(), on_missing="error", commit_batches=4)
    rng = np.random.default_rng(0)
    feed = instances(2200, 2)
    for place, (sent, _, _) in zip(np.sort(rng.choice(2100, len(POISON), False))[::-1], POISON.values(), strict=True):
        feed.insert(int(place), (int(rng.integers(2)), sent))
    worker = Worker(stream)
    stream.send(feed)
    stream.wait()
    assert worker.stop() == 0
    check_exactly_once(stream)
    dead = [record for partition in stream.read("dlq") for record in partition]
    assert len(dead) == len(POISON)
    for record in dead:
        told = dict(record.headers)
        sent = stream.sent[int(told["__connect.errors.partition"])][int(told["__connect.errors.offset"])]
        name, (_, stage, reason) = next(item for item in POISON.items() if item[1][0] is sent)
        assert (record.key, record.value) == (sent.key, sent.value), name
        assert tuple(record.headers[: len(sent.headers)]) == sent.headers, name
        assert told["__connect.errors.topic"] == stream.topic.encode(), name
        assert told["__connect.errors.stage"] == stage.encode(), (name, told)
        assert reason in told["__connect.errors.exception.message"].decode(), (name, told)
        assert told["__connect.errors.exception.class.name"], name


def test_records_that_the_client_cannot_send_as_they_are(broker: Broker, tmp_path: Path) -> None:
    """Neither key nor value, or larger than the topic of dead letters takes: the place of the original is told."""
    stream = Stream(broker.address, tmp_path, 1, small_model(), {".dlq": 300_000})
    large = Sent(b"large", b"x" * 1_000_000)
    empty = Sent(b"", None)
    stream.send([*instances(40, 1), (0, large), (0, empty), *instances(40, 1, 1, begin=40)])
    worker = Worker(stream)
    stream.wait()
    assert worker.stop() == 0
    (dead,) = stream.read("dlq")
    assert [(record.key, record.value) for record in dead] == [(b"large", None), (b"", None)]
    assert any("the largest dead letters have no value" in line for line in worker.lines())
    assert dict(dead[0].headers)["stream-osr.value"] == b"too large"
    assert dict(dead[0].headers)["__connect.errors.offset"] == b"40"
    check_exactly_once(stream)


def test_a_whole_batch_of_poison(broker: Broker, tmp_path: Path) -> None:
    stream = Stream(broker.address, tmp_path, 1, small_model(), commit_batches=2)
    stream.send([*instances(50, 1), *[(0, Sent(b"p", b"{"))] * 100, *instances(50, 1, 1, begin=50)])
    worker = Worker(stream)
    stream.wait()
    assert worker.stop() == 0
    check_exactly_once(stream)
    assert len(stream.read("dlq")[0]) == 100
    values = [json.loads(record.value) for record in stream.read("decisions")[0]]
    assert [value["seq"] for value in values] == list(range(100))
