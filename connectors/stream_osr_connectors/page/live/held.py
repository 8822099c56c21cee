"""What is remembered of a class or a subclass: counts, a few of its instances, and where the others are found."""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping
from random import Random
from typing import Any

from stream_osr_connectors.page.live import bins
from stream_osr_connectors.page.records import real, whole

KEPT = 32
"""Instances that are remembered of each: a sample of all of them."""
DIFFERS = 6
"""Features that are told of, by which a subclass differs from the nearest known one."""
MOST_FEATURES = 256
"""Of a subclass whose mean is kept, for the plane."""

_random = Random(0)
_draw = _random.random


class Held:
    """What is remembered of a class, or of a subclass.

    Attributes
    ----------
    id
        As the page names it.
    row
        Its instances in the bins of the time line.
    blocks
        Bits: the blocks of its partition that hold instances of it.
    kept
        Numbers of a sample of its instances.
    n
        Instances decided to be of it.
    last
        Number of the latest of them.
    last_t
        Its time.
    recent
        How many of the latest instances of the stream are of it.
    """

    __slots__ = ("blocks", "id", "kept", "last", "last_t", "n", "recent", "row")

    def __init__(self, id: str) -> None:
        self.id = id
        self.row: array[int] = bins.empty()
        self.blocks: dict[int, int] = {}
        self.kept: array[int] = array("q")
        self.n = 0
        self.last: int | None = None
        self.last_t: float | None = None
        self.recent = 0

    def take(self, number: int, track: int, block: int, bin: int, t: float | None) -> None:
        """Count an instance."""
        self.row[bin] += 1
        bit = 1 << block
        before = self.blocks.get(track, 0)
        if not before & bit:
            self.blocks[track] = before | bit
        n = self.n = self.n + 1
        if n <= KEPT:
            self.kept.append(number)
        elif (place := int(_draw() * n)) < KEPT:
            self.kept[place] = number
        self.last = number
        self.last_t = t

    def join(self, other: Held) -> None:
        """Take in the instances of another: those that are remembered are a sample of all, as before."""
        self.row = array("q", map(sum, zip(self.row, other.row, strict=True)))
        for track, bits in other.blocks.items():
            self.blocks[track] = self.blocks.get(track, 0) | bits
        sizes, samples = [self.n, other.n], [list(self.kept), list(other.kept)]
        self.n += other.n
        self.kept = array("q")
        for _ in range(min(self.n, KEPT)):
            which = int(_draw() * sum(sizes) >= sizes[0])
            sizes[which] -= 1
            self.kept.append(samples[which].pop(int(_draw() * len(samples[which]))))


class Subclass(Held):
    """What is remembered of a subclass that was unknown once.

    Attributes
    ----------
    key
        Its identity in its partition.
    track
        Its partition.
    announced
        An event told of it.
    status
        ``emerging``, ``dormant``, ``recurred``, ``named``, ``muted``, or ``gone``.
    label
        What it was named.
    size
        Instances in it when it was last told of, and how many came since.
    since, since_t
        Position and time of its first instance.
    like
        What an event told of it, as the page shows it.
    mean, scale, known_mean
        Means of its features, standard deviations of the nearest known subclass, and the mean of that.
    also
        Identities that were merged into it.
    told_at
        Position at which it was announced, or came back, last.
    """

    __slots__ = ("also", "announced", "key", "known_mean", "label", "like", "mean", "scale", "since", "since_t",
                 "size", "status", "told_at", "track")  # fmt: skip

    def __init__(self, id: str, key: int, track: int) -> None:
        super().__init__(id)
        self.key = key
        self.track = track
        self.announced = False
        self.status = "emerging"
        self.label: str | None = None
        self.size = 0
        self.since: int | None = None
        self.since_t: float | None = None
        self.like: dict[str, Any] = {"nearest_class": None, "distance": None, "differs": []}
        self.mean: dict[str, float] | None = None
        self.scale: dict[str, float] | None = None
        self.known_mean: dict[str, float] | None = None
        self.also: set[int] = set()
        self.told_at = -1

    def told(self, event: Mapping[str, Any]) -> None:
        """Take in what an event tells of it.

        Raises
        ------
        LookupError, TypeError, ValueError
            If the event is none.
        """
        size = whole(event["size"], "size")
        first = event["first_seen"]
        since = whole(first["seq"], "first_seen")
        self.explained(event["explanation"])
        self.size, self.since, self.since_t = size, since, number_of(first.get("t"))
        self.announced = True

    def explained(self, why: Mapping[str, Any]) -> None:
        """Take in what it is like."""
        mean, difference, shift = why["mean"], why["difference"], why["shift"]
        differs: list[dict[str, Any]] = []
        for name in list(why["most_moved"])[:DIFFERS]:
            here, apart = number_of(mean[str(name)]), number_of(difference[str(name)])
            there = None if here is None or apart is None else here - apart
            deviations = number_of(shift[str(name)])
            differs.append({"feature": str(name), "here": here, "there": there, "deviations": deviations})
        for name, its in list((why.get("values") or {}).items())[:DIFFERS]:
            here, there = its["value"], its["usual"]
            told = {"here": None if here is None else str(here), "there": None if there is None else str(there)}
            differs.append({"feature": str(name), **told, "deviations": None, "share": number_of(its["share"])})
        nearest = str(why["nearest_class"])
        self.like = {"nearest_class": nearest, "distance": number_of(why["distance"]), "differs": differs}
        if len(mean) <= MOST_FEATURES:
            self.mean = {str(name): real(value, "mean") for name, value in mean.items() if value is not None}
            self.known_mean = {
                name: value - real(difference[name], "difference")
                for name, value in self.mean.items()
                if difference.get(name) is not None
            }
            self.scale = {
                name: abs(real(difference[name], "difference") / real(shift[name], "shift"))
                for name in self.known_mean
                if shift.get(name)
            }


def number_of(value: object) -> float | None:
    """Read a number that may be missing.

    >>> number_of(None), number_of(float("nan")), number_of(2)
    (None, None, 2.0)
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) else None
