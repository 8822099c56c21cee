"""A micro-batch of the service that runs out of memory: tried again, then dead letters; a replay does the same."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stream_osr.stream import recognizer_state
from stream_osr_connectors.commands import Command
from stream_osr_connectors.json_fields import JsonFields
from stream_osr_connectors.kafka.run.partition import ATTEMPTS, Partition, begin, step
from stream_osr_connectors.kafka.wire.boundaries import Boundary, FailedEnd, History, Progress
from stream_osr_connectors.kafka.wire.decoding import JsonDecoder
from stream_osr_connectors.kafka.wire.messages import Message, PartitionOutput
from tests.blobs import fitted, stream_part
from tests.habits.test_failing_batches import Failing, failing

__all__ = ["failing"]  # a fixture

DECODE = JsonDecoder(JsonFields(features=["a", "b"]), 1000)


def records(n: int, begin: int) -> list[Message]:
    return [
        Message("in", 3, begin + i, 1000, b"k%d" % (begin + i), json.dumps(x).encode(), [])
        for i, (x, _) in enumerate(stream_part(n, 0))
    ]


def advance(
    state: Partition, end: Boundary, commands: list[Command] | None = None
) -> tuple[Partition, PartitionOutput]:
    return step(state, ("in", 3), records(16, end.offset - 16), commands or [], end, DECODE)


@pytest.fixture
def state() -> Partition:
    return advance(begin(fitted(chains=1), Boundary(0)), Boundary(16))[0]


def test_it_is_tried_again(state: Partition, failing: Failing) -> None:
    expected = advance(state, Boundary(32))
    failing.errors = [MemoryError()] * (ATTEMPTS - 1)
    found = advance(state, Boundary(32))
    assert found[1] == expected[1]
    assert found[0].history == expected[0].history


def test_its_records_are_dead_letters_and_the_stream_goes_on(state: Partition, failing: Failing) -> None:
    failing.errors = [MemoryError()] * ATTEMPTS
    after, outcome = advance(state, Boundary(32), [])
    assert [received.offset for received, _ in outcome.taken.refused] == [*range(16, 32)]
    assert {refusal.stage for _, refusal in outcome.taken.refused} == {"PROCESS"}
    assert outcome.decisions == []
    assert after.model.counters["refused"] == 16
    assert len(advance(after, Boundary(48))[1].decisions) == 16


def test_a_lack_of_memory_in_the_search_for_culprits_is_tried_again(
    state: Partition, failing: Failing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a replay would refuse other records."""
    failing.defects, errors, search = {"k20"}, [MemoryError()], recognizer_state.find_culprits

    def find(*given: Any) -> Any:
        if errors:
            raise errors.pop()
        return search(*given)

    monkeypatch.setattr(recognizer_state, "find_culprits", find)
    after, outcome = advance(state, Boundary(32))
    assert [received.offset for received, _ in outcome.taken.refused] == [20]
    assert (len(outcome.decisions), errors, type(after.history.last)) == (15, [], Boundary)


def test_a_replay_comes_to_the_same(state: Partition, failing: Failing) -> None:
    failing.errors = [MemoryError()] * ATTEMPTS
    live, _ = advance(state, Boundary(32))
    live, outcome = advance(live, Boundary(48))
    text = Progress("model", live.lineage, live.history).text()
    assert text.endswith(" 0+0f 16,16!,16 0")
    replayed = state
    for end in Progress.parse(text).history.after(Boundary(16)):
        replayed, again = advance(replayed, end)
    assert again == outcome
    assert replayed.history == live.history


def test_boundaries_of_failed_batches_are_boundaries() -> None:
    history = (
        History(Boundary(0), fresh=True).to(FailedEnd(5)).to(FailedEnd(10)).to(Boundary(15)).to(FailedEnd(15, 2))
    )
    assert [*history.boundaries()] == [
        Boundary(0),
        Boundary(5),
        Boundary(10),
        Boundary(15),
        Boundary(15, 2),
    ]
    assert Progress.parse(Progress("m", "l", history).text()).history == history
    assert [type(end) for end in history.since(Boundary(5)).after(Boundary(5))] == [FailedEnd, Boundary, FailedEnd]
    assert history.until(Boundary(10)).steps == ((5, 0, 2, True, True),)
