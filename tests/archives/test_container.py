"""The file around an archive: whatever is crafted into it, it takes no more memory than its size allows."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zstandard

from stream_osr.archive import files
from stream_osr.archive.files import MAGIC, open_archive, read_archive, to_bytes, write_archive
from stream_osr.archive.records import VERSION
from stream_osr.errors import PersistenceError
from stream_osr.model.franchise import Guests

CONTENT = {"rows": np.arange(6.0), "text": "as it is"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    write_archive(tmp_path / "thing.osr", "thing", CONTENT)
    return tmp_path / "thing.osr"


def crafted(manifest: bytes, block: bytes, *claims: int) -> bytes:
    """An archive of these parts, stored as they are, whose header says that they unpack to other sizes."""
    sizes = claims or (len(manifest), len(block))
    return files._HEADER.pack(MAGIC, VERSION, len(manifest), len(block), *sizes) + manifest + block


def refused(path: Path, expected: str) -> None:
    with pytest.raises(PersistenceError, match=expected) as caught:
        read_archive(path, "thing")
    assert str(path) in str(caught.value)


def with_schema(path: Path, change: Callable[[Any], Any]) -> None:
    archive = open_archive(path.read_bytes())
    manifest = {**archive.manifest, "content": change(archive.manifest["content"])}
    path.write_bytes(crafted(json.dumps(manifest).encode(), archive.block))


def test_small_schemas_describe_columns_of_many_records() -> None:
    """The schema does not grow with the number of values."""
    few, many = ({"seats": [tuple(range(n)) for n in range(count)]} for count in (10, 900))
    schemas = [json.dumps(open_archive(to_bytes("thing", content)).manifest) for content in (few, many)]
    assert len(schemas[1]) <= len(schemas[0]) + 10


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (["af1", [7], "f8"], "the block is of"),
        (["af1", [536870912], "f8"], "the block is of"),
        (["af1", [-6], "f8"], "an array is odd"),
        (["af2", [4294967296, 4294967296], "f8"], "the block is of"),
        (["af1", [6], "O"], "numbers is of O; expected f4 or f8"),
        (["ac1", [6], "c8"], "damaged"),
        (["n"], "the block is of 27 bytes; expected 0"),
        (["t", ["i8"], "n"], "damaged"),
        (["s", "i1", 99], "the block is of"),
        (["i", [1, 2]], "a column is of 2 values; expected 1"),
        (["i", ["a"]], "a column is of others"),
        (["x", "i1"], "damaged"),
        (["|", "i1", []], "damaged"),
        ({"r": 1}, "damaged"),
    ],
    ids=str,
)
def test_a_schema_that_does_not_fit_its_block_is_refused(path: Path, schema: Any, expected: str) -> None:
    with_schema(path, lambda content: schema)
    refused(path, expected)


def test_many_values_of_no_bytes_are_refused(path: Path) -> None:
    """Missing values take no space in the block, so that their number has a bound of its own."""
    manifest = json.dumps({"kind": "thing", "content": ["t", "i8", "n"]}).encode()
    path.write_bytes(crafted(manifest, (1 << 40).to_bytes(8, "little")))
    refused(path, "too small for 1099511627776 values")


@pytest.mark.parametrize("manifest", [b"[]", b"3", b"{", b"{}", b'{"kind": "thing"}', b'{"content": "n"}', b"\xff"])
def test_manifests_that_are_none_of_ours_are_refused(path: Path, manifest: bytes) -> None:
    path.write_bytes(crafted(manifest, b""))
    refused(path, "is damaged")


@pytest.mark.parametrize("change", [lambda whole: whole + b"1", lambda whole: whole[:-1], lambda whole: whole[:20]])
def test_another_length_is_refused(path: Path, change: Callable[[bytes], bytes]) -> None:
    path.write_bytes(change(path.read_bytes()))
    refused(path, "is damaged, or not a saved stream-osr model")


def test_files_of_other_programs_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "plain.npy", np.arange(5))
    np.savez(tmp_path / "other.npz", x=np.arange(5))
    (tmp_path / "empty").touch()
    for name in ("plain.npy", "other.npz", "empty"):
        refused(tmp_path / name, "is damaged, or not a saved stream-osr model")


@pytest.mark.parametrize("depth", [100, 900, 100_000])
def test_a_schema_that_is_too_deep_is_refused(path: Path, depth: int) -> None:
    deep = '["t",["i1"],' * depth + '"n"' + "]" * depth
    path.write_bytes(crafted(b'{"kind": "thing", "content": %s}' % deep.encode(), b"\1" * depth))
    refused(path, "is damaged")


def test_names_of_records_and_fields_that_are_not_ours_are_told_and_steer_nothing(path: Path) -> None:
    with_schema(path, lambda content: ["r", "Po\x1b[2Jpen", {}])
    refused(path, "the block is of 27 bytes")
    path.write_bytes(crafted(b'{"kind": "thing", "content": ["r", "Po\\u001b[2Jpen", {}]}', b""))
    refused(path, r"record Po\\x1b\[2Jpen is unknown; expected one that this release knows")
    nobody = np.zeros(0, np.int64)
    write_archive(path, "thing", Guests(np.ones((0, 3)), nobody, np.zeros(0), nobody))
    with_schema(path, lambda content: [*content[:2], {**content[2], "ta\nble": ["i", [1]]}])
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


@pytest.mark.parametrize("honest", [True, False])
def test_a_small_file_that_unpacks_to_gigabytes_takes_no_memory(path: Path, honest: bool) -> None:
    size = 1 << 31 if honest else 1 << 20
    packer = zstandard.ZstdCompressor(level=1).compressobj(size=1 << 31)
    chunk = bytes(1 << 24)
    packed = b"".join(packer.compress(chunk) for _ in range(128)) + packer.flush()
    assert len(packed) < 1 << 20
    path.write_bytes(crafted(b"{}", packed, 2, size))
    done = subprocess.run([sys.executable, "-c", SCRIPT, path], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 64 << 10, "kilobytes beyond what the program itself takes"
