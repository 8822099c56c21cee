"""Features that are bent before they are whitened."""

from __future__ import annotations

import numpy as np
import pytest
import scipy

from stream_osr import OpenSetRecognizer
from stream_osr.model.feature_space import whitening
from stream_osr.model.feature_space import yeo_johnson as library
from stream_osr.model.feature_space.mixed_whitening import fit_mixed
from stream_osr.model.feature_space.whitening import fit_whitening, unwhiten, whiten
from stream_osr.model.feature_space.yeo_johnson import (
    NO_YEO_JOHNSON,
    YeoJohnson,
    bend,
    bent,
    find_yeo_johnson,
    slopes,
    unbend,
)
from stream_osr.model.transfer import passage
from tests.model.problems import assert_equal

SOME = YeoJohnson(np.array([0, 2]), np.array([3.0, -1e6]), np.array([0.5, 1e4]), np.array([0.25, 2.0]))


def skewed(seed=0, n=300):
    """Three classes; the first feature is skewed to the right, the third to the left, the second not at all."""
    rng = np.random.default_rng(seed)
    group = np.arange(n) % 3
    X = np.array([[0.0, 0, 0], [2, 0, 2], [0, 3, 1]])[group] + rng.normal(size=(n, 3))
    return np.column_stack([np.exp(X[:, 0]), X[:, 1], -np.exp(0.8 * X[:, 2])]), group


def test_values_are_bent_as_scipy_bends_them():
    values = np.concatenate([[-1e6, 0.0, 1e6], np.linspace(-9.0, 9.0, 40)])
    for power in library.POWERS:
        expected = scipy.stats.yeojohnson(values, power)
        np.testing.assert_allclose(bent(values, np.float64(power)), expected, rtol=1e-12)
        alone = YeoJohnson(np.zeros(1, np.int64), np.zeros(1), np.ones(1), np.array([power]))
        np.testing.assert_allclose(bend(alone, values[:, None])[:, 0], expected, rtol=1e-12)
        np.testing.assert_allclose(unbend(alone, bend(alone, values[:, None]))[:, 0], values, rtol=1e-9)


def test_rows_come_back_and_what_is_missing_stays_so():
    X = np.random.default_rng(0).normal(size=(50, 4)) * [9.0, 1.0, 1e5, 1.0] + [3.0, 0.0, -1e6, 0.0]
    X[3] = np.nan
    there = bend(SOME, X)
    np.testing.assert_array_equal(there[:, [1, 3]], X[:, [1, 3]])
    assert not np.allclose(there[4:, [0, 2]], X[4:, [0, 2]], rtol=1e-3)
    np.testing.assert_allclose(unbend(SOME, there), X, rtol=1e-9)
    np.testing.assert_array_equal(bend(NO_YEO_JOHNSON, X), X)
    slowly = 3.0 + 0.5 * bent((X[:, 0] - 3.0) / 0.5, np.float64(0.25))
    np.testing.assert_allclose(there[:, 0], slowly, rtol=1e-14)
    np.testing.assert_array_equal(bend(SOME, np.asfortranarray(X)), there)
    np.testing.assert_array_equal(np.vstack([bend(SOME, row[None]) for row in X]), there)
    step = np.array([1e-6, 1e-6, 1.0, 1e-6])
    grown = (bend(SOME, X + step) - bend(SOME, X - step)) / (2.0 * step)
    np.testing.assert_allclose(slopes(SOME, X)[4:], grown[4:], rtol=1e-4)
    assert np.isfinite(unbend(SOME, np.array([[1e9, 0.0, -1e12, 0.0]]))).all()


def found_in(X, group, features=None):
    """Find the bends of some features, by default of all."""
    return find_yeo_johnson(X, group, np.ones(X.shape[1], bool) if features is None else np.array(features))


def test_skewed_features_are_bent_and_others_are_not():
    (X, group), rng = skewed(), np.random.default_rng(1)
    found = found_in(X, group)
    assert found.columns.tolist() == [0, 2]
    assert found.power[0] < 0.5
    assert found.power[1] > 1.5
    assert found_in(X, group, [False, True, False]).columns.tolist() == []
    assert not len(found_in(rng.normal(size=(300, 6)), group).columns)
    assert not len(found_in(rng.poisson(1.0, size=(300, 2)).astype(float), group).columns)
    wide = np.exp(np.random.default_rng(0).normal(size=(300, library.MOST_FEATURES + 1)))
    assert found_in(wide, group) is NO_YEO_JOHNSON
    odd = np.column_stack([X[:, 0], np.full(300, np.nan), np.ones(300)])
    assert found_in(odd, group).columns.tolist() == [0]


def test_gaussian_classes_are_left_as_they_are_however_wide_each_is():
    rng, group = np.random.default_rng(3), np.repeat([0, 1], 400)
    X = np.where(group[:, None] == 0, rng.normal(0.0, 1.0, (800, 2)), rng.normal([100.0, 0.0], [10.0, 1.0], (800, 2)))
    assert not len(found_in(X, group).columns)


def test_features_that_say_nearly_the_same_stay_alike():
    """By itself either would gain; their dependence would be lost."""
    rng, group = np.random.default_rng(2), np.arange(400) % 2
    skew = np.exp(0.6 * rng.normal(size=400))
    both = np.column_stack([skew, skew + 0.05 * rng.normal(size=400)])
    assert found_in(both[:, :1], group).columns.tolist() == [0]
    together = found_in(both, group)
    assert len(together.columns) in (0, 2)
    assert len(set(together.power.tolist())) <= 1


def test_copies_are_bent_like_the_original_and_mirrors_the_other_way():
    X, group = skewed()
    wide = np.column_stack([X, 5.0 * X[:, 0] - 1e5, -X[:, 0]])
    found = found_in(wide, group)
    assert found.columns.tolist() == [0, 2, 3, 4]
    assert found.power[2] == found.power[0]
    assert found.power[3] == 2.0 - found.power[0]
    there = bend(found, wide)
    np.testing.assert_allclose(np.abs(np.corrcoef(there[:, [0, 3, 4]].T)), 1.0, rtol=1e-9)


def test_the_map_is_that_of_bent_rows():
    X, group = skewed()
    X[::17, 0] = np.nan
    powers = found_in(X, group)
    space = fit_mixed(X, group, np.zeros(3, int), yeo_johnson=powers)
    alone = fit_whitening(bend(powers, X), group)
    np.testing.assert_array_equal(whiten(space, X), whiten(alone, bend(powers, X)))
    there = ~np.isnan(X).any(axis=1)
    np.testing.assert_allclose(unwhiten(space, whiten(space, X[there])), X[there], rtol=1e-8)
    one, two = whiten(space, X[1:3])
    np.testing.assert_allclose(whitening.raw_difference(space, one, two), X[1] - X[2], rtol=1e-6)
    bent_rows = bend(powers, X[1:3])
    in_units = whitening.in_deviations(space, one, two, np.eye(3))
    np.testing.assert_allclose(in_units, (bent_rows[0] - bent_rows[1]) / np.sqrt((space.backward**2).sum(axis=0)))


def test_from_one_bend_to_another_rows_go_exactly_and_subclasses_about_their_mean():
    (X, group), (more, _) = skewed(0), skewed(7)
    spaces = [
        fit_mixed(rows, group, np.zeros(3, int), yeo_johnson=found_in(rows, group))
        for rows in (X, more[:, ::-1] * 3.0)
    ]
    way = passage(*spaces, [2, 1, 0])
    assert way.bends is not None
    new = whiten(spaces[1], more[:, ::-1])
    assert passage(spaces[0], spaces[0], [0, 1, 2]).bends is None
    np.testing.assert_allclose(way.of(whiten(spaces[0], more)), new, rtol=1e-6, atol=1e-8)
    middle = whiten(spaces[0], more[group == 1]).mean(axis=0)
    straight = way.about(middle)
    assert straight.bends is None
    np.testing.assert_allclose(middle @ straight.matrix + straight.offset, way.of(middle[None])[0], rtol=1e-9)
    near = middle + 1e-4 * np.random.default_rng(0).normal(size=(9, 3))
    np.testing.assert_allclose(near @ straight.matrix + straight.offset, way.of(near), atol=1e-6)


def learnt(X, group, stream):
    model = OpenSetRecognizer(seed=3, batch_size=32, n_jobs=1)
    for row, label in zip(X.tolist(), group.tolist(), strict=True):
        model.learn_one(dict(enumerate(row)), f"class {label}")
    model.freeze()
    predicted = [model.predict_proba_one(dict(enumerate(row))) for row in stream[:20].tolist()]
    for row in stream.tolist():
        model.learn_one(dict(enumerate(row)))
    model.flush()
    return model, predicted, list(model.drain())


def test_the_defaults_decide_skewed_rows_as_they_decide_bent_ones(monkeypatch, tmp_path):
    X, group = skewed()
    rng = np.random.default_rng(5)
    new = np.array([30.0, 6.0, -0.1]) * np.exp(0.2 * rng.normal(size=(60, 3)))
    stream = rng.permutation(np.vstack([skewed(9, 120)[0], new]))
    model, predicted, decisions = learnt(X, group, stream)
    powers = model.trained.whitening.yeo_johnson
    assert powers.columns.tolist() == [0, 2]
    assert model.trained.report.bent_features == (0, 2)
    assert "skewed, and taken to a power or by a logarithm: 0, 2" in str(model.trained.report)
    model.save(tmp_path / "model.osr")
    loaded = OpenSetRecognizer.load(tmp_path / "model.osr").trained.whitening.yeo_johnson
    assert_equal(loaded, powers)
    monkeypatch.setattr(library, "MOST_FEATURES", 0)
    plain, again, decided = learnt(bend(powers, X), group, bend(powers, stream))
    assert not len(plain.trained.whitening.yeo_johnson.columns)
    for one, other in zip(predicted, again, strict=True):
        assert one == pytest.approx(other, abs=1e-9)
    assert [d.label for d in decisions] == [d.label for d in decided]
