"""Messages of micro-batches, replacements for rejected messages, and an audit of published messages."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import NamedTuple

import numpy as np

from stream_osr import ClassDrifted, Decision, Event, EventsSummed, OpenSetRecognizer, TrainedModel
from stream_osr.discovery.reconcile import Local
from stream_osr.discovery.signal_table import EVENT_TABLE, kind_of
from stream_osr.errors import ConnectorError
from stream_osr.parameters import Label
from stream_osr.printable_text import brief
from stream_osr.stream.local_summaries import changed_summaries

from ...engine import Refusal
from ..client.interface import ClientError, RefusedMessage
from ..log import Seldom, logger
from ..places import Place
from ..settings import ServiceSettings
from ..stats import (
    DRIFTED,
    KNOWN_OF,
    LOST,
    OF_TYPE,
    REASONS,
    REPEATED,
    SUMMED,
    UNKNOWN_OF,
    PartitionStats,
    ServiceStats,
)
from ..wire.encoding import Encoding, Publisher
from ..wire.messages import EncodedKind, Message, Outgoing, PartitionOutput, Received
from ..wire.subclasses import Stamp, summary
from ..wire.timestamps import HEADER, NO_TIME, clamped, refuses_timestamp
from .model_metrics import OTHER, class_names
from .partition import Partition
from .topics import TopicLimits

REFUSED = ("stream-osr.value", b"refused")
"""Header of a dead letter without its value, because the topic rejected it."""

EVER = -math.inf, math.inf

_seldom = Seldom()


class PendingBatch(NamedTuple):
    """A processed micro-batch that is not published yet."""

    place: Place
    before: Partition
    after: Partition
    records: list[Received]
    outcome: PartitionOutput


class Publishing(NamedTuple):
    """Creates the messages of a worker.

    Attributes
    ----------
    settings
        Settings of the service.
    trained
        Trained model, for summaries of subclasses.
    publisher
        Encoder of decisions, events and dead letters.
    takes
        Function that returns the current limits of topics, by name.
    stats
        Statistics, which count replaced timestamps and failures of the encoder.
    encoding
        Custom encoder of the settings.
    """

    settings: ServiceSettings
    trained: TrainedModel
    publisher: Publisher
    takes: Callable[[], Mapping[str, TopicLimits]]
    stats: ServiceStats
    encoding: Encoding

    def messages(self, one: PendingBatch) -> list[Outgoing]:
        """Return all messages of a micro-batch, in order."""
        now, takes = int(1000 * time.time()), self.takes()
        between = {topic: its.times.between(now) for topic, its in takes.items()}
        made = [*self._outcome(one), *self._summaries(one)]
        for place, message in enumerate(made):
            oldest, newest = between.get(message.topic, EVER)
            if message.timestamp is not None and not oldest <= message.timestamp <= newest:
                made[place] = clamped(message, takes[message.topic].times, now)
                self.stats.add("timestamps_replaced", message.place)
        return made

    def instead(
        self, messages: Sequence[Outgoing], closed: Sequence[PendingBatch], refused: Sequence[RefusedMessage]
    ) -> list[Outgoing]:
        """Replace rejected messages by messages that are more likely to be accepted, and log each.

        Raises
        ------
        ConnectorError
            If a message cannot be replaced.
        """
        out: list[Outgoing | None] = list(messages)
        for place, error in refused:
            out[place] = self._instead(messages[place], closed, error)
        return [message for message in out if message is not None]

    def _outcome(self, one: PendingBatch) -> Iterator[Outgoing]:
        publish = self.publisher._replace(model=one.before.model.trained.fingerprint)
        decisions = publish.decisions(one.place, one.outcome.decisions)
        events = publish.events(one.place, one.outcome)
        refused = one.outcome.taken.refused
        if self.encoding.is_json:
            yield from decisions
            yield from events
        else:
            failed: list[tuple[Received, Refusal]] = []
            yield from self._encoded("decision", decisions, one, failed)
            yield from self._encoded("event", events, one, [])
            refused = sorted([*refused, *failed], key=lambda pair: pair[0].offset)
        yield from publish.dead_letters(refused)

    def _encoded(
        self, kind: EncodedKind, made: Sequence[Outgoing], one: PendingBatch, failed: list[tuple[Received, Refusal]]
    ) -> Iterator[Outgoing]:
        """Encode messages with the custom encoder. Failures are skipped and added to ``failed``."""
        for message in made:
            try:
                encoded = self.encoding.encoded(kind, message)
            except MemoryError:
                raise
            except Exception as error:
                failed.append((_received(message, [one]), Refusal("ENCODE", error)))
                self.stats.add("encoder_failures", message.place)
                self.encoding.tell(kind, message, error)
            else:
                yield encoded

    def _summaries(self, one: PendingBatch) -> Iterator[Outgoing]:
        """Yield summaries of the subclasses that a micro-batch changed, for `stream-osr reconcile`."""
        topic = self.settings.subclasses
        if topic is None:
            return
        before, after = (state.model.value.emerged_statistics() for state in (one.before, one.after))
        if one.before.lineage != one.after.lineage:  # another model: kept subclasses are published again
            before = {key: its for key, its in before.items() if key not in after}
        place = str(one.place)
        for said in changed_summaries(before, after, one.outcome.events):
            local = Local(place, one.after.lineage, said.id)
            name = f"{self.publisher.names[one.place.topic]}-{one.place.partition}-{one.outcome.place}-{said.id}"
            yield summary(self.trained, topic, local, said, Stamp(name, f"/{self.settings.group}/{place}"))

    def _instead(self, message: Outgoing, closed: Sequence[PendingBatch], error: ClientError) -> Outgoing | None:
        settings, about = self.settings, message.place
        if refuses_timestamp(error) and message.timestamp != NO_TIME:
            logger.warning("%s: topic %s refuses a timestamp: %s. It is left out", about, message.topic, error)
            self.stats.add("timestamps_replaced", message.place)
            reported = () if message.timestamp is None else ((HEADER, b"%d" % message.timestamp),)
            return message._replace(timestamp=NO_TIME, headers=[*message.headers, *reported])
        if message.topic == settings.output:
            logger.error(
                "%s: the decision of %d cannot be published and is a dead letter: %s", about, message.offset, error
            )
            received = _received(message, closed)
            (letter,) = self.publisher.dead_letters([(received, Refusal("PUBLISH", error))])
            return letter
        if message.topic == settings.dead_letters:
            if REFUSED in message.headers:
                raise ConnectorError(
                    f"{about}: the dead letter of {message.offset} cannot be published: {error}. Give topic "
                    f"{message.topic} a larger max.message.bytes"
                )
            logger.error("%s: the dead letter of %d is published without its value: %s", about, message.offset, error)
            ours = [each for each in message.headers if each[0].startswith("__connect.errors.")]
            return message._replace(key=b"", value=None, headers=[*ours, REFUSED])
        logger.error("%s: a message to topic %s is left out: %s", about, message.topic, error)
        return None


def _received(message: Outgoing, closed: Sequence[PendingBatch]) -> Received:
    """Return the record of a decision."""
    origins = (each.item for one in closed if one.place == message.place for each in one.outcome.decisions)
    found = next((origin.record for origin in origins if origin.offset == message.offset), None)
    return Message(*message.place, message.offset, -1, message.key, None, ()) if found is None else found


def account(
    stats: ServiceStats,
    settings: ServiceSettings,
    batches: Sequence[PendingBatch],
    messages: Sequence[Outgoing],
    at: float,
) -> None:
    """Count committed messages and records.

    Parameters
    ----------
    stats
        Statistics to update.
    settings
        Settings with the topics.
    batches
        Micro-batches of the transaction.
    messages
        All messages of the transaction, which the topics acknowledged.
    at
        Time of the commit in seconds since 1970.
    """
    published = Counter((message.topic, message.place) for message in messages)
    dead = {(message.place, message.offset) for message in messages if message.topic == settings.dead_letters}
    expected: Counter[Place] = Counter()
    for place, before, after, records, outcome in batches:
        stats.add("records", place, len(records))
        taken, labelled = outcome.taken, outcome.taken.labelled
        stats.add("labelled", place, labelled)
        stats.add("skipped", place, taken.skipped)
        stats.add("features_missing", place, taken.missing)
        stats.add("features_expected", place, taken.values)
        stats.add("commands_left", place, outcome.left)
        if after.keys is not None:
            stats.add("keys_refused", place, taken.keys_refused)
        made = [each for each in outcome.decisions if (place, each.item.offset) not in dead]
        count_decisions(stats, place, after.model, [each.decision for each in made])
        stats.observe_latency(np.array([each.item.timestamp for each in made], dtype=np.int64), at)
        count_events(stats, place, after.model, outcome.events)
        held = after.delayed - before.delayed
        expected[place] += len(records) - labelled - taken.skipped - held
        if place in stats.partitions:
            its = stats.partitions[place]
            its.position = after.history.last.offset
            its.paused, its.pending = after.delayed, max(0, its.pending - len(records))
            follow(its, after)
            if shortage := its.key_shortage:
                _seldom.say(f"key memory {place}", f"{place}: {shortage}")
        for event, by in zip_longest(outcome.events, outcome.streams):
            if (warning := kind_of(event).warning) is None:
                continue
            if by is None:
                logger.warning("%s: %s", place, warning(event))
            else:  # thousands of keys may have one each
                _seldom.say(f"{place} {type(event).__name__}", f"{place}, key {brief(by)}: {warning(event)}")
        for received, refusal in taken.refused:
            why = type(refusal.error).__name__
            logger.debug("%s at %d is a dead letter: %s, %s", place, received.offset, refusal.stage, why)
    for place, wanted in expected.items():
        letters, decisions = published[settings.dead_letters, place], published[settings.output, place]
        stats.add("dead_letters", place, letters)
        stats.add("events", place, published[settings.events, place])
        stats.add("unaccounted_records", place, abs(wanted - letters - decisions))
        if wanted != letters + decisions:
            logger.critical(
                f"{place}: {wanted} records were committed and {letters + decisions} decisions and "
                "dead letters: this is a defect"
            )


def follow(its: PartitionStats, state: Partition) -> None:
    """Read the statistics of a partition from its state. With keys there is no recognizer of the partition."""
    if state.keys is None:
        its.follow(state.model)
    else:
        its.keys, its.keys_awake, its.most_keys = len(state.keys), state.keys.awake, state.keys.most
        its.key_memory_needed = state.keys.needed_memory


SIGNAL_COUNTS = {"rate_jumps": "unknown_rate_jumps", "data_faults": "data_faults"}
"""Counts of signals with separate metrics."""

RARE = ("encoder_failures", "unreadable", "timestamps_replaced", "unknown_rate_jumps", "replayed")
"""Rare counts of a partition."""


def begin_counts(stats: ServiceStats, place: Place, model: OpenSetRecognizer) -> None:
    """Set all counts of a partition to 0, so that the first event of each kind is an increase."""
    kinds = [f"{OF_TYPE}{kind}" for kind in sorted(EVENT_TABLE)]
    kinds += [f"{of}{reason}" for of in (LOST, REPEATED) for reason in REASONS]
    for name in dict.fromkeys(_names(model).values()):
        kinds += [f"{of}{name}" for of in (KNOWN_OF, UNKNOWN_OF, DRIFTED)]
    for kind in (*RARE, "known", "unknown", *kinds):
        stats.add(kind, place, 0)


def count_decisions(stats: ServiceStats, place: Place, model: OpenSetRecognizer, made: Sequence[Decision]) -> None:
    """Count known and unknown decisions, in total and by nearest known class."""
    unknown = Counter(d.nearest_class for d in made if d.label == next(reversed(d.probabilities)))
    known = Counter(d.nearest_class for d in made)
    known.subtract(unknown)
    names = _names(model)
    for kind, of, counts in (("known", KNOWN_OF, known), ("unknown", UNKNOWN_OF, unknown)):
        stats.add(kind, place, counts.total())
        for label, count in counts.items():
            stats.add(f"{of}{names.get(label, OTHER)}", place, count)


def count_events(stats: ServiceStats, place: Place, model: OpenSetRecognizer, events: Sequence[Event]) -> None:
    """Count events by type, events in sums separately, and drifts also by class."""
    for event in events:
        stats.add(f"{OF_TYPE}{type(event).__name__}", place)
        if (signal := kind_of(event).signal) in SIGNAL_COUNTS:
            stats.add(SIGNAL_COUNTS[signal], place)
        if isinstance(event, EventsSummed):
            for kind, count in event.counts.items():
                stats.add(f"{SUMMED}{kind}", place, count)
        if isinstance(event, ClassDrifted):
            stats.add(f"{DRIFTED}{_names(model).get(event.label, OTHER)}", place)


def _names(model: OpenSetRecognizer) -> Mapping[Label, str]:
    return class_names(tuple(model.value.labels))
