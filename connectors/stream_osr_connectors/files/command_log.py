"""What people ask of a checkpoint, and what came of it: a file beside it, both queue and audit log.

A line says what is asked, with a number, by whom and when; another one, later, what came of it. Lines are only
appended, and are on the disk before anybody is told so. A last line without an end is of a process that died over
it: nobody was told of it, nobody reads it, and the next line takes its place.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

from stream_osr.atomic import flush_folder, private
from stream_osr.config import Label
from stream_osr.errors import ConnectorError, InvalidParameter, StreamOSRError
from stream_osr.labels import clean_label
from stream_osr.limits import (
    MOST_BY_BYTES,
    MOST_REASON_BYTES,
    MOST_SUBCLASSES,
    MOST_WHOLE,
    check_key,
    check_label,
    trouble_with,
)
from stream_osr.showing import printable, typed

from ..values import DecodeError, key_of
from .opening import why

logger = logging.getLogger("stream_osr")

Action: TypeAlias = Literal["promote", "mute", "undo", "label"]
"""What can be asked; :class:`Asked` says what each is."""
Result: TypeAlias = Literal["done", "refused", "left"]
"""Done, impossible, or asked of an earlier run and no longer of interest."""

LOCK_SECONDS = 30.0
"""How long somebody else may be writing the log: a command that does what is asked loads and saves a model."""


class Asked(NamedTuple):
    """One thing that is asked of a stream.

    Attributes
    ----------
    action
        ``promote``: these subclasses are (of) this class. ``mute``: nothing more is told of them. ``label``: the
        instance with this key is of this class. ``undo``: take the last one of these back.
    subclasses
        Ids of emerging subclasses.
    label
        The class.
    key
        Of the instance.
    reason
        Why, in the words of whoever asks.
    by
        Who asks.
    """

    action: Action
    subclasses: tuple[int, ...] = ()
    label: Label | None = None
    key: str | int | None = None
    reason: str | None = None
    by: str | None = None

    def said(self) -> str:
        """Say it in a few words.

        >>> Asked("promote", (11, 12), "sky").said(), Asked("undo").said()
        ('promote 11, 12 to sky', 'undo')
        """
        ids = ", ".join(map(str, self.subclasses))
        if self.action == "promote":
            return f"promote {ids} to {self.label}"
        if self.action == "label":
            return f"label {self.key} as {self.label}"
        return f"mute {ids}" if self.action == "mute" else "undo"


class Act(NamedTuple):
    """What was asked, with its number and the time (ISO 8601, UTC)."""

    n: int
    at: str
    asked: Asked


class Outcome(NamedTuple):
    """What came of it.

    Attributes
    ----------
    of
        Its number.
    outcome
        What it is.
    after
        Records that the run had read: whoever does it again after a crash does it there.
    why, error
        The reason, if it was not done, and the name of the error.
    place
        Place in the order of what can be taken back (of an undo: of what it took back).
    """

    of: int
    outcome: Result
    after: int
    why: str | None = None
    error: str | None = None
    place: int | None = None


def checked(asked: Asked) -> Asked:
    """Check what is asked, as far as that is possible without the stream.

    Raises
    ------
    InvalidParameter, InvalidLabel, InvalidInstance
        Saying what is wrong.

    Examples
    --------
    >>> checked(Asked("mute", (11,), reason=" a lamp ")).reason
    'a lamp'
    >>> checked(Asked("promote", (11,)))
    Traceback (most recent call last):
        ...
    stream_osr.errors.InvalidParameter: promote without a label; say of which class it is
    """
    action, subclasses, label, key, reason, by = asked
    if action not in get_args(Action):
        raise InvalidParameter(f"action is {typed(action)}; expected one of {', '.join(get_args(Action))}")
    there = {"subclass": bool(subclasses), "label": label is not None, "key": key is not None}
    for name, remedy, needed_by in _NEEDED:
        if action in needed_by and not there[name]:
            raise InvalidParameter(f"{action} without a {name}; {remedy}")
        if action not in needed_by and there[name]:
            raise InvalidParameter(f"{action} with a {name}; leave it out")
    if len(subclasses) > MOST_SUBCLASSES:
        raise InvalidParameter(f"{len(subclasses)} subclasses at a time; {MOST_SUBCLASSES} are allowed")
    for each in subclasses:
        if type(each) is not int or not 0 <= each <= MOST_WHOLE:
            raise InvalidParameter(f"subclass id is {typed(each)}; expected whole numbers from 0, such as 7")
    if label is not None:
        label = clean_label(label)
        check_label(label)
    try:
        check_key(key_of(key))
    except DecodeError as error:
        raise InvalidParameter(f"key {error}") from None
    reason, by = _words("reason", reason, MOST_REASON_BYTES), _words("by", by, MOST_BY_BYTES)
    return Asked(action, tuple(subclasses), label, key, reason, by)


_NEEDED = (
    ("subclass", "name one, as events and decisions do", ("promote", "mute")),
    ("label", "say of which class it is", ("promote", "label")),
    ("key", "say which instance is meant", ("label",)),
)


def _words(name: str, text: str | None, most: int) -> str | None:
    if text is None:
        return None
    if not isinstance(text, str):
        raise InvalidParameter(f"{name} is {typed(text)}; expected text")
    if trouble := trouble_with(text, most):
        raise InvalidParameter(f"{name} is {typed(text)}: {trouble}; say it in fewer words")
    return text.strip() or None


class AskLog:
    """The log beside a checkpoint, read on as it grows.

    Parameters
    ----------
    checkpoint
        The file, by any name; it need not exist.

    Attributes
    ----------
    path
        Where the log is, or will be.
    last
        Number of the last act that has been read; 0: of none.
    """

    def __init__(self, checkpoint: str | os.PathLike[str]) -> None:
        self.path = Path(f"{os.path.realpath(checkpoint)}.asked.jsonl")
        self._file: int | None = None
        self.rewind()

    def rewind(self) -> None:
        """Read from the beginning again."""
        self.last = self._offset = self._row = 0
        self._inode: int | None = None

    def grown(self) -> bool:
        """Say whether there is something to be read, by a look at the file's size."""
        try:
            found = os.stat(self.path)  # noqa: PTH116  # several times a second
        except OSError:
            return False
        return found.st_size != self._offset or found.st_ino != self._inode

    def read(self) -> list[Act | Outcome]:
        """Read on; a line that is none of ours is left, with a word in the log of the program.

        Raises
        ------
        ConnectorError
            If the log cannot be read.
        """
        try:
            with self.path.open("rb") as file:
                found = os.fstat(file.fileno())
                if found.st_ino != self._inode or found.st_size < self._offset:
                    self.rewind()
                    self._inode = found.st_ino
                file.seek(self._offset)
                data = file.read()
        except FileNotFoundError:
            return []
        except OSError as error:
            raise ConnectorError(f"cannot read {self.path}: {why(error)}; check its rights") from None
        whole = data[: data.rfind(b"\n") + 1]
        self._offset += len(whole)
        lines: list[Act | Outcome] = []
        for line in whole.split(b"\n")[:-1]:
            self._row += 1
            try:
                lines.append(_parsed(line))
            except (ValueError, TypeError, LookupError, RecursionError, AttributeError, StreamOSRError) as error:
                logger.warning("%s: line %d is left: %s", self.path, self._row, printable(str(error), 300))
                continue
            if isinstance(lines[-1], Act):
                self.last = max(self.last, lines[-1].n)
        return lines

    @contextmanager
    def held(self) -> Iterator[None]:
        """Be the only one to write the log; within such a block another one does nothing.

        Raises
        ------
        ConnectorError
            If it cannot be written, or somebody else has been writing for long.
        """
        if self._file is not None:
            yield
            return
        new = not self.path.exists()
        try:
            self._file = private(os.fspath(self.path), os.O_RDWR | os.O_CREAT | os.O_APPEND)
        except OSError as error:
            raise ConnectorError(f"cannot write {self.path}: {why(error)}; check its folder and rights") from None
        try:
            self._lock(self._file)
            if new:
                flush_folder(self.path.parent)
            yield
        finally:
            os.close(self._file)  # lets go of the lock
            self._file = None

    def ask(self, asked: Asked, above: int = 0) -> int:
        """Append what is asked, and return its number, which is above all others and above one that is given."""
        with self.held():
            self.read()
            n = max(self.last, above) + 1
            given = {name: value for name, value in asked._asdict().items() if value is not None and value != ()}
            self._append({"n": n, "at": _now(), **given})
        return n

    def tell(self, outcome: Outcome) -> None:
        """Append what came of something."""
        given = {name: value for name, value in outcome._asdict().items() if value is not None}
        with self.held():
            self._append({**given, "at": _now()})

    def _append(self, line: Mapping[str, object]) -> None:
        assert self._file is not None
        data = json.dumps(line, ensure_ascii=False).encode() + b"\n"
        try:
            end = _end_of_lines(self._file)
            os.ftruncate(self._file, end)
            try:
                written = os.write(self._file, data)
                while written < len(data):
                    written += os.write(self._file, data[written:])
                os.fsync(self._file)
            except OSError:
                os.ftruncate(self._file, end)
                raise
        except OSError as error:
            raise ConnectorError(f"cannot write {self.path}: {why(error)}; nothing was asked") from None

    def _lock(self, file: int) -> None:
        until = time.monotonic() + LOCK_SECONDS
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > until:
                    raise ConnectorError(
                        f"{self.path} has been held by another process for {LOCK_SECONDS:.0f} s; see what it is "
                        "about, and try again"
                    ) from None
                time.sleep(0.02)
            except OSError:  # a file system that cannot lock; `locking` says so of the checkpoint
                return
            else:
                return


def _end_of_lines(file: int) -> int:
    """Find where the last whole line ends."""
    end = os.fstat(file).st_size
    while end:
        begin = max(0, end - 4096)
        at = os.pread(file, end - begin, begin).rfind(b"\n")
        if at >= 0:
            return begin + at + 1
        end = begin
    return 0


def _parsed(line: bytes) -> Act | Outcome:
    fields: dict[str, Any] = json.loads(line)
    at = fields.pop("at")
    if "of" in fields:
        outcome = Outcome(**fields)
        texts = all(each is None or isinstance(each, str) for each in (outcome.why, outcome.error))
        if (
            not texts
            or type(outcome.of) is not int
            or type(outcome.after) is not int
            or outcome.outcome not in get_args(Result)
        ):
            raise ValueError("it is no outcome")
        return outcome
    n = fields.pop("n")
    if type(n) is not int or n < 1 or not isinstance(at, str):
        raise ValueError("it has no number or no time")
    fields["subclasses"] = tuple(fields.get("subclasses", ()))
    return Act(n, at, checked(Asked(**fields)))


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
