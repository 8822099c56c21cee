"""The table of subclasses: bookkeeping of slots, and what rounding does to them in the long run."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import drift
from stream_osr.model import dish_statistics as library
from stream_osr.model.prior import homogeneous
from tests.model.problems import KINDS, assert_equal, fill, make_base, random_rows
from tests.tiers import examples


def test_emptied_subclass_is_the_prior_bit_for_bit():
    prior, rng = make_base(3)[0], np.random.default_rng(0)
    rows = homogeneous(rng.normal(scale=100.0, size=(700, 3)))
    dishes = library.empty_dishes(2, prior)
    for x in rows:
        library.add(dishes, 1, x, prior)
    for x in rows[rng.permutation(700)]:
        library.remove(dishes, 1, x, prior)
    assert_equal(dishes, library.empty_dishes(2, prior))


def test_selecting_copies_slots_in_order_and_leaves_room():
    prior, _ = make_base(2, "categories")
    rows = random_rows(np.random.default_rng(2), 9, prior)
    dishes = fill(prior, [rows[:2], rows[2:5], rows[5:]])
    chosen = library.copy_slots(dishes, np.array([2, 0]), 4)
    for value, old in zip(chosen, dishes, strict=True):
        np.testing.assert_array_equal(value[:2], old[[2, 0]])
    assert chosen.size.tolist() == [4, 2, 0, 0]
    for k in (0, 2):  # a free slot begins with the prior, whatever it held
        library.add(chosen, k, homogeneous(rows)[0], prior)
    for value, expected in zip(chosen, fill(prior, [rows[:1]]), strict=True):
        np.testing.assert_array_equal(value[2], expected[0])
    assert dishes.size.tolist() == [2, 3, 4]


@examples(25)
@given(kind=st.sampled_from(KINDS), moves=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 11)), max_size=60))
def test_any_sequence_of_moves_leaves_the_statistics_of_the_members(kind, moves):
    prior, where = make_base(2, kind)[0], {}
    rows, dishes = random_rows(np.random.default_rng(3), 12, prior, 3.0), library.empty_dishes(3, prior)
    tilde = homogeneous(rows)
    for k, i in moves:
        if i in where:
            library.remove(dishes, where.pop(i), tilde[i], prior)
        else:
            library.add(dishes, k, tilde[i], prior)
            where[i] = k
    members = [[i for i, k in where.items() if k == slot] for slot in range(3)]
    fresh = fill(prior, [rows[m] for m in members])
    for name in ("size", "constant", "counts"):
        np.testing.assert_array_equal(getattr(dishes, name), getattr(fresh, name))
    np.testing.assert_allclose(dishes.matrix, fresh.matrix, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(dishes.inverse, fresh.inverse, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(dishes.log_det, fresh.log_det, rtol=1e-9, atol=1e-9)


def test_inverse_is_recomputed_on_schedule():
    prior, rng = make_base(2)[0], np.random.default_rng(4)
    dishes = library.empty_dishes(1, prior)
    for n in range(1, 2 * library.REFRESH_EVERY + 1):
        library.add(dishes, 0, np.append(rng.normal(size=2), 1.0), prior)
        assert dishes.updates[0] == n % library.REFRESH_EVERY
        if n % library.REFRESH_EVERY == 0:
            np.testing.assert_allclose(dishes.inverse[0], np.linalg.inv(dishes.matrix[0]), rtol=1e-12)


@pytest.mark.thorough
@pytest.mark.parametrize(("far", "worse"), [(0.0, 10), (100.0, 30), (1000.0, 0)])
def test_million_updates_do_not_carry_the_statistics_away_and_would_without_the_schedule(far, worse):
    """Why `REFRESH_EVERY` is there: far-out rows now and then are what costs digits.

    Those that rows some 100 standard deviations out cost the inverse come back by an inversion alone. Further out
    every removal is one anyway (`LOSES_DIGITS`), so there the schedule makes no difference. What remains is the
    rounding of the sums themselves.
    """
    kept, lost = (drift.measure(far, scheduled=s) for s in (True, False))
    assert max(kept) < 1e-8
    assert all(b >= worse * a for a, b in zip(kept, lost, strict=True)), (kept, lost)


@pytest.mark.long
@pytest.mark.parametrize(("far", "limit"), [(0.0, 1e-10), (100.0, 1e-9), (1000.0, 1e-7)])
def test_ten_million_updates_do_not_carry_the_statistics_away(far, limit):
    assert max(drift.measure(far, scheduled=True, updates=10_000_000, d=16, looks=100)) < limit
