"""A network-intrusion stream with text columns runs as dictionaries, tables and Kafka records without an encoder."""

from __future__ import annotations

import csv
import importlib.util
import json
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from stream_osr import OpenSetRecognizer, SubclassEmerged
from stream_osr_connectors.json_fields import JsonFields
from stream_osr_connectors.kafka import ServiceSettings
from tests.doors.kafka import Boundary, JsonDecoder, Message, ModelFile, Place, begin, step
from tests.test_cli import call, lines_of

EXAMPLE = Path(__file__).parent.parent / "examples" / "intrusion.py"
LABELLED, STREAM, BATCH = 600, 1200, 64


def load_example() -> ModuleType:
    """Import the example, which is no module of a package."""
    spec = importlib.util.spec_from_file_location("intrusion", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["intrusion"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def example() -> ModuleType:
    return load_example()


@pytest.fixture(scope="module")
def model(example: ModuleType) -> OpenSetRecognizer:
    model = OpenSetRecognizer(batch_size=BATCH, seed=1, chains=2)
    for x, kind in example.labelled(LABELLED, np.random.default_rng(1)):
        model.learn_one(x, kind)
    model.freeze()
    return model


def right(example: ModuleType, pairs: Iterable[tuple[str, str]]) -> tuple[float, float]:
    """Share of known connections that get their own label, and of new ones that are called unknown."""
    calls = Counter((kind in example.KNOWN, label == kind or (kind in example.NEW and label == "unknown"))
                    for kind, label in pairs)  # fmt: skip
    return calls[True, True] / (calls[True, True] + calls[True, False]), calls[False, True] / (
        calls[False, True] + calls[False, False]
    )


def test_as_dictionaries(example: ModuleType, model: OpenSetRecognizer) -> None:
    assert set(model.trained.values) == {"protocol_type", "service", "flag"}
    own = OpenSetRecognizer.from_trained(model.trained, batch_size=BATCH, seed=1, chains=2)
    truth, told = [], dict[str, str]()
    for number, (x, kind) in enumerate(example.stream(STREAM, np.random.default_rng(2))):
        truth.append(kind)
        own.learn_one(x, key=number)
    own.flush()
    for event in own.drain_events():
        if isinstance(event, SubclassEmerged):
            told |= {name: its["value"] for name, its in event.explanation.values.items()}
            assert set(event.explanation.values) == {"protocol_type", "service", "flag"}
            assert not set(event.explanation.mean) & set(event.explanation.values)
            assert json.loads(json.dumps(event.as_dict()))["explanation"]["values"]
    known, new = right(example, ((truth[d.key], d.label) for d in own.drain()))
    assert known > 0.97
    assert new > 0.85
    assert told


def test_as_tables(example: ModuleType, tmp_path: Path) -> None:
    example.write(tmp_path, LABELLED, STREAM, 3)
    done = call("fit", "labelled.csv", "--label", "kind", "--key", "id", "-o", "model.osr", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    files = ("--output", "decisions.jsonl", "--events", "events.jsonl", "--errors", "bad.jsonl")
    with (tmp_path / "stream.csv").open() as file:
        rows = list(csv.DictReader(file))
    rows[5]["src_bytes"] = "much"  # the column is numeric, by its values in training
    rows[6]["service"] = "17"  # a number is a value like any other
    rows[7]["service"] = ""
    with (tmp_path / "stream.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    done = call("run", "-m", "model.osr", "-i", "stream.csv", "--key", "id", *files, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    truth = {row["id"]: row["kind"] for row in rows}
    decisions = lines_of(tmp_path / "decisions.jsonl")
    (bad,) = lines_of(tmp_path / "bad.jsonl")
    assert "column 'src_bytes' holds 'much', which is not a finite number, and the column is numeric" in bad["reason"]
    known, new = right(example, ((truth[d["key"]], d["label"]) for d in decisions))
    assert known > 0.97
    assert new > 0.85


def test_through_kafka(example: ModuleType, model: OpenSetRecognizer, tmp_path: Path) -> None:
    model.save(tmp_path / "model.osr")
    settings = ServiceSettings(model=tmp_path / "model.osr", brokers="b", input="in", state=tmp_path / "state")
    partition = begin(ModelFile.load(settings).recognizer(Place("in", 0)), Boundary(0))
    decode = JsonDecoder(JsonFields(features=model.trained.names), 10_000)
    drawn = list(example.stream(STREAM, np.random.default_rng(2)))
    pairs = []
    for at in range(0, STREAM, BATCH):
        batch = [
            Message("in", 0, n, 1000 * n, b"%d" % n, json.dumps(drawn[n][0]).encode(), [])
            for n in range(at, min(at + BATCH, STREAM))
        ]
        partition, outcome = step(partition, ("in", 0), batch, (), Boundary(batch[-1].offset + 1), decode)
        assert not outcome.taken.refused
        pairs += [(drawn[origin.offset][1], decision.label) for origin, decision in outcome.decisions]
    known, new = right(example, pairs)
    assert len(pairs) == STREAM
    assert known > 0.97
    assert new > 0.85
