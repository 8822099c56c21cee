"""Feeds: decisions, events and features of a run, read from its files as they grow."""

from __future__ import annotations

import csv
import errno
import os
import platform
import re
import stat
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import orjson

from stream_osr.errors import ConnectorError

Decision = dict[str, Any]

ORDINARY = 1000
"""Decisions that are taken in before somebody else has a turn."""


class FeedTruncated(Exception):
    """The file no longer begins with what was read: a run was resumed, or begun anew. Everything is read again."""


class FoundDecision(NamedTuple):
    """A decision that was looked up: its number on the page, and what it says."""

    n: int
    decision: Decision


class NewRecords(NamedTuple):
    """Decisions and events that came.

    Attributes
    ----------
    decisions
        Track, number there, place, and decision of each.
    events
        Track of each, and the event.
    more
        There is more to be read at once.
    """

    decisions: Sequence[tuple[int, int, int, Decision]]
    events: Sequence[tuple[int, Mapping[str, Any]]]
    more: bool


def json_object(text: bytes) -> Decision | None:
    """Read a JSON object; ``None``: it is none.

    >>> json_object(b'{"seq": 1}'), json_object(b"[1]"), json_object(b"{")
    ({'seq': 1}, None, None)
    """
    try:
        found = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    return found if isinstance(found, dict) else None


class Feed(Protocol):
    """A source of decisions and events; `poll` is called by one thread, the others by several."""

    kind: str
    """``file`` or ``kafka``."""
    name: str
    """What a person calls it."""
    prefixes: Sequence[str]
    """Of each track, what stands before the identities of its subclasses."""
    has_events: bool
    """Whether it tells events."""

    def poll(self, refuse: Callable[[str, BaseException], None]) -> NewRecords:
        """Read what has come.

        Raises
        ------
        CutBack
            If all has to be read again; the feed begins anew by itself.
        """

    def behind(self) -> int | None:
        """Say how many decisions are still to be read, if that is known."""

    def running(self) -> bool:
        """Say whether decisions still come, as far as can be told."""

    def block(
        self, track: int, number: int, place: int, after: int | None, only: Collection[int] | None = None
    ) -> list[FoundDecision]:
        """Read a block of decisions, from number and place of its first one to the next block; or some of it."""

    def features(self, found: Sequence[FoundDecision]) -> list[dict[str, Any] | None]:
        """Find the features of instances; None: they cannot be found."""

    def notes(self) -> list[str]:
        """Say what could not be read."""

    def close(self) -> None:
        """Let go of everything."""


CHUNK = 1 << 20
"""Bytes that are read at once."""
LONGEST_LINE = 1 << 26
"""Bytes of a line; a longer one is passed over."""
GUARD = 512
"""Bytes before the place of reading that have to be what they were."""


class Tail:
    r"""The whole lines of a file, as they come.

    Attributes
    ----------
    number, place
        Of the next line: how many lines and bytes stand before it.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp(), "grows.jsonl")
    >>> _ = path.write_bytes(b"one\ntwo\nthr")
    >>> tail = Tail(path)
    >>> tail.read(), tail.number, tail.place
    ([(0, 0, b'one'), (1, 4, b'two')], 2, 8)
    >>> _ = path.write_bytes(b"one\ntwo\nthree\n")
    >>> tail.read()
    [(2, 8, b'three')]
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._begin()

    def _begin(self) -> None:
        self.number = self.place = 0
        self._read = 0
        self._rest = b""
        self._last_bytes = b""
        self._descriptor: int | None = None

    def read(self, most: int = CHUNK) -> list[tuple[int, int, bytes]]:
        """Read the lines that have come, with number and place of each; a last line without end waits for it.

        Raises
        ------
        CutBack
            If the file was cut back, or is another one; it is read from its beginning the next time.
        OSError
            If it cannot be read, or is no regular file any more; what was read stays.
        """
        if self._descriptor is None:
            with suppress(FileNotFoundError):
                self._descriptor = open_regular(self.path)
            if self._descriptor is None:
                return []
        if self._is_another():
            os.close(open_regular(self.path))  # what cannot be read replaces nothing that was
            began = self._read > 0
            self.close()
            self._begin()
            if began:
                raise FeedTruncated(str(self.path))
            return []
        data = os.pread(self._descriptor, most, self._read)
        if not data:
            return []
        self._read += len(data)
        self._last_bytes = (self._last_bytes + data)[-GUARD:]
        *whole, rest = (self._rest + data).split(b"\n")
        out = []
        for line in whole:
            out.append((self.number, self.place, line))
            self.number += 1
            self.place += len(line) + 1
        if len(rest) > LONGEST_LINE:
            self.place += len(rest)
            rest = b""
        self._rest = rest
        return out

    def more(self) -> bool:
        """Say whether there is something to be read at once."""
        if self._descriptor is None:
            return False
        return os.fstat(self._descriptor).st_size > self._read

    def _is_another(self) -> bool:
        assert self._descriptor is not None
        ours = os.fstat(self._descriptor)
        try:
            there = self.path.stat()
        except FileNotFoundError:
            return False  # it was removed, and stays as it was for us
        if not os.path.samestat(ours, there) or there.st_size < self._read:
            return True
        size = len(self._last_bytes)
        return size > 0 and os.pread(self._descriptor, size, self._read - size) != self._last_bytes

    def span(self, place: int, after: int | None) -> bytes:
        """Read again what stands between two places; up to where reading has come, if there is no second."""
        end = self.place if after is None else after
        try:
            descriptor = open_regular(self.path)
        except OSError:
            return b""
        try:
            out = []
            while place < end and (data := os.pread(descriptor, end - place, place)):
                out.append(data)
                place += len(data)
            return b"".join(out)
        except OSError:
            return b""
        finally:
            os.close(descriptor)

    def close(self) -> None:
        """Close the file."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def open_regular(path: Path) -> int:
    """Open a regular file to read it; a pipe does not make it wait.

    Raises
    ------
    OSError
        If it cannot be opened, or is a folder, a pipe or a device.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return descriptor
    os.close(descriptor)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "it is a folder, and was a file", os.fspath(path))
    raise OSError(errno.EINVAL, "it is no regular file", os.fspath(path))


_NOTE = re.compile(r"process (\d{1,9}) on (\S+) since ")


def is_written(path: Path) -> bool:
    """Say whether a file has a writer: one that is alive, where that can be told.

    No lock is tried: whoever tries one may keep a writer out.

    >>> is_written(Path("nowhere", "decisions.jsonl"))
    False
    """
    target = Path(os.path.realpath(path))
    try:
        note = target.with_name(f".{target.name}.lock").read_text(errors="replace")[:400]
    except OSError:
        return False
    found = _NOTE.match(note)
    if found is None or found[2] != platform.node():
        return True
    try:
        os.kill(int(found[1]), 0)
    except ProcessLookupError:
        return False  # left by a crash
    except PermissionError:
        return True
    return True


STRIDE = 256
"""Lines between two marks."""
NEAR = 4096
"""Lines beyond the expected one in which a key is looked for."""
REMEMBERED = 4096
"""Instances whose features are remembered."""
LONGEST_ROW = 1 << 20
"""Bytes of a line that is looked at."""


class InputRows:
    """A file of instances, CSV or JSON Lines, in which features are looked up.

    An instance that was decided as number *n* stands in row *n*, or after it, as rows with a label or without use are
    not decided: the key tells which row it is.

    Parameters
    ----------
    path
        The file.
    key
        Column of the key; None: rows are decided one by one, and none was set aside.
    hidden
        Columns that are no features.

    Raises
    ------
    ConnectorError
        If it cannot be read.
    """

    def __init__(self, path: Path, key: str | None, hidden: tuple[str, ...] = ()) -> None:
        if path.suffix.lower() == ".gz":
            raise ConnectorError(
                f"{path} is compressed, and nothing can be looked up in it; give --input a plain file"
            )
        if path.suffix.lower() in (".parquet", ".pq") or path.is_dir():
            raise ConnectorError(
                f"{path} is no table of lines, and features are looked up in such; give --input CSV or JSON Lines"
            )
        self._path, self._key = path, key
        self._lock = threading.Lock()
        self._kept: OrderedDict[int, dict[str, Any] | None] = OrderedDict()
        self._marks = [0]
        self._marked = 0
        self._lines = 0
        self._ahead = 0
        self._missed = 0
        self._header: list[str] | None = None
        self._begun = False
        self._delimiter = "\t" if path.suffix.lower() == ".tsv" else ","
        self._hidden = {*hidden, *([] if key is None else [key])}
        self._begin()

    def _begin(self) -> bool:
        """Look which form the file has, as soon as something stands in it."""
        try:
            with self._path.open("rb") as file:
                first = file.readline(LONGEST_ROW)
        except OSError as error:
            raise ConnectorError(f"cannot read {self._path}: {error.strerror}; check the path") from None
        if not first.endswith(b"\n"):
            return False
        if not first.lstrip().startswith(b"{"):
            self._header = next(csv.reader([first.decode(errors="replace")], delimiter=self._delimiter), [])
        names = self._header
        if self._key is not None and names is not None and self._key not in names:
            raise ConnectorError(
                f"{self._path} has no column {self._key!r}; --key names one of {', '.join(names[:20])}"
            )
        self._begun = True
        return True

    def find(self, decision: Mapping[str, Any]) -> dict[str, Any] | None:
        """Find the features of an instance that was decided; None: they are not where they should be."""
        number, key = decision.get("seq"), decision.get("key")
        if not isinstance(number, int) or (self._key is not None and key is None):
            return None
        with self._lock:
            if not (self._begun or self._begin()):
                return None
            if number in self._kept:
                self._kept.move_to_end(number)
                return self._kept[number]
            found = self._look(number, key)
            self._kept[number] = found
            if len(self._kept) > REMEMBERED:
                self._kept.popitem(last=False)
            self._missed += found is None
            return found

    def _look(self, number: int, key: object) -> dict[str, Any] | None:
        header = self._header is not None
        start = number + header
        if self._key is None:
            for _, row in self._rows(start, 1):
                return self._features(row)
            return None
        near = start + self._ahead
        for begin, most in ((max(start, near - 64), 128), (start, NEAR)):
            for line, row in self._rows(begin, most):
                if str(row.get(self._key)) == str(key):
                    self._ahead = max(0, line - start)
                    return self._features(row)
        return None

    def _features(self, row: Mapping[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in row.items() if name not in self._hidden}

    def _rows(self, line: int, most: int) -> list[tuple[int, dict[str, Any]]]:
        """Read rows from a line on, each with the number of its line."""
        out: list[tuple[int, dict[str, Any]]] = []
        try:
            with self._path.open("rb") as file:
                self._mark(file, line)
                at = min(line // STRIDE, len(self._marks) - 1)
                file.seek(self._marks[at])
                for _ in range(line - at * STRIDE):
                    if not file.readline():
                        return out
                for here in range(line, line + most):
                    text = file.readline(LONGEST_ROW)
                    if not text:
                        break
                    row = self._row(text)
                    if row is not None:
                        out.append((here, row))
        except OSError:
            return out
        return out

    def _mark(self, file: Any, line: int) -> None:
        """Note where every so-many-th line begins, up to one."""
        file.seek(self._marked)
        while self._lines < line + STRIDE:
            text = file.readline()
            if not text.endswith(b"\n"):
                return
            self._marked += len(text)
            self._lines += 1
            if self._lines % STRIDE == 0:
                self._marks.append(self._marked)

    def _row(self, text: bytes) -> dict[str, Any] | None:
        if self._header is None:
            return json_object(text)
        texts = next(csv.reader([text.decode(errors="replace")], delimiter=self._delimiter), [])
        if len(texts) != len(self._header):
            return None
        # a key is text, as the run has read it
        named = zip(self._header, texts, strict=True)
        return {name: cell if name == self._key else _number(cell) for name, cell in named}

    def notes(self) -> list[str]:
        """Say how many instances were not found."""
        if not self._missed:
            return []
        remedy = "" if self._key else "; --key COLUMN finds instances by their keys"
        return [f"The features of {self._missed} instances were not found in {self._path.name}{remedy}."]


def _number(cell: str) -> Any:
    try:
        return float(cell)
    except ValueError:
        return cell or None


EVENTS_AT_ONCE = 1 << 18
"""Bytes of events that are read before decisions are."""


class FileFeed:
    """The files of a run.

    Parameters
    ----------
    decisions, events
        What `stream-osr run` writes; without events subclasses are told from decisions alone.
    inputs
        Where features are found.
    speed
        Decisions a second; None: as fast as they can be read.

    Raises
    ------
    ConnectorError
        If a file is none that can be followed.
    """

    kind = "file"
    prefixes: Sequence[str] = ("",)

    def __init__(
        self, decisions: Path, events: Path | None, inputs: InputRows | None = None, speed: float | None = None
    ) -> None:
        for path in (decisions, events):
            if path is not None:
                _check(path)
        self.name = decisions.name
        self.has_events = events is not None
        self._decisions = Tail(decisions)
        self._events = None if events is None else Tail(events)
        self._inputs = inputs
        self._speed = speed
        self._began: float | None = None
        self._kept: list[tuple[int, int, bytes]] = []
        self._kept_events: list[tuple[int, int, bytes]] = []
        self._sent = 0

    def poll(self, refuse: Callable[[str, BaseException], None]) -> NewRecords:
        """Read what has come."""
        try:
            if self._events is not None:  # kept until decisions are read, too: that may fail
                self._kept_events += self._events.read(EVENTS_AT_ONCE)
            lines = self._paced()
        except FeedTruncated:
            self._begin()
            raise
        events, self._kept_events = self._parsed(self._kept_events, "event", refuse), []
        decisions = [(0, number, place, one) for number, place, one in self._parsed(lines, "decision", refuse)]
        more = bool(self._kept) or self._decisions.more() or (self._events is not None and self._events.more())
        if self._speed is not None and not decisions:
            more = False
        return NewRecords(decisions, [(0, one) for _, _, one in events], more)

    def _begin(self) -> None:
        for tail in (self._decisions, self._events):
            if tail is not None:
                tail.close()
        self._decisions = Tail(self._decisions.path)
        self._events = None if self._events is None else Tail(self._events.path)
        self._kept, self._kept_events, self._sent, self._began = [], [], 0, None

    def _paced(self) -> list[tuple[int, int, bytes]]:
        """Read lines, no more of them than the speed allows."""
        if self._speed is None:
            return self._decisions.read()
        if not self._kept:
            self._kept = self._decisions.read()
        now = time.monotonic()
        self._began = now if self._began is None else self._began
        due = max(0, int((now - self._began) * self._speed) - self._sent)
        out, self._kept = self._kept[:due], self._kept[due:]
        self._sent += len(out)
        return out

    @staticmethod
    def _parsed(
        lines: Sequence[tuple[int, int, bytes]], kind: str, refuse: Callable[[str, BaseException], None]
    ) -> list[tuple[int, int, dict[str, Any]]]:
        out = []
        loads = orjson.loads
        for number, place, line in lines:
            try:
                one = loads(line)
            except orjson.JSONDecodeError as error:
                if line.strip():
                    refuse(kind, ValueError(f"line {number + 1} is not JSON: {error}"))
                continue
            if isinstance(one, dict):
                out.append((number, place, one))
            else:
                refuse(kind, ValueError(f"line {number + 1} is no JSON object"))
        return out

    def behind(self) -> int | None:
        """Say how many decisions are still to be read: not known of a file."""
        return len(self._kept) or None

    def running(self) -> bool:
        """Say whether a run writes the decisions."""
        return is_written(self._decisions.path)

    def block(
        self, track: int, number: int, place: int, after: int | None, only: Collection[int] | None = None
    ) -> list[FoundDecision]:
        """Read a block of decisions again, or some of it."""
        out = []
        for at, line in enumerate(self._decisions.span(place, after).split(b"\n"), start=number):
            if only is not None and at not in only:
                continue
            if (one := json_object(line)) is not None:
                out.append(FoundDecision(at, one))
        return out

    def features(self, found: Sequence[FoundDecision]) -> list[dict[str, Any] | None]:
        """Find the features in the input."""
        if self._inputs is None:
            return [None] * len(found)
        return [self._inputs.find(one.decision) for one in found]

    def notes(self) -> list[str]:
        """Say what could not be read."""
        out = []
        name = self._decisions.path.name
        if not os.path.lexists(self._decisions.path):
            out.append(
                f"{name} was removed; the page shows what it held."
                if self._decisions.number
                else f"{name} is not there yet; it is shown as soon as a run writes it."
            )
        if self._events is None:
            out.append(
                "There is no file of events (--events FILE): subclasses are told from decisions alone, without what "
                "they are like."
            )
        if self._inputs is None:
            out.append("Features of examples are not shown: --input FILE names the file that was decided.")
        else:
            out += self._inputs.notes()
        return out

    def close(self) -> None:
        """Close the files."""
        for tail in (self._decisions, self._events):
            if tail is not None:
                tail.close()


def _check(path: Path) -> None:
    if path.suffix.lower() in (".gz", ".csv", ".tsv", ".parquet", ".pq"):
        raise ConnectorError(
            f"{path} is followed as JSON Lines, and by its name it is something else; "
            "give the run --output decisions.jsonl --events events.jsonl"
        )
    if path.is_dir():
        raise ConnectorError(f"{path} is a folder; name the file of decisions that `stream-osr run` writes")
    try:
        with path.open("rb") as file:
            first = file.read(64).lstrip()
    except FileNotFoundError:
        return
    except OSError as error:
        raise ConnectorError(f"cannot read {path}: {error.strerror}; check the path") from None
    if first and first[:1] != b"{":
        raise ConnectorError(f"{path} does not begin with a JSON object; give the decisions that a run wrote")
