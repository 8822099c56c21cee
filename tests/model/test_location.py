"""Where new subclasses are expected: against scipy's Student-t."""

from __future__ import annotations

import numpy as np
import pytest
import scipy

from stream_osr import ModelOptions, OpenSetRecognizer
from stream_osr.model import dish_statistics as library_dishes
from stream_osr.model import location_fit
from stream_osr.model.dish_statistics import log_predictives, log_prior_predictives
from stream_osr.model.location_fit import fit_location
from stream_osr.model.prior import homogeneous, make_prior
from stream_osr.model.student_t import CONJUGATE, Location, log_new_densities
from tests.model.problems import make_base
from tests.model.test_training import labelled


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
    prior = make_base(d, nu=d + 9.0)[0]
    placed = scipy.stats.multivariate_t.logpdf(rows, loc=mean, shape=lower @ lower.T, df=3.5)
    expected = np.logaddexp(np.log(0.99) + placed, np.log(0.01) + log_prior_predictives(homogeneous(rows), prior))
    np.testing.assert_allclose(log_new_densities(homogeneous(rows), prior, location), expected, rtol=1e-10)


def test_fewer_than_three_classes_teach_no_location():
    for sizes in ((30,), (30, 30)):
        assert fit_location(*labelled(sizes=sizes)) is CONJUGATE


@pytest.mark.parametrize("sizes", [(30, 20, 25, 10), (8, 50, 9), (3, 1, 4)], ids=str)
def test_freedom_and_spread_foresee_each_class_best(sizes):
    rows, group = labelled(seed=len(sizes), sizes=sizes, spread=5.0)
    score = np.zeros((len(location_fit.FREEDOM), len(location_fit.SPREAD)))
    for j in range(len(sizes)):
        mean, covariance = total(rows[group != j], group[group != j])
        for a, freedom in enumerate(location_fit.FREEDOM):
            for b, spread in enumerate(location_fit.SPREAD):
                student = scipy.stats.multivariate_t(mean, spread * covariance, df=freedom)
                score[a, b] += student.logpdf(rows[group == j]).mean()
    a, b = np.unravel_index(score.argmax(), score.shape)
    location = fit_location(rows, group)
    mean, covariance = total(rows, group)
    assert location.freedom == location_fit.FREEDOM[a]
    np.testing.assert_allclose(location.mean, mean, atol=1e-12)
    found = np.linalg.inv(location.factor.T @ location.factor)
    np.testing.assert_allclose(found, location_fit.SPREAD[b] * covariance, rtol=1e-9)
    np.testing.assert_array_equal(location.factor, np.tril(location.factor))


def test_neighbours_are_found_by_densities() -> None:
    """By hand: the density of every fourth of each class beside another instance, and by itself."""
    rng, group = np.random.default_rng(3), np.repeat(np.arange(4), 200)
    rows = 0.5 * rng.normal(size=(4, 20))[group] + rng.normal(size=(800, 20))
    x, prior = homogeneous(rows), make_prior(20, nu=80.0, scale=0.7, beta=location_fit.FLAT_BETA)
    location = fit_location(rows, group)
    new, better = log_new_densities(x, prior, location), []
    for j in range(4):
        of_class = np.flatnonzero(group == j)[::4]
        for i in of_class:
            others = of_class[of_class != i]
            dishes = library_dishes.dishes_with(x[others], np.arange(len(others)), len(others), prior)
            better.append(log_predictives(x[[i]], dishes, prior).max() > new[i])
    share = location_fit.share_among_neighbours(x, group, prior, location)
    assert 0.0 < share < 1.0
    assert share == np.mean(better)
    assert location_fit.share_among_neighbours(x, group, prior, CONJUGATE) == 1.0


@pytest.mark.thorough
def test_in_many_dimensions_a_new_class_is_not_as_many_subclasses_as_instances() -> None:
    """A thousand features, as many instances: a placed member would begin a subclass with each of 128."""
    import pandas as pd

    rng = np.random.default_rng(0)
    centres, noise = rng.normal(scale=0.7, size=(6, 1000)), rng.normal(size=(1128, 1000))
    y = np.concatenate([np.arange(1000) % 5, np.full(128, 5)])
    X = centres[y] + 0.6 * noise + 0.8 * np.roll(noise, 1, axis=1)
    model = OpenSetRecognizer(seed=0, batch_size=128, chains=2, model=ModelOptions(training_sweeps=1))
    model.learn_many(pd.DataFrame(X[:1000]), y[:1000].tolist())
    model.learn_many(pd.DataFrame(X[1000:]))
    assert max(len(chain.state.ids) for chain in model.value.stream.chains) < 10
