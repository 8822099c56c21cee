"""Training: sweeps over the known classes, and their summary."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_osr.model import training as library
from stream_osr.model.dishes import log_prior_predictives
from stream_osr.model.franchise import CLOSED
from stream_osr.model.known import densities, log_class_densities
from stream_osr.model.prior import homogeneous
from stream_osr.model.whitening import fit_whitening
from tests.model.problems import Problem, check_books, make_base
from tests.tiers import examples


def labelled(seed=0, sizes=(30, 20, 25), d=2, spread=6.0, parts=1):
    """Classes, each of `parts` clumps."""
    rng = np.random.default_rng(seed)
    group = np.repeat(np.arange(len(sizes)), sizes)
    centres = rng.normal(scale=spread, size=(len(sizes), parts, d))
    rows = rng.normal(size=(len(group), d)) + centres[group, rng.integers(parts, size=len(group))]
    return rows, group


def as_problem(seating, prior, base) -> Problem:
    empty = [np.empty((0, prior.n_features))] * len(seating.dishes.size)
    return Problem(prior, base, *seating, np.empty((len(seating.guests.table), 0)), empty)


def assert_equal_seatings(one, other):
    """The same bits, but for slots that nobody is in: what these hold is not written before somebody takes them."""
    np.testing.assert_array_equal(one.dishes.size, other.dishes.size)
    used = one.dishes.size > 0
    dishes = [[value[used] for value in each.dishes] for each in (one, other)]
    for part, same in zip((*one[:-1], dishes[0]), (*other[:-1], dishes[1]), strict=True):
        for value, expected in zip(part, same, strict=True):
            np.testing.assert_array_equal(value, expected)


@pytest.mark.parametrize("exclusive", [True, False])
def test_first_seating_has_one_table_for_each_group_and_dish(exclusive):
    prior, base = make_base(2)
    rows, group = labelled()
    rng = np.random.default_rng(1)
    dish = group if exclusive else rng.integers(4, size=len(group))
    seating = library.seat_by_groups(homogeneous(rows), group, dish, prior, exclusive)
    check_books(as_problem(seating, prior, base), np.zeros(len(seating.franchise.menu)), exclusive)
    np.testing.assert_array_equal(library.dish_of_guests(seating), dish)
    pairs = {(g, k) for g, k in zip(group.tolist(), dish.tolist(), strict=True)}
    assert (seating.franchise.table_dish != CLOSED).sum() == len(pairs)
    assert seating.franchise.alpha.tolist() == [10.0] * 3  # prior means
    assert seating.franchise.gamma.tolist() == [100.0]


@examples(15)
@given(
    seed=st.integers(0, 10_000), sizes=st.lists(st.integers(1, 12), min_size=1, max_size=4), exclusive=st.booleans()
)
def test_books_agree_with_a_recount_after_every_sweep(seed, sizes, exclusive):
    prior, base = make_base(2)
    rows, group = labelled(seed, tuple(sizes), spread=2.0)
    seating = library.seat_by_groups(homogeneous(rows), group, group, prior, exclusive)
    rng = np.random.default_rng(seed)
    for _ in range(4):
        seating = library.sweep(seating, prior, rng, exclusive)
        check_books(as_problem(seating, prior, base), np.zeros(len(seating.franchise.menu)), exclusive)
        assert (seating.franchise.alpha == seating.franchise.alpha[0]).all()


def test_sweep_leaves_its_argument_alone_and_repeats_itself():
    prior, _ = make_base(2)
    rows, group = labelled()
    seating = library.seat_by_groups(homogeneous(rows), group, group, prior, True)
    before = library.copy_seating(seating)
    one = library.sweep(seating, prior, np.random.default_rng(3), True)
    assert_equal_seatings(seating, before)
    log_new = log_prior_predictives(seating.guests.rows, prior)
    assert_equal_seatings(one, library.sweep(seating, prior, np.random.default_rng(3), True, log_new))
    other = library.sweep(seating, prior, np.random.default_rng(4), True)
    assert not np.array_equal(one.guests.table, other.guests.table)


def test_running_out_of_slots_changes_nothing(monkeypatch):
    prior, _ = make_base(2, psi=0.01)  # a narrow prior: many small subclasses
    rows, group = labelled(spread=3.0)
    outcomes = []
    for spare in (1, 300):
        monkeypatch.setattr(library, "SPARE", spare)
        seating = library.seat_by_groups(homogeneous(rows), group, group, prior, True)
        slots = len(seating.franchise.menu)
        rng = np.random.default_rng(5)
        for _ in range(3):
            seating = library.sweep(seating, prior, rng, True)
        grew = len(seating.franchise.menu) > slots
        assert grew == (spare == 1)
        used = np.flatnonzero(seating.franchise.table_dish != CLOSED)
        serving = np.flatnonzero(seating.franchise.menu)
        tables, dishes = seating.franchise, seating.dishes
        seats = seating.guests.table, used, tables.table_dish[used], tables.alpha, tables.gamma
        outcomes.append([*seats, serving, dishes.inverse[serving], dishes.log_det[serving], rng.random()])
    for few, many in zip(*outcomes, strict=True):
        np.testing.assert_array_equal(few, many)


def test_progress_is_reported_and_no_sweep_is_lost():
    prior, _ = make_base(2)
    rows, group = labelled()
    space = fit_whitening(rows, group)
    done: list[int] = []
    library.train(rows, group, space, prior, np.random.default_rng(0), sweeps=3, progress=done.append)
    assert done == [1, 2, 3]


def summary_problem(epsilon):
    """Two classes of known seats: 60 + 1 and 30, one of them at two tables."""
    prior, base = make_base(1)
    rng = np.random.default_rng(8)
    sizes = [60, 1, 30]
    rows = np.concatenate([rng.normal(scale=0.5, size=(n, 1)) + c for n, c in zip(sizes, (0, 9, -9), strict=True)])
    group = np.repeat([0, 0, 1], sizes)
    dish = np.repeat([0, 1, 2], sizes)
    seating = library.seat_by_groups(homogeneous(rows), group, dish, prior, True)
    training = library.Training(fit_whitening(rows, group), prior, seating)
    return (*library.summarize(training, epsilon), rows, group, dish, base)


def test_summary_drops_subclasses_below_the_share():
    known, log_density, rows, _, _, base = summary_problem(epsilon=0.05)
    assert known.dishes.size.tolist() == [60, 30]
    assert known.size.tolist() == [61.0, 30.0]  # the dropped one counts in the class
    np.testing.assert_array_equal(known.seated, [[60, 0], [0, 30]])
    np.testing.assert_array_equal(known.tables, [[1, 0], [0, 1]])
    assert known.ids.tolist() == [0, 1]
    # what lay there has no known density: it is far from everything
    assert log_density[60, 0] < log_density[:60, 0].min()
    frozen = densities(known)
    assert np.exp(frozen.log_weight[0, 0]) == pytest.approx(60 / (61 + known.alpha))
    found, _ = log_class_densities(known, frozen, homogeneous(rows[:1]))
    expected = np.log(60 / (61 + known.alpha)) + base.log_predictive(rows[0], rows[:60])
    assert found[0, 0] == pytest.approx(expected, rel=1e-9)


def test_summary_keeps_everything_at_share_nought_in_order_of_class_and_size():
    known, _, _, _, _, _ = summary_problem(epsilon=0.0)
    assert known.dishes.size.tolist() == [60, 1, 30]
    np.testing.assert_array_equal(known.seated, [[60, 1, 0], [0, 0, 30]])


def test_ranks_are_quantiles_of_the_left_out_densities():
    known, log_density, rows, group, _, base = summary_problem(epsilon=0.05)
    own = log_density[np.arange(len(rows)), group]
    expected = [base.log_predictive(rows[i], np.delete(rows[:60], i, axis=0)) for i in range(3)]
    assert own[:3] - np.log(59 / (60 + known.alpha)) == pytest.approx(expected, rel=1e-9)
    np.testing.assert_allclose(known.ranks[1], np.quantile(own[group == 1], np.linspace(0, 1, 101)))
    assert (np.diff(known.ranks, axis=1) >= 0).all()


def test_class_of_one_has_finite_ranks():
    prior, _ = make_base(2)
    rows = np.array([[0.0, 0.0], [5.0, 5.0], [5.5, 5.0]])
    group = np.array([0, 1, 1])
    training = library.train(rows, group, fit_whitening(rows, group), prior, np.random.default_rng(0), sweeps=2)
    known, _ = library.summarize(training, 0.01)
    assert np.isfinite(known.ranks).all()
