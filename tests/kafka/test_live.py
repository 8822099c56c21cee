"""The live page on a real service at a real broker: what emerges is seen, named, and taken back."""

from __future__ import annotations

import json
import os
import re
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.kafka.brokers import Broker
from tests.kafka.streams import Stream, Worker, instances, small_model
from tests.kafka.test_labels import Labels
from tests.processes import COMMAND, Process

TOKEN = "annas-own-token-16"


@contextmanager
def watched(stream: Stream, *arguments: str) -> Iterator[httpx.Client]:
    """`stream-osr watch` on a service, and a client of it."""
    with tempfile.TemporaryFile("w+") as said:
        process = Process(
            [*COMMAND, "watch", "--config", stream.config(), "--port", "0", *arguments],
            stdout=said.fileno(),
            stderr=said.fileno(),
            env={**os.environ, "STREAM_OSR_TOKENS": f"anna:{TOKEN}"},
        )
        try:
            ends, found = time.monotonic() + 120, None
            while found is None:
                text = os.pread(said.fileno(), 1 << 16, 0).decode()
                assert process.poll() is None, text
                assert time.monotonic() < ends, text
                time.sleep(0.05)
                found = re.search(r"http://127\.0\.0\.1:\d+", text)
            with httpx.Client(base_url=found[0], timeout=60, trust_env=False) as client:
                yield client
            process.terminate()
            assert process.wait(60) == 0
        finally:
            process.kill()


def until(client: httpx.Client, done: Callable[[dict[str, Any]], Any], seconds: float = 90) -> dict[str, Any]:
    ends = time.monotonic() + seconds
    while not done(state := client.get("/api/state").json()):
        assert time.monotonic() < ends, json.dumps(state)[:3000]
        time.sleep(0.05)
    return state


def ask(client: httpx.Client, **wish: Any) -> httpx.Response:
    return client.post("/api/ask", json=wish, headers={"Authorization": f"Bearer {TOKEN}"})


def test_what_emerges_is_seen_named_and_taken_back(broker: Broker, tmp_path: Path) -> None:
    topic = "labels-" + tmp_path.name
    stream = Stream(broker.address, tmp_path, 2, small_model(), labels=topic, metrics_port=0)
    stream.settings["metrics_port"] = None
    Labels(stream)
    worker = Worker(stream)
    with watched(stream, "--allow-commands") as client:
        stream.send(instances(400, 2))
        stream.wait()
        emerged = [json.loads(record.value) for records in stream.read("events") for record in records]
        ids = {event["subject"] for event in emerged if event["type"] == "SubclassEmerged"}
        begun = time.monotonic()
        state = until(client, lambda state: {card["id"] for card in state["inbox"]} >= ids)
        assert time.monotonic() - begun < 5.0, "soon after the events can be read"
        assert len(ids) >= 2
        state = until(client, lambda state: state["stream"]["decided"] == 400)
        state = until(client, lambda state: all(card["examples"]["core"] for card in state["inbox"]))
        card = state["inbox"][0]
        sent = {record.key.decode(): json.loads(record.value) for each in stream.sent for record in each}
        for example in [*card["examples"]["core"], *card["examples"]["known"]]:
            assert example["features"] == sent[example["key"]]

        prefix = card["id"].rpartition(":")[0]
        rows = client.get(f"/api/subclass/{card['id']}").json()["instances"]
        own = [json.loads(record.value) for record in stream.read("decisions")[int(prefix[-1])]]
        own = [one for one in own if f"{prefix}:{one['subclass_id']}" == card["id"]]
        assert [row["key"] for row in rows] == [one["key"] for one in own[::-1]][:50]
        got = client.get(f"/api/instance/{rows[0]['n']}").json()
        assert got["key"] == own[-1]["key"]

        answer = ask(client, action="promote", subclass=card["id"], label="fox", reason="it barks")
        assert (answer.status_code, answer.json()["standing"]) == (200, "queued"), answer.text
        state = until(client, lambda state: any(each["label"] == "fox" for each in state["inbox"]))
        act = until(client, lambda state: state["history"])["history"][0]
        assert (act["by"], act["reason"], act["subclasses"]) == ("anna", "it barks", [card["id"]])
        stream.send(instances(100, 2, 1, begin=400))
        until(client, lambda state: any(row["label"] == "fox" and row["n"] > 5 for row in state["known"]))

        assert ask(client, action="undo", n=act["n"] + 1).status_code == 409
        assert ask(client, action="undo", n=act["n"]).status_code == 200
        until(client, lambda state: {each["id"]: each["status"] for each in state["inbox"]}[card["id"]] == "emerging")
        assert until(client, lambda state: len(state["history"]) == 2)["history"][1]["undone"]
    assert worker.stop() == 0
