"""The partitions of a worker: what is done with what is read of them, and what one transaction publishes."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal

from stream_osr.errors import PersistenceError

from ..client import ClientError, Committed, Offset, Refused
from ..commands.label_log import LabelLog, Labels, tell_of_gap
from ..figures import Figures, PartitionFigures
from ..log import logger
from ..patience import CLOSE_SECONDS, Grace, Seldom, close
from ..settings import ServiceSettings
from ..wire.boundaries import Progress
from ..wire.decoding import make_decoder
from ..wire.messages import Decoder, Outgoing, Received
from ..wire.publisher import Publisher
from ..wire.subclasses import largest_summary
from .counting import begin_counts
from .finding import Finder
from .job import Group, Loaded, Waiting
from .keeping import Keeper, Owned
from .models import ModelFile
from .orphans import remove_orphans
from .partition import Cut, ready, replayed, step
from .publishing import Batch, Publishing, account
from .recovery import Found, LaterModelError, Recovery
from .snapshots import Snapshots
from .topics import Takes, check_sizes
from .watching import Watch

READ_AHEAD = 4
"""A poll may bring so many transactions' worth of records: while one is under way, the next is prepared."""

AGAIN_SECONDS = 10.0
"""Before a beginning that could not be written is tried again."""

BEHIND_SECONDS = 60.0
"""How long a partition, or the labels, may end before what was committed until that counts as lost."""


class Streams:
    """The partitions of a worker: the service's :class:`.job.Job`.

    State moves forward by values: what a transaction that fails had advanced is forgotten, and the records go back
    into the buffer.

    Parameters
    ----------
    settings
        What the operator has set.
    model
        The trained model.
    folder
        Of the group's snapshots.
    figures
        Where it tells how it goes.
    """

    def __init__(self, settings: ServiceSettings, model: ModelFile, folder: Path, figures: Figures) -> None:
        self._settings, self._model, self._figures = settings, model, figures
        figures.model, figures.fingerprint = model.identity, model.trained.fingerprint
        self._snapshots = Snapshots(folder, settings.snapshots)
        self._recovery = Recovery(settings, model, self._snapshots)
        self._incarnations = self._recovery.incarnations
        self._keeper = Keeper(settings, self._snapshots, self._recovery, figures)
        self._finder = Finder(figures)
        self._decode: Decoder = make_decoder(settings, self._model.features)
        self._batch_size = settings.batch_size or self._model.batch_size
        self._labels = Labels()
        self._seldom = Seldom(logger)
        self._owned: dict[int, Owned] = {}
        self._left_at: dict[int, int] = {}  # how far partitions had come that were let go
        self._behind = Grace(BEHIND_SECONDS)
        self._publishing: Publishing  # both from the check on
        self._watch: Watch

    @property
    def most_read(self) -> int:
        """Records that a poll may bring."""
        return max(500, READ_AHEAD * self._settings.commit_batches * self._batch_size)

    def check(self, watch: Watch) -> None:
        """Make sure that what is published fits, and that the input is the one that it was."""
        settings, trained = self._settings, self._model.trained
        takes = watch.seen.takes
        check_sizes(settings, takes, largest_summary(trained))
        if settings.labels is not None:
            self._labels = LabelLog(settings, self._figures)
        self._watch = watch
        self.renewed(watch.topic_id)
        with suppress(ClientError):  # there is another start
            remove_orphans(self._snapshots.folder, settings.input, self._model.identity, watch.committed())

    def renewed(self, topic_id: str) -> None:
        """Go on with the input as it is; if it was deleted and made again, that may be the end."""
        settings, watch = self._settings, self._watch
        if self._incarnations.take(topic_id, watch.partitions):
            for number in self.owned:
                self.let_go(number)
            newest = self._snapshots.reached(settings.input, self._incarnations.is_before)
            far = {n: max(newest.get(n, 0), self._left_at.get(n, 0)) for n in newest.keys() | self._left_at.keys()}
            self._incarnations.tell(far, settings.on_lost_state)
            self._left_at.clear()
        self._incarnations.keep()
        trained, largest = self._model.trained, watch.seen.takes.get(settings.dead_letters, Takes()).bytes
        publisher = Publisher(settings, trained.fingerprint, largest, self._incarnations.name)
        self._publishing = Publishing(settings, trained, publisher, lambda: watch.seen.takes, self._figures)

    def close(self) -> None:
        """Let go of the labels."""
        close(self._labels.close, CLOSE_SECONDS)

    # Partitions.

    @property
    def owned(self) -> Sequence[int]:
        """Partitions that are loaded."""
        return tuple(self._owned)

    def load(self, number: int, where: Committed) -> Loaded | Waiting:
        """Bring a partition back to where the broker says that it is."""
        if (where.offset or 0) > where.end and self._behind.lasts(number):  # its leader may be new
            return Waiting(f"offset {where.offset} was committed, and it ends at {where.end}")
        try:
            found = self._recovery.find(number, where, self._labels.end)
        except LaterModelError as error:
            return Waiting(str(error))
        asked = found.replay[-1].labels if found.replay else 0
        if asked > self._labels.end and self._behind.lasts(number):
            return Waiting(f"the topic of labels was read up to {self._labels.end}, and a replay needs {asked}")
        self._behind.end(number)
        self._own(number, found)
        last = found.state.history.last
        return Loaded(last.offset, self._keeper.offset(number, found.state) if found.new else None)

    def let_go(self, number: int) -> None:
        """Drop a partition; it may come back untouched."""
        self._behind.end(number)
        self._finder.forget(number)
        owned = self._owned.pop(number, None)
        if owned is not None:
            self._left_at[number] = self._figures.partitions.pop(number).position
            if not owned.replay and not owned.uncommitted:
                self._recovery.remember(number, owned.state)

    def stands_at(self, number: int, committed: Offset | None) -> bool:
        """Say whether a partition is where the broker says that it is: in a lineage one way leads to a boundary."""
        if committed is None or not committed.metadata:
            return False
        progress, state = Progress.parse(committed.metadata), self._owned[number].state
        return (progress.lineage, progress.history.last) == (state.lineage, state.history.last)

    def take(self, number: int, records: list[Received]) -> None:
        """Buffer what was read of a partition."""
        owned = self._owned.get(number)
        if owned is None:
            return
        if not owned.buffer:
            owned.since = time.monotonic()
        owned.buffer.extend(records)
        self._figures.partitions[number].pending += len(records)

    def turn(self) -> None:
        """Read what people have asked."""
        self._labels.refresh()

    def look(self, number: int) -> int:
        """Update the figures of a partition; return how many records wait."""
        owned, figures = self._owned[number], self._figures.partitions[number]
        figures.replaying = bool(owned.replay)
        figures.held = len(owned.state.waiting)
        return len(owned.buffer) + owned.uncommitted

    def obstacles(self) -> list[str]:
        """Say which partitions are not live yet."""
        why = {number: its.trouble or (its.replay and "is replayed") for number, its in self._owned.items()}
        return [f"{self._settings.input}/{number} {told}" for number, told in why.items() if told]

    def _own(self, number: int, found: Found) -> None:
        now, state = time.monotonic(), found.state
        tell_of_gap(self._labels, f"{self._settings.input}/{number}", state.history.last.labels)
        self._owned[number] = Owned(state, deque(found.replay), list(found.snapshots), now)
        self._figures.partitions[number] = figures = PartitionFigures(
            state.history.last.offset, replaying=bool(found.replay), snapshot=now, held=len(state.waiting)
        )
        figures.follow(state.model)
        begin_counts(self._figures, number, state.model)

    # Micro-batches.

    def prepare(self) -> Group | None:
        """Close the micro-batches that are ready, up to the number that may share a transaction; replay silently."""
        batches: list[Batch] = []
        messages: list[Outgoing] = []
        now, busy = time.monotonic(), True
        while busy and len(batches) < self._settings.commit_batches:
            busy = False
            for number, owned in self._owned.items():
                if len(batches) >= self._settings.commit_batches:
                    break
                done = self._next(number, owned, now)
                busy = busy or bool(done)
                if isinstance(done, Batch):
                    batches.append(done)
                    messages += self._publishing.messages(done)
        offsets = {one.number: self._keeper.offset(one.number, one.after) for one in batches}
        return Group(batches, messages, offsets) if batches else None

    def undo(self, group: Group) -> None:
        """Put states and records back as they were."""
        for one in reversed(group.content):
            owned = self._owned.get(one.number)
            if owned is not None:
                owned.state = one.before
                owned.buffer.extendleft(reversed(one.records))
                owned.uncommitted -= len(one.records)

    def instead(self, group: Group, refused: Sequence[Refused]) -> Group:
        """Replace what a topic does not take."""
        return group._replace(messages=self._publishing.instead(group.messages, group.content, refused))

    def done(self, group: Group) -> None:
        """Count what has been published, and check that nothing is missing."""
        for one in group.content:
            if one.number in self._owned:
                self._owned[one.number].uncommitted -= len(one.records)
        account(self._figures, self._settings, group.content, group.messages)

    def rest(self) -> None:
        """Write the snapshot that is most overdue; look at what has been found."""
        self._keeper.keep(self._owned)
        self._finder.turn(self._owned)

    def leave(self) -> None:
        """Write what is committed, so that the next start has nothing to replay."""
        self._keeper.leave(self._owned)

    def _next(self, number: int, owned: Owned, now: float) -> Batch | bool:
        """Close the next micro-batch of a partition; True: one was replayed, False: none is ready."""
        if not owned.replay and self._recovery.is_earlier(owned.state):
            return now >= owned.again and self._hand_over(number, owned)
        cut = self._cut(number, owned, now)
        if cut is None:
            return False
        if owned.replay:
            self._replay(number, owned, cut)
            return True
        owned.since = now
        return self._close(number, owned, cut)

    def _cut(self, number: int, owned: Owned, now: float) -> Cut | None:
        labels, done, longest = self._labels, owned.state.history.last, self._settings.max_wait
        if owned.replay:
            return replayed(owned.buffer, done, owned.replay[0])
        asked = not owned.buffer and labels.asks(self._settings.input, number, done.labels)
        due = longest is not None and bool(owned.buffer) and now - owned.since >= longest
        return ready(owned.buffer, done, size=self._batch_size, due=due, asked=asked, labels=labels.end)

    def _close(self, number: int, owned: Owned, cut: Cut) -> Batch:
        before, records = owned.state, [owned.buffer.popleft() for _ in range(cut.size)]
        commands = self._labels.between(before.history.last.labels, cut.end.labels)
        begun = time.perf_counter()
        after, outcome = step(before, (self._settings.input, number), records, commands, cut.end, self._decode)
        self._figures.turn()
        self._figures.observe("batch", time.perf_counter() - begun)
        owned.state = after
        owned.uncommitted += len(records)
        return Batch(number, before, after, records, outcome)

    def _replay(self, number: int, owned: Owned, cut: Cut) -> None:
        """Go through a micro-batch that has been published before."""
        one = self._close(number, owned, cut)
        owned.uncommitted -= len(one.records)
        owned.replay.popleft()
        self._figures.add("replayed", number, len(one.records))
        if not owned.replay:
            logger.info("%s/%d is live at %d", self._settings.input, number, cut.end.offset)

    def _hand_over(self, number: int, owned: Owned) -> Batch | Literal[False]:
        """Go on under another model, and publish what the earlier one has held back with the new beginning."""
        before = owned.state
        try:
            owned.state, outcome = self._recovery.hand_over(number, before, self._labels.end)
        except PersistenceError as error:
            owned.again, owned.trouble = time.monotonic() + AGAIN_SECONDS, f"no beginning can be written: {error}"
            line = f"{self._settings.input}/{number} waits: {owned.trouble}"
            self._seldom.say(f"hand over {number}", line, logging.ERROR)
            return False
        owned.trouble, owned.snapshots = "", [] if owned.state.history.fresh else [owned.state.history.last]
        return Batch(number, before, owned.state, [], outcome)
