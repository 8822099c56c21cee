"""Identity of a file at a position: a hash of the content before that position."""

from __future__ import annotations

import hashlib
import os
from typing import BinaryIO

from stream_osr.errors import ConnectorError

from ..base import Position

HASHED = 4096
"""Bytes at the beginning and right before a position that identify a file."""

GZIP_MEMBER = b"\x1f\x8b"
"""First bytes of a gzip member."""


def identity_at(file: BinaryIO, offset: int) -> Position:
    """Return the identity of a file by its content before an offset, or nothing if the file cannot be read.

    At offset 0 the identity is the inode number.
    """
    if not file.readable():
        return {}
    if offset == 0:
        return {"inode": os.fstat(file.fileno()).st_ino}
    hashed = min(HASHED, offset)
    return {"hashed": hashed, "sha256": _digest(file, offset, hashed)}


def why_not(file: BinaryIO, position: Position, offset: int, *, compressed: bool) -> str | None:
    """Return why a position is not of a file, or ``None`` if everything that can be checked agrees.

    Raises
    ------
    ConnectorError
        If the position is not one of a file.
    OSError
        If the file cannot be read.
    """
    found = os.fstat(file.fileno())
    if offset > found.st_size:
        return f"has {found.st_size} bytes and cannot be cut to {offset}"
    if not file.readable():
        return None
    if offset == 0:
        other = found.st_size and position.get("inode", found.st_ino) != found.st_ino
        return f"has {found.st_size} bytes, and there was an empty file" if other else None
    if "sha256" not in position:
        return None if _may_end_at(file, offset, compressed) else f"has no end of a record at byte {offset}"
    hashed = position.get("hashed")
    if type(hashed) is not int or not 0 < hashed <= offset:
        raise ConnectorError(f"{dict(position)!r} is not a position of a file: 'hashed' should be a whole number")
    if _digest(file, offset, hashed) != position["sha256"]:
        return f"has other content before byte {offset} (its first or its last {hashed} bytes differ)"
    return None


def _digest(file: BinaryIO, offset: int, hashed: int) -> str:
    return hashlib.sha256(_read(file, 0, hashed) + _read(file, offset - hashed, hashed)).hexdigest()


def _may_end_at(file: BinaryIO, offset: int, compressed: bool) -> bool:
    """Return whether a flush may have ended at an offset."""
    if compressed:
        return _read(file, offset, 2) in (b"", GZIP_MEMBER)
    return _read(file, offset - 1, 1) == b"\n"


def _read(file: BinaryIO, offset: int, size: int) -> bytes:
    file.seek(offset)  # what is written is appended, wherever that is
    return file.read(size)
