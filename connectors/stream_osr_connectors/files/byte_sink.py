"""Sinks of bytes: durable files that can be cut back.

Data is only ever appended. A gzip file gets a new member with each flush, so that it, too, can be cut
wherever a flush ended; any program that reads gzip reads the members as one file. While a file is open here
nobody else writes it through a sink (`locking`), and a position of one file cuts no other (`identity`).
"""

from __future__ import annotations

import logging
import os
import stat
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from stream_osr.atomic import flush_folder
from stream_osr.errors import ConnectorError

from ..base import BatchCloser, Position
from .identity import identity_at, why_not
from .locking import Lock
from .open_file import is_gzip, is_standard, may_be_regular, open_output, why

logger = logging.getLogger("stream_osr")

_BUFFER = 1 << 16
_GZIP = 16 + zlib.MAX_WBITS


class DurableSink(BatchCloser, ABC):
    """Base of sinks whose records can be cut back to a position; a failure makes one useless until `truncate`."""

    name: str
    _lock: Lock
    _started = _closed = False
    _failure: str | None = None

    @abstractmethod
    def flush(self) -> None:
        """Make everything written so far durable."""

    def check(self, position: Position | None) -> None:
        """Refuse a position that `truncate` would refuse, and change nothing.

        Raises
        ------
        ConnectorError
            As `truncate`.
        """
        self._checked(position)

    def close(self) -> None:
        """Write out what waits, unless a failure was reported, and let go of it; a second call does nothing.

        Raises
        ------
        ConnectorError
            If the destination does not take it. A failure that was reported before is not reported again.
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
        """Close what is open."""

    def _end(self) -> None:
        """Write out what waits, for the last time."""
        self.flush()

    @abstractmethod
    def _checked(self, position: Position | None) -> object:
        """Return what a position says, if the sink can be cut to it."""

    def _check_open(self) -> None:
        if self._closed:
            raise ConnectorError(f"{self.name} is closed; open it again to write")

    def _check_usable(self) -> None:
        self._check_open()
        if self._failure is not None:
            raise ConnectorError(self._failure)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Remember, if it fails, that the end of what was written is in doubt: only `truncate` ends that."""
        try:
            yield
        except OSError as error:
            self._failure = (
                f"cannot write to {self.name}: {why(error)}; remove the cause (free some space, say) and "
                "resume from the last position"
            )
            raise ConnectorError(self._failure) from None


class ByteSink(DurableSink):
    """Base of the sinks that write bytes; see `CsvSink` and `JsonLinesSink`.

    Opening leaves the content of a file that exists as it is, because whether it is to be continued
    (`truncate`) or replaced (a first `write` or `flush`) is not known yet. That is also why leaving the
    ``with`` block after an error, or `close` without a `write` or `flush`, does not touch it.
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
        """Make everything written so far durable: handed over, and for a file also synced to the disk.

        Raises
        ------
        ConnectorError
            If the file does not take it, for instance because the disk is full.
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
        """Say where the file ended at the last `flush`, and what tells this file from others.

        ``{"offset": bytes before, "hashed": n, "sha256": hash of the first and the last n bytes before}``, compressed
        bytes for gzip; ``{"offset": 0, "inode": its number}`` at the beginning; a pipe has an offset only.
        """
        return {"offset": self._flushed, **self._identity}

    def check(self, position: Position | None) -> None:
        """Refuse a position that `truncate` would refuse, and change nothing.

        A position of a file that could not be read carries no identity: what is checked is that the file is long
        enough and, if it can be read now, that a record ends there; a warning on the logger ``stream_osr`` says so.

        Raises
        ------
        ConnectorError
            As `truncate`.
        """
        self._checked(position)
        if position is None:
            return
        identified = self._file.readable() and not position.keys().isdisjoint(("sha256", "inode"))
        if not identified and os.fstat(self._file.fileno()).st_size:
            line = "%s: the position to go on from does not say which file it is of; "
            logger.warning(line + "only the size and the end of a record could be checked", self.name)

    def truncate(self, position: Position | None) -> None:
        """Cut off everything written after a position; ``None`` is the beginning.

        Raises
        ------
        ConnectorError
            If the file is shorter than the position says, or another one by what stands before it; if something
            went to standard output or a pipe already; or if the position is none of a file. Nothing is cut then.
        """
        offset = self._checked(position)
        if self._regular:
            self._cut(offset)

    def _let_go(self) -> None:
        if self._owned:
            self._file.close()

    def _put(self, data: bytes) -> None:
        """Append the bytes of one record."""
        self._start()
        if self._gzip:
            if self._member is None:
                self._member = zlib.compressobj(wbits=_GZIP)
            data = self._member.compress(data)
        self._pending += data
        if len(self._pending) >= _BUFFER:
            self._drain()

    def _start(self) -> None:
        """Check that writing is possible, and empty the file before it begins."""
        self._check_usable()
        if not self._started:
            if self._regular:
                self._cut(0)
            self._started = True

    def _offset_in(self, position: Position) -> int:
        offset = position.get("offset")
        if type(offset) is not int or offset < 0:
            raise ConnectorError(
                f"{dict(position)!r} is not a position of {self.name}: 'offset' should be a whole number; "
                "give what position() returned"
            )
        return offset

    def _checked(self, position: Position | None) -> int:
        """Return the offset of a position that the file can be cut to."""
        offset = 0 if position is None else self._offset_in(position)
        self._check_open()
        if not self._regular:
            if position is None and not self._started:
                return 0
            raise ConnectorError(
                f"{self.name} cannot take back what was written to it; to be able to resume, write to a file"
            )
        if position is not None:
            try:
                reason = why_not(self._file, position, offset, compressed=self._gzip)
            except ConnectorError:
                raise
            except OSError as error:
                raise ConnectorError(f"cannot read {self.name}: {why(error)}; check the file") from None
            if reason is not None:
                raise ConnectorError(
                    f"{self.name} {reason}: it is not the file that was being written; put that file back, or start "
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
