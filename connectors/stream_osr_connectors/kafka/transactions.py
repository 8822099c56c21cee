"""Transactions that end: each runs in a thread of its own with a deadline, and a stuck one costs a producer.

kafka-python waits without a limit for the end of a transaction, and loses the request when the broker goes away in
the middle of one: nothing would ever wake the caller. So the thread is given up when its time is over. A new producer
with the same transactional id makes the broker end what the old one had begun, one way or the other; which way, the
committed offsets tell.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeAlias

from stream_osr.errors import ConnectorError

from .messages import Outgoing

logger = logging.getLogger("stream_osr.kafka")

MOST_STUCK = 16
"""Threads given up before the process has to end: each holds a producer's memory."""


Producer: TypeAlias = Any
"""kafka-python's producer, which carries no types."""


class InDoubtError(Exception):
    """A transaction failed or did not end in time: whether it was committed, only the committed offsets tell."""


class TooManyStuckError(ConnectorError):
    """So many threads wait for ever that the process should be replaced."""


class Running:
    """A transaction under way.

    Attributes
    ----------
    seconds
        How long it took, once it has ended.
    """

    def __init__(self, work: Callable[[], None], deadline: float) -> None:
        self.seconds = 0.0
        self._begun = time.monotonic()
        self._ends = self._begun + deadline
        self._done = threading.Event()
        self._error: BaseException | None = None
        threading.Thread(target=self._run, args=(work,), daemon=True, name="transaction").start()

    def _run(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:  # it is raised where somebody waits for it
            self._error = error
        finally:
            self.seconds = time.monotonic() - self._begun
            self._done.set()

    def wait(self) -> None:
        """Wait for its end.

        Raises
        ------
        TimeoutError
            If the deadline has passed.
        """
        if not self._done.wait(max(0.0, self._ends - time.monotonic())):
            raise TimeoutError("the deadline has passed")
        if self._error is not None:
            raise self._error


class Transactions:
    """The one producer of a worker, replaced whenever a transaction does not end as it should.

    Parameters
    ----------
    make
        Makes a producer, always with the same transactional id.
    deadline
        Seconds that a transaction may take.
    """

    def __init__(self, make: Callable[[], Producer], deadline: float) -> None:
        self._make = make
        self._deadline = deadline
        self._producer: Producer | None = None
        self._counts: dict[str, int] = {}
        self.stuck = 0
        self.failed = 0

    def open(self) -> None:
        """Make a producer, which ends what its predecessor had begun; does nothing when there is one.

        Raises
        ------
        InDoubtError
            If it cannot be done now, because no broker answers, say.
        """
        if self._producer is not None:
            return

        def work() -> None:
            producer = self._make()
            made.append(producer)
            producer.init_transactions()

        made: list[Producer] = []
        self._finish(Running(work, self._deadline), made)
        self._producer = made[0]

    def begin(self, messages: Sequence[Outgoing], offsets: Mapping[Any, Any], group_metadata: Any) -> Running:
        """Send messages and offsets as one transaction; it is under way until :meth:`finish`."""
        producer = self._producer
        assert producer is not None, "open() makes the producer"

        def work() -> None:
            producer.begin_transaction()
            logger.debug("transaction open: %d messages", len(messages))
            sent = [
                producer.send(
                    topic,
                    key=key,
                    value=value,
                    headers=headers,
                    partition=partition % self._partitions(producer, topic),
                    timestamp_ms=timestamp,
                )
                for topic, partition, key, value, headers, timestamp, _ in messages
            ]
            logger.debug("transaction sent")
            producer.flush(self._deadline)
            for each in sent:  # where metadata is refused the client's own transaction never learns of it
                each.get(0)
            logger.debug("transaction acknowledged: %d messages", len(sent))
            producer.send_offsets_to_transaction(offsets, group_metadata)
            logger.debug("transaction offsets sent")
            producer.commit_transaction()
            logger.debug("transaction committed")

        return Running(work, self._deadline)

    def finish(self, running: Running) -> None:
        """Wait until a transaction is committed.

        Raises
        ------
        InDoubtError
            If it failed or took too long; :meth:`open` makes the next producer.
        TooManyStuckError
            If that has happened too often.
        """
        assert self._producer is not None
        self._finish(running, [self._producer])

    def _finish(self, running: Running, producers: Sequence[Producer]) -> None:
        try:
            running.wait()
        except Exception as error:
            self.failed += 1
            self._producer = None
            if isinstance(error, TimeoutError):
                self.stuck += 1
            for producer in producers:
                _let_go(producer, 1.0)
            if self.stuck > MOST_STUCK:
                raise TooManyStuckError(
                    f"{self.stuck} transactions have never ended; the process has to be started again"
                ) from None
            raise InDoubtError(f"{type(error).__name__}: {error}") from error

    def close(self, timeout: float) -> None:
        """Let go of the producer within so many seconds."""
        if self._producer is not None:
            _let_go(self._producer, timeout)
            self._producer = None

    def _partitions(self, producer: Producer, topic: str) -> int:
        """How many partitions a topic has; asked once, because the count must not change under a running group."""
        if topic not in self._counts:
            found = producer.partitions_for(topic)
            if not found:
                raise ConnectorError(f"topic {topic} does not exist; create it (`stream-osr topics --create`)")
            self._counts[topic] = len(found)
        return self._counts[topic]


def close(work: Callable[[], None], timeout: float) -> None:
    """Close something of which nothing more is expected, in a thread that may be left behind."""

    def quietly() -> None:
        with suppress(Exception):
            work()

    thread = threading.Thread(target=quietly, daemon=True, name="close")
    thread.start()
    thread.join(timeout)


def _let_go(producer: Producer, timeout: float) -> None:
    """Close a producer. It gives up halfway when records cannot be sent, and its thread would go on trying."""

    def work() -> None:
        try:
            producer.close(timeout=timeout)
        finally:
            producer._sender.force_close()

    close(work, timeout + 1.0)
