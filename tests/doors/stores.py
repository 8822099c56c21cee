"""What tests use of the stores of states."""

from __future__ import annotations

from stream_osr.state_store import FolderStore, StateStore, StoredState, UrlStore, newest
