"""The paper's own algorithm, kept as a reference."""

from __future__ import annotations

import numpy as np
import pytest

from stream_osr.errors import InvalidParameter
from stream_osr.hdp import cocluster as library


def blobs(seed=0):
    """Two known classes of 40 and 20, and a test batch of 20 from the second and 30 from somewhere else."""
    rng = np.random.default_rng(seed)
    centres = np.repeat([[0.0, 0.0], [9.0, 0.0], [9.0, 0.0], [0.0, 12.0]], [40, 20, 20, 30], axis=0)
    X = centres + rng.normal(size=centres.shape)
    return X[:60], np.repeat([0, 1], [40, 20]), X[60:]


@pytest.mark.parametrize("covariance", ["full", "diagonal", "tied"])
def test_known_is_recognised_and_new_is_unknown(covariance):
    X, group, batch = blobs()
    found = library.cocluster(
        X, group, batch, np.random.default_rng(1), nu=6, scale=0.5, start="classwise", covariance=covariance
    )
    assert (found.label[:20] == 1).mean() > 0.9
    assert (found.label[20:] == library.UNKNOWN).mean() > 0.9
    assert found.counts.sum(axis=1).tolist() == [40.0, 20.0, 50.0]
    np.testing.assert_array_equal(np.bincount(found.subclass, minlength=found.counts.shape[1]), found.counts[2])
    assert found.alpha > 0
    assert found.gamma > 0


def test_small_share_of_a_class_does_not_count():
    X, group, batch = blobs()
    found = library.cocluster(
        X, group, batch, np.random.default_rng(2), nu=6, scale=0.05, start="classwise", epsilon=0.2, sweeps=10
    )
    share = found.counts[:2] / found.counts[:2].sum(axis=1, keepdims=True)
    np.testing.assert_array_equal(found.kept, share >= 0.2)
    for subclass, label in zip(found.subclass, found.label, strict=True):
        if label == library.UNKNOWN:
            assert not found.kept[:, subclass].any()
        else:
            assert found.kept[label, subclass]


def test_random_start_spreads_every_group_over_all_subclasses():
    group = np.repeat([0, 1, 2], [30, 6, 14])
    dish = library._spread(group, 6, np.random.default_rng(0))
    for j, expected in ((0, [5] * 6), (1, [1] * 6), (2, [3, 3, 2, 2, 2, 2])):
        assert np.bincount(dish[group == j], minlength=6).tolist() == expected


def test_same_seed_same_result_and_progress():
    X, group, batch = blobs()
    done: list[int] = []
    runs = [
        library.cocluster(X, group, batch, np.random.default_rng(3), nu=6, scale=0.5, sweeps=4, progress=done.append)
        for _ in range(2)
    ]
    np.testing.assert_array_equal(runs[0].subclass, runs[1].subclass)
    assert done == [1, 2, 3, 4] * 2


def test_unknown_start_is_refused():
    X, group, batch = blobs()
    with pytest.raises(InvalidParameter, match="'kmeans'"):
        library.cocluster(X, group, batch, np.random.default_rng(0), nu=6, scale=0.5, start="kmeans")
