"""Categories beside Gaussians: every kernel against the textbook's Dirichlet-multinomial."""

from __future__ import annotations

import numpy as np
import pytest
import scipy

from stream_osr.model import categories, student_t
from stream_osr.model import dish_statistics as library_dishes
from stream_osr.model.background_components import BackgroundComponent
from stream_osr.model.feature_space.mixed_whitening import fit_mixed
from stream_osr.model.feature_space.whitening import whiten
from stream_osr.model.known import densities, log_densities
from stream_osr.model.moves import hyperparameters
from stream_osr.model.nearest import typical_rows
from stream_osr.model.prior import homogeneous
from stream_osr.model.student_t import CONJUGATE, Location, log_new_densities
from tests.model.problems import DIRICHLET, fill, known_of, make_base, random_rows
from tests.oracles.categories import Categories

TWO = make_base(0, "categories")[0]
"""Two categories and no number."""


def test_a_value_never_seen_has_a_probability():
    rows, group = np.array([[1.0], [1.0], [2.0], [2.0]]), np.array([0, 0, 0, 1])
    base = categories.base_of(rows, group, np.array([4]))
    assert base[0] == 1.0
    assert base[1:].sum() == pytest.approx(1.0)
    assert base[3] == pytest.approx(1 / 8), "of a class of three and of one, each with one more over three places"
    assert base[3] < base[1] < base[2], "each class counts alike, and the value of both is the commonest"


def test_concentrations_are_drawn_by_their_evidence():
    rng = np.random.default_rng(9)
    prior = make_base(1)[0]._replace(first=np.zeros(1, np.int64), pseudo=np.array([1.0, 0.5, 0.3, 0.2]))
    rows, dish = rng.integers(4, size=(25, 1)).astype(float), rng.integers(4, size=25)
    place, base = rows[:, 0].astype(int), prior.pseudo / prior.pseudo[0]
    evidence = hyperparameters.log_evidence_of_values(place, dish, base)
    blocks = [[[None if v == 0 else v - 1] for v in place[dish == k].tolist()] for k in range(4)]
    for found, a in zip(evidence, hyperparameters.CONCENTRATION.tolist(), strict=True):
        oracle = Categories([(a * base[1:]).tolist()])
        assert found == pytest.approx(sum(oracle.log_marginal(block) for block in blocks), abs=1e-8)
    drawn = [hyperparameters.draw_concentrations(rng, rows, dish, prior).pseudo for _ in range(4000)]
    share = np.array([np.mean([own[0] == a for own in drawn]) for a in hyperparameters.CONCENTRATION])
    np.testing.assert_allclose(share, scipy.special.softmax(evidence), atol=0.03)
    for own in drawn[:5]:
        np.testing.assert_allclose(own / own[0], base)


@pytest.mark.parametrize("d", [0, 2])
@pytest.mark.parametrize("placing", [False, True], ids=["conjugate", "placed"])
def test_frozen_densities_are_those_of_the_subclasses(d, placing):
    rng = np.random.default_rng(10)
    prior, oracle = make_base(d, "categories")
    blocks = [random_rows(rng, n, prior) for n in (5, 4, 6)]
    values = categories.log_table(fill(prior, [np.vstack(blocks[:2])]).counts, prior)[0]
    location = Location(4.0, np.zeros(d), np.eye(d)) if placing else CONJUGATE
    broad = (BackgroundComponent(Location(5.0, np.zeros(d), np.eye(d), values), 1.0),), ()
    placed = {"location": location, "background_components": broad}
    known = known_of(prior, blocks, [0, 0, 1], [1.0] * 3, alpha=1.5, epsilon=0.0, **placed)
    points = random_rows(rng, 20, prior)
    rows = homogeneous(points)
    found, _, new = log_densities(known, densities(known), rows)
    each = np.array([[oracle.log_predictive(x, block) for block in blocks] for x in points])
    broad = student_t.log_student_t(rows, Location(5.0, np.zeros(d), np.eye(d))) + values[
        rows[:, : len(DIRICHLET)].astype(int)
    ].sum(axis=1)
    first = np.logaddexp(np.log(5 / 10.5) + each[:, 0], np.log(4 / 10.5) + each[:, 1])
    np.testing.assert_allclose(found[:, 0], np.logaddexp(first, np.log(1.5 / 10.5) + broad), atol=1e-9)
    np.testing.assert_allclose(found[:, 1], np.log(6 / 7.5) + each[:, 2], atol=1e-9)
    np.testing.assert_allclose(new, log_new_densities(rows, prior, location), atol=1e-9)


def test_the_commonest_values_are_the_nearest():
    dishes = fill(TWO, [np.array([[1.0, 6.0]] * 9 + [[2.0, 5.0]])])
    np.testing.assert_array_equal(typical_rows(dishes, TWO), [[1.0, 6.0]])
    rows = homogeneous(np.array([[1.0, 6.0], [2.0, 6.0], [2.0, 5.0], [0.0, 4.0]]))
    near, one, both, nowhere = library_dishes.mahalanobis_each(dishes, np.zeros(4, np.int64), rows, TWO)
    assert near == nowhere == 0.0
    assert 0.0 < one < both


def test_whitened_rows_begin_with_places_and_numbers_are_those_without_categories():
    X = np.array([[0.0, 1.5, 2.0], [1.0, 2.5, 0.0], [0.0, 3.5, 1.0], [np.nan, 4.5, np.nan]])
    space = fit_mixed(X, np.array([0, 0, 1, 1]), np.array([4, 0, 5]))
    rows = whiten(space, np.vstack([X, [[7.0, 1.5, 3.0]]]))
    np.testing.assert_array_equal(rows[:, :2], [[1, 7], [2, 5], [1, 6], [0, 4], [3, 8]])
    np.testing.assert_array_equal(rows[0, 2:], rows[4, 2:])
    rng = np.random.default_rng(12)
    X, group = rng.normal(size=(60, 2)) @ [[1.0, 0.5], [0.0, 2.0]], np.arange(60) % 2
    wide = np.column_stack([X[:, 0], np.zeros(60), X[:, 1]])
    alone, beside = fit_mixed(X, group, np.array([0, 0])), fit_mixed(wide, group, np.array([0, 3, 0]))
    np.testing.assert_allclose(whiten(beside, wide)[:, 1:], whiten(alone, X), rtol=1e-12)
