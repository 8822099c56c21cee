"""Feeds: decisions, events and features of a run, read from its files as they grow."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import orjson

from stream_osr.errors import ConnectorError
from stream_osr_connectors.page.live.file_tail import FeedTruncated, Tail, is_written
from stream_osr_connectors.page.live.input_rows import InputRows, json_object

Decision = dict[str, Any]

ORDINARY = 1000
"""Decisions that are taken in before somebody else has a turn."""


class FoundDecision(NamedTuple):
    """A decision that was looked up: its number on the page, and what it says."""

    n: int
    decision: Decision


class NewRecords(NamedTuple):
    """Decisions and events that came.

    Attributes
    ----------
    decisions
        Track, number there, place, and decision of each.
    events
        Track of each, and the event.
    more
        There is more to be read at once.
    """

    decisions: Sequence[tuple[int, int, int, Decision]]
    events: Sequence[tuple[int, Mapping[str, Any]]]
    more: bool


class Feed(Protocol):
    """A source of decisions and events; `poll` is called by one thread, the others by several."""

    kind: str
    """``file`` or ``kafka``."""
    name: str
    """What a person calls it."""
    prefixes: Sequence[str]
    """Of each track, what stands before the identities of its subclasses."""
    has_events: bool
    """Whether it tells events."""

    def poll(self, refuse: Callable[[str, BaseException], None]) -> NewRecords:
        """Read what has come.

        Raises
        ------
        CutBack
            If all has to be read again; the feed begins anew by itself.
        """

    def behind(self) -> int | None:
        """Say how many decisions are still to be read, if that is known."""

    def running(self) -> bool:
        """Say whether decisions still come, as far as can be told."""

    def block(
        self, track: int, number: int, place: int, after: int | None, only: Collection[int] | None = None
    ) -> list[FoundDecision]:
        """Read a block of decisions, from number and place of its first one to the next block; or some of it."""

    def features(self, found: Sequence[FoundDecision]) -> list[dict[str, Any] | None]:
        """Find the features of instances; None: they cannot be found."""

    def notes(self) -> list[str]:
        """Say what could not be read."""

    def close(self) -> None:
        """Let go of everything."""


EVENTS_AT_ONCE = 1 << 18
"""Bytes of events that are read before decisions are."""


class FileFeed:
    """The files of a run.

    Parameters
    ----------
    decisions, events
        What `stream-osr run` writes; without events subclasses are told from decisions alone.
    inputs
        Where features are found.
    speed
        Decisions a second; None: as fast as they can be read.

    Raises
    ------
    ConnectorError
        If a file is none that can be followed.
    """

    kind = "file"
    prefixes: Sequence[str] = ("",)

    def __init__(
        self, decisions: Path, events: Path | None, inputs: InputRows | None = None, speed: float | None = None
    ) -> None:
        for path in (decisions, events):
            if path is not None:
                _check(path)
        self.name, self.has_events = decisions.name, events is not None
        self._paths = decisions, events
        self._inputs, self._speed = inputs, speed
        self._begin()

    def _begin(self) -> None:
        decisions, events = self._paths
        self._decisions, self._events = Tail(decisions), None if events is None else Tail(events)
        self._tails = [tail for tail in (self._decisions, self._events) if tail is not None]
        self._began: float | None = None
        self._kept: list[tuple[int, int, bytes]] = []
        self._kept_events: list[tuple[int, int, bytes]] = []
        self._sent = 0

    def poll(self, refuse: Callable[[str, BaseException], None]) -> NewRecords:
        """Read what has come."""
        try:
            if self._events is not None:  # kept until decisions are read, too: that may fail
                self._kept_events += self._events.read(EVENTS_AT_ONCE)
            lines = self._paced()
        except FeedTruncated:
            self.close()
            self._begin()
            raise
        events, self._kept_events = self._parsed(self._kept_events, "event", refuse), []
        decisions = [(0, number, place, one) for number, place, one in self._parsed(lines, "decision", refuse)]
        more = bool(self._kept) or any(tail.more() for tail in self._tails)
        if self._speed is not None and not decisions:
            more = False
        return NewRecords(decisions, [(0, one) for _, _, one in events], more)

    def _paced(self) -> list[tuple[int, int, bytes]]:
        """Read lines, no more of them than the speed allows."""
        if self._speed is None:
            return self._decisions.read()
        if not self._kept:
            self._kept = self._decisions.read()
        now = time.monotonic()
        self._began = now if self._began is None else self._began
        due = max(0, int((now - self._began) * self._speed) - self._sent)
        out, self._kept = self._kept[:due], self._kept[due:]
        self._sent += len(out)
        return out

    @staticmethod
    def _parsed(
        lines: Sequence[tuple[int, int, bytes]], kind: str, refuse: Callable[[str, BaseException], None]
    ) -> list[tuple[int, int, dict[str, Any]]]:
        out = []
        loads = orjson.loads
        for number, place, line in lines:
            try:
                one = loads(line)
            except orjson.JSONDecodeError as error:
                if line.strip():
                    refuse(kind, ValueError(f"line {number + 1} is not JSON: {error}"))
                continue
            if isinstance(one, dict):
                out.append((number, place, one))
            else:
                refuse(kind, ValueError(f"line {number + 1} is no JSON object"))
        return out

    def behind(self) -> int | None:
        """Say how many decisions are still to be read: not known of a file."""
        return len(self._kept) or None

    def running(self) -> bool:
        """Say whether a run writes the decisions."""
        return is_written(self._decisions.path)

    def block(
        self, track: int, number: int, place: int, after: int | None, only: Collection[int] | None = None
    ) -> list[FoundDecision]:
        """Read a block of decisions again, or some of it."""
        out = []
        for at, line in enumerate(self._decisions.span(place, after).split(b"\n"), start=number):
            if only is not None and at not in only:
                continue
            if (one := json_object(line)) is not None:
                out.append(FoundDecision(at, one))
        return out

    def features(self, found: Sequence[FoundDecision]) -> list[dict[str, Any] | None]:
        """Find the features in the input."""
        if self._inputs is None:
            return [None] * len(found)
        return [self._inputs.find(one.decision) for one in found]

    def notes(self) -> list[str]:
        """Say what could not be read."""
        out = []
        name = self._decisions.path.name
        if not os.path.lexists(self._decisions.path):
            out.append(
                f"{name} was removed; the page shows what it held."
                if self._decisions.number
                else f"{name} is not there yet; it is shown as soon as a run writes it."
            )
        if self._events is None:
            out.append(
                "There is no file of events (--events FILE): subclasses are told from decisions alone, without what "
                "they are like."
            )
        if self._inputs is None:
            out.append("Features of examples are not shown: --input FILE names the file that was decided.")
        else:
            out += self._inputs.notes()
        return out

    def close(self) -> None:
        """Close the files."""
        for tail in self._tails:
            tail.close()


def _check(path: Path) -> None:
    if path.suffix.lower() in (".gz", ".csv", ".tsv", ".parquet", ".pq"):
        raise ConnectorError(
            f"{path} is followed as JSON Lines, and by its name it is something else; "
            "give the run --output decisions.jsonl --events events.jsonl"
        )
    if path.is_dir():
        raise ConnectorError(f"{path} is a folder; name the file of decisions that `stream-osr run` writes")
    try:
        with path.open("rb") as file:
            first = file.read(64).lstrip()
    except FileNotFoundError:
        return
    except OSError as error:
        raise ConnectorError(f"cannot read {path}: {error.strerror}; check the path") from None
    if first and first[:1] != b"{":
        raise ConnectorError(f"{path} does not begin with a JSON object; give the decisions that a run wrote")
