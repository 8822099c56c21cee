"""The records that archives hold, and what they are in memory.

What is written is said by ``records.table``, and where its type is. Where a record is not in memory what it is in
archives, field by field, two functions turn one into the other.
"""

from __future__ import annotations

from ast import literal_eval
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from stream_osr import engine
from stream_osr.archive.form import Kind
from stream_osr.archive.table import Row, read_table
from stream_osr.discovery import events, lives, reservoir
from stream_osr.ensemble.past import read, written
from stream_osr.model.location import CONJUGATE

FIRST, VERSION = 5, 6
"""The oldest format version that is read, and the one that is written: one more with every change that a release
before it would misread."""

RENAMED = {"Past": "Decided"}
"""Records that have another name in memory than in archives."""
_NAMED: dict[str, Any] = {"conjugate": CONJUGATE, "nothing told": engine.Telling()}
"""Defaults that are records."""


def stream_of(**fields: Any) -> engine.Stream:
    """Make a stream of its fields, the past being one of batches."""
    chains = fields["chains"]
    return engine.Stream(**{**fields, "past": read(fields["past"], len(chains), chains[0].known.prior.n_features)})


TO: Mapping[str, Callable[[Any], dict[str, Any]]] = {
    "Stream": lambda stream: {**stream._asdict(), "past": written(stream.past)},
    "Reservoir": lambda kept: {**kept._asdict(), "keys": tuple(kept.keys.tolist())},
    "Lifecycle": lambda life: {"subclasses": life.subclasses, "delta": life.delta},
}
"""Fields of a record that is something else in memory, by its name."""
OF: Mapping[str, Callable[..., Any]] = {
    "Stream": stream_of,
    "Reservoir": lambda keys, **columns: reservoir.Reservoir(keys=reservoir.objects(keys), **columns),
    "Lifecycle": lives.lifecycle,
}
"""The record, of its fields."""


def _kind(name: str, row: Row) -> Kind:
    defaults = {field: _NAMED[text] if text in _NAMED else literal_eval(text) for field, text in row.defaults.items()}
    kind = getattr(import_module(f"stream_osr.{row.module}"), RENAMED.get(name, name))
    return Kind(name, kind, row.since, TO.get(name), OF.get(name), row.letters, row.rules, defaults)


ROWS = read_table(FIRST)
RECORDS = {name: _kind(name, row) for name, row in ROWS.items() if name[0].isupper()}
BY_TYPE = {kind.type: kind for kind in RECORDS.values()}
EVENTS = [name for name, kind in RECORDS.items() if issubclass(kind.type, events.Event)]
