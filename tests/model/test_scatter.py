"""Bounded scatter: plain where nothing is far; far instances weigh little."""

from __future__ import annotations

import numpy as np

from stream_osr.model.feature_space import bounded_scatter


def unbiased(scatter):
    return scatter / 997.0


def test_without_far_instances_it_is_the_plain_scatter_bit_for_bit():
    rng = np.random.default_rng(0)
    rows, group = rng.normal(size=(1000, 5)), rng.integers(3, size=1000)
    means, scatter, weight = bounded_scatter.bounded_scatter(rows, group, unbiased)
    plain = np.zeros((5, 5))
    for j in range(3):
        assert np.array_equal(means[j], rows[group == j].mean(axis=0))
        centred = rows[group == j] - rows[group == j].mean(axis=0)
        plain += centred.T @ centred
    assert np.array_equal(scatter, plain)
    assert (weight == 1.0).all()


def test_one_far_instance_hardly_changes_it():
    rows, group = np.random.default_rng(1).normal(size=(1000, 4)) * [1.0, 1e-3, 1e3, 1.0], np.zeros(1000, int)
    _, clean, _ = bounded_scatter.bounded_scatter(rows, group, unbiased)
    for far in (50.0, 3e3, 1e8):
        spoilt = rows.copy()
        spoilt[7, 1] += far * 1e-3
        _, scatter, _ = bounded_scatter.bounded_scatter(spoilt, group, unbiased)
        np.testing.assert_allclose(np.diag(scatter), np.diag(clean), rtol=0.15)
        assert spoilt[:, 1].var() * 1000 > 3 * clean[1, 1]


def test_weights_are_a_fixed_point():
    rng = np.random.default_rng(2)
    rows = rng.standard_t(1.5, size=(400, 3))
    means, scatter, found = bounded_scatter.bounded_scatter(rows, np.zeros(400, int), unbiased)
    centred = rows - means[0]
    square = np.einsum("ia,ab,ib->i", centred, np.linalg.inv(unbiased(scatter)), centred)
    weight = np.minimum(1.0, bounded_scatter.REACH**2 * 3 / square)
    assert (weight < 1.0).mean() > 0.01
    np.testing.assert_allclose(found, weight, atol=1e-3)
    np.testing.assert_allclose((weight[:, None] * centred).T @ centred, scatter, rtol=2e-3)
    np.testing.assert_allclose((weight[:, None] * centred).sum(axis=0), 0.0, atol=0.1)
