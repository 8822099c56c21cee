"""Data frames of what came of a stream: a row for each decision, a row for each subclass."""

from __future__ import annotations

import copy
import sys
from functools import partial
from typing import Any

import numpy as np
import pytest

from stream_osr import Decision, Limits, OpenSetRecognizer
from stream_osr.errors import InvalidParameter, MissingExtra, NotTrained
from stream_osr.frames import decisions_frame
from stream_osr.stream.discovery_table import SubclassRow

CENTRES = {"left": (0.0, 0.0), "right": (20.0, 0.0), "above": (10.0, 30.0), "below": (10.0, -40.0)}


def rows(name: str, n: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(CENTRES[name], size=(n, 2))


@pytest.fixture(scope="module")
def model() -> OpenSetRecognizer:
    """Two known classes, two new ones; of these one is dormant and set aside, one active. Not to be changed."""
    model = OpenSetRecognizer(batch_size=32, seed=7, half_life=20, limits=Limits(max_subclasses=1))
    for name in ("left", "right"):
        model.learn_many(rows(name, 100, 0), [name] * 100)
    for name, n in (("above", 64), ("left", 320), ("below", 96)):
        model.learn_many(rows(name, n, 1), key=[f"{name}-{i}" for i in range(n)])
    return model


def test_each_subclass_has_a_row(model: OpenSetRecognizer) -> None:
    frame, summary = model.to_frame(), model.summary()
    assert frame.columns.tolist() == list(SubclassRow._fields)
    known, new = (frame[frame["kind"] == kind] for kind in ("known", "new"))
    groups = {group.name: dict(group.subclasses) for group in summary.known}
    shares = ((label, zip(own["subclass_id"], own["share"], strict=True)) for label, own in known.groupby("label"))
    assert {label: dict(each) for label, each in shares} == groups
    assert known["size"].sum() == 200
    sizes = {key: size for key, size, _ in summary.emerging}
    assert dict(zip(new["subclass_id"], new["size"], strict=True)) == sizes
    assert new["size"].is_monotonic_decreasing
    assert new["label"].isna().all()
    assert known[["stage", "first_seen", "nearest_class", "new_class"]].isna().all(axis=None)


def test_stages_are_those_that_are_counted(model: OpenSetRecognizer) -> None:
    frame, stream = model.to_frame(), model.value.stream
    assert stream is not None
    assert len(stream.chains[0].dormant.ids), "one is set aside, and in the table"
    counts = frame["stage"].value_counts().to_dict()
    assert counts == {stage: n for stage, n in stream.stages._asdict().items() if n}
    assert counts.keys() >= {"active", "dormant"}
    twin = copy.copy(model)
    twin.mute(twin.new_classes().candidates[0].subclasses)
    assert {*twin.to_frame()["stage"].dropna()} - counts.keys() == {"muted"}


def test_places_in_the_stream_and_neighbours(model: OpenSetRecognizer) -> None:
    frame, found = model.to_frame(), model.new_classes()
    active = frame[frame["stage"] == "active"].iloc[0]
    assert active["first_seen"] >= 384
    assert active["last_seen"] == 479
    assert 30 < active["distance"] < 60
    for number, candidate in enumerate(found.candidates):
        own = frame[frame["new_class"] == number]
        assert own["subclass_id"].tolist() == list(candidate.subclasses)
        assert own["size"].sum() == candidate.size
        assert own["nearest_class"].iloc[0] == candidate.nearest_class


def test_each_decision_has_a_row(model: OpenSetRecognizer) -> None:
    decisions = list(model.value.decisions)
    frame = decisions_frame(decisions)
    names = [name for name in Decision._fields if name != "probabilities"]
    assert frame.columns.tolist() == names
    assert len(frame) == 480
    for name in ("key", "label", "seq", "p_unknown"):
        assert frame[name].tolist() == [getattr(d, name) for d in decisions]
    assert frame["subclass_id"].dtype == "Int64"


def test_probabilities_have_columns_on_request(model: OpenSetRecognizer) -> None:
    first = model.value.decisions[0]
    later = first._replace(probabilities={"left": 0.5, "right": 0.2, "new": 0.1, "unknown": 0.2})
    frame = decisions_frame([first, later], probabilities=True)
    assert frame.columns.tolist()[-3:] == ["P(left)", "P(right)", "P(new)"], "a class that was opened later"
    assert frame["P(left)"].tolist() == [first.probabilities["left"], 0.5]
    assert frame["P(new)"].tolist() == [0.0, 0.1]


def test_draining_into_a_frame(model: OpenSetRecognizer) -> None:
    twin = copy.copy(model)
    frame = twin.decisions_frame(library="polars")
    assert frame.height == 480
    assert list(twin.drain()) == []
    assert twin.decisions_frame().shape == (0, 13)
    with pytest.raises(InvalidParameter):
        model.decisions_frame(library="arrow")  # type: ignore[arg-type]
    assert len(model.value.decisions) == 480, "nothing is lost"


def test_pandas_and_polars_say_the_same(model: OpenSetRecognizer) -> None:
    import pandas as pd
    import polars as pl

    for table in (model.to_frame, partial(decisions_frame, list(model.value.decisions), probabilities=True)):
        one, other = table(), table(library="polars")
        assert isinstance(one, pd.DataFrame)
        assert isinstance(other, pl.DataFrame)
        columns = {name: [None if pd.isna(v) else v for v in one[name]] for name in one}
        assert other.to_dict(as_series=False) == columns


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_what_is_missing_is_named(library: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(MissingExtra, match=f"needs {library}"):
        decisions_frame([], library=library)


def test_before_anything_was_learnt() -> None:
    with pytest.raises(NotTrained):
        OpenSetRecognizer().to_frame()
