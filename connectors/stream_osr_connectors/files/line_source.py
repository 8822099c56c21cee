"""Records from lines of text: lines with exact byte positions, and what CSV and JSON Lines have in common.

Lines are cut from the bytes, not from decoded text, because only then is the position after a line known
while reading ahead, and because one line that is not UTF-8 must not take its neighbours with it.
"""

from __future__ import annotations

import hashlib
import logging
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from difflib import get_close_matches
from typing import NamedTuple, TypedDict, Unpack, get_args

from stream_osr.errors import ConnectorError

from ..base import BadRecord, BatchCloser, Position, Record
from ..json_fields import JsonFields
from ..values import DecodeError, LabelType
from .open_file import UNREADABLE, is_standard, open_input, why

logger = logging.getLogger("stream_osr")

MAX_RECORD_BYTES = 1 << 20
"""How long one record may be: memory stays bounded whatever the input is."""

_HEAD = 4096
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class TextLine(NamedTuple):
    """One line of the input.

    Parameters
    ----------
    row
        Its number, from 1.
    end
        Byte offset after it.
    data
        Its bytes with the line break, without a byte order mark; only the first part of a line that is
        too long.
    dropped
        How many bytes of such a line are not in ``data``.
    cut
        Whether the file was cut before the line had its end.
    """

    row: int
    end: int
    data: bytes
    dropped: int = 0
    cut: bool = False

    def text(self) -> str:
        """Decode the line, line break included; raise `DecodeError` if it is no text."""
        if self.cut:
            raise DecodeError("the file was cut, or replaced, before this line had been written to its end")
        if self.dropped:
            raise DecodeError(
                f"the line has {len(self.data) + self.dropped} bytes, more than the {len(self.data)} that "
                "are allowed; only its beginning is kept"
            )
        if b"\0" in self.data:
            raise DecodeError("the line contains NUL bytes; was the file damaged, or is it not UTF-8?")
        try:
            return self.data.decode().removeprefix("\ufeff")  # of the second of two files that were put together
        except UnicodeDecodeError as error:
            byte = self.data[error.start]
            raise DecodeError(
                f"byte {error.start + 1} of the line, 0x{byte:02x}, is not UTF-8; save the file as UTF-8"
            ) from None

    def is_blank(self) -> bool:
        """Tell whether there is nothing but white space."""
        return not self.dropped and not self.data.strip()


def raw_text(lines: Iterable[TextLine]) -> str:
    r"""Return what lines hold, whatever it is: text, and surrogate escapes for bytes that are none.

    >>> raw_text([TextLine(1, 4, b"ab\xff\n")])
    'ab\udcff'
    """
    data = b"".join(line.data for line in lines)
    return without_break(data.decode("utf-8", "surrogateescape"))


def without_break(text: str) -> str:
    """Take the line break away that ends a text."""
    return text.removesuffix("\n").removesuffix("\r")


class LineReader(Iterator[TextLine]):
    """Iterator over the lines of a file, a gzip file or standard input.

    Parameters
    ----------
    path
        Name of the file; one that ends in ``.gz`` is decompressed; ``-`` is standard input.
    max_bytes
        Longest line that is handed over whole.
    follow
        Whether to wait for more at the end of the file; standard input is read so that something else can be done
        while it waits.

    Attributes
    ----------
    resumes
        Whether what was read can be read again: a pipe cannot go back.
    cuts
        How often a followed file was cut, or replaced, and reading began anew. Rows and positions are those of the
        present file.

    Raises
    ------
    ConnectorError
        If the file cannot be opened, and while iterating if it cannot be read on.
    """

    def __init__(
        self, path: str | os.PathLike[str], max_bytes: int = MAX_RECORD_BYTES, *, follow: bool = False
    ) -> None:
        self.name = "standard input" if is_standard(path) else os.fspath(path)
        self._max_bytes = max_bytes
        self._offset = 0
        self._row = 0
        self._returned: deque[TextLine] = deque()
        self.cuts = 0
        self._growing, self._file, self._stream = open_input(path, follow=follow)
        self.resumes = self._file is not None and self._file.seekable()
        self._identity: Mapping[str, object] = {}
        if self.resumes:
            try:
                hashed, digest = self._digest(_HEAD)
            except ConnectorError:
                self.close()
                raise
            self._identity = {"hashed": hashed, "sha256": digest}

    def __next__(self) -> TextLine:
        if self._returned:
            return self._returned.popleft()
        dropped = 0
        try:
            data = self._stream.readline(self._max_bytes)
            if len(data) == self._max_bytes and not data.endswith(b"\n"):
                dropped = self._skip_line()
        except UNREADABLE as error:
            raise ConnectorError(
                f"{self.name}: reading stopped at byte {self._offset}, line {self._row}: {why(error)}. "
                "What stands before that was delivered; repair the file and resume from the last position"
            ) from None
        cut = self._growing is not None and self._growing.cut
        if cut and not data:
            self._begin_anew()
            return next(self)
        if not data:
            raise StopIteration
        if self.cuts and not self._row and self.resumes and self._growing is not None:
            head = os.pread(self._growing.fileno(), _HEAD, 0)
            self._identity = {"hashed": len(head), "sha256": hashlib.sha256(head).hexdigest()}
        self._row += 1
        self._offset += len(data) + dropped
        if self._row == 1:
            data = data.removeprefix(_BYTE_ORDER_MARK)
        return TextLine(self._row, self._offset, data, dropped, cut and not data.endswith(b"\n"))

    def _begin_anew(self) -> None:
        """Go to the beginning of a followed file that was cut, or of the one that has its name now."""
        assert self._growing is not None
        logger.warning(
            "%s was cut or replaced after line %d (byte %d), and is read from its beginning. What had been written "
            "behind that and was not read yet is lost",
            self.name,
            self._row,
            self._offset,
        )
        self._stream.seek(0)  # what is buffered is of the file before
        self._growing.begin_anew()
        self._offset = self._row = 0
        self.cuts += 1

    def while_waiting(self, call: Callable[[], None]) -> bool:
        """Have something called while nothing comes; say whether that can be."""
        if self._growing is None or not self._growing.grows:
            return False
        self._growing.while_waiting(call)
        return True

    def give_back(self, lines: Sequence[TextLine]) -> None:
        """Take back the lines that were read last, to hand them out again."""
        self._returned.extendleft(reversed(lines))

    def position_after(self, line: TextLine | None) -> Position:
        """Return the position after a line, or that of the beginning."""
        row, offset = (line.row, line.end) if line else (0, 0)
        return {"offset": offset, "row": row, **self._identity}

    def seek(self, position: Position) -> None:
        """Go to a position of the same input.

        A plain file jumps there; a gzip file is decompressed again up to there.

        Raises
        ------
        ConnectorError
            If this is a pipe, another file, or the position is none of a file.
        """
        offset, row = _whole(position, "offset"), _whole(position, "row")
        if not self.resumes:
            if (offset, row) == (self._offset, self._row) and not self._returned:
                return
            raise ConnectorError(
                f"{self.name} cannot resume: what was read from it is gone; save the input to a file and use that"
            )
        try:
            self._go_to(offset, _whole(position, "hashed"), position.get("sha256"))
        except ConnectorError:
            with suppress(*UNREADABLE):  # a position that is refused changes nothing
                self._stream.seek(self._offset)
            raise
        self._offset, self._row = offset, row
        self._returned.clear()

    def close(self) -> None:
        """Close the file; standard input stays open."""
        if self._file is not None:
            self._stream.close()
            self._file.close()

    def _go_to(self, offset: int, hashed: int, digest: object) -> None:
        if self._digest(hashed) != (hashed, digest):
            raise ConnectorError(
                f"{self.name}: this is not the file that was being read (its first {hashed} bytes differ); "
                "give the file that the position belongs to, or start without a position"
            )
        try:
            # reading the byte before the place shows that the file reaches that far
            self._stream.seek(max(offset - 1, 0))
            if offset and not self._stream.read(1):
                raise EOFError(f"the file ends before byte {offset}")
        except UNREADABLE as error:
            raise ConnectorError(
                f"{self.name}: cannot go to byte {offset}: {why(error)}; give the whole file that was being read"
            ) from None

    def _skip_line(self) -> int:
        """Read to the end of the line without keeping it; return the number of bytes."""
        dropped = 0
        while part := self._stream.readline(1 << 16):
            dropped += len(part)
            if part.endswith(b"\n"):
                break
        return dropped

    def _digest(self, size: int) -> tuple[int, str]:
        """Hash the first ``size`` bytes, or what there is of them; return the number of bytes, too."""
        head = bytearray()
        try:
            self._stream.seek(0)
            while len(head) < size and (part := self._stream.read1(size - len(head))):
                head += part
            self._stream.seek(0)
        except UNREADABLE as error:
            # where at least something can be read, the lines before the damage are still to be delivered
            if not head:
                raise ConnectorError(f"cannot read {self.name}: {why(error)}; check the file") from None
            self._stream.seek(0)
        return len(head), hashlib.sha256(head).hexdigest()


def _whole(position: Position, field: str) -> int:
    value = position.get(field)
    if type(value) is not int or value < 0:
        raise ConnectorError(
            f"{dict(position)!r} is not a position in a file: {field!r} should be a whole number; "
            "give a position as a record of this file carried it"
        )
    return value


class FieldNames(TypedDict, total=False):
    """Fields of a record by their meaning, whatever the format; see `CsvSource` and `JsonLinesSource`."""

    key: str | None
    time: str | None
    label: str | None
    features: Sequence[str] | None
    label_type: LabelType


class ReadOptions(FieldNames, total=False):
    """Options of reading records."""

    max_record_bytes: int
    follow: bool


def checked_fields(**named: Unpack[FieldNames]) -> JsonFields:
    """Check which fields are to mean what.

    Raises
    ------
    ConnectorError
        If that cannot be.
    """
    fields = JsonFields(**named)
    _, _, label, features, label_type = fields
    if label_type not in get_args(LabelType):
        raise ConnectorError(f"label type {label_type!r} is none of {', '.join(get_args(LabelType))}")
    if isinstance(features, str):  # list("abc") would pass for three names
        raise ConnectorError(f"features is the text {features!r}; give a list of names")
    if label is not None and features is not None and label in features:
        raise ConnectorError(
            f"{label!r} is named both as the label and as a feature, which would give the answer away; "
            "leave it out of the features"
        )
    return fields if features is None else fields._replace(features=list(features))


def what_there_is(name: str, columns: Sequence[str]) -> str:
    """List the columns of a table that lacks one, with the one that was probably meant."""
    listed = ", ".join(map(repr, columns[:20])) + (", ..." if len(columns) > 20 else "")
    spellings = {column.casefold(): column for column in columns}
    near = get_close_matches(name.casefold(), spellings, n=1)
    return f"its columns are {listed}" + (f"; did you mean {spellings[near[0]]!r}?" if near else "")


class LineSource(BatchCloser, Iterator[Record | BadRecord]):
    """Base of the sources that read lines; see `CsvSource` and `JsonLinesSource`.

    Attributes
    ----------
    resumes
        Whether the input can be read again: not of standard input or a pipe.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        max_record_bytes: int = MAX_RECORD_BYTES,
        follow: bool = False,
        **named: Unpack[FieldNames],
    ) -> None:
        self._fields = checked_fields(**named)
        if max_record_bytes < 1:
            raise ConnectorError(f"max_record_bytes is {max_record_bytes}; it has to be at least 1")
        self._max_bytes = max_record_bytes
        self._lines = LineReader(path, max_record_bytes, follow=follow)
        self._first: TextLine | None = None  # the line after which the records begin
        self.resumes = self._lines.resumes

    @property
    def cuts(self) -> int:
        """Number of times that a followed file was cut or replaced, and reading began anew."""
        return self._lines.cuts

    def while_waiting(self, call: Callable[[], None]) -> bool:
        """Have something called several times a second while nothing comes, and say whether that can be.

        It can with a pipe that has a name, and with ``follow``. What is raised ends the waiting, and the source.
        """
        return self._lines.while_waiting(call)

    def seek(self, position: Position | None) -> None:
        """Go on after the record that carried this position; ``None`` is the beginning.

        A plain file jumps there. A gzip file has to be decompressed again up to there, which takes as
        long as reading it did.

        Raises
        ------
        ConnectorError
            If this is standard input or a pipe, which cannot resume; if it is not the file that the
            position belongs to, or a shorter one; or if the position is none of a file.
        """
        self._lines.seek(self._lines.position_after(self._first) if position is None else position)

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        self._lines.close()
