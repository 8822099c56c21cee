"""Transactions that end: each runs in a thread of its own with a deadline, and a stuck one costs a producer.

kafka-python waits without a limit for the end of a transaction, and loses the request when the broker goes away in
the middle of one: nothing would ever wake the caller. So the thread is given up when its time is over. A new producer
with the same transactional id makes the broker end what the old one had begun, one way or the other; which way, the
committed offsets tell.

The invariant: before offsets are sent, every topic has acknowledged as many messages as it was sent. Anything else
undoes the transaction. The brokers refuse a batch as a whole, and the client then gives up the transaction: messages
to other topics count as refused with the same error. So nothing that was refused together with others is known to be
at fault.
"""

from __future__ import annotations

import math
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from stream_osr.errors import ConnectorError

from ..backoff import Running, close
from ..client import (
    ClientError,
    ErrorKind,
    Offset,
    Place,
    RefusedMessage,
    TransactionalProducer,
    explain,
    packed_size,
    remedy_of,
    transactional_id,
)
from ..exits import StartAgainError, TakenError
from ..log import logger
from ..settings import ServiceSettings
from ..stats import ServiceStats
from ..wire.messages import Outgoing
from ..wire.timestamps import NO_TIME
from .topics import LEAST_BYTES

MOST_TRIES = 64
"""Transactions in search of the messages that are refused."""

Send = Callable[[Sequence[Outgoing]], Sequence[RefusedMessage]]
"""Sends messages in a transaction that is never committed, and returns those that are refused."""


def check_topics(
    messages: Sequence[Outgoing], suspects: Sequence[RefusedMessage], settings: ServiceSettings, send: Send
) -> None:
    """Make sure that each topic of the suspects takes small messages, without what came with the record.

    Each is tried by itself: one refusal aborts the transaction of all. A topic that refuses the two smallest (or the
    only one) refuses all.

    Raises
    ------
    ClientError
        If a topic does: it is at fault, and no record is.
    """
    bare: dict[str, list[Outgoing]] = {}
    for one in suspects:
        message = _bare(messages[one.place], settings.dead_letters)
        bare[message.topic] = sorted([*bare.get(message.topic, ()), message], key=packed_size)[:2]
    for topic, some in bare.items():
        refused: list[RefusedMessage] = []
        for message in some:
            again = send([message]) if packed_size(message) <= LEAST_BYTES else ()
            if not again:
                break
            refused += again
        else:
            error, size = refused[0].error, packed_size(some[0])
            remedy = "check its settings (cleanup.policy, message.timestamp.type)"
            if error.too_large:
                remedy = f"set its max.message.bytes to {LEAST_BYTES} or more"
            raise ClientError(
                ErrorKind.RIGHT,
                f"topic {topic} refuses even the smallest message, of {size} bytes: {error}; {remedy}",
            )


def _bare(message: Outgoing, dead_letters: str) -> Outgoing:
    """Leave out of a message what came with the record, except that there was a key."""
    headers, value, key = [], message.value, None if message.key is None else message.key[:16]
    if message.topic == dead_letters:  # its value is the record's
        headers = [each for each in message.headers if each[0].startswith("__connect.errors.")]
        value = b""
    return message._replace(key=key, value=value, headers=headers, timestamp=NO_TIME)


def _too_large(messages: Sequence[Outgoing], suspects: Sequence[RefusedMessage], send: Send) -> list[RefusedMessage]:
    """Find the least size that each topic refuses, by bisection; messages of that size or more are at fault."""
    found: list[RefusedMessage] = []
    for topic in dict.fromkeys(messages[one.place].topic for one in suspects):
        own = [one for one in suspects if messages[one.place].topic == topic]
        own.sort(key=lambda one: packed_size(messages[one.place]))
        low, high, error = 0, len(own), own[-1].error
        middle = high - 1  # most often not even the largest is refused
        while low < high:
            refused = send([messages[own[middle].place]])
            if refused:
                high, error = middle, refused[0].error
            else:
                low = middle + 1
            middle = (low + high) // 2
        found += [RefusedMessage(one.place, error) for one in own[high:]]
    return sorted(found, key=lambda one: one.place)


def _halved(messages: Sequence[Outgoing], suspects: Sequence[RefusedMessage], send: Send) -> Sequence[RefusedMessage]:
    """Find them by halving; if that takes too many tries, all suspects count as refused."""
    tries, parts, found = 0, deque([suspects]), list[RefusedMessage]()
    while parts:
        part = parts.popleft()
        if len(part) == 1:
            found += part
            continue
        if tries >= MOST_TRIES:
            return suspects
        half = len(part) // 2
        for some in (part[:half], part[half:]):
            again = send([messages[one.place] for one in some])
            tries += 1
            if again:
                parts.append([RefusedMessage(some[one.place].place, one.error) for one in again])
    return found or suspects[:1]  # each passes alone: leave one out, and try the rest again


MOST_STUCK = 16
"""Threads given up before the process has to end: each holds a producer's memory."""


class InDoubtError(Exception):
    """A transaction failed or did not end in time: whether it was committed, only the committed offsets tell."""


class UnpublishableError(Exception):
    """Some messages cannot be published as they are; nothing of the transaction counts.

    Parameters
    ----------
    refused
        Which ones, and why.
    """

    def __init__(self, refused: Sequence[RefusedMessage]) -> None:
        super().__init__(f"{len(refused)} messages cannot be published: {refused[0].error}")
        self.refused = refused


class Rivalry:
    """Decides whether another producer uses our transactional id, and whether this process has to end for it.

    Two producers with one id fence each other in turn: each is fenced only after the other has opened a producer
    anew. So a process that ends when it is fenced leaves the other one undisturbed, and of two exactly one ends. The
    younger one is to end: a process that had the id for less than a minute before its first fencing ends after fewer
    fencings and a shorter time than one that had it for longer.

    Parameters
    ----------
    settings
        Of the service.
    name
        The transactional id.
    stats
        Where it counts.
    """

    YOUNG_SECONDS = 60.0
    """A process that was first fenced within this time after its first producer is the younger one."""

    YOUNG_FENCINGS, OLD_FENCINGS = 3, 6
    YOUNG_PATIENCE, OLD_PATIENCE = 20.0, 120.0
    """Least number of fencings, and least seconds from the first of them, before the process ends. The group needs
    10 s to decide about two members of one name; a young process adds the time that it had the id."""

    QUIET_SECONDS = 15.0
    """When an old process has committed for so long without a fencing, the other one has gone."""

    FORGET_SECONDS = 600.0
    """Fencings that are further apart do not belong together."""

    def __init__(self, settings: ServiceSettings, name: str, stats: ServiceStats) -> None:
        self._settings, self._name, self._stats = settings, name, stats
        self._opened = math.inf
        self._excused = False
        self.settle()

    def open(self) -> None:
        """Take note of a new producer."""
        self._opened = min(self._opened, time.monotonic())

    def settle(self) -> None:
        """Count from the beginning: the group decides, or the other one has gone."""
        self._fencings, self._begun, self._latest, self._committing = 0, 0.0, -math.inf, math.inf

    def commit(self) -> None:
        """Take note of a transaction that was committed."""
        self._excused = False
        self._committing = min(self._committing, time.monotonic())
        if self._is_old and time.monotonic() - self._committing >= self.QUIET_SECONDS:
            self.settle()

    def judge(self, kind: ErrorKind, seconds: float) -> str:
        """Take note of a transaction that failed after so many seconds; return what is to be said of a rival.

        A single fencing says nothing. After another failure a late request of the producer that is given up may
        fence the next one.

        Raises
        ------
        TakenError
            If another producer uses the id, and this process is the one to end.
        """
        by_timeout = seconds >= self._settings.transaction_timeout  # the brokers fence it, too
        if kind in (ErrorKind.TAKEN, ErrorKind.FENCED) and not by_timeout:
            self._stats.add("transactions_fenced")
        if kind is ErrorKind.TAKEN:  # the group decides which of two members of one name goes on
            self.settle()
            return ""
        other = kind is not ErrorKind.FENCED or by_timeout
        if other or self._excused:
            self._excused = other
            return ""
        now = time.monotonic()
        if now - self._latest > self.FORGET_SECONDS:
            self.settle()
            self._begun = now
        self._fencings, self._latest, self._committing = self._fencings + 1, now, math.inf
        if self._fencings < 2:
            return ""
        seconds = now - self._begun
        said = (
            f"another producer uses the transactional id {self._name}: it has fenced this worker {self._fencings} "
            f"times in {seconds:.0f} s, and the group {self._settings.group} has no other member "
            f"{self._settings.instance}. Give each service its own group and instance, and other programs other "
            "transactional ids"
        )
        least = self.OLD_FENCINGS if self._is_old else self.YOUNG_FENCINGS
        timeout = self.OLD_PATIENCE if self._is_old else self.YOUNG_PATIENCE + max(0.0, self._begun - self._opened)
        if self._fencings >= least and seconds >= timeout:
            raise TakenError(f"{said}. This worker ends; the other producer goes on")
        return said

    @property
    def _is_old(self) -> bool:
        return self._begun - self._opened >= self.YOUNG_SECONDS


class Transactions:
    """The one producer of a worker, replaced whenever a transaction does not end as it should.

    Parameters
    ----------
    make
        Makes a producer, always with the same transactional id.
    settings
        Of the service: how long a transaction may take, and after how long the brokers end one by themselves and
        refuse its producer as if another had our name.
    stats
        Where it counts how often another producer had our name.
    """

    def __init__(
        self, make: Callable[[ServiceSettings], TransactionalProducer], settings: ServiceSettings, stats: ServiceStats
    ) -> None:
        self._make, self._settings = make, settings
        self._rivalry = Rivalry(settings, transactional_id(settings), stats)
        self._producer: TransactionalProducer | None = None
        self._blocked = False  # a topic took nothing when it was last tried
        self.stuck = 0

    def open(self) -> None:
        """Make a producer, which ends what its predecessor had begun; does nothing when there is one.

        Raises
        ------
        InDoubtError
            If it cannot be done now, because no broker answers, say.
        ConnectorError
            If no patience will help.
        """
        if self._producer is not None:
            return

        def work() -> None:
            producer = self._make(self._settings)
            made.append(producer)
            producer.open()

        made: list[TransactionalProducer] = []
        self._finish(Running(work, self._settings.transaction_deadline, "transaction"), made)
        self._producer = made[0]
        self._rivalry.open()

    def begin(self, messages: Sequence[Outgoing], offsets: Mapping[Place, Offset], membership: Any) -> Running:
        """Send messages and offsets as one transaction; it is under way until :meth:`finish`."""
        producer = self._producer
        assert producer is not None, "open() makes the producer"

        def work() -> None:
            producer.begin()
            logger.debug("transaction open: %d messages", len(messages))
            _send_all(producer, messages)
            logger.debug("transaction sent")
            producer.send_offsets(offsets, membership)
            logger.debug("transaction offsets sent")
            producer.commit()
            logger.debug("transaction committed")

        return Running(work, self._settings.transaction_deadline, "transaction")

    def finish(self, running: Running) -> None:
        """Wait until a transaction is committed.

        Raises
        ------
        InDoubtError
            If it failed or took too long; :meth:`open` makes the next producer.
        UnpublishableError
            If messages of it have to be replaced; nothing of it counts.
        ConnectorError
            If no patience will help.
        StartAgainError
            If too many have not ended.
        TakenError
            If another producer uses our transactional id, and this process is the one to end.
        """
        assert self._producer is not None
        self._finish(running, [self._producer])
        self._rivalry.commit()

    def _finish(self, running: Running, producers: Sequence[TransactionalProducer]) -> None:
        try:
            running.wait()
        except Exception as error:
            self._producer = None
            if isinstance(error, TimeoutError):
                self.stuck += 1
            for producer in producers:
                close(partial(producer.close, 1.0), 2.0)
            if isinstance(error, UnpublishableError):
                raise
            if self.stuck > MOST_STUCK:
                raise StartAgainError(
                    f"{self.stuck} transactions have never ended; the process has to be started again"
                ) from None
            kind = error.kind if isinstance(error, ClientError) else ErrorKind.AGAIN
            rival = self._rivalry.judge(kind, running.seconds)
            if kind is ErrorKind.FATAL and isinstance(error, ClientError):
                raise ConnectorError(f"a transaction cannot be committed: {error}; {remedy_of(error)}") from None
            said = str(error) if isinstance(error, ClientError) else f"{type(error).__name__}: {error}"
            raise InDoubtError(rival or (explain(said) if isinstance(error, TimeoutError) else said)) from error

    def culprits(
        self, messages: Sequence[Outgoing], suspects: Sequence[RefusedMessage], turn: Callable[[], None]
    ) -> Sequence[RefusedMessage]:
        """Find the messages that are refused without the others.

        Parameters
        ----------
        messages
            Of the transaction.
        suspects
            Those that were refused together.
        turn
            Called after each try.

        Raises
        ------
        InDoubtError
            If that cannot be found out now; nothing of it counts.
        ClientError
            If no record is at fault: a topic takes nothing, or has begun to take messages again since.
        """

        def send(some: Sequence[Outgoing]) -> Sequence[RefusedMessage]:
            refused = self._refused(some)
            turn()
            return refused

        before = self._blocked
        try:
            check_topics(messages, suspects, self._settings, send)
        except InDoubtError:
            raise
        except Exception:
            self._blocked = True
            raise
        self._blocked = False
        if before:
            raise ClientError(ErrorKind.AGAIN, "a topic that refused every message takes messages again")
        found: list[RefusedMessage] = []
        # compressed messages of the same size may differ in what the brokers count
        if self._settings.compression == "none" and any(one.error.too_large for one in suspects):
            found = _too_large(messages, suspects, send)
        return found or _halved(messages, suspects, send)

    def _refused(self, messages: Sequence[Outgoing]) -> Sequence[RefusedMessage]:
        """Send messages in a transaction that is never ended, and say which are refused for what they are."""
        self.open()
        producer, self._producer = self._producer, None
        assert producer is not None

        def work() -> None:
            producer.begin()
            refused.extend(producer.send(messages).refused)
            producer.close(1.0)  # the next one makes the broker undo it
            _raise_unless_records(refused)

        refused: list[RefusedMessage] = []
        self._finish(Running(work, self._settings.transaction_deadline, "transaction"), [producer])
        return [one for one in refused if one.error.kind is ErrorKind.RECORD]

    def close(self, timeout: float) -> None:
        """Let go of the producer within so many seconds."""
        producer, self._producer = self._producer, None
        if producer is not None:
            close(lambda: producer.close(timeout), timeout + 1.0)


def _send_all(producer: TransactionalProducer, messages: Sequence[Outgoing]) -> None:
    """Send messages; what is not acknowledged to the last of them is undone.

    Raises
    ------
    UnpublishableError
        Naming those that no attempt will bring through.
    ClientError
        For anything else.
    """
    acknowledged, _, refused = producer.send(messages)
    wanted = Counter(message.topic for message in messages)
    if not refused and acknowledged == wanted:
        return
    _raise_unless_records(refused)
    if refused:
        raise UnpublishableError([one for one in refused if one.error.kind is ErrorKind.RECORD])
    raise ClientError(ErrorKind.AGAIN, f"{dict(acknowledged)} of {dict(wanted)} messages were acknowledged")


def _raise_unless_records(refused: Sequence[RefusedMessage]) -> None:
    """Raise what was refused for another reason than for what it is, or than for being in one batch with that."""
    serious = [one.error for one in refused if one.error.kind is not ErrorKind.AGAIN]
    if refused and not (serious and all(error.kind is ErrorKind.RECORD for error in serious)):
        raise next((error for error in serious if error.kind is not ErrorKind.RECORD), refused[0].error)
