"""The stream of one partition as a value: records and labels in, the next value and what is to be published out.

A micro-batch goes through a recognizer: the plain records at once, all others one by one, in their order. When it
fails as a whole, it is closed without the records by which it fails.
"""

from __future__ import annotations

import hashlib
import secrets
from collections import deque
from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import replace
from typing import NamedTuple

import orjson

from stream_osr import Decision, Event, OpenSetRecognizer
from stream_osr.labels import as_known
from stream_osr.printable_text import brief
from stream_osr.schema_check import check_features
from stream_osr_connectors.base import Record
from stream_osr_connectors.values import DecodeError

from ...commands.command import Command
from ...commands.runner import apply_in_partition
from ..log import logger
from ..places import Place
from ..wire.boundaries import Boundary, FailedEnd, History
from ..wire.decoding import JsonDecoder
from ..wire.messages import (
    ENCODING,
    Decoder,
    PartitionOutput,
    Received,
    RecordOrigin,
    Refusal,
    TakenRecords,
    check_envelope,
    origin_of,
)

MOST_TRIES = 64
"""So often a micro-batch, or a beginning of it, is closed in search of the records by which it fails."""


class Closed(NamedTuple):
    """A micro-batch that was closed, or was to be.

    Attributes
    ----------
    model
        The recognizer after it.
    taken
        What became of its records.
    error
        Why it failed; None: it did not.
    """

    model: OpenSetRecognizer
    taken: TakenRecords
    error: Exception | None = None


def close(begun: OpenSetRecognizer, records: Sequence[Received], decode: Decoder) -> Closed:
    """Let a copy of a recognizer learn records, and close the micro-batch.

    Parameters
    ----------
    begun
        Before the records; it does not change.
    records, decode
        As :func:`take` takes them.
    """
    model = copy(begun)
    taken = take(model, records, decode)
    try:
        model.close_batch()
    except MemoryError:
        raise
    except Exception as error:
        return Closed(model, taken, error)
    return Closed(model, taken)


def close_without_culprits(
    begun: OpenSetRecognizer, records: Sequence[Received], decode: Decoder, failed: Closed
) -> tuple[Closed, list[tuple[Received, Refusal]]]:
    """Close a micro-batch that has failed without the records by which it fails, which takes an error of ours.

    The shortest beginning that fails is found by halving, and its last record left out; and so on, until what is left
    does not fail. The same records come to the same.

    Parameters
    ----------
    begun, records, decode
        As :func:`close` took them.
    failed
        What it returned.

    Returns
    -------
    The micro-batch, and the records that were left out, in the order in which they were found. When it fails without
    any record, or there is no end to it, what had failed.
    """
    if close(begun, [], decode).error is not None:
        return failed, []
    tries = iter(range(MOST_TRIES))
    left, culprits, closed = list(records), [], failed
    while closed.error is not None:
        good, bad, error = 0, len(left), closed.error
        while bad - good > 1:
            if next(tries, None) is None:
                return failed, []
            middle = (good + bad) // 2
            half = close(begun, left[:middle], decode)
            if half.error is None:
                good = middle
            else:
                bad, error = middle, half.error
        culprits.append((left.pop(bad - 1), Refusal("PROCESS", error)))
        closed = close(begun, left, decode)
    return closed, culprits


def take(model: OpenSetRecognizer, records: Sequence[Received], decode: Decoder) -> TakenRecords:
    """Let a recognizer learn records; those that cannot be used are refused, and the others go on.

    Parameters
    ----------
    model
        It changes.
    records
        In order.
    decode
        Makes instances of them.
    """
    taken = TakenRecords()
    before, names = model.counters["missing"], model.trained.names
    if type(decode) is JsonDecoder and not model.trained.values:
        places, rows, times, keys = decode.plain(records, names)
        begin = done = 0
        for place in (*sorted({*range(len(records))} - {*places}), len(records)):
            if place > begin:
                end = done + place - begin
                model.learn_rows(rows[done:end], t=times[done:end], key=keys[done:end])
                taken.waiting += records[begin:place]
                done = end
            if place < len(records):
                _take_one(model, records[place], decode, taken)
            begin = place + 1
    else:
        for received in records:
            _take_one(model, received, decode, taken)
    taken.missing = model.counters["missing"] - before
    taken.values = len(names) * (len(taken.waiting) + len(taken.labelled))
    return taken


def _take_one(model: OpenSetRecognizer, received: Received, decode: Decoder, taken: TakenRecords) -> None:
    stage, skipped, bad = "DECODE", model.counters["skipped"], model.counters["bad_rows"]
    try:
        check_envelope(received)
        record = decode(received)
        stage = "VALIDATE"
        _check_writable(record)
        check_features(model.trained, record.features, record.found)
        label = as_known(record.label, model.value.labels)
        model.learn_one(record.features, label, t=record.time, key=record.key)
    except MemoryError:
        raise
    except Exception as error:  # whatever it is, the stream goes on without the record
        taken.refused.append((received, Refusal(stage, error)))
        model.count_refused(counted=model.counters["bad_rows"] - bad)
        return
    if model.counters["skipped"] > skipped:
        taken.skipped += 1
    elif record.label is not None:
        taken.labelled.append(received)
    else:
        taken.waiting.append(received)


def _check_writable(record: Record) -> None:
    """Refuse what could be decided and not be told of, which a decoder of the user's own may bring."""
    try:
        orjson.dumps((record.key, record.time, record.label), option=ENCODING)
    except TypeError as error:
        text = brief((record.key, record.time, record.label))
        raise DecodeError(
            f"key, time and label are {text}, which cannot be written as JSON ({error}); the decoder is to return "
            "text or whole numbers of 64 bits"
        ) from None


ATTEMPTS = 3
"""How often a micro-batch is closed when memory is wanting."""


class Partition(NamedTuple):
    """Everything about one partition that has to outlive a crash.

    Attributes
    ----------
    model
        Its recognizer; a step works on a copy.
    waiting
        Records that have no final decision yet (``decision_delay``), in order.
    lineage
        Identity of this run of micro-batches.
    history
        Where they ended.
    """

    model: OpenSetRecognizer
    waiting: tuple[RecordOrigin, ...]
    lineage: str
    history: History


def seed_of(seed: int, place: Place) -> int:
    """Derive the seed of a partition's recognizer.

    >>> seed_of(0, Place("sensors", 3)) == seed_of(0, Place("sensors", 3)) != seed_of(0, Place("sensors", 4))
    True
    """
    digest = hashlib.sha256(f"{seed} {place.topic} {place.partition}".encode()).digest()
    return int.from_bytes(digest[:7], "big")


def begin(model: OpenSetRecognizer, start: Boundary, *, fresh: bool = True, mark: str = "") -> Partition:
    """Begin a run of micro-batches, with a recognizer that has seen nothing (or, not ``fresh``, has taken over)."""
    return Partition(model, (), f"{secrets.token_hex(4)}{mark}", History(start, fresh))


Decided = list[tuple[RecordOrigin, Decision]]
"""Decisions, each with the record that it is about."""


def ended(partition: Partition) -> tuple[OpenSetRecognizer, Decided, list[Event]]:
    """Copy a stream's recognizer, and decide what it holds back as things stand."""
    last = copy(partition.model)
    last.flush()
    return last, list(zip(partition.waiting, last.drain(), strict=True)), list(last.drain_events())


def beginning(begun: Partition, decisions: Decided, events: list[Event]) -> PartitionOutput:
    """Collect what is published with the beginning of a stream that follows another."""
    at = begun.history.last
    timestamp = decisions[-1][0].timestamp if decisions else -1
    return PartitionOutput(
        decisions, events, TakenRecords(), f"{at.offset - 1}-{at.labels}-{begun.lineage}", timestamp
    )


def step(
    partition: Partition,
    place: Place,
    records: Sequence[Received],
    commands: Iterable[Command],
    end: Boundary,
    decode: Decoder,
) -> tuple[Partition, PartitionOutput]:
    """Close one micro-batch.

    A record that cannot be used is refused and the others go on. When the batch as a whole fails, which takes an
    error of ours, the records by which it fails are refused, or, if they cannot be told from the others, all, and the
    recognizer is as it was: nothing may stop the stream. Either way the recognizer counts what was refused, and the
    same records give the same result again. When memory is wanting ``ATTEMPTS`` times, all records are refused, and
    the end of the micro-batch is a ``FailedEnd``, so that a replay comes to the same.

    Parameters
    ----------
    partition
        The stream so far; it does not change.
    place
        Of the partition.
    records
        Of the micro-batch, in order; those that are refused belong to it as well.
    commands
        What people have asked for since the last micro-batch; takes effect before this one.
    end
        Where it ends.
    decode
        Makes instances of records.
    """
    begun = copy(partition.model)
    asked = list(commands)
    left = sum(not apply_in_partition(command, begun, place, partition.lineage) for command in asked)
    about = f"{place}: the micro-batch that ends at {end.offset}"
    closed = None if isinstance(end, FailedEnd) else _close_in_memory(partition, about, begun, records, decode)
    if closed is None:
        end, left = FailedEnd(*end), len(asked)
        error = MemoryError(f"the memory was not enough for the micro-batch, in {ATTEMPTS} attempts")
        closed = _refuse(partition, [(received, Refusal("PROCESS", error)) for received in records])
    model, taken, _ = closed
    waiting = deque((*partition.waiting, *map(origin_of, taken.waiting)))
    decisions = [(waiting.popleft(), decision) for decision in model.drain()]
    following = partition._replace(model=model, waiting=tuple(waiting), history=partition.history.to(end))
    named = str(end.offset - 1) if records else f"{end.offset - 1}-{end.labels}"
    timestamp = records[-1].timestamp if records else -1
    return following, PartitionOutput(decisions, list(model.drain_events()), taken, named, timestamp, left)


def _close_in_memory(
    partition: Partition, about: str, begun: OpenSetRecognizer, records: Sequence[Received], decode: Decoder
) -> Closed | None:
    """Take the records in, with several attempts if memory is wanting; ``None``: it was wanting each time."""
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return _close(partition, about, begun, records, decode)
        except MemoryError:
            logger.error("%s is out of memory (attempt %d of %d)", about, attempt, ATTEMPTS)
    logger.error("%s: its records are dead letters", about)
    return None


def _refuse(partition: Partition, refused: list[tuple[Received, Refusal]], skipped: int = 0) -> Closed:
    """Leave the recognizer as it was, but for the count of what is refused."""
    model = copy(partition.model)
    model.count_refused(len(refused))
    return Closed(model, TakenRecords(refused=refused, skipped=skipped))


def _close(
    partition: Partition, about: str, begun: OpenSetRecognizer, records: Sequence[Received], decode: Decoder
) -> Closed:
    """Take the records in; those by which the micro-batch fails as a whole are refused, or else all of them."""
    closed = close(begun, records, decode)
    if closed.error is None:
        return closed
    taken, error = closed.taken, closed.error
    closed, culprits = close_without_culprits(begun, records, decode, closed)
    if closed.error is None:
        closed.model.count_refused(len(culprits))
        offsets = ", ".join(str(received.offset) for received, _ in culprits)
        logger.error("%s failed; dead letters are the records by which it does: %s", about, offsets, exc_info=error)
        return closed._replace(taken=replace(closed.taken, refused=_in_order(closed.taken.refused + culprits)))
    logger.error("%s failed; its records are dead letters", about, exc_info=error)
    lost = [*taken.waiting, *taken.labelled]
    refused = _in_order([*taken.refused, *((received, Refusal("PROCESS", error)) for received in lost)])
    return _refuse(partition, refused, taken.skipped)


def _in_order(refused: Iterable[tuple[Received, Refusal]]) -> list[tuple[Received, Refusal]]:
    return sorted(refused, key=lambda pair: pair[0].offset)


class Cut(NamedTuple):
    """A micro-batch: how many of the waiting records belong to it, and where it ends."""

    size: int
    end: Boundary


def replayed(waiting: Sequence[Received], done: Boundary, end: Boundary) -> Cut | None:
    """Cut where it was cut before; None: not all of it is there yet.

    Parameters
    ----------
    waiting
        Records after the last micro-batch, in order.
    done
        Where that ended.
    end
        Where the next one ended when it was published.
    """
    if end.offset > done.offset and (not waiting or waiting[-1].offset < end.offset - 1):
        return None
    return Cut(sum(record.offset < end.offset for record in waiting), end)


def ready(
    waiting: Sequence[Received], done: Boundary, *, size: int, due: bool, asked: bool, labels: int
) -> Cut | None:
    """Cut the next one; None: it is not ready.

    Parameters
    ----------
    waiting
        Records after the last micro-batch, in order.
    done
        Where that ended.
    size
        Records of a full one.
    due
        The first record has waited for long enough.
    asked
        Somebody has asked something, which takes effect with a micro-batch, if need be with an empty one.
    labels
        Where the topic of labels ends.

    Examples
    --------
    >>> from collections import namedtuple
    >>> At = namedtuple("At", "offset")
    >>> ready([At(7), At(8), At(10)], Boundary(7), size=2, due=False, asked=False, labels=0)
    Cut(size=2, end=Boundary(offset=9, labels=0))
    >>> ready([At(10)], Boundary(9), size=2, due=False, asked=False, labels=0) is None
    True
    """
    count = len(waiting)
    if count < size and not (due and count) and not (asked and not count):
        return None
    count = min(count, size)
    end = waiting[count - 1].offset + 1 if count else done.offset
    return Cut(count, Boundary(end, max(done.labels, labels)))
