"""Sinks of bytes: durable files that can be cut back.

Data are only appended. A gzip file gets a new member with each flush, so that it, too, can be cut wherever a flush
ended. Any program that reads gzip reads the members as one file. A lock keeps other sinks from writing an open file
(`locking`), and a position of one file cannot cut another one (`identity`).
"""

from __future__ import annotations

import logging
import os
import stat
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from stream_osr.errors import ConnectorError
from stream_osr.support.atomic import flush_folder

from ..base import BatchCloser, Position
from .identity import identity_at, why_not
from .locking import Lock
from .open_file import is_gzip, is_standard, may_be_regular, open_output, why

logger = logging.getLogger("stream_osr")

_BUFFER = 1 << 16
_GZIP = 16 + zlib.MAX_WBITS


class DurableSink(BatchCloser, ABC):
    """Base of sinks that can be cut back to a position. After a failure a sink is unusable until `truncate`."""

    name: str
    _lock: Lock
    _started = _closed = False
    _failure: str | None = None

    @abstractmethod
    def flush(self) -> None:
        """Make everything written so far durable."""

    def check(self, position: Position | None) -> None:
        """Raise what `truncate` would raise for a position, and change nothing.

        Raises
        ------
        ConnectorError
            As in `truncate`.
        """
        self._checked(position)

    def close(self) -> None:
        """Write out buffered data, unless a failure was reported, and close. A second call does nothing.

        Raises
        ------
        ConnectorError
            If the destination does not accept the data. A failure that was reported before is not reported again.
        """
        if self._closed:
            return
        try:
            if self._started and self._failure is None:
                self._end()
        finally:
            self._closed = True
            self._let_go()
            self._lock.release()

    def __exit__(self, *raised: object) -> None:
        try:
            if raised[0] is None and not self._closed:
                self.flush()
        finally:
            self.close()

    @abstractmethod
    def _let_go(self) -> None:
        """Close everything that is open."""

    def _end(self) -> None:
        """Write out buffered data for the last time."""
        self.flush()

    @abstractmethod
    def _checked(self, position: Position | None) -> object:
        """Return the content of a position if the sink can be cut to it."""

    def _check_open(self) -> None:
        if self._closed:
            raise ConnectorError(f"{self.name} is closed. Open it again to write")

    def _check_usable(self) -> None:
        self._check_open()
        if self._failure is not None:
            raise ConnectorError(self._failure)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Mark the sink as unusable if the block fails, because the end of the output is unknown until `truncate`."""
        try:
            yield
        except OSError as error:
            self._failure = (
                f"cannot write to {self.name}: {why(error)}. Remove the cause (free some space, for example) and "
                "resume from the last position"
            )
            raise ConnectorError(self._failure) from None


class ByteSink(DurableSink):
    """Base of the sinks that write bytes. See `CsvSink` and `JsonLinesSink`.

    Opening keeps the content of an existing file, because `truncate` may continue it. The first `write` or `flush`
    replaces it. For the same reason, leaving the ``with`` block after an error does not touch the file, nor does
    `close` without a `write` or `flush`.
    """

    def __init__(self, path: str | os.PathLike[str], *, private: bool = False) -> None:
        self.name = "standard output" if is_standard(path) else os.fspath(path)
        self._lock = Lock(path)
        self._owned = not is_standard(path)
        self._gzip = self._owned and is_gzip(path)
        self._member: zlib._Compress | None = None
        self._pending = bytearray()
        self._written = self._flushed = 0
        self._listed = False
        self._identity: Position = {}
        with ExitStack() as failing:
            failing.callback(self._lock.release)
            if may_be_regular(path):
                self._lock.take_name(needed=False)
            self._file = open_output(path, private=private)
            # pipes and devices know neither cutting nor fsync
            self._regular = self._owned and stat.S_ISREG(os.fstat(self._file.fileno()).st_mode)
            if self._regular:
                failing.callback(self._file.close)
                self._lock.take_file(self._file.fileno())
                self._identity = identity_at(self._file, 0)
            failing.pop_all()

    def flush(self) -> None:
        """Make everything written so far durable. For a file this includes a sync to the disk.

        Raises
        ------
        ConnectorError
            If the file does not accept the data, for instance because the disk is full.
        """
        self._start()
        if self._member is not None:
            self._pending += self._member.flush()
            self._member = None
        self._drain()
        with self._writing():
            self._file.flush()
            if self._regular:
                os.fsync(self._file.fileno())
                if not self._listed:
                    flush_folder(os.path.dirname(os.path.realpath(self.name)))  # noqa: PTH120
                    self._listed = True
                self._identity = identity_at(self._file, self._written)
        self._flushed = self._written

    def position(self) -> Position:
        """Return where the file ended at the last `flush`, with the identity of the file.

        ``{"offset": bytes before, "hashed": n, "sha256": hash of the first and the last n bytes before}``. For gzip
        these are compressed bytes. At the beginning it is ``{"offset": 0, "inode": its number}``. A pipe has an
        offset only.
        """
        return {"offset": self._flushed, **self._identity}

    def check(self, position: Position | None) -> None:
        """Raise what `truncate` would raise for a position, and change nothing.

        A position of a file that could not be read has no identity. Then this method checks only that the file is
        long enough and, if the file is readable now, that a record ends at the position. It logs a warning about
        that.

        Raises
        ------
        ConnectorError
            As in `truncate`.
        """
        self._checked(position)
        if position is None:
            return
        identified = self._file.readable() and not position.keys().isdisjoint(("sha256", "inode"))
        if not identified and os.fstat(self._file.fileno()).st_size:
            line = "%s: the position to resume from does not identify its file. "
            logger.warning(line + "Only the size and the end of a record could be checked", self.name)

    def truncate(self, position: Position | None) -> None:
        """Cut off everything written after a position, or everything for ``None``.

        Raises
        ------
        ConnectorError
            If the file is shorter than the position, or its content is different, or the position is not one of a
            file. Also if data already went to standard output or a pipe. Nothing is cut in these cases.
        """
        offset = self._checked(position)
        if self._regular:
            self._cut(offset)

    def _let_go(self) -> None:
        if self._owned:
            self._file.close()

    def _put(self, data: bytes) -> None:
        """Append the bytes of one record."""
        if not self._started or self._closed or self._failure is not None:
            self._start()
        if self._gzip:
            if self._member is None:
                self._member = zlib.compressobj(wbits=_GZIP)
            data = self._member.compress(data)
        self._pending += data
        if len(self._pending) >= _BUFFER:
            self._drain()

    def _start(self) -> None:
        """Check that the file is writable, and empty it before the first write."""
        self._check_usable()
        if not self._started:
            if self._regular:
                self._cut(0)
            self._started = True

    def _offset_in(self, position: Position) -> int:
        offset = position.get("offset")
        if type(offset) is not int or offset < 0:
            raise ConnectorError(
                f"{dict(position)!r} is not a position of {self.name}: 'offset' should be a whole number. "
                "Give what position() returned"
            )
        return offset

    def _checked(self, position: Position | None) -> int:
        """Return the offset of a position to which the file can be cut."""
        offset = 0 if position is None else self._offset_in(position)
        self._check_open()
        if not self._regular:
            if position is None and not self._started:
                return 0
            raise ConnectorError(f"{self.name} cannot be cut back. To be able to resume, write to a file")
        if position is not None:
            try:
                reason = why_not(self._file, position, offset, compressed=self._gzip)
            except ConnectorError:
                raise
            except OSError as error:
                raise ConnectorError(f"cannot read {self.name}: {why(error)}. Check the file") from None
            if reason is not None:
                raise ConnectorError(
                    f"{self.name} {reason}: it is not the file that was being written. Put that file back, or start "
                    "without a position (without --resume)"
                )
        return offset

    def _cut(self, offset: int) -> None:
        self._check_open()
        self._pending.clear()
        self._member = None
        with self._writing():
            self._file.truncate(offset)
            os.fsync(self._file.fileno())
            self._identity = identity_at(self._file, offset)
        self._failure = None
        self._started = True
        self._written = self._flushed = offset

    def _drain(self) -> None:
        data = bytes(self._pending)
        with self._writing():
            while data:
                data = data[self._file.write(data) :]
        self._written += len(self._pending)
        self._pending.clear()
