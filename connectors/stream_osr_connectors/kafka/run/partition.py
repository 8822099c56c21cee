"""The immutable stream of one partition: records and labels give the next stream and its output.

A recognizer processes a micro-batch: plain records in bulk, all others one by one, in order. If the micro-batch fails
as a whole, it is processed without the records that cause the failure.
"""

from __future__ import annotations

import hashlib
import secrets
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from dataclasses import replace
from typing import NamedTuple, TypeVar

import orjson

from stream_osr import Decision, Event, OpenSetRecognizer
from stream_osr.instances.labels import as_known
from stream_osr.printable_text import brief
from stream_osr.stream.culprits import find_culprits
from stream_osr.training.schema_check import check_features
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
from .partition_keys import PartitionKeys

T = TypeVar("T")


class Closed(NamedTuple):
    """Result of processing a micro-batch.

    Attributes
    ----------
    model
        Recognizer after the micro-batch.
    taken
        Records by treatment.
    error
        Error of the micro-batch, or ``None``.
    """

    model: OpenSetRecognizer
    taken: TakenRecords
    error: Exception | None = None


def close(begun: OpenSetRecognizer, records: Sequence[Received], decode: Decoder) -> Closed:
    """Process a micro-batch with a copy of a recognizer.

    Parameters
    ----------
    begun
        Recognizer before the records. It does not change.
    records, decode
        As for :func:`take`.
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


def take(model: OpenSetRecognizer, records: Sequence[Received], decode: Decoder) -> TakenRecords:
    """Process records with a recognizer. Unusable records are refused.

    Parameters
    ----------
    model
        Recognizer, which changes.
    records
        Records in order.
    decode
        Decoder of the records.
    """
    taken = TakenRecords()
    before, names = model.counters["missing"], model.trained.names
    if type(decode) is JsonDecoder and model.trained.features.takes_rows:
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
    except Exception as error:  # any error: the stream continues without the record
        taken.refused.append((received, Refusal(stage, error)))
        model.value.count_refused(counted=model.counters["bad_rows"] - bad)
        return
    if model.counters["skipped"] > skipped:
        taken.skipped += 1
    elif record.label is not None:
        taken.labelled.append(received)
    else:
        taken.waiting.append(received)


def _check_writable(record: Record) -> None:
    """Reject instances of a custom decoder that cannot be published."""
    try:
        orjson.dumps((record.key, record.time, record.label), option=ENCODING)
    except TypeError as error:
        text = brief((record.key, record.time, record.label))
        raise DecodeError(
            f"key, time and label are {text}, which cannot be written as JSON ({error}): the decoder must return "
            "text or whole numbers of 64 bits"
        ) from None


ATTEMPTS = 3
"""Attempts to process a micro-batch if memory is not sufficient."""


class Partition(NamedTuple):
    """All state of one partition that must survive a crash.

    Attributes
    ----------
    model
        Recognizer. A step works on a copy. With ``keys`` it only counts records that belong to no key.
    waiting
        Records without a final decision (``decision_delay``), in order.
    lineage
        Identity of this sequence of micro-batches.
    history
        Boundaries of the micro-batches.
    keys
        Recognizers by key (setting `by`), or ``None``.
    """

    model: OpenSetRecognizer
    waiting: tuple[RecordOrigin, ...]
    lineage: str
    history: History
    keys: PartitionKeys | None = None


def seed_of(seed: int, place: Place) -> int:
    """Derive the seed of a partition's recognizer.

    >>> seed_of(0, Place("sensors", 3)) == seed_of(0, Place("sensors", 3)) != seed_of(0, Place("sensors", 4))
    True
    """
    digest = hashlib.sha256(f"{seed} {place.topic} {place.partition}".encode()).digest()
    return int.from_bytes(digest[:7], "big")


def begin(
    model: OpenSetRecognizer,
    start: Boundary,
    *,
    fresh: bool = True,
    mark: str = "",
    keys: PartitionKeys | None = None,
) -> Partition:
    """Start a sequence of micro-batches with a new recognizer, or, without ``fresh``, with one that has state."""
    return Partition(model, (), f"{secrets.token_hex(4)}{mark}", History(start, fresh), keys)


Decided = list[tuple[RecordOrigin, Decision]]
"""Decisions with their records."""


def ended(partition: Partition) -> tuple[OpenSetRecognizer, Decided, list[Event]]:
    """Copy a stream's recognizer, and finalise its delayed decisions."""
    last = copy(partition.model)
    last.flush()
    return last, list(zip(partition.waiting, last.drain(), strict=True)), list(last.drain_events())


def beginning(begun: Partition, decisions: Decided, events: list[Event]) -> PartitionOutput:
    """Return the output at the start of a stream that follows another."""
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
    """Process one micro-batch.

    Unusable records are refused. If the whole micro-batch fails because of an internal error, the records that cause
    the failure are refused. If they cannot be found, all records are refused, and the recognizer does not change. The
    recognizer counts refused records, and the result is deterministic. If memory is not sufficient in ``ATTEMPTS``
    attempts, all records are refused, and the boundary is a ``FailedEnd``, so that a replay is identical.

    Parameters
    ----------
    partition
        Stream before the micro-batch. It does not change.
    place
        Place of the partition.
    records
        Records of the micro-batch in order, including refused ones.
    commands
        Commands since the last micro-batch, which apply before this one.
    end
        Boundary of the micro-batch.
    decode
        Decoder of the records.
    """
    begun = copy(partition.model)
    asked = list(commands)
    left = sum(not apply_in_partition(command, begun, place, partition.lineage) for command in asked)
    about = f"{place}: the micro-batch that ends at {end.offset}"
    closed = None
    if not isinstance(end, FailedEnd):
        closed = in_memory(about, lambda: close_or_refuse(partition.model, about, begun, records, decode))
    if closed is None:
        end, left = FailedEnd(*end), len(asked)
        closed = refuse(partition.model, out_of_memory(records))
    model, taken, _ = closed
    waiting = deque((*partition.waiting, *map(origin_of, taken.waiting)))
    decisions = [(waiting.popleft(), decision) for decision in model.drain()]
    following = partition._replace(model=model, waiting=tuple(waiting), history=partition.history.to(end))
    timestamp = records[-1].timestamp if records else -1
    events = list(model.drain_events())
    return following, PartitionOutput(decisions, events, taken, named(records, end), timestamp, left)


def named(records: Sequence[Received], end: Boundary) -> str:
    """Return the name of a micro-batch in ids of events."""
    return str(end.offset - 1) if records else f"{end.offset - 1}-{end.labels}"


def in_memory(about: str, close: Callable[[], T]) -> T | None:
    """Process records, with several attempts if memory is not sufficient. Return ``None`` if all fail."""
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return close()
        except MemoryError:
            logger.error("%s is out of memory (attempt %d of %d)", about, attempt, ATTEMPTS)
    logger.error("%s: its records are dead letters", about)
    return None


def out_of_memory(records: Iterable[Received]) -> list[tuple[Received, Refusal]]:
    """Refuse records because of :func:`in_memory`."""
    error = MemoryError(f"the memory was not enough for the micro-batch, in {ATTEMPTS} attempts")
    return [(received, Refusal("PROCESS", error)) for received in records]


def refuse(before: OpenSetRecognizer, refused: list[tuple[Received, Refusal]], skipped: int = 0) -> Closed:
    """Return a recognizer unchanged except for the count of refused records."""
    model = copy(before)
    model.value.count_refused(len(refused))
    return Closed(model, TakenRecords(refused=refused, skipped=skipped))


def close_or_refuse(
    before: OpenSetRecognizer, about: str, begun: OpenSetRecognizer, records: Sequence[Received], decode: Decoder
) -> Closed:
    """Process the records. Refuse those that cause a failure, or all if they cannot be found.

    Parameters
    ----------
    before
        Recognizer without the commands, which stays if all records are refused.
    about
        The micro-batch, for messages.
    begun, records, decode
        As for :func:`close`.
    """
    closed = close(begun, records, decode)
    if closed.error is None:
        return closed
    taken, error = closed.taken, closed.error
    culprits = find_culprits(records, lambda some: close(begun, some, decode).error)
    if culprits is not None:
        numbers = {number for number, _ in culprits}
        rest = [record for number, record in enumerate(records) if number not in numbers]
        closed = close(begun, rest, decode)
        closed.model.value.count_refused(len(culprits))
        refused = in_order([(records[number], Refusal("PROCESS", own)) for number, own in culprits])
        if not culprits:
            logger.warning("%s failed, and did not fail again", about, exc_info=error)
            return closed
        logger.error(
            "%s failed. Dead letters are the records that cause the failure: %s",
            about,
            ", ".join(str(received.offset) for received, _ in refused),
            exc_info=error,
        )
        return closed._replace(taken=replace(closed.taken, refused=in_order(closed.taken.refused + refused)))
    logger.error("%s failed. Its records are dead letters", about, exc_info=error)
    lost = [*taken.waiting, *taken.labelled]
    refused = in_order([*taken.refused, *((received, Refusal("PROCESS", error)) for received in lost)])
    return refuse(before, refused, taken.skipped)


def in_order(refused: Iterable[tuple[Received, Refusal]]) -> list[tuple[Received, Refusal]]:
    """Sort refused records by offset."""
    return sorted(refused, key=lambda pair: pair[0].offset)


class Cut(NamedTuple):
    """A micro-batch: its number of waiting records, and its boundary."""

    size: int
    end: Boundary


def replayed(waiting: Sequence[Received], done: Boundary, end: Boundary) -> Cut | None:
    """Return the micro-batch up to an earlier boundary, or ``None`` if records are missing.

    Parameters
    ----------
    waiting
        Records after the last micro-batch, in order.
    done
        Boundary of the last micro-batch.
    end
        Boundary of the next micro-batch when it was published.
    """
    if end.offset > done.offset and (not waiting or waiting[-1].offset < end.offset - 1):
        return None
    return Cut(sum(record.offset < end.offset for record in waiting), end)


def ready(
    waiting: Sequence[Received], done: Boundary, *, size: int, due: bool, requested: bool, labels: int
) -> Cut | None:
    """Return the next micro-batch, or ``None`` if it is not ready.

    Parameters
    ----------
    waiting
        Records after the last micro-batch, in order.
    done
        Boundary of the last micro-batch.
    size
        Number of records of a full micro-batch.
    due
        Whether the first record has waited for long enough.
    requested
        Whether there are commands, which apply with a micro-batch, even with an empty one.
    labels
        Where the topic of labels ends.

    Examples
    --------
    >>> from collections import namedtuple
    >>> At = namedtuple("At", "offset")
    >>> ready([At(7), At(8), At(10)], Boundary(7), size=2, due=False, requested=False, labels=0)
    Cut(size=2, end=Boundary(offset=9, labels=0))
    >>> ready([At(10)], Boundary(9), size=2, due=False, requested=False, labels=0) is None
    True
    """
    count = len(waiting)
    if count < size and not (due and count) and not (requested and not count):
        return None
    count = min(count, size)
    end = waiting[count - 1].offset + 1 if count else done.offset
    return Cut(count, Boundary(end, max(done.labels, labels)))
