"""Training rows with missing values: covariances and class means come out as without, and what is there stays."""

from __future__ import annotations

import numpy as np
import pytest

from stream_osr.model import imputation
from stream_osr.model.imputation import fill_groups

MIXING = np.array([[1.0, 0.8, 0.0], [0.0, 0.6, 0.5], [0.0, 0.0, 0.9]])


def classes(n: int = 3000) -> tuple[np.ndarray, np.ndarray]:
    rng, group = np.random.default_rng(4), np.arange(n) % 3
    return rng.normal(size=(n, 3)) @ MIXING + 6.0 * group[:, None], group


def within(X: np.ndarray, group: np.ndarray) -> np.ndarray:
    residual = X - np.array([X[group == j].mean(axis=0) for j in range(3)])[group]
    return np.asarray(residual.T @ residual / len(X))


def holes(X: np.ndarray, share: float) -> np.ndarray:
    return np.where(np.random.default_rng(9).random(X.shape) < share, np.nan, X)


@pytest.mark.parametrize("units", [1.0, 1e-9, 1e9])
def test_covariance_within_classes_is_that_of_the_complete_rows(units: float) -> None:
    X, group = classes()
    missing = holes(X * units, 0.2)
    filled = fill_groups(missing, group, seed=0)
    assert not np.isnan(filled).any()
    assert (filled[~np.isnan(missing)] == missing[~np.isnan(missing)]).all()
    assert within(filled / units, group) == pytest.approx(within(X, group), abs=0.08)
    with_means = np.where(np.isnan(missing), np.nanmean(missing, axis=0), missing)
    assert within(with_means / units, group)[0, 0] > 2.0 * within(X, group)[0, 0], "what the mean did"


def test_same_seed_same_bits_and_without_gaps_the_same_array() -> None:
    X, group = classes(60)
    missing = holes(X, 0.3)
    assert np.array_equal(fill_groups(missing, group, 1), fill_groups(missing, group, 1))
    assert not np.array_equal(fill_groups(missing, group, 1), fill_groups(missing, group, 2))
    assert fill_groups(X, group, seed=0) is X


def test_rows_and_features_of_which_everything_is_missing() -> None:
    X, group = classes(60)
    X[:, 2] = 7.0
    X[3], X[:, 1] = np.nan, np.nan
    filled = fill_groups(X, group, seed=0)
    assert np.isfinite(filled).all()
    assert (filled[:, 1] == 0.0).all()
    assert (filled[:, 2] == 7.0).all(), "constant features stay constant"


def test_too_wide_a_table_is_filled_with_the_means_of_the_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    X, group = classes(90)
    missing = holes(X, 0.1)
    monkeypatch.setattr(imputation, "MOST_WORK", 0.0)
    filled = fill_groups(missing, group, seed=0)
    i, a = np.argwhere(np.isnan(missing))[0]
    assert filled[i, a] == pytest.approx(np.nanmean(missing[group == group[i], a]))
