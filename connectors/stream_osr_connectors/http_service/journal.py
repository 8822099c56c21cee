"""The journal of accepted instances: a JSON Lines file that fixes their order, and the source that reads it.

Each line has the number of the instance, its key, time and features, and the immediate decision. A line is on the
disk before its sender gets an answer.
"""

from __future__ import annotations

import hashlib
import logging
import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from threading import Condition
from typing import Any, NamedTuple

import orjson

from stream_osr.atomic import flush_folder, private, write_whole
from stream_osr.errors import ConnectorError

from ..base import BadRecord, Position, Record
from ..files.json_lines import JsonLinesSource
from ..files.locking import Lock
from ..files.open_file import why

logger = logging.getLogger("stream_osr")

RETRY_SECONDS = 0.5
"""Seconds between two attempts to write to a full disk."""
WAIT_SECONDS = 0.2
"""Longest wait of the run for a new line before it applies commands."""
_CHUNK = 1 << 20


class Entry(NamedTuple):
    """An accepted instance: number from 1, digest of the content, and place and size of the line in bytes."""

    n: int
    digest: bytes
    place: int
    size: int


class JournalLine(NamedTuple):
    """Content of a line: key, time and features of an instance, and the immediate decision."""

    key: str | int
    time: float | None
    features: dict[str, Any]
    immediate: dict[str, Any]

    @property
    def digest(self) -> bytes:
        """Digest of time and features."""
        return digest_of([self.time, self.features])


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
        The file. It is created if it does not exist. An unfinished line at the end is removed, because its sender got
        no answer.
    horizon
        Number of keys that are remembered. A key within the horizon is accepted once.

    Attributes
    ----------
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

    def __init__(self, path: Path, horizon: int) -> None:
        self.path, self._horizon = path, horizon
        self._entries: dict[bytes, Entry] = {}
        self._grown = Condition()
        self.last, self._end = 0, 0
        self.trouble, self.closing = "", False
        self._lock = Lock(path)
        self._lock.take_name()
        try:
            self._file = private(os.fspath(path), os.O_RDWR | os.O_CREAT | os.O_APPEND)
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

    def find(self, key: str | int) -> Entry | None:
        """Return the entry of a key within the horizon."""
        return self._entries.get(digest_of(key))

    def immediate(self, entry: Entry) -> dict[str, Any]:
        """Read the immediate decision of an entry whose line is on the disk."""
        answer: dict[str, Any] = orjson.loads(os.pread(self._file, entry.size, entry.place))["immediate"]
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
        data, entries = b"", list[Entry]()
        for line in lines:
            content = orjson.dumps({"n": self.last + 1, **line._asdict()}, option=orjson.OPT_APPEND_NEWLINE)
            entries.append(Entry(self.last + 1, line.digest, self._end, len(content)))
            self._note(line.key, entries[-1])
            data += content
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
            self._grown.notify_all()
        return entries

    def await_line(self, n: int, seconds: float) -> bool:
        """Wait until line ``n`` is on the disk. Return whether it is."""
        with self._grown:
            return self._grown.wait_for(lambda: self.durable >= n, seconds)

    def close(self) -> None:
        """Close the file and release the lock."""
        os.close(self._file)
        self._lock.release()

    def _note(self, key: str | int, entry: Entry) -> None:
        self._entries[digest_of(key)] = entry
        if len(self._entries) > self._horizon:
            del self._entries[next(iter(self._entries))]
        self.last, self._end = entry.n, entry.place + entry.size

    def _recover(self) -> None:
        """Read the last lines. Cut the file at the first one that is incomplete, because it was not answered."""
        for place, line in last_lines(self._file, self._horizon):
            try:
                fields: dict[str, Any] = orjson.loads(line if line.endswith(b"\n") else b"null")
                n = fields.pop("n")
                read = JournalLine(**fields)
            except (orjson.JSONDecodeError, TypeError, AttributeError, KeyError):
                self._cut(place)
                return
            self._note(read.key, Entry(n, read.digest, place, len(line)))

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


def last_lines(file: int, count: int) -> Iterator[tuple[int, bytes]]:
    """Yield the last lines of a file with their places, and an unfinished line if there is one."""
    size = begin = os.fstat(file).st_size
    breaks = 0
    while begin and breaks <= count:
        begin = max(0, begin - _CHUNK)
        breaks += os.pread(file, min(_CHUNK, size - begin), begin).count(b"\n")
    with os.fdopen(os.dup(file), "rb") as lines:
        lines.seek(begin)
        place = begin + (len(lines.readline()) if begin else 0)
        for line in lines:
            yield place, line
            place += len(line)


class JournalSource(JsonLinesSource):
    """The instances of a journal, as `stream-osr run` reads them. A line is yielded only when it is on the disk.

    Parameters
    ----------
    journal
        The journal.
    features
        Names of the features.
    """

    def __init__(self, journal: InstanceJournal, features: Sequence[str]) -> None:
        super().__init__(journal.path, key="key", time="time", features=features, follow=True)
        self._journal, self._row = journal, 0
        self._call: Callable[[], None] = lambda: None

    def while_waiting(self, call: Callable[[], None]) -> bool:
        """Set a function to call several times a second while there is no new line."""
        self._call = call
        return super().while_waiting(call)

    def seek(self, position: Position | None) -> None:
        """Continue after the record that carried this position."""
        super().seek(position)
        row = (position or {}).get("row", 0)
        self._row = row if isinstance(row, int) else 0

    def __next__(self) -> Record | BadRecord:
        while self._journal.durable <= self._row:
            self._call()
            self._journal.await_line(self._row + 1, WAIT_SECONDS)
        self._row += 1
        return super().__next__()
