"""Intervals and p-values of the tables: those of scipy where it has them, of brute force and of print where not."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from benchmarks.openset.statistics import holm, mean_interval, paired, sign_flip
from tests.tiers import examples


def test_interval_is_that_of_student():
    x = np.random.default_rng(1).normal(size=7)
    for level in (0.5, 0.95):
        found = mean_interval(x, level)
        assert (found.n, found.mean) == (7, pytest.approx(x.mean()))
        assert found[2:] == pytest.approx(stats.ttest_1samp(x, 0.0).confidence_interval(level))


def test_few_values():
    assert mean_interval([]) == pytest.approx((0, math.nan, math.nan, math.nan), nan_ok=True)
    assert mean_interval([0.7]) == pytest.approx((1, 0.7, math.nan, math.nan), nan_ok=True)
    assert mean_interval([0.5] * 4) == (4, 0.5, 0.5, 0.5)


def test_paired_interval_is_that_of_the_paired_t_test():
    ours, others = np.random.default_rng(2).normal(size=(2, 9))
    pairs = dict(enumerate(ours)), dict(enumerate(others))
    found = paired(*pairs, level=0.9)
    assert (found.low, found.high) == pytest.approx(stats.ttest_rel(ours, others).confidence_interval(0.9))
    assert found.mean == pytest.approx((ours - others).mean())
    assert (found.wins, found.losses) == ((ours > others).sum(), (ours < others).sum())
    assert found.p == sign_flip(ours - others)


def test_pairs_are_by_seed_whatever_the_order_and_others_are_counted():
    found = paired({3: 0.5, 1: 0.9, 7: 0.1}, {1: 0.7, 3: 0.5, 4: 0.0, 5: 0.0})
    assert (found.n, found.left_out, found.wins, found.losses) == (2, 3, 1, 0)
    assert found.mean == pytest.approx(0.1)
    nothing = paired({0: 0.5}, {1: 0.5})
    assert (nothing.n, nothing.left_out, nothing.wins, nothing.losses) == (0, 2, 0, 0)
    assert all(map(math.isnan, (nothing.mean, nothing.low, nothing.high, nothing.p)))


@examples(60)
@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), min_size=1, max_size=9))
def test_sign_flip_is_exact_though_sums_are_rounded(pairs):
    whole = np.array([a - b for a, b in pairs])
    flipped = abs(np.array(list(product((-1, 1), repeat=len(whole)))) @ whole)
    assert sign_flip([a / 40 - b / 40 for a, b in pairs]) == np.mean(flipped >= abs(whole.sum()))


@examples(60)
@given(st.lists(st.integers(0, 100).map(lambda n: n / 100), min_size=1, max_size=8), st.integers(1, 100))
def test_holm_rejects_what_stepping_down_rejects(p, percent):
    alpha = percent / 100 - 0.0005  # no p-value times a count is that near
    rejected = set()
    for left, i in enumerate(sorted(range(len(p)), key=p.__getitem__)):
        if p[i] * (len(p) - left) > alpha:
            break
        rejected.add(i)
    assert set(np.flatnonzero(holm(p) <= alpha)) == rejected


def test_holm_does_not_count_missing_comparisons():
    np.testing.assert_allclose(holm([math.nan, 0.02, math.nan, 0.01]), [math.nan, 0.02, math.nan, 0.02])
    assert np.isnan(holm([math.nan])).all()
