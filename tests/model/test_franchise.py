"""Counts of menu, tables and seats when guests join and leave."""

from __future__ import annotations

from stream_osr.model import restaurants as library


def franchise_of_two():
    return library.empty_franchise(2, 3, 4, alpha=2.0, gamma=3.0)


def test_table_with_settled_seats_stays_when_its_last_guest_leaves():
    f = franchise_of_two()
    library.join(f, 0, 0, 1, 1.0)
    f.table_residual[0] = 0.25
    f.table_mass[0] += 0.25
    f.seated[0, 1] += 0.25
    library.leave(f, 0, 1.0)
    assert f.table_dish[0] == 1
    assert (f.table_live[0], f.table_mass[0], f.seated[0, 1], f.menu[1]) == (0, 0.25, 0.25, 1.0)
    f.table_residual[1], f.table_mass[1], f.table_live[1] = 7.0, 7.0, 3  # a slot that was in use
    library.join(f, 1, 0, 2, 1.0)
    assert (f.table_residual[1], f.table_mass[1], f.table_live[1]) == (0.0, 1.0, 1)


def test_no_rounding_errors_of_faded_weights_remain():
    f, weights = franchise_of_two(), [0.1, 0.2, 0.3, 0.7]
    for weight in weights:
        library.join(f, 0, 0, 1, weight)
    for weight in weights:
        library.leave(f, 0, weight)
    assert f.seated[0, 1] == 0
    assert f.table_mass[0] == 0
