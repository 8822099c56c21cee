"""The same records through files, HTTP, Kafka and Spark: equal decisions, events and refusals, to the bit."""

from __future__ import annotations

import json
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from stream_osr import OpenSetRecognizer
from stream_osr.config import grouped
from stream_osr_connectors.files import open_sink, open_source
from stream_osr_connectors.files.checkpoint import load_checkpoint
from stream_osr_connectors.files.file_run import FileRun, Sinks
from stream_osr_connectors.files.streams import keyed_of
from stream_osr_connectors.kafka.places import Place
from stream_osr_connectors.kafka.run.partition import seed_of
from stream_osr_connectors.kafka.wire.boundaries import Progress
from tests.blobs import NAMES, fitted_once, stream_part
from tests.documents import forked
from tests.http.serving import Service, await_decisions, lines_of, service
from tests.kafka.brokers import Broker
from tests.kafka.commands import done
from tests.kafka.streams import Sent, Stream, Worker
from tests.processes import COMMAND, asking_socket, run
from tests.test_mcp import Server, environment, talk

if TYPE_CHECKING:
    import httpx

ARGUMENTS: dict[str, Any] = {"batch_size": 32, "chains": 1, "window": 32, "seed": 5}
DELAYED = {**ARGUMENTS, "decision_delay": 20}
KEYS = [f"pump {n}" for n in range(5)]
HALF, CHANGED = 992, 1504
"""Numbers of records before a command, and before another model: of full batches, which Kafka takes."""
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
    for number, (x, label) in enumerate(stream_part(2000)):
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
    """A run over a file of JSON lines."""

    def __init__(self, folder: Path, model: OpenSetRecognizer, *options: str) -> None:
        self.folder, self.options = folder, options
        folder.mkdir()
        model.save(folder / "model.osr")

    def write(self, some: Iterable[bytes]) -> None:
        """Append records to the input."""
        with (self.folder / "in.jsonl").open("ab") as file:
            file.writelines(line + b"\n" for line in some)

    def run(self, *more: str) -> None:
        """Decide the input to its end, with the command line."""
        names = "--key", "id", "--time", "t", "--features", ",".join(NAMES)
        outputs = "--output", "out.jsonl", "--events", "events.jsonl", "--errors", "errors.jsonl"
        given = "--model", "model.osr", *names, *outputs, "--checkpoint", "out.jsonl.checkpoint"
        ended = run(*COMMAND, "run", "--input", "in.jsonl", *given, *self.options, *more, cwd=self.folder)
        assert ended.returncode == 0, ended.stderr

    def run_until(self, count: int) -> None:
        """Decide so many records by key, and leave the micro-batches open."""
        checkpoint, reading = self.folder / "out.jsonl.checkpoint", {"key": "id", "time": "t", "label": "y"}
        started = load_checkpoint(checkpoint) if checkpoint.exists() else None
        reading |= {"features": [*NAMES], "by": "device"}
        with ExitStack() as stack:
            source = stack.enter_context(open_source(self.folder / "in.jsonl", **reading))
            names = ("out.jsonl", "events.jsonl", "errors.jsonl")
            sinks = Sinks(*(stack.enter_context(open_sink(self.folder / name)) for name in names))
            model = OpenSetRecognizer.load(self.folder / "model.osr") if started is None else started.model
            keyed = keyed_of(model, checkpoint, None if started is None else started.keys)
            rest: dict[str, Any] = {"checkpoint": checkpoint, "keyed": keyed, "reading": reading}
            one = (
                FileRun(model, source, sinks, **rest)
                if started is None
                else FileRun.go_on(started, source, sinks, **rest)
            )
            one.stop = lambda: one.totals["read"] >= count
            one.run()

    def values(self, name: str) -> list[dict[str, Any]]:
        return read(self.folder / f"{name}.jsonl")

    def refused(self) -> list[int]:
        return [each["row"] - 1 for each in self.values("errors")]


class Posting:
    """A service over HTTP with a stream for each key."""

    def __init__(self, folder: Path, model: OpenSetRecognizer) -> None:
        self.folder = folder
        self.folder.mkdir()
        self.refused = list[int]()
        self.use(model)
        (folder / "tokens").write_text("anna:annas-own-token-16\n")

    def use(self, model: OpenSetRecognizer) -> None:
        model.save(self.folder / "model.osr")

    def start(self) -> Service:
        return Service(self.folder, "--by", "device", "--on-model-change", "carry")

    def send(self, client: httpx.Client, some: Sequence[bytes], first: int) -> None:
        """Send records, each as one request if it is unusable, and wait until the run has read them."""
        usable = list[dict[str, Any]]()
        for number, line in enumerate(some, start=first):
            if number not in POISON:
                usable.append(posted(json.loads(line)))
                continue
            self._send(client, usable)
            usable = []
            try:
                body = json.dumps(posted(json.loads(line))).encode()
            except (json.JSONDecodeError, AttributeError):
                body = line
            answer = client.post("/v1/instances", content=body, headers={"Content-Type": "application/json"})
            assert answer.status_code in (400, 422), answer.text
            self.refused.append(number)
        self._send(client, usable)
        until(lambda: "stream_osr_behind 0" in client.get("/metrics").text)

    @staticmethod
    def _send(client: httpx.Client, usable: Sequence[dict[str, Any]]) -> None:
        for at in range(0, len(usable), 200):
            client.post("/v1/instances", content=lines_of(usable[at : at + 200]),
                        headers={"Content-Type": "application/x-ndjson"}).raise_for_status()  # fmt: skip

    def values(self, name: str) -> list[dict[str, Any]]:
        return read(self.folder / "state" / f"{name}.jsonl")


def posted(record: dict[str, Any]) -> dict[str, Any]:
    """Return a record as an instance of the service over HTTP."""
    names = {"id": "key", "t": "time", "y": "label", "device": "device"}
    own = {names[name]: value for name, value in record.items() if name in names}
    return {**own, "features": {name: value for name, value in record.items() if name not in names}}


def promote_by_mcp(folder: Path, key: str, subclass: str, label: str) -> None:
    """Name a subclass of a key through an MCP client."""
    from mcp import StdioServerParameters

    options = "--stream", key, "--allow-commands", "--tokens", str(folder / "tokens")
    arguments = ["-ISE", forked.__file__, asking_socket(), "stream-osr", "mcp", "decisions.jsonl", *options]
    server = StdioServerParameters(
        command=sys.executable, args=arguments, env=environment("annas-own-token-16"), cwd=folder / "state"
    )

    async def steps(server: Server) -> None:
        assert (await server.ask("promote", subclass=[subclass], label=label))["status"] == "queued"

    talk(steps, server)


def until(condition: Callable[[], bool]) -> None:
    ends = time.monotonic() + 90
    while not condition():
        assert time.monotonic() < ends
        time.sleep(0.05)


def send(stream: Stream, some: Iterable[bytes]) -> None:
    stream.send((0, Sent(b"k", line)) for line in some)


def decide(stream: Stream) -> None:
    """Decide the input of a topic to its end."""
    worker = Worker(stream)
    assert worker.process.wait(120) == 0, "\n".join(worker.lines()[-20:])


def refused_in(stream: Stream) -> list[int]:
    return [int(dict(letter.headers)["__connect.errors.offset"]) for letter in stream.read("dlq")[0]]


def kafka(broker: Broker, folder: Path, model: OpenSetRecognizer, **settings: Any) -> Stream:
    folder.mkdir()
    usual = {"key": "id", "time": "t", "max_wait": None}
    return Stream(broker.address, folder, 1, model, **usual, **settings)


def commands_applied(stream: Stream) -> int:
    """Number of commands that the only partition has applied."""
    ((_, metadata),) = stream.commits()
    return Progress.parse(metadata).history.last.labels if metadata else 0


@pytest.mark.needs("broker")
def test_files_http_and_kafka_agree_by_key(broker: Broker, tmp_path: Path) -> None:
    """With poison, late labels, delayed decisions, a command, a new start and a new model."""
    model, later = fitted_once(**DELAYED), fitted_once(60, **DELAYED)
    feed = lines()
    files = Files(tmp_path / "files", model, "--by", "device", "--label", "y")
    stream = kafka(broker, tmp_path / "kafka", model, by="device", label="y", on_model_change="carry")
    stream.settings["labels"] = f"{stream.topic}.labels"
    done("topics", "--create", "--config", stream.config())
    posting = Posting(tmp_path / "http", model)

    files.write(feed)
    files.run_until(HALF)
    send(stream, feed[:HALF])
    worker = Worker(stream)
    stream.wait(lambda: stream.committed() == [HALF])
    emerged = next(event for event in files.values("events") if event["type"] == "SubclassEmerged")
    subject = f"{emerged['by']}/{emerged['subclass_id']}"
    done("promote", subject, "third", "--checkpoint", files.folder / "out.jsonl.checkpoint")
    done("promote", subject, "third", "--config", stream.config())
    until(lambda: commands_applied(stream) == 1)
    http = posting.start()
    with http.client() as client:
        posting.send(client, feed[:HALF], 0)
        promote_by_mcp(posting.folder, emerged["by"], str(emerged["subclass_id"]), "third")
        until(lambda: client.get("/v1/commands").json()["commands"][0]["outcome"] == "done")
        posting.send(client, feed[HALF:CHANGED], HALF)
    http.stop()

    files.run_until(CHANGED)
    send(stream, feed[HALF:CHANGED])
    stream.wait(lambda: stream.committed() == [CHANGED])
    assert worker.stop() == 0
    later.save(files.folder / "model.osr")
    later.save(stream.folder / "model.osr")
    files.run("--resume", "--on-model-change", "carry")
    stream.settings["stop"] = "end"
    send(stream, feed[CHANGED:])
    decide(stream)
    posting.use(later)
    http = posting.start()
    with http.client() as client:
        posting.send(client, feed[CHANGED:], CHANGED)
    http.stop()

    decisions, events = files.values("out"), files.values("events")
    wanted = by_key(decisions, decisions), by_key(events, events)
    assert by_key(stream.values("decisions")[0], decisions) == wanted[0]
    assert by_key(stream.values("events")[0], events) == wanted[1]
    assert refused_in(stream) == files.refused() == posting.refused == [*POISON]
    assert "third" in {value["label"] for value in decisions if value["by"] == emerged["by"]}
    assert len({value["by"] for value in decisions}) == len(KEYS)
    for name, own in (("decisions", wanted[0]), ("events", wanted[1])):
        for by, served in by_key(posting.values(name), decisions if name == "decisions" else events).items():
            assert served == own[by][: len(served)], (name, by)
            assert name == "events" or len(own[by]) - len(served) < 32 + 20, "the last micro-batch is open"
    assert {*by_key(posting.values("decisions"), decisions)} == {*KEYS}


@pytest.mark.needs("broker")
def test_files_http_and_kafka_agree_on_one_stream(broker: Broker, tmp_path: Path) -> None:
    """With contributions."""
    feed = lines(labels=False)
    stream = kafka(broker, tmp_path / "kafka", fitted_once(**ARGUMENTS), contributions=1, stop="end")
    seed = seed_of(ARGUMENTS["seed"], Place(stream.topic, 0))
    fitted = fitted_once(**ARGUMENTS)
    model = OpenSetRecognizer.from_trained(fitted.trained, **grouped(**{**fitted.arguments, "seed": seed}))
    files = Files(tmp_path / "files", model, "--contributions", "1")
    files.write(feed)
    files.run()
    send(stream, feed)
    decide(stream)
    decisions, events = files.values("out"), files.values("events")
    assert by_key(stream.values("decisions")[0], decisions) == by_key(decisions, decisions)
    assert by_key(stream.values("events")[0], events) == by_key(events, events)
    refused = refused_in(stream)
    assert refused == files.refused()
    assert all(len(each["contributions"]["unknown"]["features"]) == 1 for each in decisions)

    folder = tmp_path / "http"
    folder.mkdir()
    model.save(folder / "model.osr")
    usable = [json.loads(line) for number, line in enumerate(feed) if number not in refused]
    with service(folder, "--contributions", "1") as http, http.client() as client:
        one_stream = [{name: value for name, value in posted(each).items() if name != "device"} for each in usable]
        Posting._send(client, one_stream)
        served = await_decisions(client, len(usable) // 32 * 32)
    names = decisions[0].keys()
    assert [{name: each[name] for name in names} for each in served] == decisions[: len(served)]


def test_files_and_spark_agree_by_key(tmp_path: Path) -> None:
    """Spark has neither commands nor labels. Its rows have types, so that only values can be unusable."""
    pytest.importorskip("pyspark.sql.streaming.tws_tester", reason="needs pyspark: make spark", exc_type=ImportError)
    import pandas
    from pyspark.sql.streaming.tws_tester import TwsTester

    from stream_osr_connectors.spark import KeyProcessor

    model = fitted_once(**DELAYED)
    numbered = [(number, json.loads(line)) for number, line in enumerate(lines(labels=False))
                if number not in POISON or number == 501]  # fmt: skip
    files = Files(tmp_path / "files", model, "--by", "device")
    files.write(json.dumps(record).encode() for _, record in numbered)
    files.run()
    path = files.folder / "model.osr"
    tester = TwsTester(KeyProcessor(str(path), model.trained.fingerprint, model.arguments, timed=True))
    rows = defaultdict[str, list[tuple[int, dict[str, Any]]]](list)
    for number, record in numbered:
        rows[record["device"]].append((number, record))
    decisions, refused = by_key(files.values("out"), files.values("out")), list[int]()
    for key, own in rows.items():
        frame = pandas.DataFrame(
            {"order": [str(number) for number, _ in own], "time": [record["t"] for _, record in own],
             **{f"f{n}": [record[name] for _, record in own] for n, name in enumerate(NAMES)}}
        )  # fmt: skip
        found = tester.testInPandas(key, frame).to_dict("records")
        refused += [int(each["order"]) for each in found if each["kind"] == "rejected"]
        decided = [each for each in found if each["kind"] == "decision"]
        same = (
            "label",
            "probability",
            "p_unknown",
            "subclass_id",
            "nearest_class",
            "distance",
            "density_rank",
            "seq",
        )
        wanted = [(f"k{each['order']}", *map(plain, map(each.get, same))) for each in decided]
        assert wanted == [(each["key"], *map(each.get, same)) for each in decisions[key][: len(decided)]], key
        assert len(decisions[key]) - len(decided) < 32 + 20
    assert [numbered[row][0] for row in files.refused()] == refused == [501]


def plain(value: Any) -> Any:
    """Return a value of a data frame, with ``None`` for a missing one."""
    return None if value is None or value != value else value
