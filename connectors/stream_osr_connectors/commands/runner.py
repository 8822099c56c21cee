"""A runner of commands: it applies the commands to a stream in order, each one once."""

from __future__ import annotations

import logging
import time
from collections import Counter, deque
from collections.abc import Callable

from stream_osr import OpenSetRecognizer

from .command import Command, CommandResult
from .file_log import CommandLog
from .names import Partition

service_logger = logging.getLogger("stream_osr.kafka")

LOOK_SECONDS = 0.25
"""Seconds between two reads of the log."""


class CommandRunner:
    """Commands to a checkpoint, for the run that uses it.

    The number of the last command applied is ``totals["asked"]``, which is saved with the model. It is missing if no
    command was ever applied. The runner writes a result to the log before the result has any effect outside. The line
    includes the number of records read. A run that resumes from an earlier checkpoint applies the command at the same
    place again, so all later results are the same.

    Parameters
    ----------
    log
        Log beside the checkpoint.
    totals
        Counts of the run.
    begins
        Whether the run is new. It then skips commands to an earlier run.
    """

    def __init__(self, log: CommandLog, totals: Counter[str], *, begins: bool = False) -> None:
        self._log, self._totals = log, totals
        self._pending: deque[tuple[int, Command]] = deque()
        self._known: dict[int, CommandResult] = {}
        self._look_at = 0.0
        log.rewind()
        self._look()
        if begins:
            self._leave_all()

    def due(self) -> bool:
        """Return whether a command is due before the next record. It reads the log several times a second."""
        now = time.monotonic()
        if now >= self._look_at:
            self._look_at = now + LOOK_SECONDS
            self._look()
        return bool(self._pending) and self._is_due(self._pending[0][0])

    def last_look(self) -> bool:
        """Return whether commands are left at the end of the stream."""
        self._look()
        return bool(self._pending)

    def run(
        self, apply: Callable[[Command], CommandResult], *, all: bool = False
    ) -> list[tuple[int, Command, CommandResult]]:
        """Apply the commands that are due, or all of them, in order. A command that fails changes nothing.

        Returns
        -------
        The commands with their numbers and results.
        """
        done = list[tuple[int, Command, CommandResult]]()
        while self._pending and (all or self._is_due(self._pending[0][0])):
            n, command = self._pending.popleft()
            result = apply(command)._replace(after=self._totals["read"])
            if self._known.pop(n, None) != result:
                self._log.tell(n, result)
            self._totals["asked"] = n
            done.append((n, command, result))
        return done

    def _is_due(self, n: int) -> bool:
        return n not in self._known or self._known[n].after <= self._totals["read"]

    def _look(self) -> None:
        for n, _, content in self._log.read():
            if n <= self._totals.get("asked", 0):
                continue
            if isinstance(content, Command):
                self._pending.append((n, content))
            else:
                self._known[n] = content

    def _leave_all(self) -> None:
        why = "it was for an earlier run that has ended, and a new run has started since"
        for n, _ in self._pending:
            if n not in self._known:
                self._log.tell(n, CommandResult("left", why=why))
        self._pending.clear()
        self._known.clear()
        if self._log.last:
            self._totals["asked"] = self._log.last


def apply_in_partition(
    command: Command, model: OpenSetRecognizer, partition: Partition, run: str, by: str | None = None
) -> bool:
    """Apply a command to the recognizer of one partition or one key of a service. A command that fails is logged.

    Parameters
    ----------
    command, model, run
        The command, and the recognizer with the run of the stream.
    partition, by
        The partition, and the key if there is a recognizer for each key.

    Returns
    -------
    True if the command was applied or is for another partition, else False.
    """
    if command.partition not in (None, partition):
        return True
    if command.stream != by:
        result = CommandResult("refused", why="it names a key, and the service has no streams by key (setting by)")
    elif command.run in (None, run):
        result = command.apply(model, keys_elsewhere=by is None)
    else:
        result = CommandResult("left", why="it was for an earlier run, and the partition has started a new run since")
    if result.outcome != "done":
        line = "%s/%d: command %s was not applied: %s"
        service_logger.warning(line, *partition, command.action, result.why)
    elif command.action != "label":  # every partition hears of a label, and one knows the key
        service_logger.info("%s/%d: command %s was applied", *partition, command.action)
    return result.outcome == "done"
