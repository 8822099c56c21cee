"""One set of tests over all stores of states."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from tests.doors.library import PersistenceError
from tests.doors.stores import FolderStore, StateStore, StoredState, UrlStore, newest


@pytest.fixture(params=["folder", "quick folder", "memory", "file"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> StateStore:
    if "folder" in request.param:
        return FolderStore(tmp_path / "states", durable=request.param == "folder")
    if request.param == "memory":
        return UrlStore(f"memory://{uuid.uuid4().hex}/states")
    return UrlStore((tmp_path / "states").as_uri())


NAMES = ["pump 1", "a/b", "..", ".", "line-00000000000000000001", "ü\N{SNOWMAN}", "%2F", "x" * 60]


def test_states_are_returned_as_they_were_stored(store: StateStore) -> None:
    for at, name in enumerate(NAMES):
        store.put(StoredState(name, at), name.encode() * 1000)
        store.put(StoredState(name, at + 20), b"")
    assert store.states() == sorted(StoredState(name, at + more) for at, name in enumerate(NAMES) for more in (0, 20))
    for at, name in enumerate(NAMES):
        assert store.get(StoredState(name, at)) == name.encode() * 1000
        assert newest(store, name) == StoredState(name, at + 20)
        assert store.get(StoredState(name, at + 20)) == b""


def test_a_state_is_replaced_and_deleted(store: StateStore) -> None:
    state = StoredState("pump 1", 64)
    assert (store.get(state), newest(store, "pump 1"), store.states()) == (None, None, [])
    store.put(state, b"first")
    store.put(state, b"second")
    assert store.get(state) == b"second"
    store.drop(state)
    store.drop(state)
    assert (store.get(state), store.states()) == (None, [])


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
