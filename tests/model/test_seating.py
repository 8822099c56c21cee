"""One visit and one re-dishing against equations (10) and (11), written out table by table."""

from __future__ import annotations

import numpy as np
import pytest

from stream_osr.model.dish_statistics import add, empty_dishes
from stream_osr.model.moves import seating as library
from stream_osr.model.prior import homogeneous
from stream_osr.model.restaurants import ANYONE, CLOSED, Franchise, Guests, empty_franchise, join, leave
from tests.blobs import menu_weights
from tests.model.problems import KINDS, Problem, assert_equal, check_counts, fill, make_base, random_problem
from tests.oracles import seating as oracle

SEEDS = [0, 1, *(pytest.param(seed, marks=pytest.mark.thorough) for seed in range(2, 8))]


def menu_of(f: Franchise) -> dict[int, float]:
    """Dishes on the menu and the tables that count for them."""
    return {k: float(m) for k, m in enumerate(menu_weights(f)) if m > 0}


def assert_weights(found: np.ndarray, expected: dict) -> None:
    """The weights of all dishes on the menu and, last, of a new one."""
    wanted = [*(expected.get(k, 0.0) for k in range(len(found) - 1)), expected[None]]
    np.testing.assert_allclose(found / found.sum(), wanted, rtol=1e-9, atol=1e-12)


def log_density(problem: Problem, members: tuple[int, ...]):
    """Density of one guest, or of a whole table, under dish k (None: a new one), the rest staying put."""
    block = problem.guests.rows[list(members), :-1]

    def density(k):
        if k is None:
            return problem.base.log_marginal(block)
        if k < problem.n_frozen:
            return float(problem.log_frozen[list(members), k].sum())
        rest = problem.rows_of(k, without=members)
        return problem.base.log_marginal(np.concatenate([rest, block])) - problem.base.log_marginal(rest)

    return density


def exact_seats(problem: Problem, i: int) -> dict:
    """Equation (10) for guest i, who has left its table in the franchise but not in ``guests.table``."""
    f, group = problem.franchise, int(problem.guests.group[i])
    seats_of_tables = zip(f.table_group.tolist(), f.table_dish.tolist(), f.table_mass.tolist(), strict=True)
    return oracle.seat_probabilities(
        group,
        [seats if seats[1] != CLOSED else (-1, -1, 0.0) for seats in seats_of_tables],
        menu_of(f),
        [k for k in menu_of(f) if f.owner[k] in (ANYONE, group)],
        log_density(problem, (i,)),
        float(f.alpha[group]),
        float(f.gamma[0]),
    )


GROUPS = pytest.mark.parametrize(
    "groups",
    [
        pytest.param({"exclusive": False}, id="groups sharing dishes"),
        pytest.param({"exclusive": True}, id="groups with dishes of their own"),
        pytest.param({"groups": (0,) * 8, "n_frozen": 2, "n_settled": 3, "fading": True}, id="faded stream"),
    ],
)


@GROUPS
@pytest.mark.parametrize("columns", KINDS)
@pytest.mark.parametrize("seed", SEEDS)
def test_dish_weights_are_equation_10_added_up(seed, columns, groups):
    problem = random_problem(seed, columns, **groups)
    if groups.get("fading"):
        problem.franchise.held[problem.n_frozen + 1] = True  # an emerging subclass that is held
        problem.franchise.total[0] = menu_weights(problem.franchise).sum()
    for i in range(len(problem.guests.table)):
        state = problem.copy()
        own = leave(state.franchise, int(state.guests.table[i]), float(state.guests.weight[i]))
        state.guests.table[i] = CLOSED
        sitting = state.sitting()
        total = library.weigh_dishes(i, own if own >= state.n_frozen else CLOSED, sitting)
        assert total == pytest.approx(sitting.weights.sum(), rel=1e-12)
        assert_weights(sitting.weights, oracle.dish_probabilities(exact_seats(state, i)))


def test_remainder_of_rounding_goes_to_the_last_possible_dish():
    assert library.draw(np.random.default_rng(0), np.array([0.25, 0.5, 0.0]), 1e9) == 1


@GROUPS
@pytest.mark.parametrize("columns", KINDS)
@pytest.mark.parametrize("seed", SEEDS)
def test_redish_weights_are_equation_11(seed, columns, groups):
    start = random_problem(seed, columns, **groups)
    exclusive = groups.get("exclusive", False)
    trained = start.trained
    for t in np.flatnonzero((start.franchise.table_dish != CLOSED) & (start.franchise.table_residual == 0)):
        problem = start.copy()
        f, guests, group = problem.franchise, problem.guests, int(start.franchise.table_group[t])
        members = np.flatnonzero(guests.table == t)
        f.menu[f.table_dish[t]] -= 1.0  # the table itself does not count
        menu, allowed = menu_of(f), [k for k in menu_of(f) if f.owner[k] in (ANYONE, group)]
        f.menu[f.table_dish[t]] += 1.0
        density = log_density(problem, tuple(members.tolist()))
        expected = oracle.table_dish_probabilities(menu, allowed, density, float(f.gamma[0]))
        rng, sitting, block = np.random.default_rng(seed), problem.sitting(exclusive=exclusive), guests.rows[members]
        library.redish(rng, int(t), members, block, empty_dishes(1, problem.prior), sitting)
        assert_weights(sitting.weights, expected)
        check_counts(problem, trained, exclusive)


def test_only_whole_tables_with_a_guest_of_the_batch_are_redished():
    prior, base = make_base(1)
    franchise = empty_franchise(1, 12, 8, 1.0, 50.0)  # gamma: a re-dished table almost surely gets a new dish
    tables = np.array([0, 0, 1, 2, 3, 1, 2, 4])  # guests 0 to 4 are the window, 5 to 7 the batch
    guests = Guests(homogeneous(np.zeros((8, 1))), np.zeros(8, np.int64), np.ones(8), tables)
    for table in tables:
        join(franchise, table, 0, table, 1.0)
    franchise.table_residual[2] = 0.5  # a guest has settled there: not all of its guests are present
    problem = Problem(prior, base, guests, franchise, fill(prior, [np.zeros((0, 1))] * 12), np.empty((8, 0)), [])
    for i, table in enumerate(tables):
        add(problem.dishes, table, guests.rows[i], prior)
    changed = np.zeros(5, dtype=bool)
    for seed in range(40):
        state = problem.copy()
        library.redish_tables(np.random.default_rng(seed), 5, state.sitting())
        changed |= state.franchise.table_dish[:5] != problem.franchise.table_dish[:5]
    assert changed.tolist() == [False, True, False, False, False]


@pytest.mark.parametrize("columns", KINDS)
def test_lone_guest_who_founds_a_subclass_again_keeps_its_slot_and_statistics(columns):
    problem = random_problem(3, columns, groups=(0, 0))
    f, guests, sitting = problem.franchise, problem.guests, problem.sitting()
    f.gamma[0], f.alpha[:] = 1e12, 1e12  # always a new table with a new dish
    rng = np.random.default_rng(0)
    library.visit(rng, 0, sitting)
    before = problem.copy()
    library.visit(rng, 0, sitting)
    assert f.table_dish[guests.table[0]] == before.franchise.table_dish[before.guests.table[0]]
    assert_equal(problem.dishes, before.dishes)
    check_counts(problem, np.zeros(len(f.menu)))


@pytest.mark.parametrize("whole_table", [False, True], ids=["visit", "re-dishing"])
def test_slot_given_up_with_its_past_is_clean_when_it_is_opened_again(whole_table):
    # a subclass holds two settled rows whose tables have faded away, and two guests at its only table
    prior, base = make_base(2)
    rng = np.random.default_rng(0)
    past, rows = rng.normal(size=(2, 2)), rng.normal(size=(2, 2))
    n = 2 if whole_table else 1
    franchise = empty_franchise(1, 3, 3, 1e12, 1e12)  # alpha0 and gamma: always a new table with a new dish
    guests = Guests(homogeneous(rows[:n]), np.zeros(n, np.int64), np.ones(n), np.zeros(n, np.int64))
    dishes = fill(prior, [np.concatenate([past, rows[:n]])], 3)
    for _ in range(n):
        join(franchise, 0, 0, 0, 1.0)
    problem = Problem(prior, base, guests, franchise, dishes, np.empty((n, 0)), [np.empty((0, 2))] * 3)
    if whole_table:
        library.redish_tables(rng, 0, problem.sitting())
    else:
        library.visit(rng, 0, problem.sitting())
    check_counts(problem, np.zeros(3))


@pytest.mark.parametrize("lacking", ["dish", "table"])
def test_lack_of_a_slot_is_reported(lacking):
    problem = random_problem(1, groups=(0, 0, 0))
    f, sitting = problem.franchise, problem.sitting()
    f.gamma[0], f.alpha[:] = 1e12, 1e12  # each guest opens a table with a new dish
    if lacking == "dish":
        f.held[f.menu == 0] = True  # on the menu: not free
        f.total[0] = menu_weights(f).sum()
    else:
        f.table_dish[f.table_dish == CLOSED] = 0
    for i in range(3):
        if not f.overflow[0]:
            library.visit(np.random.default_rng(i), i, sitting)
    assert f.overflow[0]
