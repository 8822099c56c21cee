"""Reconciliation: global ids for the subclasses of all partitions, with exactly-once delivery.

The topics contain the whole state: the latest summary of each subclass before the committed offset, the links, and
the next global id, which is committed with the offset. Therefore there are no snapshots, and a start reads two small
topics. Links always apply, even if compaction has removed summaries, so a global id never changes.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from stream_osr.discovery.reconcile import LocalSummary, ReconciledSubclasses
from stream_osr.errors import ConnectorError
from stream_osr.stream.local_summaries import take_in, taken_in
from stream_osr_connectors.values import DecodeError

from ..client.consumers import read_all
from ..client.interface import Committed, Offset, RefusedMessage
from ..log import logger
from ..places import Place
from ..settings import ServiceSettings
from ..stats import PartitionStats, ServiceStats
from ..wire.messages import Outgoing, Received
from ..wire.subclasses import Links, Stamp, messages_of_changes, name_of, parse_summary
from .job import Job, Loaded, NotLoadable, TransactionContent
from .models import ModelFile
from .topic_monitor import Watch

VERSION = "1"


class ReconcileStep(NamedTuple):
    """One transaction of the reconciliation: state and offset before and after, and the summaries between."""

    before: tuple[ReconciledSubclasses, int]
    after: tuple[ReconciledSubclasses, int]
    records: Sequence[Received]
    left: Sequence[LocalSummary]


class Reconciliation(Job):
    """Conversion of summaries to global subclasses, as a :class:`.job.Job`.

    Parameters
    ----------
    settings
        Settings of the service, with the group of the reconciliation.
    topic
        Topic of summaries.
    model
        Trained model.
    stats
        Statistics to update.
    """

    def __init__(self, settings: ServiceSettings, topic: str, model: ModelFile, stats: ServiceStats) -> None:
        self._settings, self._topic, self._trained, self._stats = settings, topic, model.trained, stats
        self._place = Place(topic, 0)
        stats.model, stats.fingerprint = model.identity, model.trained.fingerprint
        self._state: tuple[ReconciledSubclasses, int] | None = None
        self._buffer: deque[Received] = deque()
        self._left: list[LocalSummary] = []
        self._runs: dict[str, str] = {}
        self._uncommitted = 0

    @property
    def most_read(self) -> int:
        """Most records of one poll and of one transaction."""
        return 100

    def check(self, watch: Watch) -> None:
        """Check that the topic has one partition, so that summaries are in one order."""
        count = watch.partitions(self._topic)
        if count > 1:
            raise ConnectorError(
                f"subclasses: topic {self._topic} has {count} partitions. It needs one, so that all see one order"
            )

    def input_recreated(self, topic: str, topic_id: str) -> None:
        """Continue with a topic that was created again. Its summaries are linked to the existing global ids."""
        logger.warning("subclasses: topic %s was deleted and made again: it is read from its beginning", self._topic)

    # Where it stands.

    @property
    def owned(self) -> Sequence[Place]:
        """The single partition if it is loaded."""
        return () if self._state is None else (self._place,)

    def load(self, place: Place, where: Committed) -> Loaded | NotLoadable:
        """Read the state up to the committed offset. Summaries that another model skipped are processed first."""
        at = where.first if where.offset is None else where.offset
        if at > where.end:
            return NotLoadable(f"offset {at} was committed, and it ends at {where.end}")
        next_id = 0 if where.offset is None else _next_id(where.metadata)
        stored = Links({}, {})
        for received in read_all(self._settings, self._settings.links):
            self._stats.turn()
            try:
                stored.read(received)
            except DecodeError as error:
                logger.warning("%s at %d is left: %s", self._settings.links, received.offset, error)
        next_id = max([next_id, *(key + 1 for key in (*stored.links.values(), *stored.merged))])
        if where.offset is not None and next_id and not stored.links:
            raise ConnectorError(
                f"links: {next_id} identities were given and {self._settings.links} holds none of them: "
                "restore the topic (cleanup.policy=compact), or use another group"
            )
        self._runs = {}
        summaries = [s for s in map(self._parse, read_all(self._settings, self._topic, at)) if s is not None]
        state = taken_in(self._trained, summaries, stored.links, stored.merged, next_id)
        logger.info("%d subclasses alive in %d global ones at %d", len(state.statistics), len(state.sums), at)
        left = sorted(local for local in state.statistics if local not in state.links)
        if left:
            logger.info("%d summaries were left by another model and are taken in now", len(left))
        self._left = [LocalSummary(local, state.statistics[local]) for local in left]
        self._state = state, at
        self._stats.partitions[place] = PartitionStats(at)
        return Loaded(at)

    def drop(self, place: Place) -> None:
        """Drop the state, because another worker has the partition or it must be loaded again."""
        self._state = None
        self._stats.partitions.clear()
        self._buffer.clear()
        self._left, self._uncommitted = [], 0

    def matches(self, place: Place, committed: Offset | None) -> bool:
        """Return whether the state matches the committed offset."""
        return self._state is not None and committed in (None, _offset(self._state))

    # One transaction.

    def accept(self, place: Place, records: list[Received]) -> None:
        """Buffer new records."""
        if self._state is not None:
            self._buffer.extend(records)

    def measure(self, place: Place) -> int:
        """Return the number of waiting summaries."""
        return len(self._buffer) + self._uncommitted

    def prepare(self) -> TransactionContent | None:
        """Process new summaries, and prepare the messages of their changes."""
        if self._state is None or not (self._buffer or self._left):
            return None
        before, messages, begun = self._state, [], time.perf_counter()
        state, at = before
        left, self._left = self._left, []
        records = [self._buffer.popleft() for _ in range(min(len(self._buffer), self.most_read))]
        found = [(summary, f"{at}-{name_of(summary.local)}", -1) for summary in left]
        for received in records:
            if (summary := self._parse(received)) is not None:
                found.append((summary, str(received.offset), received.timestamp))
            at = received.offset + 1
        for each in found:
            state, more = self._take_in(state, *each)
            messages += more
        self._stats.observe("batch", time.perf_counter() - begun)
        self._state = state, at
        self._uncommitted += len(records)
        return TransactionContent(
            ReconcileStep(before, self._state, records, left), messages, {self._place: _offset(self._state)}
        )

    def undo(self, group: TransactionContent) -> None:
        """Revert a transaction."""
        step: ReconcileStep = group.content
        if self._state is not None:
            self._state, self._left = step.before, [*step.left, *self._left]
            self._buffer.extendleft(reversed(step.records))
            self._uncommitted -= len(step.records)

    def replace_refused(self, group: TransactionContent, refused: Sequence[RefusedMessage]) -> TransactionContent:
        """Fail, because a link cannot be replaced.

        Raises
        ------
        ConnectorError
            Always.
        """
        place, error = refused[0]
        raise ConnectorError(
            f"topic {group.messages[place].topic} rejects a message: {error}. Give it the settings of "
            "`stream-osr topics --create`"
        )

    def committed(self, group: TransactionContent, at: float) -> None:
        """Count published messages."""
        step, stats = group.content, self._stats
        self._uncommitted = max(0, self._uncommitted - len(step.records))
        stats.add("records", self._place, len(step.records))
        stats.add(
            "events", self._place, sum(message.topic == self._settings.global_events for message in group.messages)
        )
        if self._place in stats.partitions:
            stats.partitions[self._place].position = step.after[1]

    def _parse(self, received: Received) -> LocalSummary | None:
        """Parse a summary. If it cannot be used now, log it and return ``None``."""
        self._stats.turn()
        try:
            summary = parse_summary(received, self._runs, self._trained)
        except DecodeError as error:
            logger.warning("%s at %d is left: %s", self._topic, received.offset, error)
            return None
        if summary is None:
            logger.warning("%s at %d is left: it is of another model", self._topic, received.offset)
        elif summary.statistics is not None:
            self._runs[summary.local.place] = summary.local.run
        return summary

    def _take_in(
        self, state: ReconciledSubclasses, summary: LocalSummary, at: str, timestamp: int
    ) -> tuple[ReconciledSubclasses, list[Outgoing]]:
        state, changes = take_in(self._trained, state, summary)
        for key in changes.emerged:
            logger.info("global subclass %d emerged: %s", key, name_of(summary.local))
        topics = self._settings.links, self._settings.global_events
        stamp = Stamp(f"{self._topic}-0-{at}", f"/{self._settings.group}/{self._topic}", timestamp)
        return state, messages_of_changes(self._trained, topics, summary.local, state, changes, stamp)


def _offset(state: tuple[ReconciledSubclasses, int]) -> Offset:
    """Return the offset to commit, with the next global id."""
    return Offset(state[1], f"{VERSION} {state[0].next_id}")


def _next_id(metadata: str) -> int:
    version, _, number = metadata.partition(" ")
    if version != VERSION or not number.isdecimal():
        raise ConnectorError(
            f"the committed offset carries {metadata[:40]!r}, which `stream-osr reconcile` did not write: use "
            "another group"
        )
    return int(number)
