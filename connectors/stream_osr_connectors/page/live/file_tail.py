"""The end of a file that grows: its whole lines as they come, and whether somebody writes it."""

from __future__ import annotations

import errno
import os
import platform
import re
import stat
from contextlib import suppress
from pathlib import Path


class FeedTruncated(Exception):
    """The file no longer begins with what was read: a run was resumed, or begun anew. Everything is read again."""


CHUNK = 1 << 20
"""Bytes that are read at once."""
LONGEST_LINE = 1 << 26
"""Bytes of a line; a longer one is passed over."""
GUARD = 512
"""Bytes before the place of reading that have to be what they were."""


class Tail:
    r"""The whole lines of a file, as they come.

    Attributes
    ----------
    number, place
        Of the next line: how many lines and bytes stand before it.

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
        """Read the lines that have come, with number and place of each; a last line without end waits for it.

        Raises
        ------
        CutBack
            If the file was cut back, or is another one; it is read from its beginning the next time.
        OSError
            If it cannot be read, or is no regular file any more; what was read stays.
        """
        if self._descriptor is None:
            try:
                self._descriptor = open_regular(self.path)
            except FileNotFoundError:
                return []
        if self._is_another():
            os.close(open_regular(self.path))  # what cannot be read replaces nothing that was
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

    def more(self) -> bool:
        """Say whether there is something to be read at once."""
        if self._descriptor is None:
            return False
        return os.fstat(self._descriptor).st_size > self._read

    def _is_another(self) -> bool:
        assert self._descriptor is not None
        ours = os.fstat(self._descriptor)
        try:
            there = self.path.stat()
        except FileNotFoundError:
            return False  # it was removed, and stays as it was for us
        if not os.path.samestat(ours, there) or there.st_size < self._read:
            return True
        size = len(self._last_bytes)
        return size > 0 and os.pread(self._descriptor, size, self._read - size) != self._last_bytes

    def span(self, place: int, after: int | None) -> bytes:
        """Read again what stands between two places; up to where reading has come, if there is no second."""
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


def open_regular(path: Path) -> int:
    """Open a regular file to read it; a pipe does not make it wait.

    Raises
    ------
    OSError
        If it cannot be opened, or is a folder, a pipe or a device.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return descriptor
    os.close(descriptor)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "it is a folder, and was a file", os.fspath(path))
    raise OSError(errno.EINVAL, "it is no regular file", os.fspath(path))


_NOTE = re.compile(r"process (\d{1,9}) on (\S+) since ")


def is_written(path: Path) -> bool:
    """Say whether a file has a writer: one that is alive, where that can be told.

    No lock is tried: whoever tries one may keep a writer out.

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
