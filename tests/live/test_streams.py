"""The live page of one key of a run with a recognizer for each key (`run --by`, `watch --stream`)."""

from __future__ import annotations

import json
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from stream_osr_connectors.commands import history
from stream_osr_connectors.files import open_sink, open_source
from stream_osr_connectors.files.file_run import FileRun, Sinks
from stream_osr_connectors.files.streams import keyed_of
from tests.blobs import fitted_once, stream_part
from tests.live.served import served
from tests.test_cli import call

KEYS = ("pump 1", "7/b")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of two keys in turn, twice as many records of the first."""
    folder = tmp_path_factory.mktemp("keyed")
    rows = [{"device": KEYS[i % 3 == 2], "id": f"k{i}", **x} for i, (x, _) in enumerate(stream_part(600))]
    (folder / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    model, checkpoint = fitted_once(batch_size=32, chains=1, window=32, seed=5), folder / "decisions.jsonl.checkpoint"
    with (
        open_source(folder / "in.jsonl", key="id", by="device", features=["a", "b"]) as source,
        open_sink(folder / "decisions.jsonl") as decisions,
        open_sink(folder / "events.jsonl") as events,
    ):
        keyed = keyed_of(model, checkpoint, None)
        FileRun(model, source, Sinks(decisions, events), keyed=keyed, checkpoint=checkpoint).run()
    return folder


def is_whole(n: int, state: dict[str, Any]) -> bool:
    return state["stream"]["decided"] == n and state["recall"] is not None


def test_a_page_shows_and_names_the_subclasses_of_its_key_alone(folder: Path) -> None:
    decisions = [json.loads(line) for line in (folder / "decisions.jsonl").read_text().splitlines()]
    shown = {}
    for key in KEYS:
        own = {each["key"] for each in decisions if each["by"] == key}
        with served(folder, stream=key) as page:
            state = page.until(partial(is_whole, len(own)))
            assert key in state["stream"]["name"]
            card = shown[key] = state["inbox"][0]
            found = page.client.get(f"/api/subclass/{card['id']}").json()["instances"]
            assert {each["key"] for each in found} <= own
            label = next(iter(Counter(each["label"] for each in decisions if each["key"] in own)))
            known = page.client.get(f"/api/subclass/class:{label}").json()["instances"]
            assert known
            assert {each["key"] for each in known} <= own
    card = shown[KEYS[1]]
    with served(folder, stream=KEYS[1]) as page, served(folder, stream=KEYS[0]) as other:
        page.until(lambda state: state["inbox"])
        assert page.ask(action="promote", subclass=card["id"], label="fox").status_code == 200
        state = page.until(lambda state: state["inbox"][0]["status"] == "named")
        entries = history(folder / "decisions.jsonl.checkpoint")
        assert [entry.command.names for entry in entries] == [[f"{KEYS[1]}/{card['id']}"]]
        assert page.ask(action="undo", n=state["history"][0]["n"]).status_code == 200
        page.until(lambda state: state["inbox"][0]["status"] == "emerging" and len(state["history"]) == 2)
        assert other.ask(action="mute", subclass=shown[KEYS[0]]["id"]).status_code == 200
        state = other.until(lambda state: state["history"])
        assert [each["action"] for each in state["history"]] == ["mute"]


def test_a_page_without_the_right_stream_has_the_reason(folder: Path, tmp_path: Path) -> None:
    with served(folder) as page:
        state = page.until(lambda state: state["keys"])
        assert (state["keys"]["n"], state["keys"]["new"]) == (2, 2)
        assert {(each["by"], each["n"]) for each in state["keys"]["shown"]} == {(KEYS[0], 400), (KEYS[1], 200)}
        assert all(each["new"] > 0 and 0.1 < each["unknown"] < 0.9 for each in state["keys"]["shown"])
        page.until(lambda state: any("Choose one with --stream KEY" in note for note in state["notes"]))
    with served(folder, stream="nowhere") as page:
        page.until(lambda state: any("no stream with key 'nowhere'" in note for note in state["notes"]))
    done = call("watch", folder / "decisions.jsonl", "--stream", "7/b", "--input", folder / "in.jsonl")
    assert "--input cannot be searched by the key of a stream" in done.stderr
