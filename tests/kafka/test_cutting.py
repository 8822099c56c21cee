"""Where micro-batches end: by number, by time, by what is asked; and in a replay where they ended before."""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from stream_osr_connectors.kafka.run.partition import Cut, ready, replayed
from stream_osr_connectors.kafka.wire.boundaries import Boundary


class At(NamedTuple):
    """A record."""

    offset: int


def at(*offsets: int) -> list[At]:
    """Records at some offsets."""
    return [At(offset) for offset in offsets]


def test_a_full_one_is_ready_and_no_more_than_that() -> None:
    waiting = at(3, 4, 6, 7, 8)
    assert ready(waiting, Boundary(3), size=3, due=False, asked=False, labels=0) == Cut(3, Boundary(7))
    assert ready(waiting[:2], Boundary(3), size=3, due=False, asked=False, labels=0) is None


def test_a_part_is_ready_when_its_time_has_come_or_when_somebody_asks_of_an_idle_partition() -> None:
    assert ready(at(3, 4), Boundary(3), size=3, due=True, asked=False, labels=9) == Cut(2, Boundary(5, 9))
    assert ready([], Boundary(3), size=3, due=True, asked=False, labels=9) is None
    assert ready([], Boundary(3, 2), size=3, due=False, asked=True, labels=9) == Cut(0, Boundary(3, 9))
    assert ready(at(3), Boundary(3), size=3, due=False, asked=True, labels=9) is None, "it comes with the next one"


def test_labels_never_go_back() -> None:
    assert ready(at(3), Boundary(3, 7), size=1, due=False, asked=False, labels=5) == Cut(1, Boundary(4, 7))


def test_a_replay_waits_for_all_of_it() -> None:
    assert replayed(at(3, 4), Boundary(3), Boundary(6)) is None
    assert replayed([], Boundary(3), Boundary(6)) is None
    assert replayed(at(3, 4, 5, 6), Boundary(3), Boundary(6)) == Cut(3, Boundary(6))
    assert replayed([], Boundary(3), Boundary(3, 4)) == Cut(0, Boundary(3, 4)), "an empty one, for what was asked"


@given(
    st.lists(st.integers(1, 3), min_size=1, max_size=60),
    st.lists(st.tuples(st.integers(1, 20), st.booleans()), min_size=1, max_size=40),
    st.integers(1, 9),
)
def test_a_replay_cuts_as_it_was_cut(gaps: list[int], polls: list[tuple[int, bool]], size: int) -> None:
    """However the records come, then and now."""
    offsets = [sum(gaps[: n + 1]) for n in range(len(gaps))]
    records, waiting, done, ends, sizes = at(*offsets), [], Boundary(offsets[0]), [], []
    rest = list(records)
    for count, due in polls:
        waiting += rest[:count]
        del rest[:count]
        while (cut := ready(waiting, done, size=size, due=due, asked=False, labels=0)) is not None:
            del waiting[: cut.size]
            done = cut.end
            ends.append(done)
            sizes.append(cut.size)
    again, done = list(records), Boundary(offsets[0])
    for end, count in zip(ends, sizes, strict=True):
        cut = replayed(again, done, end)
        assert cut == Cut(count, end)
        del again[:count]
        done = end
