"""The service against a real broker: each record is decided once and in order, whatever happens to the workers."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from collections import Counter
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from stream_osr import OpenSetRecognizer
from stream_osr_connectors.kafka import exits
from tests.blobs import fitted_once
from tests.kafka.brokers import Broker
from tests.kafka.decoders import HANG
from tests.kafka.scraping import Samples, metrics, status, total
from tests.kafka.streams import Sent, Stream, Worker, check_exactly_once, instances, small_model

pytestmark = pytest.mark.needs("broker")

PARTITIONS = 4


def decide_all(stream: Stream) -> Worker:
    """Start a worker, wait until everything is decided, and stop it."""
    worker = Worker(stream)
    stream.wait()
    assert worker.stop() == 0
    return worker


def test_decides_once_in_order_and_goes_on_after_a_stop(broker: Broker, tmp_path: Path) -> None:
    stream = Stream(broker.address, tmp_path, 2, small_model())
    feed, headers = instances(700, 2), (("none", None), ("empty", b""), ("none", b"1"))
    feed[100] = (0, feed[100][1]._replace(headers=headers))
    stream.send(feed)
    decide_all(stream)
    assert len(list((tmp_path / "state").rglob("*.osr"))) == 2, "a clean stop leaves a snapshot of each partition"
    stream.send(instances(300, 2, seed=1, begin=700))
    worker = decide_all(stream)
    assert not any("replay" in line for line in worker.lines())
    assert min(check_exactly_once(stream)) > 10
    decisions, events = stream.read("decisions")[0], stream.read("events")[0]
    first, value = decisions[0], json.loads(decisions[0].value)
    assert (first.key, first.timestamp, value["key"], value["t"]) == (b"k0", 1_700_000_000_000, "k0", 1_700_000_000.0)
    assert tuple(decisions[50].headers[-3:]) == headers, "what is null stays null"
    headers = dict(first.headers)
    assert headers["ce_type"] == b"stream-osr.decision.v1"
    assert headers["ce_time"] == b"2023-11-14T22:13:20.000Z"
    assert json.loads(events[0].value)["type"] == "SubclassEmerged"
    assert len({dict(record.headers)["ce_id"] for record in [*decisions, *events]}) == len(decisions) + len(events)


# Several workers


def several(broker: Broker, folder: Path, **settings: object) -> Stream:
    """A stream of four partitions, and a service with a port."""
    return Stream(broker.address, folder, PARTITIONS, small_model(), **{"metrics_port": 0, **settings})


def shared(samples: Samples) -> bool:
    """Whether each of two workers has half of the partitions."""
    shares = {labels["worker"]: value for labels, value in samples.get("stream_osr_assigned_partitions", ())}
    return shares == {"osr-0": PARTITIONS / 2, "osr-1": PARTITIONS / 2}


def processes(parent: Worker) -> dict[str, int]:
    """Process ids of the workers by name, the latest of each."""
    started = (re.search(r"(osr-\d) started, process (\d+)", line) for line in parent.lines())
    return {found[1]: int(found[2]) for found in started if found}


def alive(process: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_two_workers_share_the_work_and_come_back_when_they_die(broker: Broker, tmp_path: Path) -> None:
    stream = several(broker, tmp_path, workers=2)
    stream.send([*instances(600, PARTITIONS), (1, Sent(b"k", b"{")), (2, Sent(b"k", b'{"a": "no number"}'))])
    parent = Worker(stream, "osr")
    stream.wait()
    stream.wait(lambda: shared(metrics(parent)))
    stream.wait(lambda: total(metrics(parent), "stream_osr_records_total") == 602)
    stream.wait(lambda: status(parent, "/readyz") == 200)  # what has moved may still be replayed
    seen = metrics(parent)
    assert total(seen, "stream_osr_decisions_total") == 600
    assert total(seen, "stream_osr_decisions_total", decided="unknown") > 100
    assert total(seen, "stream_osr_dead_letters_total") == 2
    assert total(seen, "stream_osr_events_total") == sum(map(len, stream.read("events")))
    stream.wait(lambda: total(metrics(parent), "stream_osr_lag_records") == 0)
    assert total(seen, "stream_osr_transaction_seconds_sum") > 0
    assert all(value > 0 for _, value in seen["stream_osr_alpha0"])
    assert status(parent, "/healthz") == 200
    assert status(parent, "/elsewhere") == 404

    os.kill(processes(parent)["osr-0"], signal.SIGKILL)
    stream.send(instances(400, PARTITIONS, seed=1, begin=600))
    stream.wait()
    stream.wait(lambda: status(parent, "/readyz") == 200)
    assert total(metrics(parent), "stream_osr_worker_restarts_total", worker="osr-0") == 1
    assert any("osr-0 ended with signal 9" in line for line in parent.lines())

    begun = time.monotonic()
    assert parent.stop() == 0
    assert time.monotonic() - begun < 30
    assert not any(alive(process) for process in processes(parent).values())
    check_exactly_once(stream)


@pytest.mark.long
def test_a_worker_that_does_not_answer_is_replaced_and_none_outlives_its_parent(
    broker: Broker, tmp_path: Path
) -> None:
    stream = several(broker, tmp_path, workers=2, watchdog=10.0)
    stream.send(instances(200, PARTITIONS))
    parent = Worker(stream, "osr")
    stream.wait()
    stream.wait(lambda: shared(metrics(parent)))
    os.kill(processes(parent)["osr-1"], signal.SIGSTOP)
    parent.await_line("osr-1 has not responded")
    parent.await_line("osr-1 ended with signal 9")
    stream.send(instances(200, PARTITIONS, seed=1, begin=200))
    stream.wait()
    parent.kill()
    stream.wait(lambda: not any(alive(process) for process in processes(parent).values()), seconds=20)
    check_exactly_once(stream)


def test_a_worker_that_hangs_ends_itself_and_says_where(broker: Broker, tmp_path: Path) -> None:
    stream = several(broker, tmp_path, watchdog=8.0, decoder="tests.kafka.decoders:hanging")
    stream.send([(0, Sent(HANG, b"{}"))])
    worker = Worker(stream)
    worker.await_line("the loop has not turned for 8 s")
    assert worker.process.wait(10) == exits.HUNG
    assert "decode_or_hang" in worker.lines()[-1]


def test_stopping_is_bounded(broker: Broker, tmp_path: Path) -> None:
    stream = several(broker, tmp_path, stop_timeout=2.0, decoder="tests.kafka.decoders:hanging")
    stream.send([(0, Sent(HANG, b"{}"))])
    worker = Worker(stream)
    worker.await_line("metrics at")
    stream.wait(lambda: total(metrics(worker), "stream_osr_assigned_partitions") == PARTITIONS)
    time.sleep(1)
    begun = time.monotonic()
    assert worker.stop() == exits.HUNG
    assert time.monotonic() - begun < 10


def test_a_port_that_is_taken_is_a_clear_error(broker: Broker, tmp_path: Path) -> None:
    port = int(broker.address.rpartition(":")[2])
    worker = Worker(several(broker, tmp_path, metrics_port=port))
    assert worker.process.wait(60) == 1
    (line,) = worker.lines()
    assert f"metrics_port: cannot listen at 127.0.0.1:{port} (another program listens there)" in line


# Another model


def next_model() -> OpenSetRecognizer:
    """The successor of :func:`small_model`."""
    return fitted_once(60, batch_size=32, chains=1, window=32, seed=6)


def decided_by(stream: Stream, *models: OpenSetRecognizer) -> list[list[dict[str, Any]]]:
    """Check that each record has one decision, by these models in turn; return the decisions of each partition."""
    decided = [[json.loads(record.value) for record in part] for part in stream.read("decisions")]
    for sent, values in zip(stream.sent, decided, strict=True):
        assert [value["offset"] for value in values] == list(range(len(sent)))
        runs = [model for model, _ in groupby(value["model"] for value in values)]
        assert runs == [model.trained.fingerprint for model in models]
    return decided


def test_a_retrained_model_goes_on_and_is_killed(broker: Broker, tmp_path: Path) -> None:
    """A clean stop, another model, SIGKILL after the switch: one decision each, the same ids, the same bits."""
    first, second = small_model(decision_delay=20), next_model()
    limits = {".subclasses": 1_000_000}
    stream = Stream(broker.address, tmp_path, 2, first, limits, snapshot_interval=1.0, on_model_change="carry")
    stream.settings["subclasses"] = f"{stream.topic}.subclasses"
    stream.send(instances(500, 2))
    decide_all(stream)
    second.save(tmp_path / "model.osr")
    stream.send(instances(600, 2, seed=1, begin=500))
    for line in ("goes on under another model", "transaction committed"):
        worker = Worker(stream)
        worker.await_line(line)
        worker.kill()  # before it is committed, or after
    worker = decide_all(stream)
    assert not any("goes on under another model" in line for line in worker.lines())
    said = stream.read("subclasses")[0]
    decided = decided_by(stream, first, second)
    for number, (values, events) in enumerate(zip(decided, stream.read("events"), strict=True)):
        got = [json.loads(record.value) for record in events]
        emerged = [event["subclass_id"] for event in got if event["type"] == "SubclassEmerged"]
        assert len(emerged) == len(set(emerged)) >= 1, (
            "rarely two: the random name of the topic makes the seed random"
        )
        before, after = (
            [v["subclass_id"] for v in part if v["label"] == "unknown"] for part in (values[:250], values[260:])
        )
        carried, _ = Counter(after).most_common(1)[0]
        assert carried in before
        assert carried in emerged
        assert len({dict(record.headers)["ce_id"] for record in events}) == len(events)
        place = f"{stream.topic}/{number}:".encode()
        summaries = [json.loads(record.value) for record in said if record.key.startswith(place)]
        models = list(dict.fromkeys(summary["model"] for summary in summaries))
        assert models == [first.trained.fingerprint, second.trained.fingerprint]
        assert len({summary["run"] for summary in summaries}) == 2, "each run publishes its own summaries"


def test_a_worker_of_the_old_model_leaves_a_partition_alone_that_is_the_new_ones(
    broker: Broker, tmp_path: Path
) -> None:
    """Two machines: the second loads the model later."""
    first, second = small_model(), next_model()
    settings = {"metrics_port": 0, "workers": 1, "on_model_change": "carry", "snapshot_interval": 1.0}
    stream = Stream(broker.address, tmp_path, PARTITIONS, first, **settings)
    stream.send(instances(400, PARTITIONS))
    left = Worker(stream, "left")
    stream.wait()
    right = Worker(stream, "right")
    stream.wait(
        lambda: status(right, "/readyz") == 200 and any("another worker's now" in line for line in left.lines())
    )
    second.save(tmp_path / "model.osr")
    left.process.send_signal(signal.SIGHUP)
    left.await_line("goes on under another model")
    stream.send(instances(400, PARTITIONS, seed=1, begin=400))
    stream.wait()
    assert left.stop() == 0
    right.await_line("ran under the newer model")
    stream.send(instances(200, PARTITIONS, seed=2, begin=800))
    time.sleep(3)
    assert any(at < len(sent) for at, sent in zip(stream.committed(), stream.sent, strict=True)), "some wait"
    right.process.send_signal(signal.SIGHUP)
    right.await_line("is loaded: the model")
    stream.send(instances(200, PARTITIONS, seed=3, begin=1000))
    stream.wait()
    assert right.stop() == 0
    decided_by(stream, first, second)
    assert "stopped" in right.lines()[-1]
