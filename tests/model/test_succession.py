"""Statistics in another model's coordinates, and whose they are there, against the rows themselves."""

from __future__ import annotations

import numpy as np

from tests.blobs import fitted
from tests.doors import model as inside


def test_restated_is_what_the_rows_say() -> None:
    """Other scales, another origin, another prior; the coordinates mixed where that is possible."""
    rng = np.random.default_rng(0)
    old, new = (inside.make_prior(3, nu=nu, scale=0.5, beta=beta) for nu, beta in ((5.0, 1.0), (9.0, 0.1)))
    rows, dish = rng.normal(size=(40, 3)) + 2.0, np.repeat([0, 1], [30, 10])
    matrix = rng.normal(size=(3, 3))
    way = inside.CoordinateMap(matrix, rng.normal(size=3))
    before, after = inside.empty_dishes(2, old), inside.empty_dishes(2, new)
    inside.refill(before, dish, inside.homogeneous(rows), old)
    inside.refill(after, dish, inside.homogeneous(rows @ way.matrix + way.offset), new)
    found = inside.restate(inside.statistics_of(before, np.arange(2)), way, old, new)
    np.testing.assert_array_equal(found.size, [30, 10])
    np.testing.assert_allclose(found.matrix, after.matrix, rtol=1e-11, atol=1e-9)


def test_the_way_goes_by_the_names_of_the_features_and_knows_what_was_left_out() -> None:
    rng = np.random.default_rng(1)
    X, group = rng.normal(size=(200, 3)) * [1.0, 1e4, 1e-3] + [5.0, -1e6, 0.0], np.arange(200) % 2
    old, order = inside.fit_whitening(X, group), [2, 0, 1]
    new = inside.fit_whitening(2.0 * X[:100, order] + 1.0, group[:100], pca_components=2)
    way = inside.passage(old, new, order)
    np.testing.assert_allclose(
        inside.whiten(old, X) @ way.matrix + way.offset, inside.whiten(new, X[:, order]), rtol=1e-9, atol=1e-6
    )
    cut = inside.fit_whitening(X, group, pca_components=2)
    np.testing.assert_array_equal(inside.passage(cut, cut, [0, 1, 2]).matrix, np.eye(2))
    assert not len(inside.passage(cut, cut, [0, 1, 2]).missing)
    back = inside.passage(cut, old, [0, 1, 2])
    np.testing.assert_allclose(back.matrix.T @ back.matrix + back.missing, np.eye(3), atol=0.05)


def test_subclasses_are_as_wide_as_the_known_classes_where_they_were_not_seen() -> None:
    rng = np.random.default_rng(2)
    prior, other = inside.make_prior(2, 5.0, 0.5, 1.0), inside.make_prior(3, 6.0, 0.5, 1.0)
    rows, missing = rng.normal(size=(30, 2)), np.diag([0.0, 0.0, 1.0])
    way = inside.CoordinateMap(np.eye(2, 3), np.zeros(3), missing=missing)
    dishes, full = inside.empty_dishes(1, prior), inside.empty_dishes(1, other)
    inside.refill(dishes, np.zeros(30, np.int64), inside.homogeneous(rows), prior)
    found = inside.restate(inside.statistics_of(dishes, np.arange(1)), way, prior, other)
    seen = np.column_stack([rows, np.zeros(30)])
    inside.refill(full, np.zeros(30, np.int64), inside.homogeneous(seen), other)
    full.matrix[0, 2, 2] += 30.0
    np.testing.assert_allclose(found.matrix, full.matrix, rtol=1e-11, atol=1e-9)


def test_rows_belong_to_the_class_that_foresees_them_unless_they_gain_much() -> None:
    """A part of a class is of the class; what is much tighter, or elsewhere, is a subclass of its own."""
    trained = fitted(400, chains=1, nu=4.0, scale=0.2, beta=0.1).trained
    known, frozen = trained.known, inside.densities(trained.known)
    rng = np.random.default_rng(2)
    for label, centre in enumerate(([0.0, 0.0], [10.0, 0.0])):
        spreads = {1.0: label, 0.5: label, 0.02: None}
        for spread, expected in spreads.items():
            rows = inside.whiten(trained.whitening, rng.normal(centre, spread, size=(64, 2)))
            assert inside.class_of(known, frozen, rows) == expected, spread
    assert (
        inside.class_of(known, frozen, inside.whiten(trained.whitening, rng.normal([5.0, 30.0], size=(8, 2)))) is None
    )
    assert inside.GAIN > 0
