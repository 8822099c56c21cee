"""Events and decisions as records that can be written down anywhere."""

from __future__ import annotations

import dataclasses
import json
import pickle
from typing import Any

import numpy as np
import pytest

from stream_osr import Event, Limits, OpenSetRecognizer
from stream_osr.discovery import events
from stream_osr.discovery.event_base import Explanation, Moment, Movement
from tests.blobs import drained, further

ABOUT: dict[str, Any] = {"batch": 3, "seq": 127, "model": "f" * 64}
EXPLANATION = Explanation({"a": 1.0, 2: -0.5}, {"a": 1.5, 2: 0.0}, {"a": 3.0, 2: 0.0}, ("a", 2), "left", 4, 6.5)
MOVED = Movement({"a": 1.0, 2: -0.5}, {"a": 0.5, 2: -0.5}, {"a": 3.0, 2: 0.0})
SEEN = {"first_seen": Moment(100, 1.5, "k100"), "last_seen": Moment(127, None, None)}
FIGURES = {"size": 12, "share": 0.09375, "support": 11.2, "trend": 93.75}
SUBCLASS: dict[str, Any] = {
    **{**ABOUT, **SEEN, **FIGURES},
    **{"subclass_id": 9, "exemplars": ("k100", None, 7), "explanation": EXPLANATION},
}


OF_SUBCLASSES = ("Emerged", "Grew", "Dormant", "Recurred", "Muted")
EVENTS: list[Event] = [
    *(getattr(events, f"Subclass{kind}")(**SUBCLASS) for kind in OF_SUBCLASSES),
    events.SubclassMerged(**ABOUT, subclass_id=12, into=9, size=20),
    events.SubclassSplit(**ABOUT, subclass_id=9, new_id=13, sizes=(12, 8), exemplars=("k",), explanation=EXPLANATION),
    events.SubclassPromoted(**SUBCLASS, label="sky"),
    events.ActionUndone(**ABOUT, action="promotion", subclass_ids=(5, 9), label="sky"),
    events.SubclassForgotten(**ABOUT, subclass_id=9, last_seen=Moment(127, None, None)),
    events.SubclassRefuted(**ABOUT, subclass_id=9, label="left", known_share=0.875, size=20),
    events.UnknownRateJumped(**ABOUT, rate=0.3, before=0.02, since=640, size=64),
    events.ColumnFailed(**ABOUT, column="a", kind="stuck", since=9, size=16, value=0.0, low=1.0, high=2.0, longest=1),
    events.DependenceFound(**ABOUT, kind="neighbours depend", labels=("left",), correlation=0.25, since=128),
    events.FrameMoved(**ABOUT, columns=("a",), offset={"a": 4.1}, shift={"a": 2.3}, since=0, share=0.9),
    events.RowsRepeated(**ABOUT, first=Moment(96, None, "k"), size=32, usual=1),
    events.RecallDropped(**ABOUT, recall=0.8, low=0.76, high=0.84, false_unknown=0.19, promised=0.97),
    events.EventsSummed(**ABOUT, counts={"SubclassGrew": 7, "SubclassEmerged": 2}, since=3, until=90, emerged=(5, 9)),
    events.NewClassesChanged(**ABOUT, delta=2, before=1, subclasses=(5, 9)),
    events.ClassDrifted(
        **ABOUT, label="left", direction="sparser", since=96, size=30, rank_before=0.5, rank_now=0.125, movement=MOVED
    ),
]


def test_an_event_is_a_frozen_value_and_a_dict():
    for event in EVENTS:
        assert pickle.loads(pickle.dumps(event)) == event
        with pytest.raises(dataclasses.FrozenInstanceError):
            event.batch = 4
        out = event.as_dict()
        assert list(out) == ["type", *(f.name for f in dataclasses.fields(event))]
        assert out["type"] == type(event).__name__
        again = json.loads(json.dumps(out, allow_nan=False))
        out["batch"] = 4
        assert event.batch == again["batch"] == 3
        for name in {"first_seen", "last_seen"} & again.keys():
            assert set(again[name]) == {"seq", "t", "key"}
        if "movement" in again:
            assert again["movement"]["shift"] == {"a": 3.0, "2": 0.0}
        if "explanation" in again:
            assert list(again["explanation"]) == [name for name in Explanation._fields if name != "values"]
            assert again["explanation"]["difference"] == {"a": 1.5, "2": 0.0}
            assert again["explanation"]["most_moved"] == ["a", 2]


@pytest.mark.parametrize(
    ("names", "labels"),
    [
        (("a", "b"), ("left", "right")),
        *further(((0, 1), (0, 1)), ((("sensor", 1), ("sensor", 2)), (False, True)), ((1.5, 2.5), ("left", "right"))),
        ((None, True), (0, 1)),
    ],
)
def test_decisions_and_events_can_be_written_as_json(names, labels):
    model = OpenSetRecognizer(batch_size=16, max_wait=50, limits=Limits(max_subclasses=1))
    rng = np.random.default_rng(1)

    def instances(n: int, *centres: tuple[float, float]) -> list[dict[Any, float]]:
        return [dict(zip(names, rng.normal(centres[i % len(centres)]).tolist(), strict=True)) for i in range(n)]

    for i, x in enumerate(instances(80, (0.0, 0.0), (10.0, 0.0))):
        model.learn_one(x, labels[i % 2])
    keys: list[Any] = [None, "text", 5, np.int64(6), ("tuple", 1), 2.5, True]
    for i, x in enumerate(instances(160, (4.0, 14.0)) + instances(160, (-20.0, -30.0))):
        model.learn_one(x, t=[None, i, 0.5 * i, np.float32(i)][i % 4], key=keys[i % 7])
    model.flush()
    decisions, found = drained(model)
    assert {type(event).__name__ for event in found} >= {"SubclassEmerged", "SubclassGrew", "NewClassesChanged"}
    for each in (*decisions, *found):
        out = json.loads(json.dumps(each.as_dict(), allow_nan=False))
        if "probabilities" in out:
            assert list(out["probabilities"]) == [*map(str, labels), "unknown" if labels[0] == "left" else "-1"]
        if "explanation" in out:
            assert list(out["explanation"]["mean"]) == list(out["explanation"]["shift"])
            assert set(out["explanation"]["mean"]) == set(map(str, names))
            assert out["explanation"]["nearest_class"] in labels
