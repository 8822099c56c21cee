"""One writer per file: a lock that ends with its process, and a note beside the file that names the process.

There are two system locks (`flock`), because neither is enough. The lock on the note ``.NAME.lock`` protects files
that are replaced whole, and shows the owner. The lock on the file itself applies to all its names, including hard
links. A crash needs no cleanup: the note stays, unlocked, and the next writer takes it over.
"""

from __future__ import annotations

import fcntl
import logging
import os
import platform
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

from stream_osr.errors import ConnectorError, InUse
from stream_osr.support.atomic import remove_unfinished, why_irreplaceable

from .open_file import why

logger = logging.getLogger("stream_osr")

MOST_BYTES = 400
"""Most bytes of a note."""

_without: set[str] = set()  # folders that cannot lock, of which it has been said


class Lock:
    """The right to write a file. For files that are replaced, see :func:`sole_writer`.

    If the file system cannot lock (some network drives), a warning is logged, and writing continues without a lock.

    Parameters
    ----------
    path
        The file, which need not exist. Links and relative paths are resolved.

    Attributes
    ----------
    certain
        Whether the file system can lock.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     first, second = Lock(Path(folder, "out.jsonl")), Lock(Path(folder, ".", "out.jsonl"))
    ...     first.take_name()
    ...     try:
    ...         second.take_name()
    ...     except ConnectorError as error:
    ...         str(error).partition(" is being written by process ")[1]
    ...     first.release()
    ...     os.listdir(folder)
    ' is being written by process '
    []
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._name = os.fspath(path)
        target = Path(os.path.realpath(path))
        self._note = target.with_name(f".{target.name}.lock")
        self._descriptors: list[int] = []
        self._noted = False
        self.certain = True

    def take_name(self, *, needed: bool = True) -> None:
        """Lock the name of the file, and write the note.

        Parameters
        ----------
        needed
            Whether it is an error if the folder cannot contain a note.

        Raises
        ------
        ConnectorError
            If another process has the lock, or a note is needed and cannot be written.
        """
        while not self._noted:
            try:
                descriptor = _open_note(self._note)
            except OSError as error:
                if not needed:
                    return
                raise ConnectorError(
                    f"cannot write {self._name}: {why(error)}. Check that its folder exists and is writable"
                ) from None
            self._take(descriptor, _holder_by_note)
            self._noted = _is_at(descriptor, self._note)  # else its writer has removed it between our two steps
            if not self._noted:
                os.close(self._descriptors.pop())
        with suppress(OSError):  # somebody else's, left by a crash: it can be locked, not written
            os.ftruncate(self._descriptors[-1], 0)
            os.pwrite(self._descriptors[-1], _ourselves().encode(errors="surrogateescape")[:MOST_BYTES], 0)

    def take_file(self, descriptor: int) -> None:
        """Lock the file itself, whatever its name.

        Raises
        ------
        ConnectorError
            If another process has the lock.
        """
        how = "under another name " if self._noted else ""
        self._take(os.dup(descriptor), lambda file: _holder_by_system(file, how))

    def release(self) -> None:
        """Release all locks, and remove the note. A second call does nothing."""
        with suppress(OSError):
            if self._noted and _is_at(self._descriptors[0], self._note):
                self._note.unlink()
        self._noted = False
        while self._descriptors:
            descriptor = self._descriptors.pop()
            with suppress(OSError):  # a child of ours may have it open, too
                fcntl.flock(descriptor, fcntl.LOCK_UN)
            os.close(descriptor)

    def _take(self, descriptor: int, holder_by: Callable[[int], str]) -> None:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if isinstance(error, BlockingIOError):
                holder = holder_by(descriptor)
                os.close(descriptor)
                raise InUse(
                    f"{self._name} is being written {holder}. Wait until it has ended, or stop it "
                    "(in one program: close what has it open), or give another name"
                ) from None
            self.certain, folder = False, str(self._note.parent)
            if folder not in _without:
                _without.add(folder)
                line = "%s cannot be locked (%s). Make sure that nothing else writes files of this folder"
                logger.warning(line, self._name, why(error))
        except BaseException:
            os.close(descriptor)
            raise
        self._descriptors.append(descriptor)


@contextmanager
def sole_writer(path: str | os.PathLike[str]) -> Iterator[None]:
    """Lock a file that is to be replaced, and remove unfinished files of a writer that died.

    Raises
    ------
    InUse
        If another process has the lock.
    ConnectorError
        If the file cannot be replaced.
    """
    if (reason := why_irreplaceable(path)) is not None:
        raise ConnectorError(f"{os.fspath(path)} {reason}")
    lock = Lock(path)
    lock.take_name()
    try:
        remove_unfinished(path)
        yield
    finally:
        lock.release()


def _open_note(path: Path) -> int:
    """Open a note for writing, or only for locking if another user owns it."""
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
    except PermissionError:
        if not path.exists():
            raise
        return os.open(path, os.O_RDONLY | os.O_NOFOLLOW)


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except OSError:
        return False


def _ourselves() -> str:
    since = datetime.now().astimezone().isoformat(sep=" ", timespec="seconds")
    return f"process {os.getpid()} on {platform.node()} since {since}: {' '.join(sys.argv)}"


def _holder_by_note(descriptor: int) -> str:
    try:
        note = _line(os.pread(descriptor, MOST_BYTES, 0))
    except OSError:
        note = ""
    return f"by {note}" if note else _holder_by_system(descriptor)  # it is being written just now


def _holder_by_system(descriptor: int, how: str = "") -> str:
    """Ask the system which process has locked a file, which works on Linux."""
    found = os.fstat(descriptor)
    place = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
    with suppress(OSError, ValueError):
        for line in Path("/proc/locks").read_text().splitlines():
            _, kind, _, _, number, where, *_ = line.split()
            if (kind, where) == ("FLOCK", place):
                command = Path("/proc", number, "cmdline").read_bytes().replace(b"\0", b" ")
                return f"{how}by " + _line(f"process {number} on {platform.node()}: ".encode() + command[:MOST_BYTES])
    return f"{how}by another process"


def _line(data: bytes) -> str:
    """Return untrusted data as one line of text."""
    return "".join(each if each.isprintable() else " " for each in data.decode(errors="replace")).strip()
