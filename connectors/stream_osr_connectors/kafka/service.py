"""The loop of a worker: read, close micro-batches, publish them with their offsets in one transaction, again.

One recognizer for each partition, over one trained model. State moves forward by values: what a transaction that
fails had advanced is forgotten, and the records go back into the buffer. Partitions come and go between polls only.
"""

from __future__ import annotations

import gc
import logging
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kafka import ConsumerRebalanceListener, KafkaConsumer, OffsetAndMetadata, TopicPartition
from kafka.errors import FencedInstanceIdError, KafkaError

from stream_osr.discovery.reconcile import Local
from stream_osr.engine.summaries import to_say
from stream_osr.errors import ConnectorError, PersistenceError

from .boundaries import MOST_CHARACTERS, Boundary, Progress
from .clients import explained, group_consumer, quieten, transactional_producer
from .figures import Figures, PartitionFigures
from .label_log import LabelLog, Labels, NoLabels
from .messages import Decoder, Outgoing, Publisher, Received, make_decoder
from .partition import Outcome, Partition, step
from .recovery import Committed, Found, ModelFile, Recovery
from .settings import ServiceSettings
from .snapshots import Snapshots
from .subclasses import largest_summary, summary
from .topics import USUAL_BYTES, message_limits, topics_of
from .transactions import InDoubtError, Producer, Running, Transactions, close

logger = logging.getLogger("stream_osr.kafka")

POLL_SECONDS = 0.1
RETRY_SECONDS = 0.5
SWEEP_SECONDS = 30.0
FEW_STEPS = 100
"""Their text always fits."""

CLOSE_SECONDS = 3.0
"""How long closing a client may take before it is left behind."""

LOOK_SECONDS = 1.0

BEHIND_SECONDS = 60.0
"""How long a partition may end before the committed offset until records count as lost."""

COMMITTED_SECONDS = 2.0
"""How long one question for committed offsets may take."""


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
        make_consumer: Callable[[ServiceSettings, int], KafkaConsumer] = group_consumer,
        make_producer: Callable[[ServiceSettings], Producer] = transactional_producer,
        figures: Figures | None = None,
    ) -> None:
        self.settings = settings
        self.figures = Figures() if figures is None else figures
        self._looked = 0.0
        self._model = ModelFile.load(settings)
        self._snapshots = Snapshots(settings.state / settings.group, settings.snapshots)
        self._snapshots.open()
        self._model.keep(self._snapshots.folder)
        self._recovery = Recovery(settings, self._model, self._snapshots)
        self._decode: Decoder = make_decoder(settings, self._model.features)
        self._batch_size = settings.batch_size or self._model.batch_size
        self._make_consumer = make_consumer
        self._consumer: KafkaConsumer | None = None
        self._transactions = Transactions(lambda: make_producer(settings), settings.transaction_deadline)
        self._labels: Labels = NoLabels()
        self._owned: dict[int, Owned] = {}
        self._assigned: set[int] = set()  # by the group, and not loaded yet
        self._lost: set[int] = set()
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
                self._take(self._poll())
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
        try:
            self._consumer = self._subscribe()
            self._check_topics(self._consumer)
            if self.settings.labels is not None:
                self._labels = LabelLog(self.settings)
            self._transactions.open()
        except InDoubtError as error:
            raise ConnectorError(f"cannot begin transactions at {self.settings.brokers}: {error}") from None
        except KafkaError as error:
            raise ConnectorError(explained(self.settings, error)) from None

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

    def _subscribe(self) -> KafkaConsumer:
        most = max(500, self.settings.commit_batches * self._batch_size)
        consumer = self._make_consumer(self.settings, most)
        consumer.subscribe([self.settings.input], listener=_Listener(consumer, self._assigned, self._lost))
        self.figures.add("consumers")
        return consumer

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
        _let_go(self._consumer)
        close(self._labels.close, CLOSE_SECONDS)
        self._transactions.close(CLOSE_SECONDS)

    # Reading.

    def _poll(self) -> dict[TopicPartition, list[Received]]:
        if self._consumer is None:
            self._replace_consumer()
            return {}
        try:
            polled: dict[TopicPartition, list[Received]] = self._consumer.poll(timeout_ms=int(1000 * POLL_SECONDS))
        except FencedInstanceIdError:
            raise ConnectorError(
                f"another worker of group {self.settings.group} has the name {self.settings.instance}; "
                "give each its own instance"
            ) from None
        except Exception as error:  # after any error the client may be wedged: a new one is not
            logger.warning("the consumer failed and is replaced: %s: %s", type(error).__name__, error)
            self._replace_consumer()
            return {}
        return polled

    def _replace_consumer(self) -> None:
        """Begin with a new consumer; with none, the loop tries again."""
        _let_go(self._consumer)
        self._consumer = None
        self._lost.update(self._owned)
        self._assigned.clear()
        try:
            self._consumer = self._subscribe()
        except KafkaError as error:
            logger.warning("no broker at %s: %s", self.settings.brokers, error)
        time.sleep(RETRY_SECONDS)

    def _take(self, polled: dict[TopicPartition, list[Received]]) -> None:
        """Buffer what was read of partitions that are ours, after letting go of those that are not any more."""
        for number in sorted(self._lost):
            owned = self._owned.pop(number, None)
            self.figures.partitions.pop(number, None)
            if owned is not None:
                if not owned.replay:
                    self._recovery.remember(number, owned.state)
                logger.info("%s/%d is another worker's now", self.settings.input, number)
        if self._lost:
            self.figures.add("rebalances")
            self._lost.clear()
        for place, records in polled.items():
            owned = self._owned.get(place.partition)
            if owned is None:
                continue
            if not owned.buffer:
                owned.since = time.monotonic()
            owned.buffer.extend(records)

    def _look(self) -> None:
        """Once a second, see how far behind each partition is; with nothing left to do, that is progress, too."""
        now = time.monotonic()
        if self._consumer is None or now - self._looked < LOOK_SECONDS:
            return
        self._looked = now
        for number, figures in self.figures.partitions.items():
            figures.replaying = bool(self._owned[number].replay)
            figures.end = self._consumer.highwater(TopicPartition(self.settings.input, number))
            figures.lag = self._lag(number, figures.end)
        if self.figures.ready and all(figures.lag == 0 for figures in self.figures.partitions.values()):
            self.figures.progress = now

    def _lag(self, number: int, end: int | None) -> int | None:
        """Count the records that are there and have not been decided; None: not known.

        The client's position counts the marks of transactions, which are no records. Asking for it also wakes up a
        client that has lost track of a partition's leader.
        """
        assert self._consumer is not None
        place = TopicPartition(self.settings.input, number)
        if end is None:
            return None
        try:
            read = self._consumer.position(place, timeout_ms=1000)
        except KafkaError as error:
            logger.info("the position in %s/%d is not known: %s", self.settings.input, number, error)
            return None
        return None if read is None else max(0, end - read) + len(self._owned[number].buffer)

    def _settle(self) -> None:
        """Load the partitions that have been assigned; those that cannot be loaded now wait for the next round."""
        for number in sorted(self._assigned):
            if number in self._owned:
                continue
            assert self._consumer is not None
            place = TopicPartition(self.settings.input, number)
            try:
                found = self._find(place)
                if found is not None:
                    self._consumer.seek(place, found.state.history.last.offset)
                    self._consumer.resume(place)
            except (KafkaError, InDoubtError) as error:
                logger.info("%s/%d cannot be loaded yet: %s", self.settings.input, number, error)
                continue
            if found is None:
                continue
            self._behind.pop(number, None)
            now = time.monotonic()
            self._owned[number] = Owned(found.state, deque(found.replay), list(found.snapshots), now)
            self._assigned.discard(number)
            offset, menu = found.state.history.last.offset, found.state.model.menu
            self.figures.partitions[number] = PartitionFigures(
                offset, replaying=bool(found.replay), snapshot=now, menu=menu
            )
        joined = self._consumer is not None and self._consumer.group_metadata().generation_id >= 0
        replaying = any(owned.replay for owned in self._owned.values())
        self.figures.ready = joined and not self._assigned and not replaying

    def _find(self, place: TopicPartition) -> Found | None:
        """Ask the broker where a partition stands, and find its state; a new beginning is committed at once.

        Just after another broker has become the leader, it may not yet know how far the partition goes: None.
        """
        consumer = self._consumer
        assert consumer is not None
        milliseconds = int(1000 * COMMITTED_SECONDS)
        committed = consumer.committed(place, metadata=True, timeout_ms=milliseconds)
        first = consumer.beginning_offsets([place], timeout_ms=milliseconds)[place]
        end = consumer.end_offsets([place], timeout_ms=milliseconds)[place]
        offset, metadata = (None, "") if committed is None else (committed.offset, committed.metadata or "")
        if offset is not None and offset > end:
            since = self._behind.setdefault(place.partition, time.monotonic())
            if time.monotonic() - since < BEHIND_SECONDS:
                return None
        found = self._recovery.find(place.partition, Committed(offset, metadata, first, end), self._labels.end)
        if found.new:
            self._transactions.open()
            text = self._recovery.progress(found.state).text()
            offsets = {place: OffsetAndMetadata(found.state.history.last.offset, text, -1)}
            self._transactions.finish(self._transactions.begin([], offsets, consumer.group_metadata()))
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
        assert self._consumer is not None
        latest = {one.number: one.after for one in closed}
        offsets = {}
        for number, state in latest.items():
            text = self._recovery.progress(state).text()
            if len(text) > MOST_CHARACTERS:
                raise ConnectorError(
                    f"{self.settings.input}/{number}: no snapshot could be written for so long that the ends of the "
                    "micro-batches since no longer fit beside the committed offset; see the log for the reason"
                )
            offsets[TopicPartition(self.settings.input, number)] = OffsetAndMetadata(
                state.history.last.offset, text, -1
            )
        messages = [message for one in closed for message in self._messages(one)]
        messages += [message for one in closed for message in self._said(one)]
        self._transactions.open()
        return self._transactions.begin(messages, offsets, self._consumer.group_metadata())

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
        assert self._consumer is not None
        place = TopicPartition(self.settings.input, number)
        committed = self._consumer.committed(place, metadata=True, timeout_ms=int(1000 * COMMITTED_SECONDS))
        if committed is None or not committed.metadata:
            return None
        progress = Progress.parse(committed.metadata)
        return progress.lineage, progress.history.last

    def _put_back(self, one: Closed) -> None:
        """Undo a micro-batch: state as before, records in the buffer."""
        owned = self._owned.get(one.number)
        if owned is not None:
            owned.state = one.before
            owned.buffer.extendleft(reversed(one.records))

    def _reload(self, number: int) -> None:
        """Load a partition again, as if it had just been assigned."""
        assert self._consumer is not None
        del self._owned[number]
        self.figures.partitions.pop(number, None)
        place = TopicPartition(self.settings.input, number)
        if place in self._consumer.assignment():
            self._consumer.pause(place)
            self._assigned.add(number)

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


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    """Notes what comes and goes; it runs in the client's thread, inside `poll`, and may do no more than that."""

    def __init__(self, consumer: KafkaConsumer, assigned: set[int], lost: set[int]) -> None:
        self._consumer, self._assigned, self._lost = consumer, assigned, lost

    def on_partitions_assigned(self, assigned: Any) -> None:
        """Hold partitions back until their state is there."""
        for place in assigned:
            self._consumer.pause(place)
            self._consumer.seek(place, 0)  # any place: without one, poll would go and ask for the committed offset
            self._assigned.add(place.partition)

    def on_partitions_revoked(self, revoked: Any) -> None:
        """Let go: everything that counts is committed."""
        for place in revoked:
            self._assigned.discard(place.partition)
            self._lost.add(place.partition)

    on_partitions_lost = on_partitions_revoked


def _mark(state: Partition) -> tuple[str, Boundary]:
    """Name a committed state: within a lineage only one way has led to a boundary."""
    return state.lineage, state.history.last


def _let_go(consumer: KafkaConsumer | None) -> None:
    if consumer is not None:
        close(lambda: consumer.close(autocommit=False, timeout_ms=2000), CLOSE_SECONDS)
