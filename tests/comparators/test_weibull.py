"""Weibull fits against scipy's, and the probabilities read from a tail."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import weibull_min

from benchmarks.openset.comparators.weibull import fit_tail, fit_weibull


@pytest.mark.parametrize(("shape", "scale"), [(0.6, 2.0), (1.0, 0.01), (5.0, 30.0), (80.0, 1.0)])
def test_fit_and_probabilities_are_those_of_scipy(shape, scale):
    samples = weibull_min.rvs(shape, scale=scale, size=60, random_state=3)
    expected_shape, location, expected_scale = weibull_min.fit(samples, floc=0)
    found = fit_weibull(samples)
    assert location == 0
    assert (found.shape, found.scale) == pytest.approx((expected_shape, expected_scale), rel=1e-3)
    x, distribution = scale * np.array([0.2, 0.7, 2.0]), weibull_min(found.shape, scale=found.scale)
    assert found.cdf(x) == pytest.approx(distribution.cdf(x))
    assert found.cdf(np.array([-1.0, 0.0])).tolist() == [0.0, 0.0]


def test_equal_samples_give_a_step():
    found = fit_weibull(np.full(10, 3.0))
    assert found.scale == pytest.approx(3.0)
    assert found.cdf(np.array([2.9, 3.1])).round(6).tolist() == [0.0, 1.0]


def test_the_lower_tail_takes_the_smallest_scores_and_shifts_the_largest_of_them_to_one():
    tail = fit_tail(np.array([5.0, 1.0, 9.0, 2.0]), size=2, sign=-1)
    # flipped and shifted: -1 + 2 + 1 = 2 and -2 + 2 + 1 = 1
    expected = fit_weibull(np.array([2.0, 1.0]))
    assert tail.weibull.shape == pytest.approx(expected.shape)
    assert tail.weibull.scale == pytest.approx(expected.scale)
    assert tail.log_survival(np.array([1.5])) == pytest.approx(-((1.5 / expected.scale) ** expected.shape))
    # a score far above the tail is surely included, one far below surely not
    assert np.exp(tail.log_survival(np.array([100.0, -100.0]))).tolist() == [1.0, 0.0]
