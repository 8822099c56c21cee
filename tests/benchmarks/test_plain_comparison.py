"""The library's step decides as the plain one does, on data: with other randomness no further from it than itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from benchmarks.plain_comparison import Comparison, Stream, compare, fast_step, make_stream
from benchmarks.speed import STEPS
from tests.data import need_data


@pytest.fixture(scope="module")
def streams() -> Sequence[Stream]:
    need_data("LETTER")
    return [make_stream(STEPS["LETTER-64"], seed, 2000) for seed in range(3)]


def worst_excess(found: Comparison) -> float:
    """By how many times the plain step's own distance from itself the library's exceeds it, in the worst figure."""
    own = np.sqrt(((found.again - found.plain) ** 2).mean(axis=0))
    return float((np.abs((found.fast - found.plain).mean(axis=0)) / own).max())
