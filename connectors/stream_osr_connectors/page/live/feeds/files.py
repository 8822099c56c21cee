"""The files of a run: decisions and events as JSON Lines, followed as they grow, and the input, for features."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

import orjson

from stream_osr.errors import ConnectorError
from stream_osr_connectors.page.live.feeds.inputs import Inputs
from stream_osr_connectors.page.live.feeds.seam import CutBack, Found, Told
from stream_osr_connectors.page.live.feeds.tail import Tail
from stream_osr_connectors.page.live.feeds.writers import is_written

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
        self, decisions: Path, events: Path | None, inputs: Inputs | None = None, speed: float | None = None
    ) -> None:
        for path in (decisions, events):
            if path is not None:
                _check(path)
        self.name = decisions.name
        self.has_events = events is not None
        self._decisions = Tail(decisions)
        self._events = None if events is None else Tail(events)
        self._inputs = inputs
        self._speed = speed
        self._began: float | None = None
        self._kept: list[tuple[int, int, bytes]] = []
        self._kept_events: list[tuple[int, int, bytes]] = []
        self._told = 0

    def poll(self, refuse: Callable[[str, BaseException], None]) -> Told:
        """Read what has come."""
        try:
            if self._events is not None:  # kept until decisions are read, too: that may fail
                self._kept_events += self._events.read(EVENTS_AT_ONCE)
            lines = self._paced()
        except CutBack:
            self._begin()
            raise
        events, self._kept_events = self._parsed(self._kept_events, "event", refuse), []
        decisions = [(0, number, place, one) for number, place, one in self._parsed(lines, "decision", refuse)]
        more = bool(self._kept) or self._decisions.more() or (self._events is not None and self._events.more())
        if self._speed is not None and not decisions:
            more = False
        return Told(decisions, [(0, one) for _, _, one in events], more)

    def _begin(self) -> None:
        for tail in (self._decisions, self._events):
            if tail is not None:
                tail.close()
        self._decisions = Tail(self._decisions.path)
        self._events = None if self._events is None else Tail(self._events.path)
        self._kept, self._kept_events, self._told, self._began = [], [], 0, None

    def _paced(self) -> list[tuple[int, int, bytes]]:
        """Read lines, no more of them than the speed allows."""
        if self._speed is None:
            return self._decisions.read()
        if not self._kept:
            self._kept = self._decisions.read()
        now = time.monotonic()
        self._began = now if self._began is None else self._began
        due = max(0, int((now - self._began) * self._speed) - self._told)
        out, self._kept = self._kept[:due], self._kept[due:]
        self._told += len(out)
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
    ) -> list[Found]:
        """Read a block of decisions again, or some of it."""
        out = []
        for at, line in enumerate(self._decisions.span(place, after).split(b"\n"), start=number):
            if only is not None and at not in only:
                continue
            try:
                one = orjson.loads(line)
            except orjson.JSONDecodeError:
                continue
            if isinstance(one, dict):
                out.append(Found(at, one))
        return out

    def features(self, found: Sequence[Found]) -> list[dict[str, Any] | None]:
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
        for tail in (self._decisions, self._events):
            if tail is not None:
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
