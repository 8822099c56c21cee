"""Files by their paths: plain, gzip, the standard streams behind ``-``, and inputs that are still being written."""

from __future__ import annotations

import gzip
import io
import os
import select
import stat
import sys
import time
import zlib
from collections.abc import Callable
from typing import Any, BinaryIO, Literal, TextIO, cast

from stream_osr.errors import ConnectorError
from stream_osr.support import atomic

WAIT_SECONDS = 0.2
"""Longest wait without a callback."""
TAIL_BYTES = 256
"""Number of last bytes read that a followed file must still contain."""


class GrowingFile(io.FileIO):
    """A file that calls back while it waits for more.

    Parameters
    ----------
    file
        Path or file descriptor. A descriptor stays open.
    follow
        Whether to wait at the end of a regular file, because it is still being written.

    Attributes
    ----------
    grows
        Whether the file may wait: a pipe, or a file that is followed.
    cut
        Whether a followed file lost content that was already read. It was cut (``copytruncate`` of logrotate), or
        another file has its name. Reading ends there, and :meth:`begin_anew` continues.
    """

    def __init__(self, file: str | os.PathLike[str] | int, *, follow: bool) -> None:
        super().__init__(file if isinstance(file, int) else os.fspath(file), closefd=not isinstance(file, int))
        self._place = None if isinstance(file, int) else os.fspath(file)
        regular = stat.S_ISREG(os.fstat(self.fileno()).st_mode)
        self.grows = follow or not regular
        self.cut = False
        self._regular = regular
        self._tail = b""  # of what was read
        self._call: Callable[[], None] | None = None

    def while_waiting(self, call: Callable[[], None]) -> None:
        """Set a function to call several times a second while there is no input. Its exceptions end the waiting.

        Without a function, the end of a file is its end.
        """
        self._call = call

    def readinto(self, buffer: Any) -> int | None:
        """Read what is available, and wait until there is something."""
        if self._call is None or not self.grows:
            return self._read(buffer)
        if not self._regular:
            _await_input(self.fileno(), self._call)
            return self._read(buffer)
        while not self.cut:
            replaced = self._is_replaced()
            if self._is_cut():
                break
            if count := self._read(buffer):
                return count
            if replaced:  # and nobody writes the one before any more
                break
            time.sleep(WAIT_SECONDS)
            self._call()
        self.cut = True
        return 0

    def _read(self, buffer: Any) -> int | None:
        count = super().readinto(buffer)
        if count and self.grows and self._regular:
            self._tail = (self._tail + bytes(buffer[max(0, count - TAIL_BYTES) : count]))[-TAIL_BYTES:]
        return count

    def seek(self, offset: int, whence: int = 0, /) -> int:
        """Go to an offset."""
        self._tail = b""
        return super().seek(offset, whence)

    def begin_anew(self) -> None:
        """Go to the beginning of the file that has the name now."""
        if self._place is not None and self._is_replaced():
            other = os.open(self._place, os.O_RDONLY)
            os.dup2(other, self.fileno(), inheritable=False)
            os.close(other)
        self.cut = False
        self.seek(0)

    def _is_cut(self) -> bool:
        """Return whether the file is shorter than the content read, or its last part has changed."""
        read = self.tell()
        if os.fstat(self.fileno()).st_size < read:
            return True
        return bool(self._tail) and os.pread(self.fileno(), len(self._tail), read - len(self._tail)) != self._tail

    def _is_replaced(self) -> bool:
        """Return whether the name belongs to another file with content."""
        if self._place is None:
            return False
        try:
            found = os.stat(self._place)  # noqa: PTH116  # several times a second
        except OSError:  # it was moved away, and the next one is not there yet
            return False
        return (
            stat.S_ISREG(found.st_mode) and found.st_size > 0 and not os.path.samestat(found, os.fstat(self.fileno()))
        )


def _await_input(descriptor: int, call: Callable[[], None]) -> None:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    while not poll.poll(1000 * WAIT_SECONDS):
        call()


UNREADABLE = (OSError, EOFError, zlib.error)
"""Errors of reading: from the system, from gzip data that are cut off, and from damaged gzip data."""


def is_standard(path: str | os.PathLike[str]) -> bool:
    """Return whether the path means standard input or output."""
    return os.fspath(path) == "-"


def is_gzip(path: str | os.PathLike[str]) -> bool:
    """Return whether the path names a gzip file."""
    return os.fspath(path).lower().endswith(".gz")


def is_folder(path: str | os.PathLike[str]) -> bool:
    """Return whether a path names a folder that can be read."""
    return not is_standard(path) and os.path.isdir(path)  # noqa: PTH112  # that of Path raises for long names


def open_input(
    path: str | os.PathLike[str], *, follow: bool = False
) -> tuple[GrowingFile | None, io.BufferedReader[Any] | None, io.BufferedIOBase]:
    """Open a file and a stream of the content. Standard input has no file to close.

    The first item is a :class:`GrowingFile` for a named pipe or a followed file, which may grow.
    """
    if is_standard(path):
        stream = _bytes_of(sys.stdin, "standard input")
        if not follow:
            return None, None, cast(io.BufferedIOBase, stream)
        growing = GrowingFile(stream.fileno(), follow=True)
        return growing, None, io.BufferedReader(growing)
    if follow and is_gzip(path) and may_be_regular(path):
        raise ConnectorError(
            f"{os.fspath(path)} cannot be followed: it is compressed. Follow its uncompressed source"
        )
    try:
        growing = GrowingFile(path, follow=follow)
    except OSError as error:
        raise ConnectorError(f"cannot open {os.fspath(path)}: {why(error)}. Check the path") from None
    file = io.BufferedReader(growing)
    if not follow and may_be_regular(path):
        _check_beginning(path, file)
    return growing, file, cast(io.BufferedIOBase, gzip.GzipFile(fileobj=file) if is_gzip(path) else file)


_BEGINNINGS = {
    b"PK\x03\x04": "is a zip archive, or a spreadsheet (.xlsx). Save it as CSV",
    b"PAR1": "is a Parquet file. Give it a name that ends in .parquet, or use --format parquet",
    b"\xff\xfe": "is text in UTF-16. Save it as UTF-8",
    b"\xfe\xff": "is text in UTF-16. Save it as UTF-8",
}
"""First bytes of files that are not text, and the remedy."""


def _check_beginning(path: str | os.PathLike[str], file: io.BufferedReader[Any]) -> None:
    """Refuse a file that is not text, by its first bytes.

    Raises
    ------
    ConnectorError
        The message names the kind of file.
    """
    begins = file.peek(4)[:4]
    problem = next((problem for first, problem in _BEGINNINGS.items() if begins.startswith(first)), "")
    if begins.startswith(b"\x1f\x8b") and not is_gzip(path):
        problem = "is compressed by gzip. Give it a name that ends in .gz"
    if problem:
        file.close()
        raise ConnectorError(f"{os.fspath(path)} {problem}")


def is_piped(path: str | os.PathLike[str]) -> bool:
    """Return whether a path means standard input from a pipe or a terminal, which may wait."""
    try:
        return is_standard(path) and not stat.S_ISREG(os.fstat(sys.stdin.fileno()).st_mode)
    except (AttributeError, OSError, ValueError):  # a notebook has another one
        return False


def open_output(path: str | os.PathLike[str], *, private: bool = False) -> BinaryIO:
    """Open a file for appending, and for reading if possible, or return standard output.

    With ``private`` only the owner can read a new file. Otherwise it has the usual permissions.
    """
    if is_standard(path):
        stream = _bytes_of(sys.stdout, "standard output")
        sys.stdout.flush()  # what was printed before comes first
        return stream
    try:
        if not may_be_regular(path):
            return _append(path, "ab", private)  # a pipe that is opened for both does not wait for its reader
        try:
            return _append(path, "a+b", private)
        except PermissionError:
            return _append(path, "ab", private)
    except OSError as error:
        raise ConnectorError(f"cannot open {os.fspath(path)} for writing: {why(error)}. Check the path") from None


def may_be_regular(path: str | os.PathLike[str]) -> bool:
    """Return whether a path names a regular file or nothing yet, and no device, pipe, folder or standard stream."""
    if is_standard(path):
        return False
    try:
        return stat.S_ISREG(os.stat(path).st_mode)  # noqa: PTH116  # a path may be text
    except OSError:
        return True


def _append(path: str | os.PathLike[str], mode: Literal["ab", "a+b"], private: bool) -> BinaryIO:
    # unbuffered: after a failed write nothing may be left that closing the file would write again
    opener = atomic.private if private else None
    return cast(BinaryIO, open(path, mode, buffering=0, opener=opener))


def _bytes_of(stream: TextIO | None, name: str) -> BinaryIO:
    """Return the byte stream of a standard stream, which a notebook or a service may have replaced."""
    if not hasattr(stream, "buffer"):
        raise ConnectorError(f"{name} does not exist here, or has no byte stream. Use a file")
    return cast(TextIO, stream).buffer


def why(error: BaseException) -> str:
    """Return the reason of an error without the number of the operating system."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error)
