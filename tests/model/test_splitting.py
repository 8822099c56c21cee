"""Split and merge: the Metropolis-Hastings ratio against the enumeration's target, and what the move is for.

``test_exact_posterior.py`` and ``test_joint_distribution.py`` check that the move leaves the target alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np
import pytest

from stream_osr.model.dish_statistics import empty_dishes, log_predictives
from stream_osr.model.moves import splitting as library
from stream_osr.model.moves.predictive_cache import SamplerState
from stream_osr.model.prior import Prior, homogeneous
from stream_osr.model.restaurants import CLOSED, Guests, empty_franchise, join
from tests.model import chains
from tests.model.problems import StreamProblem, check_counts, fill, make_base, random_problem, sources, stream_problem
from tests.oracles import crf, stream

pytestmark = pytest.mark.thorough  # compiles kernels of its own

ROWS = np.array([[0.9], [1.6], [1.1], [0.2]])
SEATINGS = [
    # tables 0 (known class 0) and 1 (the emerging subclass) were there; new ones follow
    crf.Seating((0, 0, 0, 1), ()),
    crf.Seating((0, 2, 2, 0), (0,)),
    crf.Seating((2, 2, 3, 2), (1, 1)),
    crf.Seating((2, 3, 0, 4), (0, 0, 3)),
]


def log_target(problem: StreamProblem, seating: crf.Seating) -> float:
    """Log of the oracle's target at the alpha0 of the franchise, up to a constant."""
    alpha = float(problem.state.franchise.alpha[0])
    log_likelihood = stream.log_likelihood(seating, problem.oracle, ROWS, problem.state.log_frozen)
    return float(stream.log_prior(seating, problem.oracle, alpha)) + log_likelihood


def seating_of(problem: StreamProblem, members: Sequence[int] = ()) -> crf.Seating:
    """The seating, with the members at a table of their own that serves a dish of its own."""
    tables = problem.state.guests.table.copy()
    tables[list(members)] = 90
    dishes = {**dict(enumerate(problem.state.franchise.table_dish.tolist())), 90: 99}
    return crf.canonical([0] * len(tables), tables.tolist(), dishes, 2, 3)


def log_allocation(problem: StreamProblem, anchor: int, dish: int, order: list[int], inside: list[bool]) -> float:
    """Probability of the offers' outcome, from the description: sizes times densities, nearest first."""
    base, log_known = problem.oracle.base, problem.state.log_frozen
    members, stayed, total = [anchor], 1, 0.0
    for i, accepted in zip(order, inside, strict=True):
        going = len(members) * np.exp(base.log_predictive(ROWS[i], ROWS[members]))
        staying = stayed * np.exp(log_known[i, dish])
        total += np.log((going if accepted else staying) / (going + staying))
        if accepted:
            members.append(i)
        else:
            stayed += 1
    return total


def log_return(problem: StreamProblem, members: list[int], dish: int) -> float:
    """Probability that the merge picks this dish and these places: the members sit down by the usual rule."""
    state, log_known = problem.oracle, problem.state.log_frozen[members].sum(axis=0)
    total = log_known[dish] - np.logaddexp.reduce(log_known)
    tables = problem.state.guests.table
    serves = problem.state.franchise.table_dish
    alpha = float(problem.state.franchise.alpha[0])
    others = [i for i in range(len(tables)) if i not in members]
    mass = {t: seats for t, (_, seats) in enumerate(state.tables)}
    menu = dict(enumerate([*state.known_weights, *state.emerging_weights]))
    for i in [*others, *sorted(members)]:
        t, k = int(tables[i]), int(serves[tables[i]])
        at_dish = sum(m for u, m in mass.items() if serves[u] == dish)
        fresh = alpha * menu[dish] / (sum(menu.values()) + state.gamma)
        if i in members:
            total += np.log(mass.get(t, fresh) / (at_dish + fresh))
        if t not in mass:
            menu[k] = menu.get(k, 0.0) + 1.0
        mass[t] = mass.get(t, 0.0) + 1.0
    return float(total)


@pytest.mark.parametrize("seating", SEATINGS)
def test_ratio_is_target_times_proposals(seating):
    problem, tried = stream_problem(ROWS, seating, nu=3.0), 0
    sitting, rng = problem.state, np.random.default_rng(0)
    serves, company = sitting.franchise.table_dish[sitting.guests.table], library.make_proposal(sitting)
    for anchor in np.flatnonzero(serves < 2).tolist():
        dish = int(serves[anchor])
        others = [i for i in np.flatnonzero(serves == dish).tolist() if i != anchor]
        order = np.array(sorted(others, key=lambda i: abs(ROWS[i, 0] - ROWS[anchor, 0])), dtype=int)
        for choice in product([False, True], repeat=len(order)):
            members = np.sort(np.append(order[np.array(choice, dtype=np.bool_)], anchor))
            count = library.gather(anchor, dish, CLOSED, sitting, company)
            assert company.guest[:count].tolist() == others
            company.members[:count] = np.isin(others, members)
            together, log_q, log_block = library.allocate(rng, anchor, dish, count, True, sitting, company)
            assert together == len(members)
            found_members = np.empty(together, np.int64)
            library.put_together(anchor, count, company, found_members)
            np.testing.assert_array_equal(found_members, members)
            log_seats, _ = library.log_seat_norms(rng, members, dish, CLOSED, sitting.guests, sitting.franchise)
            found = library.log_odds(members, dish, log_block, log_q, log_seats, sitting)
            assert log_block == pytest.approx(problem.oracle.base.log_marginal(ROWS[members]), rel=1e-9)
            allocation = log_allocation(problem, anchor, dish, order.tolist(), list(choice))
            assert log_q == pytest.approx(allocation, rel=1e-9)
            expected = log_target(problem, seating_of(problem, members.tolist())) - log_q
            expected += log_return(problem, members.tolist(), dish) - log_target(problem, seating_of(problem))
            assert found == pytest.approx(expected, rel=1e-9, abs=1e-9)
            tried += 1
    assert tried


def test_ratio_of_a_merge_is_that_of_the_split_it_undoes():
    # guests 0, 1 and 3 make up a subclass; wherever the merge sends them, the split back has the same ratio
    start, members, into, anchor = crf.Seating((2, 2, 0, 2), (3,)), np.array([0, 1, 3]), 0, 1
    for seed in range(12):
        problem, rng = stream_problem(ROWS, start, nu=3.0), np.random.default_rng(seed)
        sitting, company = problem.state, library.make_proposal(problem.state)
        guests, franchise = sitting.guests, sitting.franchise

        def log_ratio(dish: int, count: int, sitting=sitting, company=company, rng=rng):
            _, log_q, log_block = library.allocate(rng, anchor, into, count, True, sitting, company)
            log_seats, places = library.log_seat_norms(rng, members, into, dish, sitting.guests, sitting.franchise)
            return library.log_odds(members, into, log_block, log_q, log_seats, sitting), places

        count = library.gather(anchor, into, 2, sitting, company)
        inside = guests.table[company.guest[:count]] == 2
        ratio, places = log_ratio(2, count)
        library.dissolve(members, places, into, sitting)
        assert (franchise.table_dish[guests.table] == into).all()
        assert library.gather(anchor, into, CLOSED, sitting, company) == count
        company.members[:count] = inside
        back, _ = log_ratio(CLOSED, count)
        assert back == pytest.approx(ratio, rel=1e-9), seed
        assert library.found(members, sitting)
        assert seating_of(problem) == start


@pytest.mark.parametrize("fading", [False, True])
def test_counts_agree_with_a_recount_after_splits_and_merges(fading):
    splits = merges = 0
    for seed in range(12):
        problem = random_problem(seed, d=1, groups=(0,) * 12, n_frozen=2, n_settled=2, fading=fading)
        f, sitting, rng = problem.franchise, problem.sitting(), np.random.default_rng(seed)
        trained, company = (
            problem.trained,
            library.make_proposal(sitting),
        )
        for _ in range(60):
            dishes = len(set(f.table_dish[f.table_dish >= 2].tolist()))
            accepted = library.split_or_merge(rng, sitting, company)
            change = len(set(f.table_dish[f.table_dish >= 2].tolist())) - dishes
            assert change in ((-1, 1) if accepted else (0,))
            splits += change == 1
            merges += change == -1
            check_counts(problem, trained)
    assert splits > 10
    assert merges > 10


D = 6


@pytest.fixture(scope="module")
def known() -> chains.Frozen:
    """A class of unit variance in six dimensions, of which so much is known that its density is the normal one."""
    prior, base = make_base(D, nu=10.0, psi=2.0, beta=0.02)
    rows = np.random.default_rng(100).normal(size=(5000, D))
    return chains.Frozen(fill(prior, [rows]), sources(base, [rows]), np.zeros((1, 1)))


def at_one_table(rows: np.ndarray, prior: Prior, log_frozen: np.ndarray) -> SamplerState:
    """Guests at the only table of the only known class."""
    n = len(rows)
    franchise = empty_franchise(1, 60, 100, 10.0, 30.0)
    franchise.held[0], franchise.menu[0], franchise.total[0] = 1.0, 20.0, 20.0
    for _ in rows:
        join(franchise, 0, 0, 0, 1.0)
    guests = Guests(rows, np.zeros(n, np.int64), np.ones(n), np.zeros(n, np.int64))
    return chains.sampler_state(guests, franchise, empty_dishes(59, prior), prior, log_frozen, False)


def seats_left(known: chains.Frozen, proposals: int, seed: int) -> int:
    """30 guests in one spot well within the reach of a known class, among 60 of its own: how many leave it."""
    rng = np.random.default_rng(seed)
    spot = rng.normal(scale=0.4, size=(30, D)) + np.eye(D)[0]
    rows = homogeneous(np.concatenate([rng.normal(size=(60, D)), spot]))
    prior, _ = make_base(D, nu=10.0, psi=2.0, beta=0.02)
    state = at_one_table(rows, prior, log_predictives(rows, known.dishes, prior))
    no_guests = chains.Settled(np.empty((0, D + 1)), np.zeros(0, np.int64))
    chains.stream_chain(rng, 1, 0, proposals, state, known, no_guests, known.sources)
    return int((state.franchise.table_dish[state.guests.table[60:]] > 0).sum())


def test_group_within_reach_of_a_known_class_is_found_together(known):
    # no guest gains by leaving alone, all gain by leaving together
    alone = [seats_left(known, 0, seed) for seed in range(8)]
    together = [seats_left(known, 6, seed) for seed in range(8)]
    assert max(alone) < 5
    assert min(together) > 20


def row_of_guests(where: list[float]) -> SamplerState:
    """Guests of one dimension at one table of one known class."""
    return at_one_table(homogeneous(np.array(where)[:, None]), make_base(1)[0], np.full((len(where), 1), -1.0))


def test_offers_end_when_too_many_in_a_row_have_stayed():
    sitting = row_of_guests([0.0, *np.linspace(1.0, 2.0, 30)])
    guests, company = sitting.guests, library.make_proposal(sitting)
    count = library.gather(0, 0, CLOSED, sitting, company)
    assert count == 30
    company.members[:count] = False
    together, log_q, _ = library.allocate(np.random.default_rng(0), 0, 0, count, True, sitting, company)
    assert together == 1
    offered = np.isinf(company.distance[:count])
    assert offered.tolist() == [True] * library.PATIENCE + [False] * (30 - library.PATIENCE)
    base = make_base(1)[1]
    expected = 0.0
    for u, i in enumerate(range(1, library.PATIENCE + 1), start=1):
        going, staying = np.exp(base.log_predictive(guests.rows[i, :1], guests.rows[:1, :1])), u * np.exp(-1.0)
        expected += np.log(staying / (going + staying))
    assert log_q == pytest.approx(expected, rel=1e-9)
