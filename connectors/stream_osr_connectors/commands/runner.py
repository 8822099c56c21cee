"""A runner of commands: whoever holds a stream applies what is due, in order, each command once."""

from __future__ import annotations

import logging
import time
from collections import Counter, deque

from stream_osr import OpenSetRecognizer

from .command import Command, CommandResult, Partition
from .file_log import CommandLog

service_logger = logging.getLogger("stream_osr.kafka")

LOOK_SECONDS = 0.25
"""How often a run looks for new commands."""


class CommandRunner:
    """The commands of a checkpoint, for the one who holds it.

    How far it has come is the number ``totals["asked"]``, which is saved with the model; it is not there where
    nothing was ever asked. A result is written to the log before anything of it can be seen, with the number of
    records that had been read: whoever goes on from an earlier checkpoint applies the command there again, and all
    that follows is the same.

    Parameters
    ----------
    log
        Beside the checkpoint.
    totals
        Counts of the run.
    begins
        Whether the run is a new one: what was asked of an earlier one is left.
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
        """Say whether something is to be done before the next record; looks at the log several times a second."""
        now = time.monotonic()
        if now >= self._look_at:
            self._look_at = now + LOOK_SECONDS
            self._look()
        return bool(self._pending) and self._is_due(self._pending[0][0])

    def last_look(self) -> bool:
        """Say whether anything is left to be done, now that no more records come."""
        self._look()
        return bool(self._pending)

    def run(self, model: OpenSetRecognizer, *, all: bool = False) -> list[tuple[int, Command, CommandResult]]:
        """Apply what is due, in order, or all that waits; what cannot be done changes nothing.

        Returns
        -------
        Commands with their numbers and results.
        """
        done = list[tuple[int, Command, CommandResult]]()
        while self._pending and (all or self._is_due(self._pending[0][0])):
            n, command = self._pending.popleft()
            result = command.apply(model)._replace(after=self._totals["read"])
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
        why = "the run that it was asked of has ended, and another one has begun anew"
        for n, _ in self._pending:
            if n not in self._known:
                self._log.tell(n, CommandResult("left", why=why))
        self._pending.clear()
        self._known.clear()
        if self._log.last:
            self._totals["asked"] = self._log.last


def apply_in_partition(command: Command, model: OpenSetRecognizer, partition: Partition, run: str) -> bool:
    """Apply a command to the recognizer of one partition of a service; what cannot be done is logged.

    Returns
    -------
    False: it is left. True: it is done, or asked of another partition.
    """
    if command.partition not in (None, partition):
        return True
    if command.run in (None, run):
        result = command.apply(model, keys_elsewhere=True)
    else:
        result = CommandResult("left", why="it was asked of an earlier run, and the partition has begun anew since")
    if result.outcome != "done":
        line = "%s/%d: %s was asked for and is left: %s"
        service_logger.warning(line, *partition, command.action, result.why)
    elif command.action != "label":  # every partition hears of a label, and one knows the key
        service_logger.info("%s/%d: %s was asked for and is done", *partition, command.action)
    return result.outcome == "done"
