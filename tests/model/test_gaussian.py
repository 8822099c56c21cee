"""One subclass against textbook formulas: its Gaussian, alone and with categories beside it."""

from __future__ import annotations

import numpy as np
import pytest

from stream_osr.model import dish_statistics as library
from stream_osr.model import gaussian, nearest
from stream_osr.model.prior import homogeneous
from tests.model.problems import assert_equal, fill, make_base, random_rows

TOLERANCE = {"rel": 1e-9, "abs": 1e-9}

kinds = pytest.mark.parametrize(
    ("d", "kind"), [*((d, "numbers") for d in (1, 2, 5)), (2, "categories"), (0, "categories")]
)


def blocks(seed, n, d, prior=None):
    """A block of n rows off centre with correlated features, and a few rows near and far; any categories."""
    rng = np.random.default_rng([seed, n, d])
    mixing = rng.normal(size=(d, d))
    rows = rng.normal(size=(n, d)) @ mixing + rng.normal(scale=2.0, size=d)
    others = np.concatenate([rng.normal(size=(6, d)) @ mixing, rng.normal(scale=30.0, size=(3, d))])
    if prior is None:
        return rows, others
    columns = len(prior.first)
    return [np.hstack([random_rows(rng, len(own), prior)[:, :columns], own]) for own in (rows, others)]


@kinds
@pytest.mark.parametrize("n", [0, 1, 2, 9, 60])
def test_log_predictive_is_the_textbook_one(d, kind, n):
    prior, base = make_base(d, kind)
    rows, others = blocks(0, n, d, prior)
    dishes = fill(prior, [rows])
    found = [library.log_predictive(dishes, 0, row, prior) for row in homogeneous(others)]
    assert found == pytest.approx([base.log_predictive(x, rows) for x in others], **TOLERANCE)
    for i in range(min(n, 10)):  # left out of its own subclass
        found = library.log_predictive_without(dishes, 0, np.append(rows[i], 1.0), prior)
        assert found == pytest.approx(base.log_predictive(rows[i], np.delete(rows, i, axis=0)), **TOLERANCE)


@pytest.mark.parametrize("distance", [10.0, 100.0, 1000.0])
def test_left_out_although_it_dominates_the_scatter(distance):
    # 1 - h is all but 0: the downdate would lose its digits and is redone from the sums
    prior, base = make_base(3)
    rows, _ = blocks(3, 5, 3)
    rows = np.concatenate([rows, [[distance, -distance, 0.5 * distance]]])
    dishes = fill(prior, [rows])
    found = library.log_predictive_without(dishes, 0, np.append(rows[-1], 1.0), prior)
    # the sums themselves hold squares of the distance: the digits below 1e-16 times those are not there
    tolerance = 1e-9 + 1e-14 * distance**2
    assert found == pytest.approx(base.log_predictive(rows[-1], rows[:-1]), rel=tolerance)
    library.remove(dishes, 0, np.append(rows[-1], 1.0), prior)
    fresh = fill(prior, [rows[:-1]])
    np.testing.assert_allclose(dishes.inverse[0], fresh.inverse[0], rtol=tolerance, atol=tolerance)
    assert dishes.log_det[0] == pytest.approx(fresh.log_det[0], rel=tolerance, abs=tolerance)


def test_inversion_of_what_rounding_made_indefinite_is_finite():
    matrix = np.array([[1.0, 1.0], [1.0, 1.0 - 1e-16]])
    inverse = np.empty((2, 2))
    assert np.isfinite(gaussian.invert(matrix, inverse))
    assert np.isfinite(inverse).all()


@kinds
@pytest.mark.parametrize("size", [1, 2, 3, 6, 12])
def test_block_predictive(d, kind, size):
    # size below and above d + 1: by the determinant lemma, and afresh
    prior, base = make_base(d, kind)
    rows, block = blocks(6, 9, d, prior)[0], blocks(7, size, d, prior)[0]
    for held in (rows, rows[:0]):
        dishes = fill(prior, [held])
        before = dishes.counts.copy()
        found = library.log_block_predictive(dishes, 0, homogeneous(block), False, prior)
        expected = base.log_marginal(np.concatenate([held, block])) - base.log_marginal(held)
        assert found == pytest.approx(expected, **TOLERANCE)
        np.testing.assert_array_equal(dishes.counts, before)
    for rest in (0, 1, 8):  # the block's instances are in the subclass
        rows = blocks(8, size + rest, d, prior)[0]
        dishes = fill(prior, [rows])
        before = [v.copy() for v in dishes]
        found = library.log_block_predictive(dishes, 0, homogeneous(rows[:size]), True, prior)
        assert found == pytest.approx(base.log_marginal(rows) - base.log_marginal(rows[size:]), **TOLERANCE)
        assert_equal(dishes, before)


@pytest.mark.parametrize("d", [1, 2, 5])
def test_mahalanobis_distance(d):
    prior, base = make_base(d)
    for n in (0, 1, 9):
        rows, others = blocks(12, n, d)
        found = [library.mahalanobis(fill(prior, [rows]), 0, row, prior) for row in homogeneous(others)]
        assert found == pytest.approx([base.mahalanobis(x, rows) for x in others], **TOLERANCE)


def test_means_and_covariances_are_the_posterior_means():
    d = 3
    prior, base = make_base(d)
    rows, _ = blocks(13, 15, d)
    means, covariances = nearest.means_and_scales(fill(prior, [rows, rows[:0]]), prior)
    for k, block in enumerate((rows, rows[:0])):
        mean, _, nu, scale = base.posterior(block)
        expected = scale / max(nu - d - 1, 1.0)  # E Sigma = Psi_n / (nu_n - d - 1) while that exists, else over 1
        np.testing.assert_allclose(means[k], mean, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(covariances[k], expected, rtol=1e-9, atol=1e-9)
