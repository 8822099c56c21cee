"""The thread that reads the feed, updates the summary, and converts it for the page."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import chain
from typing import Any, NamedTuple, TypeAlias

import orjson

from stream_osr.errors import ConnectorError, StreamOSRError
from stream_osr.printable_text import printable
from stream_osr_connectors import values
from stream_osr_connectors.commands import CommandReceipt
from stream_osr_connectors.commands.parsing import parse_request
from stream_osr_connectors.growing_file import FeedTruncated
from stream_osr_connectors.page.live.checkpoint_view import ModelView
from stream_osr_connectors.page.live.examples import ExampleChooser
from stream_osr_connectors.page.live.feeds import ORDINARY, Feed, FoundDecision
from stream_osr_connectors.page.live.file_commands import Acts
from stream_osr_connectors.summary.class_summary import newest_first
from stream_osr_connectors.summary.state import State
from stream_osr_connectors.summary.view_model import view_model, why

logger = logging.getLogger("stream_osr")

TURN = 0.1
"""Seconds between two polls of the stream when there is nothing to read."""
PACE = 0.5
"""Least seconds between two published states."""
FIRST_WAIT, LONGEST_WAIT = 1.0, 5.0
"""First and longest wait in seconds before a retry."""
READ, SHOW = "The stream cannot be read", "The page cannot be updated"
"""Steps that can fail."""
SILENT = 60.0
"""Seconds without progress of the thread after which the page is stale."""
PAGE = 50
"""Most instances of a subclass in one response."""
MOST_CONTRIBUTIONS = 20
"""Most features with contributions."""
MOST_BLOCKS = 64
"""Most blocks that are read for a response."""


BlockNumbers: TypeAlias = dict[tuple[int, int, int, int | None], set[int]]
"""Numbers of instances by block: its track, number and place, and the place after it."""


class PageState(NamedTuple):
    """State of the page: its number, JSON, and the inbox."""

    seq: int
    body: bytes
    inbox: Sequence[Mapping[str, Any]]


class Stale(NamedTuple):
    """The page is out of date: since when (ISO 8601, UTC), and the reason."""

    since: str
    why: str


class Watcher:
    """Current state of a stream, updated by a thread.

    Parameters
    ----------
    feed
        Source of the stream.
    view
        Facts from a checkpoint or from the service's metrics.
    acts
        Commands of people.
    examples
        Choice of examples.
    """

    def __init__(self, feed: Feed, view: ModelView, acts: Acts, examples: ExampleChooser) -> None:
        self.feed, self.view, self.acts, self.examples = feed, view, acts, examples
        examples.read_from(self.features)
        self.lock = threading.Lock()
        self.state = self._new_state()
        self.seen = PageState(0, b"", ())
        self._stop = threading.Event()
        self._notify: Callable[[], None] = lambda: None
        self._wanted = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watcher", daemon=True)
        self._again, self._caught_up = 0, False
        self._last: dict[str, Any] | None = None
        self._troubles: dict[str, Stale] = {}
        self._good: dict[str, float] = {}
        self._began = self._turned = time.time()

    def _new_state(self) -> State:
        return State(self.feed.prefixes, events=self.feed.has_events, strict=self.feed.strict)

    def start(self, notify: Callable[[], None]) -> None:
        """Start the thread. It calls ``notify`` after each new state."""
        self._notify = notify
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
        """Publish the next state at once, after a command."""
        self._wanted.set()

    def command(self, body: object, by: str) -> CommandReceipt:
        """Send the command in a request, as :func:`.parsing.parse_request` reads it, and publish the next state.

        Raises
        ------
        StreamOSRError
            If the request is not a command, or the command fails.
        """
        commands, n = parse_request(body, by)
        try:
            return self.acts.ask([each._replace(label=self.state.meant(each.label)) for each in commands], n)
        finally:
            self.hurry()

    def refresh(self) -> dict[str, Any]:
        """Read everything new, and return the state of the page. For a caller that does not start the thread.

        Raises
        ------
        StreamOSRError, OSError
            If the stream cannot be read.
        """
        while self._read():
            pass
        self.view.look()
        self.acts.look()
        return self._page()[0]

    @property
    def stale(self) -> Stale | None:
        """Time and reason since when the page is out of date, or ``None``."""
        if troubles := list(self._troubles.values()):
            return min(troubles)
        silent = self._thread.ident is not None and not self._stop.is_set() and time.time() - self._turned > SILENT
        return Stale(_moment(self._turned), "the reading thread does not respond") if silent else None

    def _run(self) -> None:
        told_at, last_mark, again_at, wait = 0.0, None, 0.0, FIRST_WAIT
        while not self._stop.is_set():
            self._turned, more = time.time(), False
            if time.monotonic() >= again_at:
                more = self._try(READ, self._read) is True
                again_at = time.monotonic() + wait if READ in self._troubles else 0.0
                wait = min(2 * wait, LONGEST_WAIT) if READ in self._troubles else FIRST_WAIT
            now = time.monotonic()
            hurried = self._wanted.is_set()
            if hurried or now - told_at >= PACE:
                self._wanted.clear()
                self._try("The commands cannot be read", self.acts.look)
                running = self._try("The state of the run cannot be determined", self.feed.running)
                others = self.view.version, self.acts.version, self.examples.version, running
                mark = self.state.changes, self._again, self.stale, others
                if mark != last_mark or hurried:
                    last_mark = mark
                    self._tell()
                told_at = time.monotonic()
            if not more:
                self._wanted.wait(TURN)

    def _try(self, what: str, act: Callable[[], Any]) -> Any:
        """Run a step. Any failure makes the page stale and does not end the thread."""
        try:
            done = act()
        except Exception as error:
            if what not in self._troubles:
                if not isinstance(error, StreamOSRError | OSError):
                    logger.exception("%s", what)
                since = _moment(self._good.get(what, self._began))
                self._troubles[what] = Stale(since, f"{what}, retrying: {_error_text(error)}")
            return None
        self._troubles.pop(what, None)
        self._good[what] = time.time()
        return done

    def _read(self) -> bool:
        """Process new records, and return whether there are more."""
        try:
            came = self.feed.poll(lambda kind, error: self.state.refuse(kind, error))
        except FeedTruncated:
            self._again += 1
            with self.lock:
                self.state = self._new_state()
            self.examples.begin()
            return True
        state = self.state
        with self.lock:
            for track, event in came.events:
                try:
                    state.event(track, event)
                except Exception as error:  # an unexpected event must not affect others
                    state.refuse("event", error, event)
        for begin in range(0, len(came.decisions), ORDINARY):
            with self.lock:
                for track, number, place, decision in came.decisions[begin : begin + ORDINARY]:
                    try:
                        state.decision(track, number, place, decision)
                    except Exception as error:
                        state.refuse("decision", error, decision)
        self._caught_up = not came.more
        if self._caught_up:
            with self.lock:
                state.caught_up()
        return came.more

    def _tell(self) -> None:
        """Publish a new state, or the last state with a note if the update fails."""
        made = self._try(SHOW, self._page)
        if made is None:
            made = self._written({**(self._last or self._blank())})
        self._last, body = made
        self.seen = PageState(self._last["seq"], body, self._last["inbox"])
        at_rest = self._caught_up and not self._last["stream"]["running"]
        self.examples.want(self._last["inbox"], self.view.version if at_rest else None)
        self._notify()

    def _page(self) -> tuple[dict[str, Any], bytes]:
        notes = [*self.feed.notes(), *self.view.notes(), *self.acts.notes(), *self.examples.notes()]
        if self._again:
            notes.append("A run that resumed from its checkpoint truncated the decisions. They were read again.")
        stream = {**self._stream(), "running": self.feed.running(), "behind": self.feed.behind()}
        with self.lock:
            page = view_model(self.state, stream, self.view.facts(), self.acts.named(), notes)
        for card in page["inbox"]:
            card["examples"] = self.examples.of(card)
            card["command"] = None if self.acts.allowed else self.acts.naming_command(card["ids"])
        page["history"] = self.acts.history()
        page["commands"] = {"allowed": self.acts.allowed, "labels": [row["label"] for row in page["known"]]}
        self._troubles.pop(SHOW, None)
        return self._written(page)

    def _written(self, page: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
        """Assign a number to a state, and convert it to JSON."""
        stale = self.stale
        page |= {"seq": self.seen.seq + 1, "stale": None if stale is None else stale._asdict()}
        return page, orjson.dumps(page, option=orjson.OPT_NON_STR_KEYS | orjson.OPT_SERIALIZE_NUMPY)

    def _stream(self) -> dict[str, Any]:
        return {"name": self.feed.name, "source": self.feed.name, "kind": self.feed.kind}

    def _blank(self) -> dict[str, Any]:
        """Return an empty state, for the time before the first update."""
        stream = {**self._stream(), "running": False, "behind": None}
        page = view_model(self._new_state(), stream, {}, {}, [])
        return {**page, "history": [], "commands": {"allowed": self.acts.allowed, "labels": []}}

    # Looking up.

    def instances(self, id: str, before: int | None, most: int = PAGE) -> tuple[list[FoundDecision], bool] | None:
        """Find the latest instances of a class or subclass, optionally before one. ``None`` if it does not exist.

        Returns
        -------
        The instances, newest first, and whether there are more.
        """
        with self.lock:
            some = self.state.find_all(id)
            if not some:
                return None
            tracks = self.state.tracks
            spans = []
            for track in dict.fromkeys(track for summary in some for track in summary.blocks):
                blocks, bits = tracks[track].blocks, 0
                for summary in some:
                    bits |= summary.blocks.get(track, 0)
                for block in newest_first(bits):
                    number, place, after = blocks.span(block)
                    first = number * len(tracks) + track
                    if before is None or first < before:
                        spans.append((first, track, number, place, after))
            keys = {key for summary in some for key in (getattr(summary, "key", None), *getattr(summary, "also", ()))}
        spans.sort(reverse=True)
        out: list[FoundDecision] = []
        for done, (_, track, number, place, after) in enumerate(spans):
            if len(out) > most or done >= MOST_BLOCKS:
                return out[:most], True
            for n, decision in reversed(self.feed.block(track, number, place, after)):
                n = n * len(tracks) + track
                if before is not None and n >= before:
                    continue
                own = str(decision.get("label")) == some[0].id if id.startswith("class:") else None
                if own or (own is None and decision.get("subclass_id") in keys):
                    out.append(FoundDecision(n, decision))
        return out[:most], len(out) > most

    def instance(self, n: int) -> FoundDecision | None:
        """Find a decision by its number."""
        with self.lock:
            blocks = self._blocks_of([n])
        return next(self._read_again(blocks), None)

    def features(self, found: Sequence[FoundDecision], texts: Collection[str] = ()) -> list[dict[str, Any] | None]:
        """Find the features of decisions in the input, or in the memory of the model."""
        given = self.feed.features(found, texts)
        return [
            self.view.remembered(one.decision) if own is None else own for one, own in zip(found, given, strict=True)
        ]

    def subclass_answer(self, id: str, before: int | None = None, most: int = PAGE) -> dict[str, Any] | None:
        """Return the latest instances of a class or subclass for the page, or ``None`` if it does not exist."""
        found = self.instances(id, before, most)
        if found is None:
            return None
        names = ("key", "t", "label", "first_label", "p_unknown")
        rows = [{"n": one.n, **{name: one.decision.get(name) for name in names}} for one in found[0]]
        return {"id": id, "instances": rows, "more": found[1]}

    def instance_answer(self, n: int) -> dict[str, Any] | None:
        """Return a decision for the page, or ``None`` if it does not exist."""
        found = self.instance(n)
        if found is None:
            return None
        example = self.examples.as_example(found, self.features([found])[0])
        rest = {name: value for name, value in found.decision.items() if name != "schema"}
        whole = {**rest, "n": found.n, "subclass": found.decision.get("subclass_id"), "why": why(found.decision)}
        return {**whole, "features": example["features"], "image": example["image"]}

    def contributions(self, n: int) -> dict[str, Any] | None:
        """Compute the contributions of the features of an instance from the last checkpoint.

        Returns
        -------
        The contributions as plain values (:meth:`stream_osr.stream.contributions.Contributions.as_dict`), or ``None``
        if there is no such decision.

        Raises
        ------
        StreamOSRError
            If there is no checkpoint, or the features of the instance are not known or cannot be used.
        """
        found = self.instance(n)
        if found is None:
            return None
        model = self.view.model()
        trained = model.trained
        features = self.feed.features([found], [str(name) for name in trained.values])[0]
        if features is None:
            raise ConnectorError("the features of this instance are not known. Start the page with --input FILE")
        x = {name: features.get(str(name)) for name in trained.names}
        try:
            for name, value in x.items():
                if isinstance(value, str) and name not in trained.values:
                    x[name] = values.number(value)
        except values.DecodeError as error:
            raise ConnectorError(f"column {printable(str(name), 60)} {error}") from None
        return model.contributions_one(x, top=MOST_CONTRIBUTIONS).as_dict()

    def remembered(self, id: str) -> list[FoundDecision]:
        """Return a sample of the instances of a class or subclass, and the latest one."""
        with self.lock:
            some = self.state.find_all(id)
            last = [summary.last for summary in some if summary.last is not None]
            blocks = self._blocks_of({*chain.from_iterable(summary.sample for summary in some), *last})
        return list(self._read_again(blocks))

    def _blocks_of(self, some: Iterable[int]) -> BlockNumbers:
        """Return the blocks of instances with the numbers of the instances."""
        out: BlockNumbers = {}
        for n in some:
            number, track = divmod(n, len(self.state.tracks))
            blocks = self.state.tracks[track].blocks
            if (block := blocks.holding(number)) is not None:
                out.setdefault((track, *blocks.span(block)), set()).add(number)
        return out

    def _read_again(self, blocks: BlockNumbers) -> Iterator[FoundDecision]:
        """Read instances of blocks again, in stream order."""
        for (track, number, place, after), numbers in sorted(blocks.items(), key=lambda each: each[0][:3]):
            for found in self.feed.block(track, number, place, after, only=numbers):
                yield FoundDecision(found.n * len(self.feed.prefixes) + track, found.decision)


def _error_text(error: Exception) -> str:
    """Return the text of an error.

    >>> _error_text(IsADirectoryError(21, "it is a folder", "d.jsonl")), _error_text(KeyError("seq"))
    ('d.jsonl: it is a folder', "KeyError: 'seq'")
    """
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{os.fsdecode(error.filename)}: {error.strerror}"
    return str(error) if isinstance(error, StreamOSRError) else f"{type(error).__name__}: {error}"


def _moment(at: float) -> str:
    """Format a time.

    >>> _moment(0.0)
    '1970-01-01T00:00:00Z'
    """
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
