"""Copies of a group's states: the files of a folder in a topic or below a URL.

Each machine then has another folder, which is only a copy. A worker reads the files of a partition from the store
before it loads the partition, and publishes each file that it writes. So a partition continues on another machine,
and a machine that is lost with its disk loses nothing.

If the store loses states, a worker publishes the files that its folder still has.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

from stream_osr.errors import PersistenceError
from stream_osr.support.atomic import write_whole
from stream_osr.support.state_store import StateStore, StoreChanges, StoredState, UrlStore

from ..log import logger
from ..settings import ServiceSettings
from .topic_store import TopicStore

_CONSTANT = (".osr", ".model")
"""Endings of files that never change. Only these are deleted.

If another file is gone, the store has lost states, and has not dropped them.
"""


class StateCopies:
    """Copies files between a folder and a store.

    The name of a state is that of the file, and the position is the number of the partition. Files of the whole group
    have the position 0.

    Parameters
    ----------
    folder
        Folder of this machine.
    store
        Store of the group.
    where
        Place of the store, for the log.
    """

    def __init__(self, folder: Path, store: StateStore, where: str) -> None:
        self._folder, self._store, self._where = folder, store, where
        self._known: dict[StoredState, str] = {}  # digests of states that folder and store had in common

    def pull(self, partition: int | None = None) -> int:
        """Read new files of a partition and of the group, or all files, into the folder.

        Returns
        -------
        The number of files that were written or deleted.

        Raises
        ------
        ConnectorError
            If the topic does not exist.
        ClientError
            If the brokers do not answer.
        PersistenceError
            If the store fails, or a file cannot be written, or a lost one not published again.
        """
        positions = None if partition is None else {0, partition}
        stored = self._store.states(positions=positions)
        changed = sum(map(self._take, stored))
        gone = {state for state in self._known if positions is None or state.position in positions}.difference(stored)
        changes = self._store.take_changes()
        if any(not state.name.endswith(_CONSTANT) for state in gone):
            changes.lost.update(self._known.keys() - set(self._store.states()))
        changes.dropped.update(gone - changes.lost)  # by another worker
        return changed + self._follow(changes)

    def put(self, name: str, partition: int = 0) -> None:
        """Publish a file of the folder, unless the store has it.

        Raises
        ------
        PersistenceError
            If the file cannot be read, or the store fails.
        """
        path, state = self._folder / name, StoredState(name, partition)
        try:
            data = path.read_bytes()
        except OSError as error:
            raise PersistenceError(f"cannot read {path}: {error.strerror}") from None
        digest = hashlib.sha256(data).hexdigest()
        if self._known.get(state) != digest:
            self._store.put(state, data)
            self._known[state] = digest
            self._follow(self._store.take_changes())

    def drop(self, name: str, partition: int = 0) -> None:
        """Delete a file from the store and from the folder.

        Raises
        ------
        PersistenceError
            If the store fails.
        """
        state = StoredState(name, partition)
        self._known.pop(state, None)
        _removed(self._folder / name)
        self._store.drop(state)

    def close(self) -> None:
        """Close the store."""
        self._store.close()

    def _take(self, state: StoredState) -> int:
        """Take a state from the store, and return whether the folder has changed."""
        path, digest = self._folder / state.name, self._store.digest(state)
        if not _is_file(state.name):
            return 0
        constant = digest is None and state.name.endswith(_CONSTANT)
        known = self._known.get(state)
        if known is not None and (constant or known == digest) and path.exists():
            return 0
        here = digest_of(path)
        if here is not None and (constant or here == digest):
            self._known[state] = here
            return 0
        data = self._store.get(state)
        if data is None:
            return 0
        self._known[state] = hashlib.sha256(data).hexdigest()
        if self._known[state] == here:
            return 0
        try:
            write_whole(path, lambda file: file.write(data))
        except OSError as error:
            raise PersistenceError(f"cannot write {path}: {error.strerror}. Check that the folder has room") from None
        return 1

    def _follow(self, changes: StoreChanges) -> int:
        """Delete dropped files from the folder, publish lost ones again, and return the number of deleted files."""
        for state in changes.lost | changes.dropped:
            self._known.pop(state, None)
        removed = sum(_removed(self._folder / state.name) for state in changes.dropped if _is_file(state.name))
        again = sorted(state for state in changes.lost if (self._folder / state.name).exists())
        if again:
            names = ", ".join(state.name for state in again[:3])
            logger.warning(
                "%s has lost states. Number of files published again: %d (%s)", self._where, len(again), names
            )
        for state in again:
            self.put(*state)
        return removed


def _is_file(name: str) -> bool:
    """Return whether a state can be a file of the folder. Other programs may have written any name."""
    return "/" not in name and not name.startswith(".")


def _removed(path: Path) -> int:
    """Delete a file, and return whether it existed."""
    there = path.exists()
    path.unlink(missing_ok=True)
    return int(there)


def digest_of(path: Path) -> str | None:
    """Return the digest of a file, or ``None`` if it cannot be read."""
    with suppress(OSError), path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
    return None


def state_copies(settings: ServiceSettings, folder: Path) -> StateCopies | None:
    """Return what copies the files of a group's folder, or ``None`` if all machines share the folder.

    Raises
    ------
    MissingExtra
        If the state is below a URL and ``fsspec`` is not installed.
    PersistenceError
        If the URL cannot be used.
    """
    if (topic := settings.state_topic) is not None:
        return StateCopies(folder, TopicStore(settings, topic), f"topic {topic}")
    if settings.state_url is not None:
        url = f"{settings.state_url.rstrip('/')}/{quote(settings.group, safe='')}"
        return StateCopies(folder, UrlStore(url), url)
    return None
