"""The base measure's parameters."""

from __future__ import annotations

import pytest

from stream_osr.errors import InvalidParameter
from stream_osr.model.prior import make_prior


@pytest.mark.parametrize(
    ("changed", "message"),
    [({"nu": 2.0}, "nu > 2"), ({"nu": float("nan")}, "nu"), ({"scale": 0.0}, "scale"), ({"beta": -1.0}, "beta")],
)
def test_improper_prior_is_refused_by_name(changed, message):
    arguments = {"n_features": 3, "nu": 4.0, "scale": 1.0, "beta": 1.0}
    with pytest.raises(InvalidParameter, match=message):
        make_prior(**(arguments | changed))
