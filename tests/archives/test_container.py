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
from stream_osr.model.restaurants import Guests

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


def test_manifests_that_are_none_of_ours_are_refused(path: Path) -> None:
    for manifest in (b"[]", b"3", b"{", b"{}", b'{"kind": "thing"}', b'{"content": "n"}', b"\xff"):
        path.write_bytes(crafted(manifest, b""))
        refused(path, "is damaged")


def test_files_of_another_length_and_of_other_programs_are_refused(path: Path) -> None:
    whole = path.read_bytes()
    for content in (whole + b"1", whole[:-1], whole[:20], b""):
        path.write_bytes(content)
        refused(path, "is damaged, or not a saved stream-osr model")
    for write in (lambda file: np.save(file, np.arange(5)), lambda file: np.savez(file, x=np.arange(5))):
        with path.open("wb") as file:
            write(file)
        refused(path, "is damaged, or not a saved stream-osr model")


def test_a_schema_that_is_too_deep_is_refused(path: Path) -> None:
    for depth in (100, 900, 100_000):
        deep = '["t",["i1"],' * depth + '"n"' + "]" * depth
        path.write_bytes(crafted(b'{"kind": "thing", "content": %s}' % deep.encode(), b"\1" * depth))
        refused(path, "is damaged")


def test_unknown_names_of_records_and_fields_are_in_the_message_and_steer_no_terminal(path: Path) -> None:
    with_schema(path, lambda content: ["r", "Po\x1b[2Jpen", {}])
    refused(path, "the block is of 27 bytes")
    path.write_bytes(crafted(b'{"kind": "thing", "content": ["r", "Po\\u001b[2Jpen", {}]}', b""))
    refused(path, r"record Po\\x1b\[2Jpen is unknown; expected one that this release knows")
    empty = np.zeros(0, np.int64)
    write_archive(path, "thing", Guests(np.ones((0, 3)), empty, np.zeros(0), empty))
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


@pytest.mark.thorough
@pytest.mark.parametrize("size", [1 << 31, 1 << 20], ids=["honest", "wrong"])
def test_a_small_file_that_unpacks_to_gigabytes_takes_no_memory(path: Path, size: int) -> None:
    packer = zstandard.ZstdCompressor(level=1).compressobj(size=1 << 31)
    chunk = bytes(1 << 24)
    packed = b"".join(packer.compress(chunk) for _ in range(128)) + packer.flush()
    assert len(packed) < 1 << 20
    path.write_bytes(crafted(b"{}", packed, 2, size))
    done = subprocess.run([sys.executable, "-c", SCRIPT, path], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 64 << 10, "kilobytes beyond what the program itself takes"
