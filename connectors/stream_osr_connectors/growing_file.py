"""The one reader of growing files of lines: new lines, last lines, and whether a process writes the file."""

from __future__ import annotations

import errno
import os
import platform
import re
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path


class FeedTruncated(Exception):
    """The content before the place of the reader has changed. The file is read again from its beginning."""


CHUNK = 1 << 20
"""Most bytes of one read."""
LONGEST_LINE = 1 << 26
"""Most bytes of a line. Longer lines are skipped."""
GUARD = 512
"""Bytes before the current place that must not change."""


class Tail:
    r"""The complete lines of a growing file.

    Attributes
    ----------
    number, place
        Number of lines and bytes before the next line.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp(), "grows.jsonl")
    >>> _ = path.write_bytes(b"one\ntwo\nthr")
    >>> tail = Tail(path)
    >>> tail.read(), tail.number, tail.place
    ([(0, 0, b'one'), (1, 4, b'two')], 2, 8)
    >>> _ = path.write_bytes(b"one\ntwo\nthree\n")
    >>> tail.read()
    [(2, 8, b'three')]
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._begin()

    def _begin(self) -> None:
        self.number = self.place = 0
        self._read = 0
        self._rest = b""
        self._last_bytes = b""
        self._descriptor: int | None = None

    def read(self, most: int = CHUNK) -> list[tuple[int, int, bytes]]:
        """Read new lines with their numbers and places. An incomplete last line waits for its end.

        Raises
        ------
        FeedTruncated
            If the file was truncated or replaced. The next call reads it from the beginning.
        OSError
            If the file cannot be read, or is no longer a regular file. Lines that were read before are unaffected.
        """
        if self._descriptor is None:
            try:
                self._descriptor = open_regular(self.path)
            except FileNotFoundError:
                return []
        if self._is_another():
            os.close(open_regular(self.path))  # an unreadable file must not replace the content read so far
            began = self._read > 0
            self.close()
            self._begin()
            if began:
                raise FeedTruncated(str(self.path))
            return []
        data = os.pread(self._descriptor, most, self._read)
        if not data:
            return []
        self._read += len(data)
        self._last_bytes = (self._last_bytes + data)[-GUARD:]
        *whole, rest = (self._rest + data).split(b"\n")
        out = []
        for line in whole:
            out.append((self.number, self.place, line))
            self.number += 1
            self.place += len(line) + 1
        if len(rest) > LONGEST_LINE:
            self.place += len(rest)
            rest = b""
        self._rest = rest
        return out

    def read_all(self) -> Iterator[tuple[int, int, bytes]]:
        """Yield all new lines as :meth:`read` returns them."""
        while (lines := self.read()) or self.more():
            yield from lines

    def skip(self, count: int) -> list[tuple[int, bytes]]:
        """Go to the end of the complete lines. Return the last ``count`` of them with their places."""
        self._descriptor = open_regular(self.path)
        lines = [(place, line[:-1]) for place, line in last_lines(self._descriptor, count) if line.endswith(b"\n")]
        self.place = self._read = end_of_lines(self._descriptor)
        return lines

    def more(self) -> bool:
        """Return whether more bytes are available now."""
        if self._descriptor is None:
            return False
        return os.fstat(self._descriptor).st_size > self._read

    def _is_another(self) -> bool:
        assert self._descriptor is not None
        ours = os.fstat(self._descriptor)
        try:
            there = self.path.stat()
        except FileNotFoundError:
            return False  # it was removed, but the open file is unchanged
        if not os.path.samestat(ours, there) or there.st_size < self._read:
            return True
        size = len(self._last_bytes)
        return size > 0 and os.pread(self._descriptor, size, self._read - size) != self._last_bytes

    def span(self, place: int, after: int | None) -> bytes:
        """Read the bytes between two places again. Without a second place, read up to the current one."""
        end = self.place if after is None else after
        with suppress(OSError), os.fdopen(open_regular(self.path), "rb") as file:
            file.seek(place)
            return file.read(max(0, end - place))
        return b""

    def close(self) -> None:
        """Close the file."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def last_lines(file: int, count: int) -> Iterator[tuple[int, bytes]]:
    """Yield the last lines of a file with their places, and an unfinished line if there is one."""
    size = begin = os.fstat(file).st_size
    breaks = 0
    while begin and breaks <= count:
        begin = max(0, begin - CHUNK)
        breaks += os.pread(file, min(CHUNK, size - begin), begin).count(b"\n")
    with os.fdopen(os.dup(file), "rb") as lines:
        lines.seek(begin)
        place = begin + (len(lines.readline()) if begin else 0)
        for line in lines:
            yield place, line
            place += len(line)


def end_of_lines(file: int, end: int | None = None, begin: int = 0) -> int:
    """Return the end of the last complete line that begins at ``begin`` or later and ends at ``end`` or before."""
    end = os.fstat(file).st_size if end is None else end
    while end > begin:
        start = max(begin, end - 4096)
        if (at := os.pread(file, end - start, start).rfind(b"\n")) >= 0:
            return start + at + 1
        end = start
    return begin


def open_regular(path: Path) -> int:
    """Open a regular file for reading, without waiting for a pipe.

    Raises
    ------
    OSError
        If the path cannot be opened, or is a folder, a pipe or a device.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return descriptor
    os.close(descriptor)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "it is a folder now", os.fspath(path))
    raise OSError(errno.EINVAL, "it is not a regular file", os.fspath(path))


_NOTE = re.compile(r"process (\d{1,9}) on (\S+) since ")


def is_written(path: Path) -> bool:
    """Return whether a file has a writer that is alive, as far as this can be determined.

    The function takes no lock, because a lock could block a writer.

    >>> is_written(Path("nowhere", "decisions.jsonl"))
    False
    """
    target = Path(os.path.realpath(path))
    try:
        note = target.with_name(f".{target.name}.lock").read_text(errors="replace")[:400]
    except OSError:
        return False
    found = _NOTE.match(note)
    if found is None or found[2] != platform.node():
        return True
    try:
        os.kill(int(found[1]), 0)
    except ProcessLookupError:
        return False  # left by a crash
    except PermissionError:
        return True
    return True
