"""The books: menu, tables, seats."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stream_osr.model import franchise as books
from stream_osr.model.franchise import CLOSED
from tests.model.problems import check_books, fill, random_problem
from tests.tiers import examples


def open_books(n_groups=2, n_dishes=3, n_tables=4):
    return books.empty_franchise(n_groups, n_dishes, n_tables, alpha=2.0, gamma=3.0)


def test_reopened_slot_remembers_nothing():
    f = open_books()
    f.table_residual[1], f.table_mass[1], f.table_live[1] = 7.0, 7.0, 3
    books.join(f, 1, 0, 2, 1.0)
    assert (f.table_residual[1], f.table_mass[1], f.table_live[1]) == (0.0, 1.0, 1)


def test_table_with_settled_seats_stays_when_its_last_guest_leaves():
    f = open_books()
    books.join(f, 0, 0, 1, 1.0)
    f.table_residual[0] = 0.25
    f.table_mass[0] += 0.25
    f.seated[0, 1] += 0.25
    books.leave(f, 0, 1.0)
    assert f.table_dish[0] == 1
    assert (f.table_live[0], f.table_mass[0], f.seated[0, 1], f.menu[1]) == (0, 0.25, 0.25, 1.0)


def test_crumbs_of_faded_weights_are_swept_up():
    f = open_books(n_groups=1)
    weights = [0.1, 0.2, 0.3, 0.7]
    for weight in weights:
        books.join(f, 0, 0, 1, weight)
    for weight in weights:
        books.leave(f, 0, weight)
    assert f.seated[0, 1] == 0
    assert f.table_mass[0] == 0


def test_free_slots_are_found_and_their_lack_is_reported():
    f = open_books(n_dishes=3, n_tables=2)
    assert books.free_table(f) == 0
    assert books.free_dish(f, 1) == 1
    f.held[1] = True
    assert books.free_dish(f, 1) == 2
    books.join(f, 0, 0, 2, 1.0)
    assert books.free_table(f) == 1
    assert not f.overflow[0]
    assert books.free_dish(f, 1) == CLOSED
    assert f.overflow[0]
    f.overflow[0] = 0
    books.join(f, 1, 0, 2, 1.0)
    assert books.free_table(f) == CLOSED
    assert f.overflow[0]


@examples(40)
@given(
    seed=st.integers(0, 10_000),
    fading=st.booleans(),
    moves=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 30)), max_size=40),
)
def test_books_agree_with_a_recount_after_any_moves(seed, fading, moves):
    problem = random_problem(seed, d=1, n_frozen=2, n_settled=2, fading=fading)
    f, guests = problem.franchise, problem.guests
    trained = f.menu - np.bincount(f.table_dish[f.table_dish >= 0], minlength=len(f.menu))
    for i, wish in moves:
        books.leave(f, guests.table[i], guests.weight[i])
        group = guests.group[i]
        choice = np.flatnonzero((f.table_dish != CLOSED) & (f.table_group == group))
        if wish < len(choice):
            table = int(choice[wish])
            dish = int(f.table_dish[table])
        else:
            table, dish = books.free_table(f), wish % 2  # a known dish: no statistics to keep
        guests.table[i] = table
        books.join(f, table, group, dish, guests.weight[i])
    # the dishes' statistics are not this module's: make them what they should be
    for k in range(len(problem.dishes.size)):
        on_menu = f.menu[2 + k] > 0
        rows = problem.rows_of(2 + k) if on_menu else np.empty((0, 1))
        for value, fresh in zip(problem.dishes, fill(problem.prior, [rows]), strict=True):
            value[k] = fresh[0]
    check_books(problem, trained)
