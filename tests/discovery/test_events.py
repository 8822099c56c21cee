"""Events and decisions as records that can be written down anywhere."""

from __future__ import annotations

import dataclasses
import json
import pickle
from typing import Any

import numpy as np
import pytest

from stream_osr import (
    ActionUndone,
    ClassDrifted,
    ColumnFailed,
    DependenceFound,
    Event,
    EventsSummed,
    Limits,
    NewClassesChanged,
    OpenSetRecognizer,
    RecallDropped,
    RowsRepeated,
    SubclassDormant,
    SubclassEmerged,
    SubclassForgotten,
    SubclassGrew,
    SubclassMerged,
    SubclassMuted,
    SubclassPromoted,
    SubclassRecurred,
    SubclassRefuted,
    SubclassSplit,
    UnknownRateJumped,
)
from tests.doors.discovery import Explanation, Moment, Movement

ABOUT: dict[str, Any] = {"batch": 3, "seq": 127, "model": "f" * 64}
EXPLANATION = Explanation({"a": 1.0, 2: -0.5}, {"a": 1.5, 2: 0.0}, {"a": 3.0, 2: 0.0}, ("a", 2), "left", 4, 6.5)
SUBCLASS: dict[str, Any] = {
    **ABOUT,
    "subclass_id": 9,
    "first_seen": Moment(100, 1.5, "k100"),
    "last_seen": Moment(127, None, None),
    "size": 12,
    "share": 0.09375,
    "support": 11.2,
    "trend": 93.75,
    "exemplars": ("k100", None, 7),
    "explanation": EXPLANATION,
}
EVENTS: list[Event] = [
    SubclassEmerged(**SUBCLASS),
    SubclassGrew(**SUBCLASS),
    SubclassDormant(**SUBCLASS),
    SubclassRecurred(**SUBCLASS),
    SubclassMerged(**ABOUT, subclass_id=12, into=9, size=20),
    SubclassSplit(**ABOUT, subclass_id=9, new_id=13, sizes=(12, 8), exemplars=("k3",), explanation=EXPLANATION),
    SubclassMuted(**SUBCLASS),
    SubclassPromoted(**SUBCLASS, label="sky"),
    ActionUndone(**ABOUT, action="promotion", subclass_ids=(5, 9), label="sky"),
    SubclassForgotten(**ABOUT, subclass_id=9, last_seen=Moment(127, None, None)),
    SubclassRefuted(**ABOUT, subclass_id=9, label="left", known_share=0.875, size=20),
    UnknownRateJumped(**ABOUT, rate=0.3, before=0.02, since=640, size=64),
    ColumnFailed(**ABOUT, column="a", kind="stuck", since=90, size=16, value=0.0, low=1.0, high=2.0, longest=1),
    DependenceFound(**ABOUT, kind="neighbours depend", labels=("left",), correlation=0.25, since=128),
    RowsRepeated(**ABOUT, first=Moment(96, None, "k"), size=32, usual=1),
    RecallDropped(**ABOUT, recall=0.8, low=0.76, high=0.84, false_unknown=0.19, promised=0.97),
    EventsSummed(**ABOUT, counts={"SubclassGrew": 7, "SubclassEmerged": 2}, since=3, until=90, emerged=(5, 9)),
    NewClassesChanged(**ABOUT, delta=2, before=1, subclasses=(5, 9)),
    ClassDrifted(
        **ABOUT,
        label="left",
        direction="sparser",
        since=96,
        size=30,
        rank_before=0.5,
        rank_now=0.125,
        movement=Movement({"a": 1.0, 2: -0.5}, {"a": 0.5, 2: -0.5}, {"a": 3.0, 2: 0.0}),
    ),
]


@pytest.mark.parametrize("event", EVENTS, ids=lambda e: type(e).__name__)
def test_event_as_a_dict(event):
    out = event.as_dict()
    assert next(iter(out)) == "type"
    assert out["type"] == type(event).__name__
    assert list(out)[1:] == [f.name for f in dataclasses.fields(event)]
    again = json.loads(json.dumps(out, allow_nan=False))
    assert again["batch"] == 3
    for name in ("first_seen", "last_seen"):
        if name in again:
            assert set(again[name]) == {"seq", "t", "key"}
    if "movement" in again:
        assert again["movement"]["shift"] == {"a": 3.0, "2": 0.0}
    if "explanation" in again:
        assert again["explanation"] == {
            "mean": {"a": 1.0, "2": -0.5},
            "difference": {"a": 1.5, "2": 0.0},
            "shift": {"a": 3.0, "2": 0.0},
            "most_moved": ["a", 2],
            "nearest_class": "left",
            "nearest_subclass": 4,
            "distance": 6.5,
        }


@pytest.mark.parametrize("event", EVENTS, ids=lambda e: type(e).__name__)
def test_event_is_a_frozen_value(event):
    assert pickle.loads(pickle.dumps(event)) == event
    with pytest.raises(dataclasses.FrozenInstanceError):
        event.batch = 4
    event.as_dict()["batch"] = 4
    assert event.batch == 3


@pytest.mark.parametrize(
    "names",
    [("a", "b"), (0, 1), (("sensor", 1), ("sensor", 2)), (None, True), (1.5, 2.5)],
    ids=["text", "numbers", "tuples", "odd", "floats"],
)
@pytest.mark.parametrize("labels", [("left", "right"), (0, 1), (False, True)], ids=["text", "numbers", "booleans"])
def test_everything_told_can_be_written_as_json(names, labels):
    model = OpenSetRecognizer(batch_size=16, max_wait=50, limits=Limits(max_subclasses=1))
    rng = np.random.default_rng(1)

    def instance(centre: tuple[float, float]) -> dict[Any, float]:
        return dict(zip(names, rng.normal(centre).tolist(), strict=True))

    for i in range(80):
        model.learn_one(instance((10.0 * (i % 2), 0.0)), labels[i % 2])
    keys: list[Any] = [None, "text", 5, np.int64(6), ("tuple", 1), 2.5, True]
    for i in range(320):
        where = (4.0, 14.0) if i < 160 else (-20.0, -30.0)
        model.learn_one(instance(where), t=[None, i, 0.5 * i, np.float32(i)][i % 4], key=keys[i % 7])
    model.flush()
    decisions, events = list(model.drain()), list(model.drain_events())
    assert {type(event).__name__ for event in events} >= {"SubclassEmerged", "SubclassGrew", "NewClassesChanged"}
    for told in (*decisions, *events):
        out = json.loads(json.dumps(told.as_dict(), allow_nan=False))
        if "probabilities" in out:
            assert list(out["probabilities"]) == [*map(str, labels), "unknown" if labels[0] == "left" else "-1"]
        if "explanation" in out:
            assert list(out["explanation"]["mean"]) == list(out["explanation"]["shift"])
            assert set(out["explanation"]["mean"]) == set(map(str, names))
            assert out["explanation"]["nearest_class"] in labels
