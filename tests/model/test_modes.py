"""Known classes with separate modes: the start of training, the decision on the place between, and the report."""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.cluster.vq import kmeans2

from stream_osr import OpenSetRecognizer
from stream_osr.model import modes as library
from stream_osr.model.feature_space.whitening import aligned, along_subclasses, fit_whitening, raw_difference, whiten
from stream_osr.model.prior import Prior
from stream_osr.parameters import Parameters
from stream_osr.training.members import priors_of_modes


def two_modes(d: int = 6, apart: float = 12.0, n: int = 400, share: float = 0.5) -> np.ndarray:
    rng = np.random.default_rng(d)
    return rng.normal(size=(n, d)) + apart * (np.arange(n) >= share * n)[:, None] / np.sqrt(d)


def found(rows: np.ndarray, effective: float = 1.0) -> np.ndarray:
    group = np.zeros(len(rows), np.int64)
    return library.find_modes(rows, group, priors(rows.shape[1]), np.random.default_rng(0), effective)


def priors(d: int) -> list[list[Prior]]:
    return priors_of_modes(d, Parameters())


@pytest.mark.parametrize("d", [2, 6, 20])
@pytest.mark.parametrize("share", [0.5, 0.9])
def test_separate_modes_are_found(d: int, share: float) -> None:
    mode = found(two_modes(d, share=share))
    assert np.bincount(mode).tolist() == [int(400 * share), 400 - int(400 * share)]
    assert len(set(mode[: int(400 * share)])) == 1


@pytest.mark.parametrize("d", [2, 6, 20])
def test_a_gaussian_is_one_mode(d: int) -> None:
    assert found(two_modes(d, apart=0.0)).max() == 0


def test_the_outliers_of_a_class_are_no_mode() -> None:
    """A mode has at least as many instances as dimensions."""
    rows = np.vstack([two_modes(d=20, n=200), 40.0 * np.random.default_rng(0).normal(size=(12, 20))])
    assert np.bincount(found(rows)).min() > 20
    assert len(np.unique(found(rows)[:200])) == 2


@pytest.mark.parametrize("rows", [np.zeros((30, 3)), np.ones((1, 3)), np.zeros((30, 0)), np.repeat(np.eye(3), 9, 0)])
def test_any_rows_have_a_start(rows: np.ndarray) -> None:
    assert len(found(rows)) == len(rows)


def test_a_run_of_similar_rows_is_no_mode_of_a_dependent_stream() -> None:
    rng = np.random.default_rng(0)
    rows = np.repeat(rng.normal(size=(12, 6)), 25, axis=0) + 0.6 * rng.normal(size=(300, 6))
    assert found(rows).max() > 4
    assert found(rows, library.DEPENDENT).max() == 0


def test_an_empty_cell_is_no_warning_in_any_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """The filters of warnings belong to all threads of the process."""

    def after_a_while(rows: np.ndarray, k: int, **settings: Any) -> Any:
        time.sleep(0.002 * (k % 3))
        warnings.warn("One of the clusters is empty.", stacklevel=1)
        return kmeans2(rows, k, **settings)

    monkeypatch.setattr(library, "kmeans2", after_a_while)
    rng = np.random.default_rng(0)
    rows, group = rng.normal(size=(1000, 2)), np.repeat(np.arange(5), [300, 250, 200, 150, 100])
    for seed in range(20):
        library.find_modes(rows, group, priors(2), np.random.default_rng(seed), features=np.eye(2), n_jobs=2)


def test_the_classes_do_not_share_modes() -> None:
    rows, group = np.tile(two_modes(), (2, 1)), np.repeat([1, 0], 400)
    mode = library.find_modes(rows, group, priors(6), np.random.default_rng(0))
    assert sorted(set(mode[group == 0])) == [0, 1]
    assert sorted(set(mode[group == 1])) == [2, 3]


@pytest.mark.parametrize("share", [0.5, 0.05])
def test_modes_that_all_classes_have_are_found(share: float) -> None:
    """The variance within classes is largest there, so whitened coordinates hide this direction."""
    rng = np.random.default_rng(1)
    group, point = rng.integers(3, size=2000), rng.random(2000) < share
    line = rng.normal(size=20)
    X = 4.0 * rng.normal(size=(3, 20))[group] + 25.0 * point[:, None] * line / np.linalg.norm(line)
    X += rng.normal(size=X.shape)
    rows = whiten(fit_whitening(X, group), X)
    mode = library.find_modes(rows, group, priors(20), np.random.default_rng(0))
    assert mode.max() == 5
    assert all(len(set(point[mode == k])) == 1 for k in range(6))


def test_the_coordinates_follow_the_covariance_within_subclasses() -> None:
    X, group = np.vstack([two_modes(), two_modes() + 3.0]), np.repeat([0, 1], 400)
    space = fit_whitening(X, group)
    subclass = np.repeat(np.arange(4), 200)
    turned, spread = along_subclasses(space, whiten(space, X), subclass)
    rows = whiten(turned, X)
    own = rows - np.array([rows[subclass == k].mean(axis=0) for k in range(4)])[subclass]
    within = own.T @ own / (800 - 4)
    np.testing.assert_allclose(np.minimum(within, 1.0), np.diag(spread), atol=2e-6)
    assert spread.min() < 0.1
    assert spread.max() > 0.9
    np.testing.assert_allclose(raw_difference(turned, rows[0], rows[1]), X[0] - X[1], atol=1e-9)
    axes = np.linalg.qr(np.random.default_rng(0).normal(size=(6, 6)))[0]
    other = turned._replace(forward=turned.forward @ axes, backward=axes.T @ turned.backward)
    np.testing.assert_allclose(aligned(other, turned).forward, turned.forward, atol=1e-9)


def classes(seed: int, holes: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Three classes of two modes in eight dimensions, and rows between the modes of a class or other known ones."""
    rng = np.random.default_rng(seed)
    centre = np.random.default_rng(0).normal(0.0, 6.0, (3, 2, 8))
    y = rng.integers(3, size=900)
    X = centre[y, rng.integers(2, size=900)] + rng.normal(size=(900, 8))
    return X, y, centre[y].mean(axis=1) + rng.normal(size=(900, 8)) if holes else X


@pytest.fixture(scope="module")
def model() -> OpenSetRecognizer:
    X, y, _ = classes(0, holes=False)
    out = OpenSetRecognizer(seed=1, chains=2)
    out.learn_many(pd.DataFrame(X).add_prefix("x"), pd.Series([f"c{v}" for v in y]))
    return out


def test_the_place_between_the_modes_of_a_class_is_unknown(model: OpenSetRecognizer) -> None:
    report = model.freeze()
    assert report.subclasses == {"c0": 2, "c1": 2, "c2": 2}
    between, known = (pd.DataFrame(classes(1, holes=holes)[2]).add_prefix("x") for holes in (True, False))
    assert np.mean(np.array(model.predict_many(between)) == "unknown") > 0.9
    assert np.mean(np.array(model.predict_many(known)) == "unknown") < 0.05


def test_only_kinds_that_draw_the_precision_of_a_mean_have_the_spread_of_the_modes(model: OpenSetRecognizer) -> None:
    """With a fixed precision, the prior of a mean would be narrow as well, and the model would age."""
    model.freeze()
    coarse, *drawn = [draw.prior.spread for draw in model.trained.draws]
    assert coarse.min() == 1.0
    assert [spread.min() < 0.5 for spread in drawn] == [True] * len(drawn)


def test_the_report_names_classes_with_separate_modes(model: OpenSetRecognizer) -> None:
    report = model.freeze()
    assert set(report.separate_groups) == {"c0", "c1", "c2"}
    for label, shares in report.separate_groups.items():
        assert shares == pytest.approx(report.subclass_shares[label])
        assert sum(shares) == pytest.approx(1.0)
    text = str(report)
    first, second = (f"{share:.0%}".replace("%", " %") for share in report.separate_groups["c0"])
    assert f"class 'c0' consists of 2 separate groups: {first}, {second}" in text
    assert f"2 subclasses ({first}, {second})" in text
