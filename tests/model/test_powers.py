"""Features that are bent before they are whitened."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import multivariate_normal, yeojohnson

from stream_osr import OpenSetRecognizer
from stream_osr.model import whitening
from stream_osr.model import yeo_johnson as library
from stream_osr.model.transfer import passage
from stream_osr.model.whitening import fit_mixed, fit_whitening, unwhiten, whiten
from stream_osr.model.yeo_johnson import NO_YEO_JOHNSON, YeoJohnson, bend, bent, find_yeo_johnson, slopes, unbend

SOME = YeoJohnson(np.array([0, 2]), np.array([3.0, -1e6]), np.array([0.5, 1e4]), np.array([0.25, 2.0]))


def skewed(seed=0, n=300):
    """Three classes; the first feature is skewed to the right, the third to the left, the second not at all."""
    rng = np.random.default_rng(seed)
    group = np.arange(n) % 3
    X = np.array([[0.0, 0, 0], [2, 0, 2], [0, 3, 1]])[group] + rng.normal(size=(n, 3))
    return np.column_stack([np.exp(X[:, 0]), X[:, 1], -np.exp(0.8 * X[:, 2])]), group


@pytest.mark.parametrize("power", library.POWERS)
def test_values_are_bent_as_scipy_bends_them(power):
    values = np.concatenate([[-1e6, 0.0, 1e6], np.linspace(-9.0, 9.0, 40)])
    np.testing.assert_allclose(bent(values, np.float64(power)), yeojohnson(values, power), rtol=1e-12)
    alone = YeoJohnson(np.zeros(1, np.int64), np.zeros(1), np.ones(1), np.array([power]))
    np.testing.assert_allclose(bend(alone, values[:, None])[:, 0], yeojohnson(values, power), rtol=1e-12)
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


def test_far_values_are_numbers_on_the_way_back():
    assert np.isfinite(unbend(SOME, np.array([[1e9, 0.0, -1e12, 0.0]]))).all()


def test_skewed_features_are_bent_and_others_are_not():
    X, group = skewed()
    found = find_yeo_johnson(X, group, np.ones(3, bool))
    assert found.columns.tolist() == [0, 2]
    assert found.power[0] < 0.5
    assert found.power[1] > 1.5
    assert find_yeo_johnson(X, group, np.array([False, True, False])).columns.tolist() == []
    rng = np.random.default_rng(1)
    assert not len(find_yeo_johnson(rng.normal(size=(300, 6)), group, np.ones(6, bool)).columns)
    assert not len(find_yeo_johnson(rng.poisson(1.0, size=(300, 2)).astype(float), group, np.ones(2, bool)).columns)


def test_gaussian_classes_are_left_as_they_are_however_wide_each_is():
    rng, bent_, tried = np.random.default_rng(3), 0, 0
    group = np.repeat([0, 1], 400)
    X = np.where(group[:, None] == 0, rng.normal(0.0, 1.0, (800, 2)), rng.normal([100.0, 0.0], [10.0, 1.0], (800, 2)))
    assert not len(find_yeo_johnson(X, group, np.ones(2, bool)).columns)
    for seed in range(200):
        rng = np.random.default_rng(seed)
        n, count, d = (int(rng.integers(*bounds)) for bounds in ((10, 80), (1, 6), (1, 6)))
        group = np.unique(rng.integers(count, size=n), return_inverse=True)[1]
        widths = np.exp(rng.normal(size=count))[group][:, None]
        X = 10.0 * rng.random() * rng.normal(size=(count, d))[group] + widths * rng.normal(size=(n, d))
        bent_, tried = bent_ + len(find_yeo_johnson(X, group, np.ones(d, bool)).columns), tried + d
    assert bent_ <= 0.01 * tried


def test_features_that_say_nearly_the_same_stay_alike():
    """By itself either would gain; what one has to do with the other would be lost."""
    rng = np.random.default_rng(2)
    group = np.arange(400) % 2
    skew = np.exp(0.6 * rng.normal(size=400))
    both = np.column_stack([skew, skew + 0.05 * rng.normal(size=400)])
    alone = find_yeo_johnson(both[:, :1], group, np.ones(1, bool))
    assert alone.columns.tolist() == [0]
    together = find_yeo_johnson(both, group, np.ones(2, bool))
    assert len(together.columns) in (0, 2)
    assert len(set(together.power.tolist())) <= 1


def test_a_power_is_chosen_by_the_likelihood_of_classes_with_the_same_correlations(monkeypatch):
    monkeypatch.setattr(library, "RIDGE", 1e-9)
    monkeypatch.setattr(library, "BORROWED", 0.0)
    X, group = skewed(n=120)
    scaled = (X - np.median(X, axis=0)) / X.std(axis=0)
    chosen = library._choose(scaled, group, np.ones(X.shape, bool))

    def log_likelihood(power):
        rows = yeojohnson(scaled[:, 0], power)
        rows = np.column_stack([rows, *(yeojohnson(scaled[:, j], library.POWERS[chosen[j]]) for j in (1, 2))])
        means = np.array([rows[group == j].mean(axis=0) for j in range(3)])[group]
        spreads = np.array([rows[group == j].std(axis=0) for j in range(3)])[group]
        z = (rows - means) / spreads
        slope = np.where(scaled[:, 0] >= 0, power - 1.0, 1.0 - power) * np.log1p(np.abs(scaled[:, 0]))
        together = multivariate_normal(cov=z.T @ z / len(z)).logpdf(z).sum()
        return together - np.log(spreads).sum() + slope.sum()

    best = max(range(len(library.POWERS)), key=lambda at: log_likelihood(library.POWERS[at]))
    assert chosen[0] == best


def test_copies_are_bent_like_the_original_and_mirrors_the_other_way():
    X, group = skewed()
    wide = np.column_stack([X, 5.0 * X[:, 0] - 1e5, -X[:, 0]])
    found = find_yeo_johnson(wide, group, np.ones(5, bool))
    assert found.columns.tolist() == [0, 2, 3, 4]
    assert found.power[2] == found.power[0]
    assert found.power[3] == 2.0 - found.power[0]
    there = bend(found, wide)
    np.testing.assert_allclose(np.abs(np.corrcoef(there[:, [0, 3, 4]].T)), 1.0, rtol=1e-9)


def test_wide_tables_and_empty_columns_are_left_as_they_are():
    X, group = skewed()
    wide = np.exp(np.random.default_rng(0).normal(size=(300, library.MOST_FEATURES + 1)))
    assert find_yeo_johnson(wide, group, np.ones(wide.shape[1], bool)) is NO_YEO_JOHNSON
    odd = np.column_stack([X[:, 0], np.full(300, np.nan), np.ones(300)])
    assert find_yeo_johnson(odd, group, np.ones(3, bool)).columns.tolist() == [0]


def test_the_map_is_that_of_bent_rows():
    X, group = skewed()
    X[::17, 0] = np.nan
    powers = find_yeo_johnson(X, group, np.ones(3, bool))
    space, alone = (
        fit_mixed(X, group, np.zeros(3, int), yeo_johnson=powers),
        fit_whitening(bend(powers, X), group),
    )
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
    spaces = []
    for rows in (X, more[:, ::-1] * 3.0):
        own = find_yeo_johnson(rows, group, np.ones(3, bool))
        spaces.append(fit_mixed(rows, group, np.zeros(3, int), yeo_johnson=own))
    way = passage(*spaces, [2, 1, 0])
    assert way.bends is not None
    new = whiten(spaces[1], more[:, ::-1])
    order = passage(spaces[0], spaces[0], [0, 1, 2])
    assert order.bends is None
    np.testing.assert_allclose(way.of(whiten(spaces[0], more)), new, rtol=1e-6, atol=1e-8)
    own = whiten(spaces[0], more[group == 1])
    middle = own.mean(axis=0)
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
    asked = [model.predict_proba_one(dict(enumerate(row))) for row in stream[:20].tolist()]
    for row in stream.tolist():
        model.learn_one(dict(enumerate(row)))
    model.flush()
    return model, asked, list(model.drain())


def test_the_defaults_decide_skewed_rows_as_they_decide_bent_ones(monkeypatch, tmp_path):
    X, group = skewed()
    rng = np.random.default_rng(5)
    new = np.array([30.0, 6.0, -0.1]) * np.exp(0.2 * rng.normal(size=(60, 3)))
    stream = rng.permutation(np.vstack([skewed(9, 120)[0], new]))
    model, asked, decisions = learnt(X, group, stream)
    powers = model.trained.whitening.yeo_johnson
    assert powers.columns.tolist() == [0, 2]
    assert model.trained.report.bent_features == (0, 2)
    assert "skewed, and taken to a power or by a logarithm: 0, 2" in str(model.trained.report)
    model.save(tmp_path / "model.osr")
    loaded = OpenSetRecognizer.load(tmp_path / "model.osr").trained.whitening.yeo_johnson
    for found, expected in zip(loaded, powers, strict=True):
        np.testing.assert_array_equal(found, expected)
    monkeypatch.setattr(library, "MOST_FEATURES", 0)
    plain, again, decided = learnt(bend(powers, X), group, bend(powers, stream))
    assert not len(plain.trained.whitening.yeo_johnson.columns)
    for one, other in zip(asked, again, strict=True):
        assert one == pytest.approx(other, abs=1e-9)
    assert [d.label for d in decisions] == [d.label for d in decided]
