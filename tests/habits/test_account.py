"""What ``run`` and ``inspect`` say at their end: plain words, and nothing that differs from training stays unsaid."""

from __future__ import annotations

import copy
import json
import pickle
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stream_osr import OpenSetRecognizer
from stream_osr.archive.recognizers import content_of, restored
from stream_osr.discovery.summaries import ALL_MET, MOST_IGNORED, SchemaMismatch
from stream_osr_connectors.files import open_sink
from stream_osr_connectors.files.checkpoint import load_checkpoint
from stream_osr_connectors.files.rejected_record import MOST_KINDS, OTHERS, count_kind
from tests.connectors.parquet import write_parquet
from tests.test_cli import call

CENTRES = {"idle": (0.0, 0.0, 0.0), "running": (12.0, 0.0, 4.0), "new": (60.0, 60.0, 60.0)}
NAMES = ("flow", "heat", "noise")


def rows(n: int, *kinds: str, seed: int = 0) -> list[dict[str, Any]]:
    rng = np.random.default_rng(seed)
    values = [rng.normal(CENTRES[kinds[at % len(kinds)]]).tolist() for at in range(n)]
    return [{**dict(zip(NAMES, row, strict=True)), "way": "ab"[at % 3 == 0]} for at, row in enumerate(values)]


@cache
def trained() -> bytes:
    model = OpenSetRecognizer(chains=1, batch_size=16)
    for place, x in enumerate(rows(80, "idle", "running")):
        model.learn_one(x, ("idle", "running")[place % 2])
    model.freeze()
    return pickle.dumps(model)


@pytest.fixture
def model() -> OpenSetRecognizer:
    found: OpenSetRecognizer = pickle.loads(trained())
    return found


@pytest.fixture
def work(model: OpenSetRecognizer, tmp_path: Path) -> Path:
    model.save(tmp_path / "m.osr")
    return tmp_path


def run(work: Path, some: list[dict[str, Any]], *more: str) -> str:
    (work / "new.jsonl").write_text("".join(json.dumps(one) + "\n" for one in some))
    done = call("run", "-m", "m.osr", "-i", "new.jsonl", "-o", "out.jsonl", *more, cwd=work)
    assert done.returncode == 0, done.stderr
    return str(done.stderr)


def ends(work: Path, some: list[dict[str, Any]], *more: str) -> tuple[str, str]:
    """The end of a run, and of ``inspect``."""
    said = run(work, some, *more)
    return said, call("inspect", "out.jsonl.checkpoint", cwd=work).stdout


def test_a_run_in_which_all_is_unknown_says_so(work: Path) -> None:
    for said in ends(work, rows(60, "new")):
        assert "60 instances decided in all: 0 known, 60 unknown (100.0 %)" in said
        assert ", 0.0 % called unknown" not in said
        assert "of the known instances alone, estimated share labelled right: " in said
        assert "candidates: 1" in said


def test_a_run_in_which_nothing_is_new_says_so(work: Path) -> None:
    for said in ends(work, rows(60, "idle")):
        assert "60 instances decided in all: 60 known, 0 unknown (0.0 %)\nnew subclasses: none" in said
        for word in ("no record has had", "none of whose values", "does not use", "set aside", "promote"):
            assert word not in said


def test_the_next_command_can_be_run(work: Path) -> None:
    said, looked_at = ends(work, rows(60, "idle", "new"))
    assert said.splitlines()[-1] == "next, to look at it: stream-osr inspect out.jsonl.checkpoint"
    command = looked_at.splitlines()[-1].partition(": stream-osr ")[2]
    done = call(*command.replace("NAME", "fox").split(), cwd=work)
    assert done.returncode == 0, done.stderr
    assert load_checkpoint(work / "out.jsonl.checkpoint").model.new_classes().candidates == ()


@pytest.mark.parametrize("change", ["renamed", "gone", "null"])
def test_a_feature_that_no_record_has_had_is_named(work: Path, change: str) -> None:
    some = rows(40, "idle")
    for one in some:
        flow = one.pop("flow")
        if change != "gone":
            one["Flow" if change == "renamed" else "flow"] = flow if change == "renamed" else None
    for said in ends(work, some):
        assert "feature of training that no record has had: flow\n" in said
        assert ("column that the model does not use: Flow\n" in said) == (change == "renamed")


@pytest.mark.parametrize("value", ["A", 7, " a"])
def test_a_category_none_of_whose_values_was_known_is_named(model: OpenSetRecognizer, value: Any) -> None:
    for x in rows(20, "idle"):
        model.learn_one({**x, "way": value})
    known = model.trained.features.row({**rows(1, "idle")[0], "way": value}).values[3] < 2
    assert ("way" in model.summary().unmet.categories) == (not known)
    assert ("category none of whose values training had: way" in str(model.summary())) == (not known)
    model.learn_one({**rows(1, "idle")[0], "way": "a"})
    assert model.summary().unmet.categories == frozenset()


@pytest.mark.parametrize("kind", ["csv", "tsv", "jsonl", "parquet"])
def test_a_column_that_the_model_ignores_is_named_and_the_key_is_not(work: Path, kind: str) -> None:
    records = [{**x, "grower": 1, "id": "abcdefgh"[at]} for at, x in enumerate(rows(8, "idle"))]
    if kind == "parquet":
        write_parquet(work / "new.parquet", records)
    else:
        with open_sink(work / f"new.{kind}") as sink:
            for record in records:
                sink.write(record)
    done = call("run", "-m", "m.osr", "-i", f"new.{kind}", "-o", "out.jsonl", "--key", "id", cwd=work)
    assert "column that the model does not use: grower\n" in done.stderr


def test_frames_have_the_same_summary_as_dictionaries(model: OpenSetRecognizer) -> None:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    for frame in (pd.DataFrame, pl.DataFrame, pa.Table.from_pylist):
        other = copy.copy(model)
        other.learn_many(frame([{**x, "grower": 1} for x in rows(8, "idle")]))
        unmet = other.summary().unmet
        assert (unmet.features, unmet.ignored) == (frozenset(), ("grower",))


def test_names_of_ignored_columns_and_kinds_of_reasons_are_bounded(model: OpenSetRecognizer) -> None:
    for place, x in enumerate(rows(3, "idle")):
        model.learn_one({**x, **{f"more {place} {number}": 1 for number in range(15)}})
    assert len(model.summary().unmet.ignored) == MOST_IGNORED
    assert "and 14 more" in str(model.summary())
    reasons = Counter[str]()
    for number in range(200):
        count_kind(reasons, "it is " + "x" * number)
    assert (len(reasons), reasons[OTHERS], reasons.total()) == (MOST_KINDS + 1, 200 - MOST_KINDS, 200)


def test_what_was_not_met_survives_saving_and_copying(model: OpenSetRecognizer, tmp_path: Path) -> None:
    for x in rows(20, "idle"):
        del x["flow"]
        model.learn_one({**x, "way": "A", "grower": 1})
    before = model.summary().unmet
    assert before == SchemaMismatch(frozenset(["flow"]), frozenset(["way"]), ("grower",))
    model.save(tmp_path / "m.osr")
    for other in (OpenSetRecognizer.load(tmp_path / "m.osr"), copy.copy(model), pickle.loads(pickle.dumps(model))):
        assert other.summary().unmet == before
    state = content_of(model, model.value)
    del state["unmet"]  # as before the first instance
    assert restored(OpenSetRecognizer, state).summary().unmet == ALL_MET


def test_what_came_before_a_resumed_run_counts(work: Path) -> None:
    some = rows(40, "idle")
    first = [*some[:20], {"flow": "high"}]
    run(work, first)
    later = [{name: value for name, value in one.items() if name != "flow"} for one in some[20:]]
    said = run(work, [*first, *later, {"flow": "low"}], "--resume")
    assert "no record has had" not in said
    assert "2 set aside" in said
    assert "  2: " in said


def test_reasons_are_counted_by_their_kind(work: Path) -> None:
    some = rows(20, "idle")
    bad = [{**some[0], "heat": text} for text in ("hot", "it's", "9 o'clock")] + [{**some[0], "noise": "loud"}]
    for said in ends(work, [*some, *bad]):
        assert "4 set aside; " in said
        assert "  3: feature 'heat' is …: expected a finite number" in said
        assert "  1: feature 'noise' is …: expected a finite number" in said
