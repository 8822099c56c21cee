"""The file of an archive: numpy's ``.npz``, nothing compressed, nothing allocated beyond its size."""

from __future__ import annotations

import json
import math
import os
import stat
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

import numpy as np

from stream_osr.archive.form import Refused
from stream_osr.archive.needs import need

MANIFEST = "manifest"
DEEPEST = 100
"""Levels of a manifest; ours have some twenty."""
PART = 1 << 20
"""Bytes that are read at a time: an entry is in memory once."""


class Archive(NamedTuple):
    """What is in a file: the manifest, and arrays by their names. The file is read no more."""

    manifest: dict[str, Any]
    arrays: dict[str, np.ndarray]


class NoFile(Exception):  # the caller makes an error of it
    """A path names a device or a pipe."""


def open_archive(path: Path) -> Archive:
    """Read the manifest of a file, and the arrays that it refers to.

    Raises
    ------
    NoFile
        If it is a device or a pipe: reading might never end.
    Refused, ValueError, OSError, zipfile.BadZipFile
        And whatever else a damaged file may lead to.
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
        except Refused as refused:  # whatever it is, it is none of ours
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


def _read(packed: zipfile.ZipFile, names: Mapping[str, zipfile.ZipInfo], name: str) -> np.ndarray:
    """Read an entry whose header says exactly what is there."""
    entry = names.get(f"{name}.npy")
    if entry is None:
        raise Refused(f"array {name}", "missing", "an entry of the file")
    stored = entry.compress_type == zipfile.ZIP_STORED and entry.compress_size == entry.file_size
    need(stored, f"array {name}", "compressed", "an entry that is stored as it is")
    with packed.open(entry) as stream:
        return _array(cast(BinaryIO, stream), entry.file_size, f"array {name}")


def _array(stream: BinaryIO, size: int, where: str) -> np.ndarray:
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
