"""Numbers far from zero, very small ones, and constants: what varies by more than rounding is no constant."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from stream_osr import OpenSetRecognizer
from stream_osr.config import grouped
from stream_osr.model.feature_space.imputation import fill_groups
from stream_osr.model.feature_space.subspace import is_constant
from stream_osr.model.feature_space.whitening import fit_whitening
from tests.habits.values import each_value

RNG = np.random.default_rng(0)
PLAIN = RNG.normal(size=(160, 2)) + np.arange(160)[:, None] % 2 * [12.0, 0.0]
Y = np.arange(160) % 2


def right_of_60(X: np.ndarray, **arguments: Any) -> int:
    model = OpenSetRecognizer(**grouped(chains=1, **arguments))
    model.learn_many(X[:100], Y[:100])
    model.freeze()
    return int((model.predict_many(X[100:]) == Y[100:]).sum())


@pytest.mark.parametrize("offset", each_value([1.7e12, 1.7e9, -1e13, 1e14], first=1))
def test_an_offset_hides_nothing(offset: float) -> None:
    assert right_of_60(PLAIN + np.array([offset, 0.0])) >= 57


def test_missing_values_beside_an_offset_are_filled() -> None:
    X = PLAIN + np.array([1.7e12, 0.0])
    X[::7, 0] = np.nan
    filled = fill_groups(X, Y, 0)
    assert filled[::7, 0].std() > 1.0
    assert np.abs(filled[:, 0] - 1.7e12).max() < 20.0


@pytest.mark.parametrize("value", [0.1, 1.7e12, 1e-300, 5e-324, 0.0])
@pytest.mark.parametrize("missing", [0, 7])
def test_a_constant_is_one_in_many_rows(value: float, missing: int) -> None:
    X = np.full((20_000, 1), value)
    X[:missing] = np.nan
    assert is_constant(X).all()
    assert fit_whitening(X, np.arange(20_000) % 2).constant.all()


def test_the_last_bits_are_rounding() -> None:
    X = 293.15 * (1.0 + np.finfo(float).eps * RNG.integers(-2, 3, size=(100, 1)))
    assert is_constant(X).all()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("unit", each_value([1e-310, 5e-324, 1e-200, 1e-150], first=1))
def test_very_small_numbers_are_trained_without_a_warning(unit: float) -> None:
    X = PLAIN.copy()
    X[:, 1] = np.round(100.0 * X[:, 1]) * unit
    assert right_of_60(X) >= 57
    assert right_of_60(X[:, ::-1].copy()) >= 57
    right_of_60(PLAIN * 1e-310)  # very small numbers alone
