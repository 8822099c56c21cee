"""The live page on a real service at a real broker: what emerges is seen, named, and taken back."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.kafka.brokers import Broker
from tests.kafka.streams import Stream, Worker, instances, make_topic, small_model
from tests.processes import COMMAND

pytestmark = pytest.mark.needs("broker")

TOKEN = "annas-own-token-16"


class Page(Worker):
    """`stream-osr watch` on a service, and a client of it."""

    def __init__(self, stream: Stream, *flags: str) -> None:
        self.log = stream.folder / "watch.log"
        command = [*COMMAND, "watch", "--config", str(stream.config()), "--port", "0", *flags]
        self._start(command, STREAM_OSR_TOKENS=f"anna:{TOKEN}")

    def __enter__(self) -> httpx.Client:
        self.await_line("http://127.0.0.1:", 120)
        address = re.findall(r"http://127\.0\.0\.1:\d+", self.log.read_text())[0]
        self.client = httpx.Client(base_url=address, timeout=60, trust_env=False)
        return self.client

    def __exit__(self, *_: object) -> None:
        self.client.close()
        self.process.terminate()
        assert self.process.wait(60) == 0


def until(client: httpx.Client, done: Callable[[dict[str, Any]], Any], seconds: float = 90) -> dict[str, Any]:
    ends = time.monotonic() + seconds
    while not done(state := client.get("/api/state").json()):
        assert time.monotonic() < ends, json.dumps(state)[:3000]
        time.sleep(0.05)
    return state


def ask(client: httpx.Client, **wish: Any) -> httpx.Response:
    return client.post("/api/ask", json=wish, headers={"Authorization": f"Bearer {TOKEN}"})


def test_what_emerges_is_seen_named_and_taken_back(broker: Broker, tmp_path: Path) -> None:
    stream = Stream(broker.address, tmp_path, 2, small_model(), labels="labels-" + tmp_path.name)
    make_topic(broker.address, stream.settings["labels"], 1)
    worker = Worker(stream)
    with Page(stream, "--allow-commands") as client:
        stream.send(instances(400, 2))
        stream.wait()
        events = [event for partition in stream.values("events") for event in partition]
        ids = {event["subject"] for event in events if event["type"] == "SubclassEmerged"}
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
        decisions = stream.values("decisions")[int(prefix[-1])]
        own = [one for one in decisions if f"{prefix}:{one['subclass_id']}" == card["id"]]
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
