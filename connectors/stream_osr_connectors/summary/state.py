"""A summary of decisions and events with a bounded size, without access to files or a clock.

A stream has one or several partitions, here called *tracks*. The number of an instance is its number in the track
times the number of tracks, plus the number of the track. A feed can find an instance by this number.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from stream_osr.discovery.event_base import moved_text
from stream_osr.discovery.lifecycle import EMERGES_WITH
from stream_osr.discovery.signal_table import EVENT_TABLE, GONE, OTHER_KIND, EventKind
from stream_osr.discovery.summaries import DecisionCounts
from stream_osr.errors import ConnectorError
from stream_osr_connectors.summary.class_summary import (
    MOST_MARKS,
    Bins,
    ClassSummary,
    SubclassSummary,
    Track,
    empty_row,
)
from stream_osr_connectors.summary.input_records import UNUSABLE, number_of, refusal, whole, why_unusable
from stream_osr_connectors.summary.other_events import OtherEvent, in_words
from stream_osr_connectors.summary.truth import Truth

RECENT = 1000
"""Number of latest instances for the recent counts and rates."""
MOST_NAMELESS = 500
"""Most stored subclasses of a track without an event, the latest ones."""
MOST_SUBCLASSES = 2000
"""Most stored subclasses."""
MOST_CLASSES = 1000
"""Most stored classes."""
MOST_OTHERS = 50
"""Most stored events in words, the latest ones."""


class State:
    """Summary of a stream.

    Parameters
    ----------
    prefixes
        Prefix of subclass ids, for each track.
    events
        Whether events report which subclasses have emerged.
    strict
        Whether an invalid record is an error.

    Attributes
    ----------
    decided, unknown
        Number of decisions, and of unknown decisions.
    first_t, last_t
        Times of the first and the latest decision.
    labels
        Known classes of the latest decision.
    unusable
        Number of invalid records by kind.
    changes
        Increases with each change.
    other_events, others
        The latest events that no subclass shows, and the number of all of them.
    truth
        Decisions against true labels.

    Examples
    --------
    >>> state = State([""], events=False)
    >>> one = {"label": "red", "probabilities": {"red": 0.9, "unknown": 0.1}, "seq": 0, "subclass_id": 3, "t": None}
    >>> state.decision(0, 0, 0, one)
    >>> state.decided, state.labels, state.classes["red"].n
    (1, ('red',), 1)
    """

    def __init__(self, prefixes: Iterable[str], *, events: bool, strict: bool = False) -> None:
        self._strict = strict
        self.tracks = [Track(number, prefix) for number, prefix in enumerate(prefixes)]
        self.has_events = events
        self.decided = self.unknown = self.changes = 0
        self.first_t: float | None = None
        self.last_t: float | None = None
        self.bins = Bins()
        self.unknown_row = empty_row()
        self.classes: dict[str, ClassSummary] = {}
        self.raw: dict[str, int] = {}
        self.labels: tuple[str, ...] = ()
        self.signals: Counter[str] = Counter()
        self.delta: int | None = None
        self.recall: dict[str, float] | None = None
        self.dependent = False
        self._frames: dict[int, str] = {}
        self.unusable: Counter[str] = Counter()
        self.why: dict[str, str] = {}
        self.forgotten = 0
        self._names: list[str] = []
        self.other = ""
        self.other_events: deque[OtherEvent] = deque(maxlen=MOST_OTHERS)
        self.others = 0
        self.truth = Truth()
        self._recent: deque[tuple[ClassSummary | None, bool]] = deque()
        self.recent_unknown = 0

    # Decisions.

    def decision(self, track: int, number: int, place: int, decision: Mapping[str, Any]) -> None:
        """Add a decision. Invalid decisions are counted.

        Parameters
        ----------
        track
            Track of the decision.
        number
            Number in the track, larger than the previous one.
        place
            Place to read it from.
        decision
            Decision as `stream_osr.Decision.as_dict` returns it, and perhaps its ``true_label``.
        """
        try:
            raw = decision["label"]
            label = raw if type(raw) is str else self._text(raw)
            probabilities = decision["probabilities"]
            names = list(probabilities)
            seq = decision["seq"]
            t = number_of(decision["t"])
            key = decision["subclass_id"]
            if type(seq) is not int or not (key is None or type(key) is int):
                raise TypeError("seq or subclass_id is no whole number")
            if not isinstance(probabilities, Mapping) or not names:
                raise TypeError("its probabilities are not a number for each class")
            if names != self._names:
                self._named(names)
        except UNUSABLE as error:
            self.refuse("decision", error, decision)
            return
        one = self.tracks[track]
        at = self._count(one, number, place, label, key, t)
        if (truth := decision.get("true_label")) is not None:
            self._judge(str(truth), label, key, number_of(decision.get("p_unknown")), at)
        one.seq = seq
        if one.waiting:
            self._happen(one, seq)

    def _count(self, track: Track, number: int, place: int, label: str, key: int | None, t: float | None) -> int:
        """Count a decision, and return its bin."""
        if self.bins.is_full():
            rows = [self.unknown_row, self.truth.row, self.truth.new_row]
            self.bins.merge([*rows, *(summary.row for summary in self._summaries())])
        if track.blocks.is_full():
            track.blocks.merge()
            for each in self._summaries():
                each.merge_blocks(track.number)
        block = track.blocks.note(number, place)
        at = self.bins.begin(t)
        number = number * len(self.tracks) + track.number
        unknown = label == self.other
        if unknown:
            self.unknown += 1
            self.unknown_row[at] += 1
        else:
            known = self.classes.get(label) or self._class(label)
            known.take(number, track.number, block, at, t)
        summary = None if key is None else self._of(track, key, unknown)
        if summary is not None:
            summary.take(number, track.number, block, at, t)
            summary.recent += 1
        self._lately(summary, unknown)
        self.decided += 1
        if t is not None:
            self.last_t = t
            if self.first_t is None:
                self.first_t = t
        self.changes += 1
        return at

    def _judge(self, truth: str, label: str, key: int | None, p_unknown: float | None, at: int) -> None:
        unknown, new = label == self.other, truth not in self.labels
        right, subclass = unknown if new else label == truth, key if unknown else None
        p = float(unknown) if p_unknown is None else p_unknown
        self.truth.take(truth, label, new=new, right=right, subclass=subclass, p_unknown=p, bin=at)

    def _of(self, track: Track, key: int, unknown: bool) -> SubclassSummary | None:
        """Return the subclass of an instance if it is or was emerging."""
        while (found := track.subclasses.get(key)) is None and unknown and key in track.into:
            key = track.into[key]
        if found is not None or not unknown:
            return found
        nameless = track.nameless
        found = nameless.get(key)
        if found is None:
            found = nameless[key] = SubclassSummary(f"{track.prefix}{key}", key, track.number)
            found.since = self.decided
            if len(nameless) > MOST_NAMELESS:
                nameless.popitem(last=False)
        else:
            nameless.move_to_end(key)
        if not self.has_events and found.n + 1 >= EMERGES_WITH:
            self._announce(track, key)
        return found

    def _lately(self, summary: ClassSummary | None, unknown: bool) -> None:
        self._recent.append((summary, unknown))
        self.recent_unknown += unknown
        if len(self._recent) > RECENT:
            before, was_unknown = self._recent.popleft()
            self.recent_unknown -= was_unknown
            if before is not None:
                before.recent -= 1

    @property
    def counts(self) -> DecisionCounts:
        """Numbers of decided instances."""
        return DecisionCounts(self.decided, self.unknown)

    @property
    def recent_counts(self) -> DecisionCounts:
        """Numbers of the latest decided instances, at most ``RECENT``."""
        return DecisionCounts(len(self._recent), self.recent_unknown)

    @property
    def frame(self) -> str:
        """Offset of all known classes from their training place, in words, from the latest event of each track."""
        return "; ".join(filter(None, self._frames.values()))

    def _text(self, raw: object) -> str:
        """Return a label as text, and store its original value."""
        text = str(raw)
        if isinstance(raw, int) and len(self.raw) < MOST_CLASSES:
            self.raw[text] = raw
        return text

    def meant(self, label: str | int | bool | None) -> str | int | bool | None:
        """Return the original label for a label of the page, which is text. Digits are an integer if classes are."""
        if not isinstance(label, str) or not self.raw:
            return label
        if label in self.raw:
            return self.raw[label]
        whole = label.removeprefix("-").isdecimal() and label.isascii() and len(label) < 19
        return int(label) if whole else label

    def _class(self, label: str) -> ClassSummary:
        if len(self.classes) >= MOST_CLASSES:
            by_size = sorted(self.classes.values(), key=lambda summary: summary.n)
            for summary in by_size[: MOST_CLASSES // 10]:
                del self.classes[summary.id]
                self.forgotten += 1
        summary = self.classes[label] = ClassSummary(label)
        return summary

    def _named(self, names: list[str]) -> None:
        self._names = names
        self.labels = tuple(names[:-1])
        self.other = names[-1] if names else ""

    def _summaries(self) -> Iterator[ClassSummary]:
        yield from self.classes.values()
        for track in self.tracks:
            yield from track.subclasses.values()
            yield from track.nameless.values()

    def every_subclass(self) -> Iterator[SubclassSummary]:
        """Yield the announced subclasses."""
        for track in self.tracks:
            yield from track.subclasses.values()

    # Events.

    def event(self, track: int, event: Mapping[str, Any]) -> None:
        """Add an event of a track. It waits for earlier decisions, or for :meth:`caught_up`."""
        one = self.tracks[track]
        one.waiting.append(event)
        self._happen(one, one.seq)

    def caught_up(self) -> None:
        """Process all waiting events, because there are no more decisions now."""
        for track in self.tracks:
            while track.waiting:
                self._one(track, track.waiting.popleft())

    def _happen(self, track: Track, seq: int) -> None:
        while track.waiting:
            its = track.waiting[0].get("seq")
            if isinstance(its, int) and its > seq:
                return
            self._one(track, track.waiting.popleft())

    def _one(self, track: Track, event: Mapping[str, Any]) -> None:
        try:
            kind = EVENT_TABLE.get(event["type"], OTHER_KIND)
            if kind.status == GONE:
                self._end(track, event)
            elif kind.status is not None:
                self._status(track, event, kind)
            elif kind.name == "SubclassSplit":
                self._split(track, event)
            elif kind.name == "NamingUndone":
                for key in event["subclass_ids"]:
                    if (summary := track.subclasses.get(key)) is not None:
                        summary.told_at = whole(event["seq"], "seq") + 1
                        summary.status, summary.label = "emerging", None
            elif kind.name == "NewClassesChanged":
                self.delta = whole(event["delta"], "delta")
            elif kind.signal == "recall_drops":
                names = ("recall", "low", "high", "promised")
                value, low, high, promised = (float(event[name]) for name in names)
                self.recall = {"value": value, "low": low, "high": high, "promised": promised}
            elif kind.name == "DependenceFound":
                self.dependent = True
            elif kind.name == "FrameMoved":
                offset, shift = ({name: float(by) for name, by in event[its].items()} for its in ("offset", "shift"))
                text = moved_text(offset, shift, whole(event["since"], "since"))
                self._frames[track.number] = f"{track.prefix} {text}".lstrip() if offset else ""
            elif kind.name == "EventsSummed":
                for key in list(event["emerged"])[:MOST_NAMELESS]:
                    self._announce(track, whole(key, "emerged"))
                for name, count in event["counts"].items():
                    if (signal := EVENT_TABLE.get(name, OTHER_KIND).signal) is not None:
                        self.signals[signal] += whole(count, "counts")
            if kind.signal is not None:
                self.signals[kind.signal] += 1
            if not kind.drawn:
                self.other_events.append(in_words(event))
                self.others += 1
        except UNUSABLE as error:
            self.refuse("event", error, event)
            return
        self.changes += 1

    def _status(self, track: Track, event: Mapping[str, Any], kind: EventKind) -> None:
        summary = self._announce(track, whole(event["subclass_id"], "subclass_id"))
        summary.reported(event)
        if len(summary.marks) < MOST_MARKS and isinstance(event["seq"], int):
            summary.marks.append((event["seq"] if len(self.tracks) == 1 else self.decided, kind.mark))
        if kind.name in ("SubclassEmerged", "SubclassRecurred"):
            summary.told_at = whole(event["seq"], "seq")
        if kind.name != "SubclassGrew" or summary.status != "recurred":
            summary.status = kind.status or ""
            summary.label = str(event["label"]) if summary.status == "named" else None

    def _announce(self, track: Track, key: int) -> SubclassSummary:
        summary = track.subclasses.get(key)
        if summary is None:
            summary = track.nameless.pop(key, None) or SubclassSummary(f"{track.prefix}{key}", key, track.number)
            track.subclasses[key] = summary
            summary.announced, summary.told_at = True, track.seq
            if sum(len(each.subclasses) for each in self.tracks) > MOST_SUBCLASSES:
                self._forget_some(summary)
        return summary

    def _forget_some(self, but: SubclassSummary) -> None:
        """Discard a tenth of the subclasses: ended ones first, then those without instances for longest."""
        others = sorted(self.every_subclass(), key=lambda each: (each.status != GONE, each.last or -1))
        for summary in others[: MOST_SUBCLASSES // 10]:
            if summary is not but:
                del self.tracks[summary.track].subclasses[summary.key]
                self.forgotten += 1

    def _end(self, track: Track, event: Mapping[str, Any]) -> None:
        key = whole(event["subclass_id"], "subclass_id")
        summary = track.subclasses.get(key)
        if event["type"] == "SubclassMerged":
            into, size = whole(event["into"], "into"), whole(event["size"], "size")
            end = into
            while end in track.into and end != key:
                end = track.into[end]
            if end == key:
                raise ValueError(f"subclass {key} cannot merge into {into}, which has merged into it")
            source = summary or track.nameless.pop(key, None)
            track.into[key] = into
            if len(track.into) > MOST_SUBCLASSES:
                del track.into[next(iter(track.into))]
            goal = track.subclasses.get(into) or track.nameless.get(into)
            if source is not None and goal is not None:
                goal.join(source)
                goal.also |= {source.key, *source.also}
                goal.size = max(goal.size, size)
            if source is not None:
                track.subclasses.pop(key, None)
        elif summary is not None:
            summary.status = GONE

    def _split(self, track: Track, event: Mapping[str, Any]) -> None:
        sizes = [whole(size, "sizes") for size in event["sizes"]]
        summary = self._announce(track, whole(event["subclass_id"], "subclass_id"))
        summary.size = sizes[0]
        new = self._announce(track, whole(event["new_id"], "new_id"))
        new.explained(event["explanation"])
        new.size = sizes[1]
        new.since = whole(event["seq"], "seq")

    # What cannot be read.

    def refuse(self, kind: str, error: BaseException, record: object = None) -> None:
        """Count an invalid record, and store the first reason.

        Raises
        ------
        ConnectorError
            If invalid records are errors.
        """
        if self._strict:
            known = isinstance(error, ConnectorError)
            raise error if known else refusal(getattr(record, "place", "a record"), kind, error) from None
        self.unusable[kind] += 1
        self.why.setdefault(kind, why_unusable(error))
        self.changes += 1

    def find_all(self, ids: str) -> list[ClassSummary]:
        """Find a class, or the subclasses of a candidate by comma-separated names."""
        names = [ids] if ids.startswith("class:") else ids.split(",")[:MOST_SUBCLASSES]
        return [summary for name in names if (summary := self.find(name)) is not None]

    def find(self, id: str) -> ClassSummary | None:
        """Find a class (``class:LABEL``) or a subclass by its name on the page."""
        if id.startswith("class:"):
            return self.classes.get(id.removeprefix("class:"))
        prefix, _, key = id.rpartition(":")
        prefix = f"{prefix}:" if prefix else ""
        if not key.isdecimal() or len(key) > 18:
            return None
        for track in self.tracks:
            if track.prefix == prefix:
                return track.subclasses.get(int(key)) or track.nameless.get(int(key))
        return None
