"""The stream of one partition as a value: records and labels in, the next value and what is to be published out."""

from __future__ import annotations

import hashlib
import logging
import secrets
from collections import deque
from collections.abc import Iterable, Sequence
from copy import copy
from typing import NamedTuple

from stream_osr import Decision, Event, OpenSetRecognizer
from stream_osr_connectors.values import DecodeError

from .boundaries import Boundary, History
from .labelling import Command, apply
from .messages import MOST_KEY_BYTES, Decoder, Origin, Received, Refusal, check_envelope, origin_of

logger = logging.getLogger("stream_osr.kafka")

RULES = 2
"""2: an instance without a single feature of the model is a dead letter. 1: it was decided."""


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
    rules
        By which rules records are taken or refused; a stream goes on by those that it was begun with, so that a
        replay comes to the same.
    """

    model: OpenSetRecognizer
    waiting: tuple[Origin, ...]
    lineage: str
    history: History
    rules: int = RULES


class Outcome(NamedTuple):
    """What a micro-batch gave.

    Attributes
    ----------
    end
        Where it ended.
    decisions
        Final ones, each with the record that it is about.
    events
        What is to be told.
    refused
        Records that could not be used, and why.
    labelled, skipped
        Records that were evidence; that ``on_missing="skip"`` left out.
    place
        Names the micro-batch in ids of events: the offset of its last record (and the place in the labels).
    timestamp
        Of its last record, milliseconds since 1970; -1: none.
    """

    end: Boundary
    decisions: list[tuple[Origin, Decision]]
    events: list[Event]
    refused: list[tuple[Received, Refusal]]
    labelled: int
    skipped: int
    place: str
    timestamp: int


def seed_of(seed: int, topic: str, partition: int) -> int:
    """Derive the seed of a partition's recognizer.

    >>> seed_of(0, "sensors", 3) == seed_of(0, "sensors", 3) != seed_of(0, "sensors", 4)
    True
    """
    digest = hashlib.sha256(f"{seed} {topic} {partition}".encode()).digest()
    return int.from_bytes(digest[:7], "big")


def begin(model: OpenSetRecognizer, start: Boundary, *, fresh: bool = True) -> Partition:
    """Begin a run of micro-batches, with a recognizer that has seen nothing (or, not ``fresh``, has taken over)."""
    return Partition(model, (), secrets.token_hex(4), History(start, fresh))


def step(
    partition: Partition,
    place: tuple[str, int],
    records: Sequence[Received],
    commands: Iterable[Command],
    end: Boundary,
    decode: Decoder,
) -> tuple[Partition, Outcome]:
    """Close one micro-batch.

    A record that cannot be used is refused and the others go on. When the batch as a whole fails, which takes an
    error of ours, all its instances are refused and the recognizer is as it was: nothing may stop the stream. Either
    way the same records give the same result again.

    Parameters
    ----------
    partition
        The stream so far; it does not change.
    place
        Topic and number of the partition.
    records
        Of the micro-batch, in order; those that are refused belong to it as well.
    commands
        What people have asked for since the last micro-batch; takes effect before this one.
    end
        Where it ends.
    decode
        Makes instances of records.
    """
    model = copy(partition.model)
    taken: list[Received] = []
    refused: list[tuple[Received, Refusal]] = []
    labelled = skipped = 0
    for command in commands:
        apply(command, model, *place, partition.lineage)
    pending = model.pending
    for received in records:
        stage = "DECODE"
        try:
            check_envelope(received)
            record = decode(received)
            if isinstance(record.key, str) and len(record.key) > MOST_KEY_BYTES:
                raise DecodeError(f"the key has {len(record.key)} characters; {MOST_KEY_BYTES} are allowed")
            stage = "VALIDATE"
            model.learn_one(record.features, record.label, t=record.time, key=record.key)
        except MemoryError:
            raise
        except Exception as error:  # whatever it is, the stream goes on without the record
            refused.append((received, Refusal(stage, error)))
            continue
        if record.label is not None:
            labelled += 1
        elif model.pending > pending:
            pending += 1
            taken.append(received)
        else:
            skipped += 1
    waiting = deque((*partition.waiting, *map(origin_of, taken)))
    try:
        model.close_batch()
    except MemoryError:
        raise
    except Exception as error:
        logger.exception(
            "%s/%d: the micro-batch that ends at %d failed; its records are dead letters", *place, end[0]
        )
        model, waiting = partition.model, deque(partition.waiting)
        refused = sorted(
            [*refused, *((received, Refusal("PROCESS", error)) for received in taken)],
            key=lambda pair: pair[0].offset,
        )
    decisions = [(waiting.popleft(), decision) for decision in model.drain()]
    events = list(model.drain_events())
    following = partition._replace(model=model, waiting=tuple(waiting), history=partition.history.to(end))
    name = str(end.offset - 1) if records else f"{end.offset - 1}-{end.labels}"
    timestamp = records[-1].timestamp if records else -1
    return following, Outcome(end, decisions, events, refused, labelled, skipped, name, timestamp)
