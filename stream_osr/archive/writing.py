"""Writing archives: numpy's ``.npz``, the entry ``manifest`` is JSON, the others are the arrays that it refers to."""

from __future__ import annotations

import json
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from stream_osr.archive.checking import check_records
from stream_osr.archive.container import MANIFEST
from stream_osr.archive.form import Form, Refused, form_of, numbered
from stream_osr.archive.records import BY_TYPE, VERSION
from stream_osr.atomic import remove_unfinished, why_irreplaceable, write_whole
from stream_osr.errors import PersistenceError, RefusedState
from stream_osr.showing import printable
from stream_osr.trained import TrainedModel

FORMAT = "stream-osr"


class _Writer:
    """Turns forms into JSON trees and collects the arrays."""

    def __init__(self, beside: Any) -> None:
        self.arrays: dict[str, np.ndarray] = {}
        self._beside = {id(each): path for path, each in numbered(beside)}
        self._written: dict[int, int] = {}

    def tree(self, value: Any) -> Any:
        if id(value) in self._beside:
            return {"beside": self._beside[id(value)]}
        if id(value) in self._written:
            return {"same": self._written[id(value)]}
        if isinstance(value, np.ndarray):
            name = f"a{len(self.arrays)}"
            self.arrays[name] = value
            return self._shared(value, {"array": name})
        if isinstance(value, Form):
            values = {name: self.tree(each) for name, each in value.values.items()}
            return self._shared(value, {"record": value.name, "values": values})
        if isinstance(value, tuple | list):
            return {type(value).__name__: [self.tree(each) for each in value]}
        if isinstance(value, dict):
            return {"dict": [[self.tree(key), self.tree(each)] for key, each in value.items()]}
        return value

    def _shared(self, value: Any, tree: dict[str, Any]) -> dict[str, Any]:
        self._written[id(value)] = len(self._written)
        return {**tree, "number": self._written[id(value)]}


def write_archive(path: str | PathLike[str], kind: str, content: Any, beside: Any = ()) -> None:
    """Write a value under a name that appears only when it is complete; a new file is its owner's alone.

    Parameters
    ----------
    path, kind
        Where it goes, and what it is called in there.
    content
        The value.
    beside
        A value that whoever reads the file has, too: of its arrays and records only the places are written.

    Raises
    ------
    PersistenceError
        If a value cannot be saved or the file cannot be written; what stood there before is untouched.
    RefusedState
        If it would be refused when it is read.
    """
    target = Path(path)
    if (reason := why_irreplaceable(target)) is not None:
        raise PersistenceError(f"{target} {reason}")
    known: dict[int, tuple[Any, Any]] = {}
    writer = _Writer(form_of(beside, BY_TYPE, known))
    form = form_of(content, BY_TYPE, known)
    tree = writer.tree(form)
    try:
        check_records(form)
    except Refused as refused:
        raise RefusedState(
            f"{target} is not written: {printable(str(refused))}. It could not be read again, so what stood there "
            "stays. This is a defect of stream-osr, please report it; go on from the earlier copy"
        ) from None
    manifest = {"format": FORMAT, "version": VERSION, "kind": kind, "content": tree}
    arrays = {MANIFEST: np.array(json.dumps(manifest)), **writer.arrays}
    try:
        write_whole(target, lambda file: np.savez(file, allow_pickle=False, **arrays))
    except OSError as error:
        raise PersistenceError(
            f"cannot write {target}: {error.strerror or error}; check that the folder exists and has room"
        ) from error


def save_trained(trained: TrainedModel, path: str | PathLike[str]) -> None:
    """Write the trained part alone, to be shared by several recognizers."""
    remove_unfinished(path)
    write_archive(path, "trained model", trained)
