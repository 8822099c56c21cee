"""Files that are written completely or not at all.

They are private, and on the disk when they appear.
"""

from __future__ import annotations

import fcntl
import os
import re
import secrets
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO


def write_whole(path: str | os.PathLike[str], write: Callable[[BinaryIO], object]) -> None:
    """Write a file under a name that appears only when the file is complete.

    The call replaces an existing file. A new file is private (:func:`private`). A replaced file keeps its
    permissions, and its owner and group where the system allows it. A symbolic link stays a link and points to the
    new file.

    Parameters
    ----------
    path
        Path of the file.
    write
        Function that writes to the open file.

    Raises
    ------
    OSError
        If the file cannot be written. The existing file is then untouched, and no other file is left.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "model")
    ...     write_whole(path, lambda file: file.write(b"content"))
    ...     path.read_bytes(), oct(stat.S_IMODE(path.stat().st_mode))
    (b'content', '0o600')
    """
    target = Path(os.path.realpath(path))
    while True:
        temporary = target.with_name(f".{target.name}.{secrets.token_hex(8)}")
        file = open(temporary, "xb", opener=private)  # noqa: SIM115  # that of Path takes no opener
        with suppress(OSError):  # not every file system can
            fcntl.flock(file, fcntl.LOCK_EX)
        if temporary.exists():
            break
        file.close()  # removed as an unfinished one, between the two steps
    try:
        with file:
            write(file)
            file.flush()
            _keep_rights(file.fileno(), target)
            os.fsync(file.fileno())
        temporary.replace(target)
        flush_folder(target.parent)
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)  # it is still there when something went wrong


def remove_unfinished(path: str | os.PathLike[str]) -> None:
    """Remove unfinished files that killed processes left beside a file.

    A file that is being written is locked and stays.
    """
    target = Path(os.path.realpath(path))
    left = re.compile(re.escape(f".{target.name}.") + "[0-9a-f]{16}")
    with suppress(OSError):
        for each in [each for each in target.parent.iterdir() if left.fullmatch(each.name)]:
            with suppress(OSError):
                descriptor = os.open(each, os.O_RDONLY | os.O_NOFOLLOW)
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    each.unlink()
                finally:
                    os.close(descriptor)


def why_irreplaceable(path: str | os.PathLike[str]) -> str | None:
    """Return why a path cannot be replaced by a file. ``None``: it is a file, or does not exist.

    >>> why_irreplaceable("/dev/null")
    'is a device or a pipe, which cannot be replaced. Give the name of a file'
    """
    try:
        mode = os.stat(path).st_mode  # noqa: PTH116  # a path may be text
    except (OSError, ValueError):
        return None  # whatever it is, writing says so
    if stat.S_ISDIR(mode):
        return "is a folder. Give the name of a file in it"
    if not stat.S_ISREG(mode):
        return "is a device or a pipe, which cannot be replaced. Give the name of a file"
    return None


def private(path: str, open_flags: int) -> int:
    """Open a file as an opener of `open`. A new file is readable by its owner only.

    In a folder that passes on its group (``chmod g+s``), the group may read and write it as well.
    """
    shared = os.stat(os.path.dirname(path) or os.curdir).st_mode & stat.S_ISGID  # noqa: PTH116, PTH120
    return os.open(path, open_flags, 0o660 if shared else 0o600)


def flush_folder(folder: str | os.PathLike[str]) -> None:
    """Flush the names of the files to the disk. Otherwise a power failure may restore the old folder."""
    with suppress(OSError):  # not every file system can
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _keep_rights(descriptor: int, target: Path) -> None:
    """Copy the permissions of the file that is about to be replaced."""
    try:
        before = target.stat()
    except OSError:
        return  # there is none
    mode = stat.S_IMODE(before.st_mode) & 0o777
    with suppress(OSError):  # only root may give a file away
        os.fchown(descriptor, before.st_uid, -1)
    try:
        os.fchown(descriptor, -1, before.st_gid)
    except OSError:
        mode &= ~stat.S_IRWXG  # the rights of a group that it does not have
    with suppress(OSError):  # some file systems know no rights
        os.fchmod(descriptor, mode)
