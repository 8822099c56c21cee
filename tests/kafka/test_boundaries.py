"""Ends of micro-batches as text beside a committed offset."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_osr.errors import ConnectorError
from stream_osr_connectors.kafka.wire import boundaries
from stream_osr_connectors.kafka.wire.boundaries import Boundary, History, LaterReleaseError, Progress

steps = st.lists(
    st.tuples(st.sampled_from([0, 1, 7, 256]), st.sampled_from([0, 0, 0, 1, 3])).filter(lambda step: step != (0, 0)),
    max_size=60,
)


def history_of(base: Boundary, fresh: bool, steps: list[tuple[int, int]]) -> tuple[History, list[Boundary]]:
    history, expected = History(base, fresh), [base]
    for offsets, labels in steps:
        last = expected[-1]
        expected.append(Boundary(last.offset + offsets, last.labels + labels))
        history = history.to(expected[-1])
    return history, expected


@given(st.integers(0, 10**12), st.integers(0, 10**6), st.booleans(), steps)
def test_what_was_written_is_read(offset: int, labels: int, fresh: bool, steps: list[tuple[int, int]]) -> None:
    history, expected = history_of(Boundary(offset, labels), fresh, steps)
    assert list(history.boundaries()) == expected
    assert history.last == expected[-1]
    progress = Progress("0123456789abcdef", "77aa", history)
    assert progress.text().startswith("1 ")
    assert Progress.parse(progress.text()) == progress
    assert list(Progress.parse(progress.text()).history.boundaries()) == expected


@given(steps, st.integers(0, 60))
def test_since_a_boundary_the_rest_is_the_same(steps: list[tuple[int, int]], at: int) -> None:
    history, expected = history_of(Boundary(100, 5), True, steps)
    at = min(at, len(expected) - 1)
    assert list(history.after(expected[at])) == expected[at + 1 :]
    assert list(history.since(expected[at]).boundaries()) == expected[at:]
    assert history.since(expected[at]).fresh == (at == 0)
    assert history.since(Boundary(3, 0)) == history, "one that is none of them"


def test_equal_steps_take_no_room() -> None:
    history = History(Boundary(0), fresh=True)
    for number in range(1, 100_001):
        history = history.to(Boundary(256 * number))
    assert len(Progress("0123456789abcdef", "77aabbcc", history).text()) < 60
    assert history.last == Boundary(25_600_000)


def test_hundreds_of_uneven_steps_fit() -> None:
    history = History(Boundary(0), fresh=True)
    offset = 0
    for number in range(900):
        offset += 1 + number % 250
        history = history.to(Boundary(offset))
    assert len(Progress("0123456789abcdef", "77aabbcc", history).text()) <= boundaries.MOST_CHARACTERS


@pytest.mark.parametrize("end", [Boundary(99, 5), Boundary(100, 4), Boundary(100, 5)])
def test_no_way_back(end: Boundary) -> None:
    with pytest.raises(ValueError, match="cannot end at"):
        History(Boundary(100, 5), fresh=True).to(end)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hello",
        "1 a b 0+0f 1,",
        "1 a b 0+0f x",
        "1 a b -1+0f 1",
        "1 a b 0+0f 256*2,7+1 ",
        "{" * 5000,
    ],
)
def test_the_text_of_others_is_refused(text: str) -> None:
    with pytest.raises(ConnectorError, match="did not write"):
        Progress.parse(text)


@pytest.mark.parametrize("text", ["2 a b 0+0f 1", "12 something else"])
def test_the_text_of_a_later_release_is_told_apart(text: str) -> None:
    """To begin anew would throw away what it has."""
    with pytest.raises(LaterReleaseError, match="a later release of stream-osr wrote"):
        Progress.parse(text)
