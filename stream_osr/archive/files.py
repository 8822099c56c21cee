"""Archives as bytes and files: a header, a schema in JSON, and a block of numbers (``docs/archives.md``).

Everything is checked before any object is made from it. A file that could not be read again is not written.
"""

from __future__ import annotations

import json
import stat
import struct
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import zstandard

from stream_osr.archive.checks import check_records
from stream_osr.archive.columns import Packer, Unpacker
from stream_osr.archive.migrations import STEPS, as_numbered, bring_up
from stream_osr.archive.record import form_of, in_memory, numbered
from stream_osr.archive.records import BY_TYPE, RECORDS, VERSION
from stream_osr.errors import PersistenceError, RefusedState
from stream_osr.printable_text import brief, printable
from stream_osr.support.atomic import remove_unfinished, why_irreplaceable, write_whole
from stream_osr.support.rules import RefusedValue, Rule, anything, need
from stream_osr.training.trained import TrainedModel

MAGIC = b"\x93OSR\r\n\x1a\n"
_HEADER = struct.Struct("<8s5Q")
"""Magic bytes, format version, sizes of schema and block as stored, and sizes of both when unpacked."""
RATIO = 50
"""Largest ratio of the unpacked size to the stored one. Parts that would exceed it are stored without compression."""
MOST, LEAST = 16, 100_000
"""Largest number of values for each byte of a file, and number that every file may have."""
REMEDY = "save it again, or go back to an earlier copy"


class Archive(NamedTuple):
    """Content of a file before any interpretation.

    Attributes
    ----------
    version
        Format version.
    manifest
        ``kind`` of the content, and ``content``, its schema.
    block
        Numbers of all columns.
    size
        Number of bytes as stored.
    """

    version: int
    manifest: dict[str, Any]
    block: bytes
    size: int


class Surroundings:
    """Value that writer and reader both have. Archives contain only references to its parts.

    Parameters
    ----------
    value
        The value. ``()``: there is none.

    Attributes
    ----------
    forms
        Its forms and arrays with their paths, in a fixed order.
    built
        Values in memory by the identities of their forms.
    known
        Forms and values by the identities of the values.
    """

    def __init__(self, value: Any = ()) -> None:
        self.known: dict[int, tuple[Any, Any]] = {}
        form = form_of(value, BY_TYPE, self.known)
        check_records(form)
        self.forms = list(numbered(form))
        self.built = {id(form): value for form, value in self.known.values()}

    @staticmethod
    def of(trained: TrainedModel) -> Surroundings:
        """Return the surroundings of all streams with a trained model. They are made once."""
        cached: dict[str, Any] = vars(trained)  # not a part of the model's value: copies and pickles are without it
        if "surroundings" not in cached:
            cached["surroundings"] = Surroundings(trained)
        found: Surroundings = cached["surroundings"]
        return found


NOTHING = Surroundings()


def to_bytes(
    kind: str, content: Any, around: Surroundings = NOTHING, name: str = "the state", *, checked: bool = True
) -> bytes:
    """Convert a value to an archive.

    Parameters
    ----------
    kind
        Kind of the content.
    content
        Value to write.
    around
        Surroundings that the reader has too.
    name
        Name of the archive for messages.
    checked
        Whether the checks of reading come before writing, too.

    Raises
    ------
    PersistenceError
        If a value cannot be saved.
    RefusedState
        If the value fails the checks of reading.
    """
    form = form_of(content, BY_TYPE, dict(around.known))
    try:
        if checked:
            check_records(form)
    except RefusedValue as refused:
        raise RefusedState(
            f"{name} is not written: {printable(str(refused))}. It could not be read again, so what stood there "
            "stays. This is a defect of stream-osr, please report it. Continue from the earlier copy"
        ) from None
    packer = Packer(as_numbered(around.forms, VERSION))
    manifest = {"kind": kind, "content": packer.column([form])}
    parts = [json.dumps(manifest, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "surrogatepass")]
    parts.append(b"".join(packer.parts))
    stored = [_compressed(part) for part in parts]
    if packer.count > MOST * sum(map(len, stored)) + LEAST:  # stored as they are, the parts are large enough
        stored = parts
    return b"".join((_HEADER.pack(MAGIC, VERSION, *map(len, stored), *map(len, parts)), *stored))


def _compressed(part: bytes) -> bytes:
    packed = zstandard.ZstdCompressor(level=3, write_checksum=True).compress(part)
    return packed if len(packed) < len(part) <= RATIO * len(packed) else part


def _unpacked(stored: bytes, size: int) -> bytes:
    if len(stored) == size:
        return stored
    need(size <= RATIO * len(stored), "a part", f"of {len(stored)} bytes for {size}", "a part that unpacks to less")
    claimed = zstandard.get_frame_parameters(stored).content_size
    need(claimed == size, "a part", f"of {claimed} bytes", f"{size}")
    return zstandard.ZstdDecompressor().decompress(stored, max_output_size=size)


def open_archive(data: bytes) -> Archive:
    """Unpack an archive, without a check of the content.

    Raises
    ------
    RefusedValue, ValueError, struct.error, zstandard.ZstdError
        And any other error that damaged bytes may cause.
    """
    magic, version, *sizes = _HEADER.unpack_from(data)
    if magic != MAGIC:
        raise ValueError("no magic bytes")
    if version != VERSION and version not in STEPS:
        return Archive(version, {}, b"", 0)
    stored, unpacked = sizes[:2], sizes[2:]
    begin = _HEADER.size
    need(len(data) == begin + sum(stored), "the file", f"of {len(data)} bytes", f"{begin + sum(stored)}")
    text = _unpacked(data[begin : begin + stored[0]], unpacked[0])
    manifest = json.loads(text.decode("utf-8", "surrogatepass"))
    return Archive(version, manifest, _unpacked(data[begin + stored[0] :], unpacked[1]), len(data))


def kind_over(trained: TrainedModel, what: str = "state of a stream") -> str:
    """Return the kind of a stream state without its trained model, or of several together."""
    return f"{what} over the model {trained.fingerprint[:16]}"


def form_from(archive: Archive, around: Surroundings = NOTHING, place: int | None = None) -> Any:
    """Convert unpacked content, or that at a place of a sequence, to its form.

    Raises
    ------
    RefusedValue
        And any other error that damaged content may cause.
    """
    unpacker = Unpacker(archive.block, as_numbered(around.forms, archive.version), MOST * archive.size + LEAST)
    (content,) = unpacker.column(archive.manifest["content"], 1)
    unpacker.finish()
    return content if place is None else content[place]


def from_bytes(
    data: bytes,
    kind: str,
    rule: Rule = anything,
    around: Surroundings = NOTHING,
    name: str = "the archive",
    place: int | None = None,
) -> Any:
    """Convert an archive to the value in memory.

    Parameters
    ----------
    data
        Result of :func:`to_bytes`.
    kind
        Expected kind.
    rule
        Rule for the form of the whole value.
    around
        Surroundings of the writer.
    name
        Name of the archive for messages.
    place
        Position of the value in an archive of several values. The others are not converted.

    Raises
    ------
    PersistenceError
        If the archive is damaged, of another kind, or of an unsupported format version. It is also raised if a value
        is one that no recognizer writes. The message then names record and field.
    """
    archive = _opened(data, name)
    if (found := archive.manifest["kind"]) != kind:
        raise PersistenceError(f"{name} holds a {printable(str(found), 60)}, not a {kind}")
    try:
        content = bring_up(form_from(archive, around, place), archive.version)
        check_records(content)
        rule(content, "", {})
        return in_memory(content, RECORDS, dict(around.built))
    except RefusedValue as refused:
        raise PersistenceError(f"{name} is damaged: {printable(str(refused))}; {REMEDY}") from None
    except PersistenceError:
        raise
    except Exception as error:  # what does not fit together may lead to anything
        raise PersistenceError(f"{name} is damaged: its schema does not fit together. Save it again") from error


def _opened(data: bytes, name: str) -> Archive:
    try:
        archive = open_archive(data)
        if archive.version in (VERSION, *STEPS):
            archive.manifest["kind"], archive.manifest["content"]
    except Exception as error:  # damaged bytes may cause any error
        raise PersistenceError(f"{name} is damaged, or not a saved stream-osr model. Save it again") from error
    if not archive.manifest:
        readable = " and ".join(map(str, [*STEPS, VERSION]))
        raise PersistenceError(
            f"{name} has format version {archive.version}, this program reads {readable}. Read it with the release "
            "of stream-osr that wrote it, or train the model again"
        )
    return archive


def write_archive(path: str | PathLike[str], kind: str, content: Any, around: Surroundings = NOTHING) -> None:
    """Write an archive under a name that appears only when the file is complete. A new file is private.

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
    data = to_bytes(kind, content, around, str(target))
    try:
        write_whole(target, lambda file: file.write(data))
    except OSError as error:
        raise PersistenceError(
            f"cannot write {target}: {error.strerror or error}. Check that the folder exists and has room"
        ) from error


def read_archive(path: str | PathLike[str], kind: str, rule: Rule = anything, around: Surroundings = NOTHING) -> Any:
    """Read a file from :func:`write_archive`, with the same surroundings.

    Raises
    ------
    PersistenceError
        If the file cannot be read, and as :func:`from_bytes`.
    """
    return from_bytes(read_file(path), kind, rule, around, str(path))


def read_file(path: str | PathLike[str]) -> bytes:
    """Read a file that is no device and no pipe, which might never end.

    Raises
    ------
    PersistenceError
        If it cannot be read.
    """
    try:
        mode = Path(path).stat().st_mode
        data = None if stat.S_ISCHR(mode) or stat.S_ISFIFO(mode) else Path(path).read_bytes()
    except FileNotFoundError:
        raise PersistenceError(f"there is no file {path}. Check the path") from None
    except IsADirectoryError:
        raise PersistenceError(f"{path} is a folder, not a saved model") from None
    except OSError as error:
        rights = ". The file contains data, and by default only its owner may read it"
        more = rights if isinstance(error, PermissionError) else ""
        raise PersistenceError(f"cannot read {path}: {error.strerror}{more}") from None
    if data is None:
        raise PersistenceError(f"{path} is a device or a pipe, not a saved model. Give a file")
    return data


def save_trained(trained: TrainedModel, path: str | PathLike[str]) -> None:
    """Write only the trained part, for several recognizers to share."""
    remove_unfinished(path)
    write_archive(path, "trained model", trained)


def load_trained(path: str | PathLike[str]) -> TrainedModel:
    """Read a trained part."""
    trained = read_archive(path, "trained model")
    if not isinstance(trained, TrainedModel):
        raise PersistenceError(f"{path} is damaged: it holds {brief(trained)} and no trained model. Save it again")
    return trained
