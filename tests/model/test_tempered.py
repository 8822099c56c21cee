"""Tempered statistics: each instance counts as a share of an independent one."""

from __future__ import annotations

import numpy as np

from stream_osr.model import dish_statistics
from stream_osr.model.dish_statistics import log_predictives
from stream_osr.model.prior import homogeneous, make_prior
from stream_osr.model.training import tempered


def twice(n: int = 12):
    prior, rows = make_prior(3, nu=5, scale=0.5, beta=0.2), np.random.default_rng(0).normal(size=(n, 3))
    once, dish = homogeneous(rows), np.arange(n) % 2
    double = dish_statistics.dishes_with(np.vstack([once, once]), np.tile(dish, 2), 2, prior)
    return prior, dish_statistics.dishes_with(once, dish, 2, prior), double


def test_instances_that_came_twice_count_once():
    prior, single, double = twice()
    found = tempered(double, prior, 0.5)
    np.testing.assert_array_equal(found.size, single.size)
    x = homogeneous(np.random.default_rng(1).normal(scale=3.0, size=(20, 3)))
    np.testing.assert_allclose(log_predictives(x, found, prior), log_predictives(x, single, prior), rtol=1e-10)
    np.testing.assert_allclose(found.constant, single.constant)


def test_two_independent_instances_remain_and_all_of_independent_ones():
    prior, _, double = twice()
    assert tempered(double, prior, 1e-6).size.tolist() == [2, 2]
    assert tempered(double, prior, 1.0) is double
    prior, single, _ = twice(n=2)
    np.testing.assert_array_equal(tempered(single, prior, 1e-6).matrix, single.matrix)
