"""The sample of rows that a subclass keeps: uniform, of the right instances, the same in whatever order they came."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stream_osr.discovery.reservoir import LEAST_ROOM, Reservoir, exchange, keep, objects, offer, priority, without
from tests.tiers import examples


def rows_at(seq: np.ndarray, d: int = 3) -> np.ndarray:
    return np.asarray(seq, float)[:, None] + np.arange(d) / 10


def names(seq: np.ndarray) -> np.ndarray:
    return objects([f"k{at}" for at in seq])


def sample(seq: np.ndarray, d: int = 3) -> Reservoir:
    return keep(seq, rows_at(seq, d), names(seq))


def check(kept: Reservoir) -> None:
    assert len(set(kept.seq.tolist())) == len(kept.seq)
    np.testing.assert_array_equal(kept.rows, rows_at(kept.seq, kept.rows.shape[1]))
    assert kept.keys.tolist() == names(kept.seq).tolist()
    assert (np.diff(priority(kept.seq).astype(object)) > 0).all()


def test_room():
    for n, d, room in ((5, 3, 5), (100, 3, LEAST_ROOM), (100, 40, 40), (30, 40, 30)):
        kept = sample(np.arange(n), d)
        check(kept)
        assert len(kept.seq) == room, (n, d)


@examples(100)
@given(st.sets(st.integers(0, 10**9), min_size=1, max_size=80), st.randoms())
def test_the_sample_does_not_depend_on_the_order_or_the_batches(positions, random):
    order = random.sample(sorted(positions), len(positions))
    kept = sample(np.zeros(0, np.int64))
    while order:
        part = np.array([order.pop() for _ in range(min(len(order), random.randint(1, 20)))])
        again = np.concatenate([part, kept.seq[:3]])  # one that is there counts once
        kept = offer(kept, again, rows_at(again), names(again))
        check(kept)
    np.testing.assert_array_equal(kept.seq, sample(np.array(sorted(positions))).seq)


def test_every_position_is_as_likely_as_any_other():
    """The positions kept of 400 streams of 64 arrivals, by quarters of the stream."""
    starts = range(0, 400 * 64, 64)
    kept = np.concatenate([sample(np.arange(start, start + 64)).seq - start for start in starts])
    expected = 400 * LEAST_ROOM / 4
    assert np.abs(np.bincount(kept // 16, minlength=4) - expected).max() < 4 * np.sqrt(expected)


def test_rows_that_left_are_gone():
    whole = sample(np.arange(12))
    kept = without(whole, np.array([3, 7, 99]))
    check(kept)
    assert sorted(kept.seq.tolist()) == [0, 1, 2, 4, 5, 6, 8, 9, 10, 11]
    assert without(whole, np.array([50])) is whole


@examples(100)
@given(
    st.lists(st.sets(st.integers(0, 90), max_size=40), min_size=1, max_size=4),
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 90)), max_size=12),
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 120)), max_size=40, unique_by=lambda one: one[1]),
)
def test_exchange_at_once_is_exchange_one_by_one(positions, gone, came):
    before = [sample(np.array(sorted(some), np.int64)) for some in positions]
    gone, came = ([one for one in some if one[0] < len(before)] for some in (gone, came))
    out, into = (np.array(some, np.int64).reshape(-1, 2).T for some in (gone, came))
    after = exchange(before, (out[0], out[1]), (into[0], into[1], rows_at(into[1]), names(into[1])))
    for number, (old, new) in enumerate(zip(before, after, strict=True)):
        more = into[1, into[0] == number]
        expected = offer(without(old, out[1, out[0] == number]), more, rows_at(more), names(more))
        check(new)
        np.testing.assert_array_equal(new.seq, expected.seq)
        assert (new is old) == (expected is old)
