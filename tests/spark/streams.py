"""A small model, rows of several keys, and the plain loop that each key is compared with."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from stream_osr import OpenSetRecognizer
from tests.blobs import KNOWN, NEW, around, training_part

ARGUMENTS: dict[str, Any] = {"batch_size": 16, "seed": 7, "decision_delay": 4}
FIELDS = ("label", "first_label", "probability", "p_unknown", "probabilities", "subclass_id", "nearest_class",
          "distance", "density_rank", "batch", "seq")  # fmt: skip


def saved_model(folder: Path) -> Path:
    model = OpenSetRecognizer(batch_size=16, seed=7, categorical=["colour"])
    for n, (x, label) in enumerate(training_part(60)):
        model.learn_one({**x, "colour": n % 3}, label)
    model.freeze()
    model.save(folder / "model.osr")
    return folder / "model.osr"


def rows_of(key: str, n: int) -> list[dict[str, Any]]:
    """Rows of one key in order. The second half has a class of this key alone."""
    rng = np.random.default_rng(list(key.encode()))
    centres = [*KNOWN.values(), tuple(value + len(key) for value in NEW)]
    out = []
    for place in range(n):
        x = around(centres[rng.integers(3 if place > n // 4 else 2)], 1, rng)[0]
        x["a"] = None if place % 29 == 5 else x["a"]
        out.append({"key": key, "order": 10 * place, "time": 1e9 + place / 3, **x, "colour": place % 4})
    return out


def features(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in ("a", "b", "colour")}


def loop(trained: Any, rows: Iterable[Mapping[str, Any] | None], **arguments: Any) -> tuple[list[Any], list[Any]]:
    """Decide the rows of one key without Spark. ``None`` closes the micro-batch, as a timer does."""
    model = OpenSetRecognizer.from_trained(trained, **(arguments or ARGUMENTS))
    for row in rows:
        if row is None:
            model.close_batch()
        else:
            model.learn_one(features(row), t=row["time"], key=row["order"])
    return list(model.drain()), list(model.drain_events())


def decided(found: Sequence[Mapping[str, Any]]) -> list[tuple[Any, ...]]:
    """Return all fields of the decisions in the output, with the bits of each float."""
    rows = [row for row in found if row["kind"] == "decision"]
    return [(row["order"], exact(row["time"]), *(exact(row[name]) for name in FIELDS)) for row in rows]


def expected(decisions: Iterable[Any]) -> list[tuple[Any, ...]]:
    return [(d.key, exact(d.t), *(exact(getattr(d, name)) for name in FIELDS)) for d in decisions]


def exact(value: Any) -> Any:
    """Return the bits of a float, so that two values are equal only if all their bits are."""
    if isinstance(value, Mapping):
        return [(str(name), exact(each)) for name, each in value.items()]
    if isinstance(value, float):
        return None if math.isnan(value) else value.hex()
    return value
