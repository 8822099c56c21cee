"""Statistics in another model's coordinates, and the class they belong to, against the rows themselves."""

from __future__ import annotations

import numpy as np

from stream_osr.model.dish_statistics import empty_dishes, refill
from stream_osr.model.feature_space.whitening import fit_whitening, whiten
from stream_osr.model.known import densities
from stream_osr.model.marginal import Statistics, statistics_of
from stream_osr.model.prior import Prior, homogeneous, make_prior
from stream_osr.model.transfer import GAIN, CoordinateMap, class_of, passage, restate
from tests.blobs import fitted


def statistics(rows: np.ndarray, dish: np.ndarray, prior: Prior) -> Statistics:
    dishes = empty_dishes(int(dish.max()) + 1, prior)
    refill(dishes, dish, homogeneous(rows), prior)
    return statistics_of(dishes, np.arange(len(dishes.size)))


def test_restated_is_what_the_rows_say() -> None:
    """Other scales, another origin, another prior; the coordinates mixed where that is possible."""
    rng = np.random.default_rng(0)
    old, new = (make_prior(3, nu=nu, scale=0.5, beta=beta) for nu, beta in ((5.0, 1.0), (9.0, 0.1)))
    rows, dish = rng.normal(size=(40, 3)) + 2.0, np.repeat([0, 1], [30, 10])
    way = CoordinateMap(rng.normal(size=(3, 3)), rng.normal(size=3))
    found = restate(statistics(rows, dish, old), way, old, new)
    np.testing.assert_array_equal(found.size, [30, 10])
    expected = statistics(rows @ way.matrix + way.offset, dish, new).matrix
    np.testing.assert_allclose(found.matrix, expected, rtol=1e-11, atol=1e-9)


def test_the_way_goes_by_the_names_of_the_features_and_knows_what_was_left_out() -> None:
    rng = np.random.default_rng(1)
    X, group = rng.normal(size=(200, 3)) * [1.0, 1e4, 1e-3] + [5.0, -1e6, 0.0], np.arange(200) % 2
    old, order = fit_whitening(X, group), [2, 0, 1]
    new = fit_whitening(2.0 * X[:100, order] + 1.0, group[:100], pca=2)
    way = passage(old, new, order)
    np.testing.assert_allclose(
        whiten(old, X) @ way.matrix + way.offset, whiten(new, X[:, order]), rtol=1e-9, atol=1e-6
    )
    cut = fit_whitening(X, group, pca=2)
    np.testing.assert_array_equal(passage(cut, cut, [0, 1, 2]).matrix, np.eye(2))
    assert not len(passage(cut, cut, [0, 1, 2]).missing)
    back = passage(cut, old, [0, 1, 2])
    np.testing.assert_allclose(back.matrix.T @ back.matrix + back.missing, np.eye(3), atol=0.05)


def test_subclasses_are_as_wide_as_the_known_classes_where_they_were_not_seen() -> None:
    prior, other, dish = make_prior(2, 5.0, 0.5, 1.0), make_prior(3, 6.0, 0.5, 1.0), np.zeros(30, np.int64)
    rows, missing = np.random.default_rng(2).normal(size=(30, 2)), np.diag([0.0, 0.0, 1.0])
    way = CoordinateMap(np.eye(2, 3), np.zeros(3), missing=missing)
    found = restate(statistics(rows, dish, prior), way, prior, other)
    expected = statistics(np.column_stack([rows, np.zeros(30)]), dish, other).matrix
    expected[0, 2, 2] += 30.0
    np.testing.assert_allclose(found.matrix, expected, rtol=1e-11, atol=1e-9)


def test_rows_belong_to_the_class_that_foresees_them_unless_they_gain_much() -> None:
    """A part of a class is of the class; what is much tighter, or elsewhere, is a subclass of its own."""
    trained = fitted(400, chains=1, nu=4.0, scale=0.2, beta=0.1).trained
    known, frozen = trained.known, densities(trained.known)
    rng = np.random.default_rng(2)
    for label, centre in enumerate(([0.0, 0.0], [10.0, 0.0])):
        spreads = {1.0: label, 0.5: label, 0.02: None}
        for spread, expected in spreads.items():
            rows = whiten(trained.whitening, rng.normal(centre, spread, size=(64, 2)))
            assert class_of(known, frozen, rows) == expected, spread
    assert class_of(known, frozen, whiten(trained.whitening, rng.normal([5.0, 30.0], size=(8, 2)))) is None
    assert GAIN > 0
