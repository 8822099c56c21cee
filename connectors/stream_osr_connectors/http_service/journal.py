"""The journal of accepted instances: JSON Lines files that fix their order, and the source that reads them.

Each line has the number of the instance, its key, time and features, and the immediate decision. A line is on the
disk before its sender gets an answer. The journal consists of :mod:`.segments`. The oldest one is deleted when all
its instances are decided, and older than the horizon.
"""

from __future__ import annotations

import hashlib
import logging
import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from threading import Condition
from typing import Any, NamedTuple

import numpy as np
import orjson

from stream_osr.errors import ConnectorError
from stream_osr.support.atomic import flush_folder, private, write_whole

from ..base import BadRecord, BatchCloser, Position, Record
from ..files.json_lines import JsonLinesSource
from ..files.line_source import MAX_RECORD_BYTES, Rows
from ..files.locking import Lock
from ..files.open_file import why
from ..growing_file import last_lines
from ..json_fields import JsonFields
from .segments import JournalSegment, JournalSegments

logger = logging.getLogger("stream_osr")

SEGMENT_BYTES = 1 << 26
"""Default size of a segment."""
RETRY_SECONDS = 0.5
"""Seconds between two attempts to write to a full disk."""
WAIT_SECONDS = 0.2
"""Longest wait of the run for a new line before it applies commands."""
RECENT_NUMBERS = 1 << 21
"""Most numbers of rows in memory that the run has not read. It reads earlier rows from the file."""


class Entry(NamedTuple):
    """An accepted instance: number from 1, digest of the content, and place and size of the line in bytes."""

    n: int
    digest: bytes
    place: int
    size: int


@dataclass
class JournalLine:
    """Content of a line.

    Attributes
    ----------
    key, time, features
        Those of the instance.
    immediate
        Immediate decision. ``None`` for a labelled instance.
    label
        True label, which the model learns.
    by
        Key of the stream.
    row
        Finite numbers of exactly the model's features, in its order. ``None``: the instance is labelled, or has other
        values. The file does not have it.
    """

    key: str | int
    time: float | None
    features: dict[str, Any]
    immediate: dict[str, Any] | None = None
    label: str | int | bool | None = None
    by: str | int | None = None
    row: Sequence[float] | None = None

    @cached_property
    def digest(self) -> bytes:
        """Digest of the content without the immediate decision."""
        more = [] if self.label is None and self.by is None else [self.label, self.by]
        return digest_of([self.time, self.features, *more])

    def as_dict(self) -> dict[str, Any]:
        """Return the fields, without label and key of the stream where there are none."""
        out = {"key": self.key, "time": self.time, "features": self.features, "immediate": self.immediate}
        more = {"label": self.label, "by": self.by}
        return out | {name: each for name, each in more.items() if each is not None}


def digest_of(content: object) -> bytes:
    """Return a digest of JSON values that does not depend on the order of the fields.

    >>> digest_of({"a": 1, "b": 2}) == digest_of({"b": 2, "a": 1})
    True
    """
    return hashlib.blake2b(orjson.dumps(content, option=orjson.OPT_SORT_KEYS), digest_size=16).digest()


class InstanceJournal:
    """The journal, with the entries of the last keys.

    Parameters
    ----------
    path
        The file of the first segment. It is created if there is no segment. An unfinished line at the end is removed,
        because its sender got no answer.
    horizon
        Number of keys that are remembered. A key within the horizon is accepted once.
    segment_bytes
        Size above which a segment is followed by another one. 0: there are no further segments, and none is deleted.

    Attributes
    ----------
    segments
        The segments.
    last, durable
        Number of the last line, and of the last line that is on the disk.
    trouble
        Why lines cannot be written at present, or empty text.
    closing
        Whether the service stops, so that nothing waits for space on a full disk.

    Raises
    ------
    ConnectorError
        If the file cannot be used, or another process writes it.
    """

    def __init__(self, path: Path, horizon: int, segment_bytes: int = SEGMENT_BYTES) -> None:
        self._horizon, self._segment_bytes = horizon, segment_bytes
        self._entries: dict[bytes, Entry] = {}
        self._recent = deque[tuple[int, JournalLine]]()
        """Last lines with rows, and their numbers."""
        self._grown = Condition()
        self.last, self._end = 0, 0
        self.trouble, self.closing = "", False
        self._lock = Lock(path)
        self._lock.take_name()
        try:
            self.segments = JournalSegments(path)
            self._file = private(os.fspath(self.path), os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC)
            try:
                self._lock.take_file(self._file)
                self._recover()
                os.fsync(self._file)
                flush_folder(path.parent)
            except BaseException:
                os.close(self._file)
                raise
        except BaseException as error:
            self._lock.release()
            if isinstance(error, OSError):
                raise ConnectorError(f"cannot use {path}: {why(error)}. Check folder and permissions") from None
            raise
        self.durable = self.last

    @property
    def path(self) -> Path:
        """The file of the last segment."""
        return self.segments[-1].path

    def find(self, key: str | int) -> Entry | None:
        """Return the entry of a key within the horizon."""
        return self._entries.get(digest_of(key))

    def immediate(self, entry: Entry) -> dict[str, Any] | None:
        """Read the immediate decision of an entry whose line is on the disk. It must be within the horizon."""
        with self.segments.of(entry.n).path.open("rb", buffering=0) as file:
            file.seek(entry.place)
            answer: dict[str, Any] | None = orjson.loads(file.read(entry.size))["immediate"]
        return answer

    def append(self, lines: Sequence[JournalLine], on_failure: Callable[[str], None]) -> list[Entry]:
        """Write lines and sync them. Only one thread may call this method.

        While the disk is full, this method retries and calls ``on_failure``.

        Raises
        ------
        ConnectorError
            If the sync fails, because the content of the disk is then not known. Also if the disk is full and
            ``closing`` is set.
        """
        if 0 < self._segment_bytes <= self._end:
            self._begin_segment()
        contents, entries, recent = list[bytes](), list[Entry](), list[tuple[int, JournalLine]]()
        for line in lines:
            content = orjson.dumps({"n": self.last + 1, **line.as_dict()}, option=orjson.OPT_APPEND_NEWLINE)
            entries.append(Entry(self.last + 1, line.digest, self._end, len(content)))
            self._note(digest_of(line.key), entries[-1])
            contents.append(content)
            if line.row is not None and len(content) <= MAX_RECORD_BYTES:  # as the source of the file accepts
                recent.append((self.last, line))
        data = b"".join(contents)
        while data:
            try:
                data = data[os.write(self._file, data) :]
            except OSError as error:
                self.trouble = f"cannot write {self.path}: {why(error)}. Free some space"
                on_failure(self.trouble)
                if self.closing:
                    raise ConnectorError(self.trouble) from None
                time.sleep(RETRY_SECONDS)
        try:
            os.fsync(self._file)
        except OSError as error:
            self.trouble = f"cannot sync {self.path}: {why(error)}. Check the disk, and start the service again"
            raise ConnectorError(self.trouble) from None
        self.trouble = ""
        with self._grown:
            self.durable = self.last
            self._recent.extend(recent)
            while self._recent and len(self._recent) * len(self._recent[-1][1].row or ()) > RECENT_NUMBERS:
                self._recent.popleft()
            self._grown.notify_all()
        return entries

    def recent(self, n: int, end: float) -> list[JournalLine]:
        """Take the lines from ``n`` to before ``end`` out of the memory, up to the first one that is not there."""
        found = list[JournalLine]()
        with self._grown:
            while self._recent and (at := self._recent[0][0]) < end and at <= n + len(found):
                line = self._recent.popleft()[1]
                found += [line] if at >= n else []
        return found

    def await_line(self, n: int, seconds: float) -> bool:
        """Wait until line ``n`` is on the disk. Return whether it is."""
        with self._grown:
            return self._grown.wait_for(lambda: self.durable >= n, seconds)

    def forget(self, decided: int) -> None:
        """Delete the segments that are not needed.

        Parameters
        ----------
        decided
            Number of the last instance such that it and all earlier ones are decided, as a saved checkpoint knows.
        """
        if self._segment_bytes:
            self.segments.drop(1 + min(decided, self.durable - self._horizon))

    def close(self) -> None:
        """Close the file and release the lock."""
        os.close(self._file)
        self._lock.release()

    def _note(self, key: bytes, entry: Entry) -> None:
        self._entries[key] = entry
        if len(self._entries) > self._horizon:
            del self._entries[next(iter(self._entries))]
        self.last, self._end = entry.n, entry.place + entry.size

    def _begin_segment(self) -> None:
        try:
            file = self.segments.add(self.last + 1)
        except OSError as error:
            logger.warning("cannot begin another file after %s: %s. It grows instead", self.path, why(error))
            return
        os.close(self._file)
        self._file, self._end = file, 0

    def _recover(self) -> None:
        """Read the last lines. Cut the last segment at the first one that is incomplete, and was not answered."""
        *earlier, active = (self.segments[at] for at in range(len(self.segments)))
        found, unfinished = _entries(self._file, self._horizon)
        if unfinished is not None:
            self._cut(unfinished)
        parts, begin = [found], active.first
        for segment in reversed(earlier):
            with segment.path.open("rb") as file:
                found, unfinished = _entries(file.fileno(), max(1, self._horizon - sum(map(len, parts))))
            last = found[-1][1].n if found else 0
            if unfinished is not None or last != begin - 1:
                raise self.segments.gap_after(segment, last)
            parts.append(found)
            begin = segment.first
        for part in reversed(parts):
            for key, entry in part:
                self._note(key, entry)
        if not parts[0]:
            self.last, self._end = active.first - 1, 0

    def _cut(self, place: int) -> None:
        """Remove the content from a place on. If it contains more than one unfinished line, keep a copy."""
        lost = os.pread(self._file, os.fstat(self._file).st_size - place, place)
        text = "%s: unfinished content is removed, %d bytes from byte %d on"
        if b"\n" in lost:
            copy = self.path.with_name(f"{self.path.name}.removed-{place}")
            write_whole(copy, lambda file: file.write(lost))
            logger.error(f"{text}. It contains whole lines, and %s is a copy", self.path, len(lost), place, copy)
        else:
            logger.warning(text, self.path, len(lost), place)
        os.ftruncate(self._file, place)


def _entries(file: int, count: int) -> tuple[list[tuple[bytes, Entry]], int | None]:
    """Read the last lines of a segment: digests of keys, entries, and the place of unfinished content or ``None``."""
    out = list[tuple[bytes, Entry]]()
    for place, line in last_lines(file, count):
        try:
            fields: dict[str, Any] = orjson.loads(line if line.endswith(b"\n") else b"null")
            n = fields.pop("n")
            read = JournalLine(**fields)
        except (orjson.JSONDecodeError, TypeError, AttributeError, KeyError):
            return out, place
        out.append((digest_of(read.key), Entry(n, read.digest, place, len(line))))
    return out, None


class JournalSource(BatchCloser, Iterator[Record | BadRecord]):
    """The instances of a journal, as `stream-osr run` reads them. A line is yielded only when it is on the disk.

    Rows of numbers that have just arrived come from the memory of the journal. Positions are those of
    `JsonLinesSource` in a segment, with the number of the first instance of the segment. ``row`` is the number of the
    instance.

    Parameters
    ----------
    journal
        The journal.
    fields
        Fields of a line.
    """

    resumes = True
    prompt = True
    """Rows are those that have arrived."""

    def __init__(self, journal: InstanceJournal, fields: JsonFields) -> None:
        self._journal, self._fields = journal, fields
        self._call: Callable[[], None] = lambda: None
        self._segment = journal.segments[0]
        self._source, self._row = self._reader(self._segment), self._segment.first - 1

    def while_waiting(self, call: Callable[[], None]) -> bool:
        """Set a function to call several times a second while there is no new line."""
        self._call = call
        return self._source.while_waiting(call)

    def seek(self, position: Position | None) -> None:
        """Continue after the record that carried this position.

        Raises
        ------
        ConnectorError
            If a segment is missing.
        """
        given = {} if position is None else dict(position)
        row, first = given.get("row", 0), given.pop("segment", 1)
        n = row if isinstance(row, int) else 0
        segment = self._journal.segments.of(n + 1)
        if n + 1 < segment.first or segment.first not in (first, n + 1):
            raise ConnectorError(
                f"{self._journal.path.parent} lacks instance {n + 1} of the journal, the next one to decide. Restore "
                "the files of the journal and the checkpoint, or give another folder"
            )
        self._open(segment)
        if n + 1 > segment.first:
            self._source.seek({**given, "row": n + 1 - segment.first})
            self._row = n

    def __next__(self) -> Record | BadRecord:
        self._await_line()
        record = next(self._source)
        return record._replace(position=self._passed(1, record.position))

    def take_rows(self, features: Sequence[Any], most: int) -> Rows | None:
        """Read the next instances, as far as they have arrived and are rows of numbers (`RowSource`)."""
        self._await_line()
        n, next_segment = self._row + 1, self._journal.segments.after(self._segment)
        if not (lines := self._journal.recent(n, min(n + most, next_segment))):
            return None
        texts, position = self._source.pass_lines(len(lines))
        values = np.array([line.row for line in lines], dtype=float)
        keys, times = [line.key for line in lines], [line.time for line in lines]
        return Rows(values, keys, times, texts, self._passed(len(lines), position), ())

    def close(self) -> None:
        """Close the file."""
        self._source.close()

    def _await_line(self) -> None:
        """Wait for the next line, and go to its segment."""
        while self._journal.durable <= self._row:
            self._call()
            self._journal.await_line(self._row + 1, WAIT_SECONDS)
        segment = self._journal.segments.of(self._row + 1)
        if segment != self._segment:
            self._open(segment)

    def _passed(self, lines: int, position: Position | None) -> Position:
        """Go on after some lines, and return the position."""
        self._row += lines
        return {**(position or {}), "row": self._row, "segment": self._segment.first}

    def _open(self, segment: JournalSegment) -> None:
        """Go to the beginning of a segment."""
        self._source.close()
        self._source = self._reader(segment)
        self._source.while_waiting(self._call)
        self._segment, self._row = segment, segment.first - 1

    def _reader(self, segment: JournalSegment) -> JsonLinesSource:
        return JsonLinesSource(segment.path, **self._fields._asdict(), follow=True)
