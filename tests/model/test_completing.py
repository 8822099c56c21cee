"""Rows of which something is missing: seats by what is there of them, drawn once, the same under every chain."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from stream_osr.model import missing, responsibilities, student_t
from stream_osr.model import step as sampler
from stream_osr.model.franchise import StreamState
from stream_osr.model.known import Densities, Known, densities, log_densities
from stream_osr.model.prior import homogeneous, make_prior
from stream_osr.model.responsibilities import view
from stream_osr.model.training import summarize, train
from stream_osr.model.whitening import Whitening, fit_whitening, whiten

CENTRES = np.array([[0.0, 0.0, 0.0], [8.0, 8.0, 0.0], [0.0, 8.0, 8.0]])


class Setting:
    """Two known classes in three dimensions, and a stream in which a third has emerged."""

    def __init__(self) -> None:
        rng = np.random.default_rng(2)
        group = np.arange(200) % 2
        X = rng.normal(size=(200, 3)) + CENTRES[group]
        self.space: Whitening = fit_whitening(X, group)
        prior = make_prior(3, nu=6.0, scale=0.8, beta=0.05)
        trained = train(whiten(self.space, X), group, self.space, prior, rng, sweeps=5)
        self.known: Known = summarize(trained, 0.01, True)[0]
        self.frozen: Densities = densities(self.known)
        self.state: StreamState = sampler.open_stream(self.known, self.frozen)
        for batch in range(4):
            rows = whiten(self.space, rng.normal(size=(40, 3)) + CENTRES[np.arange(40) % 3])
            self.state, _ = self.step(rows, batch)
        self.view: responsibilities.View = view(self.known, self.frozen, self.state)

    def step(
        self, rows: np.ndarray, batch: int, gaps: missing.MissingPattern | None = None
    ) -> tuple[StreamState, sampler.BatchResult]:
        rng, settings = np.random.default_rng([5, batch]), sampler.Settings(window=60)
        return sampler.step(self.known, self.frozen, self.state, rows, rng, settings, gaps)


@pytest.fixture(scope="module")
def setting() -> Setting:
    return Setting()


def test_it_is_decided_by_what_is_there(setting: Setting) -> None:
    """Feature by feature: the one that is left says which class it is, or that two are as probable."""
    X = np.array([[8.0, np.nan, np.nan], [np.nan, np.nan, 8.0], [np.nan, 0.0, np.nan], [np.nan, 8.0, np.nan]])
    gaps = missing.missing_of(setting.space, X)
    rows = missing.complete_rows(setting.view, whiten(setting.space, X), gaps, np.random.default_rng(0))
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
    gaps = missing.missing_of(setting.space, X)
    row = whiten(setting.space, X)
    rng, settings = np.random.default_rng([5, 1]), sampler.Settings(sweeps=0, window=0)
    state = setting.state
    _, found = sampler.step(setting.known, setting.frozen, state, row, rng, settings, gaps)
    terms, product = (
        missing.with_open_directions(setting.view, gaps, 0),
        student_t.products(homogeneous(row)),
    )
    weight = np.exp(missing.weights_of(terms, product, np.empty((0, 1), np.int64)))[:, 0]
    expected = np.array([weight[a:b].sum() for a, b in itertools.pairwise(terms.first)]) / weight.sum()
    assert found.probabilities[0] == pytest.approx(expected, abs=1e-9)


def test_one_shift_for_all_densities_of_a_row(setting: Setting) -> None:
    X = np.array([[np.nan, 7.0, 1.0], [1.0, np.nan, np.nan], [0.0, 0.0, 0.0]])
    gaps, rows = missing.missing_of(setting.space, X), homogeneous(whiten(setting.space, X))
    log_density, _, log_new = log_densities(setting.known, setting.frozen, rows)
    found, fresh, after = missing.open_densities(setting.frozen, setting.view, gaps, rows, log_density, log_new)
    assert gaps.pattern[2] == missing.NOTHING
    assert np.array_equal(found[2], log_density[2])
    assert fresh[2] == log_new[2]
    other = rows + 0.0
    other[:2, :3] += gaps.basis[gaps.pattern[:2], 0]  # anything else in an open direction
    log_density, _, log_new = log_densities(setting.known, setting.frozen, other)
    again, anew, moved = missing.open_densities(setting.frozen, setting.view, gaps, other, log_density, log_new)
    assert again[:2] - moved.shift[:2, None] == pytest.approx(found[:2] - after.shift[:2, None])
    assert anew[:2] - moved.shift[:2] == pytest.approx(fresh[:2] - after.shift[:2])


def test_what_is_drawn_comes_from_where_the_rest_lies(setting: Setting) -> None:
    X = np.tile([np.nan, 8.0, np.nan], (400, 1))
    gaps, rows = missing.missing_of(setting.space, X), whiten(setting.space, X)
    drawn = missing.complete_rows(setting.view, rows, gaps, np.random.default_rng(0)) @ setting.space.backward
    drawn += setting.space.center
    assert drawn[:, 1] == pytest.approx(np.full(400, 8.0), abs=1e-9)
    of_new = np.abs(drawn[:, 2] - 8.0) < 4.0
    assert 0.1 < of_new.mean() < 0.9, "of the second class, or of the new one"
    assert np.abs(drawn[of_new, 0]).mean() < 2.0
    assert np.abs(drawn[~of_new, 0] - 8.0).mean() < 2.5
    only = missing.complete_rows(setting.view, rows, gaps, np.random.default_rng(0), only=range(1, 2))
    only = only @ setting.space.backward
    assert np.abs(only[:, 0] + setting.space.center[0] - 8.0).mean() < 2.0
    middle = missing.complete_rows(setting.view, rows, gaps, None)
    assert (middle == middle[0]).all(), "nothing is drawn"
