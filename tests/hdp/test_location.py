"""Where new subclasses are expected, and where known classes may have more: against scipy's Student-t."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, stats

from stream_osr.hdp import training as library
from stream_osr.hdp.broad import add_broad, fit_broad
from stream_osr.hdp.dishes import log_prior_predictives
from stream_osr.hdp.known import densities, log_class_densities, log_new
from stream_osr.hdp.location import CONJUGATE, FREEDOM, SPREAD, Location, fit_location, log_new_densities
from stream_osr.hdp.prior import homogeneous
from stream_osr.hdp.space import fit_space
from tests.hdp.problems import COVARIANCES, make_base
from tests.hdp.test_training import labelled


def total(rows: np.ndarray, group: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean, and identity within classes with the covariance of the class means by their shares."""
    share = np.bincount(group) / len(group)
    used = np.flatnonzero(share)
    means = np.array([rows[group == j].mean(axis=0) for j in used])
    return rows.mean(axis=0), np.eye(rows.shape[1]) + np.cov(means, rowvar=False, aweights=share[used], ddof=0)


@pytest.mark.parametrize("d", [1, 3])
def test_density_is_a_student_t(d):
    rng = np.random.default_rng(d)
    lower = np.tril(rng.normal(size=(d, d)), -1) + np.diag(rng.uniform(0.3, 3.0, d))
    mean, rows = rng.normal(size=d), rng.normal(scale=5.0, size=(20, d))
    location = Location(3.5, mean, np.linalg.inv(lower))
    prior = make_base("full", d, nu=d + 9.0)[0]
    placed = stats.multivariate_t.logpdf(rows, loc=mean, shape=lower @ lower.T, df=3.5)
    expected = np.logaddexp(np.log(0.99) + placed, np.log(0.01) + log_prior_predictives(homogeneous(rows), prior))
    np.testing.assert_allclose(log_new_densities(homogeneous(rows), prior, location), expected, rtol=1e-10)


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_without_a_location_the_conjugate_prior_answers(covariance):
    prior, base = make_base(covariance, 2)
    rows = np.random.default_rng(0).normal(scale=3.0, size=(10, 2))
    found = log_new_densities(homogeneous(rows), prior, CONJUGATE)
    np.testing.assert_array_equal(found, log_prior_predictives(homogeneous(rows), prior))
    np.testing.assert_array_equal(found, log_new_densities(homogeneous(rows), prior))
    np.testing.assert_allclose(found, [base.log_predictive(row, []) for row in rows], rtol=1e-9)


@pytest.mark.parametrize("sizes", [(30,), (30, 30)], ids=str)
def test_fewer_than_three_classes_teach_no_location(sizes):
    rows, group = labelled(sizes=sizes)
    assert fit_location(rows, group) is CONJUGATE


@pytest.mark.parametrize("sizes", [(30, 20, 25, 10), (8, 50, 9), (3, 1, 4)], ids=str)
def test_freedom_and_spread_foresee_each_class_best(sizes):
    rows, group = labelled(seed=len(sizes), sizes=sizes, spread=5.0)
    score = np.zeros((len(FREEDOM), len(SPREAD)))
    for j in range(len(sizes)):
        mean, covariance = total(rows[group != j], group[group != j]) if len(sizes) > 2 else (None, None)
        if mean is None:  # one class left: its mean has no spread
            mean, covariance = rows[group != j].mean(axis=0), np.eye(2)
        for a, freedom in enumerate(FREEDOM):
            for b, spread in enumerate(SPREAD):
                law = stats.multivariate_t(mean, spread * covariance, df=freedom)
                score[a, b] += law.logpdf(rows[group == j]).mean()
    a, b = np.unravel_index(score.argmax(), score.shape)
    location = fit_location(rows, group)
    mean, covariance = total(rows, group)
    assert location.freedom == FREEDOM[a]
    np.testing.assert_allclose(location.mean, mean, atol=1e-12)
    np.testing.assert_allclose(np.linalg.inv(location.factor.T @ location.factor), SPREAD[b] * covariance, rtol=1e-9)
    np.testing.assert_array_equal(location.factor, np.tril(location.factor))


def test_classes_along_a_line_are_expected_along_it():
    rng = np.random.default_rng(1)
    group = np.repeat(np.arange(9), 40)
    rows = np.array([[6.0, 6.0]]) * (group[:, None] - 4) + rng.normal(size=(360, 2))
    location = fit_location(rows, group)
    prior = make_base("full", 2, nu=60.0)[0]
    along, across = log_new_densities(homogeneous(np.array([[40.0, 40.0], [40.0, -40.0]])), prior, location)
    assert along > across + 3


# Broad terms


@pytest.mark.parametrize("d", [1, 3])
@pytest.mark.parametrize("kind", ["full", "diagonal"])
def test_broad_terms_are_weighted_student_ts(d, kind):
    rows, group = labelled(seed=d, sizes=(30, 1, 12), d=d)
    prior, alpha = make_base(kind, d, nu=d + 4.0)[0], 7.0
    least = {"full": 5.0, "diagonal": 5.0 * d}[kind]
    broad = fit_broad(rows, group, alpha, prior)
    asked = np.random.default_rng(2).normal(scale=6.0, size=(15, d))
    log_density = np.random.default_rng(3).normal(-8, 3, (15, 4))  # the last class came later
    log_density[0, 0] = -np.inf
    before = log_density.copy()
    found = add_broad(log_density, broad, homogeneous(asked))
    np.testing.assert_array_equal(log_density, before)
    for j, n in enumerate((30, 1, 12)):
        members = rows[group == j]
        scatter = (members - members.mean(axis=0)).T @ (members - members.mean(axis=0))
        shape = (scatter + (d + 1) * np.eye(d)) / (n + d + 1)
        term = stats.multivariate_t.logpdf(asked, loc=members.mean(axis=0), shape=shape, df=n + least)
        expected = np.logaddexp(before[:, j], np.log(alpha / (n + alpha)) + term)
        np.testing.assert_allclose(found[:, j], expected, rtol=1e-10)
    np.testing.assert_array_equal(found[:, 3], before[:, 3])


@pytest.mark.parametrize(
    ("covariance", "placed"), [("full", False), ("full", True), ("diagonal", False), ("tied", False)]
)
def test_what_lies_far_from_everything_is_no_class_s(covariance, placed):
    rows, group = labelled(seed=8, sizes=(100, 3, 1), d=3)
    prior = make_base(covariance, 3, nu=23.0, psi=2.3, beta=0.1)[0]
    location = fit_location(rows, group)._replace(freedom=50.0) if placed else CONJUGATE
    training = library.train(
        rows, group, fit_space(rows, group), prior, np.random.default_rng(9), sweeps=2, location=location
    )
    known, _ = library.summarize(training, 0.0, broad=True)
    assert (known.broad is None) == (covariance == "tied")
    directions = np.concatenate([np.eye(3), np.random.default_rng(10).normal(size=(20, 3))])
    far = homogeneous(1e7 * directions / np.linalg.norm(directions, axis=1, keepdims=True))
    log_density, _ = log_class_densities(known, densities(known), far)
    assert (log_density.max(axis=1) < log_new(known, far) - 5).all()


def test_a_class_with_its_broad_term_has_mass_one():
    rows, group = labelled(seed=4, sizes=(25, 40), d=1, parts=2)
    prior = make_base("full", 1)[0]
    training = library.train(rows, group, fit_space(rows, group), prior, np.random.default_rng(5), sweeps=5)
    for broad in (False, True):
        known, log_density = library.summarize(training, 0.0, broad)
        frozen = densities(known)

        def density(x: float, j: int, known=known, frozen=frozen) -> float:
            return float(np.exp(log_class_densities(known, frozen, np.array([[x, 1.0]]))[0][0, j]))

        for j, n in enumerate((25, 40)):
            mass, _ = integrate.quad(density, -np.inf, np.inf, args=(j,), limit=400)
            assert mass == pytest.approx(1.0 if broad else n / (n + known.alpha), abs=2e-3)
        assert (known.broad is not None) == broad
        assert np.isfinite(log_density).all() or not broad


def test_what_lies_far_is_new_by_the_location():
    rows, group = labelled(seed=6)
    location = fit_location(rows, group)
    prior = make_base("full", 2)[0]
    training = library.train(
        rows, group, fit_space(rows, group), prior, np.random.default_rng(7), sweeps=2, location=location
    )
    known, _ = library.summarize(training, 0.01)
    asked = homogeneous(np.array([[50.0, 0.0], [0.0, 0.0]]))
    np.testing.assert_array_equal(log_new(known, asked), log_new_densities(asked, prior, location))
    assert not np.allclose(log_new(known, asked), log_prior_predictives(asked, prior))
