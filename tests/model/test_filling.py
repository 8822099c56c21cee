"""Training rows with missing values: covariances and class means come out as without, and what is there stays."""

from __future__ import annotations

import numpy as np
import pytest

from stream_osr.instances.features import Features
from stream_osr.model.feature_space import imputation
from stream_osr.model.feature_space.imputation import fill_groups
from stream_osr.parameters import Parameters
from stream_osr.training.coordinates import as_modelled, fit_coordinates

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


def test_a_relation_that_holds_in_one_class_holds_in_the_completed_rows() -> None:
    rng, group = np.random.default_rng(2), np.arange(900) % 3
    X = rng.normal(size=(900, 5))
    X[:, 4] = np.where(group == 0, X[:, 0] + X[:, 1], np.where(group == 1, X[:, 0] - X[:, 1], X[:, 4]))
    filled = fill_groups(holes(X, 0.05), group, seed=0)
    for j, sign in ((0, 1.0), (1, -1.0)):
        own = filled[group == j]
        assert np.abs(own[:, 4] - own[:, 0] - sign * own[:, 1]).max() < 0.05
    assert filled[group == 2].std(axis=0) == pytest.approx(X[group == 2].std(axis=0), rel=0.05)


def test_a_feature_that_nearly_always_has_one_value_gets_this_value() -> None:
    X, group = classes(300)
    X[:, 1] = np.where(np.arange(300) % 20 == 0, X[:, 1], 4.0)
    missing = holes(X, 0.1)
    filled = fill_groups(missing, group, seed=0)
    assert (filled[np.isnan(missing[:, 1]), 1] == 4.0).all()


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_few_missing_values_do_not_change_the_directions(seed: int) -> None:
    rng = np.random.default_rng(seed)
    group = np.arange(480) % 6
    X = 3.0 * rng.normal(size=(6, 4))[group] @ rng.normal(size=(4, 30)) + rng.normal(size=(480, 30))
    X[:, 10:20] = X[:, :10] @ rng.normal(size=(10, 10)) + 0.01 * rng.normal(size=(480, 10))
    complete = directions(X, group)
    for share in (0.001, 0.01, 0.05):
        assert abs(directions(holes(X, share), group) - complete) <= 0.1 * complete


def directions(X: np.ndarray, group: np.ndarray) -> int:
    features = Features(tuple(f"x{at}" for at in range(X.shape[1])))
    fitted = fit_coordinates(as_modelled(features, X, Parameters()), group, Parameters())
    assert fitted.plan is not None
    return int(fitted.whitening.forward.shape[1])


def test_features_that_depend_on_each_other_exactly_are_completed() -> None:
    rng, group = np.random.default_rng(3), np.arange(300) % 3
    X = rng.integers(0, 5, size=(300, 4)).astype(float)
    X = np.column_stack([X, X[:, :1] + X[:, 1:2], X.sum(axis=1), np.where(group == 0, 0.0, X[:, 0])])
    for share in (0.01, 0.3):
        filled = fill_groups(holes(np.tile(X, 4), share), group, seed=0)
        assert np.isfinite(filled).all()
        assert np.abs(filled).max() < 60.0
