"""The library's step decides as the plain one does, on data: with other randomness no further from it than itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from benchmarks.plain_comparison import Comparison, Stream, compare, fast_step, make_stream
from benchmarks.speed import STEPS
from tests.data import need_data

LIMITS = [0.016, 0.012, 0.009]
"""Four standard errors of the difference that two plain runs have: micro-F, P(unknown) of known, of new instances."""


@pytest.fixture(scope="module")
def streams() -> Sequence[Stream]:
    need_data("LETTER")
    return [make_stream(STEPS["LETTER-64"], seed, 4000) for seed in range(4)]


def differs(found: Comparison) -> bool:
    figures = np.abs((found.fast - found.plain).mean(axis=0))
    return bool((figures > LIMITS).any() or found.fast_plain.mean() > 1.15 * found.plain_plain.mean())


@pytest.mark.thorough
def test_with_other_randomness_the_steps_agree_as_two_plain_ones_do(streams):
    found = compare(streams)
    assert (np.abs((found.again - found.plain).mean(axis=0)) < LIMITS).all()
    assert not differs(found), found


@pytest.mark.thorough
def test_a_step_that_never_seats_anybody_again_would_be_noticed(streams):
    def once(*arguments: Any) -> Any:
        *rest, settings = arguments
        return fast_step(*rest, settings._replace(sweeps=0))

    assert differs(compare(streams, once))
