"""A network-intrusion stream with text columns runs as tables without an encoder."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from tests.examples import example
from tests.test_cli import lines_of, succeeded

intrusion = example("intrusion")
LABELLED, STREAM = 600, 1200


def check_shares(pairs: Iterable[tuple[str, str]]) -> None:
    """Check how many known connections get their own label, and how many new ones are called unknown."""
    known, new = list[bool](), list[bool]()
    for kind, label in pairs:
        (known if kind in intrusion.KNOWN else new).append(label == (kind if kind in intrusion.KNOWN else "unknown"))
    assert np.mean(known) > 0.97
    assert np.mean(new) > 0.85


def test_as_tables(tmp_path: Path) -> None:
    import pandas as pd

    intrusion.write(tmp_path, LABELLED, STREAM, 3)
    succeeded(tmp_path, "fit", "labelled.csv", "--label", "kind", "--key", "id", "-o", "model.osr")
    rows = pd.read_csv(tmp_path / "stream.csv", dtype=str)
    rows.loc[5, "src_bytes"] = "much"  # the column is numeric, by its values in training
    rows.loc[6:7, "service"] = ["17", ""]  # a number is a value like any other
    rows.to_csv(tmp_path / "stream.csv", index=False)
    files = ("--output", "decisions.jsonl", "--events", "events.jsonl", "--errors", "bad.jsonl")
    succeeded(tmp_path, "run", "-m", "model.osr", "-i", "stream.csv", "--key", "id", *files)
    (bad,) = lines_of(tmp_path / "bad.jsonl")
    assert "column 'src_bytes' holds 'much', which is not a finite number, and the column is numeric" in bad["reason"]
    truth = dict(zip(rows["id"], rows["kind"], strict=True))
    check_shares((truth[d["key"]], d["label"]) for d in lines_of(tmp_path / "decisions.jsonl"))
