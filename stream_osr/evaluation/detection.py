"""Time to detection of new classes, and false announcements."""

from __future__ import annotations

import math
import statistics
from array import array
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable
from typing import NamedTuple

from stream_osr.decision import Decision
from stream_osr.discovery.event_base import Event
from stream_osr.discovery.events import SubclassEmerged, SubclassSplit


class Detection(NamedTuple):
    """Arrival and announcement of a new class.

    Attributes
    ----------
    first
        Position of the first instance.
    announced
        Position of the last instance of the batch after which the class was announced. ``None``: it was not
        announced.
    instances
        Number of instances of the class until then, including the first. It is infinite without an announcement.
    """

    first: int
    announced: int | None
    instances: float


class TimeToDetection:
    """Number of instances of each new class until a `SubclassEmerged` or a `SubclassSplit` announced it.

    An announced subclass belongs to the class of most instances in it. These are the instances that had arrived when
    it was announced and whose final decision put them there. The event of a split announces the part that splits off.
    Its instances had the id of the other part until then. It therefore belongs to the class of the instances that
    arrive in it afterwards. A new class is detected with the first announced subclass that belongs to it. A subclass
    of a known class is a false alarm. The count uses instances of the class itself, so that rare and frequent classes
    are comparable.

    Pass every instance, decision and event in turn, as `prequential` does. The object stores the positions of all
    instances of new classes.

    Parameters
    ----------
    known
        Labels of the known classes. Any other label is a new class.
    begin
        Position of the first instance, in the count of the recognizer (`Decision.seq`).

    Examples
    --------
    >>> from river import datasets
    >>> from stream_osr import OpenSetRecognizer
    >>> known = {"brickface", "cement", "grass", "path"}
    >>> data = list(datasets.ImageSegments())
    >>> model = OpenSetRecognizer(batch_size=32, seed=7)
    >>> for x, y in data[:1000]:
    ...     if y in known:
    ...         model.learn_one(x, y)
    >>> times = TimeToDetection(known)
    >>> stream = [(x, y) for x, y in data[1000:1400] if y in known or y == "sky"]
    >>> for x, y in stream:
    ...     times.arrived(y)
    ...     model.learn_one(x)
    ...     for decision in model.drain():
    ...         times.decided(decision, stream[decision.seq][1])
    ...     for event in model.drain_events():
    ...         times.note(event)
    >>> times.detections
    {'sky': Detection(first=10, announced=63, instances=15)}
    >>> times.median, times.share_within(30), times.false_alarms
    (15, 1.0, ())
    """

    def __init__(self, known: Iterable[Hashable], begin: int = 0) -> None:
        self.known = frozenset(known)
        self._next = begin
        self._positions: dict[Hashable, array[int]] = {}
        self._announced: dict[int, int] = {}
        self._sizes: dict[int, int] = {}
        self._before: defaultdict[int, Counter[Hashable]] = defaultdict(Counter)
        self._after: defaultdict[int, Counter[Hashable]] = defaultdict(Counter)

    def __repr__(self) -> str:
        return f"TimeToDetection(median={self.median:g}, classes={len(self._positions)})"

    def arrived(self, y_true: Hashable) -> None:
        """Record the class of the next instance. Instances that the recognizer skips have no position."""
        if y_true not in self.known:
            self._positions.setdefault(y_true, array("q")).append(self._next)
        self._next += 1

    def decided(self, decision: Decision, y_true: Hashable) -> None:
        """Record a final decision. With ``decision_delay`` it may follow the announcement."""
        number = decision.subclass_id
        if number is not None:
            early = decision.seq <= self._announced.get(number, decision.seq)
            (self._before if early else self._after)[number][y_true] += 1

    def note(self, event: Event) -> None:
        """Record an event. Only announcements have an effect."""
        if isinstance(event, SubclassEmerged):
            self._announced[event.subclass_id], self._sizes[event.subclass_id] = event.seq, event.size
        elif isinstance(event, SubclassSplit):
            self._announced[event.new_id], self._sizes[event.new_id] = event.seq, event.sizes[1]

    @property
    def classes(self) -> dict[int, Hashable]:
        """Class of each announced subclass, in the order of announcement."""
        found = {number: self._members(number) for number in self._announced}
        return {number: members.most_common(1)[0][0] for number, members in found.items() if members}

    def _members(self, number: int) -> Counter[Hashable]:
        before = self._before[number]
        return before if 2 * before.total() >= self._sizes[number] else before + self._after[number]

    @property
    def detections(self) -> dict[Hashable, Detection]:
        """Detection of each new class, in the order of appearance."""
        announced: dict[Hashable, int] = {}
        for number, label in self.classes.items():
            announced.setdefault(label, self._announced[number])
        out = {}
        for label, at in self._positions.items():
            when = announced.get(label)
            out[label] = Detection(at[0], when, math.inf if when is None else bisect_right(at, when))
        return out

    @property
    def false_alarms(self) -> tuple[int, ...]:
        """Announced subclasses that belong to a known class."""
        return tuple(number for number, label in self.classes.items() if label in self.known)

    @property
    def median(self) -> float:
        """Median number of instances until detection, over the new classes. It is nan without new classes."""
        return statistics.median(times) if (times := self._times()) else math.nan

    def share_within(self, instances: float) -> float:
        """Return the share of new classes that were detected within some instances, nan without new classes."""
        times = self._times()
        return sum(time <= instances for time in times) / len(times) if times else math.nan

    def _times(self) -> list[float]:
        return [detection.instances for detection in self.detections.values()]
