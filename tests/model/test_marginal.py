"""Marginal likelihoods of whole subclasses, by the textbook; parts of one subclass; statistics that are moved."""

from __future__ import annotations

import numpy as np
import pytest

from tests.doors import model as inside
from tests.model.problems import KINDS, fill, make_base, random_rows
from tests.oracles.niw import BaseMeasure

PRIOR = make_base(3, nu=6.5, psi=2.6)[0]
SIZES = (7, 1, 12, 30)
EACH_KIND = pytest.mark.parametrize("kind", KINDS)


def filled(kind: str) -> tuple[inside.Prior, BaseMeasure, inside.Dishes, list[np.ndarray]]:
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
        found = inside.log_ratios_together(
            inside.statistics_of(dishes, np.array([k])), inside.statistics_of(dishes, others), prior
        )
        together = [measure.log_marginal(np.concatenate([blocks[k], blocks[other]])) for other in others]
        np.testing.assert_allclose(found + apart[k], together - np.take(apart, others), rtol=1e-9, atol=1e-9)


@EACH_KIND
def test_poured_together_and_out_again(kind: str):
    prior, _, dishes, blocks = filled(kind)
    whole, poured = fill(prior, [np.concatenate(blocks[2:])]), inside.Dishes(*(v.copy() for v in dishes))
    inside.add_statistics(poured, 2, inside.statistics_of(dishes, np.array([3])), prior)
    rows = inside.homogeneous(random_rows(np.random.default_rng(1), 9, prior))
    assert poured.size[2] == 42
    np.testing.assert_allclose(
        inside.log_predictives(rows, poured, prior)[:, 2], inside.log_predictives(rows, whole, prior)[:, 0]
    )
    np.testing.assert_allclose(poured.constant[2], whole.constant[0])
    inside.add_statistics(poured, 2, inside.statistics_of(dishes, np.array([3])), prior, sign=-1)
    np.testing.assert_allclose(
        inside.log_predictives(rows, poured, prior), inside.log_predictives(rows, dishes, prior), rtol=1e-9
    )
    np.testing.assert_array_equal(poured.counts, dishes.counts)
    inside.add_statistics(poured, 2, inside.statistics_of(poured, np.array([2])), prior, sign=-1)
    assert poured.size[2] == 0
    inside.add_statistics(
        poured, 2, inside.statistics_of(dishes, np.array([1])), prior
    )  # whatever an empty slot holds
    found = inside.log_predictives(rows, poured, prior)
    np.testing.assert_allclose(found[:, 2], found[:, 1])


def test_two_clusters_are_parted_and_one_is_not():
    rng = np.random.default_rng(5)
    parted, whole = 0, 0
    for _ in range(20):
        truth = rng.permutation(np.repeat([0, 1], [20, 14]))
        rows = rng.normal(np.array([[0.0, 0.0, 0.0], [20.0, 10.0, 0.0]])[truth])
        smaller = inside.split_test(inside.homogeneous(rows), 1.0, 8, PRIOR)
        parted += smaller is not None and np.array_equal(smaller, truth == 1)
        whole += inside.split_test(inside.homogeneous(rng.normal(size=(34, 3))), 1.0, 8, PRIOR) is None
    assert parted >= 19
    assert whole == 20


def test_a_part_has_the_least_size_or_there_is_none():
    rng = np.random.default_rng(6)
    for n in (7, 8, 9):
        rows = rng.normal(np.repeat([[0.0], [30.0]], [20, n], axis=0), size=(20 + n, 3))
        smaller = inside.split_test(inside.homogeneous(rows), 1.0, 8, PRIOR)
        assert (smaller is None) == (n < 8)
    assert inside.split_test(inside.homogeneous(rng.normal(size=(15, 3))), 1.0, 8, PRIOR) is None
    assert inside.split_test(inside.homogeneous(np.zeros((0, 3))), 1.0, 8, PRIOR) is None


def test_what_is_parted_would_not_be_joined_again():
    rng = np.random.default_rng(7)
    seen = 0
    for gap in np.linspace(0.5, 40, 40):
        rows = inside.homogeneous(rng.normal(np.repeat([[0.0], [gap]], 20, axis=0), size=(40, 3)))
        smaller = inside.split_test(rows, 1.0, 8, PRIOR)
        if smaller is not None:
            dishes = inside.empty_dishes(2, PRIOR)
            inside.refill(dishes, smaller.astype(np.int64), rows, PRIOR)
            one, other = (inside.statistics_of(dishes, np.array([k])) for k in (0, 1))
            assert inside.log_ratios_together(one, other, PRIOR)[0] < 0
            seen += 1
    assert 10 <= seen <= 39


def test_statistics_are_copies():
    *_, dishes, _ = filled("numbers")
    taken = inside.statistics_of(dishes, np.array([0]))
    assert isinstance(taken, inside.Statistics)
    taken.matrix[:] = 0.0
    assert dishes.matrix[0].any()


FLAT = inside.make_prior(20, nu=40.0, scale=1.0, beta=0.003)
PLACED = inside.Location(5.0, np.ones(20), np.diag(np.full(20, 0.25)))


def test_a_placed_subclass_begins_with_the_density_of_its_place():
    rng = np.random.default_rng(8)
    rows = [inside.homogeneous(rng.normal(2.0, size=(n, 20))) for n in (1, 6)]
    dishes = inside.empty_dishes(3, FLAT)  # the third is empty
    inside.refill(dishes, np.repeat([0, 1], [1, 6]), np.concatenate(rows), FLAT)
    statistics = inside.statistics_of(dishes, np.arange(3))
    means = np.array([r.mean(axis=0) for r in rows])
    expected = inside.log_new_densities(means, FLAT, PLACED) - inside.log_prior_predictives(means, FLAT)
    found = inside.log_marginals(statistics, FLAT, PLACED) - inside.log_marginals(statistics, FLAT)
    np.testing.assert_allclose(found, [*expected, 0.0], atol=1e-9)
    assert expected.min() > 10.0


def test_small_classes_in_many_dimensions_are_parted_where_new_ones_are_placed():
    rng = np.random.default_rng(9)
    apart = whole = 0
    for _ in range(20):
        truth = rng.permutation(np.repeat([0, 1], [12, 10]))
        rows = inside.homogeneous(rng.normal(np.stack([np.zeros(20), np.full(20, 1.8)])[truth]))
        assert inside.split_test(rows, 1.0, 4, FLAT) is None
        smaller = inside.split_test(rows, 1.0, 4, FLAT, PLACED)
        if smaller is not None:
            apart += int(max((smaller == truth).mean(), (smaller != truth).mean()) == 1.0)
            dishes = inside.empty_dishes(2, FLAT)
            inside.refill(dishes, smaller.astype(np.int64), rows, FLAT)
            one, other = (inside.statistics_of(dishes, np.array([k])) for k in (0, 1))
            assert (
                inside.log_ratios_together(one, other, FLAT, PLACED)[0]
                < 0.0
                < inside.log_ratios_together(one, other, FLAT)[0]
            )
        whole += inside.split_test(inside.homogeneous(rng.normal(size=(22, 20))), 1.0, 4, FLAT, PLACED) is None
    assert apart >= 18
    assert whole == 20
