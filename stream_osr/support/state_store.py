"""Stores of stream states: bytes by name and position, in a folder or on any file system of ``fsspec``."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, Protocol
from urllib.parse import quote, unquote

from stream_osr.errors import MissingExtra, PersistenceError
from stream_osr.support.atomic import remove_unfinished, write_whole

_FILE = re.compile(r"(?P<name>.+)-(?P<position>\d{20})\.osr")

_UNFINISHED = re.compile(r"\.(?P<name>.+)\.[0-9a-f]{16}")


class StoredState(NamedTuple):
    """Name of a state in a store.

    Attributes
    ----------
    name
        Name of the stream, for example a key.
    position
        Position in the stream at which the state was taken, from 0.
    """

    name: str
    position: int

    @property
    def file_name(self) -> str:
        """Name of the state's file.

        >>> StoredState("line 3/a", 128).file_name
        'line%203%2Fa-00000000000000000128.osr'
        """
        return f"{quote(self.name, safe='').replace('.', '%2E')}-{self.position:020}.osr"

    @classmethod
    def of_file(cls, name: str) -> StoredState | None:
        """Parse the name of a file, or return ``None``.

        >>> StoredState.of_file("line%203%2Fa-00000000000000000128.osr")
        StoredState(name='line 3/a', position=128)
        """
        found = _FILE.fullmatch(name)
        return None if found is None else cls(unquote(found["name"]), int(found["position"]))


class StoreChanges(NamedTuple):
    """Changes of a store: states that it lost, and states that another process dropped."""

    lost: set[StoredState]
    dropped: set[StoredState]


class StateStore(Protocol):
    """Store of states. A state is complete or absent. All methods raise PersistenceError if the store fails.

    A store derives from this class and implements `put`, `get`, `states` and `drop`.
    """

    def put(self, state: StoredState, data: bytes) -> None:
        """Store a state. An existing one of this name and position is replaced."""

    def get(self, state: StoredState) -> bytes | None:
        """Return a state, or ``None`` if it is absent."""

    def states(self, name: str | None = None, positions: Collection[int] | None = None) -> list[StoredState]:
        """List the states of a stream or of all, at some positions or at all, by name and position."""

    def drop(self, state: StoredState) -> None:
        """Delete a state, if it exists."""

    def modified(self, state: StoredState) -> float | None:
        """Return when a state was stored, in seconds since 1970, or ``None`` if the store does not know it."""
        return None

    def take_changes(self) -> StoreChanges:
        """Return the changes that the store has noticed since the last call. A simple store notices none."""
        return StoreChanges(set(), set())

    def close(self) -> None:
        """Close the connections, if the store has any."""
        return


def newest(store: StateStore, name: str) -> StoredState | None:
    """Return the newest state of a stream, or ``None``."""
    return max(store.states(name), default=None)


class FolderStore(StateStore):
    """Store in a folder of this machine, with a file for each state.

    Parameters
    ----------
    folder
        Path of the folder. It is created with access only for its owner.
    durable
        Whether a stored state survives a crash of the machine. Otherwise writing is faster.

    Examples
    --------
    >>> import tempfile
    >>> store = FolderStore(tempfile.mkdtemp())
    >>> store.put(StoredState("line 3", 64), b"...")
    >>> newest(store, "line 3")
    StoredState(name='line 3', position=64)
    """

    def __init__(self, folder: str | os.PathLike[str], *, durable: bool = True) -> None:
        self.folder, self._durable = Path(folder), durable
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise PersistenceError(f"cannot create the folder {folder}: {error.strerror}. Give another one") from None
        for each in self.folder.iterdir():
            if unfinished := _UNFINISHED.fullmatch(each.name):
                remove_unfinished(self.folder / unfinished["name"])

    def put(self, state: StoredState, data: bytes) -> None:
        """Write a file that appears only when it is complete."""
        path = self.folder / state.file_name
        try:
            if self._durable:
                write_whole(path, lambda file: file.write(data))
            else:
                path.write_bytes(data)
        except OSError as error:
            raise PersistenceError(
                f"cannot write {path}: {error.strerror}. Check that the folder has room"
            ) from error

    def get(self, state: StoredState) -> bytes | None:
        """Read a file."""
        path = self.folder / state.file_name
        try:
            return path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise PersistenceError(f"cannot read {path}: {error.strerror}") from error

    def states(self, name: str | None = None, positions: Collection[int] | None = None) -> list[StoredState]:
        """List the files."""
        return _parsed([each.name for each in self.folder.iterdir()], name, positions)

    def drop(self, state: StoredState) -> None:
        """Delete a file."""
        try:
            (self.folder / state.file_name).unlink(missing_ok=True)
        except OSError as error:
            raise PersistenceError(f"cannot delete {state.file_name}: {error.strerror}") from error


class UrlStore(StateStore):
    """Store below a URL of any file system that ``fsspec`` knows, for example ``s3://bucket/states`` (extra ``url``).

    Object stores replace an object at once. On other file systems a state is written under another name first, and
    then renamed.

    Parameters
    ----------
    url
        URL of a folder.
    options
        Options of the file system, for example credentials.

    Raises
    ------
    MissingExtra
        If ``fsspec`` is not installed.
    PersistenceError
        If the URL cannot be used.

    Examples
    --------
    >>> store = UrlStore("memory://states")
    >>> store.put(StoredState("line 3", 64), b"...")
    >>> store.get(StoredState("line 3", 64))
    b'...'
    """

    def __init__(self, url: str, **options: Any) -> None:
        try:
            core = import_module("fsspec.core")
        except ImportError:
            raise MissingExtra("fsspec is not installed. Install it with pip install 'stream-osr[url]'") from None
        self.url = url
        try:
            self._files, self._folder = core.url_to_fs(url, **options)
            self._files.makedirs(self._folder, exist_ok=True)
        except Exception as error:  # each file system has its own errors
            raise PersistenceError(f"cannot use {url} ({error}). Check the address and the access rights") from error

    def put(self, state: StoredState, data: bytes) -> None:
        """Write a file under another name, and rename it."""
        path = f"{self._folder}/{state.file_name}"
        try:
            try:
                self._files.pipe_file(f"{path}.part", data)
            except FileNotFoundError:  # the folder was deleted
                self._files.makedirs(self._folder, exist_ok=True)
                self._files.pipe_file(f"{path}.part", data)
            self._files.mv(f"{path}.part", path)
        except Exception as error:
            raise PersistenceError(f"cannot write {state.file_name} to {self.url} ({error})") from error

    def get(self, state: StoredState) -> bytes | None:
        """Read a file."""
        try:
            found: bytes = self._files.cat_file(f"{self._folder}/{state.file_name}")
            return found
        except FileNotFoundError:
            return None
        except Exception as error:
            raise PersistenceError(f"cannot read {state.file_name} from {self.url} ({error})") from error

    def modified(self, state: StoredState) -> float | None:
        """Return the time of the file. Some file systems do not know it."""
        with suppress(Exception):  # each file system has its own errors
            found: float = self._files.modified(f"{self._folder}/{state.file_name}").timestamp()
            return found
        return None

    def states(self, name: str | None = None, positions: Collection[int] | None = None) -> list[StoredState]:
        """List the files."""
        try:
            self._files.invalidate_cache(self._folder)
            paths = self._files.ls(self._folder, detail=False)
        except FileNotFoundError:
            return []
        except Exception as error:
            raise PersistenceError(f"cannot list {self.url} ({error})") from error
        return _parsed([path.rpartition("/")[2] for path in paths], name, positions)

    def drop(self, state: StoredState) -> None:
        """Delete a file."""
        try:
            self._files.rm_file(f"{self._folder}/{state.file_name}")
        except FileNotFoundError:
            return
        except Exception as error:
            raise PersistenceError(f"cannot delete {state.file_name} from {self.url} ({error})") from error


def _parsed(files: list[str], name: str | None, positions: Collection[int] | None) -> list[StoredState]:
    return selected((state for file in files if (state := StoredState.of_file(file)) is not None), name, positions)


def selected(states: Iterable[StoredState], name: str | None, positions: Collection[int] | None) -> list[StoredState]:
    """Select states for :meth:`StateStore.states`."""
    return sorted(
        state
        for state in states
        if (name is None or state.name == name) and (positions is None or state.position in positions)
    )
