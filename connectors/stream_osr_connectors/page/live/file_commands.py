"""Commands of the page, and the history on the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import Any

from stream_osr.errors import ConnectorError, NothingToUndo, StreamOSRError
from stream_osr_connectors.commands import Command, CommandEntry, CommandReceipt, history
from stream_osr_connectors.commands.command_entry import last_standing
from stream_osr_connectors.commands.file_log import CommandLog, of_file
from stream_osr_connectors.files.checkpoint import ask
from stream_osr_connectors.summary.naming import naming_command

MOST_ENTRIES = 200
"""Most entries of the history on the page."""


class Conflict(StreamOSRError):
    """A command for a state that has changed meanwhile."""


class Acts:
    """Interface from the page's commands to the stream.

    Parameters
    ----------
    allowed
        Whether commands are allowed.

    Attributes
    ----------
    version
        Increases with each command.
    """

    def __init__(self, *, allowed: bool) -> None:
        self.allowed = allowed
        self.version = 0
        self._entries: Sequence[CommandEntry] = ()
        self._trouble = ""
        self._one_by_one = Lock()

    def look(self) -> None:
        """Read new commands from this page and from elsewhere."""

    def _send(self, commands: Sequence[Command]) -> CommandReceipt:
        raise NotImplementedError

    def stop(self) -> None:
        """Release all resources."""

    def ask(self, commands: Sequence[Command], n: int | None = None) -> CommandReceipt:
        """Send commands to the stream. For an undo, ``n`` is the number of the command to revert.

        Raises
        ------
        Conflict
            If the undo would revert a different command.
        StreamOSRError
            If the command fails.
        """
        with self._one_by_one:
            self.look()
            if commands[0].action == "undo":
                commands = [self._meant(commands[0], n)]
            try:
                return self._send(commands)
            finally:
                self.look()

    def _meant(self, undo: Command, n: int | None) -> Command:
        """Direct an undo to the partition of command ``n``, or of the latest command."""
        last = last_standing(self._entries)
        if n is not None and not last:
            raise NothingToUndo(f"change {n} was undone already, and there is nothing else to undo")
        if n is not None and n not in last.values():
            remedy = "another person has made a change. Check the history, and undo the latest change"
            raise Conflict(f"change {n} is no longer the latest: {remedy}")
        if not last or (n is None and undo.partition is not None):
            return undo
        wanted = max(last.values()) if n is None else n
        return undo._replace(partition=next(partition for partition, each in last.items() if each == wanted))

    def named(self) -> Mapping[str, tuple[str, str | None]]:
        """Return status and label of each subclass with commands, including undone ones.

        For a service the result is empty, because its events report the status.
        """
        out: dict[str, tuple[str, str | None]] = {}
        for entry in self._entries:
            command = entry.command
            if command is not None and command.action in ("promote", "mute") and entry.outcome == "done":
                status = ("named", str(command.label)) if command.action == "promote" else ("muted", None)
                out |= dict.fromkeys(command.names, status if entry.undone_by is None else ("emerging", None))
        return out

    def naming_command(self, ids: Sequence[str]) -> str | None:
        """Return the command that names the subclasses of a candidate, or ``None`` if it is unknown."""
        return None

    def history(self) -> Sequence[Mapping[str, Any]]:
        """Return the newest ``MOST_ENTRIES`` commands, newest first."""
        last = last_standing(self._entries).values()
        return [
            {
                "n": entry.n,
                "at": entry.at,
                "by": command.by,
                "action": command.action,
                "subclasses": command.names,
                "label": command.label,
                "what": command.describe() + (f", undoes {entry.takes_back}" if entry.takes_back else ""),
                "outcome": entry.outcome + (f": {entry.why}" if entry.why else ""),
                "reason": command.reason,
                "undone": entry.undone_by is not None,
                "undoable": entry.n in last,
            }
            for entry in self._entries[: -MOST_ENTRIES - 1 : -1]
            if (command := entry.command) is not None
        ]

    def notes(self) -> Sequence[str]:
        """Describe errors."""
        return [self._trouble] if self._trouble else []


class FileActs(Acts):
    """Commands to the checkpoint of a run over files.

    Parameters
    ----------
    checkpoint
        The checkpoint.
    allowed
        Whether commands are allowed.
    stream
        Key of the stream, if there is one for each key.
    """

    def __init__(self, checkpoint: Path, *, allowed: bool, stream: str | None = None) -> None:
        super().__init__(allowed=allowed)
        self._checkpoint, self._stream = checkpoint, stream
        self._mark: object = None

    def naming_command(self, ids: Sequence[str]) -> str:
        """Return the command that names the subclasses of a candidate."""
        return naming_command(ids, self._checkpoint, self._stream)

    def _send(self, commands: Sequence[Command]) -> CommandReceipt:
        own = [of_file(command._replace(stream=self._stream)) for command in commands]
        return [ask(self._checkpoint, each) for each in own][-1]

    def look(self) -> None:
        """Read the log again if it has changed."""
        try:
            found = CommandLog(self._checkpoint).path.stat()
            mark: object = (found.st_ino, found.st_size, found.st_mtime_ns)
        except OSError:
            mark = None
        if mark == self._mark:
            return
        try:
            self._entries, self._trouble = self._own(history(self._checkpoint)) if mark else [], ""
        except ConnectorError as error:
            self._trouble = f"The command log cannot be read: {error}"
        self._mark = mark
        self.version += 1

    def _own(self, entries: Sequence[CommandEntry]) -> Sequence[CommandEntry]:
        """Select the commands to the shown stream, without its key."""
        if self._stream is None:
            return entries
        return [
            entry._replace(command=entry.command._replace(stream=None))
            for entry in entries
            if entry.command is not None and entry.command.stream == self._stream
        ]
