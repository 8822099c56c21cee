"""A network-intrusion stream with text columns runs as dictionaries and tables without an encoder."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from stream_osr import OpenSetRecognizer, SubclassEmerged
from tests.blobs import learn_all
from tests.examples import example
from tests.test_cli import call, lines_of

intrusion = example("intrusion")
LABELLED, STREAM, BATCH = 600, 1200, 64


@pytest.fixture(scope="module")
def model() -> OpenSetRecognizer:
    model = OpenSetRecognizer(batch_size=BATCH, seed=1, chains=2)
    learn_all(model, intrusion.labelled(LABELLED, np.random.default_rng(1)))
    model.freeze()
    return model


def check_shares(pairs: Iterable[tuple[str, str]]) -> None:
    """Check how many known connections get their own label, and how many new ones are called unknown."""
    known, new = list[bool](), list[bool]()
    for kind, label in pairs:
        (known if kind in intrusion.KNOWN else new).append(label == (kind if kind in intrusion.KNOWN else "unknown"))
    assert np.mean(known) > 0.97
    assert np.mean(new) > 0.85


def test_as_dictionaries(model: OpenSetRecognizer) -> None:
    columns = {"protocol_type", "service", "flag"}
    assert set(model.trained.values) == columns
    truth = []
    for number, (x, kind) in enumerate(intrusion.stream(STREAM, np.random.default_rng(2))):
        truth.append(kind)
        model.learn_one(x, key=number)
    model.flush()
    events = [event for event in model.drain_events() if isinstance(event, SubclassEmerged)]
    assert events
    for event in events:
        assert set(event.explanation.values) == columns
        assert not set(event.explanation.mean) & columns
        assert json.loads(json.dumps(event.as_dict()))["explanation"]["values"]
    check_shares((truth[d.key], d.label) for d in model.drain())


def test_as_tables(tmp_path: Path) -> None:
    intrusion.write(tmp_path, LABELLED, STREAM, 3)
    done = call("fit", "labelled.csv", "--label", "kind", "--key", "id", "-o", "model.osr", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    rows = pd.read_csv(tmp_path / "stream.csv", dtype=str)
    rows.loc[5, "src_bytes"] = "much"  # the column is numeric, by its values in training
    rows.loc[6:7, "service"] = ["17", ""]  # a number is a value like any other
    rows.to_csv(tmp_path / "stream.csv", index=False)
    files = ("--output", "decisions.jsonl", "--events", "events.jsonl", "--errors", "bad.jsonl")
    done = call("run", "-m", "model.osr", "-i", "stream.csv", "--key", "id", *files, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (bad,) = lines_of(tmp_path / "bad.jsonl")
    assert "column 'src_bytes' holds 'much', which is not a finite number, and the column is numeric" in bad["reason"]
    truth = dict(zip(rows["id"], rows["kind"], strict=True))
    check_shares((truth[d["key"]], d["label"]) for d in lines_of(tmp_path / "decisions.jsonl"))
