"""Which messages a topic refuses, and whether the topic itself is at fault.

The brokers refuse a batch as a whole, and the client then gives up the transaction: messages to other topics count
as refused with the same error. So nothing that was refused together with others is known to be at fault.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from ..client import ClientError, Kind, Refused, packed_size
from ..settings import ServiceSettings
from ..wire.messages import Outgoing
from ..wire.timestamps import NO_TIME
from .topics import LEAST_BYTES

MOST_TRIES = 64
"""Transactions in search of the messages that are refused."""

Send = Callable[[Sequence[Outgoing]], Sequence[Refused]]
"""Sends messages in a transaction that is never committed, and returns those that are refused."""


def check_topics(
    messages: Sequence[Outgoing], suspects: Sequence[Refused], settings: ServiceSettings, send: Send
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
        refused: list[Refused] = []
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
                Kind.RIGHT, f"topic {topic} refuses even the smallest message, of {size} bytes: {error}; {remedy}"
            )


def find_culprits(
    messages: Sequence[Outgoing], suspects: Sequence[Refused], settings: ServiceSettings, send: Send
) -> Sequence[Refused]:
    """Find the messages that are refused without the others.

    Parameters
    ----------
    messages
        Of the transaction.
    suspects
        Those that were refused together.
    settings
        Of the service. Compressed messages of the same size may differ in what the brokers count.
    send
        Tries messages.
    """
    found: list[Refused] = []
    if settings.compression == "none" and any(one.error.too_large for one in suspects):
        found = _too_large(messages, suspects, send)
    return found or _halved(messages, suspects, send)


def _bare(message: Outgoing, dead_letters: str) -> Outgoing:
    """Leave out of a message what came with the record, except that there was a key."""
    headers, value, key = [], message.value, None if message.key is None else message.key[:16]
    if message.topic == dead_letters:  # its value is the record's
        headers = [each for each in message.headers if each[0].startswith("__connect.errors.")]
        value = b""
    return message._replace(key=key, value=value, headers=headers, timestamp=NO_TIME)


def _too_large(messages: Sequence[Outgoing], suspects: Sequence[Refused], send: Send) -> list[Refused]:
    """Find the least size that each topic refuses, by bisection; messages of that size or more are at fault."""
    found: list[Refused] = []
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
        found += [Refused(one.place, error) for one in own[high:]]
    return sorted(found, key=lambda one: one.place)


def _halved(messages: Sequence[Outgoing], suspects: Sequence[Refused], send: Send) -> Sequence[Refused]:
    """Find them by halving; if that takes too many tries, all suspects count as refused."""
    tries, parts, found = 0, deque([suspects]), list[Refused]()
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
                parts.append([Refused(some[one.place].place, one.error) for one in again])
    return found or suspects[:1]  # each passes alone: leave one out, and try the rest again
