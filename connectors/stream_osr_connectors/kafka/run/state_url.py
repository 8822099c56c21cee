"""State below a URL: the files of a group's state folder in a file system of ``fsspec``, such as an object store.

Each machine then has another folder, which is only a copy, as with a topic (`state_log`). Files of snapshots and
models never change. All others are small, and each pull reads them.
"""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

from stream_osr.atomic import write_whole
from stream_osr.errors import PersistenceError
from stream_osr.state_store import StoredState, UrlStore

from ..log import logger
from ..settings import ServiceSettings
from .state_log import StateLog

_CONSTANT = (".osr", ".model")
"""Endings of files that never change."""


class StateUrl:
    """Copies files between a folder and a URL.

    Parameters
    ----------
    folder
        Folder of this machine.
    store
        Store of the group below the URL.
    """

    def __init__(self, folder: Path, store: UrlStore) -> None:
        self._folder, self._store = folder, store
        self._known: set[StoredState] = set()

    def pull(self, partition: int | None = None) -> int:
        """Read new files of a partition and of the group, or all files, into the folder.

        Returns
        -------
        The number of files that were written or deleted.

        Raises
        ------
        PersistenceError
            If the store fails, or a file cannot be written.
        """
        stored = self._store.states()
        wanted = (state for state in stored if partition is None or state.position in (0, partition))
        changed = sum(map(self._take, wanted))
        for state in sorted(self._known - set(stored)):
            self._known.discard(state)
            path = self._folder / state.name
            if state.name.endswith(_CONSTANT):  # another worker has dropped it
                changed += path.exists()
                path.unlink(missing_ok=True)
            elif path.exists():
                logger.warning("%s has lost %s, which is published again", self._store.url, state.name)
                self.put(*state)
        return changed

    def put(self, name: str, partition: int = 0) -> None:
        """Publish a file of the folder.

        Raises
        ------
        PersistenceError
            If the file cannot be read, or the store fails.
        """
        state = StoredState(name, partition)
        if state in self._known and name.endswith(_CONSTANT):
            return
        try:
            data = (self._folder / name).read_bytes()
        except OSError as error:
            raise PersistenceError(f"cannot read {self._folder / name}: {error.strerror}") from None
        self._store.put(state, data)
        self._known.add(state)

    def drop(self, name: str, partition: int = 0) -> None:
        """Delete a file from the store and from the folder.

        Raises
        ------
        PersistenceError
            If the store fails.
        """
        state = StoredState(name, partition)
        self._known.discard(state)
        (self._folder / name).unlink(missing_ok=True)
        self._store.drop(state)

    def close(self) -> None:
        """Do nothing. The store has no connection to close."""

    def _take(self, state: StoredState) -> int:
        """Take a file from the store, and return whether the folder has changed."""
        name, path = state.name, self._folder / state.name
        if "/" in name or name.startswith("."):  # no file of ours
            return 0
        self._known.add(state)
        if path.exists() and name.endswith(_CONSTANT):
            return 0
        data = self._store.get(state)
        if data is None or (path.exists() and path.read_bytes() == data):
            return 0
        try:
            write_whole(path, lambda file: file.write(data))
        except OSError as error:
            raise PersistenceError(f"cannot write {path}: {error.strerror}. Check that the folder has room") from None
        return 1


StateCopies = StateLog | StateUrl


def state_copies(settings: ServiceSettings, folder: Path) -> StateCopies | None:
    """Return what copies the files of a group's folder, or ``None`` if all machines share the folder.

    Raises
    ------
    MissingExtra
        If the state is below a URL and ``fsspec`` is not installed.
    PersistenceError
        If the URL cannot be used.
    """
    if settings.state_topic is not None:
        return StateLog(settings, folder, settings.state_topic)
    if settings.state_url is not None:
        return StateUrl(folder, UrlStore(f"{settings.state_url.rstrip('/')}/{quote(settings.group, safe='')}"))
    return None
