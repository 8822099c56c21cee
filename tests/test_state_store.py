"""One set of tests over all stores of states."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from stream_osr.errors import PersistenceError
from stream_osr.support.state_store import FolderStore, StateStore, StoredState, UrlStore, newest

OpenStore = Callable[[], StateStore]
"""Opens the same store again, as another process does."""


@pytest.fixture(params=["folder", "quick folder", "memory", "file"])
def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> OpenStore:
    if "folder" in request.param:
        return partial(FolderStore, tmp_path / "states", durable=request.param == "folder")
    url = f"memory://{uuid.uuid4().hex}/states" if request.param == "memory" else (tmp_path / "states").as_uri()
    return partial(UrlStore, url)


NAMES = ["pump 1", "a/b", "..", ".", "line-00000000000000000001", "ü\N{SNOWMAN}", "%2F", "x" * 60]


def test_states_are_returned_as_they_were_stored(open_store: OpenStore) -> None:
    store = open_store()
    for at, name in enumerate(NAMES):
        store.put(StoredState(name, at), name.encode() * 100_000)
        store.put(StoredState(name, at + 20), b"")
    whole = sorted(StoredState(name, at + more) for at, name in enumerate(NAMES) for more in (0, 20))
    for each in (store, open_store()):
        assert each.states() == whole
        for at, name in enumerate(NAMES):
            first, second = StoredState(name, at), StoredState(name, at + 20)
            assert each.get(first) == each.get(first) == name.encode() * 100_000
            assert newest(each, name) == second
            assert each.get(second) == b""
        assert each.states(positions=[0, 3, 23]) == [state for state in whole if state.position in (0, 3, 23)]
        assert each.states(NAMES[3], [0, 23]) == [StoredState(NAMES[3], 23)]
        assert not any(each.take_changes())
        each.close()


def test_a_state_is_replaced_and_deleted(open_store: OpenStore) -> None:
    store, other = open_store(), open_store()
    state = StoredState("pump 1", 64)
    assert (store.get(state), newest(store, "pump 1"), store.states()) == (None, None, [])
    store.put(state, b"first")
    assert other.get(state) == b"first"
    store.put(state, b"second")
    assert other.states() == [state]
    assert store.get(state) == other.get(state) == b"second"
    assert abs((store.modified(state) or time.time()) - time.time()) < 60
    store.drop(state)
    store.drop(state)
    assert (store.get(state), store.states(), store.modified(state)) == (None, [], None)
    assert (other.states(), other.get(state)) == ([], None)
    store.close()
    other.close()


def test_other_files_are_left_alone(tmp_path: Path) -> None:
    folder = tmp_path / "states"
    store = FolderStore(folder)
    (folder / "notes.txt").write_text("mine")
    (folder / f".pump-{7:020}.osr.{'0' * 16}").write_text("unfinished")
    assert FolderStore(folder).states() == store.states() == []
    assert [each.name for each in folder.iterdir()] == ["notes.txt"]


def test_a_folder_that_cannot_be_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(PersistenceError, match=r"cannot create the folder .*file/states: Not a directory"):
        FolderStore(tmp_path / "file" / "states")
    with pytest.raises(PersistenceError, match="cannot use nosuch://"):
        UrlStore("nosuch://x")
