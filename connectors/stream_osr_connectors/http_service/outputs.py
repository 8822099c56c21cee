"""Outputs of the run: decisions by number and key, events by place, and instances that were set aside."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson

from ..growing_file import Tail, end_of_lines
from .journal import digest_of

MOST_BYTES = 1 << 18
"""Most bytes of records in one answer, except that one record always fits."""
MOST_LINE = 1 << 24
"""Most bytes of one record."""


class OutputFile(Tail):
    """A JSON Lines file that one thread appends to while others read.

    Parameters
    ----------
    path
        The file. It is created if it does not exist.
    """

    def __init__(self, path: Path) -> None:
        path.touch()
        super().__init__(path)
        self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    @property
    def end(self) -> int:
        """Bytes of complete, flushed lines that were read."""
        return self.place

    def line(self, place: int) -> bytes:
        """Read the line at a place."""
        size = 1 << 12
        while b"\n" not in (data := os.pread(self._file, size, place)) and len(data) == size < MOST_LINE:
            size *= 4
        return data[: data.find(b"\n") + 1]

    def lines(self, place: int, limit: int) -> list[bytes]:
        """Read at most ``limit`` lines from a place on."""
        data = os.pread(self._file, max(0, min(MOST_BYTES, self.end - place)), place)
        found = data[: data.rfind(b"\n") + 1].splitlines(keepends=True)[:limit]
        return found or ([self.line(place)] if place < self.end else [])

    def is_start(self, place: int) -> bool:
        """Return whether a line begins at a place."""
        return place == 0 or (0 < place <= self.end and os.pread(self._file, 1, place - 1) == b"\n")

    def after(self, seq: int) -> int:
        """Return the place of the first record whose ``seq`` is greater, by bisection."""
        low, high = 0, self.end  # the lines before `low` are not greater, and the one at `high` is
        while low < high:
            start = end_of_lines(self._file, (low + high) // 2, low)
            line = self.line(start)
            if orjson.loads(line)["seq"] > seq:
                high = start
            else:
                low = start + len(line)
        return low

    def close(self) -> None:
        """Close the file."""
        super().close()
        os.close(self._file)


class Outputs:
    """The outputs of a run in a folder.

    Parameters
    ----------
    folder
        The folder.
    horizon
        Number of keys whose final decisions are found.
    """

    def __init__(self, folder: Path, horizon: int) -> None:
        self.decisions, self.events = OutputFile(folder / "decisions.jsonl"), OutputFile(folder / "events.jsonl")
        self._set_aside, self._horizon = OutputFile(folder / "errors.jsonl"), horizon
        self._decided: dict[bytes, int] = {}
        self._refused: dict[bytes, int] = {}
        self._note(self.decisions.skip(horizon), self._set_aside.skip(horizon))
        self.events.skip(0)

    def grow(self) -> None:
        """Read what the run has flushed."""
        self._note(_placed(self.decisions), _placed(self._set_aside))
        _placed(self.events)

    def final(self, key: str | int) -> dict[str, Any] | None:
        """Return the final decision about a key within the horizon, or why the instance was set aside."""
        known, found = digest_of(key), None
        if (place := self._refused.get(known)) is not None:
            found = {"set_aside": orjson.loads(self._set_aside.line(place))["reason"]}
        elif (place := self._decided.get(known)) is not None:
            found = orjson.loads(self.decisions.line(place))
        return found

    def close(self) -> None:
        """Close the files."""
        for file in (self.decisions, self.events, self._set_aside):
            file.close()

    def _note(self, decided: list[tuple[int, bytes]], set_aside: list[tuple[int, bytes]]) -> None:
        for place, line in decided:
            self._remember(self._decided, orjson.loads(line)["key"], place)
        for place, line in set_aside:
            with suppress(orjson.JSONDecodeError):  # a label, or an instance whose line is no longer known
                self._remember(self._refused, orjson.loads(orjson.loads(line)["raw"])["key"], place)

    def _remember(self, places: dict[bytes, int], key: str | int, place: int) -> None:
        known = digest_of(key)
        places.pop(known, None)
        places[known] = place
        if len(places) > self._horizon:
            del places[next(iter(places))]


def _placed(file: Tail) -> list[tuple[int, bytes]]:
    """Read the new lines of a file with their places."""
    return [(place, line) for _, place, line in file.read_all()]
