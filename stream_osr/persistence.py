"""Saving and loading: an archive of arrays and a JSON manifest. Nothing in it is executed.

The file is numpy's ``.npz``: the entry ``manifest`` is JSON, the others are the arrays that it refers to. Values
are plain ones, arrays, and the record types named in ``_RECORDS``; a record that occurs twice is written once.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import fields
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from stream_osr import engine
from stream_osr.atomic import why_irreplaceable, write_whole
from stream_osr.decision import Decision
from stream_osr.discovery import drift, events, life, lives, rate, reservoir, signals
from stream_osr.engine.written import OF, TO
from stream_osr.errors import PersistenceError
from stream_osr.model import (
    background,
    dishes,
    franchise,
    known,
    location,
    marginal,
    naming,
    prior,
    regroup,
    restaurant,
    space,
    terms,
)
from stream_osr.showing import printable
from stream_osr.trained import TrainedModel, TrainingReport
from stream_osr.trust import balance, odds, recall, references

FORMAT = "stream-osr"
VERSION = 5

_RECORDS: dict[str, type[Any]] = {
    record.__name__: record
    for record in (
        prior.Prior,
        dishes.Dishes,
        franchise.Franchise,
        franchise.Guests,
        known.Known,
        known.Densities,
        location.Location,
        space.Space,
        restaurant.StreamState,
        terms.Terms,
        lives.Lifecycle,
        life.Subclass,
        life.Member,
        reservoir.Reservoir,
        marginal.Statistics,
        regroup.Aside,
        events.Moment,
        events.Explanation,
        events.SubclassEmerged,
        events.SubclassGrew,
        events.SubclassDormant,
        events.SubclassRecurred,
        events.SubclassMerged,
        events.SubclassSplit,
        events.SubclassForgotten,
        events.NewClassesChanged,
        events.SubclassRefuted,
        events.RecallDropped,
        events.UnknownRateJumped,
        events.EventsSummed,
        events.Movement,
        events.ClassDrifted,
        drift.Drift,
        rate.UnknownRate,
        signals.Signals,
        events.SubclassPromoted,
        events.SubclassMuted,
        events.NamingUndone,
        engine.Arrived,
        engine.Evidence,
        engine.Waiting,
        engine.Chain,
        engine.Guard,
        balance.Books,
        balance.Shares,
        recall.Called,
        references.References,
        background.Background,
        engine.Following,
        engine.Telling,
        engine.Labelling,
        engine.Promotion,
        engine.Muting,
        engine.Tables,
        naming.Seat,
        odds.Odds,
        engine.Stream,
        Decision,
        TrainingReport,
        TrainedModel,
    )
} | {"Past": engine.Decided}
_NAMES = {record: name for name, record in _RECORDS.items()}


class _Writer:
    """Turns values into JSON trees and collects the arrays."""

    def __init__(self, beside: Any = ()) -> None:
        self.arrays: dict[str, np.ndarray] = {}
        self._written: dict[int, int] = {}
        self._alive: list[Any] = []  # an id is only good while its object lives
        self.tree(beside)
        self.arrays.clear()

    @property
    def numbered(self) -> dict[int, Any]:
        """Arrays and records by their numbers."""
        return dict(enumerate(self._alive))

    def tree(self, value: Any) -> Any:
        if value is None or isinstance(value, bool | int | float | str):
            return value
        if isinstance(value, np.generic):
            return self.tree(value.item())
        if id(value) in self._written:
            return {"same": self._written[id(value)]}
        if isinstance(value, np.ndarray):
            name = f"a{len(self.arrays)}"
            self.arrays[name] = value
            return self._shared(value, {"array": name})
        kind = type(value)
        if kind in _NAMES:
            names = value._fields if hasattr(value, "_fields") else [f.name for f in fields(value)]
            held = TO[kind](value) if kind in TO else {name: getattr(value, name) for name in names}
            tree = {"record": _NAMES[kind], "values": {name: self.tree(v) for name, v in held.items()}}
            return self._shared(value, tree)
        if isinstance(value, tuple | list):
            return {type(value).__name__: [self.tree(v) for v in value]}
        if isinstance(value, Mapping):
            return {"dict": [[self.tree(k), self.tree(v)] for k, v in value.items()]}
        raise PersistenceError(
            f"{value!r} of type {kind.__name__} cannot be saved; use str, int or float for keys, times and feature "
            "names"
        )

    def _shared(self, value: Any, tree: dict[str, Any]) -> dict[str, Any]:
        self._written[id(value)] = len(self._alive)
        self._alive.append(value)
        return {**tree, "number": self._written[id(value)]}


class _Reader:
    """Turns JSON trees back into values."""

    def __init__(self, arrays: Mapping[str, np.ndarray], beside: Any = ()) -> None:
        self._arrays = arrays
        self._read: dict[int, Any] = _Writer(beside).numbered

    def value(self, tree: Any) -> Any:
        if not isinstance(tree, dict):
            return tree
        if "same" in tree:
            return self._read[tree["same"]]
        out: Any
        if "array" in tree:
            out = self._arrays[tree["array"]]
        elif "record" in tree:
            name, held = tree["record"], {name: self.value(v) for name, v in tree["values"].items()}
            out = OF[name](held) if name in OF else _RECORDS[name](**held)
        elif "tuple" in tree:
            return tuple(self.value(v) for v in tree["tuple"])
        elif "list" in tree:
            return [self.value(v) for v in tree["list"]]
        else:
            return {self.value(k): self.value(v) for k, v in tree["dict"]}
        self._read[tree["number"]] = out
        return out


def write_archive(path: str | PathLike[str], kind: str, content: Any, beside: Any = ()) -> None:
    """Write a value under a name that appears only when it is complete; a new file is its owner's alone.

    Parameters
    ----------
    path, kind
        Where it goes, and what it is called in there.
    content
        The value.
    beside
        A value that whoever reads the file has, too: of its arrays and records only the numbers are written.

    Raises
    ------
    PersistenceError
        If a value cannot be saved or the file cannot be written; what stood there before is untouched.
    """
    target = Path(path)
    if (reason := why_irreplaceable(target)) is not None:
        raise PersistenceError(f"{target} {reason}")
    writer = _Writer(beside)
    manifest = {"format": FORMAT, "version": VERSION, "kind": kind, "content": writer.tree(content)}
    arrays = {"manifest": np.array(json.dumps(manifest)), **writer.arrays}
    try:
        write_whole(target, lambda file: np.savez(file, allow_pickle=False, **arrays))
    except OSError as error:
        raise PersistenceError(
            f"cannot write {target}: {error.strerror or error}; check that the folder exists and has room"
        ) from error


def read_archive(path: str | PathLike[str], kind: str, beside: Any = ()) -> Any:
    """Read what :func:`write_archive` wrote, beside the same value.

    Raises
    ------
    PersistenceError
        If the file is missing, damaged, of another kind or of another version, or holds more than its own size.
    """
    try:
        with Path(path).open("rb") as file, np.load(file, allow_pickle=False) as archive:
            unpacked = sum(entry.file_size for entry in archive.zip.infolist())
            if unpacked > (size := os.fstat(file.fileno()).st_size):  # nothing is compressed in what we write
                raise ValueError(f"{size} bytes would unpack to {unpacked}")
            arrays = {name: archive[name] for name in archive.files}
        manifest = json.loads(str(arrays["manifest"]))
        if manifest["format"] != FORMAT:
            raise KeyError("format")
        version, held, content = int(manifest["version"]), manifest["kind"], manifest["content"]
    except FileNotFoundError:
        raise PersistenceError(f"there is no file {path}; check the path") from None
    except IsADirectoryError:
        raise PersistenceError(f"{path} is a folder, not a saved model") from None
    except Exception as error:  # what a damaged archive can raise is anybody's guess
        if isinstance(error, OSError) and error.errno is not None:
            rights = "; it holds rows and is its owner's alone until somebody widens its rights"
            told = rights if isinstance(error, PermissionError) else ""
            raise PersistenceError(f"cannot read {path}: {error.strerror}{told}") from None
        raise PersistenceError(f"{path} is damaged, or not a saved stream-osr model; save it again") from error
    if version > VERSION:
        raise PersistenceError(
            f"{path} has format version {version}, this program reads up to {VERSION}; upgrade stream-osr"
        )
    if version < VERSION:
        raise PersistenceError(
            f"{path} has format version {version}, this program reads version {VERSION}; train "
            "the model anew, or go on with the release of stream-osr that wrote it"
        )
    if held != kind:
        raise PersistenceError(f"{path} holds a {printable(str(held), 60)}, not a {kind}")
    try:
        return _Reader(arrays, beside).value(content)
    except Exception as error:  # it may name any record, with anything for its fields
        raise PersistenceError(f"{path} is damaged: its manifest does not fit together; save it again") from error


def save_trained(trained: TrainedModel, path: str | PathLike[str]) -> None:
    """Write the trained part alone, to be shared by several recognizers."""
    write_archive(path, "trained model", trained)


def load_trained(path: str | PathLike[str]) -> TrainedModel:
    """Read a trained part."""
    trained: TrainedModel = read_archive(path, "trained model")
    return trained
