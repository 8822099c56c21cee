"""Bounds at the doors of the recognizer: what is beyond them is refused, and changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from stream_osr import Limits, OpenSetRecognizer
from stream_osr.errors import InvalidInstance, InvalidLabel, InvalidParameter
from stream_osr.limits import MOST_FEATURES, MOST_KEY_BYTES, MOST_LABEL_BYTES, check_key, fits_as_key
from tests.blobs import NEW, around, fitted, training_part

X = {"a": 1.0, "b": 1.0}
FRAME = pd.DataFrame([X, X])
TEXTS = {"long": "l" * 900_000, "many bytes": "\N{SNOWMAN}" * 86, "half a pair": "a\ud800"}
KEYS = {
    "long": "k" * (MOST_KEY_BYTES + 1),
    "many bytes": "\N{SNOWMAN}" * 1366,
    "half a pair": "a\ud800",
    "large": 2**63,
    "small": -(2**63) - 1,
    "of several": ("k" * 4000, "k" * 100),
    "deep inside": ("k", ("\ud800",)),
}


def trained(**arguments: Any) -> OpenSetRecognizer:
    return fitted(**{"chains": 1, "batch_size": 4, "seed": 5, **arguments})


def emerged(**arguments: Any) -> tuple[OpenSetRecognizer, list[int]]:
    """A recognizer with something to promote."""
    model = trained(batch_size=64, **arguments)
    for x in around(NEW, 64, np.random.default_rng(0)):
        model.learn_one(x)
    return model, list(model.new_classes().candidates[0].subclasses)


def state(model: OpenSetRecognizer) -> Any:
    return {**model.as_state(), "counters": dict(model.counters)}


def refuses(model: OpenSetRecognizer, error: type[Exception], ask: Callable[[], Any], why: str) -> None:
    """Nothing changes."""
    before = {name: repr(value) for name, value in state(model).items()}
    with pytest.raises(error, match=why):
        ask()
    assert {name: repr(value) for name, value in state(model).items()} == before


# Labels


@pytest.mark.parametrize("label", TEXTS.values(), ids=TEXTS)
def test_a_label_beyond_the_bounds_opens_no_class(label: str) -> None:
    training, streaming = OpenSetRecognizer(chains=1), trained()
    why = "^label is .*give the class a short name"
    refuses(training, InvalidLabel, lambda: training.learn_one(X, label), why)
    refuses(training, InvalidLabel, lambda: training.learn_many(FRAME, ["fine", label]), "^row 1: label")
    refuses(streaming, InvalidLabel, lambda: streaming.learn_one(X, label), why)
    refuses(streaming, InvalidLabel, lambda: streaming.learn_many(FRAME, [None, label]), "^row 1: label")
    refuses(streaming, InvalidLabel, lambda: streaming.learn_label("k", label), "label")
    model, subclasses = emerged()
    refuses(model, InvalidLabel, lambda: model.promote(subclasses, label), "label")


@pytest.mark.parametrize("label", [2**63, 10**30, -(2**63) - 1, 1e30])
def test_a_whole_number_that_json_cannot_say_opens_no_class(label: float) -> None:
    model = OpenSetRecognizer(chains=1)
    model.learn_one(X, 1)
    refuses(model, InvalidLabel, lambda: model.learn_one(X, label), "more than 64 bits")
    model.learn_one(X, 2**63 - 1)
    model.learn_one(X, -(2**63))


def test_a_label_at_the_bound_is_one() -> None:
    model = trained()
    model.learn_one(X, "\N{SNOWMAN}" * 85)  # 255 bytes
    model.learn_one(X, "l" * MOST_LABEL_BYTES)
    model.flush()
    assert len(model.summary().known) == 4


def test_the_label_of_unknown_instances_is_bounded_too() -> None:
    with pytest.raises(InvalidParameter, match=r"unknown is .* 900000 bytes as UTF-8, and 256 are allowed"):
        OpenSetRecognizer(unknown="l" * 900_000)


# Classes


def test_training_opens_so_many_classes_and_no_more() -> None:
    model = OpenSetRecognizer(chains=1, limits=Limits(max_classes=2))
    for x, label in training_part(10):
        model.learn_one(x, label)
    refuses(model, InvalidLabel, lambda: model.learn_one(X, "third"), "beside 2 others, and max_classes allows 2")
    frame = pd.DataFrame([X] * 3)
    refuses(
        fresh := OpenSetRecognizer(chains=1, limits=Limits(max_classes=2)),
        InvalidLabel,
        lambda: fresh.learn_many(frame, ["one", "two", "three"]),
        "^row 2: .*max_classes",
    )
    model.learn_one(X, "left")
    assert model.freeze().instances == {"left": 11, "right": 10}


def test_late_labels_and_promotions_find_room_or_are_refused() -> None:
    model, subclasses = emerged(max_classes=3)
    model.learn_label("never seen", "third")  # it waits, and counts
    for ask in (
        lambda: model.learn_one(X, "fourth"),
        lambda: model.learn_label("k", "fourth"),
        lambda: model.promote(subclasses, "fourth"),
    ):
        refuses(model, InvalidLabel, ask, "max_classes allows 3")
    model.promote(subclasses, "third")
    assert [group.name for group in model.summary().known] == ["left", "right", "third"]


def test_a_model_of_more_classes_goes_on() -> None:
    model = trained()
    few = OpenSetRecognizer.from_trained(model.trained, chains=1, batch_size=1, limits=Limits(max_classes=1))
    few.learn_one(X, "left")
    few.learn_one(X)
    assert len(list(few.drain())) == 1


# Keys


@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)
def test_a_key_beyond_the_bounds_is_refused(key: Any) -> None:
    model = trained()
    rows = np.ones((2, 2))
    for ask in (
        lambda: model.learn_one(X, key=key),
        lambda: model.learn_one({"a": 1.0}, key=key),
        lambda: model.learn_one(X, "left", key=key),
        lambda: model.learn_many(FRAME, key=["k", key]),
        lambda: model.learn_rows(rows, key=["k", key]),
        lambda: model.learn_label(key, "left"),
    ):
        refuses(model, InvalidInstance, ask, "key is .*give a shorter one")


@pytest.mark.parametrize(
    "key", ["k" * MOST_KEY_BYTES, 2**63 - 1, -(2**63), "\N{SNOWMAN}" * 1365, True, 2.5, None, ("k", 7, None)]
)
def test_a_key_at_the_bound_is_one(key: Any) -> None:
    model = trained(batch_size=1)
    model.learn_one(X, key=key)
    model.learn_rows(np.ones((1, 2)), key=[key])
    assert [decision.key for decision in model.drain()] == [key, key]


@pytest.mark.parametrize("key", [*KEYS.values(), "k", 7, "\N{SNOWMAN}", "\N{SNOWMAN}" * 1365, "k" * 4096])
def test_the_quick_answer_is_the_answer(key: Any) -> None:
    if not isinstance(key, tuple):
        try:
            check_key(key)
        except InvalidInstance:
            assert not fits_as_key(key)
        else:
            assert fits_as_key(key)


# Features


@pytest.mark.parametrize("name", TEXTS.values(), ids=TEXTS)
def test_no_feature_has_a_name_beyond_the_bounds(name: str) -> None:
    model = OpenSetRecognizer(chains=1)
    model.learn_one(X, "left")
    refuses(model, InvalidInstance, lambda: model.learn_one({**X, name: 1.0}, "left"), "name of a feature")


def test_one_record_does_not_widen_the_model_without_end() -> None:
    model = OpenSetRecognizer(chains=1)
    model.learn_one(X, "left")
    wide = {f"f{n}": 1.0 for n in range(MOST_FEATURES - 1)}
    refuses(model, InvalidInstance, lambda: model.learn_one(wide, "left"), "10001 features then; 10000 are allowed")


def test_in_the_stream_other_names_are_counted_as_ever() -> None:
    model = trained(batch_size=1)
    model.learn_one({**X, "l" * 900_000: 1.0})
    assert model.counters["extra"] == 1
