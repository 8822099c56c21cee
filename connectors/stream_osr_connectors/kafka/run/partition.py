"""The immutable stream of one partition: records and labels give the next stream and its output.

A partition is one stream, or one stream for each key (setting `by`). Each stream closes a micro-batch when it is
full. A boundary that closes ends the micro-batches of all streams, after `max_wait` and at the end of the input.
Until then records wait for a decision in the state of the partition.
"""

from __future__ import annotations

import hashlib
import logging
import secrets
from collections.abc import Iterable, Sequence
from copy import copy
from typing import NamedTuple

import orjson

from stream_osr import Event, OpenSetRecognizer
from stream_osr.config import WITHOUT_END
from stream_osr.printable_text import brief
from stream_osr.support.hourly_log import log_hourly
from stream_osr_connectors.base import Record
from stream_osr_connectors.engine import DecidedRecord, RecordStream, Refusal
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
    TakenRecords,
    check_envelope,
    origin_of,
)
from .partition_keys import PartitionKeys, StreamKey, TooManyKeysError, in_batch

ATTEMPTS = 3
"""Attempts to process records if memory is not sufficient."""

MOST_CLOSED = 100
"""Most keys whose micro-batches one boundary closes, because each takes up to some tens of milliseconds."""

ROOM_EVERY = 20
"""Number of keys of a step after which recognizers are stored, so that few are in memory at once."""


class Partition(NamedTuple):
    """All state of one partition that must survive a crash.

    Attributes
    ----------
    model
        Recognizer. A step works on a copy. With ``keys`` it only counts records that belong to no key.
    waiting
        Records without a final decision, in order. With ``keys`` there are none.
    lineage
        Identity of this sequence of micro-batches.
    history
        Boundaries.
    keys
        Streams by key (setting `by`), or ``None``.
    size
        Number of instances of a full micro-batch.
    """

    model: OpenSetRecognizer
    waiting: tuple[Received, ...]
    lineage: str
    history: History
    keys: PartitionKeys | None = None
    size: int = WITHOUT_END

    @property
    def undecided(self) -> int:
        """Number of instances and labels in unfinished micro-batches."""
        return in_batch(self.model) if self.keys is None else self.keys.undecided

    @property
    def delayed(self) -> int:
        """Number of instances without a final decision."""
        return len(self.waiting) if self.keys is None else self.keys.delayed

    @property
    def first(self) -> int | None:
        """Offset of the first record without a final decision, or ``None``."""
        if self.keys is None:
            return self.waiting[0].offset if self.waiting else None
        return self.keys.first


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
    size: int = WITHOUT_END,
) -> Partition:
    """Start a sequence of micro-batches with a new recognizer, or, without ``fresh``, with one that has state."""
    return Partition(model, (), f"{secrets.token_hex(4)}{mark}", History(start, fresh), keys, size)


def step(
    partition: Partition,
    place: Place,
    records: Sequence[Received],
    commands: Iterable[Command],
    end: Boundary,
    decode: Decoder,
    key_of: StreamKey | None = None,
    contributions: int | None = None,
) -> tuple[Partition, PartitionOutput]:
    """Process some records.

    Unusable records are refused, and so are the records that make a micro-batch fail (:class:`.engine.RecordStream`).
    The recognizer counts them, and the result is deterministic. If memory is not sufficient in ``ATTEMPTS`` attempts,
    all records are refused, and the boundary is a ``FailedEnd``, so that a replay is identical.

    Parameters
    ----------
    partition
        Stream before the records. It does not change.
    place
        Place of the partition.
    records
        Records in order, including refused ones.
    commands
        Commands since the last boundary, which apply before the records.
    end
        Boundary after the records.
    decode
        Decoder of the records.
    key_of
        Key of each record, with the setting `by`.
    contributions
        Number of features whose contributions each decision has, or ``None``.
    """
    about, asked = f"{place}: the step that ends at {end.offset}", list(commands)
    if not isinstance(end, FailedEnd):
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return _Step(partition, place, about, contributions).run(records, asked, end, decode, key_of)
            except MemoryError:
                logger.error("%s is out of memory (attempt %d of %d)", about, attempt, ATTEMPTS)
        logger.error("%s: its records are dead letters", about)
    return _Step(partition, place, about).fail(records, len(asked), FailedEnd(*end))


class _Step:
    """One step: copies of the streams that change, and the output."""

    def __init__(self, partition: Partition, place: Place, about: str, contributions: int | None = None) -> None:
        self._partition, self._place, self._about = partition, place, about
        self._contributions = None if partition.model.decision_delay else contributions  # an earlier model may delay
        self._model, self._keys, self._waiting = copy(partition.model), copy(partition.keys), partition.waiting
        self._streams: dict[str | None, RecordStream[Received]] = {}
        self._decisions = list[DecidedRecord[RecordOrigin]]()
        self._events, self._event_keys = list[Event](), list[str]()
        self._taken = TakenRecords()
        self._left = 0

    def run(
        self,
        records: Sequence[Received],
        commands: Sequence[Command],
        end: Boundary,
        decode: Decoder,
        key_of: StreamKey | None,
    ) -> tuple[Partition, PartitionOutput]:
        """Process records and commands."""
        groups: dict[str | None, list[Received]]
        groups = {None: [*records]} if key_of is None else self._divided(records, key_of)
        for command in commands:
            self._left += not self._apply(command)
        closing = self._closing(end)
        for number, by in enumerate(dict.fromkeys((*self._streams, *groups, *closing)), start=1):
            if by in groups:
                self._take(by, groups[by], decode)
            if end.closes and (by in self._streams or by in closing):
                self._stream(by).close()
            self._collect(by)
            if self._keys is not None and number % ROOM_EVERY == 0:
                self._keys.make_room()
        return self._ended(records, self._partition.history.to(end))

    def fail(self, records: Sequence[Received], left: int, end: FailedEnd) -> tuple[Partition, PartitionOutput]:
        """Refuse records for lack of memory, and also those that wait, if the boundary closes."""
        error = MemoryError(f"the memory was not enough for the micro-batch, in {ATTEMPTS} attempts")
        self._left = left
        self._taken.refused += [(received, Refusal("PROCESS", error)) for received in records]
        self._model.value.count_refused(len(records))
        for by in self._closing(end):
            self._stream(by).abandon(error)
            self._collect(by)
        return self._ended(records, self._partition.history.to(end))

    def _closing(self, end: Boundary) -> list[str | None]:
        """Return the streams whose unfinished micro-batches a boundary closes, the first records first."""
        if not end.closes:
            return []
        return [None] if self._keys is None else [*self._keys.unfinished()[:MOST_CLOSED]]

    def _stream(self, by: str | None) -> RecordStream[Received]:
        """Return the stream of a key, or the only one."""
        if by not in self._streams:
            model, waiting = self._model, self._partition.waiting
            if by is not None:
                assert self._keys is not None
                model, waiting = self._keys.stream(by)
            self._streams[by] = RecordStream(
                model, waiting, batch_size=self._partition.size, fatal=(MemoryError,),
                contributions=self._contributions,
            )  # fmt: skip
        return self._streams[by]

    def _divided(self, records: Sequence[Received], key_of: StreamKey) -> dict[str | None, list[Received]]:
        """Divide records by key, in the order of the first record of each key. Refuse records without a key."""
        groups: dict[str | None, list[Received]] = {}
        for received in records:
            try:
                check_envelope(received)
                groups.setdefault(key_of(received), []).append(received)
            except MemoryError:
                raise
            except Exception as error:  # of any decoder: the stream continues without the record
                self._taken.refused.append((received, Refusal("DECODE", error)))
        self._model.value.count_refused(len(self._taken.refused))
        return groups

    def _apply(self, command: Command) -> bool:
        """Apply a command to its stream. Return whether it was applied, or is for another partition."""
        place, by = self._place, command.stream
        if self._keys is None:
            return apply_in_partition(command, self._stream(None).model, place, self._partition.lineage)
        if command.partition not in (None, place):
            return True
        if by is None:
            logger.warning("%s: command %s was not applied: it names no key (KEY/ID)", place, command.action)
            return False
        if by not in self._keys:
            addressed = command.partition is not None
            level = logging.WARNING if addressed else logging.INFO  # otherwise another partition may have the key
            logger.log(level, "%s: command %s was not applied: there is no key %s", place, command.action, brief(by))
            return not addressed
        return apply_in_partition(command, self._stream(by).model, place, self._partition.lineage, by)

    def _take(self, by: str | None, records: Sequence[Received], decode: Decoder) -> None:
        """Process the records of a stream."""
        taken = self._taken
        if by is not None and self._keys is not None:
            try:
                self._keys.check_room(by)
            except TooManyKeysError as error:
                taken.refused += [(received, Refusal("VALIDATE", error)) for received in records]
                taken.keys_refused += len(records)
                self._model.value.count_refused(len(records))
                return
        stream = self._stream(by)
        missing = stream.model.counters["missing"]
        _take(stream, records, decode)
        taken.skipped += stream.skipped
        taken.missing += stream.model.counters["missing"] - missing

    def flush(self) -> tuple[Partition, PartitionOutput]:
        """Finalise all decisions."""
        for by in [None] if self._keys is None else self._keys.unfinished():
            self._stream(by).flush()
            self._collect(by)
        return self._ended((), self._partition.history)

    def _collect(self, by: str | None) -> None:
        """Take the results of a stream, and store it."""
        stream = self._streams.pop(by, None)
        if stream is None:
            return
        self._count_refused(stream)
        used = stream.accepted + stream.labelled
        self._taken.labelled += stream.labelled
        self._taken.values += len(stream.model.trained.names) * used
        for received, decision, contributions in stream.drain():
            assert received is not None, "a partition knows the record of each decision"
            self._decisions.append(DecidedRecord(origin_of(received, by), decision, contributions))
        events = list(stream.model.drain_events())
        waiting = tuple(_kept(each) for each in stream.waiting if each is not None)
        if by is None or self._keys is None:
            self._model, self._waiting = stream.model, waiting
        elif by in self._keys or used:
            self._event_keys += [by] * len(events)
            self._keys.put(by, stream.model, waiting, used)
        else:
            return
        self._events += events

    def _ended(self, records: Sequence[Received], history: History) -> tuple[Partition, PartitionOutput]:
        """Return the partition after the step, and its output."""
        before, decisions = self._partition, self._decisions
        if self._keys is not None:
            self._keys.make_room()
            decisions.sort(key=lambda each: each.item.offset)
        self._taken.refused.sort(key=lambda pair: pair[0].offset)
        after = before._replace(model=self._model, waiting=self._waiting, keys=self._keys, history=history)
        timestamp = records[-1].timestamp if records else -1
        name = _name(records, before.history.last, history.last)
        output = PartitionOutput(decisions, self._events, self._taken, name, timestamp, self._left, self._event_keys)
        return after, output

    def _count_refused(self, stream: RecordStream[Received]) -> None:
        """Count and log what a stream has refused."""
        stream.model.value.count_refused(len(stream.refused), counted=stream.counted)
        failed = [str(received.offset) for received, why in stream.refused if received and why.failed is not None]
        if failed:
            text = f"{self._about}: dead letters are the records that make a micro-batch fail: {', '.join(failed)}"
            log_hourly(logger, f"{self._place} fails", text)
        for received, refusal in stream.refused:
            if received is not None:
                self._taken.refused.append((received, refusal))
            elif refusal.failed is not None:
                key = brief(refusal.failed.key)
                logger.error("%s: the label of key %s was given up: %s", self._about, key, refusal.error)


def _kept(received: Received) -> Received:
    """Return a record that waits without what a client adds, as a snapshot restores it."""
    if type(received) is Received and type(received.headers) is tuple:
        return received
    topic, partition, offset, timestamp = received.topic, received.partition, received.offset, received.timestamp
    return Received(topic, partition, offset, timestamp, received.key, received.value, tuple(received.headers))


def _take(stream: RecordStream[Received], records: Sequence[Received], decode: Decoder) -> None:
    """Process records with a stream: plain records in bulk, all others one by one, in order."""
    names = stream.model.trained.names
    if type(decode) is not JsonDecoder or not stream.model.trained.features.takes_rows:
        for received in records:
            _take_one(stream, received, decode)
        return
    places, rows, times, keys = decode.plain(records, names)
    begin = done = 0
    for place in (*sorted({*range(len(records))} - {*places}), len(records)):
        if place > begin:
            end, own = done + place - begin, records[begin:place]
            stream.take_rows(lambda own=own: own, rows[done:end], times[done:end], keys[done:end])  # type: ignore[misc]
            done = end
        if place < len(records):
            _take_one(stream, records[place], decode)
        begin = place + 1


def _take_one(stream: RecordStream[Received], received: Received, decode: Decoder) -> None:
    try:
        check_envelope(received)
        record = decode(received)
    except MemoryError:
        raise
    except Exception as error:  # of any decoder: the stream continues without the record
        stream.refused.append((received, Refusal("DECODE", error)))
    else:
        try:
            _check_writable(record)
        except DecodeError as error:
            stream.refused.append((received, Refusal("VALIDATE", error)))
        else:
            stream.take(received, record)


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


def ended(partition: Partition, contributions: int | None = None) -> tuple[Partition, PartitionOutput]:
    """Finalise all decisions of a stream that another one follows. The output has no name yet."""
    return _Step(partition, Place("", 0), "the end of a stream", contributions).flush()


def beginning(begun: Partition, output: PartitionOutput) -> PartitionOutput:
    """Name the output at the start of a stream that follows another."""
    at = begun.history.last
    timestamp = output.decisions[-1].item.timestamp if output.decisions else -1
    return output._replace(place=f"{at.offset - 1}-{at.labels}-{begun.lineage}", timestamp=timestamp)


def _name(records: Sequence[Received], last: Boundary, end: Boundary) -> str:
    """Return the name of a step in ids of events. It differs from that of every other step."""
    if records:
        return str(end.offset - 1)
    name = f"{end.offset - 1}-{end.labels}"
    return f"{name}-closed{end.closes}" if last[:2] == end[:2] else name
