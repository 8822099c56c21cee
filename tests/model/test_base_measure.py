"""Drawing the base measure: the evidence against the oracle's, the draws against the evidence."""

from __future__ import annotations

import numpy as np
import pytest

from stream_osr.model import location_fit, student_t
from stream_osr.model import training as library
from stream_osr.model.feature_space import whitening
from stream_osr.model.moves import hyperparameters
from stream_osr.model.moves.hyperparameters import Grid, draw_prior, log_evidence, make_grid
from tests.model.problems import make_base
from tests.model.test_training import check, labelled


def small_grid(d: int) -> Grid:
    nu = np.array([d + 0.5, d + 1.0, d + 30.0])
    return Grid(nu, np.array([[0.02, 1.5], [0.4, 3.0], [5.0, 40.0]]), np.array([0.003, 0.7]))


def partition(seed: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows far from and near the origin, and the subclass of each, in any order and under any numbers."""
    rng = np.random.default_rng(seed)
    dish = rng.permutation(np.repeat(rng.permutation(40)[:4], (1, 2, 7, 4)))
    centres = rng.normal(scale=4.0, size=(40, d))
    return centres[dish] + rng.normal(size=(len(dish), d)) * rng.uniform(0.1, 2.0, d), dish


@pytest.mark.parametrize("d", [1, 2, 5])
def test_evidence_is_the_product_of_the_predictives(d):
    rows, dish = partition(d, d)
    grid = small_grid(d)
    evidence = log_evidence(rows, dish, grid)
    assert evidence.shape == (3, 2, 2)
    for a, p, b in np.ndindex(evidence.shape):
        base = make_base(d, nu=grid.nu[a], psi=grid.psi[a, p], beta=grid.beta[b])[1]
        blocks = [rows[dish == k] for k in np.unique(dish)]
        assert evidence[a, p, b] == pytest.approx(sum(base.log_marginal_chained(x) for x in blocks), rel=1e-9)
        assert evidence[a, p, b] == pytest.approx(sum(base.log_marginal(x) for x in blocks), rel=1e-9)


def test_evidence_of_rows_that_do_not_vary():
    # the scatter has no rank: eigenvalues that rounding made negative must not matter
    rows = np.repeat([[1e3, -1e3, 1e-3], [5.0, 5.0, 5.0]], 30, axis=0)
    dish = np.repeat([0, 1], 30)
    grid = make_grid(3)
    _, base = make_base(3, nu=grid.nu[2], psi=grid.psi[2, 0], beta=grid.beta[1])
    evidence = log_evidence(rows, dish, grid)
    assert np.isfinite(evidence).all()
    expected = base.log_marginal(rows[:30]) + base.log_marginal(rows[30:])
    assert evidence[2, 0, 1] == pytest.approx(expected, rel=1e-7)


def test_draw_at_the_very_end_of_the_unit_interval_is_on_the_grid():
    class Last:
        def random(self) -> float:
            return 1.0 - 2.0**-53

    rows, dish = partition(5, 2)
    grid = small_grid(2)
    drawn = draw_prior(Last(), rows, dish, grid, make_base(2)[0])
    assert drawn.nu in grid.nu
    assert drawn.beta in grid.beta


def test_values_that_are_given_stay():
    rows, group = labelled(seed=1)
    space, start = whitening.fit_whitening(rows, group), make_base(2, nu=9.0, psi=9.0 * 0.25, beta=0.6)[0]
    given = {"nu": 9.0, "scale": 0.25, "beta": 0.6}
    for names in (("nu",), ("scale",), ("beta",), ("nu", "scale"), ("nu", "beta"), ("scale", "beta"), tuple(given)):
        rng, grid = np.random.default_rng(2), make_grid(2, **{name: given[name] for name in names})
        for sweeps in (1, 3):
            prior = library.train(rows, group, space, start, rng, sweeps=sweeps, grid=grid).prior
            found = {"nu": prior.nu, "scale": prior.psi / prior.nu, "beta": prior.beta}
            assert {name: found[name] for name in names} == pytest.approx(
                {name: given[name] for name in names}, rel=1e-12
            )
            assert prior.nu in grid.nu
            assert prior.psi in grid.psi
    assert make_grid(2).psi.min() >= hyperparameters.FLOOR * 2


@pytest.mark.parametrize("placed", [False, True], ids=["conjugate", "placed"])
def test_training_with_a_grid_leaves_subclasses_stated_under_the_last_prior(placed):
    rows, group = labelled(spread=4.0, parts=2)
    start = make_base(2)[0]
    location = location_fit.fit_location(rows, group) if placed else student_t.CONJUGATE
    space, rng = whitening.fit_whitening(rows, group), np.random.default_rng(7)
    training = library.train(rows, group, space, start, rng, sweeps=6, grid=make_grid(2), location=location)
    prior = training.prior
    assert prior != start
    base = make_base(2, nu=prior.nu, psi=prior.psi, beta=prior.beta)[1]
    check(training.seating, prior, base)
    known, _ = library.summarize(training, 0.01)
    assert known.prior == prior
    assert known.location is location
