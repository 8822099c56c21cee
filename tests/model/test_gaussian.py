"""The three covariance models against textbook formulas: one subclass at a time."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.special import multigammaln

from tests.doors.model import dishes as library
from tests.doors.model import full, homogeneous, make_prior, means_and_scales
from tests.model.problems import COVARIANCES, fill, make_base

TOLERANCE = {"rel": 1e-9, "abs": 1e-9}

problems = pytest.mark.parametrize("covariance", COVARIANCES)
dimensions = pytest.mark.parametrize("d", [1, 2, 5])
sizes = pytest.mark.parametrize("n", [0, 1, 2, 9, 60])


def blocks(seed, n, d):
    """A block of n rows off centre with correlated features, and a few rows near and far."""
    rng = np.random.default_rng([seed, n, d])
    mixing = rng.normal(size=(d, d))
    rows = rng.normal(size=(n, d)) @ mixing + rng.normal(scale=2.0, size=d)
    others = np.concatenate([rng.normal(size=(6, d)) @ mixing, rng.normal(scale=30.0, size=(3, d))])
    return rows, others


@problems
@dimensions
@sizes
def test_log_predictive_is_the_textbook_one(covariance, d, n):
    prior, base = make_base(covariance, d)
    rows, others = blocks(0, n, d)
    dishes = fill(prior, [rows])
    for x in others:
        found = library.log_predictive(dishes, 0, np.append(x, 1.0), prior)
        assert found == pytest.approx(base.log_predictive(x, rows), **TOLERANCE)


@dimensions
def test_full_predictive_is_a_multivariate_t(d):
    # Murphy (2007), section 9; Psi0 = nu * scale * I and mu0 = 0 in whitened coordinates
    nu, scale, beta = d + 2.5, 0.3, 0.7
    prior = make_prior("full", d, nu, scale, beta)
    assert prior.psi == pytest.approx(nu * scale)
    rows, others = blocks(1, 12, d)
    n = len(rows)
    mean = rows.sum(axis=0) / (beta + n)
    off = rows - rows.mean(axis=0)
    scatter = nu * scale * np.eye(d) + off.T @ off
    scatter += beta * n / (beta + n) * np.outer(rows.mean(axis=0), rows.mean(axis=0))
    df = nu + n - d + 1
    law = stats.multivariate_t(mean, scatter * (beta + n + 1) / ((beta + n) * df), df)
    dishes = fill(prior, [rows])
    found = library.log_predictives(homogeneous(others), dishes, prior)[:, 0]
    np.testing.assert_allclose(found, law.logpdf(others).reshape(-1), rtol=1e-9)


@problems
@dimensions
@pytest.mark.parametrize("n", [1, 2, 9, 60])
def test_left_out_of_its_own_subclass(covariance, d, n):
    prior, base = make_base(covariance, d)
    rows, _ = blocks(2, n, d)
    dishes = fill(prior, [rows])
    for i in range(min(n, 10)):
        found = library.log_predictive_without(dishes, 0, np.append(rows[i], 1.0), prior)
        expected = base.log_predictive(rows[i], np.delete(rows, i, axis=0))
        assert found == pytest.approx(expected, **TOLERANCE)


@problems
@pytest.mark.parametrize("distance", [10.0, 100.0, 1000.0])
def test_left_out_although_it_dominates_the_scatter(covariance, distance):
    # 1 - h is all but 0: the downdate would lose its digits and is redone from the sums
    prior, base = make_base(covariance, 3)
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
    prior, _ = make_base("full", 3)
    rows, _ = blocks(3, 5, 3)
    rows[0] *= distance
    dishes = fill(prior, [rows])
    x = np.append(rows[0], 1.0)
    assert (1.0 - full.quadratic(dishes.inverse[0], x) < full.LOSES_DIGITS) == redone
    library.remove(dishes, 0, x, prior)
    afresh = np.empty_like(dishes.inverse[0])
    log_det = full.invert(dishes.matrix[0], afresh)
    assert np.array_equal(dishes.inverse[0], afresh) == redone
    assert (dishes.log_det[0] == log_det) == redone


@problems
@dimensions
def test_adding_and_removing_is_the_block_of_the_rest(covariance, d):
    prior, base = make_base(covariance, d)
    rows, others = blocks(4, 30, d)
    dishes = fill(prior, [rows])
    rng = np.random.default_rng(4)
    left = list(range(30))
    for i in rng.permutation(30)[:25]:
        library.remove(dishes, 0, np.append(rows[i], 1.0), prior)
        left.remove(i)
        assert dishes.size[0] == len(left)
        for x in others[:3]:
            found = library.log_predictive(dishes, 0, np.append(x, 1.0), prior)
            assert found == pytest.approx(base.log_predictive(x, rows[left]), **TOLERANCE)


@dimensions
def test_full_statistics_are_the_matrix_of_homogeneous_coordinates(d):
    prior, base = make_base("full", d)
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
    assert full.quadratic(dishes.inverse[0], x) == pytest.approx(expected, **TOLERANCE)


@dimensions
def test_inversion(d):
    rng = np.random.default_rng(d)
    factor = rng.normal(size=(d, d + 2))
    matrix = factor @ factor.T
    inverse = np.empty((d, d))
    assert full.invert(matrix, inverse) == pytest.approx(np.linalg.slogdet(matrix)[1], **TOLERANCE)
    np.testing.assert_allclose(inverse, np.linalg.inv(matrix), rtol=1e-8, atol=1e-10)


def test_inversion_of_what_rounding_made_indefinite_is_finite():
    matrix = np.array([[1.0, 1.0], [1.0, 1.0 - 1e-16]])
    inverse = np.empty((2, 2))
    assert np.isfinite(full.invert(matrix, inverse))
    assert np.isfinite(inverse).all()


@problems
@dimensions
@pytest.mark.parametrize("size", [1, 2, 3, 6, 12])
def test_block_predictive_of_strangers(covariance, d, size):
    # size below and above d + 1: by the determinant lemma, and afresh
    prior, base = make_base(covariance, d)
    rows, _ = blocks(6, 9, d)
    block = blocks(7, size, d)[0]
    for held in (rows, rows[:0]):
        dishes = fill(prior, [held])
        found = library.log_block_predictive(dishes, 0, homogeneous(block), False, prior)
        expected = base.log_marginal(np.concatenate([held, block])) - base.log_marginal(held)
        assert found == pytest.approx(expected, **TOLERANCE)


@problems
@dimensions
@pytest.mark.parametrize("size", [1, 2, 3, 6, 12])
@pytest.mark.parametrize("rest", [0, 1, 8])
def test_block_predictive_of_members(covariance, d, size, rest):
    prior, base = make_base(covariance, d)
    rows, _ = blocks(8, size + rest, d)
    dishes = fill(prior, [rows])
    before = [v.copy() for v in dishes]
    found = library.log_block_predictive(dishes, 0, homogeneous(rows[:size]), True, prior)
    expected = base.log_marginal(rows) - base.log_marginal(rows[size:])
    assert found == pytest.approx(expected, **TOLERANCE)
    for value, old in zip(dishes, before, strict=True):
        np.testing.assert_array_equal(value, old)


@problems
@pytest.mark.parametrize("member", [True, False])
def test_block_predictive_is_a_chain_of_predictives(covariance, member):
    prior, _ = make_base(covariance, 3)
    rows, _ = blocks(9, 14, 3)
    block = homogeneous(rows[:5])
    dishes = fill(prior, [rows if member else rows[5:]])
    found = library.log_block_predictive(dishes, 0, block, member, prior)
    total = 0.0
    if member:
        for x in block:
            total += library.log_predictive_without(dishes, 0, x, prior)
            library.remove(dishes, 0, x, prior)
    else:
        for x in block:
            total += library.log_predictive(dishes, 0, x, prior)
            library.add(dishes, 0, x, prior)
    assert found == pytest.approx(total, **TOLERANCE)


@dimensions
def test_full_marginal_likelihood(d):
    # the textbook's closed form; the library leaves out what does not depend on the seating
    prior, base = make_base("full", d)
    rows, _ = blocks(10, 7, d)
    dishes, empty = fill(prior, [rows]), fill(prior, [rows[:0]])
    found = full.log_marginal_ratio(empty.log_det[0], 0, dishes.log_det[0], 7, prior)
    assert found == pytest.approx(base.log_marginal(rows), **TOLERANCE)
    assert found == pytest.approx(base.log_marginal_chained(rows), **TOLERANCE)
    assert full.log_marginal_ratio(dishes.log_det[0], 7, empty.log_det[0], 0, prior) == pytest.approx(-found)
    scatter = base.posterior(rows).scale_matrix
    expected = (
        -7 * d / 2 * np.log(np.pi)
        + multigammaln((prior.nu + 7) / 2, d)
        - multigammaln(prior.nu / 2, d)
        + prior.nu * d / 2 * np.log(prior.psi)
        - (prior.nu + 7) / 2 * np.linalg.slogdet(scatter)[1]
        + d / 2 * np.log(prior.beta / (prior.beta + 7))
    )
    assert found == pytest.approx(expected, **TOLERANCE)


@problems
@dimensions
def test_prior_predictive(covariance, d):
    prior, base = make_base(covariance, d)
    _, others = blocks(11, 0, d)
    found = library.log_prior_predictives(homogeneous(others), prior)
    expected = [base.log_predictive(x, []) for x in others]
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
    empty = fill(prior, [others[:0]])
    np.testing.assert_allclose(
        found, library.log_predictives(homogeneous(others), empty, prior)[:, 0], rtol=1e-12, atol=1e-12
    )


@problems
@dimensions
@pytest.mark.parametrize("n", [0, 1, 9])
def test_mahalanobis_distance(covariance, d, n):
    prior, base = make_base(covariance, d)
    rows, others = blocks(12, n, d)
    dishes = fill(prior, [rows])
    for x in others:
        found = library.mahalanobis(dishes, 0, np.append(x, 1.0), prior)
        assert found == pytest.approx(base.mahalanobis(x, rows), **TOLERANCE)


@problems
def test_means_and_covariances_are_the_posterior_means(covariance):
    d = 3
    prior, base = make_base(covariance, d)
    rows, _ = blocks(13, 15, d)
    means, covariances = means_and_scales(fill(prior, [rows, rows[:0]]), prior)
    for k, block in enumerate((rows, rows[:0])):
        if covariance == "tied":
            mean, expected = base.posterior(block)[0], np.eye(d)
        else:
            mean, _, nu, scale = base.posterior(block)
            # E Sigma = Psi_n / (nu_n - d - 1) while that exists, else over 1; nu1 = nu - d + 1 feature by feature
            freedom = max(nu - d - 1 if covariance == "full" else nu - 2, 1.0)
            expected = scale / freedom if covariance == "full" else np.diag(scale) / freedom
        np.testing.assert_allclose(means[k], mean, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(covariances[k], expected, rtol=1e-9, atol=1e-9)


def test_tied_covariance_is_the_identity_so_far_rows_are_far():
    prior, _ = make_base("tied", 2, beta=1.0)
    dishes = fill(prior, [np.zeros((999, 2))])
    found = library.log_predictive(dishes, 0, np.array([3.0, 0.0, 1.0]), prior)
    assert found == pytest.approx(stats.norm(0, np.sqrt(1.001)).logpdf([3.0, 0.0]).sum(), **TOLERANCE)
