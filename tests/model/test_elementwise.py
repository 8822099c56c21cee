"""Vectorised logarithms and exponentials against the mathematical library."""

from __future__ import annotations

import numpy as np
import pytest

from stream_osr.model import elementwise as library


def logs(values):
    out = np.array(values, dtype=np.float64)
    library.log_each(out)
    return out


def exponentials(values):
    out = np.array(values, dtype=np.float64)
    library.exp_each(out)
    return out


def test_logarithms_and_exponentials_of_all_sizes():
    rng = np.random.default_rng(0)
    values = np.exp(np.concatenate([rng.uniform(-700.0, 700.0, 20_000), rng.normal(scale=1e-3, size=20_000)]))
    np.testing.assert_allclose(logs(values), np.log(values), rtol=1e-15)
    values = np.concatenate([rng.uniform(-707.0, 709.0, 20_000), rng.normal(size=20_000)])
    np.testing.assert_allclose(exponentials(values), np.exp(values), rtol=1e-15)
    np.testing.assert_array_equal(logs([1.0]), [0.0])
    np.testing.assert_array_equal(exponentials([0.0, -np.inf, -1e300, -710.0]), [1.0, 0.0, 0.0, 0.0])


@pytest.mark.parametrize("function", [logs, exponentials])
def test_result_does_not_depend_on_the_place(function):
    # the compiler treats the last few numbers of an array in another way than the rest
    values = np.random.default_rng(2).uniform(0.5, 9.0, 40)
    whole = function(values)
    for n in range(1, 40):
        np.testing.assert_array_equal(function(values[:n]), whole[:n])
        np.testing.assert_array_equal(function(values[n:]), whole[n:])
