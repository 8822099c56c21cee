"""Where micro-batches end: by number, time and commands, in a replay, and as text beside a committed offset."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_osr.errors import ConnectorError
from stream_osr_connectors.kafka.run.cuts import Cut, ready, replayed
from stream_osr_connectors.kafka.wire import boundaries
from stream_osr_connectors.kafka.wire.boundaries import Boundary, History, LaterReleaseError, Progress
from tests.tiers import examples

steps = st.lists(
    st.tuples(st.sampled_from([0, 1, 7, 256]), st.sampled_from([0, 0, 0, 1, 3]), st.integers(0, 12)), max_size=60
)


def history_of(base: Boundary, fresh: bool, steps: list[tuple[int, int, int]]) -> tuple[History, list[Boundary]]:
    history, expected = History(base, fresh), [base]
    for offsets, labels, closes in steps:
        last = expected[-1]
        end = Boundary(last.offset + offsets, last.labels + labels, closes)
        if end > last:
            expected.append(end)
            history = history.to(end)
    return history, expected


@examples(100)
@given(
    st.builds(Boundary, st.integers(0, 10**12), st.integers(0, 10**6), st.integers(0, 12)),
    st.booleans(),
    steps,
    st.sampled_from([0, 64]),
    st.sampled_from([None, 0, 70]),
)
def test_what_was_written_is_read(
    base: Boundary, fresh: bool, steps: list[tuple[int, int, int]], size: int, first: int | None
) -> None:
    history, expected = history_of(base, fresh, steps)
    assert list(history.boundaries()) == expected
    assert history.last == expected[-1]
    progress = Progress("0123456789abcdef", "77aa", history, size, first)
    assert progress.text().startswith("2 ")
    assert Progress.parse(progress.text()) == progress
    assert list(Progress.parse(progress.text()).history.boundaries()) == expected


@examples(100)
@given(steps, st.integers(0, 60))
def test_since_a_boundary_the_rest_is_the_same(steps: list[tuple[int, int, int]], at: int) -> None:
    history, expected = history_of(Boundary(100, 5), True, steps)
    at = min(at, len(expected) - 1)
    assert list(history.after(expected[at])) == expected[at + 1 :]
    assert list(history.since(expected[at]).boundaries()) == expected[at:]
    assert history.since(expected[at]).fresh == (at == 0)
    assert history.since(Boundary(3, 0)) == history, "one that is none of them"


def test_many_steps_fit_beside_an_offset() -> None:
    """Equal steps take no room, and hundreds of uneven ones fit."""
    history = History(Boundary(0), fresh=True)
    for number in range(1, 100_001):
        history = history.to(Boundary(256 * number))
    assert len(Progress("0123456789abcdef", "77aabbcc", history).text()) < 60
    assert history.last == Boundary(25_600_000)
    history, offset = History(Boundary(0), fresh=True), 0
    for number in range(900):
        offset += 1 + number % 250
        history = history.to(Boundary(offset))
    assert len(Progress("0123456789abcdef", "77aabbcc", history).text()) <= boundaries.MOST_CHARACTERS


def test_no_way_back() -> None:
    for end in (Boundary(99, 5), Boundary(100, 4), Boundary(100, 5), Boundary(100, 5, 0)):
        with pytest.raises(ValueError, match="cannot end at"):
            History(Boundary(100, 5), fresh=True).to(end)


def test_the_text_of_others_and_of_a_later_release_is_refused() -> None:
    """To begin anew would throw away what a later release has."""
    uneven = "1 a b 0+0f 1,", "1 a b 0+0f x", "1 a b -1+0f 1", "1 a b 0+0f 256*2,7+1 ", "2 a b 0+0f 1 64 x"
    for text in ("", "hello", *uneven, "{" * 5000):
        with pytest.raises(ConnectorError, match="did not write"):
            Progress.parse(text)
    for text in ("3 a b 0+0f 1", "12 something else"):
        with pytest.raises(LaterReleaseError, match="a later release of stream-osr wrote"):
            Progress.parse(text)


def test_the_text_of_an_earlier_release_is_read() -> None:
    """All of its boundaries close."""
    progress = Progress.parse("1 a b 0+0f 256*2,7+1!")
    assert [*progress.history.after(Boundary(0))] == [Boundary(256), Boundary(512), Boundary(519, 1)]
    assert (progress.size, progress.first) == (0, None)


class At(NamedTuple):
    """A record."""

    offset: int


def at(*offsets: int) -> list[At]:
    """Records at some offsets."""
    return [At(offset) for offset in offsets]


def test_a_micro_batch_is_ready_when_full_when_due_or_when_an_idle_partition_has_commands() -> None:
    waiting = at(3, 4, 6, 7, 8)
    assert cut(waiting, Boundary(3)) == Cut(3, Boundary(7, closes=0))
    assert cut(waiting, Boundary(3), due=True) == Cut(3, Boundary(7)), "a full one can close"
    assert cut([], Boundary(3), due=True) == Cut(0, Boundary(3, closes=2)), "a further one at the same place"
    assert cut([], Boundary(3, closes=0), due=True) == Cut(0, Boundary(3))
    assert cut(waiting[:2], Boundary(3)) is None
    assert cut(at(3, 4), Boundary(3), due=True, labels=9) == Cut(2, Boundary(5, 9))
    assert cut([], Boundary(3), due=True, labels=9) == Cut(0, Boundary(3, 9)), "earlier records wait in the state"
    assert cut([], Boundary(3, 2), idle=True, labels=9) == Cut(0, Boundary(3, 9, closes=0))
    assert cut(at(3), Boundary(3), idle=True, labels=9) is None, "it comes with the next one"
    assert cut(at(3), Boundary(3, 7), size=1, labels=5) == Cut(1, Boundary(4, 7, closes=0)), "never back"


def cut(
    waiting: list[At], done: Boundary, size: int = 3, due: bool = False, idle: bool = False, labels: int = 0
) -> Cut | None:
    """Cut a micro-batch; ``idle``: commands are waiting for an idle partition."""
    return ready(waiting, done, size=size, due=due, requested=idle, labels=labels)


def test_a_replay_waits_for_all_of_it() -> None:
    assert replayed(at(3, 4), Boundary(3), Boundary(6)) is None
    assert replayed([], Boundary(3), Boundary(6)) is None
    assert replayed(at(3, 4, 5, 6), Boundary(3), Boundary(6)) == Cut(3, Boundary(6))
    assert replayed([], Boundary(3), Boundary(3, 4)) == Cut(0, Boundary(3, 4)), "an empty one, for commands"


@examples(100)
@given(
    st.lists(st.integers(1, 3), min_size=1, max_size=60),
    st.lists(st.tuples(st.integers(1, 20), st.booleans()), min_size=1, max_size=40),
    st.integers(1, 9),
)
def test_a_replay_cuts_as_it_was_cut(gaps: list[int], polls: list[tuple[int, bool]], size: int) -> None:
    """However the records come, then and now."""
    offsets = [sum(gaps[: n + 1]) for n in range(len(gaps))]
    records, waiting, done, cuts = at(*offsets), [], Boundary(offsets[0]), []
    rest = list(records)
    for count, due in polls:
        waiting += rest[:count]
        del rest[:count]
        while (found := cut(waiting, done, size=size, due=due and bool(waiting))) is not None:
            del waiting[: found.size]
            done = found.end
            cuts.append(found)
    again, done = list(records), Boundary(offsets[0])
    for expected in cuts:
        assert replayed(again, done, expected.end) == expected
        del again[: expected.size]
        done = expected.end
