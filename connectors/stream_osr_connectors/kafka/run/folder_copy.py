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
"""Seconds that opening and closing wait for the disk."""


class FolderCopy(FolderStates):
    """Copy of states in a folder, which a thread writes when it can.

    Parameters
    ----------
    folder
        Path of the folder. The thread creates it with access only for its owner.
    storage
        Statistics to update.
    """

    def __init__(self, folder: Path, storage: StorageStats) -> None:
        super().__init__(folder, storage.copying)
        self._storage = storage
        self._waiting: dict[str, bytes | None] = {}  # content of each file, None if it is to be deleted
        self._changed = threading.Condition()
        self._closing = False
        self._thread: threading.Thread | None = None

    def names(self) -> list[str]:
        """Names of the files, nothing if the folder cannot be read or its disk hangs."""
        found: list[str] = []

        def read() -> None:
            with suppress(PersistenceError):
                found.extend(super(FolderCopy, self).names())

        reading = threading.Thread(target=read, name="folder copy, names", daemon=True)
        reading.start()
        reading.join(CLOSE_SECONDS)
        return [*found]

    def write(self, name: str, data: bytes, partition: int = 0) -> None:
        """Let the thread write a file, unless the file is equal."""
        self._put(name, data)

    def drop(self, name: str, partition: int = 0) -> None:
        """Let the thread delete a file."""
        self._put(name, None)

    def read(self, name: str, partition: int = 0) -> bytes | None:
        """Return the content of a file that is written or waits, ``None`` if there is none or it cannot be read."""
        with self._changed:
            if name in self._waiting:
                return self._waiting[name]
        with suppress(PersistenceError):
            return super().read(name)
        return None

    def close(self) -> None:
        """End the thread. It has some seconds for the files that wait."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(CLOSE_SECONDS)

    def _put(self, name: str, data: bytes | None) -> None:
        with self._changed:
            self._waiting.pop(name, None)
            self._waiting[name] = data
            while len(self._waiting) > 1 and sum(len(each or b"") for each in self._waiting.values()) > MOST_WAITING:
                del self._waiting[next(iter(self._waiting))]
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
                super().drop(name)
            elif super().read(name) != data:
                super().write(name, data)
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
