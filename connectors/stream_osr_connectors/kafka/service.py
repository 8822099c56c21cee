"""The loop of a worker: read, close micro-batches, publish them with their offsets in one transaction, again.

One recognizer for each partition, over one trained model. State moves forward by values: what a transaction that
fails had advanced is forgotten, and the records go back into the buffer. Partitions come and go between polls only.
"""

from __future__ import annotations

import gc
import logging
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from kafka import KafkaConsumer, OffsetAndMetadata, TopicPartition
from kafka.errors import KafkaError

from stream_osr.discovery.reconcile import Local
from stream_osr.engine.summaries import to_say
from stream_osr.errors import ConnectorError, PersistenceError

from .boundaries import MOST_CHARACTERS, Boundary, Progress
from .clients import group_consumer, quieten, transactional_producer
from .current_model import CurrentModel
from .figures import Figures, PartitionFigures
from .label_log import LabelLog, Labels, NoLabels
from .messages import Decoder, Outgoing, Publisher, Received, make_decoder
from .models import ModelFile
from .partition import Outcome, Partition, step
from .reading import CLOSE_SECONDS, RETRY_SECONDS, Reader, start_explained
from .recovery import Found, LaterModelError, Recovery
from .settings import ServiceSettings
from .snapshots import Snapshots, open_folder
from .subclasses import largest_summary, summary
from .topics import USUAL_BYTES, message_limits, topics_of
from .transactions import InDoubtError, Producer, Running, Transactions, close

logger = logging.getLogger("stream_osr.kafka")

SWEEP_SECONDS = 30.0
FEW_STEPS = 100
"""Their text always fits."""

LOOK_SECONDS = 1.0

READ_AHEAD = 4
"""A poll may bring so many transactions' worth of records: while one is under way, the next is prepared."""

BEHIND_SECONDS = 60.0
"""How long a partition may end before the committed offset until records count as lost."""


@dataclass(slots=True)
class Owned:
    """A partition of this worker.

    Attributes
    ----------
    state
        As far as micro-batches have been closed.
    buffer
        Records that wait for theirs.
    since
        When the first of them came.
    replay
        Boundaries up to which everything has been published before.
    snapshots
        Boundaries of the latest snapshots, the newest last.
    written
        When the newest was written.
    """

    state: Partition
    replay: deque[Boundary]
    snapshots: list[Boundary]
    written: float
    buffer: deque[Received] = field(default_factory=deque)
    since: float = 0.0


class Closed(NamedTuple):
    """A micro-batch that has been closed and not yet published."""

    number: int
    before: Partition
    after: Partition
    records: list[Received]
    outcome: Outcome


class Service:
    """One worker of the service.

    Parameters
    ----------
    settings
        What the operator has set.
    make_consumer, make_producer
        Makers of the clients.
    figures
        Where it tells how it goes; its own if not given.

    Raises
    ------
    PersistenceError
        If the model or the folder of the snapshots cannot be used.
    """

    def __init__(
        self,
        settings: ServiceSettings,
        *,
        model: ModelFile | None = None,
        make_consumer: Callable[[ServiceSettings, int], KafkaConsumer] = group_consumer,
        make_producer: Callable[[ServiceSettings], Producer] = transactional_producer,
        figures: Figures | None = None,
    ) -> None:
        self.settings = settings
        self.figures = Figures() if figures is None else figures
        self._looked = 0.0
        self._snapshots = Snapshots(open_folder(settings), settings.snapshots)
        self._model = CurrentModel(settings, self._snapshots.folder).model if model is None else model
        self._recovery = Recovery(settings, self._model, self._snapshots)
        self._decode: Decoder = make_decoder(settings, self._model.features)
        self._batch_size = settings.batch_size or self._model.batch_size
        most = READ_AHEAD * settings.commit_batches * self._batch_size
        self._reader = Reader(settings, settings.input, max(500, most), self.figures, make_consumer)
        self._transactions = Transactions(lambda: make_producer(settings), settings.transaction_deadline)
        self._labels: Labels = NoLabels()
        self._owned: dict[int, Owned] = {}
        self._behind: dict[int, float] = {}  # since when a partition ends before its committed offset
        self._swept = time.monotonic()
        self._publisher = Publisher(
            group=settings.group,
            instance=settings.instance,
            input=settings.input,
            output=settings.output,
            events=settings.events,
            dead_letters=settings.dead_letters,
            model=self._model.trained.fingerprint,
            largest=USUAL_BYTES,
        )

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
                self._take(self._reader.poll())
                self._settle()
                self._labels.refresh()
                self._work(stop)
                self._write_snapshots()
                self._look()
                self._sweep()
            self._leave_snapshots()
        finally:
            self._close()

    # Beginning and end.

    def _open(self) -> None:
        """Connect; at the start an answer is wanted, later any patience is right."""
        with start_explained(self.settings):
            self._reader.open()
            self._check_topics(self._reader.client)
            if self.settings.labels is not None:
                self._labels = LabelLog(self.settings)
            self._transactions.open()
        self.figures.opened = True

    def _check_topics(self, consumer: KafkaConsumer) -> None:
        """Name the topics, and make sure that they are there."""
        settings, topics = self.settings, topics_of(self.settings)
        logger.info("topics: %s", ", ".join(f"{name} {topic}" for name, topic in topics.items()))
        for name, topic in topics.items():
            if not consumer.partitions_for_topic(topic):
                raise ConnectorError(
                    f"{name}: topic {topic} does not exist at {settings.brokers}; create it "
                    "(`stream-osr topics --create`), or correct the name"
                )
        limits = message_limits(settings)
        if settings.subclasses is not None and limits[settings.subclasses] < largest_summary(self._model.trained):
            raise ConnectorError(
                f"subclasses: topic {settings.subclasses} takes messages of {limits[settings.subclasses]} bytes at "
                f"most; set its max.message.bytes to {largest_summary(self._model.trained)}, or train with a PCA"
            )
        self._publisher = self._publisher._replace(largest=limits[settings.dead_letters])

    def _sweep(self) -> None:
        """Collect garbage: the client leaves sockets of failed connections to it, and an idle process makes none."""
        now = time.monotonic()
        if now - self._swept >= SWEEP_SECONDS:
            self._swept = now
            gc.collect()

    def _leave_snapshots(self) -> None:
        """Write what is committed, so that the next start has nothing to replay; half of the time is for that."""
        ends = time.monotonic() + self.settings.stop_timeout / 2
        for number, owned in sorted(self._owned.items()):
            if time.monotonic() < ends and not owned.replay:
                self._try_snapshot(number)

    def _close(self) -> None:
        self._reader.close()
        close(self._labels.close, CLOSE_SECONDS)
        self._transactions.close(CLOSE_SECONDS)

    # Reading.

    def _take(self, polled: dict[int, list[Received]]) -> None:
        """Buffer what was read of partitions that are ours, after letting go of those that are not any more."""
        gone = self._reader.gone()
        for number in gone:
            owned = self._owned.pop(number, None)
            self.figures.partitions.pop(number, None)
            if owned is not None:
                if not owned.replay:
                    self._recovery.remember(number, owned.state)
                logger.info("%s/%d is another worker's now", self.settings.input, number)
        if gone:
            self.figures.add("rebalances")
        for number, records in polled.items():
            owned = self._owned.get(number)
            if owned is None:
                continue
            if not owned.buffer:
                owned.since = time.monotonic()
            owned.buffer.extend(records)

    def _look(self) -> None:
        """Once a second, see how far behind each partition is; with nothing left to do, that is progress, too."""
        now = time.monotonic()
        if now - self._looked < LOOK_SECONDS:
            return
        self._looked = now
        for number, figures in self.figures.partitions.items():
            owned = self._owned[number]
            figures.replaying = bool(owned.replay)
            figures.end, unread = self._reader.lag(number)
            figures.lag = None if unread is None else unread + len(owned.buffer)
        if self.figures.ready and all(figures.lag == 0 for figures in self.figures.partitions.values()):
            self.figures.progress = now

    def _settle(self) -> None:
        """Load the partitions that have been assigned; those that cannot be loaded now wait for the next round."""
        for number in sorted(self._reader.assigned - self._owned.keys()):
            try:
                found = self._find(number)
                if found is not None:
                    self._reader.begin(number, found.state.history.last.offset)
            except (KafkaError, InDoubtError, LaterModelError) as error:
                logger.info("%s/%d cannot be loaded yet: %s", self.settings.input, number, error)
                continue
            if found is None:
                continue
            self._behind.pop(number, None)
            now = time.monotonic()
            self._owned[number] = Owned(found.state, deque(found.replay), list(found.snapshots), now)
            offset, menu = found.state.history.last.offset, found.state.model.menu
            self.figures.partitions[number] = PartitionFigures(
                offset, replaying=bool(found.replay), snapshot=now, menu=menu
            )
        replaying = any(owned.replay for owned in self._owned.values())
        self.figures.ready = self._reader.joined and not self._reader.assigned and not replaying

    def _find(self, number: int) -> Found | None:
        """Ask the broker where a partition stands, and find its state; a new beginning is committed at once.

        Just after another broker has become the leader, it may not yet know how far the partition goes: None.
        """
        where = self._reader.where(number)
        if where.offset is not None and where.offset > where.end:
            since = self._behind.setdefault(number, time.monotonic())
            if time.monotonic() - since < BEHIND_SECONDS:
                return None
        found = self._recovery.find(number, where, self._labels.end)
        if found.new:
            self._transactions.open()
            self._transactions.finish(self._transact([], {number: found.state}))
        return found

    # Micro-batches.

    def _work(self, stop: Callable[[], bool]) -> None:
        """Close and publish whatever is ready; while one transaction is under way, the next is prepared."""
        running: tuple[list[Closed], Running] | None = None
        ahead: list[Closed] = []
        try:
            while True:
                ahead = self._close_ready()
                if running is not None:
                    self._finish(*running)
                    running = None
                if not ahead:
                    break
                running = ahead, self._begin(ahead)
                ahead = []
        except InDoubtError as error:
            logger.warning("a transaction failed: %s", error)
            self.figures.add("failed")
            self.figures.counts["abandoned", -1] = self._transactions.stuck
            self._recover([] if running is None else running[0], ahead, stop)

    def _close_ready(self) -> list[Closed]:
        """Close the micro-batches that are ready, up to the number that may share a transaction; replay silently."""
        closed: list[Closed] = []
        now = time.monotonic()
        busy = True
        while busy and len(closed) < self.settings.commit_batches:
            busy = False
            for number, owned in self._owned.items():
                if len(closed) >= self.settings.commit_batches:
                    break
                if not owned.replay and self._recovery.is_earlier(owned.state):
                    busy = True
                    closed.append(self._hand_over(number, owned))
                    continue
                cut = self._cut(number, owned, now)
                if cut is None:
                    continue
                busy = True
                replayed = bool(owned.replay)
                one = self._close_batch(number, owned, *cut)
                if replayed:
                    owned.replay.popleft()
                    self.figures.add("replayed", number, len(one.records))
                    if not owned.replay:
                        logger.info("%s/%d is live at %d", self.settings.input, number, cut[1].offset)
                else:
                    closed.append(one)
        return closed

    def _cut(self, number: int, owned: Owned, now: float) -> tuple[list[Received], Boundary] | None:
        """Take the records of the next micro-batch out of the buffer; None: it is not ready."""
        buffer, done = owned.buffer, owned.state.history.last
        if owned.replay:
            end = owned.replay[0]
            if end.offset > done.offset and (not buffer or buffer[-1].offset < end.offset - 1):
                return None
            records = []
            while buffer and buffer[0].offset < end.offset:
                records.append(buffer.popleft())
            return records, end
        size = self._batch_size
        if len(buffer) < size:
            longest = self.settings.max_wait
            waited = longest is not None and bool(buffer) and now - owned.since >= longest
            if not waited and not (not buffer and self._asked(number, done.labels)):
                return None
            size = len(buffer)
        records = [buffer.popleft() for _ in range(size)]
        owned.since = now
        labels = max(done.labels, self._labels.end)
        return records, Boundary(records[-1].offset + 1 if records else done.offset, labels)

    def _asked(self, number: int, labels: int) -> bool:
        """Somebody has named, muted or undone something in this partition; late labels wait for instances."""
        return any(
            (command.topic, command.partition) == (self.settings.input, number)
            for command in self._labels.between(labels, self._labels.end)
        )

    def _close_batch(self, number: int, owned: Owned, records: list[Received], end: Boundary) -> Closed:
        before = owned.state
        commands = self._labels.between(before.history.last.labels, end.labels)
        begun = time.perf_counter()
        after, outcome = step(before, (self.settings.input, number), records, commands, end, self._decode)
        self.figures.turn()
        self.figures.add("steps")
        self.figures.batch_seconds += time.perf_counter() - begun
        owned.state = after
        return Closed(number, before, after, records, outcome)

    def _hand_over(self, number: int, owned: Owned) -> Closed:
        """Go on under another model: what the earlier one has held back is published with the new beginning."""
        before = owned.state
        owned.state, outcome = self._recovery.hand_over(number, before, self._labels.end)
        owned.snapshots = [] if owned.state.history.fresh else [outcome.end]
        return Closed(number, before, owned.state, [], outcome)

    # Publishing.

    def _begin(self, closed: Sequence[Closed]) -> Running:
        """Send a group of micro-batches, with the offsets that they reach, as a transaction."""
        messages = [message for one in closed for message in self._messages(one)]
        messages += [message for one in closed for message in self._said(one)]
        self._transactions.open()
        return self._transact(messages, {one.number: one.after for one in closed})

    def _transact(self, messages: Sequence[Outgoing], reached: Mapping[int, Partition]) -> Running:
        """Send messages in a transaction with the offsets of the states that the partitions have reached."""
        offsets = {}
        for number, state in reached.items():
            text = self._recovery.progress(state).text()
            if len(text) > MOST_CHARACTERS:
                raise ConnectorError(
                    f"{self.settings.input}/{number}: no snapshot could be written for so long that the ends of the "
                    "micro-batches since no longer fit beside the committed offset; see the log for the reason"
                )
            place = TopicPartition(self.settings.input, number)
            offsets[place] = OffsetAndMetadata(state.history.last.offset, text, -1)
        return self._transactions.begin(messages, offsets, self._reader.client.group_metadata())

    def _messages(self, one: Closed) -> Iterator[Outgoing]:
        number, outcome = one.number, one.outcome
        publish = self._publisher._replace(model=one.before.model.trained.fingerprint)
        for origin, decision in outcome.decisions:
            yield publish.decision(number, origin, decision)
        for n, event in enumerate(outcome.events):
            yield publish.event(number, f"{outcome.place}-{n}", outcome.timestamp, event)
        for received, refusal in outcome.refused:
            yield publish.dead_letter(received, refusal)

    def _said(self, one: Closed) -> Iterator[Outgoing]:
        """Sum up the subclasses that a micro-batch has changed, for `stream-osr reconcile`."""
        topic = self.settings.subclasses
        if topic is None:
            return
        before, after = (state.model.emerged_statistics() for state in (one.before, one.after))
        if one.before.lineage != one.after.lineage:  # another model: what goes on is said anew
            before = {key: its for key, its in before.items() if key not in after}
        source = f"/{self.settings.group}/{self.settings.input}/{one.number}"
        for said in to_say(before, after, one.outcome.events):
            local = Local(f"{self.settings.input}/{one.number}", one.after.lineage, said.id)
            name = f"{self.settings.input}-{one.number}-{one.outcome.place}-{said.id}"
            yield summary(self._model.trained, topic, local, said, id=name, source=source)

    def _finish(self, closed: Sequence[Closed], running: Running) -> None:
        """Wait for a transaction, and count what it has published."""
        self._transactions.finish(running)
        self._committed(closed)
        self.figures.transaction_seconds += running.seconds

    def _committed(self, closed: Sequence[Closed]) -> None:
        figures = self.figures
        figures.add("transactions")
        figures.progress = time.monotonic()
        for number, _, after, records, outcome in closed:
            place = self.settings.input, number
            figures.add("batches", number)
            figures.add("records", number, len(records))
            figures.add("events", number, len(outcome.events))
            figures.add("dead_letters", number, len(outcome.refused))
            figures.add("labelled", number, outcome.labelled)
            figures.add("skipped", number, outcome.skipped)
            unknown = sum(
                decision.label == next(reversed(decision.probabilities)) for _, decision in outcome.decisions
            )
            figures.add("unknown", number, unknown)
            figures.add("known", number, len(outcome.decisions) - unknown)
            if number in figures.partitions:
                figures.partitions[number].position = after.history.last.offset
                figures.partitions[number].menu = after.model.menu
            for received, refusal in outcome.refused:
                why = type(refusal.error).__name__
                logger.debug("%s/%d at %d is a dead letter: %s, %s", *place, received.offset, refusal.stage, why)

    # When a transaction has failed.

    def _recover(self, doubtful: list[Closed], ahead: list[Closed], stop: Callable[[], bool]) -> None:
        """Find out what became of a transaction, and put back what has not been committed.

        The next producer makes the broker end it one way or the other. Then the committed offsets tell the truth:
        the state before it, the state after it, or something else, when the partition has gone to another worker.
        """
        for one in reversed(ahead):
            self._put_back(one)
        numbers = sorted({one.number for one in doubtful})
        while not stop():
            self.figures.turn()
            try:
                self._transactions.open()
                truth = {number: self._truth(number) for number in numbers}
                break
            except (KafkaError, InDoubtError) as error:
                logger.info("waiting for the broker: %s", error)
                time.sleep(RETRY_SECONDS)
        else:
            self._owned.clear()  # nothing is known, nothing is written: the next start finds out
            return
        reached = {one.number: one.after for one in doubtful}
        if doubtful and all(truth[number] == _mark(state) for number, state in reached.items()):
            logger.info("the transaction was committed after all")
            self._committed(doubtful)
            return
        for one in reversed(doubtful):
            self._put_back(one)
        for number in numbers:
            if number in self._owned and truth[number] != _mark(self._owned[number].state):
                logger.warning("%s/%d was committed by another worker", self.settings.input, number)
                self._reload(number)

    def _truth(self, number: int) -> tuple[str, Boundary] | None:
        """Ask for the committed offset, and which micro-batch it is."""
        where = self._reader.where(number)
        if not where.metadata:
            return None
        progress = Progress.parse(where.metadata)
        return progress.lineage, progress.history.last

    def _put_back(self, one: Closed) -> None:
        """Undo a micro-batch: state as before, records in the buffer."""
        owned = self._owned.get(one.number)
        if owned is not None:
            owned.state = one.before
            owned.buffer.extendleft(reversed(one.records))

    def _reload(self, number: int) -> None:
        """Load a partition again, as if it had just been assigned."""
        del self._owned[number]
        self.figures.partitions.pop(number, None)
        self._reader.put_off(number)

    # Snapshots.

    def _write_snapshots(self) -> None:
        """Write the snapshot that is most overdue: one in each round, so that the others do not wait for long."""
        now = time.monotonic()
        full = [n for n, owned in self._owned.items() if not owned.replay and self._is_full(owned.state)]
        for number in full:
            self._try_snapshot(number)
        due = [
            (owned.written, number)
            for number, owned in self._owned.items()
            if not owned.replay
            and now - owned.written >= self.settings.snapshot_interval
            and owned.state.history.last not in owned.snapshots[-1:]
        ]
        if due and not full:
            self._try_snapshot(min(due)[1])

    def _is_full(self, state: Partition) -> bool:
        """Say whether the boundaries take more than half of the room that they have."""
        steps = len(state.history.steps)
        return steps >= FEW_STEPS and len(self._recovery.progress(state).text()) > MOST_CHARACTERS // 2

    def _try_snapshot(self, number: int) -> None:
        try:
            self._write_snapshot(number)
        except PersistenceError as error:
            self._owned[number].written = time.monotonic()  # tried
            logger.error("no snapshot of %s/%d: %s", self.settings.input, number, error)

    def _write_snapshot(self, number: int) -> None:
        """Write a partition as it was committed; boundaries before the snapshot before are not needed any more."""
        owned = self._owned[number]
        at = owned.state.history.last
        if at in owned.snapshots[-1:]:
            return
        begun = time.perf_counter()
        self._snapshots.write(self.settings.input, number, owned.state)
        owned.snapshots.append(at)
        del owned.snapshots[:-2]
        history = owned.state.history
        owned.state = owned.state._replace(history=history.since(owned.snapshots[0]))
        if self._is_full(owned.state):
            owned.state = owned.state._replace(history=history.since(at))
        owned.written = time.monotonic()
        self.figures.add("snapshots")
        self.figures.snapshot_seconds += time.perf_counter() - begun
        if number in self.figures.partitions:
            self.figures.partitions[number].snapshot = owned.written


def _mark(state: Partition) -> tuple[str, Boundary]:
    """Name a committed state: within a lineage only one way has led to a boundary."""
    return state.lineage, state.history.last
