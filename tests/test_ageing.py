"""The model does not age: after a long quiet time a new class is seen as at the start."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.ageing import recalls
from tests.data import need_data

SETS = ["LETTER", "USPS"]


def loss(name: str, instances: int, seeds: range) -> float:
    """Mean of first-20 recall at the start minus that after so many known instances."""
    need_data(name)
    pairs = np.array([recalls(name, instances, seed) for seed in seeds])
    return float((pairs[:, 0] - pairs[:, 1]).mean())


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["LETTER", pytest.param("USPS", marks=pytest.mark.long)])
def test_a_new_class_is_seen_after_a_quiet_time_as_at_the_start(name):
    # 5000 instances are 25 half-lives: what is older weighs less than 1e-7, so this is the state of any later time;
    # the loss of a seed is 0.01, with a standard deviation of 0.01: two are enough for this bound
    assert loss(name, 5_000, range(2)) < 0.05


@pytest.mark.long
@pytest.mark.parametrize("name", SETS)
def test_a_new_class_is_seen_after_a_million_known_instances(name):
    assert loss(name, 1_000_000, range(1)) < 0.05
