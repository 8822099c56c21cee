"""The command log of a run over files, a file beside the checkpoint. It is both queue and record.

Each line is a command or its result, with a number and a time. Lines are only appended. A line is on the disk before
the caller sees a result. If a process dies while it writes a line, the line has no end. Readers skip it, and the
next line replaces it.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, get_args

from stream_osr.errors import ConnectorError, InvalidParameter, StreamOSRError
from stream_osr.printable_text import printable
from stream_osr.support.atomic import flush_folder, private

from ..growing_file import FeedTruncated, Tail, end_of_lines
from .command import Command, CommandResult, Result
from .command_entry import CommandEntry, pair_undos

logger = logging.getLogger("stream_osr")

LOCK_SECONDS = 30.0
"""Longest wait for another writer. A command that is applied at once loads and saves a model."""


class LogLine(NamedTuple):
    """A line of the log: a command or a result, with the number of the command and the time (ISO 8601, UTC)."""

    n: int
    at: str
    content: Command | CommandResult


class CommandLog:
    """The log beside a checkpoint, which can be read while it grows.

    Parameters
    ----------
    checkpoint
        Path of the checkpoint, which need not exist.

    Attributes
    ----------
    path
        Path of the log, which need not exist.
    last
        Number of the last command read, or 0.
    """

    def __init__(self, checkpoint: str | os.PathLike[str]) -> None:
        self.path = Path(f"{os.path.realpath(checkpoint)}.asked.jsonl")
        self._file: int | None = None
        self.rewind()

    def rewind(self) -> None:
        """Read from the beginning again."""
        self.last, self._tail = 0, Tail(self.path)

    def read(self) -> list[LogLine]:
        """Read the new lines. A line that is not valid is skipped with a warning.

        Raises
        ------
        ConnectorError
            If the log cannot be read.
        """
        try:
            with closing(self._tail):
                found = [*self._tail.read_all()]
        except FeedTruncated:
            self.rewind()
            return self.read()
        except OSError as error:
            raise ConnectorError(f"cannot read {self.path}: {error.strerror}. Check its permissions") from None
        lines: list[LogLine] = []
        for row, _, line in found:
            try:
                lines.append(_parsed(line))
            except (ValueError, TypeError, LookupError, RecursionError, AttributeError, StreamOSRError) as error:
                logger.warning("%s: line %d is skipped: %s", self.path, row + 1, printable(str(error), 300))
                continue
            if isinstance(lines[-1].content, Command):
                self.last = max(self.last, lines[-1].n)
        return lines

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Lock the log for writing. A nested block does nothing.

        Raises
        ------
        ConnectorError
            If the log cannot be written, or another process has locked it for long.
        """
        if self._file is not None:
            yield
            return
        new = not self.path.exists()
        try:
            self._file = private(os.fspath(self.path), os.O_RDWR | os.O_CREAT | os.O_APPEND)
        except OSError as error:
            raise ConnectorError(
                f"cannot write {self.path}: {error.strerror}. Check folder and permissions"
            ) from None
        try:
            self._lock(self._file)
            if new:
                flush_folder(self.path.parent)
            yield
        finally:
            os.close(self._file)  # lets go of the lock
            self._file = None

    def ask(self, command: Command, above: int = 0) -> int:
        """Append a command. Return its number, which is above all others and above ``above``."""
        with self.exclusive():
            self.read()
            n = max(self.last, above) + 1
            self._append({"n": n, "at": _now(), **_given(command)})
        return n

    def tell(self, n: int, result: CommandResult) -> None:
        """Append the result of a command."""
        with self.exclusive():
            self._append({"of": n, **_given(result), "at": _now()})

    def _append(self, line: Mapping[str, object]) -> None:
        assert self._file is not None
        data = json.dumps(line, ensure_ascii=False).encode() + b"\n"
        try:
            end = end_of_lines(self._file)
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
            raise ConnectorError(f"cannot write {self.path}: {error.strerror}. The command is not queued") from None

    def _lock(self, file: int) -> None:
        until = time.monotonic() + LOCK_SECONDS
        while not _locked(file):
            if time.monotonic() > until:
                raise ConnectorError(
                    f"another process has locked {self.path} for {LOCK_SECONDS:.0f} s. Check that process, and try "
                    "again"
                )
            time.sleep(0.02)


def history(checkpoint: str | os.PathLike[str]) -> list[CommandEntry]:
    """List all commands to a checkpoint, in order.

    Raises
    ------
    ConnectorError
        If the log cannot be read.
    """
    entries: dict[int, CommandEntry] = {}
    for n, at, content in CommandLog(checkpoint).read():
        if isinstance(content, Command):
            entries[n] = CommandEntry(n, at, content)
        elif n in entries:  # one that was done again after a crash may have another: that is the one
            outcome, after, why, _, place = content
            entries[n] = entries[n]._replace(outcome=outcome, after=after, why=why, place=place)
    return pair_undos(entries.values())


def of_file(command: Command) -> Command:
    """Check a command to a run over files.

    Raises
    ------
    InvalidParameter, InvalidLabel, InvalidInstance
        If the command is incomplete or too long, or names a partition.
    """
    if command.partition is not None or command.run is not None:
        raise InvalidParameter(f"{command.place or command.run}: a run over files is one stream. Leave it out")
    return command.checked()


def _given(fields: Command | CommandResult) -> dict[str, Any]:
    return {name: value for name, value in fields._asdict().items() if value not in (None, ())}


def _locked(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system that cannot lock; `locking` says so of the checkpoint
        pass
    return True


def _parsed(line: bytes) -> LogLine:
    fields: dict[str, Any] = json.loads(line)
    at, n = fields.pop("at"), fields.pop("of" if "of" in fields else "n")
    if type(n) is not int or n < 1 or not isinstance(at, str):
        raise ValueError("it has no number or no time")
    if "outcome" not in fields:
        return LogLine(n, at, of_file(Command(**{**fields, "subclasses": tuple(fields.get("subclasses", ()))})))
    result = CommandResult(**fields)
    texts = all(each is None or isinstance(each, str) for each in (result.why, result.error))
    if not texts or type(result.after) is not int or result.outcome not in get_args(Result):
        raise ValueError("it is not a result")
    return LogLine(n, at, result)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
