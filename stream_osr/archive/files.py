"""Reading and writing of archive files: numpy's ``.npz``, uncompressed, with bounded memory.

The entry ``manifest`` is JSON, and the others are its arrays. A file is checked completely before any object is made
from it. A state that could not be read again is not written.
"""

from __future__ import annotations

import json
import math
import os
import stat
import zipfile
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

import numpy as np

from stream_osr.archive.checks import check_records, refusal_message
from stream_osr.archive.migrations import STEPS, bring_up
from stream_osr.archive.record import RecordForm, RefusedValue, form_of, in_memory, numbered
from stream_osr.archive.records import BY_TYPE, RECORDS, VERSION
from stream_osr.archive.rules import need
from stream_osr.atomic import remove_unfinished, why_irreplaceable, write_whole
from stream_osr.errors import PersistenceError, RefusedState
from stream_osr.model.jit import Array
from stream_osr.printable_text import brief, printable
from stream_osr.trained import TrainedModel

FORMAT = "stream-osr"
MANIFEST = "manifest"
DEEPEST = 100
"""Largest number of levels of a manifest. Typical ones have about twenty."""
PART = 1 << 20
"""Number of bytes to read at a time, so that an entry is in memory only once."""


class Archive(NamedTuple):
    """Content of a file: the manifest, and arrays by their names. The file itself is closed."""

    manifest: dict[str, Any]
    arrays: dict[str, Array]


class NoFile(Exception):  # the caller makes an error of it
    """Error for a path that is a device or a pipe."""


def open_archive(path: Path) -> Archive:
    """Read the manifest of a file, and its arrays.

    Raises
    ------
    NoFile
        If it is a device or a pipe, which might never end.
    RefusedValue, ValueError, OSError, zipfile.BadZipFile
        And any other error that a damaged file may cause.
    """
    if stat.S_ISCHR(mode := path.stat().st_mode) or stat.S_ISFIFO(mode):
        raise NoFile
    with path.open("rb") as file, zipfile.ZipFile(file) as packed:
        entries = packed.infolist()
        unpacked = sum(entry.file_size for entry in entries)
        if unpacked > (size := os.fstat(file.fileno()).st_size):
            raise ValueError(f"{size} bytes would unpack to {unpacked}")
        names = {entry.filename: entry for entry in entries}
        if len(names) < len(entries):
            raise ValueError("two entries have the same name")
        try:
            text = _read(packed, names, MANIFEST)
        except RefusedValue as refused:  # whatever it is, it is none of ours
            raise ValueError(str(refused)) from None
        if text.dtype.kind != "U" or text.shape:
            raise ValueError("the manifest is no text")
        written = str(text.item())
        del text  # four bytes a character
        manifest = json.loads(written)
        del written
        if not isinstance(manifest, dict):
            raise ValueError("the manifest is no mapping")
        wanted: set[str] = set()
        _find_arrays(manifest, wanted, 0)
        return Archive(manifest, {name: _read(packed, names, name) for name in sorted(wanted)})


def _find_arrays(tree: Any, wanted: set[str], depth: int) -> None:
    need(depth <= DEEPEST, "the manifest", f"more than {DEEPEST} levels deep", "a manifest of ours")
    if isinstance(tree, dict):
        if isinstance(name := tree.get("array"), str):
            wanted.add(name)
        tree = list(tree.values())
    if isinstance(tree, list):
        for each in tree:
            _find_arrays(each, wanted, depth + 1)


def _read(packed: zipfile.ZipFile, names: Mapping[str, zipfile.ZipInfo], name: str) -> Array:
    """Read an entry whose header matches its content."""
    entry = names.get(f"{name}.npy")
    if entry is None:
        raise RefusedValue(f"array {name}", "missing", "an entry of the file")
    stored = entry.compress_type == zipfile.ZIP_STORED and entry.compress_size == entry.file_size
    need(stored, f"array {name}", "compressed", "an entry that is stored as it is")
    with packed.open(entry) as stream:
        return _array(cast(BinaryIO, stream), entry.file_size, f"array {name}")


def _array(stream: BinaryIO, size: int, where: str) -> Array:
    version = np.lib.format.read_magic(stream)
    need(version in ((1, 0), (2, 0)), where, f"of npy version {version}", "1.0 or 2.0")
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, fortran, dtype = read(stream)
    need(dtype.kind in "biufU" and not dtype.hasobject, where, f"of {dtype}", "numbers")
    rest = size - stream.tell()
    fits = all(n >= 0 for n in shape) and math.prod(shape) * dtype.itemsize == rest
    need(fits, where, f"of shape {shape} in {rest} bytes", "as many bytes as its shape takes")
    content, at = memoryview(bytearray(rest)), 0
    while at < rest and (part := stream.read(min(rest - at, PART))):
        content[at : at + len(part)] = part
        at += len(part)
    need(at == rest, where, f"of {at} bytes", f"{rest}, as its header says")
    flat = np.frombuffer(content, dtype=dtype)
    return flat.reshape(shape[::-1]).T if fortran else flat.reshape(shape)


class _Writer:
    """Converter from forms to JSON trees, which collects the arrays."""

    def __init__(self, beside: Any) -> None:
        self.arrays: dict[str, Array] = {}
        self._beside = {id(each): path for path, each in numbered(beside)}
        self._written: dict[int, int] = {}

    def tree(self, value: Any) -> Any:
        if id(value) in self._beside:
            return {"beside": self._beside[id(value)]}
        if id(value) in self._written:
            return {"same": self._written[id(value)]}
        if isinstance(value, Array):
            name = f"a{len(self.arrays)}"
            self.arrays[name] = value
            return self._shared(value, {"array": name})
        if isinstance(value, RecordForm):
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
    """Write a value under a name that appears only when the file is complete. A new file is private.

    Parameters
    ----------
    path, kind
        Path of the file, and kind of the content.
    content
        Value to write.
    beside
        Value that the reader has too. Only references to its arrays and records are written.

    Raises
    ------
    PersistenceError
        If a value cannot be saved or the file cannot be written. The existing file is then untouched.
    RefusedState
        If the value fails the checks of reading.
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
    except RefusedValue as refused:
        raise RefusedState(
            f"{target} is not written: {printable(str(refused))}. It could not be read again, so what stood there "
            "stays. This is a defect of stream-osr, please report it. Continue from the earlier copy"
        ) from None
    manifest = {"format": FORMAT, "version": VERSION, "kind": kind, "content": tree}
    arrays = {MANIFEST: np.array(json.dumps(manifest)), **writer.arrays}
    try:
        write_whole(target, lambda file: np.savez(file, allow_pickle=False, **arrays))
    except OSError as error:
        raise PersistenceError(
            f"cannot write {target}: {error.strerror or error}. Check that the folder exists and has room"
        ) from error


def save_trained(trained: TrainedModel, path: str | PathLike[str]) -> None:
    """Write only the trained part, for several recognizers to share."""
    remove_unfinished(path)
    write_archive(path, "trained model", trained)


class _Reader:
    """Converter from JSON trees to forms."""

    def __init__(self, arrays: Mapping[str, Array], beside: Mapping[str, Any]) -> None:
        self._arrays = arrays
        self._beside = beside
        self._read: dict[int, Any] = {}

    def value(self, tree: Any, where: str) -> Any:
        if isinstance(tree, list):
            raise RefusedValue(where, "a bare list", "a list with a type")
        if not isinstance(tree, dict):
            return tree
        if "record" in tree:
            name = str(tree["record"])
            values = {field: self.value(each, f"{name}.{field}") for field, each in tree["values"].items()}
            out = self._read[tree["number"]] = RecordForm(name, values)
            return out
        if "tuple" in tree:
            return tuple(self.value(each, where) for each in tree["tuple"])
        if "list" in tree:
            return [self.value(each, where) for each in tree["list"]]
        if "dict" in tree:
            return {self._key(key, where): self.value(each, f"{where}[{brief(key)}]") for key, each in tree["dict"]}
        return self._there(tree, where)

    def _there(self, tree: Mapping[str, Any], where: str) -> Any:
        """Find an array, or a value that was read before."""
        try:
            if "beside" in tree:
                return self._beside[tree["beside"]]
            if "same" in tree:
                return self._read[tree["same"]]
            out = self._read[tree["number"]] = self._arrays[tree["array"]]
        except (KeyError, TypeError):
            raise RefusedValue(where, f"a reference, {brief(tree)}, to nothing", "one to what is there") from None
        return out

    def _key(self, tree: Any, where: str) -> Any:
        key = self.value(tree, f"a key of {where}")
        try:
            hash(key)
        except TypeError:
            raise RefusedValue(f"a key of {where}", brief(key), "something that can be hashed") from None
        return key


def read_archive(path: str | PathLike[str], kind: str, beside: Any = ()) -> Any:
    """Read a file from :func:`write_archive`, with the same value ``beside`` it.

    Raises
    ------
    PersistenceError
        If the file is missing, damaged, of another kind, or of an unsupported format version. It is also raised for a
        file that unpacks to more than its size, or contains a value that no recognizer writes. The message then names
        record and field.
    """
    archive = _opened(path)
    _check_version(archive.manifest, path)
    if (held := archive.manifest["kind"]) != kind:
        raise PersistenceError(f"{path} holds a {printable(str(held), 60)}, not a {kind}")
    known: dict[int, tuple[Any, Any]] = {}
    around = form_of(beside, BY_TYPE, known)
    built = {id(form): value for form, value in known.values()}
    try:
        manifest = bring_up(archive.manifest)
        places = dict(numbered(around))
        check_records(around)
        content = _Reader(archive.arrays, places).value(manifest["content"], kind)
        check_records(content)
        return in_memory(content, RECORDS, built)
    except RefusedValue as refused:
        raise PersistenceError(f"{path} is damaged: {refusal_message(refused)}") from None
    except Exception as error:  # what does not fit together may lead to anything
        raise PersistenceError(f"{path} is damaged: its manifest does not fit together. Save it again") from error


def _opened(path: str | PathLike[str]) -> Archive:
    try:
        archive = open_archive(Path(path))
        if archive.manifest["format"] != FORMAT:
            raise KeyError("format")
        int(archive.manifest["version"]), archive.manifest["kind"], archive.manifest["content"]
    except FileNotFoundError:
        raise PersistenceError(f"there is no file {path}. Check the path") from None
    except NoFile:
        raise PersistenceError(f"{path} is a device or a pipe, not a saved model. Give a file") from None
    except IsADirectoryError:
        raise PersistenceError(f"{path} is a folder, not a saved model") from None
    except RefusedValue as refused:
        raise PersistenceError(f"{path} is damaged: {refusal_message(refused)}") from None
    except Exception as error:  # what a damaged archive can raise is anybody's guess
        if isinstance(error, OSError) and error.errno is not None:
            rights = ". The file contains data, and by default only its owner may read it"
            more = rights if isinstance(error, PermissionError) else ""
            raise PersistenceError(f"cannot read {path}: {error.strerror}{more}") from None
        raise PersistenceError(f"{path} is damaged, or not a saved stream-osr model. Save it again") from error
    return archive


def _check_version(manifest: Mapping[str, Any], path: str | PathLike[str]) -> None:
    version = int(manifest["version"])
    if version != VERSION and version not in STEPS:
        read = " and ".join(map(str, [*STEPS, VERSION]))
        raise PersistenceError(
            f"{path} has format version {version}, this program reads {read}. Read it with the release of stream-osr "
            "that wrote it, or train the model again"
        )


def load_trained(path: str | PathLike[str]) -> TrainedModel:
    """Read a trained part."""
    trained = read_archive(path, "trained model")
    if not isinstance(trained, TrainedModel):
        raise PersistenceError(f"{path} is damaged: it holds {brief(trained)} and no trained model. Save it again")
    return trained
