"""Remembered densities against densities computed afresh from the rows of each subclass."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from stream_osr.model import dish_statistics as library_dishes
from stream_osr.model.dish_statistics import Dishes, empty_dishes, log_predictives
from stream_osr.model.moves import predictive_cache as library
from stream_osr.model.moves.seating import HOPELESS, redish_tables, visit, weigh_block, weigh_dishes, weigh_remembered
from stream_osr.model.moves.splitting import make_proposal, split_or_merge
from stream_osr.model.prior import Prior, homogeneous
from stream_osr.model.restaurants import CLOSED, Guests, empty_franchise, leave
from tests.model.chains import sampler_state
from tests.model.problems import KINDS, Problem, make_base, random_problem, random_rows

pytestmark = pytest.mark.thorough  # compiles kernels of its own


def check(remembered: library.Likelihood, rows: np.ndarray, dishes: Dishes, prior: Prior) -> None:
    """Every density under a dish that holds somebody, from statistics and from scratch."""
    frozen = remembered.density.shape[1] - len(dishes.size)
    afresh = log_predictives(rows, dishes, prior)
    for i, k in product(range(len(rows)), np.flatnonzero(dishes.size > 0).tolist()):
        found = library.log_density(remembered, i, k, dishes, prior)
        assert found == pytest.approx(afresh[i, k], rel=1e-9, abs=1e-9)
        relative = afresh[i, k] - remembered.reference[i]
        expected = 0.0 if relative < -708.0 else np.exp(min(relative, library.HIGHEST))
        assert remembered.density[i, frozen + k] == pytest.approx(expected, rel=1e-9 * max(1.0, abs(afresh[i, k])))


def remember(rows: np.ndarray, dishes: Dishes, prior: Prior) -> library.Likelihood:
    """Remember densities where no dish is frozen."""
    no_table, franchise = np.full(len(rows), CLOSED), empty_franchise(1, len(dishes.size), 0, 1.0, 1.0)
    guests = Guests(rows, no_table, np.zeros(len(rows)), no_table)
    return library.remember(sampler_state(guests, franchise, dishes, prior, np.empty((len(rows), 0)), False))


@pytest.mark.parametrize("far", [1.0, 300.0])
@pytest.mark.parametrize("kind", KINDS)
def test_any_sequence_of_moves(kind, far):
    # far: a few rows that are hundreds of standard deviations out, whose removals are inversions
    prior, base = make_base(4, kind)
    rng = np.random.default_rng(1)
    raw = random_rows(rng, 60, prior, 1.0)
    raw[:3, len(prior.first) :] *= far
    rows = homogeneous(raw)
    dishes = empty_dishes(6, prior)
    remembered = remember(rows, dishes, prior)
    dish = np.full(60, CLOSED)
    tolerance = 1e-9 * far
    for move in range(1500):
        i, k = int(rng.integers(60)), int(rng.integers(-1, 6))
        if dish[i] != CLOSED:
            library.remove(dishes, int(dish[i]), i, rows, prior, remembered)
        if k != CLOSED:
            library.add(dishes, k, i, rows, prior, remembered)
        dish[i] = k
        if move % 100 == 99:
            check(remembered, rows, dishes, prior)
            for j in range(60):
                if dish[j] != CLOSED:
                    others = raw[(dish == dish[j]) & (np.arange(60) != j)]
                    found = library.log_density_without(remembered, j, int(dish[j]), rows, dishes, prior)
                    assert found == pytest.approx(base.log_predictive(raw[j], others), rel=tolerance, abs=tolerance)


@pytest.mark.parametrize("kind", KINDS)
def test_emptied_slots(kind):
    prior, _ = make_base(2, kind)
    rows = homogeneous(random_rows(np.random.default_rng(2), 5, prior, 1.0))
    dishes = empty_dishes(2, prior)
    remembered = remember(rows, dishes, prior)
    for i in range(3):
        library.add(dishes, 0, i, rows, prior, remembered)
    library_dishes.clear(dishes, 0, prior)  # given up behind the back of the remembered densities
    library.add(dishes, 0, 4, rows, prior, remembered)
    check(remembered, rows, dishes, prior)
    library.remove(dishes, 0, 4, rows, prior, remembered)  # it is empty, but it may be held
    for i in range(5):
        expected = library_dishes.log_predictive(dishes, 0, rows[i], prior)
        found = np.log(remembered.density[i, 0]) + remembered.reference[i]
        assert found == pytest.approx(expected, rel=1e-12)


def check_weights(i: int, problem: Problem, sitting: library.SamplerState, remembered: library.Likelihood) -> None:
    """Weigh the dishes for a guest that has left its table, from what is remembered and without it."""
    own = leave(sitting.franchise, int(problem.guests.table[i]), float(problem.guests.weight[i]))
    own = own if own >= problem.n_frozen else CLOSED
    total, direct = weigh_dishes(i, own, sitting), sitting.weights.copy()
    found = weigh_remembered(i, own, sitting, remembered)
    last = sitting.franchise.extent[0] + 1
    np.testing.assert_allclose(sitting.weights[:last] / found, direct[:last] / total, rtol=1e-9, atol=1e-15)


def stream_like(seed: int, kind: str, scale: float = 2.0) -> Problem:
    return random_problem(seed, kind, groups=(0,) * 14, n_frozen=2, n_settled=3, fading=True, scale=scale)


@pytest.mark.parametrize("kind", KINDS)
def test_weights_after_visits_redishing_splits_and_merges(kind):
    for seed in range(6):
        problem = stream_like(seed, kind)
        f, sitting, rng = problem.franchise, problem.sitting(), np.random.default_rng(seed)
        f.gamma[0] = 5.0  # subclasses come and go, their slots are used again
        remembered, company = library.remember(sitting), make_proposal(sitting)
        for _ in range(15):
            for i in range(14):
                visit(rng, i, sitting, remembered)
            redish_tables(rng, 0, sitting, remembered)
            split_or_merge(rng, sitting, company, remembered)
            assert not f.overflow[0]
            check(remembered, problem.guests.rows, problem.dishes, problem.prior)
        for i in range(14):
            check_weights(i, problem, sitting._replace(franchise=problem.copy().franchise), remembered)


@pytest.mark.parametrize("kind", KINDS)
def test_weights_of_whole_tables_but_for_hopeless_dishes(kind):
    for seed in range(4):
        problem = stream_like(seed, kind, scale=100.0)
        sitting, rng, empty = problem.sitting(), np.random.default_rng(seed), empty_dishes(1, problem.prior)
        remembered, left_out, weighed = library.remember(sitting), 0, 0
        tables, f = sitting.guests.table, sitting.franchise
        for _ in range(10):
            for i in range(14):
                visit(rng, i, sitting, remembered)
            for table in np.unique(tables).tolist():
                members = np.flatnonzero(tables == table)
                given = f.table_dish[table], 0, members, sitting.guests.rows[members], empty, sitting
                weigh_block(*given, remembered)
                found = sitting.weights[: int(f.extent[0]) + 1].copy()
                weigh_block(*given)
                direct = sitting.weights[: int(f.extent[0]) + 1]
                out = np.isneginf(found) & ~np.isneginf(direct)
                assert (direct[out] < direct.max() - HOPELESS + 1e-9).all()
                np.testing.assert_allclose(found[~out], direct[~out], rtol=1e-9, atol=1e-8)
                left_out, weighed = left_out + int(out.sum()), weighed + int((~out).sum())
        assert weighed > 100
        assert left_out > 10


@pytest.mark.parametrize("off", [-1e4, -500.0, 500.0, 1e4])
@pytest.mark.parametrize("kind", KINDS)
def test_densities_that_ran_away_from_their_reference_are_stated_anew(off, kind):
    problem = stream_like(0, kind)
    sitting = problem.sitting()
    remembered = library.remember(sitting)
    remembered.reference[:] += off  # as if all densities were so far below, or above
    for values in (remembered.density, remembered.fresh):
        with np.errstate(divide="ignore"):
            values[:] = np.exp(np.minimum(np.log(values) - off, library.HIGHEST))
    for i in range(14):
        check_weights(i, problem, sitting, remembered)
        problem.guests.table[i] = CLOSED


def test_held_dish_without_tables_is_weighed():
    for seed in range(3):
        problem = stream_like(seed, "numbers")
        dish = problem.n_frozen  # one that has statistics of its own: without tables it stays where it is held
        sitting, f, guests = problem.sitting(), problem.franchise, problem.guests
        remembered = library.remember(sitting)
        for i in np.flatnonzero(f.table_dish[guests.table] == dish).tolist():
            leave(f, int(guests.table[i]), float(guests.weight[i]))
            library.remove(problem.dishes, 0, i, guests.rows, problem.prior, remembered)
            guests.table[i] = CLOSED
        f.table_dish[f.table_dish == dish] = CLOSED
        f.total[0] -= f.menu[dish]
        f.menu[dish], f.seated[:, dish], f.held[dish] = 0.0, 0.0, 1
        check_weights(int(np.flatnonzero(guests.table != CLOSED)[0]), problem, sitting, remembered)
        assert sitting.weights[dish] > 0.0
