"""Transactions with a time limit. Each runs in a separate thread, and a stuck one costs a producer.

kafka-python waits without a limit for the end of a transaction, and loses the request if the broker fails meanwhile.
Then the caller would wait forever, so the thread is abandoned after a time limit. A new producer with the same
transactional id forces the broker to commit or abort the old transaction. The committed offsets show the result.

Invariant: before offsets are sent, every topic has acknowledged all its messages. Otherwise the transaction is
aborted. The brokers refuse a batch as a whole, and then the client aborts the transaction, so that messages to other
topics fail with the same error. Therefore a message that was refused together with others is not necessarily the
cause.
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
from ..client.errors import explain, remedy_of
from ..client.interface import ClientError, ErrorKind, Offset, RefusedMessage
from ..client.producer import TransactionalProducer, packed_size, transactional_id
from ..exits import StartAgainError, TakenError
from ..log import logger
from ..places import Place
from ..settings import ServiceSettings
from ..stats import ServiceStats
from ..wire.messages import Outgoing
from ..wire.timestamps import NO_TIME
from .topics import LEAST_BYTES

MOST_TRIES = 64
"""Most transactions in the search for refused messages."""

Send = Callable[[Sequence[Outgoing]], Sequence[RefusedMessage]]
"""Function that sends messages in a transaction that is never committed, and returns the refused ones."""


def check_topics(
    messages: Sequence[Outgoing], suspects: Sequence[RefusedMessage], settings: ServiceSettings, send: Send
) -> None:
    """Check that each topic of the suspects accepts small messages, without parts of the input record.

    Each message is tried separately, because one refusal aborts the whole transaction. A topic that refuses the two
    smallest messages (or the only one) refuses all.

    Raises
    ------
    ClientError
        If a topic refuses all messages. Then no record is the cause.
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
                f"topic {topic} refuses even the smallest message, of {size} bytes: {error} ({remedy})",
            )


def _bare(message: Outgoing, dead_letters: str) -> Outgoing:
    """Remove all parts of the input record from a message, except a short key."""
    headers, value, key = [], message.value, None if message.key is None else message.key[:16]
    if message.topic == dead_letters:  # its value is the record's
        headers = [each for each in message.headers if each[0].startswith("__connect.errors.")]
        value = b""
    return message._replace(key=key, value=value, headers=headers, timestamp=NO_TIME)


def _too_large(messages: Sequence[Outgoing], suspects: Sequence[RefusedMessage], send: Send) -> list[RefusedMessage]:
    """Find the least size that each topic refuses, by bisection. Messages of that size or more are the cause."""
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
    """Find refused messages by bisection. After too many attempts all suspects count as refused."""
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
    return found or suspects[:1]  # each is accepted alone: remove one, and retry the rest


MOST_STUCK = 16
"""Abandoned threads after which the process must end, because each uses the memory of a producer."""


class InDoubtError(Exception):
    """A transaction failed or did not end in time. Only the committed offsets show whether it was committed."""


class UnpublishableError(Exception):
    """Some messages cannot be published. The transaction is aborted.

    Parameters
    ----------
    refused
        Refused messages with reasons.
    """

    def __init__(self, refused: Sequence[RefusedMessage]) -> None:
        super().__init__(f"{len(refused)} messages cannot be published: {refused[0].error}")
        self.refused = refused


class Rivalry:
    """Decides whether another producer uses the same transactional id, and whether this process must end.

    Two producers with the same id fence each other in turn. Each is fenced only after the other has opened a new
    producer. If one process ends after a fencing, the other is undisturbed, so exactly one of the two ends. It should
    be the younger one. A process that had the id for less than a minute before its first fencing ends after fewer
    fencings and a shorter time than an older process.

    Parameters
    ----------
    settings
        Of the service.
    name
        Transactional id.
    stats
        Statistics to update.
    """

    YOUNG_SECONDS = 60.0
    """Seconds from the first producer to the first fencing below which a process is the younger one."""

    YOUNG_FENCINGS, OLD_FENCINGS = 3, 6
    YOUNG_PATIENCE, OLD_PATIENCE = 20.0, 120.0
    """Least number of fencings, and least seconds since the first one, before the process ends. The group needs
    10 s to decide between two members with one name. A young process adds the time that it had the id."""

    QUIET_SECONDS = 15.0
    """Seconds of commits without a fencing after which the other process of an old one has gone."""

    FORGET_SECONDS = 600.0
    """Seconds between two fencings above which they are unrelated."""

    def __init__(self, settings: ServiceSettings, name: str, stats: ServiceStats) -> None:
        self._settings, self._name, self._stats = settings, name, stats
        self._opened = math.inf
        self._excused = False
        self.settle()

    def open(self) -> None:
        """Record a new producer."""
        self._opened = min(self._opened, time.monotonic())

    def settle(self) -> None:
        """Reset the counts, because the group decides or the other process has gone."""
        self._fencings, self._begun, self._latest, self._committing = 0, 0.0, -math.inf, math.inf

    def commit(self) -> None:
        """Record a committed transaction."""
        self._excused = False
        self._committing = min(self._committing, time.monotonic())
        if self._is_old and time.monotonic() - self._committing >= self.QUIET_SECONDS:
            self.settle()

    def judge(self, kind: ErrorKind, seconds: float) -> str:
        """Record a transaction that failed after some seconds, and return a text about a rival, or an empty text.

        A single fencing is not sufficient evidence. After another failure, a late request of the abandoned producer
        may fence the next one.

        Raises
        ------
        TakenError
            If another producer uses the id, and this process must end.
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
            raise TakenError(f"{said}. This worker ends, and the other producer goes on")
        return said

    @property
    def _is_old(self) -> bool:
        return self._begun - self._opened >= self.YOUNG_SECONDS


class Transactions:
    """The producer of a worker, replaced after each failed transaction.

    Parameters
    ----------
    make
        Factory of producers with the same transactional id.
    settings
        Settings of the service, with the time limit of a transaction, and the time after which the brokers abort it
        and fence its producer.
    stats
        Statistics, which count fencings.
    """

    def __init__(
        self, make: Callable[[ServiceSettings], TransactionalProducer], settings: ServiceSettings, stats: ServiceStats
    ) -> None:
        self._make, self._settings = make, settings
        self._rivalry = Rivalry(settings, transactional_id(settings), stats)
        self._producer: TransactionalProducer | None = None
        self._blocked = False  # a topic rejected all messages at the last attempt
        self.stuck = 0

    def open(self) -> None:
        """Create a producer, which ends its predecessor's transaction, unless there is one.

        Raises
        ------
        InDoubtError
            If that fails now, such as if no broker answers.
        ConnectorError
            If a retry cannot help.
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
        """Start one transaction with messages and offsets. It runs until :meth:`finish`."""
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
            If it failed or took too long. :meth:`open` creates the next producer.
        UnpublishableError
            If messages must be replaced. The transaction is aborted.
        ConnectorError
            If a retry cannot help.
        StartAgainError
            If too many transactions have not ended.
        TakenError
            If another producer uses the same transactional id, and this process must end.
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
                    f"{self.stuck} transactions have never ended: the process must be restarted"
                ) from None
            kind = error.kind if isinstance(error, ClientError) else ErrorKind.AGAIN
            rival = self._rivalry.judge(kind, running.seconds)
            if kind is ErrorKind.FATAL and isinstance(error, ClientError):
                raise ConnectorError(f"a transaction cannot be committed: {error} ({remedy_of(error)})") from None
            said = str(error) if isinstance(error, ClientError) else f"{type(error).__name__}: {error}"
            raise InDoubtError(rival or (explain(said) if isinstance(error, TimeoutError) else said)) from error

    def culprits(
        self, messages: Sequence[Outgoing], suspects: Sequence[RefusedMessage], turn: Callable[[], None]
    ) -> Sequence[RefusedMessage]:
        """Find the messages that are refused on their own.

        Parameters
        ----------
        messages
            Of the transaction.
        suspects
            Messages that were refused together.
        turn
            Function to call after each attempt.

        Raises
        ------
        InDoubtError
            If they cannot be found now. The transaction is aborted.
        ClientError
            If no record is the cause, because a topic rejects all messages, or accepts messages again.
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
        """Send messages in a transaction that is never committed, and return those that are refused on their own."""
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
        """Close the producer within a time limit."""
        producer, self._producer = self._producer, None
        if producer is not None:
            close(lambda: producer.close(timeout), timeout + 1.0)


def _send_all(producer: TransactionalProducer, messages: Sequence[Outgoing]) -> None:
    """Send messages. If one is not acknowledged, the transaction is aborted.

    Raises
    ------
    UnpublishableError
        With the messages that can never be published.
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
    """Raise an error that the messages themselves did not cause."""
    serious = [one.error for one in refused if one.error.kind is not ErrorKind.AGAIN]
    if refused and not (serious and all(error.kind is ErrorKind.RECORD for error in serious)):
        raise next((error for error in serious if error.kind is not ErrorKind.RECORD), refused[0].error)
