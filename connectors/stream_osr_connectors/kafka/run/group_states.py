"""States of a group by name: snapshots, models, the journal of the models, and the ids of the inputs.

They are files of a folder that all machines share, or they are in a topic or below a URL. With a topic or URL, the
folder of each machine is only a copy (:mod:`.folder_copy`). A partition continues on another machine, and a machine
that is lost with its disk loses nothing.
"""

from __future__ import annotations

from urllib.parse import quote

from stream_osr.errors import PersistenceError
from stream_osr.support.state_store import StateStore, StoreChanges, StoredState, UrlStore

from ..log import Seldom, logger
from ..settings import ServiceSettings
from ..stats import StorageStats
from .folder_copy import FolderCopy
from .folder_states import FolderStates, GroupStates, StoreError
from .topic_store import TopicStore

_CONSTANT = (".osr", ".model")
"""Endings of states that never change. Only these are deleted.

If another state is gone, the store has lost states, and has not dropped them.
"""


class PublishedStates(GroupStates):
    """States in a topic or below a URL, with a copy in the folder of this machine.

    Parameters
    ----------
    store
        Store of the group.
    copy
        Folder of this machine.
    where
        Place of the store, for messages.
    storage
        Statistics to update.
    """

    def __init__(self, store: StateStore, copy: FolderCopy, where: str, storage: StorageStats) -> None:
        self.where, self._store, self._copy, self._loop = where, store, copy, storage.loop
        self.described = f"{where}, with a copy in {storage.place[1]}"
        self._known: set[StoredState] = set()
        self._lost: set[StoredState] = set()  # to be published again
        self._copied: set[str] = set()
        self._seldom = Seldom()

    def refresh(self, *partitions: int) -> None:
        """Read new records of the topic, or the list of states below the URL.

        Raises
        ------
        ConnectorError
            If the topic does not exist.
        ClientError
            If the brokers do not answer.
        PersistenceError
            If the store fails.
        """
        names = self._copy.names()
        self._copied = self._copied if names is None else names
        self.unknown = f"the folder cannot be read: {self.described}" if names is None else ""
        positions = {0, *partitions} if partitions else None
        with self._loop.doing(f"reading {self.where}"):
            stored = {state for state in self._store.states(positions=positions) if _is_file(state.name)}
            gone = {state for state in self._known if positions is None or state.position in positions} - stored
            changes = self._store.take_changes()
            if any(not state.name.endswith(_CONSTANT) for state in gone):
                changes.lost.update(self._known.difference(self._store.states()))
        changes.dropped.update(gone - changes.lost)  # by another worker
        self._known |= stored
        self._follow(changes)

    def names(self) -> list[str]:
        """Names of the states that the store or the copy has."""
        return sorted({state.name for state in self._known} | self._copied)

    def read(self, name: str, partition: int = 0) -> bytes | None:
        """Return a state from the store.

        A state that only the copy has is published, too. It is of an earlier run without topic and URL, or the store
        has lost it.
        """
        state = StoredState(name, partition)
        try:
            with self._loop.doing(f"reading {name} of {self.where}"):
                data = self._store.get(state)
        except PersistenceError as error:
            raise StoreError(str(error)) from None
        if data is not None:
            self._take(state, data)
        elif name in self._copied and (data := self._copy.read(name)) is not None:
            self._lost.add(state)
            self._publish_lost()
        return data

    def write(self, name: str, data: bytes, partition: int = 0) -> None:
        """Publish a state, and let the thread copy it."""
        state = StoredState(name, partition)
        with self._loop.doing(f"writing {name} to {self.where}"):
            self._store.put(state, data)
        self._take(state, data)
        self._follow(self._store.take_changes())

    def drop(self, name: str, partition: int = 0) -> None:
        """Delete a state from the store and from the copy."""
        state = StoredState(name, partition)
        with self._loop.doing(f"deleting {name} from {self.where}"):
            self._store.drop(state)
        self._forget(state)

    def modified(self, name: str, partition: int = 0) -> float | None:
        """Return when a state was published, or when it was copied if only the copy has it."""
        state = StoredState(name, partition)
        return self._store.modified(state) if state in self._known else self._copy.modified(name)

    def close(self) -> None:
        """Close the store, and wait a short time for the copy."""
        self._store.close()
        self._copy.close()

    def _take(self, state: StoredState, data: bytes) -> None:
        self._known.add(state)
        self._copied.add(state.name)
        self._copy.put(state.name, data)

    def _forget(self, state: StoredState) -> None:
        self._known.discard(state)
        self._copied.discard(state.name)
        self._copy.put(state.name, None)

    def _follow(self, changes: StoreChanges) -> None:
        """Delete dropped states from the copy, and publish lost ones again."""
        for state in changes.dropped:
            if _is_file(state.name):
                self._forget(state)
        self._known -= changes.lost
        self._lost = (self._lost | {state for state in changes.lost if _is_file(state.name)}) - self._known
        self._publish_lost()

    def _publish_lost(self) -> None:
        """Publish states again that the store does not have. If this fails, it is repeated with the next state."""
        done = []
        for state in sorted(self._lost):
            if (data := self._copy.read(state.name)) is not None:
                try:
                    with self._loop.doing(f"writing {state.name} to {self.where}"):
                        self._store.put(state, data)
                except PersistenceError as error:
                    self._seldom.say("lost", f"{self.where} has lost states, which wait for it: {error}")
                    break
                self._known.add(state)
                done.append(state.name)
            self._lost.discard(state)
        if done:
            text = "%s has lost states. Number of states published again: %d (%s)"
            logger.warning(text, self.where, len(done), ", ".join(done[:3]))


def _is_file(name: str) -> bool:
    """Return whether a state can be a file of the folder. Other programs may have written any name."""
    return "/" not in name and not name.startswith(".")


def open_states(settings: ServiceSettings, storage: StorageStats | None = None) -> GroupStates:
    """Open the states of a group.

    Raises
    ------
    MissingExtra
        If the states are below a URL and ``fsspec`` is not installed.
    PersistenceError
        If the folder or the URL cannot be used.
    """
    storage = StorageStats() if storage is None else storage
    folder = settings.state / settings.group
    if settings.state_topic is None and settings.state_url is None:
        return FolderStates(folder, storage.loop).open()
    store: StateStore
    if settings.state_topic is not None:
        store, where = TopicStore(settings, settings.state_topic), f"topic {settings.state_topic}"
    else:
        where = f"{str(settings.state_url).rstrip('/')}/{quote(settings.group, safe='')}"
        with storage.loop.doing(f"opening {where}"):
            store = UrlStore(where)
    storage.place = where, str(folder)
    return PublishedStates(store, FolderCopy(folder, storage), where, storage)
