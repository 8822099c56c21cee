"""The same records through files, HTTP, Kafka and Spark: equal decisions, events and refusals, to the bit."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from stream_osr import OpenSetRecognizer
from stream_osr.config import grouped
from stream_osr_connectors.kafka.places import Place
from stream_osr_connectors.kafka.run.partition import seed_of
from tests.blobs import NAMES, fitted_once, stream_part
from tests.http.serving import await_decisions, lines_of, service
from tests.kafka.brokers import Broker
from tests.kafka.commands import done
from tests.kafka.streams import Sent, Stream, Worker
from tests.processes import COMMAND, run

ARGUMENTS: dict[str, Any] = {"batch_size": 32, "chains": 1, "window": 32, "seed": 5}
KEYS = [f"pump {n}" for n in range(5)]
HALF = 1000
POISON = {
    40: b"{",
    41: b'{"id": "x", "t": 1, "device": "pump 1", "a": "high", "b": 2.0}',
    500: b'{"id": "x", "t": 1, "device": "pump 2", "A": 1.0}',
    501: b'{"id": "x", "t": 1, "device": "pump 2", "a": 1e300, "b": 2.0}',
    1200: b'{"id": "x", "t": 1, "a": 1.0, "b": 2.0}',
    1500: b'["a"]',
}
"""Records that cannot be used, by their number. Number 1200 has no key."""


def lines(labels: bool = True) -> list[bytes]:
    """2000 records of some keys, with labels, poison, and an uneven number of records for each key."""
    out = []
    for number, (x, label) in enumerate(stream_part(2 * HALF)):
        record = {"id": f"k{number}", "t": float(number), "device": KEYS[number % 7 % len(KEYS)], **x}
        if labels and number % 97 == 50 and label != "new":
            record["y"] = label
        out.append(POISON.get(number) or json.dumps(record).encode())
    return out


Values = Sequence[Mapping[str, Any]]


def by_key(values: Values, like: Values) -> dict[str, list[dict[str, Any]]]:
    """Return decisions or events by key, in order, with the fields that those of a file have."""
    names, out = {name for value in like for name in value}, defaultdict[str, list[dict[str, Any]]](list)
    for value in values:
        out[str(value.get("by"))].append({name: each for name, each in value.items() if name in names})
    return dict(out)


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


class Files:
    """A run of the command line over a file of JSON lines."""

    def __init__(self, folder: Path, model: OpenSetRecognizer, *options: str) -> None:
        self.folder, self.options = folder, options
        folder.mkdir()
        model.save(folder / "model.osr")

    def run(self, some: Iterable[bytes], *more: str) -> None:
        """Append records to the input, and decide them."""
        with (self.folder / "in.jsonl").open("ab") as file:
            file.writelines(line + b"\n" for line in some)
        names = "--key", "id", "--time", "t", "--features", ",".join(NAMES)
        outputs = "--output", "out.jsonl", "--events", "events.jsonl", "--errors", "errors.jsonl"
        given = "--model", "model.osr", *names, *outputs, "--checkpoint", "out.jsonl.checkpoint"
        ended = run(*COMMAND, "run", "--input", "in.jsonl", *given, *self.options, *more, cwd=self.folder)
        assert ended.returncode == 0, ended.stderr

    def values(self, name: str) -> list[dict[str, Any]]:
        return read(self.folder / f"{name}.jsonl")


def kafka_run(stream: Stream, some: Iterable[bytes]) -> None:
    """Send records to the only partition, and decide them to the end."""
    stream.send((0, Sent(b"k", line)) for line in some)
    worker = Worker(stream)
    assert worker.process.wait(120) == 0, "\n".join(worker.lines()[-20:])


def refused_in(stream: Stream) -> list[int]:
    return [int(dict(letter.headers)["__connect.errors.offset"]) for letter in stream.read("dlq")[0]]


def kafka(broker: Broker, folder: Path, model: OpenSetRecognizer, **settings: Any) -> Stream:
    folder.mkdir()
    usual = {"key": "id", "time": "t", "max_wait": None, "stop": "end"}
    return Stream(broker.address, folder, 1, model, **usual, **settings)


@pytest.mark.needs("broker")
def test_files_and_kafka_agree_by_key(broker: Broker, tmp_path: Path) -> None:
    """With poison, labels, delayed decisions, a command in the middle and a new start."""
    model, feed = fitted_once(decision_delay=20, **ARGUMENTS), lines()
    files = Files(tmp_path / "files", model, "--by", "device", "--label", "y")
    stream = kafka(broker, tmp_path / "kafka", model, by="device", label="y")
    stream.settings["labels"] = f"{stream.topic}.labels"
    done("topics", "--create", "--config", stream.config())
    files.run(feed[:HALF])
    kafka_run(stream, feed[:HALF])
    emerged = next(event for event in files.values("events") if event["type"] == "SubclassEmerged")
    subject = f"{emerged['by']}/{emerged['subclass_id']}"
    done("promote", subject, "third", "--checkpoint", files.folder / "out.jsonl.checkpoint")
    done("promote", subject, "third", "--config", stream.config())
    files.run(feed[HALF:], "--resume")
    kafka_run(stream, feed[HALF:])
    decisions, events = files.values("out"), files.values("events")
    assert by_key(stream.values("decisions")[0], decisions) == by_key(decisions, decisions)
    assert by_key(stream.values("events")[0], events) == by_key(events, events)
    assert refused_in(stream) == [each["row"] - 1 for each in files.values("errors")] == [*POISON]
    assert "third" in {value["label"] for value in decisions if value["by"] == emerged["by"]}
    assert len({value["by"] for value in decisions}) == len(KEYS)


@pytest.mark.needs("broker")
def test_files_http_and_kafka_agree_on_one_stream(broker: Broker, tmp_path: Path) -> None:
    feed = lines(labels=False)
    stream = kafka(broker, tmp_path / "kafka", fitted_once(decision_delay=20, **ARGUMENTS))
    seed = seed_of(ARGUMENTS["seed"], Place(stream.topic, 0))
    fitted = fitted_once(decision_delay=20, **ARGUMENTS)
    model = OpenSetRecognizer.from_trained(fitted.trained, **grouped(**{**fitted.arguments, "seed": seed}))
    files = Files(tmp_path / "files", model)
    files.run(feed)
    kafka_run(stream, feed)
    decisions, events = files.values("out"), files.values("events")
    assert by_key(stream.values("decisions")[0], decisions) == by_key(decisions, decisions)
    assert by_key(stream.values("events")[0], events) == by_key(events, events)
    assert refused_in(stream) == [each["row"] - 1 for each in files.values("errors")]

    folder = tmp_path / "http"
    folder.mkdir()
    model.save(folder / "model.osr")
    usable = [json.loads(line) for number, line in enumerate(feed) if number not in refused_in(stream)]
    posted = [{"key": each["id"], "time": each["t"], "features": {n: each[n] for n in NAMES}} for each in usable]
    with service(folder) as http, http.client() as client:
        for at in range(0, len(posted), 200):
            client.post("/v1/instances", content=lines_of(posted[at : at + 200]),
                        headers={"Content-Type": "application/x-ndjson"}).raise_for_status()  # fmt: skip
        served = await_decisions(client, len(posted) // 32 * 32 - 20)
    names = decisions[0].keys()
    assert [{name: each[name] for name in names} for each in served] == decisions[: len(served)]
