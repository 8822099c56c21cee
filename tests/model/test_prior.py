"""The base measure's parameters."""

from __future__ import annotations

import numpy as np
import pytest

from stream_osr.errors import InvalidParameter
from stream_osr.model.prior import homogeneous, make_prior


@pytest.mark.parametrize(
    ("changed", "message"),
    [({"nu": 2.0}, "nu > 2"), ({"nu": float("nan")}, "nu"), ({"scale": 0.0}, "scale"), ({"beta": -1.0}, "beta")],
)
def test_improper_prior_is_refused_by_name(changed, message):
    arguments = {"n_features": 3, "nu": 4.0, "scale": 1.0, "beta": 1.0}
    with pytest.raises(InvalidParameter, match=message):
        make_prior(**(arguments | changed))


def test_homogeneous_rows_end_in_one():
    rows = np.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(homogeneous(rows), [[0, 1, 2, 1], [3, 4, 5, 1]])
    assert homogeneous(rows[:0]).shape == (0, 4)
