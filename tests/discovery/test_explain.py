"""Explanations of emerging subclasses, where the answer is known."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from stream_osr import ModelOptions, OpenSetRecognizer, SubclassEmerged
from stream_osr.config import grouped

# Two features in units of their own: a in thousands around five million, b in thousandths.
UNITS, ORIGIN = np.array([1e3, 1e-3]), np.array([5e6, -0.2])
NEAR, FAR, NEW = np.array([0.0, 0.0]), np.array([40.0, 0.0]), np.array([3.0, -12.0])


def announced(model: OpenSetRecognizer) -> SubclassEmerged:
    """The event of the largest subclass that has emerged."""
    emerged = [event for event in model.drain_events() if isinstance(event, SubclassEmerged)]
    return max(emerged, key=lambda event: event.size)


def watch(to_features: Any, **arguments: Any) -> SubclassEmerged:
    """Train one Gaussian of unit variance for each of two classes, stream a third; how it is announced."""
    rng = np.random.default_rng(2)
    model = OpenSetRecognizer(**grouped(batch_size=64, training_sweeps=0, **arguments))
    for _ in range(400):
        model.learn_one(to_features(rng.normal(NEAR)), "near")
        model.learn_one(to_features(rng.normal(FAR)), "far")
    for i in range(64):
        model.learn_one(to_features(rng.normal(NEW)), key=i)
    return announced(model)


def in_units(row: np.ndarray) -> dict[str, float]:
    return dict(zip("ab", (ORIGIN + UNITS * row).tolist(), strict=True))


def test_mean_and_shift_are_in_the_units_of_the_caller():
    explanation = watch(in_units, beta=0.001).explanation  # a weak prior mean: no pull
    mean = np.array([explanation.mean[name] for name in "ab"])
    np.testing.assert_allclose((mean - ORIGIN) / UNITS, NEW, atol=0.4)
    # the nearest class has unit variance: the shift is the difference, with its sign
    assert explanation.shift["a"] == pytest.approx(3.0, abs=0.6)
    assert explanation.shift["b"] == pytest.approx(-12.0, rel=0.12)
    assert (explanation.nearest_class, explanation.nearest_subclass) == ("near", 0)
    assert explanation.distance == pytest.approx(math.hypot(3, 12), rel=0.12)


def test_nearest_class_is_the_nearest_in_its_own_standard_deviations():
    rng = np.random.default_rng(3)
    model = OpenSetRecognizer(batch_size=64, model=ModelOptions(training_sweeps=0, nu=3, scale=1.0))
    for _ in range(400):
        model.learn_one({"a": rng.normal(0), "b": rng.normal(0)}, "narrow")
        model.learn_one({"a": rng.normal(100, 10), "b": rng.normal(0)}, "wide")
    for _ in range(64):
        model.learn_one({"a": rng.normal(45), "b": rng.normal(0)})
    explanation = announced(model).explanation
    assert explanation.nearest_class == "wide"  # 55 of 10 away, and 45 of 1
    assert explanation.shift["a"] == pytest.approx(-5.5, rel=0.15)
    assert explanation.distance == pytest.approx(5.5, rel=0.15)


def test_shift_through_a_pca():
    rng = np.random.default_rng(4)
    loadings = np.array([[2.0, 0.0, -1.0, 0.0], [0.0, 3.0, 0.0, 1.0]])

    def mixed(row: np.ndarray) -> dict[str, float]:
        values = row @ loadings + rng.normal(scale=0.01, size=4)
        return {"w": values[0], "x": values[1], "y": values[2], "z": values[3], "constant": 1e6}

    event = watch(mixed, pca_components=2, beta=0.001)
    mean, shift = event.explanation.mean, event.explanation.shift
    for name, row in (("w", 6.0), ("x", -36.0), ("y", -3.0), ("z", -12.0)):
        assert mean[name] == pytest.approx(row, abs=1.2), name
    assert mean["constant"] == pytest.approx(1e6)
    for name, expected in (("w", 3.0), ("x", -12.0), ("y", -3.0), ("z", -12.0)):
        assert shift[name] == pytest.approx(expected, rel=0.15, abs=0.5), name
    # no feature is further off than the whole: what rounding makes of the constant one least of all
    assert all(abs(value) <= 1.1 * event.explanation.distance for value in shift.values())


def test_constant_features_are_not_shifted():
    explanation = watch(lambda row: {**in_units(row), "c": 1e9, "d": 0.0}).explanation
    assert [explanation.shift["c"], explanation.shift["d"]] == pytest.approx([0, 0], abs=1e-6)
    assert explanation.mean["c"] == pytest.approx(1e9)


def test_size_share_and_moments_of_an_announcement():
    event = watch(in_units, beta=0.001)
    assert event.share == event.size / 64
    assert event.size > 40
    assert 0 < event.support <= event.size
    assert (event.batch, event.seq) == (0, 63)
    assert event.last_seen.seq <= 63
    assert event.first_seen.key == event.first_seen.seq
    assert len(event.exemplars) == 5
    assert set(event.exemplars) <= set(range(64))
    assert event.trend == pytest.approx(1000 * event.size / 64, rel=0.1)
