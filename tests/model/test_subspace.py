"""Which directions carry the model."""

from __future__ import annotations

import numpy as np
import pytest

from stream_osr.model.feature_space import left_out_classes, subspace, whitening
from stream_osr.model.feature_space.subspace import MOST, follow, make_plan
from tests.model.problems import assert_equal


def classes(count=6, each=20, p=8, seed=0):
    rng = np.random.default_rng(seed)
    group = np.repeat(np.arange(count), each)
    return 3.0 * rng.normal(size=(count, p))[group] + rng.normal(size=(len(group), p)), group


def test_one_class_or_one_instance_of_each_cannot_be_left_out():
    rows, group = classes()
    assert left_out_classes.recall_left_out(rows, np.zeros(len(rows), int), [1, 2]).shape == (2, 0)
    assert left_out_classes.recall_left_out(rows[::20], group[::20], [1, 2]).shape == (2, 0)
    assert make_plan(rows[::20], group[::20]).rank == 5


def test_where_nothing_is_too_much_each_feature_stays_a_direction_of_its_own():
    X, group = classes(each=30, p=4)
    plan = make_plan(X, group)
    assert plan.everything
    assert not plan.partial
    np.testing.assert_array_equal(follow(plan, X).basis, np.eye(4))
    assert_equal(whitening.fit_whitening(X, group, plan=plan), whitening.fit_whitening(X, group))


def test_noise_directions_are_left_out_where_instances_are_few():
    X, group = classes(each=10, p=3)
    rng = np.random.default_rng(1)
    noisy = X @ rng.normal(size=(3, 80)) + rng.normal(size=(60, 80))
    plan = make_plan(noisy, group)
    assert plan.axes == 59
    assert plan.rank <= 20
    assert plan.partial
    assert plan.kept_area > plan.whole_area + 0.1
    wide = rng.normal(size=(400, 300)) * np.linspace(1.0, 2.0, 300)
    assert make_plan(wide, np.arange(400) % 2).rank <= MOST


def test_a_gain_within_the_noise_of_leaving_classes_out_drops_no_directions(monkeypatch):
    rng = np.random.default_rng(0)
    group = np.repeat(np.arange(5), 200)
    X = rng.normal(size=(1000, 30))
    kept = []
    for of_each in ([0.02, -0.03, 0.09, 0.0, -0.01], [0.02, 0.0, 0.09, 0.0, 0.0], [0.02, 0.03, -0.01, 0.03, 0.03]):
        gain = np.array([of_each] * len(subspace._numbers(30, 20)))
        gain[-1] = 0.0
        monkeypatch.setattr(subspace, "recall_left_out", lambda *_, gain=gain: 0.9 + gain)
        kept.append((make_plan(X, group).rank, make_plan(X[::5], group[::5]).rank))
    assert kept == [(30, 25), (25, 25), (25, 25)]


def test_usual_values_share_a_coordinate_and_copies_are_left_out():
    X, group = classes(p=4, each=40)
    rare = np.zeros((len(X), 3))
    rare[:4, 0], rare[9:12, 1] = 1.0, -5.0
    wide = np.column_stack([X, rare, 7.0 - 2.0 * X[:, 1], -3.0 * rare[:, 0]])
    plan = make_plan(wide, group)
    assert plan.rare.tolist() == [4, 5, 6]
    assert plan.copies.tolist() == [7, 8]
    assert plan.originals.tolist() == [1, 4]
    directions = follow(plan, wide)
    np.testing.assert_allclose(directions.back @ directions.basis, np.eye(plan.rank + 1), atol=1e-12)
    space = whitening.fit_whitening(wide, group, plan=plan)
    assert space.forward.shape == (9, 5)
    back = whitening.unwhiten(space, whitening.whiten(space, wide))
    np.testing.assert_allclose(back[:, [0, 1, 2, 3, 7]], wide[:, [0, 1, 2, 3, 7]], atol=1e-8)
    sums = (wide - space.center) @ directions.basis[:, -1]
    one, two = sums[0] - sums[100], sums[9] - sums[100]  # log odds of 4 and of 3 in 240
    assert one == pytest.approx(np.log(236.5 / 4.5))
    assert two == pytest.approx(np.log(237.5 / 3.5))
    moved = wide[:1].copy()
    moved[0, 6] += 1.0
    assert np.linalg.norm(whitening.whiten(space, moved) - whitening.whiten(space, wide[:1])) > 1.0
    rare[50:150, 0], wide = np.nan, np.column_stack([X, rare[:, 0], np.full(len(X), np.nan)])
    assert make_plan(wide, group).rare.tolist() == [4, 5], "missing values are no other values"


def test_units_of_heavy_tails_are_larger():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=4000), rng.standard_t(3, size=4000), rng.random(4000) < 0.02])
    ratio = subspace.units(X) / X.std(axis=0)
    assert ratio[0] == pytest.approx(1.0, abs=0.05)
    assert (ratio[1:] > 1.5).all()
