"""States of a group by name, and those in a folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol

from stream_osr.errors import PersistenceError
from stream_osr.support.atomic import write_whole

from ..stats import Activity


class StoreError(PersistenceError):
    """The topic or the URL failed. A later attempt may succeed."""


class GroupStates(Protocol):
    """States of a group. All methods raise PersistenceError if the states cannot be used.

    States of a partition have its number, and those of the whole group have the number 0.

    Attributes
    ----------
    where, described
        Place of the states, for messages, and its description for the start of the log.
    unknown
        Why further states may exist, empty if none can.
    """

    where: str
    described: str
    unknown: str = ""

    def refresh(self, *partitions: int) -> None:
        """Take notice of changes by other workers, for the group and these partitions, or for all."""
        return

    def names(self) -> list[str]:
        """Names of all states."""

    def read(self, name: str, partition: int = 0) -> bytes | None:
        """Return a state, or ``None`` if there is none."""

    def write(self, name: str, data: bytes, partition: int = 0) -> None:
        """Store a state. An existing one is replaced."""

    def drop(self, name: str, partition: int = 0) -> None:
        """Delete a state, if it exists."""

    def modified(self, name: str, partition: int = 0) -> float | None:
        """Return when a state was stored, in seconds since 1970, or ``None`` if this is unknown."""

    def close(self) -> None:
        """Close the connections. The default does nothing."""
        return


class FolderStates(GroupStates):
    """States in a folder that all workers of the group share.

    Parameters
    ----------
    folder
        Path of the folder.
    activity
        Activity of the thread that uses the states.
    """

    def __init__(self, folder: Path, activity: Activity | None = None) -> None:
        self.folder, self.where = folder, str(folder)
        self.described = f"folder {folder} alone, which all workers of the group must share"
        self._activity = Activity() if activity is None else activity

    def open(self) -> FolderStates:
        """Create the folder with access only for its owner. The rights of an existing folder do not change.

        Raises
        ------
        PersistenceError
            If the folder cannot be created or written.
        """
        try:
            with self._activity.doing(f"writing to {self.folder}"):
                self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                probe = self.folder / ".writable"
                probe.touch()
                probe.unlink(missing_ok=True)
        except OSError as error:
            raise PersistenceError(
                f"cannot write to the folder of the snapshots, {self.folder}: {error.strerror}. Set another as state"
            ) from None
        return self

    def names(self) -> list[str]:
        """List the files."""
        with self._explained("read", ""):
            return [each.name for each in os.scandir(self.folder) if each.is_file()]

    def read(self, name: str, partition: int = 0) -> bytes | None:
        """Read a file."""
        with self._explained("read", name), suppress(FileNotFoundError):
            return (self.folder / name).read_bytes()
        return None

    def write(self, name: str, data: bytes, partition: int = 0) -> None:
        """Write a file that appears only when it is complete."""
        with self._explained("write", name, ". Check that the folder has room, or set another as state"):
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_whole(self.folder / name, lambda file: file.write(data))

    def drop(self, name: str, partition: int = 0) -> None:
        """Delete a file."""
        with self._explained("delete", name):
            (self.folder / name).unlink(missing_ok=True)

    def modified(self, name: str, partition: int = 0) -> float | None:
        """Return the time of the file."""
        with suppress(OSError):
            return (self.folder / name).stat().st_mtime
        return None

    @contextmanager
    def _explained(self, action: str, name: str, remedy: str = "") -> Iterator[None]:
        path = self.folder / name
        try:
            with self._activity.doing(f"{action.removesuffix('e')}ing {path}"):
                yield
        except OSError as error:
            raise PersistenceError(f"cannot {action} {path}: {error.strerror}{remedy}") from None
