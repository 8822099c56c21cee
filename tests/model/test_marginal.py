"""Marginal likelihoods of whole subclasses, by the textbook; parts of one subclass; statistics that are moved."""

from __future__ import annotations

import numpy as np
import pytest

from stream_osr.model.dish_statistics import Dishes, empty_dishes, log_predictives, log_prior_predictives, refill
from stream_osr.model.marginal import Statistics, add_statistics, log_ratios_together, split_test, statistics_of
from stream_osr.model.prior import Prior, homogeneous, make_prior
from stream_osr.model.student_t import Location, log_new_densities
from tests.model.problems import KINDS, fill, log_marginals, make_base, random_rows
from tests.oracles.niw import BaseMeasure

PRIOR = make_base(3, nu=6.5, psi=2.6)[0]
SIZES = (7, 1, 12, 30)
EACH_KIND = pytest.mark.parametrize("kind", KINDS)


def filled(kind: str) -> tuple[Prior, BaseMeasure, Dishes, list[np.ndarray]]:
    prior, measure = make_base(3, kind, nu=6.5, psi=2.6)
    rng = np.random.default_rng(0)
    blocks = [random_rows(rng, n, prior, 0.5) for n in SIZES]
    for block in blocks:
        block[:, -3:] += rng.normal(size=3)
    return prior, measure, fill(prior, blocks), blocks


@EACH_KIND
def test_ratio_of_together_and_apart_is_that_of_the_textbook(kind: str):
    prior, measure, dishes, blocks = filled(kind)
    apart = [measure.log_marginal(block) for block in blocks]
    for k in range(4):
        others = np.array([other for other in range(4) if other != k])
        found = log_ratios_together(statistics_of(dishes, np.array([k])), statistics_of(dishes, others), prior)
        together = [measure.log_marginal(np.concatenate([blocks[k], blocks[other]])) for other in others]
        np.testing.assert_allclose(found + apart[k], together - np.take(apart, others), rtol=1e-9, atol=1e-9)


@EACH_KIND
def test_poured_together_and_out_again(kind: str):
    prior, _, dishes, blocks = filled(kind)
    whole, poured = fill(prior, [np.concatenate(blocks[2:])]), Dishes(*(v.copy() for v in dishes))
    add_statistics(poured, 2, statistics_of(dishes, np.array([3])), prior)
    rows = homogeneous(random_rows(np.random.default_rng(1), 9, prior))
    assert poured.size[2] == 42
    np.testing.assert_allclose(log_predictives(rows, poured, prior)[:, 2], log_predictives(rows, whole, prior)[:, 0])
    np.testing.assert_allclose(poured.constant[2], whole.constant[0])
    add_statistics(poured, 2, statistics_of(dishes, np.array([3])), prior, sign=-1)
    np.testing.assert_allclose(log_predictives(rows, poured, prior), log_predictives(rows, dishes, prior), rtol=1e-9)
    np.testing.assert_array_equal(poured.counts, dishes.counts)
    taken = statistics_of(dishes, np.array([0]))
    taken.matrix[:] = 0.0
    assert dishes.matrix[0].any(), "statistics are copies"
    add_statistics(poured, 2, statistics_of(poured, np.array([2])), prior, sign=-1)
    assert poured.size[2] == 0
    add_statistics(poured, 2, statistics_of(dishes, np.array([1])), prior)  # whatever an empty slot holds
    found = log_predictives(rows, poured, prior)
    np.testing.assert_allclose(found[:, 2], found[:, 1])


def parts(rows: np.ndarray, smaller: np.ndarray, prior: Prior) -> list[Statistics]:
    dishes = empty_dishes(2, prior)
    refill(dishes, smaller.astype(np.int64), rows, prior)
    return [statistics_of(dishes, np.array([k])) for k in (0, 1)]


def test_two_clusters_are_parted_and_not_joined_again_and_one_is_not_parted():
    rng, parted, whole = np.random.default_rng(5), 0, 0
    for _ in range(20):
        truth = rng.permutation(np.repeat([0, 1], [20, 14]))
        rows = homogeneous(rng.normal(np.array([[0.0, 0.0, 0.0], [20.0, 10.0, 0.0]])[truth]))
        smaller = split_test(rows, 1.0, 8, PRIOR)
        if smaller is not None:
            parted += np.array_equal(smaller, truth == 1)
            assert log_ratios_together(*parts(rows, smaller, PRIOR), PRIOR)[0] < 0
        whole += split_test(homogeneous(rng.normal(size=(34, 3))), 1.0, 8, PRIOR) is None
    assert parted >= 19
    assert whole == 20


def test_a_part_has_the_least_size_or_there_is_none():
    rng = np.random.default_rng(6)
    for n in (7, 8, 9):
        rows = rng.normal(np.repeat([[0.0], [30.0]], [20, n], axis=0), size=(20 + n, 3))
        smaller = split_test(homogeneous(rows), 1.0, 8, PRIOR)
        assert (smaller is None) == (n < 8)
    assert split_test(homogeneous(rng.normal(size=(15, 3))), 1.0, 8, PRIOR) is None
    assert split_test(homogeneous(np.zeros((0, 3))), 1.0, 8, PRIOR) is None


FLAT = make_prior(20, nu=40.0, scale=1.0, beta=0.003)
PLACED = Location(5.0, np.ones(20), np.diag(np.full(20, 0.25)))


def test_a_placed_subclass_begins_with_the_density_of_its_place():
    rng = np.random.default_rng(8)
    rows = [homogeneous(rng.normal(2.0, size=(n, 20))) for n in (1, 6)]
    dishes = empty_dishes(3, FLAT)  # the third is empty
    refill(dishes, np.repeat([0, 1], [1, 6]), np.concatenate(rows), FLAT)
    statistics = statistics_of(dishes, np.arange(3))
    means = np.array([r.mean(axis=0) for r in rows])
    expected = log_new_densities(means, FLAT, PLACED) - log_prior_predictives(means, FLAT)
    found = log_marginals(statistics, FLAT, PLACED) - log_marginals(statistics, FLAT)
    np.testing.assert_allclose(found, [*expected, 0.0], atol=1e-9)
    assert expected.min() > 10.0


def test_small_classes_in_many_dimensions_are_parted_where_new_ones_are_placed():
    rng = np.random.default_rng(9)
    apart = whole = 0
    for _ in range(20):
        truth = rng.permutation(np.repeat([0, 1], [12, 10]))
        rows = homogeneous(rng.normal(np.stack([np.zeros(20), np.full(20, 1.8)])[truth]))
        assert split_test(rows, 1.0, 4, FLAT) is None
        smaller = split_test(rows, 1.0, 4, FLAT, PLACED)
        if smaller is not None:
            apart += int(max((smaller == truth).mean(), (smaller != truth).mean()) == 1.0)
            both = parts(rows, smaller, FLAT)
            assert log_ratios_together(*both, FLAT, PLACED)[0] < 0.0 < log_ratios_together(*both, FLAT)[0]
        whole += split_test(homogeneous(rng.normal(size=(22, 20))), 1.0, 4, FLAT, PLACED) is None
    assert apart >= 18
    assert whole == 20
