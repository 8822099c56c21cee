"""The partitions of a worker: micro-batches, and the content of transactions.

An error of one partition suspends that partition. All others continue.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Literal

from stream_osr.errors import ConnectorError, PersistenceError

from ..backoff import CLOSE_SECONDS, close
from ..client.interface import ClientError, Committed, Offset, RefusedMessage
from ..command_topic import CommandTopic
from ..exits import StartAgainError
from ..log import Seldom, logger
from ..places import Place
from ..settings import ServiceSettings
from ..stats import LOST, REPEATED, PartitionStats, ServiceStats
from ..wire.boundaries import Progress
from ..wire.decoding import make_decoder
from ..wire.encoding import Encoding, Publisher
from ..wire.messages import Decoder, Received
from ..wire.subclasses import largest_summary
from .cuts import Cut, ready, replayed
from .group_states import open_states
from .job import Job, Loaded, NotLoadable, TransactionContent
from .model_metrics import ModelMetricsSchedule
from .models import ModelFile
from .orphans import remove_orphans
from .partition import step
from .partition_keys import StreamKey
from .partition_position import Bounds, Change, StartingPoint, last_published
from .publishing import PendingBatch, Publishing, account, begin_counts, follow
from .recovery import LaterModelError, Recovery
from .snapshot_policy import Owned, SnapshotPolicy
from .snapshots import Snapshots
from .topic_monitor import Watch
from .topics import TopicLimits, check_sizes

READ_AHEAD = 4
"""Size of a poll in transactions. While one transaction runs, the next is prepared."""

MOST_SECONDS = 2.0
"""Seconds of work after which a transaction gets no further micro-batch, because one of many keys takes long."""

MOST_WAITING_BYTES = 1 << 28
"""Bytes of records that wait in a partition with keys. With more, micro-batches are closed before `max_wait`."""

AGAIN_SECONDS = 10.0
"""Seconds before a retry of writing a first snapshot."""

BEHIND_SECONDS = 60.0
"""Seconds for which a partition or the labels may end before the committed offset until records count as lost."""


class Streams(Job):
    """The partitions of a worker, as a :class:`.job.Job`.

    States are immutable. If a transaction fails, the new states are discarded, and the records return to the buffer.

    Parameters
    ----------
    settings
        Settings of the service.
    model
        The trained model.
    stats
        Statistics to update.
    """

    def __init__(self, settings: ServiceSettings, model: ModelFile, stats: ServiceStats) -> None:
        self._settings, self._model, self._stats = settings, model, stats
        stats.model, stats.fingerprint = model.identity, model.trained.fingerprint
        self._states = open_states(settings, stats.storage)
        self._snapshots = Snapshots(self._states, settings.snapshots)
        self._recovery = Recovery(settings, model, self._snapshots, self._published)
        self._lives = self._recovery.lives
        self._keeper = SnapshotPolicy(settings, self._snapshots, self._recovery, stats)
        self._finder = ModelMetricsSchedule(stats)
        self._decode: Decoder = make_decoder(settings, self._model.features)
        self._encoding = Encoding.of(settings)
        self._batch_size = settings.batch_size or self._model.batch_size
        self._commands = CommandTopic(settings, stats)
        self._owned: dict[Place, Owned] = {}
        self._expected: set[Place] = set()  # their states were read
        self._left_at: dict[Place, int] = {}  # how far partitions had come that were let go
        self._changes: dict[Place, tuple[str, Change]] = {}  # by lineage: their beginning is not committed yet
        self._broken: dict[Place, str] = {}
        self._held_up: dict[Place, str] = {}
        self._bounds = Bounds(settings, stats)
        self._seldom = Seldom()
        self._behind: dict[Place, float] = {}  # since when partitions end before what was committed
        self._publishing: Publishing  # both from the check on
        self._watch: Watch

    @property
    def most_read(self) -> int:
        """Most records of one poll."""
        return max(500, READ_AHEAD * self._settings.commit_batches * self._batch_size)

    def check(self, watch: Watch) -> None:
        """Check before the join that settings, model, state and topics are consistent."""
        settings, trained = self._settings, self._model.trained
        takes = watch.seen.takes
        check_sizes(settings, takes, largest_summary(trained))
        logger.info("states: %s", self._states.described)
        self._states.refresh()
        self._commands.open()
        self._watch = watch
        for topic, topic_id in watch.topic_ids.items():
            self.input_recreated(topic, topic_id)
        committed = watch.committed()
        self._recovery.check(committed)
        self._bounds.set(watch.stops())
        remove_orphans(self._states, settings.inputs, self._model.identity, committed)

    def input_recreated(self, topic: str, topic_id: str) -> None:
        """Continue with an input. If it was created again, the setting on_lost_state applies."""
        settings, watch, life = self._settings, self._watch, self._lives[topic]
        if life.take(topic_id, watch.partitions(topic)):
            for place in [place for place in self.owned if place.topic == topic]:
                self.drop(place)
            newest = self._snapshots.reached(topic, life.is_before)
            left = {place: self._left_at.pop(place) for place in list(self._left_at) if place.topic == topic}
            far = {place: max(newest.get(place, 0), left.get(place, 0)) for place in newest.keys() | left.keys()}
            self._recovery.forget(topic)
            life.tell(far, settings.on_lost_state)
        life.keep()
        trained, largest = self._model.trained, watch.seen.takes.get(settings.dead_letters, TopicLimits()).bytes
        names = {each: its.name for each, its in self._lives.items()}
        publisher = Publisher(settings, trained.fingerprint, largest, names)
        self._publishing = Publishing(
            settings, trained, publisher, lambda: watch.seen.takes, self._stats, self._encoding
        )

    def close(self) -> None:
        """Close the topics of commands and states."""
        close(self._commands.close, CLOSE_SECONDS)
        self._states.close()

    # Partitions.

    @property
    def owned(self) -> Sequence[Place]:
        """Loaded partitions."""
        return tuple(self._owned)

    def expect(self, places: Sequence[Place]) -> None:
        """Read the new states of the partitions. If this fails, :meth:`load` tries it again for each."""
        self._expected.clear()
        with suppress(ClientError, ConnectorError, PersistenceError):
            if places:
                self._states.refresh(*(place.partition for place in places))
            self._expected.update(places)

    def load(self, place: Place, where: Committed) -> Loaded | NotLoadable:
        """Restore a partition to its committed state."""
        if (where.offset or 0) > where.end and self._may_lag(place):  # its leader may be new
            return NotLoadable(f"offset {where.offset} was committed, and it ends at {where.end}")
        try:
            if place not in self._expected:
                self._states.refresh(place.partition)
            self._expected.discard(place)
            found = self._recovery.find(place, where, self._commands.end)
        except (ClientError, LaterModelError) as error:
            return NotLoadable(str(error))
        except (ConnectorError, PersistenceError) as error:
            return NotLoadable(str(error), suspended=True)
        asked = found.replay[-1].labels if found.replay else 0
        if asked > self._commands.end and self._may_lag(place):
            return NotLoadable(f"the topic of labels was read up to {self._commands.end}, and a replay needs {asked}")
        self._behind.pop(place, None)
        self._own(place, found)
        last = found.state.history.last
        return Loaded(last.offset, self._keeper.offset(place, found.state) if found.new else None)

    def _may_lag(self, place: Place) -> bool:
        now = time.monotonic()
        return now - self._behind.setdefault(place, now) < BEHIND_SECONDS

    def start_committed(self, place: Place) -> None:
        """Log and count lost and repeated records after the commit of a partition's start."""
        self._owned[place].begun = True
        self._recovery.begun(place)
        self._note(place)

    def _note(self, place: Place) -> None:
        _, change = self._changes.pop(place, ("", None))
        if change is not None:
            logger.log(change.level, "%s: %s", place, change)
            self._stats.add(f"{LOST}{change.reason}", place, change.lost + change.delayed)
            self._stats.add(f"{REPEATED}{change.reason}", place, change.repeated)

    def drop(self, place: Place) -> None:
        """Drop a partition, and keep its state in case it returns unchanged."""
        self._behind.pop(place, None)
        self._finder.forget(place)
        owned = self._owned.pop(place, None)
        if owned is not None:
            position = self._stats.partitions.pop(place).position
            if owned.begun:
                self._left_at[place] = position
                whole = not owned.replay and not owned.uncommitted
                self._recovery.remember(place, owned.state if whole else None, position)

    def failed(self) -> Mapping[Place, str]:
        """Return failed partitions with reasons since the last call."""
        broken, self._broken = self._broken, {}
        return broken

    def finished(self, where: Callable[[Place], Committed]) -> bool:
        """Return whether the group has reached the end of the setting `stop` in all partitions."""
        own = all(self._is_done(place, owned) and not owned.state.delayed for place, owned in self._owned.items())
        return own and self._bounds.are_reached(where)

    def _is_done(self, place: Place, owned: Owned) -> bool:
        return self._bounds.is_read(place) and not (owned.buffer or owned.uncommitted or owned.replay)

    def _flush(self, place: Place, owned: Owned) -> PendingBatch:
        """Publish delayed decisions at the end of a bounded run."""
        before = owned.state
        owned.state, outcome = self._recovery.flushed(place, before)
        owned.snapshots = [owned.state.history.last]
        return PendingBatch(place, before, owned.state, [], outcome)

    def _published(self, place: Place) -> int | None:
        return last_published(self._settings, place, self._lives[place.topic].name)

    def matches(self, place: Place, committed: Offset | None) -> bool:
        """Return whether a partition's state matches its committed offset, by lineage and boundary."""
        if committed is None or not committed.metadata:
            return False
        progress, state = Progress.parse(committed.metadata), self._owned[place].state
        return (progress.lineage, progress.history.last) == (state.lineage, state.history.last)

    def accept(self, place: Place, records: list[Received]) -> None:
        """Buffer new records of a partition up to its end."""
        owned = self._owned.get(place)
        if owned is None:
            return
        records = self._bounds.within(place, records)
        if not owned.buffer and not owned.state.undecided:
            owned.since = time.monotonic()
        owned.buffer.extend(records)
        self._stats.partitions[place].pending += len(records)

    def work(self) -> None:
        """Read new commands, and find blocked partitions."""
        self._commands.refresh()
        self._held_up = {place: why for place in self._owned if (why := self._watch.held_up(place))}

    def measure(self, place: Place) -> int:
        """Update the statistics of a partition, and return the number of waiting records."""
        owned, partition_stats = self._owned[place], self._stats.partitions[place]
        partition_stats.replaying = bool(owned.replay)
        partition_stats.paused = owned.state.delayed
        return len(owned.buffer) + owned.uncommitted

    def obstacles(self) -> list[str]:
        """Return the reasons why partitions are not live."""
        crowded = "closes full micro-batches only, because no snapshot can be written"
        why = {
            place: self._held_up.get(place)
            or its.trouble
            or (its.replay and "is replayed")
            or (its.crowded and crowded)
            for place, its in self._owned.items()
        }
        texts = [f"{place} {reason}" for place, reason in why.items() if reason]
        return texts + self._encoding.obstacles()

    def _own(self, place: Place, found: StartingPoint) -> None:
        now, state = time.monotonic(), found.state
        if self._changes.get(place, ("",))[0] == state.lineage:
            self._note(place)  # its transaction was in doubt, and was committed after all
        self._changes.pop(place, None)
        if found.change is not None:
            self._changes[place] = state.lineage, found.change
        self._commands.tell_of_gap(str(place), state.history.last.labels)
        self._owned[place] = Owned(state, deque(found.replay), list(found.snapshots), now, begun=not found.new)
        self._stats.partitions[place] = partition_stats = PartitionStats(
            state.history.last.offset, replaying=bool(found.replay), snapshot=now, paused=state.delayed
        )
        follow(partition_stats, state)
        begin_counts(self._stats, place, state.model)

    # Micro-batches.

    def prepare(self) -> TransactionContent | None:
        """Process ready micro-batches, up to the number for one transaction, and replay without output."""
        batches: list[PendingBatch] = []
        now, busy = time.monotonic(), True
        try:
            while busy and len(batches) < self._settings.commit_batches:
                busy = False
                if self._settings.by is not None and time.monotonic() - now > MOST_SECONDS:
                    break
                for place, owned in self._owned.items():
                    if len(batches) >= self._settings.commit_batches:
                        break
                    done = self._try_next(place, owned, now)
                    busy = busy or bool(done)
                    if isinstance(done, PendingBatch):
                        batches.append(done)
        except BaseException:
            self.undo(TransactionContent(batches, [], {}))
            raise
        offsets: dict[Place, Offset] = {}
        for place, state in {one.place: one.after for one in batches}.items():
            try:
                offsets[place] = self._keeper.offset(place, state)
            except ConnectorError as error:
                self._broken[place] = str(error)
                self.undo(TransactionContent([one for one in batches if one.place == place], [], {}))
        batches = [one for one in batches if one.place in offsets]
        messages = [message for one in batches for message in self._publishing.messages(one)]
        return TransactionContent(batches, messages, offsets) if batches else None

    def _try_next(self, place: Place, owned: Owned, now: float) -> PendingBatch | bool:
        """Process the next micro-batch of a partition. An error suspends the partition."""
        if place in self._broken or place in self._held_up:
            return False
        try:
            return self._next(place, owned, now)
        except StartAgainError:
            raise
        except (ConnectorError, PersistenceError) as error:
            self._broken[place] = str(error)
            return False

    def undo(self, group: TransactionContent) -> None:
        """Restore states and records."""
        for one in reversed(group.content):
            owned = self._owned.get(one.place)
            if owned is not None:
                if one.before.lineage != one.after.lineage:
                    written = self._snapshots.boundaries(one.place, one.before.lineage)
                    owned.snapshots = sorted({*written}.intersection(one.before.history.boundaries()))
                owned.state = one.before
                owned.buffer.extendleft(reversed(one.records))
                owned.uncommitted -= len(one.records)

    def replace_refused(self, group: TransactionContent, refused: Sequence[RefusedMessage]) -> TransactionContent:
        """Replace messages that a topic rejects."""
        return group._replace(messages=self._publishing.instead(group.messages, group.content, refused))

    def committed(self, group: TransactionContent, at: float) -> None:
        """Count published messages, and check that none is missing."""
        for one in group.content:
            if one.place in self._owned:
                self._owned[one.place].uncommitted -= len(one.records)
        account(self._stats, self._settings, group.content, group.messages, at)

    def work_after_commit(self) -> None:
        """Write the most overdue snapshot, and update the model metrics."""
        self._keeper.keep(self._owned)
        self._finder.turn(self._owned)

    def finish(self) -> None:
        """Write snapshots of the committed state, so that the next start has nothing to replay."""
        self._keeper.leave(self._owned)

    def _next(self, place: Place, owned: Owned, now: float) -> PendingBatch | bool:
        """Process the next micro-batch of a partition. Return True after a replay, and False if none is ready."""
        if not owned.replay and self._recovery.is_earlier(owned.state):
            return now >= owned.again and self._hand_over(place, owned)
        cut = self._cut(place, owned, now)
        if cut is None:
            return self._flush(place, owned) if owned.state.delayed and self._is_done(place, owned) else False
        if owned.replay:
            self._replay(place, owned, cut)
            return True
        done = self._close(place, owned, cut)
        if not owned.state.undecided or (cut.end.closes and owned.state.keys is None):
            owned.since = now  # many keys are closed in several steps
        return done

    def _cut(self, place: Place, owned: Owned, now: float) -> Cut | None:
        commands, done, longest = self._commands, owned.state.history.last, self._settings.max_wait
        if owned.replay:
            return replayed(owned.buffer, done, owned.replay[0])
        asked = not owned.buffer and commands.asks(place, done.labels)
        waits = bool(owned.buffer or owned.state.undecided)
        due = longest is not None and waits and now - owned.since >= longest
        due = due or (owned.state.keys is not None and owned.state.keys.bytes > MOST_WAITING_BYTES)
        if due or owned.crowded:
            owned.crowded = self._keeper.is_crowded(place, owned.state)
            due = due and not owned.crowded
        due = due or (waits and self._bounds.is_read(place))
        return ready(owned.buffer, done, size=self._batch_size, due=due, requested=asked, labels=commands.end)

    def _close(self, place: Place, owned: Owned, cut: Cut) -> PendingBatch:
        before, records = owned.state, [owned.buffer.popleft() for _ in range(cut.size)]
        commands = self._commands.commands(before.history.last.labels, cut.end.labels)
        begun = time.perf_counter()
        key_of = None if before.keys is None else StreamKey(before.keys.by, self._decode)
        top = None if owned.replay else self._settings.contributions  # a replay publishes nothing
        after, outcome = step(before, place, records, commands, cut.end, self._decode, key_of, top)
        self._stats.turn()
        self._stats.observe("batch", time.perf_counter() - begun)
        owned.state = after
        owned.uncommitted += len(records)
        return PendingBatch(place, before, after, records, outcome)

    def _replay(self, place: Place, owned: Owned, cut: Cut) -> None:
        """Replay a micro-batch that was published before."""
        one = self._close(place, owned, cut)
        owned.uncommitted -= len(one.records)
        owned.replay.popleft()
        self._stats.add("replayed", place, len(one.records))
        if not owned.replay:
            logger.info("%s is live at %d", place, cut.end.offset)

    def _hand_over(self, place: Place, owned: Owned) -> PendingBatch | Literal[False]:
        """Switch to another model, and publish the earlier model's delayed decisions with the new start."""
        before = owned.state
        try:
            owned.state, outcome = self._recovery.hand_over(place, before, self._commands.end)
        except PersistenceError as error:
            owned.again, owned.trouble = time.monotonic() + AGAIN_SECONDS, f"no beginning can be written: {error}"
            self._seldom.say(f"hand over {place}", f"{place} waits: {owned.trouble}", logging.ERROR)
            return False
        owned.trouble, owned.snapshots = "", [] if owned.state.history.fresh else [owned.state.history.last]
        return PendingBatch(place, before, owned.state, [], outcome)
