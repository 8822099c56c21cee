"""The acceptor: one thread that writes accepted instances to the journal. One sync serves all requests that wait."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import Any, NamedTuple, TypeAlias

from stream_osr.errors import ConnectorError
from stream_osr.printable_text import brief
from stream_osr_connectors.page.live.file_commands import Conflict

from .journal import Entry, InstanceJournal, JournalLine

MOST_WAITING = 10_000
"""Most instances that wait for the journal."""
_STOP = None


class Accepted(NamedTuple):
    """An instance in the journal: its number, its key, and its immediate decision, ``None`` with a label."""

    n: int
    key: str | int
    immediate: dict[str, Any] | None


class NotWritten(ConnectorError):
    """The journal cannot be written at present."""


Done: TypeAlias = Callable[[list[Accepted] | Exception], None]


class _Submission(NamedTuple):
    size: int
    read: Callable[[], Sequence[JournalLine]]
    done: Done


class Acceptor(Thread):
    """A thread that reads the instances of all requests that wait, decides which ones are new, and writes them.

    Parameters
    ----------
    journal
        The journal. Only this thread writes it.
    predict
        Function that adds the immediate decisions to new instances.

    Attributes
    ----------
    waiting
        Number of instances that wait.
    on_end
        Called in the thread if the journal has failed for good.
    failure
        Why the journal has failed, or empty text.
    """

    def __init__(
        self, journal: InstanceJournal, predict: Callable[[Sequence[JournalLine]], None] = lambda lines: None
    ) -> None:
        super().__init__(name="stream-osr-journal", daemon=True)
        self._journal, self._predict = journal, predict
        self._queue: SimpleQueue[_Submission | None] = SimpleQueue()
        self._counting = Lock()
        self.waiting, self.failure = 0, ""
        self.on_end: Callable[[], None] = lambda: None

    def submit(self, size: int, read: Callable[[], Sequence[JournalLine]], done: Done) -> bool:
        """Submit the instances of a request, which are accepted together or not at all.

        Parameters
        ----------
        size
            Number of the instances.
        read
            Function that reads them. It is called in the thread.
        done
            Called once or more in the thread. Only the first result counts.

        Returns
        -------
        Whether the acceptor has taken them. It does not if too many wait.
        """
        with self._counting:
            if self.waiting + size > MOST_WAITING:
                return False
            self.waiting += size
        self._queue.put(_Submission(size, read, done))
        return True

    def run(self) -> None:
        """Write until :meth:`stop`."""
        while (first := self._queue.get()) is not _STOP:
            group, stopping = [first], False
            while not stopping:
                try:
                    each = self._queue.get_nowait()
                except Empty:
                    break
                stopping = each is _STOP
                group += [] if each is None else [each]
            if not self._write(group) or stopping:
                return

    def stop(self) -> None:
        """End after the instances that wait. A full disk does not delay the end."""
        self._journal.closing = True
        self._queue.put(_STOP)
        if self.ident is not None:
            self.join()

    def _write(self, group: Sequence[_Submission]) -> bool:
        """Write the new instances of several requests, and answer these. Return whether the journal is usable."""
        new: dict[str | int, JournalLine] = {}
        known: dict[str | int, Entry] = {}
        usable = list[tuple[Sequence[JournalLine], Done]]()
        for each in group:
            try:
                lines = each.read()
                new |= self._new(lines, new, known)
                usable.append((lines, each.done))
            except Exception as error:
                each.done(error)
        try:
            self._predict([*new.values()])
        except Exception as error:
            for _, done in usable:
                done(error)
            new, usable = {}, []

        def fail(reason: str) -> None:
            for _, done in usable:
                done(NotWritten(reason))
            self._refuse_waiting(reason)

        try:  # known entries are read first, because they may leave the horizon by the new ones
            results = {key: Accepted(entry.n, key, self._journal.immediate(entry)) for key, entry in known.items()}
            written = self._journal.append([*new.values()], fail) if new else []
            for line, entry in zip(new.values(), written, strict=True):
                results[line.key] = Accepted(entry.n, line.key, line.immediate)
            for lines, done in usable:
                done([results[line.key] for line in lines])
        except Exception as error:
            self.failure = f"{type(error).__name__}: {error}"
            fail(self.failure)
            self.on_end()
            return False
        finally:
            with self._counting:
                self.waiting -= sum(each.size for each in group)
        return True

    def _refuse_waiting(self, reason: str) -> None:
        """Answer the requests that wait while the disk is full. The request to stop stays in the queue."""
        refused, stops = list[_Submission](), False
        with suppress(Empty):
            while True:
                each = self._queue.get_nowait()
                stops = stops or each is _STOP
                refused += [] if each is None else [each]
        if stops:
            self._queue.put(_STOP)
        with self._counting:
            self.waiting -= sum(each.size for each in refused)
        for each in refused:
            each.done(NotWritten(reason))

    def _new(
        self, lines: Sequence[JournalLine], before: dict[str | int, JournalLine], known: dict[str | int, Entry]
    ) -> dict[str | int, JournalLine]:
        """Return the lines whose keys are new, and add the entries of the others to ``known``.

        Raises
        ------
        Conflict
            If a key has been used for an instance with another content.
        """
        new: dict[str | int, JournalLine] = {}
        for line in lines:
            entry, other = self._journal.find(line.key), new.get(line.key) or before.get(line.key)
            if entry is not None:
                known[line.key] = entry
            elif other is None:
                new[line.key] = line
            digest = line.digest if other is None else other.digest
            if line.digest != (digest if entry is None else entry.digest):
                raise Conflict(
                    f"key {brief(line.key)} was used for an instance with another content. Send the same "
                    "content again, or another key"
                )
        return new
