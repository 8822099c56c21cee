"""Drawing the base measure: the evidence against the oracle's, the draws against the evidence."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from stream_osr.model import training as library
from stream_osr.model.moves import hyperparameters
from stream_osr.model.moves.hyperparameters import ALPHA, GAMMA, Grid, draw_prior, log_evidence, make_grid
from stream_osr.model.student_t import CONJUGATE, fit_location
from stream_osr.model.whitening import fit_whitening
from tests.model import chains
from tests.model.problems import check_books, make_base, seat
from tests.model.test_joint_distribution import variance_of_row
from tests.model.test_training import as_problem, labelled
from tests.oracles import crf


def small_grid(d: int) -> Grid:
    nu = np.array([d + 0.5, d + 1.0, d + 30.0])
    return Grid(nu, np.array([[0.02, 1.5], [0.4, 3.0], [5.0, 40.0]]), np.array([0.003, 0.7]))


def partition(seed: int, d: int, sizes=(1, 2, 7, 4)) -> tuple[np.ndarray, np.ndarray]:
    """Rows far from and near the origin, and the subclass of each, in any order and under any numbers."""
    rng = np.random.default_rng(seed)
    number = rng.permutation(40)[: len(sizes)]
    dish = rng.permutation(np.repeat(number, sizes))
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


@pytest.mark.parametrize(
    "fixed",
    [dict(zip(names, [9.0, 0.25, 0.6], strict=False)) for names in itertools.combinations(["nu", "scale", "beta"], 2)]
    + [{"nu": 9.0}, {"scale": 0.25}, {"beta": 0.6}, {"nu": 9.0, "scale": 0.25, "beta": 0.6}],
    ids=str,
)
def test_values_that_are_given_stay(fixed):
    rows, group = labelled(seed=1)
    space = fit_whitening(rows, group)
    grid = make_grid(2, **fixed)
    start = make_base(2, nu=9.0, psi=9.0 * 0.25, beta=0.6)[0]
    rng = np.random.default_rng(2)
    drawn = [library.train(rows, group, space, start, rng, sweeps=sweeps, grid=grid).prior for sweeps in (1, 3)]
    for prior in drawn:
        for name, value in fixed.items():
            found = prior.psi / prior.nu if name == "scale" else getattr(prior, name)
            assert found == pytest.approx(value, rel=1e-12), name
        assert prior.nu in grid.nu
        assert prior.psi in grid.psi
    assert make_grid(2).psi.min() >= hyperparameters.FLOOR * 2


@pytest.mark.parametrize("placed", [False, True], ids=["conjugate", "placed"])
def test_training_with_a_grid_leaves_subclasses_stated_under_the_last_prior(placed):
    rows, group = labelled(spread=4.0, parts=2)
    start = make_base(2)[0]
    location = fit_location(rows, group) if placed else CONJUGATE
    space, rng = fit_whitening(rows, group), np.random.default_rng(7)
    training = library.train(rows, group, space, start, rng, sweeps=6, grid=make_grid(2), location=location)
    prior = training.prior
    assert prior != start
    base = make_base(2, nu=prior.nu, psi=prior.psi, beta=prior.beta)[1]
    books = as_problem(training.seating, prior, base)
    check_books(books, np.zeros(len(training.seating.franchise.menu)), True)
    known, _ = library.summarize(training, 0.01)
    assert known.prior == prior
    assert known.location is location


@pytest.mark.thorough
def test_draws_and_sweeps_leave_the_joint_distribution_alone():
    # Geweke (2004): hyperparameters uniform on the grid, seating from the process, rows given both; then in turn
    # hyperparameters given all else, a sweep, fresh rows
    groups, d, steps = (0, 0, 1), 2, 12_000
    grid = Grid(np.array([d + 8.0, d + 14.0]), np.array([[4.0, 9.0], [8.0, 16.0]]), np.array([0.3, 1.2]))
    points = list(np.ndindex(2, 2, 2))
    made = [make_base(d, nu=grid.nu[a], psi=grid.psi[a, p], beta=grid.beta[b]) for a, p, b in points]
    number = {(prior.nu, prior.psi, prior.beta): k for k, (prior, _) in enumerate(made)}
    law = crf.Franchise(groups, ALPHA, GAMMA, True)
    rng = np.random.default_rng(21)
    alpha, gamma, seating = law.draw(rng)
    prior, base = made[int(rng.integers(len(made)))]
    rows = crf.draw_rows(seating, base, rng)
    begun = seat(seating, rows, groups, prior, alpha=alpha, gamma=gamma, exclusive=True)
    state = library.Seating(*begun[:3])
    sources = [
        chains.Sources(np.zeros((1, d)), np.sqrt(p.psi) * np.eye(d)[None], np.full(1, p.nu), np.full(1, p.beta))
        for p, _ in made
    ]
    at = np.empty(steps, np.int64)
    x = np.empty((steps, len(groups), d))
    joined = np.empty(steps)
    for s in range(steps):
        prior, state = library._draw_base_measure(rng, state.guests.rows[:, :d], state, grid, prior, settled=True)
        guests, franchise, _ = state
        library.sweep_groups(rng, chains.sampler_state(*state, prior, begun.log_frozen, True))
        assert not franchise.overflow[0]
        at[s] = number[prior.nu, prior.psi, prior.beta]
        dish = library.dish_of_guests(state)
        chains.draw_blocks(rng, guests.rows, dish, sources[at[s]])
        x[s], joined[s] = guests.rows[:, :d], dish[0] == dish[1]
    exact = law.prior()
    together = sum(
        p
        for p, each in zip(exact.probabilities, exact.seatings, strict=True)
        if each.dishes[each.tables[0]] == each.dishes[each.tables[1]]
    )
    tests = {"joined": (joined, together)}
    for k, (_, base) in enumerate(made):
        here = at == k
        tests[f"point {k}"] = (here, 1 / 8)
        tests[f"point {k}, joined"] = (here * joined, together / 8)
        tests[f"point {k}, square"] = (here * x[:, 0, 0] ** 2, variance_of_row(base) / 8)
    scores = {name: float(chains.z_score(*test)) for name, test in tests.items()}
    assert max(np.abs(list(scores.values()))) < 4.5, scores
