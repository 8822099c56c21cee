"""The step of a partition with a recognizer for each key (setting `by`).

The micro-batch of the partition is divided by key. Each key with records closes a separate micro-batch. So no record
waits for a decision after the commit, and the result depends only on the records and the boundary.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import fields
from typing import NamedTuple

from stream_osr import Event, OpenSetRecognizer
from stream_osr.printable_text import brief

from ...commands.command import Command
from ...commands.runner import apply_in_partition
from ..log import logger
from ..places import Place
from ..wire.boundaries import Boundary, FailedEnd
from ..wire.messages import Decoder, PartitionOutput, Received, Refusal, TakenRecords, check_envelope, origin_of
from .partition import (
    Decided,
    Partition,
    close_or_refuse,
    in_memory,
    in_order,
    named,
    out_of_memory,
    refuse,
)
from .partition_keys import PartitionKeys, StreamKey, TooManyKeysError


class _Result(NamedTuple):
    """Result of the micro-batches of all keys."""

    model: OpenSetRecognizer
    keys: PartitionKeys
    taken: TakenRecords
    decisions: Decided
    events: list[Event]
    streams: list[str]
    left: int


def step_by_key(
    partition: Partition,
    place: Place,
    records: Sequence[Received],
    commands: Iterable[Command],
    end: Boundary,
    decode: Decoder,
    key_of: StreamKey,
) -> tuple[Partition, PartitionOutput]:
    """Process one micro-batch by key.

    Records without a key, and records of new keys beyond the largest number, are refused. Otherwise each key is
    processed as a partition by :func:`.partition.step`.

    Parameters
    ----------
    partition, place, records, commands, end, decode
        As for :func:`.partition.step`.
    key_of
        Key of each record.
    """
    about, asked = f"{place}: the micro-batch that ends at {end.offset}", list(commands)
    assert partition.keys is not None, "the setting by makes them"
    result = None
    if not isinstance(end, FailedEnd):
        result = in_memory(about, lambda: _close(partition, about, place, records, asked, decode, key_of))
    if result is None:
        end = FailedEnd(*end)
        closed = refuse(partition.model, out_of_memory(records))
        result = _Result(closed.model, partition.keys, closed.taken, [], [], [], len(asked))
    following = partition._replace(model=result.model, keys=result.keys, history=partition.history.to(end))
    timestamp = records[-1].timestamp if records else -1
    return following, PartitionOutput(
        result.decisions, result.events, result.taken, named(records, end), timestamp, result.left, result.streams
    )


def _close(
    partition: Partition,
    about: str,
    place: Place,
    records: Sequence[Received],
    commands: Sequence[Command],
    decode: Decoder,
    key_of: StreamKey,
) -> _Result:
    assert partition.keys is not None
    keys, taken = copy(partition.keys), TakenRecords()
    groups = _divided(records, key_of, taken)
    unkeyed = len(taken.refused)
    commanded, left = _commanded(partition, keys, place, commands)
    out = _Result(copy(partition.model), keys, taken, [], [], [], left)
    for by in dict.fromkeys((*commanded, *groups)):
        own, new = groups.get(by, []), by not in keys
        try:
            keys.check_room(by)
        except TooManyKeysError as error:
            taken.refused += [(received, Refusal("VALIDATE", error)) for received in own]
            taken.keys_refused += len(own)
            continue
        before = keys.recognizer(by)
        closed = close_or_refuse(before, f"{about}, key {brief(by)},", commanded.get(by, before), own, decode)
        _add(taken, closed.taken)
        if new and not (closed.taken.waiting or closed.taken.labelled):
            continue
        origins = (origin_of(received)._replace(by=by) for received in closed.taken.waiting)
        out.decisions.extend(zip(origins, closed.model.drain(), strict=True))
        events = list(closed.model.drain_events())
        out.events.extend(events)
        out.streams.extend([by] * len(events))
        keys.put(by, closed.model, len(own))
    out.model.value.count_refused(unkeyed + taken.keys_refused)
    keys.make_room()
    out.decisions.sort(key=lambda pair: pair[0].offset)
    taken.refused = in_order(taken.refused)
    return out


def _divided(records: Sequence[Received], key_of: StreamKey, taken: TakenRecords) -> dict[str, list[Received]]:
    """Divide records by key, in the order of the first record of each key. Refuse records without a key."""
    groups: dict[str, list[Received]] = {}
    for received in records:
        try:
            check_envelope(received)
            groups.setdefault(key_of(received), []).append(received)
        except MemoryError:
            raise
        except Exception as error:  # of any decoder: the stream continues without the record
            taken.refused.append((received, Refusal("DECODE", error)))
    return groups


def _commanded(
    partition: Partition, keys: PartitionKeys, place: Place, commands: Sequence[Command]
) -> tuple[dict[str, OpenSetRecognizer], int]:
    """Apply commands to the recognizers of their keys. Return these by key, and the number of failed commands."""
    found: dict[str, OpenSetRecognizer] = {}
    left = 0
    for command in commands:
        by = command.stream
        if command.partition not in (None, place):
            continue
        if by is None:
            logger.warning("%s: command %s was not applied: it names no key (KEY/ID)", place, command.action)
            left += 1
        elif by not in keys:
            addressed = command.partition is not None
            level = logging.WARNING if addressed else logging.INFO  # otherwise another partition may have the key
            logger.log(level, "%s: command %s was not applied: there is no key %s", place, command.action, brief(by))
            left += addressed
        else:
            if by not in found:
                found[by] = keys.recognizer(by)
            left += not apply_in_partition(command, found[by], place, partition.lineage, by)
    return found, left


def _add(taken: TakenRecords, more: TakenRecords) -> None:
    """Add the records of a key to those of the partition."""
    for each in fields(TakenRecords):
        setattr(taken, each.name, getattr(taken, each.name) + getattr(more, each.name))
