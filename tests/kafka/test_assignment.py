"""Partitions of an assignment are read together, and what was read is of this turn only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from stream_osr_connectors.kafka.client.interface import ClientError, Committed, ErrorKind
from stream_osr_connectors.kafka.places import Place
from stream_osr_connectors.kafka.run import assignment
from stream_osr_connectors.kafka.run.assignment import Assignment
from stream_osr_connectors.kafka.run.job import Loaded, NotLoadable
from stream_osr_connectors.kafka.stats import ServiceStats

PLACES = [Place("in", number) for number in range(3)]


class Everything:
    """A job, a reader with its client, transactions and topics, which note their calls."""

    def __init__(self) -> None:
        self.assigned, self.owned = frozenset(PLACES), list[Place]()
        self.expected: list[list[Place]] = []
        self.requests: list[list[Place]] = []
        self.loaded: list[tuple[Place, bool]] = []
        self.unknown = set[Place]()
        self.client = self

    def expect(self, places: Sequence[Place]) -> None:
        self.expected.append([*places])

    def load(self, place: Place, where: Committed) -> Loaded | NotLoadable:
        self.loaded.append((place, place in self.expected[-1]))
        self.owned.append(place)
        return Loaded(where.offset or 0)

    def where(self, places: Sequence[Place], since: int | None = None) -> dict[Place, Committed]:
        self.requests.append([*places])
        known = {place: Committed(7, "", 0, 9) for place in places if place not in self.unknown}
        if not known:
            raise ClientError(ErrorKind.AGAIN, "no offset")
        return known

    def held_up(self, place: Place) -> str:
        return ""

    def renewed(self, *_: Any) -> str:
        return ""

    def has_looked_since(self, moment: float) -> bool:
        return True

    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: None


@pytest.fixture
def everything() -> Everything:
    return Everything()


@pytest.fixture
def loading(everything: Everything) -> Assignment:
    its: Any = everything
    return Assignment(its, its, its, its, ServiceStats())


def test_one_request_reads_all(everything: Everything, loading: Assignment) -> None:
    loading.load()
    assert everything.requests == [PLACES]
    assert everything.loaded == [(place, True) for place in PLACES]
    assert not loading.is_busy


def test_what_was_read_is_of_this_turn_only(
    everything: Everything, loading: Assignment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rest is read again in the next turn, because another worker may have gone on meanwhile."""
    monkeypatch.setattr(assignment, "TURN_SECONDS", 0.0)
    for turn, place in enumerate(PLACES):
        assert loading.is_busy == bool(turn)
        loading.load()
        assert [each for each, _ in everything.loaded] == PLACES[: turn + 1]
        assert everything.expected[-2:] == [[], PLACES[turn:]] if turn < 2 else everything.expected[-1] == []
        assert everything.loaded[-1] == (place, turn < 2), "the last one is read alone"


def test_an_unknown_offset_holds_no_other_partition_up(everything: Everything, loading: Assignment) -> None:
    everything.unknown = {PLACES[1]}
    loading.load()
    assert everything.owned == [PLACES[0], PLACES[2]]
    assert "no offset" in loading.waiting[PLACES[1]]
    everything.unknown = {*PLACES}
    everything.owned.clear()
    loading.load()
    assert not everything.owned
