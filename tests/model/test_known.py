"""Known classes: frozen densities, leave-one-out densities, labels that arrive late."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest
import scipy

from stream_osr.model import dish_statistics
from stream_osr.model import known as library
from stream_osr.model.known import densities
from stream_osr.model.prior import homogeneous
from stream_osr.model.responsibilities import nearby
from tests.model.problems import assert_equal, known_of, make_base

SIZES = [(12, 7, 1), (20,), (5, 6)]
"""Instances in each subclass of each class."""


def make_known(d=3, seed=0, epsilon=0.1, sizes=SIZES):
    """Known classes, the blocks of their subclasses and the oracle's base measure."""
    rng = np.random.default_rng(seed)
    prior, base = make_base(d)
    blocks, owner, tables = [], np.repeat(np.arange(len(sizes)), [len(parts) for parts in sizes]).tolist(), []
    for n in itertools.chain(*sizes):
        mixing = rng.normal(size=(d, d))
        blocks.append(rng.normal(size=(n, d)) @ mixing + rng.normal(scale=3.0, size=d))
        tables.append(min(n, rng.integers(1, 4)))
    ranks = np.sort(rng.normal(size=(len(sizes), library.N_RANKS)), axis=1)
    known = known_of(prior, blocks, owner, tables, alpha=2.5, epsilon=epsilon, ranks=ranks)
    return known, blocks, base


def points(d=3, seed=9):
    rng = np.random.default_rng(seed)
    return np.concatenate([rng.normal(scale=3.0, size=(15, d)), rng.normal(scale=100.0, size=(3, d))])


def test_class_density_mixes_the_kept_subclasses():
    known, blocks, base = make_known(epsilon=0.1)
    x = points()
    frozen = densities(known)
    found, best = library.log_class_densities(known, frozen, homogeneous(x))
    start = 0
    for j, parts in enumerate(SIZES):
        share = np.array(parts) / sum(parts)
        kept = [start + i for i in range(len(parts)) if share[i] >= 0.1]
        weights = [np.log(len(blocks[k]) / (sum(parts) + known.alpha)) for k in kept]
        terms = weights + np.array([[base.log_predictive(row, blocks[k]) for k in kept] for row in x])
        np.testing.assert_allclose(found[:, j], scipy.special.logsumexp(terms, axis=1), rtol=1e-9, atol=1e-9)
        np.testing.assert_array_equal(best[:, j], np.array(kept)[terms.argmax(axis=1)])
        # the class's weight on the menu: the tables of what was kept
        assert frozen.menu[j] == known.tables[j, kept].sum()
        start += len(parts)


@pytest.mark.parametrize("d", [1, 3, 16, 39])
def test_densities_of_a_row_do_not_depend_on_the_rows_beside_it(d):
    known, _, _ = make_known(d, sizes=[(2 * d + 5, 2 * d + 3), (2 * d + 5,), (2 * d + 9, 2 * d + 8)])
    frozen, rows = densities(known), homogeneous(np.random.default_rng(1).normal(scale=3.0, size=(150, d)))
    whole = library.log_densities(known, frozen, rows)
    for begin, end in [(0, 1), (5, 7), (61, 64), (3, 8), (10, 75), (64, 128), (17, 150), (149, 150)]:
        for of_all, of_some in zip(whole, library.log_densities(known, frozen, rows[begin:end]), strict=True):
            np.testing.assert_array_equal(of_some, of_all[begin:end])


def test_class_with_nothing_kept_has_no_density_but_stays_on_the_menu():
    known, _, _ = make_known(epsilon=0.9)  # the first class: 12, 7 and 1 of 20
    frozen = densities(known)
    found, _ = library.log_class_densities(known, frozen, homogeneous(points()))
    assert (found[:, 0] == -np.inf).all()
    assert np.isfinite(found[:, 1]).all()
    assert frozen.menu[0] == 1.0
    assert np.isfinite(densities(known._replace(epsilon=1 / 20)).log_weight[0, :3]).all(), "exactly the share is kept"
    assert densities(known._replace(epsilon=1 / 19.99)).log_weight[0, 2] == -np.inf


def test_mixing_survives_extremes():
    log_subclass = np.array([[-1e4, -1e4 - 1.0], [-np.inf, -3.0], [800.0, 700.0]])
    log_weight = np.log(np.array([[0.25, 0.5], [1.0, 1e-300]]))
    found, best = library.mix(log_subclass, log_weight)
    expected = scipy.special.logsumexp(log_subclass[:, None, :] + log_weight[None], axis=2)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert best[:2].tolist() == [[0, 0], [1, 1]]


def test_leave_one_out_takes_the_instance_out_of_everything():
    known, blocks, base = make_known(epsilon=0.1, sizes=[*SIZES, (1,)])
    frozen, rows = densities(known), np.concatenate(blocks)
    dish = np.repeat(np.arange(len(blocks)), [len(b) for b in blocks])
    group = known.seated.argmax(axis=0)[dish]
    position = np.where(dish == 2, -1, dish)  # subclass 2 (one of 20) was dropped
    holding = library.ClassFields(known.dishes, frozen.log_weight, known.seated, known.size, known.alpha, known.prior)
    found = library.leave_one_out(homogeneous(rows), group, position, holding)
    kept = [k for k in range(len(blocks)) if np.isfinite(frozen.log_weight[:, k]).any()]
    for i, j in np.ndindex(len(rows), 4):
        terms = [-np.inf]  # of the only instance of its class nothing is left
        for k in kept:
            left = np.flatnonzero((dish == k) & (np.arange(len(rows)) != i))
            if known.seated[j, k] > 0 and len(left):
                weight = len(left) / (known.size[j] - (group[i] == j) + known.alpha)
                terms.append(np.log(weight) + base.log_predictive(rows[i], rows[left]))
        assert found[i, j] == pytest.approx(np.logaddexp.reduce(terms), rel=1e-9, abs=1e-9)


def test_of_the_nearest_class_the_rank_is_the_share_that_is_no_denser():
    known, blocks, _ = make_known()
    n_classes = len(known.size)
    known.ranks[1] = np.linspace(0.0, 100.0, library.N_RANKS)
    log_density = np.full((5, n_classes), -1e12)
    log_density[:, 1] = [-0.5, 0.0, 49.5, 100.0, 1e9]
    responsible = np.tile(np.arange(n_classes), (5, 1))
    rows = np.random.default_rng(2).normal(size=(2, blocks[0].shape[1]))
    found = nearby(known, log_density, responsible, rows)
    assert found.nearest.tolist() == [1] * 5
    np.testing.assert_allclose(found.rank, np.array([0, 1, 50, 101, 101]) / 101)
    expected = dish_statistics.mahalanobis_each(known.dishes, np.ones(2, np.int64), homogeneous(rows), known.prior)
    np.testing.assert_allclose(found.distance, expected)
    tied = nearby(known, np.zeros((1, n_classes)), responsible[:1], rows[:0])
    assert tied.nearest.tolist() == [0], "the first of several"


# A label that arrives


@pytest.mark.thorough
def test_labelled_instance_is_seated_by_equation_10():
    known, blocks, base = make_known(d=1, sizes=[(3, 2), (4,)])
    row, total = np.array([blocks[0].mean() * 0.5 + blocks[1].mean() * 0.5]), known.tables.sum() + known.gamma
    own = np.flatnonzero(known.seated[0])
    seats, fresh = known.seated[0, own], known.alpha * known.tables[:, own].sum(axis=0) / total
    density = np.exp([base.log_predictive(row, blocks[k]) for k in own])
    new = known.alpha * known.gamma / total * np.exp(base.log_predictive(row, []))
    weights = np.append((seats + fresh) * density, new)
    rng, times, chosen, opened = np.random.default_rng(0), 3000, Counter(), Counter()
    for _ in range(times):
        after = library.learn_labelled(known, np.append(row, 1.0), 0, rng, next_id=77)
        k = len(own)
        if len(after.ids) == len(known.ids):
            k = int(np.flatnonzero(after.seated[0, own] > known.seated[0, own])[0])
            opened[k] += int(after.tables[0, own[k]] - known.tables[0, own[k]])
        chosen[k] += 1
    seen = np.array([chosen[k] for k in range(len(own) + 1)])
    assert scipy.stats.chisquare(seen, weights / weights.sum() * times).pvalue > 1e-4
    for k, share in enumerate(fresh / (seats + fresh)):
        assert scipy.stats.binomtest(opened[k], chosen[k], share).pvalue > 1e-4


def test_labelled_instances_add_up_and_the_argument_stays():
    known, _, _ = make_known()
    arrays = (*known.dishes, known.seated, known.tables, known.size, known.ids, known.ranks)
    before = [np.copy(v) for v in arrays]
    rng = np.random.default_rng(1)
    after, next_id = known, 100
    x = points(3)[:12]
    for i, row in enumerate(homogeneous(x)):
        after = library.learn_labelled(after, row, i % 3, rng, next_id)
        next_id = max(next_id, int(after.ids.max()) + 1)
    assert after.size.tolist() == [24.0, 24.0, 15.0]
    np.testing.assert_array_equal(after.seated.sum(axis=1), after.size)
    np.testing.assert_array_equal(after.seated.sum(axis=0), after.dishes.size)
    assert (np.count_nonzero(after.seated, axis=0) == 1).all(), "a subclass belongs to one class"
    assert ((after.tables > 0) == (after.seated > 0)).all()
    assert len(set(after.ids.tolist())) == len(after.ids)
    assert_equal(arrays, before)


def test_label_never_seen_opens_a_class():
    known, _, base = make_known()
    row = np.array([50.0, -20.0, 10.0])
    after = library.learn_labelled(known, np.append(row, 1.0), 3, np.random.default_rng(2), next_id=40)
    assert after.size.tolist() == [*known.size, 1.0]
    assert after.ids[-1] == 40
    assert after.seated[3].tolist() == [0.0] * len(known.ids) + [1.0]
    assert after.tables[3, -1] == 1.0
    frozen = densities(after)
    found, best = library.log_class_densities(after, frozen, homogeneous(row[None]))
    expected = np.log(1 / (1 + known.alpha)) + base.log_predictive(row, [row])
    assert found[0, 3] == pytest.approx(expected, rel=1e-9)
    assert best[0, 3] == len(known.ids)
    assert after.ranks.shape == (4, library.N_RANKS)
