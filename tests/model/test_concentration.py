"""Resampling of alpha0 and gamma against their distribution by numerical integration."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import scipy

from stream_osr.model.moves import hyperparameters as library
from stream_osr.model.restaurants import empty_franchise, join
from tests.model import chains
from tests.oracles import concentration as oracle

pytestmark = pytest.mark.thorough
LARGEST = 4.5


def drawn(draw: Callable[[float], float]) -> np.ndarray:
    """A chain of values, each drawn given the one before."""
    values, value = np.empty(20_000), 1.0
    for s in range(len(values)):
        values[s] = value = draw(value)
    return values[100:]


def check(values, moment, cumulative):
    """Three moments by batch means, and the whole distribution by Kolmogorov-Smirnov on well-separated draws."""
    for power in (1, 2, -1):
        assert abs(chains.z_score(values**power, moment(power))) < LARGEST, power
    grid, masses = cumulative
    spread = scipy.stats.kstest(values[::10], lambda a: np.interp(a, grid, masses))
    assert spread.pvalue > 1e-4


def check_counted(values, prior, count, sizes):
    """The distribution given numbers of clusters and of instances."""
    check(values, lambda power: oracle.moment(prior, count, sizes, power), oracle.cumulative(prior, count, sizes))


@pytest.mark.parametrize(
    ("prior", "clusters", "sizes"),
    [
        pytest.param((10.0, 1.0), 1.0, [40.0], id="one group, one table"),
        pytest.param((10.0, 1.0), 9.0, [5.0, 300.0, 2.0], id="several groups"),
        pytest.param((10.0, 1.0), 4.0, [0.0, 60.0, 0.0], id="empty groups do not count"),
        pytest.param((10.0, 1.0), 0.0, [0.0, 0.0], id="without seats the prior"),
        pytest.param((100.0, 1.0), 12.0, [35.0], id="the prior of gamma"),
        pytest.param((2.0, 0.5), 2.6, [7.3], id="faded seats"),
        pytest.param((10.0, 1.0), 0.31, [0.31], id="seats that have all but faded"),
    ],
)
def test_resampling_has_the_integrated_distribution(prior, clusters, sizes):
    rng, seats = np.random.default_rng(5), np.array(sizes)
    values = drawn(lambda value: library.resample(rng, value, library.Gamma(*prior), clusters, seats))
    check_counted(values, prior, clusters, [size for size in sizes if size > 0])


@pytest.mark.parametrize(
    ("opened", "seats"), [(0.5, 0.5), (30.0, 40.0), (14.0, 290.0), (0.0, 12.0), (0.0, 0.0)], ids=str
)
def test_faded_resampling_has_the_integrated_distribution(opened, seats):
    rng, exact = np.random.default_rng(11), oracle.Faded((10.0, 1.0), opened, seats)
    values = drawn(lambda value: library.resample_faded(rng, value, library.ALPHA, opened, seats))
    check(values, exact.moment, exact.cumulative())


def test_alpha_of_a_fading_restaurant_sees_who_opened_a_table():
    franchise, rng = empty_franchise(1, 3, 8, 1.0, 1.0), np.random.default_rng(7)
    for table, dish, weights in ((0, 0, (0.9, 0.7, 0.8)), (2, 1, (0.4,)), (5, 2, (0.2, 1.0))):
        for weight in weights:
            join(franchise, table, 0, dish, weight)
    prior, exact = library.Gamma(3.0, 0.5), oracle.Faded((3.0, 0.5), 0.9 + 0.4 + 0.2, 4.0)
    values = drawn(lambda _: library.resample_alpha(rng, franchise, prior, True) or franchise.alpha[0])
    check(values, exact.moment, exact.cumulative())


def test_gamma_sees_dishes_among_tables_held_ones_included():
    franchise, rng, prior = empty_franchise(2, 6, 8, 1.0, 1.0), np.random.default_rng(8), library.Gamma(4.0, 0.8)
    for table, group, dish in ((0, 0, 0), (1, 0, 1), (3, 0, 1), (4, 1, 1), (6, 1, 2)):
        join(franchise, table, group, dish, 1.0)
    for dishes, tables in ((3.0, 5.0), (4.0, 6.0)):
        values = drawn(lambda _: library.resample_gamma(rng, franchise, prior) or franchise.gamma[0])
        check_counted(values, prior, dishes, [tables])
        franchise.held[4] = True  # on the menu without a table: counts as one dish at one table
        franchise.total[0] += 1.0
