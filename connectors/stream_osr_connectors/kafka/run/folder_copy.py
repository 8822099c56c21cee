"""The folder of this machine as a copy of states that are in a topic or below a URL.

A thread writes the files, so that a slow or full disk does not delay decisions. If the store loses states, they are
published again from the copy.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from pathlib import Path

from stream_osr.errors import PersistenceError

from ..stats import StorageStats
from .folder_states import FolderStates

RETRY_SECONDS = 10.0
"""Seconds before the next attempt after a failure."""

MOST_WAITING = 128 << 20
"""Bytes of states that wait to be written. Beyond it the oldest are given up, because newer ones replace them."""

CLOSE_SECONDS = 2.0
"""Seconds that closing waits for the disk."""


class FolderCopy:
    """Copy of states in a folder, which a thread writes when it can.

    Parameters
    ----------
    folder
        Path of the folder. The thread creates it with access only for its owner.
    storage
        Statistics to update.
    """

    def __init__(self, folder: Path, storage: StorageStats) -> None:
        self._files, self._own = FolderStates(folder, storage.copying), FolderStates(folder, storage.loop)
        self._storage = storage
        self._waiting: dict[str, bytes | None] = {}  # content of each file, None if it is to be deleted
        self._changed = threading.Condition()
        self._closing = False
        self._thread: threading.Thread | None = None

    def names(self) -> set[str] | None:
        """Names of the files, ``None`` if the folder cannot be read."""
        with self._changed:
            waiting = dict(self._waiting)
        try:
            there = self._own.names() if self._own.folder.exists() else []
        except PersistenceError:
            return None
        return {name for name in {*there, *waiting} if waiting.get(name, b"") is not None}

    def read(self, name: str) -> bytes | None:
        """Return the content of a file that is written or waits, ``None`` if there is none or it cannot be read."""
        with self._changed:
            if name in self._waiting:
                return self._waiting[name]
        with suppress(PersistenceError):
            return self._own.read(name)
        return None

    def modified(self, name: str) -> float | None:
        """Return when a file was written, in seconds since 1970, or ``None``."""
        return self._own.modified(name)

    def close(self) -> None:
        """End the thread. It has some seconds for the files that wait."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(CLOSE_SECONDS)

    def put(self, name: str, data: bytes | None) -> None:
        """Let the thread write a file, unless the file is equal, or delete it if there is no content."""
        with self._changed:
            self._waiting.pop(name, None)
            self._waiting[name] = data
            replaced = [each for each in self._waiting if each.endswith(".osr") and each != name]  # by newer ones
            while replaced and sum(len(each or b"") for each in self._waiting.values()) > MOST_WAITING:
                del self._waiting[replaced.pop(0)]
            self._storage.behind = len(self._waiting)
            if self._thread is None or not self._thread.is_alive():
                self._closing = False
                self._thread = threading.Thread(target=self._run, name="folder copy", daemon=True)
                self._thread.start()
            self._changed.notify()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._closing)
                waiting, failed = dict(self._waiting), False
            for name, data in sorted(waiting.items(), key=lambda each: each[1] is not None):  # deletions make room
                failed = not self._done(name, data) or failed
            with self._changed:
                if self._closing and (failed or not self._waiting):
                    return
                if failed:
                    self._changed.wait_for(lambda: self._closing, RETRY_SECONDS)

    def _done(self, name: str, data: bytes | None) -> bool:
        """Write or delete a file, and return whether this succeeded."""
        try:
            if data is None:
                self._files.drop(name)
            elif self._files.read(name) != data:
                self._files.write(name, data)
        except PersistenceError as error:
            self._storage.failure = str(error)
            return False
        with self._changed:
            if name in self._waiting and self._waiting[name] is data:
                del self._waiting[name]
            self._storage.behind = len(self._waiting)
            if not self._waiting:
                self._storage.failure = ""
        return True
