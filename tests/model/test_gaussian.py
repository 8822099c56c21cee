"""One subclass against textbook formulas: its Gaussian, alone and with categories beside it."""

from __future__ import annotations

import numpy as np
import pytest

from stream_osr.model import dishes as library
from stream_osr.model import gaussian
from stream_osr.model.nearest import means_and_scales
from stream_osr.model.prior import homogeneous
from stream_osr.model.student_t import log_new_densities
from tests.model.problems import fill, make_base, random_rows

TOLERANCE = {"rel": 1e-9, "abs": 1e-9}

dimensions = pytest.mark.parametrize("d", [1, 2, 5])
laws = pytest.mark.parametrize(
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


@laws
@pytest.mark.parametrize("n", [0, 1, 2, 9, 60])
def test_log_predictive_is_the_textbook_one(d, kind, n):
    prior, base = make_base(d, kind)
    rows, others = blocks(0, n, d, prior)
    dishes = fill(prior, [rows])
    for x, row in zip(others, homogeneous(others), strict=True):
        assert library.log_predictive(dishes, 0, row, prior) == pytest.approx(
            base.log_predictive(x, rows), **TOLERANCE
        )


@laws
@pytest.mark.parametrize("n", [1, 2, 9, 60])
def test_left_out_of_its_own_subclass(d, kind, n):
    prior, base = make_base(d, kind)
    rows, _ = blocks(2, n, d, prior)
    dishes = fill(prior, [rows])
    for i in range(min(n, 10)):
        found = library.log_predictive_without(dishes, 0, np.append(rows[i], 1.0), prior)
        expected = base.log_predictive(rows[i], np.delete(rows, i, axis=0))
        assert found == pytest.approx(expected, **TOLERANCE)


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


@pytest.mark.parametrize(("distance", "redone"), [(1.0, False), (1e3, True)])
def test_downdate_that_would_lose_digits_is_an_inversion_of_the_sum(distance, redone):
    prior, _ = make_base(3)
    rows, _ = blocks(3, 5, 3)
    rows[0] *= distance
    dishes = fill(prior, [rows])
    x = np.append(rows[0], 1.0)
    assert (1.0 - gaussian.quadratic(dishes.inverse[0], x) < gaussian.LOSES_DIGITS) == redone
    library.remove(dishes, 0, x, prior)
    afresh = np.empty_like(dishes.inverse[0])
    log_det = gaussian.invert(dishes.matrix[0], afresh)
    assert np.array_equal(dishes.inverse[0], afresh) == redone
    assert (dishes.log_det[0] == log_det) == redone


@dimensions
def test_full_statistics_are_the_matrix_of_homogeneous_coordinates(d):
    prior, base = make_base(d)
    rows, _ = blocks(5, 20, d)
    dishes = fill(prior, [rows])
    mean, r, _, scatter = base.posterior(rows)
    matrix = np.zeros((d + 1, d + 1))
    matrix[:d, :d] = scatter + r * np.outer(mean, mean)
    matrix[:d, d] = matrix[d, :d] = r * mean
    matrix[d, d] = r
    np.testing.assert_allclose(dishes.matrix[0], matrix, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(dishes.inverse[0], np.linalg.inv(matrix), rtol=1e-9, atol=1e-12)
    assert dishes.log_det[0] == pytest.approx(np.log(r) + np.linalg.slogdet(scatter)[1], **TOLERANCE)
    x = np.append(rows[0], 1.0)
    expected = (rows[0] - mean) @ np.linalg.solve(scatter, rows[0] - mean) + 1 / r
    assert gaussian.quadratic(dishes.inverse[0], x) == pytest.approx(expected, **TOLERANCE)


@dimensions
def test_inversion(d):
    rng = np.random.default_rng(d)
    factor = rng.normal(size=(d, d + 2))
    matrix = factor @ factor.T
    inverse = np.empty((d, d))
    assert gaussian.invert(matrix, inverse) == pytest.approx(np.linalg.slogdet(matrix)[1], **TOLERANCE)
    np.testing.assert_allclose(inverse, np.linalg.inv(matrix), rtol=1e-8, atol=1e-10)


def test_inversion_of_what_rounding_made_indefinite_is_finite():
    matrix = np.array([[1.0, 1.0], [1.0, 1.0 - 1e-16]])
    inverse = np.empty((2, 2))
    assert np.isfinite(gaussian.invert(matrix, inverse))
    assert np.isfinite(inverse).all()


@laws
@pytest.mark.parametrize("size", [1, 2, 3, 6, 12])
def test_block_predictive_of_strangers(d, kind, size):
    # size below and above d + 1: by the determinant lemma, and afresh
    prior, base = make_base(d, kind)
    rows, _ = blocks(6, 9, d, prior)
    block = blocks(7, size, d, prior)[0]
    for held in (rows, rows[:0]):
        dishes = fill(prior, [held])
        before = dishes.counts.copy()
        found = library.log_block_predictive(dishes, 0, homogeneous(block), False, prior)
        expected = base.log_marginal(np.concatenate([held, block])) - base.log_marginal(held)
        assert found == pytest.approx(expected, **TOLERANCE)
        np.testing.assert_array_equal(dishes.counts, before)


@laws
@pytest.mark.parametrize("size", [1, 2, 3, 6, 12])
@pytest.mark.parametrize("rest", [0, 1, 8])
def test_block_predictive_of_members(d, kind, size, rest):
    prior, base = make_base(d, kind)
    rows, _ = blocks(8, size + rest, d, prior)
    dishes = fill(prior, [rows])
    before = [v.copy() for v in dishes]
    found = library.log_block_predictive(dishes, 0, homogeneous(rows[:size]), True, prior)
    expected = base.log_marginal(rows) - base.log_marginal(rows[size:])
    assert found == pytest.approx(expected, **TOLERANCE)
    for value, old in zip(dishes, before, strict=True):
        np.testing.assert_array_equal(value, old)


@laws
def test_prior_predictive(d, kind):
    prior, base = make_base(d, kind)
    _, others = blocks(11, 0, d, prior)
    rows, expected = homogeneous(others), [base.log_predictive(x, others[:0]) for x in others]
    np.testing.assert_allclose(log_new_densities(rows, prior), expected, rtol=1e-9, atol=1e-9)
    empty = library.log_predictives(rows, fill(prior, [others[:0]]), prior)[:, 0]
    np.testing.assert_allclose(library.log_prior_predictives(rows, prior), empty, rtol=1e-12, atol=1e-12)


@dimensions
@pytest.mark.parametrize("n", [0, 1, 9])
def test_mahalanobis_distance(d, n):
    prior, base = make_base(d)
    rows, others = blocks(12, n, d)
    dishes = fill(prior, [rows])
    for x in others:
        found = library.mahalanobis(dishes, 0, np.append(x, 1.0), prior)
        assert found == pytest.approx(base.mahalanobis(x, rows), **TOLERANCE)


def test_means_and_covariances_are_the_posterior_means():
    d = 3
    prior, base = make_base(d)
    rows, _ = blocks(13, 15, d)
    means, covariances = means_and_scales(fill(prior, [rows, rows[:0]]), prior)
    for k, block in enumerate((rows, rows[:0])):
        mean, _, nu, scale = base.posterior(block)
        expected = scale / max(nu - d - 1, 1.0)  # E Sigma = Psi_n / (nu_n - d - 1) while that exists, else over 1
        np.testing.assert_allclose(means[k], mean, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(covariances[k], expected, rtol=1e-9, atol=1e-9)
