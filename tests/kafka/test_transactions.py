"""Messages that are refused are found by halving; the absence of a broker is no fault of a message."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import pytest

from stream_osr_connectors.kafka import ServiceSettings
from stream_osr_connectors.kafka.client.interface import ClientError, ErrorKind, Offset, RefusedMessage, SendResult
from stream_osr_connectors.kafka.places import Place
from stream_osr_connectors.kafka.run.transactions import InDoubtError, Transactions, UnpublishableError
from stream_osr_connectors.kafka.stats import ServiceStats
from stream_osr_connectors.kafka.wire.messages import Outgoing

SETTINGS = ServiceSettings(model="m", brokers="b:1", input="in", transaction_deadline=5.0, transaction_timeout=10.0)
MESSAGES = [Outgoing("out", 0, b"%d" % number, b"", [], None, number) for number in range(20)]


class Refusing:
    """What a broker would answer: some messages are refused, with all that come with them, or all for a reason."""

    def __init__(self, bad: set[int], also: ErrorKind | None = None, *, too_large: bool = False) -> None:
        self.bad, self.also, self.too_large = bad, also, too_large

    def open(self) -> None: ...

    def begin(self) -> None: ...

    def send(self, messages: Sequence[Outgoing]) -> SendResult:
        if any(message.offset in self.bad for message in messages):
            kind = ErrorKind.RECORD
        elif self.also is not None:
            kind = self.also
        else:
            return SendResult(Counter(message.topic for message in messages), list(range(len(messages))), [])
        error = ClientError(kind, "no", too_large=self.too_large)
        return SendResult(Counter(), [], [RefusedMessage(n, error) for n in range(len(messages))])

    def send_offsets(self, offsets: Mapping[Place, Offset], membership: Any) -> None: ...

    def commit(self) -> None: ...

    def close(self, seconds: float) -> None: ...


def transactions(producer: Refusing) -> Transactions:
    return Transactions(lambda settings: producer, SETTINGS, ServiceStats())


def refused(of: Transactions, messages: Sequence[Outgoing] = MESSAGES) -> Sequence[RefusedMessage]:
    of.open()
    with pytest.raises(UnpublishableError) as caught:
        of.finish(of.begin(messages, {}, None))
    return caught.value.refused


def test_the_messages_that_are_refused_are_found() -> None:
    for bad in ({0}, {19}, {3, 4}, {0, 7, 19}):
        of, turns = transactions(Refusing(bad)), list[int]()
        suspects = refused(of)
        assert len(suspects) == len(MESSAGES)
        found = of.culprits(MESSAGES, suspects, partial(turns.append, 1))
        assert {MESSAGES[one.place].offset for one in found} == bad
        assert turns, "the loop is seen to turn"


def test_a_broker_that_goes_away_meanwhile_makes_no_message_a_culprit() -> None:
    for kind in (ErrorKind.AGAIN, ErrorKind.RIGHT):
        of = transactions(producer := Refusing({3}))
        suspects = refused(of)
        producer.bad, producer.also = set(), kind
        with pytest.raises(InDoubtError):
            of.culprits(MESSAGES, suspects, lambda: None)


def test_a_topic_that_refuses_everything_is_at_fault_and_no_record_is() -> None:
    producer = Refusing(set(range(len(MESSAGES))))
    of, turns = transactions(producer), list[int]()
    suspects = refused(of)
    for _ in range(2):
        turns.clear()
        with pytest.raises(ClientError, match="topic out refuses even the smallest message"):
            of.culprits(MESSAGES, suspects, lambda: turns.append(1))
        assert len(turns) == 2, "two messages are enough to know it"
    producer.bad = {3}
    with pytest.raises(ClientError, match="takes messages again"):
        of.culprits(MESSAGES, suspects, lambda: None)  # what was refused before says nothing any more
    assert [one.place for one in of.culprits(MESSAGES, suspects, lambda: None)] == [3]


def test_messages_that_are_too_large_are_found_by_their_size() -> None:
    """One refusal ends the whole transaction with the same error, in all topics."""
    sizes = [7 * n % 100 for n in range(1000)]
    messages = [Outgoing(("out", "events")[n % 2], 0, b"k", b"x" * size, [], None, n) for n, size in enumerate(sizes)]
    wanted = [n for n, size in enumerate(sizes) if size > 90 and n % 2 == 0]
    producer = Refusing(set(wanted), too_large=True)
    of, turns = transactions(producer), list[int]()
    found = of.culprits(messages, refused(of, messages), lambda: turns.append(1))
    assert [one.place for one in found] == wanted
    assert len(turns) < 20
