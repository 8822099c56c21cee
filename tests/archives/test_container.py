"""The file around an archive: whatever is crafted into it, it takes no more memory than it is large."""

from __future__ import annotations

import io
import json
import re
import struct
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.doors.archive import DEEPEST, VERSION, open_archive, read_archive, write_archive
from tests.doors.library import PersistenceError
from tests.doors.model import Guests

CONTENT = {"rows": np.arange(6.0), "text": "as it is"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    write_archive(tmp_path / "thing.osr", "thing", CONTENT)
    return tmp_path / "thing.osr"


def entries(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as packed:
        return {name: packed.read(name) for name in packed.namelist()}


def rewritten(path: Path, parts: dict[str, bytes], compression: dict[str, int] | None = None) -> None:
    with zipfile.ZipFile(path, "w") as packed:
        for name, content in parts.items():
            packed.writestr(name, content, (compression or {}).get(name, zipfile.ZIP_STORED))


def npy(header: str, content: bytes = b"") -> bytes:
    text = header.encode().ljust(118) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + content


def refused(path: Path, expected: str) -> None:
    with pytest.raises(PersistenceError, match=expected) as caught:
        read_archive(path, "thing")
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("{'descr': '<f8', 'fortran_order': False, 'shape': (536870912,), }", r"of shape \(536870912,\) in 48 bytes"),
        ("{'descr': '<f8', 'fortran_order': False, 'shape': (7,), }", r"of shape \(7,\) in 48 bytes"),
        ("{'descr': '<f8', 'fortran_order': False, 'shape': (-1, -6), }", r"of shape \(-1, -6\)"),
        ("{'descr': '<f8', 'fortran_order': False, 'shape': (4294967296, 4294967296, 0), }", "bytes"),
        ("{'descr': '|O', 'fortran_order': False, 'shape': (6,), }", "array a0 is of object; expected numbers"),
        ("{'descr': '<c16', 'fortran_order': False, 'shape': (3,), }", "array a0 is of complex128; expected numbers"),
    ],
)
def test_a_header_that_says_more_than_is_there_is_refused(path: Path, header: str, expected: str) -> None:
    parts = entries(path)
    rewritten(path, {**parts, "a0.npy": npy(header, parts["a0.npy"][-48:])})
    refused(path, expected)


def test_compressed_entries_are_refused(path: Path) -> None:
    """Also when the file as a whole is larger than what it unpacks to."""
    parts = {**entries(path), "filling.npy": bytes(1 << 16)}
    rewritten(path, parts, {"a0.npy": zipfile.ZIP_DEFLATED})
    refused(path, "array a0 is compressed; expected an entry that is stored as it is")
    rewritten(path, parts, dict.fromkeys(parts, zipfile.ZIP_DEFLATED))
    with pytest.raises(PersistenceError, match="damaged") as refusal:
        read_archive(path, "thing")
    assert re.fullmatch(r"\d+ bytes would unpack to \d+", str(refusal.value.__cause__))


OURS = f'{{"format": "stream-osr", "version": {VERSION}'


@pytest.mark.parametrize(
    "manifest",
    [
        *("[]", "3", "{", "{}", '{"format": "other"}', '{"format": "stream-osr"}'),
        OURS + ', "content": {}}',
        OURS + ', "kind": "thing", "content": []}',
        OURS + ', "kind": "thing", "content": {"record": "Guests"}}',
        '{"format": "stream-osr", "version": "newest", "kind": "thing", "content": {}}',
    ],
)
def test_manifests_that_are_none_of_ours_are_refused(path: Path, manifest: str) -> None:
    np.savez(path.with_suffix(".npz"), manifest=np.array(manifest))
    refused(path.with_suffix(".npz"), "is damaged")


def test_archives_of_other_programs_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "plain.npy", np.arange(5))
    np.savez(tmp_path / "other.npz", x=np.arange(5))
    for name in ("plain.npy", "other.npz"):
        refused(tmp_path / name, "is damaged, or not a saved stream-osr model")


def test_entries_that_nobody_refers_to_are_not_read(path: Path) -> None:
    parts = entries(path)
    with zipfile.ZipFile(path, "w") as packed:
        for name, content in parts.items():
            packed.writestr(name, content)
        packed.writestr("trap.npy", b"no array at all")
    whole = path.read_bytes()
    assert whole.count(b"no array at all") == 1
    path.write_bytes(whole.replace(b"no array at all", b"NO ARRAY AT ALL"))  # its checksum is wrong now
    assert read_archive(path, "thing")["text"] == "as it is"
    assert set(open_archive(path).arrays) == {"a0"}


def test_two_entries_of_a_name_are_refused(path: Path) -> None:
    with zipfile.ZipFile(path, "a") as packed, pytest.warns(UserWarning, match="Duplicate name"):
        packed.writestr("a0.npy", bytes(10))
    refused(path, "is damaged, or not a saved stream-osr model")


@pytest.mark.parametrize("depth", [DEEPEST, 900, 100_000])
def test_a_manifest_that_is_too_deep_is_refused(path: Path, depth: int) -> None:
    text = '{"format": "stream-osr", "version": %d, "kind": "thing", "content": %s}'
    deep = '{"list": [' * depth + "1" + "]}" * depth
    out = io.BytesIO()
    np.save(out, np.array(text % (VERSION, deep)))
    rewritten(path, {"manifest.npy": out.getvalue()})
    refused(path, "is damaged")


def with_content(path: Path, change: Callable[[Any], Any]) -> None:
    parts = entries(path)
    manifest = json.loads(str(np.load(io.BytesIO(parts["manifest.npy"]))))
    manifest["content"] = change(manifest["content"])
    out = io.BytesIO()
    np.save(out, np.array(json.dumps(manifest)))
    rewritten(path, {**parts, "manifest.npy": out.getvalue()})


def test_an_array_that_is_referred_to_a_million_times_is_read_once(path: Path) -> None:
    many = {"tuple": [{"array": "a0", "number": n} for n in range(100_000)]}
    with_content(path, lambda content: many)
    found = read_archive(path, "thing")
    assert len({id(each) for each in found}) == 1


def test_a_reference_to_nothing_is_named(path: Path) -> None:
    for tree in ({"array": "a7", "number": 0}, {"same": 12}, {"beside": "0.draws"}, {"same": [1]}, {}):
        with_content(path, lambda content, tree=tree: {"dict": [["rows", tree]]})
        refused(path, "is damaged: .*; save it again, or go back to an earlier copy")
    with_content(path, lambda content: {"dict": [[{"list": []}, 1]]})
    refused(path, r"a key of thing is \[\]; expected something that can be hashed")


def test_names_of_records_and_fields_that_are_not_ours_are_told_and_steer_nothing(path: Path) -> None:
    with_content(path, lambda content: {"record": "Po\x1b[2Jpen", "values": {}, "number": 0})
    refused(path, r"record Po\\x1b\[2Jpen is unknown; expected one that this release knows")
    nobody = np.zeros(0, np.int64)
    write_archive(path, "thing", Guests(np.ones((0, 3)), nobody, np.zeros(0), nobody))
    with_content(path, lambda content: {**content, "values": {**content["values"], "ta\nble": 1}})
    refused(path, r"Guests.ta\\nble is unknown; expected a field that this release knows")


SCRIPT = """
import resource, sys
from stream_osr.archive.files import read_archive
from stream_osr.errors import PersistenceError
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    read_archive(sys.argv[1], "thing")
except PersistenceError as error:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_a_small_file_that_claims_gigabytes_takes_no_memory(path: Path) -> None:
    parts = entries(path)
    header = "{'descr': '<f8', 'fortran_order': False, 'shape': (536870912,), }"
    rewritten(path, {**parts, "a0.npy": npy(header, bytes(4 << 20))})
    done = subprocess.run([sys.executable, "-c", SCRIPT, path], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 64 << 10, "kilobytes beyond what the program itself takes"
