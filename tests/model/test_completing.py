"""Rows of which something is missing: seats by what is there of them, drawn once, the same under every chain."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np
import pytest

from stream_osr.model import missing_features, responsibilities, restaurants, student_t, training
from stream_osr.model import sampler as sampler
from stream_osr.model.feature_space import whitening
from stream_osr.model.known import Densities, Known, densities, log_densities
from stream_osr.model.prior import homogeneous, make_prior

CENTRES = np.array([[0.0, 0.0, 0.0], [8.0, 8.0, 0.0], [0.0, 8.0, 8.0]])


class Setting(NamedTuple):
    """Two known classes in three dimensions, and a stream in which a third has emerged."""

    space: whitening.Whitening
    known: Known
    frozen: Densities
    state: restaurants.StreamState

    def step(
        self, rows: np.ndarray, batch: int, gaps: missing_features.MissingPattern | None = None, **settings: int
    ):
        rng, settings = np.random.default_rng([5, batch]), {"window": 60, **settings}
        return sampler.step(self.known, self.frozen, self.state, rows, rng, sampler.Settings(**settings), gaps)

    @property
    def view(self) -> responsibilities.View:
        return responsibilities.view(self.known, self.frozen, self.state)


@pytest.fixture(scope="module")
def setting() -> Setting:
    rng, group = np.random.default_rng(2), np.arange(200) % 2
    X = rng.normal(size=(200, 3)) + CENTRES[group]
    space, prior = whitening.fit_whitening(X, group), make_prior(3, nu=6.0, scale=0.8, beta=0.05)
    known = training.summarize(
        training.train(whitening.whiten(space, X), group, space, prior, rng, sweeps=5), 0.01, True
    )[0]
    frozen = densities(known)
    found = Setting(space, known, frozen, sampler.open_stream(known, frozen))
    for batch in range(4):
        rows = whitening.whiten(space, rng.normal(size=(40, 3)) + CENTRES[np.arange(40) % 3])
        found = found._replace(state=found.step(rows, batch)[0])
    return found


def test_it_is_decided_by_what_is_there(setting: Setting) -> None:
    """Feature by feature: the one that is left says which class it is, or that two are as probable."""
    X = np.array([[8.0, np.nan, np.nan], [np.nan, np.nan, 8.0], [np.nan, 0.0, np.nan], [np.nan, 8.0, np.nan]])
    gaps = missing_features.missing_of(setting.space, X)
    rows = missing_features.complete_rows(
        setting.view, whitening.whiten(setting.space, X), gaps, np.random.default_rng(0)
    )
    _, found = setting.step(rows, 9, gaps)
    first, second, unknown = found.probabilities.T
    assert second[0] > 0.9
    assert unknown[1] > 0.9
    assert first[2] > 0.9
    assert 0.15 < second[3] < 0.85, "of the second class, or of the new one"
    assert second[3] + unknown[3] > 0.98


def test_seats_are_those_of_the_terms_without_what_is_missing(setting: Setting) -> None:
    """One row alone, no sweeps: equation (10) with marginal densities, by the plain sum over all terms."""
    X = np.array([[np.nan, 7.0, 1.0]])
    gaps, row = missing_features.missing_of(setting.space, X), whitening.whiten(setting.space, X)
    _, found = setting.step(row, 1, gaps, sweeps=0, window=0)
    terms, product = (
        missing_features.with_open_directions(setting.view, gaps, 0),
        student_t.products(homogeneous(row)),
    )
    weight = np.exp(missing_features.weights_of(terms, product, np.empty((0, 1), np.int64)))[:, 0]
    expected = np.array([weight[a:b].sum() for a, b in itertools.pairwise(terms.first)]) / weight.sum()
    assert found.probabilities[0] == pytest.approx(expected, abs=1e-9)


def test_one_shift_for_all_densities_of_a_row(setting: Setting) -> None:
    X = np.array([[np.nan, 7.0, 1.0], [1.0, np.nan, np.nan], [0.0, 0.0, 0.0]])
    gaps, rows = missing_features.missing_of(setting.space, X), homogeneous(whitening.whiten(setting.space, X))
    log_density, _, log_new = log_densities(setting.known, setting.frozen, rows)
    found, fresh, after = missing_features.open_densities(
        setting.frozen, setting.view, gaps, rows, log_density, log_new
    )
    assert gaps.pattern[2] == missing_features.NOTHING
    assert np.array_equal(found[2], log_density[2])
    assert fresh[2] == log_new[2]
    other = rows + 0.0
    other[:2, :3] += gaps.basis[gaps.pattern[:2], 0]  # anything else in an open direction
    log_density, _, log_new = log_densities(setting.known, setting.frozen, other)
    again, anew, moved = missing_features.open_densities(
        setting.frozen, setting.view, gaps, other, log_density, log_new
    )
    assert again[:2] - moved.shift[:2, None] == pytest.approx(found[:2] - after.shift[:2, None])
    assert anew[:2] - moved.shift[:2] == pytest.approx(fresh[:2] - after.shift[:2])


def test_what_is_drawn_comes_from_where_the_rest_lies(setting: Setting) -> None:
    X = np.tile([np.nan, 8.0, np.nan], (400, 1))
    gaps, rows = missing_features.missing_of(setting.space, X), whitening.whiten(setting.space, X)
    drawn = (
        missing_features.complete_rows(setting.view, rows, gaps, np.random.default_rng(0)) @ setting.space.backward
    )
    drawn += setting.space.center
    assert drawn[:, 1] == pytest.approx(np.full(400, 8.0), abs=1e-9)
    of_new = np.abs(drawn[:, 2] - 8.0) < 4.0
    assert 0.1 < of_new.mean() < 0.9, "of the second class, or of the new one"
    assert np.abs(drawn[of_new, 0]).mean() < 2.0
    assert np.abs(drawn[~of_new, 0] - 8.0).mean() < 2.5
    only = missing_features.complete_rows(setting.view, rows, gaps, np.random.default_rng(0), only=range(1, 2))
    only = only @ setting.space.backward
    assert np.abs(only[:, 0] + setting.space.center[0] - 8.0).mean() < 2.0
    middle = missing_features.complete_rows(setting.view, rows, gaps, None)
    assert (middle == middle[0]).all(), "nothing is drawn"
