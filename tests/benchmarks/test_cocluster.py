"""The paper's own algorithm, the reference: starts, ownership by share, reproducibility, real data."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.paper.cocluster import UNKNOWN, cocluster

CENTRES = np.array([[0.0, 0.0], [12.0, 0.0], [0.0, 12.0]])
GROUP = np.repeat([0, 1], 60)


def blobs(rng: np.random.Generator, *sizes: int) -> np.ndarray:
    return np.concatenate([c + rng.normal(size=(n, 2)) for c, n in zip(CENTRES, sizes, strict=False)])


@pytest.mark.parametrize("start", ["random", "classwise"])
def test_known_and_unknown_blobs_are_distinguished(start):
    rng = np.random.default_rng(0)
    train, test = blobs(rng, 60, 60), blobs(rng, 40, 40, 40)
    options = {"nu": 6.0, "scale": 0.5, "start": start, "initial_subclasses": 5}
    found, again = (cocluster(train, GROUP, test, np.random.default_rng(1), **options) for _ in range(2))
    assert (found.label == np.repeat([0, 1, UNKNOWN], 40)).mean() > 0.95
    assert found.counts.sum(axis=1).tolist() == [60, 60, 120]
    assert (again.subclass == found.subclass).all()


def test_a_subclass_below_epsilon_belongs_to_no_class():
    rng = np.random.default_rng(0)
    # three stragglers of class 0 sit where the test batch is: 3 of 103 is more than 1 %, and less than 5 %
    train = np.concatenate([blobs(rng, 100), CENTRES[2] + rng.normal(size=(3, 2)), blobs(rng, 0, 50)])
    group, test = np.repeat([0, 1], [103, 50]), blobs(rng, 0, 0, 60)
    options = {"nu": 6.0, "scale": 0.5, "start": "classwise"}
    for epsilon, expected in ((0.01, 0), (0.05, UNKNOWN)):
        found = cocluster(train, group, test, np.random.default_rng(2), epsilon=epsilon, **options)
        assert (found.label == expected).mean() > 0.9
