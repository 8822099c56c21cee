"""Densities of rows of which something is missing are the marginal ones; completed rows are drawn from the rest."""

from __future__ import annotations

import numpy as np
import pytest
import scipy

from stream_osr.model import missing_features, responsibilities, student_t
from stream_osr.model.dish_statistics import empty_dishes, refill
from stream_osr.model.feature_space import whitening
from stream_osr.model.prior import homogeneous, make_prior
from stream_osr.model.student_t import Location

D = 4
ROOM = np.empty((D + 2, D + 1))


def directions(rank: int, rng: np.random.Generator) -> np.ndarray:
    """Orthonormal directions in the first rows."""
    basis = np.zeros((D, D))
    basis[:rank] = np.linalg.qr(rng.normal(size=(D, D)))[0][:rank]
    return basis


@pytest.mark.parametrize("rank", [1, 2, D])
def test_density_of_a_subclass_is_that_of_the_closed_directions(rank: int) -> None:
    rng = np.random.default_rng(rank)
    prior, basis = make_prior(D, nu=7.0, scale=0.4, beta=0.5), directions(rank, rng)
    dishes = empty_dishes(2, prior)
    refill(dishes, np.array([1] * 9 + [0] * 5), homogeneous(rng.normal(size=(14, D))), prior)
    closed = np.linalg.svd(basis[:rank])[2][rank:]
    packed, head, power, least = responsibilities.terms_of(dishes, prior)
    forms, heads, powers = missing_features.open_terms(packed, head, power, basis, rank)
    a, b = np.tril_indices(D + 1)
    for x in homogeneous(rng.normal(size=(5, D)) * 3.0):
        for k in range(2):
            r, n = prior.beta + dishes.size[k], int(dishes.size[k])
            mean = dishes.matrix[k, D, :D] / r
            scatter = dishes.matrix[k, :D, :D] - r * np.outer(mean, mean)
            freedom = prior.nu + n - D + 1.0
            shape = scatter * (r + 1.0) / (r * freedom)
            marginal = closed @ mean, closed @ shape @ closed.T, freedom
            expected = scipy.stats.multivariate_t.logpdf(closed @ x[:D], *marginal) if rank < D else 0.0
            found = missing_features.log_open_density(dishes.inverse[k], head[k], power[k], x, basis, rank, ROOM)
            assert found == pytest.approx(expected, abs=1e-9)
            h = forms[k] @ (x[a] * x[b])
            assert heads[k] - powers[k] * np.log1p(max(h, least[k])) == pytest.approx(expected, abs=1e-9)
            elsewhere = x + np.append(rng.normal(size=rank) @ basis[:rank], 0.0)  # what is missing may be anything
            again = missing_features.log_open_density(
                dishes.inverse[k], head[k], power[k], elsewhere, basis, rank, ROOM
            )
            assert again == pytest.approx(expected, abs=1e-9)


def test_density_of_a_broad_term_is_marginal_too() -> None:
    rng = np.random.default_rng(5)
    factor = np.linalg.inv(np.linalg.cholesky(np.cov(rng.normal(size=(D, 30)))))
    shape = Location(6.0, rng.normal(size=D), factor)
    term, basis = student_t.student_t(shape, -0.7), np.eye(D)[[2, 0, 1, 3]]
    scale = np.linalg.inv(factor.T @ factor)
    x = homogeneous(rng.normal(size=(1, D)))[0]
    kept = [1, 3]
    expected = scipy.stats.multivariate_t(shape.mean[kept], scale[np.ix_(kept, kept)], 6.0).logpdf(x[kept]) - 0.7
    assert missing_features.log_open_density(term.form, term.head, term.power, x, basis, 2, ROOM) == pytest.approx(
        expected
    )


def test_completed_rows_are_draws_of_the_conditional() -> None:
    """Of a Student-t: mean and covariance of what is drawn, and what was there stays."""
    rng = np.random.default_rng(8)
    factor = np.linalg.inv(np.linalg.cholesky(np.array([[2.0, 0.8, 0.3], [0.8, 1.0, 0.1], [0.3, 0.1, 0.5]])))
    shape = Location(9.0, np.array([1.0, -2.0, 0.5]), factor)
    term, x = student_t.student_t(shape, 0.0), np.array([99.0, 0.0, -99.0, 1.0])
    drawn = np.array(
        [missing_features.complete(term.form, term.power, x, np.eye(3)[[0, 2]], rng) for _ in range(20000)]
    )
    assert (drawn[:, 1] == 0.0).all()
    assert (drawn[:, 3] == 1.0).all()
    scale = np.linalg.inv(factor.T @ factor)
    slope = scale[[0, 2], 1] / scale[1, 1]
    mean = shape.mean[[0, 2]] + slope * (0.0 - shape.mean[1])
    within = (9.0 + (0.0 - shape.mean[1]) ** 2 / scale[1, 1]) / (9.0 + 1.0)  # Student-t given one coordinate
    covariance = within * (scale[np.ix_([0, 2], [0, 2])] - np.outer(slope, slope) * scale[1, 1]) * 10.0 / 8.0
    assert drawn[:, [0, 2]].mean(axis=0) == pytest.approx(mean, abs=0.04)
    assert np.cov(drawn[:, [0, 2]].T) == pytest.approx(covariance, abs=0.08)


def test_directions_are_those_of_the_missing_features_in_any_units() -> None:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(60, 3)) @ rng.normal(size=(3, 3)) * [1e-9, 1.0, 1e9]
    space = whitening.fit_whitening(X, np.arange(60) % 2)
    holes = X[:2].copy()
    holes[0, [0, 2]] = np.nan
    found = missing_features.missing_of(space, holes)
    assert found.pattern.tolist() == [0, missing_features.NOTHING]
    assert found.rank.tolist() == [2]
    other = X[:1] + rng.normal(size=(1, 3)) * [1e-9, 0.0, 1e9]
    moved = (whitening.whiten(space, other) - whitening.whiten(space, X[:1]))[0]
    inside = found.basis[0, :2].T @ (found.basis[0, :2] @ moved)
    assert inside == pytest.approx(moved, abs=1e-9)
