"""Resampling of alpha0 and gamma against their law by numerical integration."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from stream_osr.model.franchise import empty_franchise, join
from stream_osr.model.jit import kernel
from stream_osr.model.moves import hyperparameters as library
from tests.model import chains
from tests.oracles import concentration as oracle

LARGEST = 4.5


@kernel
def resample_often(rng, value, prior, clusters, sizes, times):
    out = np.empty(times)
    for s in range(times):
        value = library.resample(rng, value, prior, clusters, sizes)
        out[s] = value
    return out


@kernel
def resample_alpha_often(rng, franchise, prior, fading, times):
    out = np.empty(times)
    for s in range(times):
        library.resample_alpha(rng, franchise, prior, fading)
        out[s] = franchise.alpha[0]
    return out


@kernel
def resample_gamma_often(rng, franchise, prior, times):
    out = np.empty(times)
    for s in range(times):
        library.resample_gamma(rng, franchise, prior)
        out[s] = franchise.gamma[0]
    return out


def check_law(values, moment, cumulative):
    """Three moments by batch means, and the whole law by Kolmogorov-Smirnov on well-separated draws."""
    for power in (1, 2, -1):
        assert abs(chains.z_score(values**power, moment(power))) < LARGEST, power
    grid, masses = cumulative
    spread = stats.kstest(values[::10], lambda a: np.interp(a, grid, masses))
    assert spread.pvalue > 1e-4


def check_counted(values, prior, count, sizes):
    """The law given numbers of clusters and of instances."""
    check_law(values, lambda power: oracle.moment(prior, count, sizes, power), oracle.cumulative(prior, count, sizes))


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("prior", "clusters", "sizes"),
    [
        pytest.param((10.0, 1.0), 1.0, [40.0], id="one group, one table"),
        pytest.param((10.0, 1.0), 30.0, [40.0], id="one group, many tables"),
        pytest.param((10.0, 1.0), 9.0, [5.0, 300.0, 2.0], id="several groups"),
        pytest.param((10.0, 1.0), 4.0, [0.0, 60.0, 0.0], id="empty groups do not count"),
        pytest.param((100.0, 1.0), 12.0, [35.0], id="the prior of gamma"),
        pytest.param((2.0, 0.5), 2.6, [7.3], id="faded seats"),
        pytest.param((10.0, 1.0), 0.31, [0.31], id="seats that have all but faded"),
        pytest.param((1.5, 3.0), 3.0, [3.0, 1.0], id="a vague prior"),
    ],
)
def test_resampling_has_the_integrated_law(prior, clusters, sizes):
    values = resample_often(np.random.default_rng(5), 1.0, library.Gamma(*prior), clusters, np.array(sizes), 20_000)
    check_counted(values[100:], prior, clusters, [size for size in sizes if size > 0])


@pytest.mark.statistical
def test_nothing_seated_leaves_the_prior():
    values = resample_often(np.random.default_rng(6), 1.0, library.ALPHA, 0.0, np.zeros(3), 20_000)
    assert stats.kstest(values, stats.gamma(10).cdf).pvalue > 1e-4


def restaurants():
    """Two restaurants with three and two tables, some of them faded."""
    franchise = empty_franchise(2, 3, 8, 1.0, 1.0)
    for table, group, dish, mass in ((0, 0, 0, 5.0), (1, 0, 1, 0.3), (3, 0, 2, 0.06), (4, 1, 0, 1.0), (6, 1, 2, 2.2)):
        join(franchise, table, group, dish, mass)
    return franchise


@pytest.mark.statistical
def test_alpha_is_shared_and_sees_all_tables_and_the_seats_of_each_group():
    franchise = restaurants()
    values = resample_alpha_often(np.random.default_rng(7), franchise, library.Gamma(3.0, 0.5), False, 20_000)
    check_counted(values[100:], (3.0, 0.5), 5.0, [5.36, 3.2])
    assert (franchise.alpha == franchise.alpha[0]).all()


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("opened", "seats"), [(0.5, 0.5), (3.0, 40.0), (30.0, 40.0), (14.0, 290.0), (0.0, 12.0)], ids=str
)
def test_faded_resampling_has_the_integrated_law(opened, seats):
    values = np.empty(20_000)
    value, rng = 1.0, np.random.default_rng(11)
    for s in range(len(values)):
        values[s] = value = library.resample_faded(rng, value, library.ALPHA, opened, seats)
    law = oracle.Faded((10.0, 1.0), opened, seats)
    check_law(values[100:], law.moment, law.cumulative())


@pytest.mark.statistical
def test_nobody_seated_in_a_fading_restaurant_leaves_the_prior():
    values = [library.resample_faded(np.random.default_rng(s), 3.0, library.ALPHA, 0.0, 0.0) for s in range(3000)]
    assert stats.kstest(values, stats.gamma(10).cdf).pvalue > 1e-4


@pytest.mark.statistical
def test_alpha_of_a_fading_restaurant_sees_who_opened_a_table():
    franchise = empty_franchise(1, 3, 8, 1.0, 1.0)
    for table, dish, weights in ((0, 0, (0.9, 0.7, 0.8)), (2, 1, (0.4,)), (5, 2, (0.2, 1.0))):
        for weight in weights:
            join(franchise, table, 0, dish, weight)
    values = resample_alpha_often(np.random.default_rng(7), franchise, library.Gamma(3.0, 0.5), True, 20_000)
    law = oracle.Faded((3.0, 0.5), 0.9 + 0.4 + 0.2, 4.0)
    check_law(values[100:], law.moment, law.cumulative())


@pytest.mark.statistical
def test_gamma_sees_dishes_among_tables_held_ones_included():
    franchise = empty_franchise(2, 6, 8, 1.0, 1.0)
    for table, group, dish in ((0, 0, 0), (1, 0, 1), (3, 0, 1), (4, 1, 1), (6, 1, 2)):
        join(franchise, table, group, dish, 1.0)
    values = resample_gamma_often(np.random.default_rng(8), franchise, library.Gamma(4.0, 0.8), 20_000)
    check_counted(values[100:], (4.0, 0.8), 3.0, [5.0])
    franchise.held[4] = True  # on the menu without a table: counts as one dish at one table
    franchise.total[0] += 1.0
    values = resample_gamma_often(np.random.default_rng(9), franchise, library.Gamma(4.0, 0.8), 20_000)
    check_counted(values[100:], (4.0, 0.8), 4.0, [6.0])


def test_priors_are_the_papers():
    # section 4.1.2: gamma ~ Gamma(100, 1), alpha0 ~ Gamma(10, 1)
    assert library.ALPHA == (10.0, 1.0)
    assert library.STREAM_ALPHA == (1.0, 1.0)
    assert library.GAMMA == (100.0, 1.0)


def test_counting_faded_tables_whole_would_drive_alpha_up():
    """Why alpha0 does not see the number of tables in a stream (docs/inference.md, section 6)."""
    weights = 0.5 ** np.arange(0, 4.3, 0.1)  # opened one after the other, a guest each, and fading since
    seats = float(weights.sum())
    assert oracle.mean((10.0, 1.0), float(len(weights)), [seats]) > 40
    assert oracle.Faded((10.0, 1.0), seats, seats).moment(1) < 17
