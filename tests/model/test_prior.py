"""The base measure's parameters."""

from __future__ import annotations

import numpy as np
import pytest

from stream_osr.errors import InvalidParameter
from tests.doors.model import empty_dishes, homogeneous, make_prior, statistics_shape


def test_scale_matrix_is_nu_times_scale():
    prior = make_prior("full", 4, nu=6, scale=0.25, beta=2)
    assert (prior.nu, prior.psi, prior.beta) == (6.0, 1.5, 2.0)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"covariance": "spherical"}, "spherical"),
        ({"nu": 2.0}, "nu > 2"),
        ({"nu": float("nan")}, "nu"),
        ({"scale": 0.0}, "scale"),
        ({"beta": -1.0}, "beta"),
    ],
)
def test_improper_prior_is_refused_by_name(changed, message):
    arguments = {"covariance": "full", "n_features": 3, "nu": 4.0, "scale": 1.0, "beta": 1.0}
    with pytest.raises(InvalidParameter, match=message):
        make_prior(**(arguments | changed))


@pytest.mark.parametrize(("covariance", "shape"), [("full", (4, 4)), ("diagonal", (2, 3)), ("tied", (1, 3))])
def test_size_of_the_statistics(covariance, shape):
    prior = make_prior(covariance, 3, 5, 1, 1)
    assert statistics_shape(prior) == shape
    assert empty_dishes(2, prior).matrix.shape == (2, *shape)


def test_homogeneous_rows_end_in_one():
    rows = np.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(homogeneous(rows), [[0, 1, 2, 1], [3, 4, 5, 1]])
    assert homogeneous(rows[:0]).shape == (0, 4)
