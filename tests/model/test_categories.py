"""Categories beside Gaussians: every kernel against the textbook's Dirichlet-multinomial."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logsumexp

from tests.doors.model import (
    CONCENTRATION,
    Known,
    Location,
    add,
    categories,
    densities,
    draw_concentrations,
    empty_dishes,
    fit_mixed,
    homogeneous,
    log_densities,
    log_evidence_of_values,
    log_marginals,
    log_new_densities,
    of_rows,
    remove,
    statistics_of,
    typical_rows,
    whiten,
)
from tests.doors.model import dishes as library
from tests.model import problems
from tests.model.problems import DIRICHLET, fill, make_base
from tests.oracles.categories import Categories

KINDS = [("categories", 2), ("diagonal categories", 2), ("tied categories", 2), ("categories", 0)]


def random_rows(rng, n, prior):
    return problems.random_rows(rng, n, prior)


def filled(prior, rows):
    return fill(prior, [rows])


@pytest.mark.parametrize(("covariance", "d"), KINDS)
@pytest.mark.parametrize("n", [0, 1, 7])
def test_predictive_is_the_product_of_both_textbook_ones(covariance, d, n):
    rng = np.random.default_rng(n)
    prior, oracle = make_base(covariance, d)
    rows, asked = random_rows(rng, n, prior), random_rows(rng, 12, prior)
    dishes = filled(prior, rows)
    for x, row in zip(asked, homogeneous(asked), strict=True):
        assert library.log_predictive(dishes, 0, row, prior) == pytest.approx(
            oracle.log_predictive(x, rows), abs=1e-9
        )
    fresh = [oracle.log_predictive(x, rows[:0]) for x in asked]
    np.testing.assert_allclose(log_new_densities(homogeneous(asked), prior), fresh, atol=1e-9)


@pytest.mark.parametrize(("covariance", "d"), KINDS)
def test_left_out_of_its_own_subclass(covariance, d):
    prior, oracle = make_base(covariance, d)
    rows = random_rows(np.random.default_rng(3), 8, prior)
    dishes = filled(prior, rows)
    for i, row in enumerate(homogeneous(rows)):
        expected = oracle.log_predictive(rows[i], np.delete(rows, i, axis=0))
        assert library.log_predictive_without(dishes, 0, row, prior) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(("covariance", "d"), KINDS)
def test_a_block_is_predicted_together(covariance, d):
    prior, oracle = make_base(covariance, d)
    rows = random_rows(np.random.default_rng(4), 9, prior)
    block = homogeneous(rows[:4])
    expected = oracle.log_marginal(rows) - oracle.log_marginal(rows[4:])
    others, everybody = filled(prior, rows[4:]), filled(prior, rows)
    before = others.counts.copy(), everybody.counts.copy()
    assert library.log_block_predictive(others, 0, block, False, prior) == pytest.approx(expected, abs=1e-9)
    assert library.log_block_predictive(everybody, 0, block, True, prior) == pytest.approx(expected, abs=1e-9)
    np.testing.assert_array_equal(others.counts, before[0])
    np.testing.assert_array_equal(everybody.counts, before[1])
    nobody = empty_dishes(1, prior)
    alone = library.log_block_predictive(nobody, 0, block, False, prior)
    assert alone == pytest.approx(oracle.log_marginal(rows[:4]), abs=1e-9)


@pytest.mark.parametrize(("covariance", "d"), KINDS)
def test_who_leaves_leaves_nothing_behind(covariance, d):
    prior, _ = make_base(covariance, d)
    rows = homogeneous(random_rows(np.random.default_rng(5), 6, prior))
    dishes = empty_dishes(1, prior)
    for row in rows:
        add(dishes, 0, row, prior)
    for row in rows[:3]:
        remove(dishes, 0, row, prior)
    np.testing.assert_array_equal(dishes.counts[0], categories.counts_of(rows[3:], prior))
    for row in rows[3:]:
        remove(dishes, 0, row, prior)
    assert not dishes.counts.any()


@pytest.mark.parametrize(("covariance", "d"), [kind for kind in KINDS if not kind[0].startswith("tied")])
def test_marginal_likelihood_of_a_whole_subclass(covariance, d):
    prior, oracle = make_base(covariance, d)
    rows = random_rows(np.random.default_rng(6), 7, prior)
    found = log_marginals(of_rows(homogeneous(rows), prior), prior)[0]
    assert found == pytest.approx(oracle.log_marginal(rows), abs=1e-9)


def test_a_missing_value_is_marginalised_out():
    prior, _ = make_base("categories", 0)
    dishes = filled(prior, random_rows(np.random.default_rng(7), 5, prior))
    logs = categories.log_table(dishes.counts, prior)[0]
    for own in np.split(logs, prior.first[1:]):
        assert own[0] == 0.0
        assert logsumexp(own[1:]) == pytest.approx(0.0, abs=1e-12)


def test_a_value_never_seen_has_a_probability():
    rows, group = np.array([[1.0], [1.0], [2.0], [2.0]]), np.array([0, 0, 0, 1])
    base = categories.base_of(rows, group, np.array([4]))
    assert base[0] == 1.0
    assert base[1:].sum() == pytest.approx(1.0)
    assert base[3] == pytest.approx(1 / 8), (
        "of a class of three and of one, each with one more spread over three places"
    )
    assert base[3] < base[1] < base[2], "each class counts alike, and the value of both is the commonest"


def test_concentrations_are_weighed_by_their_evidence():
    rng = np.random.default_rng(8)
    dish, base = rng.integers(3, size=40), np.array([1.0, 0.5, 0.3, 0.2])
    place = rng.integers(4, size=40)
    found = log_evidence_of_values(place, dish, base)
    for at, a in enumerate(CONCENTRATION.tolist()):
        oracle = Categories([(a * base[1:]).tolist()])
        blocks = [[[None if v == 0 else v - 1] for v in place[dish == k].tolist()] for k in range(3)]
        assert found[at] == pytest.approx(sum(oracle.log_marginal(block) for block in blocks), abs=1e-8)


def test_concentrations_are_drawn_as_often_as_they_are_likely():
    rng = np.random.default_rng(9)
    prior = make_base("full", 1)[0]._replace(first=np.zeros(1, np.int64), pseudo=np.array([1.0, 0.5, 0.3, 0.2]))
    rows, dish = rng.integers(4, size=(25, 1)).astype(float), rng.integers(4, size=25)
    evidence = log_evidence_of_values(rows[:, 0].astype(int), dish, prior.pseudo / prior.pseudo[0])
    expected = np.exp(evidence - logsumexp(evidence))
    drawn = [draw_concentrations(rng, rows, dish, prior).pseudo for _ in range(4000)]
    share = np.array([np.mean([own[0] == a for own in drawn]) for a in CONCENTRATION])
    np.testing.assert_allclose(share, expected, atol=0.03)
    for own in drawn[:5]:
        np.testing.assert_allclose(own / own[0], prior.pseudo / prior.pseudo[0])


@pytest.mark.parametrize("d", [0, 2])
@pytest.mark.parametrize("placing", [False, True], ids=["conjugate", "placed"])
def test_frozen_densities_are_those_of_the_subclasses(d, placing):
    rng = np.random.default_rng(10)
    prior, oracle = make_base("categories", d)
    blocks = [random_rows(rng, n, prior) for n in (5, 4, 6)]
    dishes = empty_dishes(3, prior)
    for k, block in enumerate(blocks):
        for row in homogeneous(block):
            add(dishes, k, row, prior)
    seated = np.array([[5.0, 4.0, 0.0], [0.0, 0.0, 6.0]])
    values = categories.log_table(dishes.counts[:2].sum(axis=0, keepdims=True), prior)[0]
    location = Location(4.0, np.zeros(d), np.eye(d)) if placing else Location(0.0, np.zeros(0), np.zeros((0, 0)))
    known = Known(
        prior, dishes, np.arange(3), seated, (seated > 0) * 1.0, seated.sum(axis=1), 1.5, 3.0, 0.0,
        np.zeros((2, 101)), location, (Location(5.0, np.zeros(d), np.eye(d), values), None),
    )  # fmt: skip
    asked = random_rows(rng, 20, prior)
    rows = homogeneous(asked)
    found, _, new = log_densities(known, densities(known), rows)
    each = np.array([[oracle.log_predictive(x, block) for block in blocks] for x in asked])
    t = Location(5.0, np.zeros(d), np.eye(d))
    from tests.doors.model import log_student_t

    broad = log_student_t(rows, t) + values[rows[:, : len(DIRICHLET)].astype(int)].sum(axis=1)
    first = np.logaddexp(np.log(5 / 10.5) + each[:, 0], np.log(4 / 10.5) + each[:, 1])
    np.testing.assert_allclose(found[:, 0], np.logaddexp(first, np.log(1.5 / 10.5) + broad), atol=1e-9)
    np.testing.assert_allclose(found[:, 1], np.log(6 / 7.5) + each[:, 2], atol=1e-9)
    np.testing.assert_allclose(new, log_new_densities(rows, prior, location), atol=1e-9)


def test_the_commonest_values_are_the_nearest():
    prior, _ = make_base("categories", 0)
    dishes = filled(prior, np.array([[1.0, 6.0]] * 9 + [[2.0, 5.0]]))
    np.testing.assert_array_equal(typical_rows(dishes, prior), [[1.0, 6.0]])
    rows = homogeneous(np.array([[1.0, 6.0], [2.0, 6.0], [2.0, 5.0], [0.0, 4.0]]))
    near, one, both, nowhere = library.mahalanobis_each(dishes, np.zeros(4, np.int64), rows, prior)
    assert near == nowhere == 0.0
    assert 0.0 < one < both


def test_statistics_go_from_slot_to_slot_with_their_counts():
    prior, _ = make_base("categories", 2)
    dishes = filled(prior, random_rows(np.random.default_rng(11), 5, prior))
    copied = library.copy_slots(dishes, np.array([-1, 0]), 3)
    np.testing.assert_array_equal(copied.counts[1], dishes.counts[0])
    np.testing.assert_array_equal(statistics_of(copied, np.array([1])).counts, dishes.counts)


def test_whitened_rows_begin_with_places():
    X = np.array([[0.0, 1.5, 2.0], [1.0, 2.5, 0.0], [0.0, 3.5, 1.0], [np.nan, 4.5, np.nan]])
    space = fit_mixed(X, np.array([0, 0, 1, 1]), np.array([4, 0, 5]))
    rows = whiten(space, np.vstack([X, [[7.0, 1.5, 3.0]]]))
    np.testing.assert_array_equal(rows[:, :2], [[1, 7], [2, 5], [1, 6], [0, 4], [3, 8]])
    np.testing.assert_array_equal(rows[0, 2:], rows[4, 2:])


def test_numbers_are_whitened_as_without_categories():
    rng = np.random.default_rng(12)
    X, group = rng.normal(size=(60, 2)) @ [[1.0, 0.5], [0.0, 2.0]], np.arange(60) % 2
    alone = fit_mixed(X, group, np.array([0, 0]))
    beside = fit_mixed(np.column_stack([X[:, 0], np.zeros(60), X[:, 1]]), group, np.array([0, 3, 0]))
    np.testing.assert_allclose(
        whiten(beside, np.column_stack([X[:, 0], np.zeros(60), X[:, 1]]))[:, 1:], whiten(alone, X), rtol=1e-12
    )
