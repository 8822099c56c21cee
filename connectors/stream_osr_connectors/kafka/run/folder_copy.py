"""The folder of this machine as a copy of states that are in a topic or below a URL.

A thread writes the files, so that a slow or full disk does not delay decisions. If the store loses states, they are
published again from the copy.
"""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from pathlib import Path

from stream_osr.support.atomic import write_whole

from ..stats import StorageStats

RETRY_SECONDS = 10.0
"""Seconds before the next attempt after a failure."""

MOST_WAITING = 128 << 20
"""Bytes of states that wait to be written. Beyond it the oldest are given up, because newer ones replace them."""

CLOSE_SECONDS = 2.0
"""Seconds that opening and closing wait for the disk."""


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
        self._folder, self._storage = folder, storage
        self._waiting: dict[str, bytes | None] = {}  # content of each file, None if it is to be deleted
        self._changed = threading.Condition()
        self._closing = False
        self._thread: threading.Thread | None = None

    def names(self) -> list[str]:
        """Names of the files, nothing if the folder cannot be read or its disk hangs."""
        found: list[str] = []

        def read() -> None:
            with suppress(OSError):
                found.extend(path.name for path in self._folder.iterdir() if path.is_file())

        reading = threading.Thread(target=read, name="folder copy, names", daemon=True)
        reading.start()
        reading.join(CLOSE_SECONDS)
        return [*found]

    def write(self, name: str, data: bytes) -> None:
        """Let the thread write a file, unless the file is equal."""
        self._put(name, data)

    def drop(self, name: str) -> None:
        """Let the thread delete a file."""
        self._put(name, None)

    def read(self, name: str) -> bytes | None:
        """Return the content of a file that is written or waits, ``None`` if there is none."""
        with self._changed:
            if name in self._waiting:
                return self._waiting[name]
        with suppress(OSError):
            return (self._folder / name).read_bytes()
        return None

    def modified(self, name: str) -> float | None:
        """Return when a file was written, in seconds since 1970, or ``None``."""
        with suppress(OSError):
            return (self._folder / name).stat().st_mtime
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
            sizes = {each: len(content or b"") for each, content in self._waiting.items()}
            excess = sum(sizes.values()) - MOST_WAITING
            for each, size in sizes.items():
                if excess > 0 and size and each != name:
                    del self._waiting[each]
                    excess -= size
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
        path = self._folder / name
        self._storage.copying = f"{'deleting' if data is None else 'writing'} {name}", time.monotonic()
        try:
            if data is None:
                path.unlink(missing_ok=True)
            elif not path.exists() or path.read_bytes() != data:
                self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                write_whole(path, lambda file: file.write(data))
        except OSError as error:
            self._storage.failure = f"cannot write to {self._folder}: {error.strerror}"
            self._storage.failures += 1
            return False
        finally:
            self._storage.copying = None
        with self._changed:
            if name in self._waiting and self._waiting[name] is data:
                del self._waiting[name]
            self._storage.behind = len(self._waiting)
            if not self._waiting:
                self._storage.failure = ""
        return True
