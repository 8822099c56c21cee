"""The thread that reads the feed, folds it into the summary, and puts that into the form of the page."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import orjson

from stream_osr.errors import StreamOSRError
from stream_osr.live.acts import Acts
from stream_osr.live.blocks import newest_first
from stream_osr.live.examples import Examples
from stream_osr.live.feeds.seam import ORDINARY, CutBack, Feed, Found
from stream_osr.live.inside import Inside
from stream_osr.live.shown import shown
from stream_osr.live.state import State

logger = logging.getLogger("stream_osr")

TURN = 0.1
"""Seconds between two looks at what is followed, when there is nothing more to read."""
PACE = 0.5
"""Least seconds between two states that are told."""
PAGE = 50
"""Instances of a subclass that are given at once."""
MOST_BLOCKS = 64
"""Blocks that are read for them."""


class Seen(NamedTuple):
    """What the page shows: as JSON, its number, and the parts that others need."""

    seq: int
    body: bytes
    inbox: Sequence[Mapping[str, Any]]


class Watcher:
    """What is seen of a stream, kept up to date by a thread.

    Parameters
    ----------
    feed
        What is followed.
    inside
        What a checkpoint or the service's metrics tell.
    acts
        What people ask.
    examples
        Who chooses examples.
    """

    def __init__(self, feed: Feed, inside: Inside, acts: Acts, examples: Examples) -> None:
        self.feed, self.inside, self.acts, self.examples = feed, inside, acts, examples
        self.lock = threading.Lock()
        self.state = State(feed.prefixes, events=feed.has_events)
        self.seen = Seen(0, b"", ())
        self._stop = threading.Event()
        self._told: Callable[[], None] = lambda: None
        self._wanted = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watcher", daemon=True)
        self._again = 0
        self._trouble = ""

    def start(self, told: Callable[[], None]) -> None:
        """Begin; ``told`` is called, in the thread, whenever there is something new to see."""
        self._told = told
        self.examples.start(self.remembered)
        self._tell()
        self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        self._stop.set()
        self._wanted.set()
        self._thread.join(10)
        self.examples.stop()
        self.feed.close()

    def hurry(self) -> None:
        """Tell what there is to see at once: somebody has acted."""
        self._wanted.set()

    def _run(self) -> None:
        told_at, told, tried = 0.0, None, 1.0
        while not self._stop.is_set():
            try:
                more = self._read()
                self._trouble, tried = "", 1.0
            except StreamOSRError as error:
                more, self._trouble = False, f"What is followed cannot be read just now, and is tried again: {error}"
                self._stop.wait(tried)
                tried = min(2 * tried, 30.0)
            now = time.monotonic()
            hurried = self._wanted.is_set()
            if hurried or now - told_at >= PACE:
                self._wanted.clear()
                self.acts.look()
                aside = self.inside.version, self.acts.version, self.examples.version, self.feed.running()
                mark = self.state.changes, self._again, self._trouble, aside
                if mark != told or hurried:
                    told = mark
                    self._tell()
                told_at = time.monotonic()
            if not more:
                self._wanted.wait(TURN)

    def _read(self) -> bool:
        """Take in what has come; say whether there is more."""
        try:
            came = self.feed.poll(self._refuse)
        except CutBack:
            self._again += 1
            with self.lock:
                self.state = State(self.feed.prefixes, events=self.feed.has_events)
            self.examples.begin()
            return True
        state = self.state
        with self.lock:
            for track, event in came.events:
                state.event(track, event)
        for begin in range(0, len(came.decisions), ORDINARY):
            with self.lock:
                for track, number, place, decision in came.decisions[begin : begin + ORDINARY]:
                    state.decision(track, number, place, decision)
        if not came.more:
            with self.lock:
                state.caught_up()
        return came.more

    def _refuse(self, kind: str, error: BaseException) -> None:
        self.state.refuse(kind, error)

    def _tell(self) -> None:
        seq = self.seen.seq + 1
        notes = [*self.feed.notes(), *self.inside.notes(), *self.acts.notes(), *self.examples.notes()]
        if self._trouble:
            notes.insert(0, self._trouble)
        if self._again:
            notes.append(
                "The decisions were cut back by a run that went on from its checkpoint; they were read again."
            )
        stream = {
            "name": self.feed.name,
            "source": self.feed.name,
            "kind": self.feed.kind,
            "running": self.feed.running(),
            "behind": self.feed.behind(),
        }
        with self.lock:
            page = shown(self.state, stream, self.inside.told(), self.acts.named(), notes)
        for card in page["inbox"]:
            card["examples"] = self.examples.of(card)
            self.inside.about(card)
        page["seq"] = seq
        page["history"] = self.acts.history()
        page["commands"] = {"allowed": self.acts.allowed, "labels": [row["label"] for row in page["known"]]}
        body = orjson.dumps(page, option=orjson.OPT_NON_STR_KEYS | orjson.OPT_SERIALIZE_NUMPY)
        self.seen = Seen(seq, body, page["inbox"])
        self.examples.want(page["inbox"])
        self._told()

    # Looking up.

    def instances(self, id: str, before: int | None, most: int = PAGE) -> tuple[list[Found], bool] | None:
        """Find the latest instances of a class or a subclass, before one if that is given; None: there is no such.

        Returns
        -------
        The instances, the latest first, and whether there are more.
        """
        with self.lock:
            held = self.state.find(id)
            if held is None:
                return None
            tracks = self.state.tracks
            spans = []
            for track, bits in held.blocks.items():
                blocks = tracks[track].blocks
                for block in newest_first(bits):
                    number, place, after = blocks.span(block)
                    first = number * len(tracks) + track
                    if before is None or first < before:
                        spans.append((first, track, number, place, after))
            keys = {getattr(held, "key", None), *getattr(held, "also", ())}
        spans.sort(reverse=True)
        out: list[Found] = []
        for done, (_, track, number, place, after) in enumerate(spans):
            if len(out) > most or done >= MOST_BLOCKS:
                return out[:most], True
            for n, decision in reversed(self.feed.block(track, number, place, after)):
                n = n * len(tracks) + track
                if before is not None and n >= before:
                    continue
                own = str(decision.get("label")) == held.id if id.startswith("class:") else None
                if own or (own is None and decision.get("subclass_id") in keys):
                    out.append(Found(n, decision))
        return out[:most], len(out) > most

    def instance(self, n: int) -> Found | None:
        """Find a decision by its number."""
        with self.lock:
            count = len(self.state.tracks)
            number, track = divmod(n, count)
            blocks = self.state.tracks[track].blocks
            block = blocks.holding(number)
            if block is None:
                return None
            span = blocks.span(block)
        for found in self.feed.block(track, *span):
            if found.n == number:
                return Found(n, found.decision)
        return None

    def remembered(self, id: str) -> list[Found]:
        """Find a sample of the instances of a class or a subclass, and its latest one."""
        wanted: dict[tuple[int, int, int, int | None], set[int]] = {}
        with self.lock:
            held = self.state.find(id)
            if held is None:
                return []
            tracks = self.state.tracks
            last = [] if held.last is None else [held.last]
            for n in {*held.kept, *last}:
                number, track = divmod(n, len(tracks))
                block = tracks[track].blocks.holding(number)
                if block is not None:
                    wanted.setdefault((track, *tracks[track].blocks.span(block)), set()).add(number)
        out = []
        for (track, number, place, after), numbers in sorted(wanted.items(), key=lambda each: each[0][:3]):
            for found in self.feed.block(track, number, place, after, only=numbers):
                out.append(Found(found.n * len(tracks) + track, found.decision))
        return out
