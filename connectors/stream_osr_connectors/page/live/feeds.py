"""Feeds: decisions, events and features of a run, read from its files as they grow."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import orjson

from stream_osr.errors import ConnectorError
from stream_osr_connectors.files.checkpoint import wrong_stream
from stream_osr_connectors.growing_file import FeedTruncated, Tail, is_written
from stream_osr_connectors.page.live.input_rows import InputRows, json_object

Decision = dict[str, Any]

ORDINARY = 1000
"""Most decisions that are processed before other threads get the lock."""


class FoundDecision(NamedTuple):
    """A stored decision with its number on the page."""

    n: int
    decision: Decision


class NewRecords(NamedTuple):
    """New decisions and events.

    Attributes
    ----------
    decisions
        Track, number in the track, place, and decision of each.
    events
        Track and event of each.
    more
        Whether more records are available now.
    """

    decisions: Sequence[tuple[int, int, int, Decision]]
    events: Sequence[tuple[int, Mapping[str, Any]]]
    more: bool


class Feed(Protocol):
    """A source of decisions and events. One thread calls `poll`, several threads call the other methods."""

    kind: str
    """``file``, ``kafka`` or ``report``."""
    name: str
    """Name for people."""
    prefixes: Sequence[str] = ("",)
    """Prefix of subclass ids, for each track."""
    has_events: bool
    """Whether the source has events."""
    strict: bool = False
    """Whether an invalid record is an error. Otherwise it is counted."""

    def poll(self, refuse: Callable[[str, BaseException], None]) -> NewRecords:
        """Read new records.

        Raises
        ------
        FeedTruncated
            If all records must be read again. The feed restarts by itself.
        """

    def behind(self) -> int | None:
        """Return the number of decisions to be read, or ``None`` if unknown."""
        return None

    def running(self) -> bool:
        """Return whether the stream seems to be running."""
        return False

    def block(
        self, track: int, number: int, place: int, after: int | None, only: Collection[int] | None = None
    ) -> list[FoundDecision]:
        """Read a block of decisions, or some of them, given the number and place of the start, and the next block."""

    def features(self, found: Sequence[FoundDecision], texts: Collection[str] = ()) -> list[dict[str, Any] | None]:
        """Return the features of instances, ``None`` for each instance without features.

        The values of ``texts`` are text where the source does not distinguish text and numbers.
        """

    def notes(self) -> list[str]:
        """Describe the skipped input."""

    def close(self) -> None:
        """Release all resources."""


EVENTS_AT_ONCE = 1 << 18
"""Most bytes of events that are read before decisions."""


class FileFeed(Feed):
    """The files of a run.

    Parameters
    ----------
    decisions, events
        Output files of `stream-osr run`. Without events, subclasses come from decisions alone.
    inputs
        Source of features.
    speed
        Decisions per second, or ``None`` for full speed.
    stream
        Key of the stream to show, of a run with a stream for each key.

    Raises
    ------
    ConnectorError
        If a file cannot be followed.
    """

    kind = "file"

    def __init__(
        self,
        decisions: Path,
        events: Path | None,
        inputs: InputRows | None = None,
        speed: float | None = None,
        stream: str | None = None,
    ) -> None:
        for path in (decisions, events):
            if path is not None:
                _check(path)
        self.name = decisions.name if stream is None else f"{decisions.name}, {stream}"
        self.has_events, self._stream = events is not None, stream
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
        self._sent, self._has_keys = 0, False

    def poll(self, refuse: Callable[[str, BaseException], None]) -> NewRecords:
        """Read new records."""
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
        """Read as many lines as the speed allows."""
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

    def _parsed(
        self, lines: Sequence[tuple[int, int, bytes]], kind: str, refuse: Callable[[str, BaseException], None]
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
            if not isinstance(one, dict):
                refuse(kind, ValueError(f"line {number + 1} is no JSON object"))
            elif "by" not in one and self._stream is not None:
                refuse(kind, wrong_stream(self._decisions.path, self._stream))
            elif "by" in one and self._stream is None:
                self._has_keys = True
            elif self._is_shown(one):
                out.append((number, place, one))
        return out

    def _is_shown(self, record: dict[str, Any]) -> bool:
        """Return whether a record is of the shown stream, and remove the key of the stream."""
        return bool(record.pop("by", None) == self._stream)

    def behind(self) -> int | None:
        """Return the number of buffered decisions, or ``None``. It is unknown for the rest of a file."""
        return len(self._kept) or None

    def running(self) -> bool:
        """Return whether a run writes the decisions."""
        return is_written(self._decisions.path)

    def block(
        self, track: int, number: int, place: int, after: int | None, only: Collection[int] | None = None
    ) -> list[FoundDecision]:
        """Read a block of decisions again, or only some decisions."""
        out = []
        for at, line in enumerate(self._decisions.span(place, after).split(b"\n"), start=number):
            if only is not None and at not in only:
                continue
            if (one := json_object(line)) is not None and self._is_shown(one):
                out.append(FoundDecision(at, one))
        return out

    def features(self, found: Sequence[FoundDecision], texts: Collection[str] = ()) -> list[dict[str, Any] | None]:
        """Find the features in the input."""
        if self._inputs is None:
            return [None] * len(found)
        return [self._inputs.find(one.decision, texts) for one in found]

    def notes(self) -> list[str]:
        """Describe the skipped input."""
        out = []
        name = self._decisions.path.name
        if not os.path.lexists(self._decisions.path):
            out.append(
                f"{name} was removed. The page shows its last content."
                if self._decisions.number
                else f"{name} does not exist yet. The page shows it as soon as a run writes it."
            )
        if self._has_keys:
            out.append(f"{wrong_stream(Path(name), None)}.")
        if self._events is None:
            out.append(
                "There is no file of events (--events FILE). Subclasses come from decisions alone, without "
                "descriptions."
            )
        if self._inputs is None and self._stream is None and not self._has_keys:
            out.append("Only the latest instances have features, from the checkpoint. --input FILE has all of them.")
        elif self._inputs is not None:
            out += self._inputs.notes()
        return out

    def close(self) -> None:
        """Close the files."""
        for tail in self._tails:
            tail.close()


def _check(path: Path) -> None:
    if path.suffix.lower() in (".gz", ".csv", ".tsv", ".parquet", ".pq"):
        raise ConnectorError(
            f"{path} must be JSON Lines, but its name has another suffix. "
            "Start the run with --output decisions.jsonl --events events.jsonl"
        )
    if path.is_dir():
        raise ConnectorError(f"{path} is a folder. Give the file of decisions that `stream-osr run` writes")
    try:
        with path.open("rb") as file:
            first = file.read(64).lstrip()
    except FileNotFoundError:
        return
    except OSError as error:
        raise ConnectorError(f"cannot read {path}: {error.strerror}. Check the path") from None
    if first and first[:1] != b"{":
        raise ConnectorError(f"{path} does not begin with a JSON object. Give the decisions that a run wrote")
