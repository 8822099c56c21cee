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
from tests.blobs import NEW, around, fitted, learn_all, refused, training_part

X = {"a": 1.0, "b": 1.0}
FRAME = pd.DataFrame([X, X])
TEXTS = {"long": "l" * 900_000, "many bytes": "\N{SNOWMAN}" * 86, "half a pair": "a\ud800"}
BLANK = {"empty": "", "blank": "  "}
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
    learn_all(model, [(x, None) for x in around(NEW, 64, np.random.default_rng(0))])
    return model, list(model.new_classes().candidates[0].subclasses)


def refuses(model: OpenSetRecognizer, error: type[Exception], ask: Callable[[], Any], why: str) -> None:
    """Nothing changes."""
    with refused(model, error, why):
        ask()


# Labels


@pytest.mark.parametrize("label", [*TEXTS.values(), *BLANK.values()], ids=[*TEXTS, *BLANK])
def test_a_label_beyond_the_bounds_opens_no_class(label: str) -> None:
    model, subclasses = emerged()
    for each in (OpenSetRecognizer(chains=1), trained()):
        refuses(each, InvalidLabel, lambda each=each: each.learn_one(X, label), "^label .*[gG]ive the class a .*name")
        refuses(each, InvalidLabel, lambda each=each: each.learn_many(FRAME, ["left", label]), "^row 1: label")
    refuses(model, InvalidLabel, lambda: model.learn_label("k", label), "label")
    refuses(model, InvalidLabel, lambda: model.promote(subclasses, label), "label")


@pytest.mark.parametrize("label", [2**63, 10**30, -(2**63) - 1, 1e30])
def test_a_whole_number_that_json_cannot_say_opens_no_class(label: float) -> None:
    model = OpenSetRecognizer(chains=1)
    model.learn_one(X, 1)
    refuses(model, InvalidLabel, lambda: model.learn_one(X, label), "more than 64 bits")


@pytest.mark.parametrize("labels", [("\N{SNOWMAN}" * 85, "l" * MOST_LABEL_BYTES), (2**63 - 1, -(2**63))])
def test_a_label_at_the_bound_is_one(labels: tuple[Any, Any]) -> None:
    model = learn_all(OpenSetRecognizer(chains=1), [(X, label) for label in labels])
    assert [*model.freeze().instances] == [*labels]


def test_the_label_of_unknown_instances_is_bounded_too() -> None:
    with pytest.raises(InvalidParameter, match=r"unknown is .* 900000 bytes as UTF-8, and 256 are allowed"):
        OpenSetRecognizer(unknown="l" * 900_000)


# Classes


def test_training_opens_so_many_classes_and_no_more() -> None:
    model, fresh = (OpenSetRecognizer(chains=1, limits=Limits(max_classes=2)) for _ in range(2))
    learn_all(model, training_part(10))
    refuses(model, InvalidLabel, lambda: model.learn_one(X, "third"), "beside 2 others, and max_classes allows 2")
    frame, labels = pd.DataFrame([X] * 3), ["one", "two", "three"]
    refuses(fresh, InvalidLabel, lambda: fresh.learn_many(frame, labels), "^row 2: .*max_classes")
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
        refuses(model, InvalidInstance, ask, "key is .*[gG]ive a shorter one")


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
    refuses(model, InvalidInstance, lambda: model.learn_one(wide, "left"), "features then, where 10000 are allowed")
