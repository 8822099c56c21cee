"""Training: sweeps over the known classes, and their summary."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import gammaln

from stream_osr.model import restaurants
from stream_osr.model import training as library
from stream_osr.model.dish_statistics import log_prior_predictives
from stream_osr.model.feature_space import whitening
from stream_osr.model.known import densities, log_class_densities
from stream_osr.model.prior import homogeneous
from tests.model.problems import Problem, assert_equal, check_counts, make_base
from tests.tiers import examples


def labelled(seed=0, sizes=(30, 20, 25), d=2, spread=6.0, parts=1):
    """Classes, each of `parts` clumps."""
    rng = np.random.default_rng(seed)
    group = np.repeat(np.arange(len(sizes)), sizes)
    centres = rng.normal(scale=spread, size=(len(sizes), parts, d))
    rows = rng.normal(size=(len(group), d)) + centres[group, rng.integers(parts, size=len(group))]
    return rows, group


def check(seating, prior, base, exclusive=True) -> None:
    """Recount what a training seating stores."""
    empty = [np.empty((0, prior.n_features))] * len(seating.dishes.size)
    problem = Problem(prior, base, *seating, np.empty((len(seating.guests.table), 0)), empty)
    check_counts(problem, np.zeros(len(seating.franchise.menu)), exclusive)


def assert_equal_seatings(one, other):
    """The same bits, but for empty slots, which are not written before they are used."""
    np.testing.assert_array_equal(one.dishes.size, other.dishes.size)
    used = one.dishes.size > 0
    dishes = [[value[used] for value in each.dishes] for each in (one, other)]
    for part, same in zip((*one[:-1], dishes[0]), (*other[:-1], dishes[1]), strict=True):
        assert_equal(part, same)


@examples(15)
@given(
    seed=st.integers(0, 10_000), sizes=st.lists(st.integers(1, 12), min_size=1, max_size=4), exclusive=st.booleans()
)
def test_counts_agree_with_a_recount_after_every_sweep(seed, sizes, exclusive):
    (prior, base), (rows, group) = make_base(2), labelled(seed, tuple(sizes), spread=2.0)
    seating = library.seat_by_groups(homogeneous(rows), group, group, prior, exclusive)
    rng = np.random.default_rng(seed)
    for _ in range(4):
        seating = library.sweep(seating, prior, rng, exclusive)
        check(seating, prior, base, exclusive)
        assert (seating.franchise.alpha == seating.franchise.alpha[0]).all()


def test_sweep_leaves_its_argument_alone_and_repeats_itself():
    prior, (rows, group) = make_base(2)[0], labelled()
    seating = library.seat_by_groups(homogeneous(rows), group, group, prior, True)
    before = library.copy_seating(seating)
    one, other = (library.sweep(seating, prior, np.random.default_rng(seed), True) for seed in (3, 4))
    assert_equal_seatings(seating, before)
    log_new = log_prior_predictives(seating.guests.rows, prior)
    assert_equal_seatings(one, library.sweep(seating, prior, np.random.default_rng(3), True, log_new))
    assert not np.array_equal(one.guests.table, other.guests.table)


def test_running_out_of_slots_changes_nothing(monkeypatch):
    prior, _ = make_base(2, psi=0.01)  # a narrow prior: many small subclasses
    (rows, group), outcomes = labelled(spread=3.0), []
    for spare in (1, 300):
        monkeypatch.setattr(library, "SPARE", spare)
        seating = library.seat_by_groups(homogeneous(rows), group, group, prior, True)
        slots, rng = len(seating.franchise.menu), np.random.default_rng(5)
        for _ in range(3):
            seating = library.sweep(seating, prior, rng, True)
        tables, dishes = seating.franchise, seating.dishes
        assert (len(tables.menu) > slots) == (spare == 1)
        used, serving = np.flatnonzero(tables.table_dish != restaurants.CLOSED), np.flatnonzero(tables.menu)
        seats = seating.guests.table, used, tables.table_dish[used], tables.alpha, tables.gamma
        outcomes.append([*seats, serving, dishes.inverse[serving], dishes.log_det[serving], rng.random()])
    assert_equal(*outcomes)


def test_progress_is_reported_and_a_class_of_one_has_finite_ranks():
    rows, group, done = np.array([[0.0, 0.0], [5.0, 5.0], [5.5, 5.0]]), np.array([0, 1, 1]), []
    space, rng = whitening.fit_whitening(rows, group), np.random.default_rng(0)
    training = library.train(rows, group, space, make_base(2)[0], rng, sweeps=3, progress=done.append)
    assert done == [1, 2, 3]
    assert np.isfinite(library.summarize(training, 0.01)[0].ranks).all()


def test_concentrations_are_drawn_although_no_instance_moves():
    rows, group = labelled(sizes=(30, 20))
    prior, space, drawn = make_base(2)[0], whitening.fit_whitening(rows, group), []
    for seed in range(300):
        rng = np.random.default_rng(seed)
        training = library.train(rows, group, space, prior, rng, sweeps=10, moves=False)
        np.testing.assert_array_equal(library.dish_of_guests(training.seating), group)
        drawn.append([training.seating.franchise.alpha[0], training.seating.franchise.gamma[0]])
    # one table for each of two classes, and one dish for each table
    value = np.linspace(1e-3, 200.0, 400_000)
    alpha = 9.0 * np.log(value) - value + 2.0 * np.log(value)
    alpha += sum(gammaln(value) - gammaln(value + n) for n in (30, 20))
    gamma = 99.0 * np.log(value) - value + 2.0 * np.log(value) + gammaln(value) - gammaln(value + 2.0)
    for log_density, found in zip((alpha, gamma), np.array(drawn).T, strict=True):
        weight = np.exp(log_density - log_density.max())
        assert abs(found.mean() - weight @ value / weight.sum()) < 4.0 * found.std() / len(drawn) ** 0.5


def summary_problem(epsilon):
    """Two classes of known seats: 60 + 1 and 30, one of them at two tables."""
    (prior, base), rng = make_base(1), np.random.default_rng(8)
    sizes, centres = [60, 1, 30], (0, 9, -9)
    rows = np.concatenate([rng.normal(scale=0.5, size=(n, 1)) + c for n, c in zip(sizes, centres, strict=True)])
    group, dish = np.repeat([0, 0, 1], sizes), np.repeat([0, 1, 2], sizes)
    seating = library.seat_by_groups(homogeneous(rows), group, dish, prior, True)
    training = library.Training(whitening.fit_whitening(rows, group), prior, seating)
    return (*library.summarize(training, epsilon), rows, group, base)


def test_summary_drops_subclasses_below_the_share():
    known, log_density, rows, group, base = summary_problem(epsilon=0.05)
    assert known.dishes.size.tolist() == [60, 30]
    assert known.size.tolist() == [61.0, 30.0]  # the dropped one counts in the class
    np.testing.assert_array_equal(known.seated, [[60, 0], [0, 30]])
    np.testing.assert_array_equal(known.tables, [[1, 0], [0, 1]])
    assert known.ids.tolist() == [0, 1]
    assert log_density[60, 0] < log_density[:60, 0].min(), "the dropped subclass is far from everything"
    frozen = densities(known)
    assert np.exp(frozen.log_weight[0, 0]) == pytest.approx(60 / (61 + known.alpha))
    found, _ = log_class_densities(known, frozen, homogeneous(rows[:1]))
    expected = np.log(60 / (61 + known.alpha)) + base.log_predictive(rows[0], rows[:60])
    assert found[0, 0] == pytest.approx(expected, rel=1e-9)
    # ranks are quantiles of the left-out densities
    own = log_density[np.arange(len(rows)), group]
    expected = [base.log_predictive(rows[i], np.delete(rows[:60], i, axis=0)) for i in range(3)]
    assert own[:3] - np.log(59 / (60 + known.alpha)) == pytest.approx(expected, rel=1e-9)
    np.testing.assert_allclose(known.ranks[1], np.quantile(own[group == 1], np.linspace(0, 1, 101)))
    assert (np.diff(known.ranks, axis=1) >= 0).all()
    # with the share 0 every subclass stays, in the order of class and size
    known = summary_problem(epsilon=0.0)[0]
    assert known.dishes.size.tolist() == [60, 1, 30]
    np.testing.assert_array_equal(known.seated, [[60, 1, 0], [0, 0, 30]])
