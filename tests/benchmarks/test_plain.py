"""The plain step and the library's draw the same seats: algebra, remembered densities and pruning change nothing."""

from __future__ import annotations

import numpy as np
import pytest

from stream_osr.model import sampler
from stream_osr.model.feature_space.whitening import fit_whitening, whiten
from stream_osr.model.known import densities
from stream_osr.model.location_fit import fit_location
from stream_osr.model.moves.hyperparameters import make_grid
from stream_osr.model.prior import make_prior
from stream_osr.model.student_t import CONJUGATE
from stream_osr.model.training import summarize, train
from tests.oracles.plain import plain_step

D, KNOWN, NEW = 6, 4, 3


def world(placed: bool, seed: int = 0):
    """Known classes of two subclasses each, and whitened rows of a stream of known and new classes."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(scale=4.0, size=(2 * (KNOWN + NEW), D))
    shapes = rng.normal(size=(2 * (KNOWN + NEW), D, D)) / np.sqrt(D)

    def drawn(part: np.ndarray) -> np.ndarray:
        return centres[part] + np.einsum("nab,nb->na", shapes[part], rng.normal(size=(len(part), D)))

    part = rng.integers(2 * KNOWN, size=600)
    X, group = drawn(part), part // 2
    space = fit_whitening(X, group)
    rows = whiten(space, X)
    prior = make_prior(D, nu=D + 4.0, scale=0.3, beta=0.1)
    location = fit_location(rows, group) if placed else CONJUGATE
    settings = {"sweeps": 8, "grid": make_grid(D), "location": location}
    training = train(rows, group, space, prior, np.random.default_rng(1), **settings)
    known, _ = summarize(training, 0.01, background_components=True)
    return known, densities(known), whiten(space, drawn(rng.integers(2 * (KNOWN + NEW), size=1280)))


@pytest.mark.parametrize("placed", [False, True])
@pytest.mark.parametrize("batch", [16, 128])
def test_the_library_s_step_draws_what_the_plain_step_draws(batch, placed):
    known, frozen, rows = world(placed)
    settings = sampler.Settings(sweeps=5, window=0, half_life=200.0)
    state = sampler.open_stream(known, frozen)
    alike = 0
    starts = range(0, len(rows), batch)
    for number, at in enumerate(starts):
        new = rows[at : at + batch]
        plain, probabilities = plain_step(known, frozen, state, new, np.random.default_rng(number), settings)
        state, result = sampler.step(known, frozen, state, new, np.random.default_rng(number), settings)
        close = np.allclose(probabilities, result.probabilities, rtol=0.0, atol=1e-9)
        same = close and np.array_equal(plain.ids, state.ids)
        if same:  # a draw on the edge may fall either side of it, by rounding
            np.testing.assert_array_equal(plain.franchise.table_dish, state.franchise.table_dish)
            np.testing.assert_allclose(plain.dishes.matrix, state.dishes.matrix, rtol=1e-9, atol=1e-9)
        alike += same
    assert len(state.ids) > NEW
    assert alike >= 0.95 * len(starts)
