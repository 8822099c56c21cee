"""Resampling of alpha0 and gamma against their law by numerical integration."""

from __future__ import annotations

import numba
import numpy as np
import pytest
from scipy import stats

from stream_osr.hdp import concentration as library
from stream_osr.hdp.franchise import empty_franchise, join
from tests.hdp import chains
from tests.oracles import concentration as oracle

LARGEST = 4.5


@numba.njit
def resample_often(rng, value, shape, rate, clusters, sizes, times):
    out = np.empty(times)
    for s in range(times):
        value = library.resample(rng, value, shape, rate, clusters, sizes)
        out[s] = value
    return out


@numba.njit
def resample_alpha_often(rng, franchise, shape, rate, times):
    out = np.empty(times)
    for s in range(times):
        library.resample_alpha(rng, franchise, shape, rate)
        out[s] = franchise.alpha[0]
    return out


@numba.njit
def resample_gamma_often(rng, franchise, shape, rate, times):
    out = np.empty(times)
    for s in range(times):
        library.resample_gamma(rng, franchise, shape, rate)
        out[s] = franchise.gamma[0]
    return out


def check_law(values, prior, count, sizes):
    """First two moments by batch means, and the whole law by Kolmogorov-Smirnov on well-separated draws."""
    for power in (1, 2, -1):
        exact = oracle.moment(prior, count, sizes, power)
        assert abs(chains.z_score(values**power, exact)) < LARGEST, power
    grid, cumulative = oracle.cumulative(prior, count, sizes)
    spread = stats.kstest(values[::10], lambda a: np.interp(a, grid, cumulative))
    assert spread.pvalue > 1e-4


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
    values = resample_often(np.random.default_rng(5), 1.0, *prior, clusters, np.array(sizes), 20_000)
    check_law(values[100:], prior, clusters, [size for size in sizes if size > 0])


@pytest.mark.statistical
def test_nothing_seated_leaves_the_prior():
    values = resample_often(np.random.default_rng(6), 1.0, 10.0, 1.0, 0.0, np.zeros(3), 20_000)
    assert stats.kstest(values, stats.gamma(10).cdf).pvalue > 1e-4


@pytest.mark.statistical
def test_alpha_counts_tables_by_what_they_weigh_and_at_most_once():
    franchise = empty_franchise(2, 3, 8, 1.0, 1.0)
    for table, group, dish, mass in ((0, 0, 0, 5.0), (1, 0, 1, 0.3), (3, 0, 2, 0.06), (4, 1, 0, 1.0), (6, 1, 2, 2.2)):
        join(franchise, table, group, dish, mass)
    values = resample_alpha_often(np.random.default_rng(7), franchise, 3.0, 0.5, 20_000)
    check_law(values[100:], (3.0, 0.5), 1.0 + 0.3 + 0.06 + 1.0 + 1.0, [5.36, 3.2])
    assert (franchise.alpha == franchise.alpha[0]).all()


@pytest.mark.statistical
def test_gamma_sees_dishes_among_tables_held_ones_included():
    franchise = empty_franchise(2, 6, 8, 1.0, 1.0)
    for table, group, dish in ((0, 0, 0), (1, 0, 1), (3, 0, 1), (4, 1, 1), (6, 1, 2)):
        join(franchise, table, group, dish, 1.0)
    values = resample_gamma_often(np.random.default_rng(8), franchise, 4.0, 0.8, 20_000)
    check_law(values[100:], (4.0, 0.8), 3.0, [5.0])
    franchise.held[4] = True  # on the menu without a table: counts as one dish at one table
    franchise.total[0] += 1.0
    values = resample_gamma_often(np.random.default_rng(9), franchise, 4.0, 0.8, 20_000)
    check_law(values[100:], (4.0, 0.8), 4.0, [6.0])


def test_priors_are_the_papers():
    # section 4.1.2: gamma ~ Gamma(100, 1), alpha0 ~ Gamma(10, 1)
    assert (library.ALPHA_SHAPE, library.ALPHA_RATE) == (10.0, 1.0)
    assert (library.GAMMA_SHAPE, library.GAMMA_RATE) == (100.0, 1.0)


@pytest.mark.statistical
def test_counting_faded_tables_whole_would_drive_alpha_up():
    """Why a table counts for min(1, mass): the case of docs/inference.md, "The model must not age"."""
    masses = 0.5 ** np.arange(0, 4.3, 0.1)  # tables opened one after the other and fading since
    honest = oracle.mean((10.0, 1.0), float(np.minimum(masses, 1).sum()), [float(masses.sum())])
    whole = oracle.mean((10.0, 1.0), float(len(masses)), [float(masses.sum())])
    assert whole > 1.5 * honest
    franchise = empty_franchise(1, 1, 64, 1.0, 1.0)
    for table, mass in enumerate(masses):
        join(franchise, table, 0, 0, mass)
    values = resample_alpha_often(np.random.default_rng(10), franchise, 10.0, 1.0, 20_000)
    assert abs(chains.z_score(values[100:], honest)) < LARGEST
