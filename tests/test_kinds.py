"""Which features are categories, how their values are read, and what a recognizer does with them."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest

from stream_osr import ModelOptions, OpenSetRecognizer, SubclassEmerged
from stream_osr.config import grouped
from stream_osr.errors import InvalidFeature, InvalidParameter
from stream_osr.instances.features import Features
from stream_osr.instances.kinds import OTHER, Kinds, category_of, commonest
from stream_osr.support.limits import MOST_CATEGORY_BYTES
from tests.blobs import ended


def test_values_are_text_and_others_are_refused() -> None:
    for value, text in (("", ""), (np.False_, "false"), (2.5, "2.5"), ("3", "3")):
        assert category_of("a", value) == text
    for value in (b"x", [1], object(), "x" * (MOST_CATEGORY_BYTES + 1), "\ud800"):
        with pytest.raises(InvalidFeature):
            category_of("a", value)


def test_the_first_value_says_what_a_feature_is() -> None:
    features = Features(()).extended_by({"a": 1.5, "b": "x", "c": True, "d": None, "e": 3}, ("e",))
    assert features.kinds == Kinds({"b": ("x",), "c": ("true",), "e": ("3",)}, frozenset("d"), frozenset("e"))
    later = features.extended_by({"a": 2.0, "b": 7, "d": "late"}, ())
    assert later.kinds.values == {"b": ("x", "7"), "c": ("true",), "d": ("late",), "e": ("3",)}
    assert later.extended_by({"a": 2.0, "b": "x", "c": False}, ()).kinds.values["c"] == ("true", "false")
    assert later.extended_by({"b": "x"}, ()) is later


def test_only_the_commonest_of_very_many_values_are_kept() -> None:
    kinds = Kinds({"a": ("p", "q", "r", "never")})
    X, kept = commonest(np.array([[0.0], [2.0], [2.0], [1.0], [1.0], [np.nan], [OTHER]]), ("a",), kinds, 2)
    assert kept.values == {"a": ("q", "r")}
    np.testing.assert_array_equal(X[:, 0], [OTHER, 1.0, 1.0, 0.0, 0.0, np.nan, OTHER])


def taught(**arguments: Any) -> OpenSetRecognizer:
    """Two classes, of which one comes two ways; training is still going on."""
    rng = np.random.default_rng(0)
    model = OpenSetRecognizer(**grouped(batch_size=32, chains=2, seed=3, training_sweeps=10, **arguments))
    for a, b in rng.normal(size=(80, 2)):
        model.learn_one({"a": a, "b": b, "way": "tcp" if a > -1 else "udp"}, "left")
        model.learn_one({"a": a + 20, "b": b, "way": "udp"}, "right")
    return model


@pytest.fixture
def model() -> OpenSetRecognizer:
    """The same, with its training ended."""
    out = taught()
    out.freeze()
    return out


def test_a_value_never_seen_is_new_and_a_missing_one_is_not(model: OpenSetRecognizer) -> None:
    for way in ("tcp", "icmp", None):
        model.learn_one({"a": 0.3, "b": 0.2, "way": way}, key=way)
    usual, new, missing = ended(model)
    assert usual.label == missing.label == "left"
    assert new.p_unknown > 5 * usual.p_unknown
    at_once = [model.predict_proba_one({"a": 0.3, "b": 0.2, "way": way})["unknown"] for way in ("tcp", "icmp")]
    assert at_once[1] > 5 * at_once[0]
    assert model.counters["missing"] == 1


def test_a_category_that_training_never_saw_is_refused() -> None:
    model = OpenSetRecognizer(categorical=["port", "prot"])
    for number in range(20):
        model.learn_one({"port": number % 3, "size": number}, "ab"[number % 2])
    expected = "categorical has 'prot', which is not a feature of the training instances: did you mean 'port'?"
    for ends in (model.freeze, lambda: model.learn_one({"port": 1, "size": 3})):
        with pytest.raises(InvalidParameter, match=re.escape(expected)):
            ends()
    model.learn_one({"prot": 1, "port": 1, "size": 3}, "a")
    assert model.freeze().instances == {"a": 11, "b": 10}


def streamed(model: OpenSetRecognizer, seed: int, n: int = 200, new: str = "sctp") -> OpenSetRecognizer:
    """Let known instances come, and a new class whose way is new."""
    rng = np.random.default_rng(seed)
    for number in range(n):
        a, b = rng.normal(size=2)
        x = {"a": a, "b": b, "way": "tcp" if a > -1 else "udp"}
        if number % 2:
            x = {"a": 10 + a, "b": 8 + b, "way": new}
        model.learn_one(x, key=number)
    model.flush()
    return model


def test_explanations_say_which_values_are_new(model: OpenSetRecognizer) -> None:
    streamed(model, 1)
    (first, *_) = [event for event in model.drain_events() if isinstance(event, SubclassEmerged)]
    assert set(first.explanation.values) == {"way"}
    way = first.explanation.values["way"]
    assert way["value"] is None
    assert way["share"] > max(0.8, way["usual_share"] + 0.01)
    share = round(100 * way["share"])
    assert first.explanation.category_texts == (f"way: a new value {share} %, {way['usual']} usual",)
    assert set(first.explanation.mean) == set(first.explanation.shift) == {"a", "b"}


def test_what_emerged_is_named_undone_and_carried_over_to_a_model_with_other_values(model: OpenSetRecognizer) -> None:
    streamed(model, 1)
    (key, *_) = [event.subclass_id for event in model.drain_events() if isinstance(event, SubclassEmerged)]
    list(model.drain())
    before = model.predict_proba_one({"a": 10.0, "b": 8.0, "way": "sctp"})
    model.promote([key], "third")
    assert model.predict_one({"a": 10.0, "b": 8.0, "way": "sctp"}) == "third"
    model.undo()
    assert model.predict_proba_one({"a": 10.0, "b": 8.0, "way": "sctp"}) == before
    other = OpenSetRecognizer(batch_size=32, chains=2, seed=4, model=ModelOptions(training_sweeps=10))
    rng = np.random.default_rng(5)
    for a, b in rng.normal(size=(80, 2)):
        other.learn_one({"a": a, "b": b, "way": "udp" if a < -1 else "tcp"}, "left")  # values in another order
        other.learn_one({"a": a + 20, "b": b, "way": "quic" if a > 1 else "udp"}, "right")
    other.freeze()
    other.carry_over(model)
    assert key in other.value.running[1].state.ids
    assert other.predict_one({"a": 10.0, "b": 8.0, "way": "sctp"}) == "unknown"
    slot = other.value.running[1].state.ids.tolist().index(key)
    none, _, _, _, another, *_ = other.value.running[1].state.dishes.counts[slot]  # tcp, udp, quic between them
    assert another == none > 50


def test_late_labels_and_missing_numbers_beside_categories(model: OpenSetRecognizer) -> None:
    streamed(model, 2, 100)
    model.learn_label(3, "third")
    model.learn_one({"a": None, "b": 0.0, "way": "tcp"}, key="gap")
    model.learn_one({"a": 10.0, "b": None, "way": None}, "third")
    model.learn_one({"a": None, "b": None, "way": "udp"}, key="more")
    decided = {d.key: d for d in ended(model)}
    assert decided["gap"].label == "left"
    assert all(math.isfinite(d.p_unknown) for d in decided.values())
    assert model.predict_one({"a": None, "b": 0.0, "way": "tcp"}) == "left"
