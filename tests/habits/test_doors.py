"""The same table gives the same model and the same decisions, whatever door it comes through."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stream_osr import OpenSetRecognizer
from stream_osr_connectors.json_fields import JsonFields
from stream_osr_connectors.kafka.wire.decoding import JsonDecoder
from stream_osr_connectors.kafka.wire.messages import Message
from tests.habits.command import command
from tests.habits.values import each_value

LABELS: dict[str, tuple[Any, Any]] = {"text": ("idle", "running"), "whole": (1, 2), "truth": (True, False)}
CODES = ("01", "02")
FEATURES = ["flow", "heat", "count", "port", "zone", "proto", "on"]


def table(n: int, seed: int, labels: tuple[Any, Any]) -> list[dict[str, Any]]:
    """Numbers, whole numbers, codes, text and booleans, of two classes in turn; some values are missing."""
    rng = random.Random(seed)
    rows = []
    for i in range(n):
        at = i % 2
        row: dict[str, Any] = {
            "flow": round(rng.gauss(12 * at, 1), 3),
            "heat": round(rng.gauss(0, 1), 3),
            "count": rng.randrange(40) + 100 * at,
            "port": (80, 443, 22)[rng.randrange(3)],
            "zone": CODES[rng.randrange(2)],
            "proto": ("tcp", "udp")[at],
            "on": bool(at) if rng.random() < 0.9 else not at,
        }
        missing = FEATURES[i % len(FEATURES)] if i % 9 == 5 else None
        rows.append({**{name: None if name == missing else value for name, value in row.items()}, "y": labels[at]})
    return rows


def excel(path: Path, rows: list[dict[str, Any]]) -> None:
    """As Excel writes where the comma is decimal, and TRUE is a truth value."""
    lines = [";".join(rows[0])]
    for row in rows:
        cells = [str(value).upper() if isinstance(value, bool) else value for value in row.values()]
        lines.append(";".join("" if cell is None else str(cell).replace(".", ",") for cell in cells))
    path.write_bytes(b"\xef\xbb\xbfsep=;\r\n" + "".join(f"{line}\r\n" for line in lines).encode())


def pandas(rows: list[dict[str, Any]]) -> Any:
    import pandas as pd

    return pd.DataFrame(rows)


def polars(rows: list[dict[str, Any]]) -> Any:
    import polars as pl

    return pl.DataFrame(rows)


def pyarrow(rows: list[dict[str, Any]]) -> Any:
    import pyarrow as pa

    return pa.Table.from_pylist(rows)


def shuffled_index(path: Path, rows: list[dict[str, Any]]) -> None:
    its = pandas(rows)
    its.index = np.random.default_rng(0).permutation(len(its))
    its.to_parquet(path)


def duckdb(path: Path, rows: list[dict[str, Any]]) -> None:
    """No metadata of pandas, narrow whole numbers, row groups of a few rows."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    its, types = pyarrow(rows).replace_schema_metadata(None), {"count": pa.int32(), "port": pa.uint16()}
    for at, name in enumerate(its.column_names):
        if name in types:
            its = its.set_column(at, name, its[name].cast(types[name]))
    pq.write_table(its, path, row_group_size=17)


FILES: dict[str, tuple[str, Callable[[Path, list[dict[str, Any]]], Any]]] = {
    "csv": ("csv", lambda path, rows: pandas(rows).to_csv(path, index=False)),
    "csv of polars": ("csv", lambda path, rows: polars(rows).write_csv(path)),
    "csv of excel": ("csv", excel),
    "json": ("jsonl", lambda path, rows: path.write_text("".join(json.dumps(row) + "\n" for row in rows))),
    "json of pandas": ("jsonl", lambda path, rows: pandas(rows).to_json(path, orient="records", lines=True)),
    "parquet of pandas": ("parquet", lambda path, rows: pandas(rows).to_parquet(path, index=False)),
    "parquet with an index": ("parquet", shuffled_index),
    "parquet of polars": ("parquet", lambda path, rows: polars(rows).write_parquet(path)),
    "parquet of duckdb": ("parquet", duckdb),
}
FRAMES: dict[str, Callable[[list[dict[str, Any]]], Any]] = {"pandas": pandas, "polars": polars, "pyarrow": pyarrow}
TRAIN = ["csv", "dictionaries", "json", "pyarrow", "parquet of pandas"]
"""One of each kind for the first tier; then the others."""
TRAIN += [door for door in (*FILES, *FRAMES) if door not in TRAIN]
STREAM = ["kafka", "csv of excel", "parquet with an index", "pandas", "json"]
STREAM += [door for door in ("dictionaries", *FRAMES, *FILES) if door not in STREAM]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("doors")


def without_labels(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: row[name] for name in FEATURES} for row in rows]


@cache
def trained(door: str, labels: str, folder: Path) -> Path:
    """Train through a door; the file of the model."""
    rows, out = table(80, 0, LABELS[labels]), folder / f"{door} {labels}.osr"
    if door in FILES:
        suffix, write = FILES[door]
        write(path := folder / f"{door} {labels}.{suffix}", rows)
        options = ["--label", "y", "--chains", "1", "--batch-size", "16", "--categorical", "port"]
        code, said = command("fit", path, "-o", out, *options)
        assert code == 0, said
        return out
    model = OpenSetRecognizer(chains=1, batch_size=16, categorical=["port"])
    if door == "dictionaries":
        for row in rows:
            model.learn_one({name: row[name] for name in FEATURES}, row["y"])
    else:
        model.learn_many(FRAMES[door](without_labels(rows)), [row["y"] for row in rows])
    model.freeze()
    model.save(out)
    return out


@cache
def streamed(door: str, path: Path, folder: Path) -> list[Any]:
    """Decide a stream that comes through a door."""
    rows, model = without_labels(table(40, 9, ("a", "b"))), OpenSetRecognizer.load(path)
    if door in FILES:
        suffix, write = FILES[door]
        write(file := folder / f"stream {door}.{suffix}", rows)
        code, said = command("run", "-m", path, "-i", file, "-o", out := folder / "out.jsonl")
        assert code == 0, said
        lines = [json.loads(line) for line in out.read_text().splitlines()]
        return [(line["label"], line["p_unknown"]) for line in lines]
    if door in FRAMES:
        model.learn_many(FRAMES[door](rows))
    elif door == "dictionaries":
        for row in rows:
            model.learn_one(row)
    else:
        decode = JsonDecoder(JsonFields(features=FEATURES), max_bytes=10_000)
        for at, row in enumerate(rows):
            record = decode(Message("t", 0, at, 0, None, json.dumps(row).encode(), []))
            model.learn_one(record.features, t=None, key=record.key)
    model.flush()
    return [(each.label, each.p_unknown) for each in model.drain()]


def content(path: Path) -> Any:
    its = OpenSetRecognizer.load(path).trained
    return its.names, its.labels, its.values, replace(its, commas=()).fingerprint  # a comma is part of it


@pytest.mark.parametrize(("train", "stream", "labels"), each_value(TRAIN, STREAM, [*LABELS], first=5))
def test_every_door_trains_the_same_model_and_decides_alike(
    train: str, stream: str, labels: str, folder: Path
) -> None:
    model, other = (trained(door, labels, folder) for door in (train, "dictionaries"))
    assert content(model) == content(other)
    expected = streamed("dictionaries", other, folder)
    assert sum(label == "unknown" for label, _ in expected) <= 2
    assert streamed(stream, model, folder) == expected
