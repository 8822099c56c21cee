"""Whitening: the pooled within-class covariance, and what happens when the data are degenerate."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_osr.errors import InvalidParameter
from stream_osr.model.feature_space import mixed_whitening
from stream_osr.model.feature_space import whitening as library
from stream_osr.model.feature_space.binary_features import OF_CONSTANT
from tests.tiers import examples


def classes(seed=0, sizes=(40, 25, 60), p=4, scales=(1.0, 100.0, 0.01, 5.0)):
    """Correlated classes whose features differ by orders of magnitude."""
    rng = np.random.default_rng(seed)
    mixing = rng.normal(size=(p, p))
    group = np.repeat(np.arange(len(sizes)), sizes)
    means = rng.normal(scale=3.0, size=(len(sizes), p))
    X = (rng.normal(size=(len(group), p)) @ mixing + means[group]) * np.array(scales)[:p] + 7.0
    return X, group


def pooled(X, group):
    """Equation (13) of the paper without the factor: ``sum_j (n_j - 1) Sigma_j / (n - J)``."""
    labels, sizes = np.unique(group, return_counts=True)
    total = sum((n - 1) * np.cov(X[group == j], rowvar=False) for j, n in zip(labels, sizes, strict=True))
    return np.atleast_2d(total) / (len(X) - len(labels))


def test_pooled_within_class_covariance_is_whitened_to_the_identity():
    X, group = classes()
    space = library.fit_whitening(X, group)
    z = library.whiten(space, X)
    ridge = np.diag(library.RIDGE * X.var(axis=0))
    np.testing.assert_allclose(space.forward.T @ (pooled(X, group) + ridge) @ space.forward, np.eye(4), atol=1e-9)
    np.testing.assert_allclose(pooled(z, group), np.eye(4), atol=1e-3)  # but for the ridge
    np.testing.assert_allclose(z.mean(axis=0), 0.0, atol=1e-9)
    np.testing.assert_allclose(space.center, X.mean(axis=0), rtol=1e-12)
    assert z.flags["C_CONTIGUOUS"]
    np.testing.assert_allclose(library.unwhiten(space, z), X, rtol=1e-9)
    np.testing.assert_allclose(space.forward @ space.backward, np.eye(4), atol=1e-9)
    assert not space.constant.any()
    assert space.variance_left == 0.0


@examples(20)
@given(seed=st.integers(0, 1000))
def test_distances_do_not_depend_on_the_units(seed):
    # affine invariance, up to the ridge: users need no scaler
    rng, group = np.random.default_rng(seed), np.repeat([0, 1], [40, 30])
    X = rng.normal(size=(70, 3)) * [1.0, 2.0, 3.0] + group[:, None]
    mixing = np.diag(rng.uniform(0.2, 5.0, 3)) @ (np.eye(3) + 0.2 * rng.uniform(-1, 1, size=(3, 3)))
    plain, other = (
        library.whiten(library.fit_whitening(rows, group), rows) for rows in (X, X @ mixing + rng.uniform(-5, 5, 3))
    )
    found, expected = (np.linalg.norm(z - z[0], axis=1) for z in (other, plain))
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-6)


def test_missing_values_are_the_training_mean():
    X, group = classes()
    X[3, 1] = X[7, 1] = np.nan
    space = library.fit_whitening(X, group)
    np.testing.assert_allclose(space.fill, np.nanmean(X, axis=0))
    full = np.where(np.isnan(X), np.nanmean(X, axis=0), X)
    np.testing.assert_allclose(library.whiten(space, X), library.whiten(space, full), rtol=1e-12)
    everything = library.whiten(space, np.full((1, 4), np.nan))
    np.testing.assert_allclose(library.unwhiten(space, everything)[0], space.fill, rtol=1e-9)


def test_a_feature_that_never_varied_is_in_no_coordinate():
    X, group = classes()
    wide = np.column_stack([X, np.full(len(X), 50.0), np.zeros(len(X))])
    constant = mixed_whitening.find_constant(wide, np.zeros(6, int))
    assert constant.tolist() == [False] * 4 + [True] * 2
    space = mixed_whitening.fit_mixed(wide, group, np.where(constant, OF_CONSTANT, 0))
    assert space.constant.tolist() == constant.tolist()
    assert space.forward.shape == (6, 4)
    z = library.whiten(space, wide)
    np.testing.assert_allclose(z, library.whiten(library.fit_whitening(X, group), X), rtol=1e-9)
    np.testing.assert_array_equal(library.whiten(space, wide + np.array([0, 0, 0, 0, 7.0, -1e9])), z)
    np.testing.assert_allclose(library.unwhiten(space, z), wide, atol=1e-9)


def test_few_equal_values_are_no_constant():
    X, _ = classes()
    wide = np.column_stack([X, np.full(len(X), 50.0)])
    assert not mixed_whitening.find_constant(wide[:19], np.zeros(5, int)).any()
    assert not mixed_whitening.find_constant(np.full((40, 2), 3.0), np.zeros(2, int)).any(), (
        "nothing else would be modelled"
    )
    space = library.fit_whitening(wide, np.arange(len(X)) % 2)
    step = library.whiten(space, wide[:1] + np.array([0, 0, 0, 0, 5.0])) - library.whiten(space, wide[:1])
    assert 0.3 < np.linalg.norm(step) < 1.5, "a spread of its own size, twice: a ridge of the same size"


def test_singular_data_work():
    space = library.fit_whitening(np.full((6, 2), 3.0), np.arange(6) % 2)  # all equal
    z = library.whiten(space, np.array([[3.0, 3.0], [6.0, 3.0]]))
    np.testing.assert_allclose(z[0], 0.0, atol=1e-12)
    assert 1.0 < np.linalg.norm(z[1]) < 20.0
    X, group = classes()
    X = np.column_stack([X, X[:, 0] + X[:, 1], 2.0 * X[:, 2]])
    space = library.fit_whitening(X, group)
    z = library.whiten(space, X)
    assert np.isfinite(z).all()
    np.testing.assert_allclose(library.unwhiten(space, z), X, rtol=1e-5)


def test_few_instances_shrink_the_covariance_towards_the_variances():
    X, group = classes(sizes=(3, 3), p=4)
    space, share = library.fit_whitening(X, group), 1 - 4 / (2 * 4)  # freedom and features
    expected = (1 - share) * pooled(X, group) + np.diag((share + library.RIDGE) * X.var(axis=0))
    np.testing.assert_allclose(space.forward.T @ expected @ space.forward, np.eye(4), atol=1e-8)


@pytest.mark.parametrize("components", [1, 2, 3])
def test_principal_components(components):
    X, group = classes(scales=(1.0, 5.0, 2.0, 3.0))
    space = library.fit_whitening(X, group, pca=components)
    z = library.whiten(space, X)
    assert z.shape == (len(X), components)
    np.testing.assert_allclose(pooled(z, group), np.eye(components), atol=1e-3)
    values = np.sort(np.linalg.eigvalsh(np.cov(X, rowvar=False)))[::-1]
    left = 1.0 - np.cumsum([0.0, *values]) / values.sum()
    assert space.variance_left == pytest.approx(left[components])
    back = library.unwhiten(space, z)  # on the plane of the components
    assert ((X - back) ** 2).sum() / ((X - X.mean(axis=0)) ** 2).sum() == pytest.approx(space.variance_left)
    share = 1.0 - (left[components - 1] + left[components]) / 2
    assert library.whiten(library.fit_whitening(X, group, pca=share), X).shape[1] == components


def test_impossible_principal_components_are_refused():
    X, group = classes()
    with pytest.raises(InvalidParameter, match="span only 4"):
        library.fit_whitening(X, group, pca=5)
    with pytest.raises(InvalidParameter, match="all equal"):
        library.fit_whitening(np.ones((5, 2)), np.arange(5) % 2, pca=1)


def test_rows_beyond_the_horizon_are_drawn_in_along_their_ray():
    X, group = classes()
    space = library.fit_whitening(X, group)
    direction = np.array([[0.3, -0.5, 0.7, 0.2]])
    for length in (10.0, 1e3, 1e5, 1e12, 1e150):
        z = library.whiten(space, library.unwhiten(space, length * direction))
        expected = min(length * np.linalg.norm(direction), library.HORIZON)
        assert np.linalg.norm(z) == pytest.approx(expected, rel=1e-6)
        np.testing.assert_allclose(z / np.linalg.norm(z), direction / np.linalg.norm(direction), rtol=1e-5)
