"""Bounds on labels, keys, features and classes: anything beyond them is refused and changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from stream_osr import Limits, OpenSetRecognizer
from stream_osr.errors import InvalidInstance, InvalidLabel, InvalidParameter
from stream_osr.support.limits import MOST_FEATURES, MOST_KEY_BYTES, MOST_LABEL_BYTES, check_key, fits_as_key
from tests.blobs import NEW, around, fitted, learn_all, refused, training_part

X = {"a": 1.0, "b": 1.0}
TEXTS = ("l" * 900_000, "\N{SNOWMAN}" * 86, "a\ud800")
KEYS = ("k" * (MOST_KEY_BYTES + 1), "\N{SNOWMAN}" * 1366, "a\ud800", 2**63, -(2**63) - 1)
"""Keys beyond the bounds."""
KEYS_AT_THE_BOUND = ("k" * MOST_KEY_BYTES, 2**63 - 1, -(2**63), "\N{SNOWMAN}" * 1365, True, 2.5, None)


def trained(**arguments: Any) -> OpenSetRecognizer:
    return fitted(**{"chains": 1, "batch_size": 4, "seed": 5, **arguments})


def emerged(**arguments: Any) -> tuple[OpenSetRecognizer, list[int]]:
    """A recognizer with something to promote."""
    model = trained(batch_size=64, **arguments)
    learn_all(model, [(x, None) for x in around(NEW, 64, np.random.default_rng(0))])
    return model, list(model.new_classes().candidates[0].subclasses)


def refuses(model: OpenSetRecognizer, error: type[Exception], act: Callable[[], Any], why: str) -> None:
    """Check that an act is an error and changes nothing."""
    with refused(model, error, why):
        act()


# Labels


def test_a_label_beyond_the_bounds_opens_no_class() -> None:
    (model, subclasses), fresh = emerged(), OpenSetRecognizer(chains=1)
    for label in (*TEXTS, "", "  "):
        for each in (fresh, model):
            acts = partial(each.learn_one, X, label), partial(each.learn_many, [X, X], ["left", label])
            refuses(each, InvalidLabel, acts[0], "^label .*[gG]ive the class a .*name")
            refuses(each, InvalidLabel, acts[1], "^row 1: label")
        refuses(model, InvalidLabel, partial(model.learn_label, "k", label), "label")
        refuses(model, InvalidLabel, partial(model.promote, subclasses, label), "label")
    fresh.learn_one(X, 1)
    for number in (2**63, 10**30, -(2**63) - 1, 1e30):  # JSON has no such whole numbers
        refuses(fresh, InvalidLabel, partial(fresh.learn_one, X, number), "more than 64 bits")


def test_a_label_at_the_bound_is_one() -> None:
    for labels in (("\N{SNOWMAN}" * 85, "l" * MOST_LABEL_BYTES), (2**63 - 1, -(2**63))):
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
    frame, labels = [X] * 3, ["one", "two", "three"]
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


def test_a_key_beyond_the_bounds_is_refused() -> None:
    model, rows = trained(), np.ones((2, 2))
    for key in (*KEYS, ("k" * 4000, "k" * 100), ("k", ("\ud800",))):
        for act in (
            partial(model.learn_one, X, key=key),
            partial(model.learn_one, {"a": 1.0}, key=key),
            partial(model.learn_one, X, "left", key=key),
            partial(model.learn_many, [X, X], key=["k", key]),
            partial(model.learn_rows, rows, key=["k", key]),
            partial(model.learn_label, key, "left"),
        ):
            refuses(model, InvalidInstance, act, "key is .*[gG]ive a shorter one")
    assert not any(map(fits_as_key, KEYS)), "the quick check says the same"


def test_a_key_at_the_bound_is_one() -> None:
    model = trained(batch_size=1)
    for key in (*KEYS_AT_THE_BOUND, ("k", 7, None)):
        model.learn_one(X, key=key)
        model.learn_rows(np.ones((1, 2)), key=[key])
        assert [decision.key for decision in model.drain()] == [key, key]
    for key in (*KEYS_AT_THE_BOUND[:4], "k", 7, "\N{SNOWMAN}"):
        check_key(key)
        assert fits_as_key(key)


# Features


def test_names_and_number_of_features_are_bounded() -> None:
    model = OpenSetRecognizer(chains=1)
    model.learn_one(X, "left")
    for name in TEXTS:
        refuses(model, InvalidInstance, partial(model.learn_one, {**X, name: 1.0}, "left"), "name of a feature")
    wide = {f"f{n}": 1.0 for n in range(MOST_FEATURES - 1)}
    refuses(model, InvalidInstance, partial(model.learn_one, wide, "left"), "features then, where 10000 are allowed")
