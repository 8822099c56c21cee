"""The loop that joins the subclasses of all partitions under global identities, exactly once like the service's own.

Its state is what the topics hold: the latest summary of each subclass before the committed offset, the links, and the
next identity, which is committed with the offset. So there is nothing to snapshot, and a start is a reading of two
small topics. Links are taken at their word: whatever compaction has removed of the summaries, an identity stays.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence

from kafka import OffsetAndMetadata, TopicPartition
from kafka.errors import KafkaError

from stream_osr.discovery.reconcile import Reconciled, Summary, reconcile, restore
from stream_osr.errors import ConnectorError
from stream_osr_connectors.values import DecodeError

from .clients import quieten, read_all, transactional_producer
from .figures import Figures, PartitionFigures
from .messages import Outgoing, Received
from .models import ModelFile
from .reading import CLOSE_SECONDS, RETRY_SECONDS, Reader, start_explained
from .settings import ServiceSettings
from .subclasses import Links, changes_told, name_of, parse_summary
from .transactions import InDoubtError, Transactions

logger = logging.getLogger("stream_osr.kafka")

VERSION = "1"
MOST_RECORDS = 100
LOOK_SECONDS = 1.0


class Reconciler:
    """One consumer of the summaries.

    Parameters
    ----------
    settings
        Those of the service; its group is followed by ``-reconcile``.
    figures
        Where it tells how it goes; its own if not given. Its records are summaries, its events global ones.

    Raises
    ------
    ConnectorError
        If no topic of summaries is named.
    PersistenceError
        If the model cannot be used.
    """

    def __init__(
        self, settings: ServiceSettings, *, model: ModelFile | None = None, figures: Figures | None = None
    ) -> None:
        if settings.subclasses is None:
            raise ConnectorError(
                "no topic of summaries is named: set subclasses (for the workers, too), INPUT.subclasses, say"
            )
        self.settings = settings.model_copy(update={"group": f"{settings.group}-reconcile"})
        self.figures = Figures() if figures is None else figures
        self._looked = 0.0
        self._topic: str = settings.subclasses
        self._place = TopicPartition(self._topic, 0)
        self._trained = (ModelFile.load(settings) if model is None else model).trained
        self._reader = Reader(self.settings, self._topic, MOST_RECORDS, self.figures)
        self._transactions = Transactions(
            lambda: transactional_producer(self.settings), settings.transaction_deadline
        )
        self._state: Reconciled | None = None
        self._runs: dict[str, str] = {}

    def run(self, stop: Callable[[], bool]) -> None:
        """Work until told to stop.

        Raises
        ------
        ConnectorError
            If it cannot go on without a person, or should be started again.
        """
        quieten()
        try:
            self._open()
            while not stop():
                self.figures.turn()
                polled = self._reader.poll().get(0, [])
                if self._reader.gone():
                    self._forget()
                    self.figures.add("rebalances")
                if self._reader.assigned:
                    self._try_load()
                elif polled and self._state is not None:
                    self._work(self._state, polled)
                self._look()
        finally:
            self._reader.close()
            self._transactions.close(CLOSE_SECONDS)

    def _open(self) -> None:
        settings = self.settings
        with start_explained(settings):
            self._reader.open()
            topics = {"subclasses": self._topic, "links": settings.links, "global_events": settings.global_events}
            logger.info("topics: %s", ", ".join(f"{name} {topic}" for name, topic in topics.items()))
            for name, topic in topics.items():
                count = len(self._reader.client.partitions_for_topic(topic) or ())
                if not count:
                    raise ConnectorError(f"{name}: topic {topic} does not exist at {settings.brokers}; create it")
                if count > 1 and name == "subclasses":
                    raise ConnectorError(
                        f"{name}: topic {topic} has {count} partitions; it needs one, so that a replay has one order"
                    )
            self._transactions.open()

    def _forget(self) -> None:
        self._state = None
        self.figures.partitions.clear()

    def _look(self) -> None:
        """Once a second, see how far behind it is; with nothing left to do, that is progress, too."""
        now, figures = time.monotonic(), self.figures
        figures.ready = self._reader.joined and not self._reader.assigned
        if now - self._looked < LOOK_SECONDS:
            return
        self._looked = now
        for number, partition in figures.partitions.items():
            partition.end, partition.lag = self._reader.lag(number)
        if figures.ready and all(partition.lag == 0 for partition in figures.partitions.values()):
            figures.progress = now

    # Where it stands.

    def _try_load(self) -> None:
        try:
            self._transactions.open()
            self._load()
        except (KafkaError, InDoubtError) as error:
            logger.info("%s cannot be loaded yet: %s", self._topic, error)
            time.sleep(RETRY_SECONDS)

    def _load(self) -> None:
        """Ask where it stands; read what is stored, up to there; say what was left out for want of the model."""
        where = self._reader.where(0)
        at = where.first if where.offset is None else where.offset
        if at > where.end:
            raise InDoubtError(f"offset {at} was committed, and the topic ends at {where.end}")
        next_id = 0 if where.offset is None else _next_id(where.metadata)
        stored = Links({}, {})
        for received in read_all(self.settings, self.settings.links):
            self.figures.turn()
            stored.read(received)
        if next_id and not stored.links:
            raise ConnectorError(
                f"links: {next_id} identities were given and {self.settings.links} holds none of them; "
                "bring the topic back (cleanup.policy=compact), or take another group"
            )
        self._runs = {}
        summaries = [s for s in map(self._parse, read_all(self.settings, self._topic, at)) if s is not None]
        self._state = restore(summaries, stored.links, stored.merged, next_id, self._trained.known.prior)
        logger.info("%d subclasses alive in %d global ones at %d", len(self._state.said), len(self._state.sums), at)
        left = sorted(local for local in self._state.said if local not in self._state.links)
        if left:
            logger.info("%d summaries were left by another model and are taken in now", len(left))
            state, messages = self._state, []
            for local in left:
                again = Summary(local, state.said[local])
                state, more = self._take_in(state, again, f"{at}-{name_of(local)}", -1)
                messages += more
            self._publish(state, messages, at)
        self.figures.partitions[0] = PartitionFigures(at)
        self._reader.begin(0, at)

    def _parse(self, received: Received) -> Summary | None:
        """Read a summary; None: it cannot be used now, which the log says."""
        self.figures.turn()
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

    # One transaction.

    def _work(self, state: Reconciled, polled: Sequence[Received]) -> None:
        """Take in what was read, and publish what it changes with the offset that it reaches."""
        messages: list[Outgoing] = []
        begun = time.perf_counter()
        try:
            for received in polled:
                summary = self._parse(received)
                if summary is not None:
                    state, more = self._take_in(state, summary, str(received.offset), received.timestamp)
                    messages += more
            self.figures.add("steps")
            self.figures.batch_seconds += time.perf_counter() - begun
            self._publish(state, messages, polled[-1].offset + 1)
            self.figures.add("records", 0, len(polled))
        except InDoubtError as error:
            logger.warning("a transaction failed: %s", error)
            self.figures.add("failed")
            self.figures.counts["abandoned", -1] = self._transactions.stuck
            self._forget()
            self._reader.put_off(0)

    def _take_in(
        self, state: Reconciled, summary: Summary, at: str, timestamp: int
    ) -> tuple[Reconciled, list[Outgoing]]:
        known = self._trained.known
        state, changes = reconcile(state, summary, known.prior, known.location)
        for key in changes.emerged:
            logger.info("global subclass %d emerged: %s", key, name_of(summary.local))
        topics = self.settings.links, self.settings.global_events
        source = f"/{self.settings.group}/{self._topic}"
        name = f"{self._topic}-0-{at}"
        return state, changes_told(
            self._trained, topics, summary.local, state, changes, id=name, source=source, timestamp=timestamp
        )

    def _publish(self, state: Reconciled, messages: list[Outgoing], at: int) -> None:
        self._transactions.open()
        offsets = {self._place: OffsetAndMetadata(at, f"{VERSION} {state.next_id}", -1)}
        running = self._transactions.begin(messages, offsets, self._reader.client.group_metadata())
        self._transactions.finish(running)
        self._state = state
        figures = self.figures
        figures.add("transactions")
        figures.transaction_seconds += running.seconds
        figures.add("events", 0, sum(message.topic == self.settings.global_events for message in messages))
        figures.progress = time.monotonic()
        if 0 in figures.partitions:
            figures.partitions[0].position = at


def _next_id(metadata: str) -> int:
    version, _, number = metadata.partition(" ")
    if version != VERSION or not number.isdecimal():
        raise ConnectorError(
            f"the committed offset carries {metadata[:40]!r}, which `stream-osr reconcile` did not write; take "
            "another group"
        )
    return int(number)
