"""Hostile records by the thousands, among good ones, through a real service: all are counted, and it goes on."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stream_osr_connectors.kafka.wire.messages import RawName
from tests.blobs import KNOWN, NEW
from tests.kafka.brokers import Broker
from tests.kafka.scraping import metrics, status, total
from tests.kafka.streams import Sent, Stream, Worker, make_topic, send_commands, small_model
from tests.kafka.test_bounds import MONSTERS

pytestmark = pytest.mark.needs("broker")

CENTRES = {**KNOWN, "new": NEW}
GOOD, POISON, LABELLED = "decided", "dead letter", "evidence or dead letter"
PARTITIONS = 2


class Feed:
    """Records and commands at random, and what has to become of each record.

    Attributes
    ----------
    fates
        By partition, in order: what may become of the record, and the class that it is of (None: of none).
    """

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.fates: list[list[tuple[str, str | None]]] = [[] for _ in range(PARTITIONS)]

    def records(self, n: int) -> Iterator[tuple[int, Sent]]:
        """``n`` of them: half are good."""
        for _ in range(n):
            number, truth = int(self.rng.integers(PARTITIONS)), None
            kind = self.one_of(("good", "labelled", "large", "poison"), (0.5, 0.1, 0.001, 0.399))
            if kind == "good":
                truth = self.one_of(list(CENTRES), (0.4, 0.4, 0.2))
                fate, sent = GOOD, self.good(truth)
            elif kind == "labelled":
                fate, sent = LABELLED, self.labelled()
            else:
                fate, sent = self.large() if kind == "large" else (POISON, self.poison())
            self.fates[number].append((fate, truth))
            yield number, sent

    def instance(self, truth: str) -> dict[str, Any]:
        return dict(zip("ab", self.rng.normal(CENTRES[truth]).tolist(), strict=True))

    def good(self, truth: str) -> Sent:
        """Ordinary, but for its key, its headers and what else it holds."""
        keys = b"k%d" % self.rng.integers(10_000), None, b"", b"\xff\xfe", b"\0", b"k" * 4096
        headers = (), (("ce_id", b"x"), ("", b"")), (("h", b"x" * 60_000),)
        more = {}, {"note": "=1+1\u2028\0"}, {"c": [[[]]]}, {"": None, "a ": 1e308}
        content = {**self.instance(truth), **self.one_of(more, (0.7, 0.1, 0.1, 0.1))}
        key = self.one_of(keys, (0.9, 0.05, 0.02, 0.01, 0.01, 0.01))
        return Sent(key, json.dumps(content).encode(), self.one_of(headers, (0.8, 0.19, 0.01)))

    def labelled(self) -> Sent:
        """True ones of classes that are known, and what cannot be a label."""
        if self.rng.random() < 0.5:
            truth = str(self.rng.choice(list(KNOWN)))
            return Sent(None, json.dumps({**self.instance(truth), "y": truth}).encode())
        labels = ("unknown", "l" * 300, "\ud800", 2**63, 10**400, 1.5, 1e300, [], {"y": "left"}, "\0", -1)
        return Sent(b"l", json.dumps({**self.instance("new"), "y": self.one_of(labels)}).encode())

    def large(self) -> tuple[str, Sent]:
        """Near a mebibyte: below `max_instance_bytes` it is decided, above it is not."""
        text = "x" * int(self.one_of((999_000, 1_000_000, 1_048_000)))
        sent = Sent(b"large", json.dumps({**self.instance("left"), "note": text}).encode())
        return GOOD if len(text) < 1_000_000 else POISON, sent

    def poison(self) -> Sent:
        """What can be no instance."""
        depth = int(self.rng.integers(1, 20_000))
        text = b'{"a": 1.0, "b": 2.0, "c": "\xc3\xa4"}'
        values = (
            *(None, b"", b"{", b"null", b"1", b'"', b"\xef\xbb\xbf{}", b"{}", b"[1, 2]", b'{"a": NaN, "b": 1}'),
            self.rng.bytes(int(self.rng.integers(1, 60))),
            text[: int(self.rng.integers(1, len(text)))],
            b"[" * depth,
            b'{"a":' * (1 + depth) + b"1" + b"}" * (1 + depth),
            b'{"a": 1, "b": ' + b"9" * (100 + depth) + b"}",
            b'{"a": 1, "b": -1e%d}' % self.rng.integers(101, 9999),
            b'{"a": "one", "b": 2}',
            b'{"a": {"a": 1}, "b": [2]}',
            b'{"features": [1, 2]}',
            b'{"features": {"a": "=cmd()", "b": "\\ud800"}}',
            b'{"A": 1, "B": 2, "\\u0000": 3}',
        )
        good, key = b'{"a": 1, "b": 2}', b"k" * int(self.rng.integers(4097, 50_000))
        key_and_headers = (key, ()), (b"p", (("h", b"x" * 66_000),)), (b"p", ((RawName("\udcff"), b"1"),))
        if self.rng.random() < 0.1:
            key, headers = self.one_of(key_and_headers)
            return Sent(key, good, headers)
        key, headers = self.one_of((b"p", b"\xff", b"k" * 4096)), self.one_of(((), (("h", b"\xff"),)))
        return Sent(key, self.one_of(values), headers)

    def commands(self, n: int, topic: str) -> list[Any]:
        """Commands that can be applied and others; none of them teaches a known class what is not so."""
        out = []
        for _ in range(n):
            place = f"{topic}/{self.rng.integers(PARTITIONS + 1)}"
            subclass = f"{place}:{self.rng.integers(30)}"
            choices = (
                self.one_of(MONSTERS),
                self.rng.bytes(30),
                {"key": "no such", "label": "left"},
                {"key": f"k{self.rng.integers(10_000)}", "label": self.one_of(("unknown", "l" * 300, 2**63, 1.5))},
                {"undo": place},
                {"subclass": subclass, "mute": True},
                {"subclass": subclass, "label": f"c{self.rng.integers(40)}"},
                {"subclass": subclass, "label": "third", "run": "77aa"},
            )
            out.append(self.one_of(choices))
        return out

    def one_of(self, choices: Any, p: Any = None) -> Any:
        return choices[int(self.rng.choice(len(choices), p=p))]


def resident(process: int) -> int:
    """Bytes that a process and its children have in memory."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    own = next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmRSS"))
    children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    return own + sum(map(resident, map(int, children)))


def check_fates(stream: Stream, feed: Feed) -> tuple[Counter[tuple[str, str]], list[bool]]:
    """Check what became of each record: fates as expected and as found, and whether late known ones are right."""
    fates, right = Counter[tuple[str, str]](), []
    stream.values("events")  # every event is JSON
    outputs = zip(feed.fates, stream.values("decisions"), stream.read("dlq"), strict=True)
    for number, (expected, values, letters) in enumerate(outputs):
        decided = {value["offset"]: value["label"] for value in values}
        dead = {int(dict(letter.headers)["__connect.errors.offset"]) for letter in letters}
        assert [value["offset"] for value in values] == sorted(decided)
        assert len(dead) == len(letters)
        assert not dead & decided.keys(), "both"
        for offset, (fate, truth) in enumerate(expected):
            became = GOOD if offset in decided else POISON if offset in dead else "evidence"
            about = stream.sent[number][offset], fate, became
            assert became == fate or (fate == LABELLED and became != GOOD), about
            fates[fate, became] += 1
            if truth in KNOWN and offset > 0.9 * len(expected):
                right.append(decided[offset] == truth)
    return fates, right


@pytest.mark.parametrize(
    ("records", "portions"), [(3_000, 10), pytest.param(100_000, 50, marks=pytest.mark.long)], ids=["few", "many"]
)
def test_a_flood_of_hostile_records(broker: Broker, tmp_path: Path, records: int, portions: int) -> None:
    """Memory is compared only with many records, once all that has a bound (keys, rows, subclasses) is full."""
    topic = make_topic(broker.address, "labels-" + tmp_path.name, 1)
    settings = {"labels": topic, "label": "y", "metrics_port": 0, "log_level": "info"}
    model = small_model(max_classes=12, label_horizon=1000)
    stream = Stream(broker.address, tmp_path, PARTITIONS, model, **settings)
    feed = Feed(records)
    worker = Worker(stream)
    memory = []
    for _ in range(portions):
        send_commands(stream, *feed.commands(records // portions // 20, stream.topic))
        stream.send(feed.records(records // portions))
        stream.wait(seconds=120)
        memory.append(resident(worker.process.pid))
    assert worker.process.poll() is None
    assert (status(worker, "/healthz"), status(worker, "/readyz")) == (200, 200)
    said = metrics(worker)
    assert worker.stop() == 0
    then, end = memory[3 * portions // 10 - 1], memory[-1]
    log = worker.lines()
    print(f"{records} records; resident after 30 %, at the end and at most: {then}, {end}, {max(memory)} bytes")
    assert not [line for line in log if "Traceback" in line or "CRITICAL" in line]
    fates, right = check_fates(stream, feed)
    print(dict(fates), f"{np.mean(right):.3f} of the last {len(right)} known ones are right")
    assert all(fates[kind] for kind in ((GOOD, GOOD), (POISON, POISON), (LABELLED, POISON), (LABELLED, "evidence")))
    assert np.mean(right) > 0.95
    expected = {"records": records, "unaccounted_records": 0}
    for name, fate in (("decisions", GOOD), ("dead_letters", POISON), ("labelled", "evidence")):
        expected[name] = sum(count for (_, became), count in fates.items() if became == fate)
    assert {name: total(said, f"stream_osr_{name}_total") for name in expected} == expected
    assert total(said, "stream_osr_commands_left_total") > 0
    assert total(said, "stream_osr_commands_unreadable_total") > 0
    if records >= 100_000:
        assert end < 1.05 * then
