"""Classes and subclasses in bounded memory: counts in bins, samples of instances, and blocks to find all others."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from heapq import heapify, heappush, heapreplace, nlargest
from typing import Any

from stream_osr_connectors.summary.input_records import number_of, real, whole

MOST_BINS = 120
"""Most bins, an even number."""


def empty_row() -> array[int]:
    """Return a row of zeros."""
    return array("q", bytes(8 * MOST_BINS))


class Bins:
    """The shared axis of the rows of counts.

    Attributes
    ----------
    width
        Number of instances in a bin.
    n
        Number of instances so far.
    times
        Time of the first instance of each started bin, or ``None``.

    Examples
    --------
    >>> bins, row = Bins(), empty_row()
    >>> for i in range(121):
    ...     if bins.is_full():
    ...         bins.merge([row])
    ...     row[bins.begin(None)] += 1
    >>> bins.width, bins.edges()[:3], row.tolist()[:2], row.tolist()[58:62]
    (2, [0, 2, 4], [2, 2], [2, 2, 1, 0])
    """

    def __init__(self) -> None:
        self.width = 1
        self.n = 0
        self.times: list[float | None] = []

    def is_full(self) -> bool:
        """Return whether rows must be merged before the next instance."""
        return self.n >= MOST_BINS * self.width

    def begin(self, t: float | None) -> int:
        """Count an instance, and return its bin."""
        at = self.n // self.width
        if at == len(self.times):
            self.times.append(t)
        self.n += 1
        return at

    def merge(self, rows: Iterable[array[int]]) -> None:
        """Merge each two neighbouring bins in all rows."""
        half = MOST_BINS // 2
        for row in rows:
            row[:half] = array("q", [row[i] + row[i + 1] for i in range(0, MOST_BINS, 2)])
            row[half:] = array("q", bytes(8 * half))
        self.times = self.times[::2]
        self.width *= 2

    def edges(self) -> list[int]:
        """Return the number of the first instance of each started bin, and of the next instance."""
        return [i * self.width for i in range(len(self.times))] + [self.n]


MOST_BLOCKS = 2048
"""Most blocks."""
LEAST_STRIDE = 256
"""Initial number of instances in a block."""


class Blocks:
    """Places of blocks of instances in one partition of a stream.

    Attributes
    ----------
    stride
        Number of instances in a block.

    Examples
    --------
    >>> blocks = Blocks()
    >>> for number in range(600):
    ...     block = blocks.note(number, 50 * number)
    >>> block, blocks.span(2), blocks.holding(300), blocks.holding(599)
    (2, (512, 25600, None), 1, 2)
    """

    def __init__(self) -> None:
        self.stride = LEAST_STRIDE
        self._n = 0
        self._numbers: list[int] = []
        self._places: list[int] = []

    def note(self, number: int, place: int) -> int:
        """Record an instance, and return its block.

        Parameters
        ----------
        number
            Number of the instance in the partition, larger than the previous one.
        place
            Place to read it from.
        """
        block, into = divmod(self._n, self.stride)
        if into == 0:
            self._numbers.append(number)
            self._places.append(place)
        self._n += 1
        return block

    def is_full(self) -> bool:
        """Return whether blocks must be merged before the next instance."""
        return self._n >= MOST_BLOCKS * self.stride

    def merge(self) -> None:
        """Merge each two neighbouring blocks."""
        del self._numbers[1::2], self._places[1::2]
        self.stride *= 2

    def span(self, block: int) -> tuple[int, int, int | None]:
        """Return number and place of the first instance of a block, and the place of the next block, if any."""
        after = self._places[block + 1] if block + 1 < len(self._places) else None
        return self._numbers[block], self._places[block], after

    def holding(self, number: int) -> int | None:
        """Return the block of an instance, or ``None``."""
        block = bisect_right(self._numbers, number) - 1
        return None if block < 0 else block


def halved(bits: int) -> int:
    """Return which blocks are not empty after a merge of each two.

    >>> bin(halved(0b10_00_01_11))
    '0b1011'
    """
    digits = f"{bits:b}"[::-1]
    pairs = (digits[i : i + 2] for i in range(0, len(digits), 2))
    return int("".join("1" if "1" in pair else "0" for pair in pairs)[::-1] or "0", 2)


def newest_first(bits: int) -> Iterator[int]:
    """Yield the blocks that are not empty, newest first.

    >>> list(newest_first(0b1010))
    [3, 1]
    """
    while bits:
        last = bits.bit_length() - 1
        yield last
        bits ^= 1 << last


KEPT = 32
"""Size of the sample of instances of a class or subclass."""
DIFFERS = 6
"""Most features in the description of the difference from the nearest known subclass."""
MOST_FEATURES = 256
"""Most features of a subclass whose mean is stored for the feature map."""

MOST_MARKS = 40
"""Most events of a subclass on the timeline, the first ones."""
_LOW = (1 << 64) - 1


def hash_of(number: int) -> int:
    """Hash the number of an instance to 64 bits (SplitMix64, Steele, Lea and Flood 2014).

    The instances with the smallest hashes are a random sample of any set of instances. The sample does not depend on
    the order in which they are read.

    >>> hash_of(0) == 0xE220A8397B1DCDAF
    True
    """
    z = (number + 1) * 0x9E3779B97F4A7C15 & _LOW
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & _LOW
    z = (z ^ z >> 27) * 0x94D049BB133111EB & _LOW
    return z ^ z >> 31


@dataclass(slots=True, eq=False)
class ClassSummary:
    """Summary of a class or a subclass.

    Attributes
    ----------
    id
        Name on the page.
    row
        Number of instances in each bin of the timeline.
    blocks
        For each partition, a bit for each block that contains instances.
    kept
        A heap of the sampled instances: negative hash (:func:`hash_of`) and number of each.
    n
        Number of instances.
    last
        Number of the latest instance.
    last_t
        Time of the latest instance.
    recent
        Number of instances among the latest of the stream.
    """

    id: str
    row: array[int] = field(init=False, default_factory=empty_row)
    blocks: dict[int, int] = field(init=False, default_factory=dict)
    kept: list[tuple[int, int]] = field(init=False, default_factory=list)
    n: int = field(init=False, default=0)
    last: int | None = field(init=False, default=None)
    last_t: float | None = field(init=False, default=None)
    recent: int = field(init=False, default=0)

    def take(self, number: int, track: int, block: int, bin: int, t: float | None) -> None:
        """Count an instance."""
        self.row[bin] += 1
        bit = 1 << block
        before = self.blocks.get(track, 0)
        if not before & bit:
            self.blocks[track] = before | bit
        self.n += 1
        entry = -hash_of(number), number
        if len(self.kept) < KEPT:
            heappush(self.kept, entry)
        elif entry > self.kept[0]:
            heapreplace(self.kept, entry)
        self.last = number
        self.last_t = t

    def merge_blocks(self, track: int) -> None:
        """Apply a merge of each two blocks of a partition."""
        if track in self.blocks:
            self.blocks[track] = halved(self.blocks[track])

    def join(self, other: ClassSummary) -> None:
        """Add the instances of another summary. The sample remains a sample of all instances."""
        self.row = array("q", map(sum, zip(self.row, other.row, strict=True)))
        for track, bits in other.blocks.items():
            self.blocks[track] = self.blocks.get(track, 0) | bits
        self.n += other.n
        self.kept = nlargest(KEPT, [*self.kept, *other.kept])
        heapify(self.kept)

    @property
    def sample(self) -> list[int]:
        """Numbers of the sampled instances."""
        return [number for _, number in self.kept]


@dataclass(slots=True, eq=False)
class SubclassSummary(ClassSummary):
    """Summary of a subclass that was or is unknown.

    Attributes
    ----------
    key
        Id of the subclass in the partition.
    track
        Partition of the subclass.
    announced
        Whether an event announced it.
    status
        Status of the latest event (`EVENT_TABLE`), ``emerging`` before the first event.
    label
        Name that a person gave it.
    size
        Number of instances at the latest event.
    since, since_t
        Position and time of the first instance.
    like
        Description from an event, in the form of the page.
    mean, scale, known_mean
        Means of the features, standard deviations of the nearest known subclass, and its means.
    also
        Ids of subclasses that were merged into it.
    told_at
        Position of the latest announcement or recurrence.
    marks
        Position and mark (`EVENT_TABLE`) of the first events.
    """

    key: int
    track: int
    announced: bool = False
    status: str = "emerging"
    label: str | None = None
    size: int = 0
    since: int | None = None
    since_t: float | None = None
    like: dict[str, Any] = field(default_factory=lambda: {"nearest_class": None, "distance": None, "differs": []})
    mean: dict[str, float] | None = None
    scale: dict[str, float] | None = None
    known_mean: dict[str, float] | None = None
    also: set[int] = field(default_factory=set)
    told_at: int = -1
    marks: list[tuple[int, str]] = field(default_factory=list)

    def reported(self, event: Mapping[str, Any]) -> None:
        """Update the summary from an event.

        Raises
        ------
        LookupError, TypeError, ValueError
            If the event is invalid.
        """
        size = whole(event["size"], "size")
        first = event["first_seen"]
        since = whole(first["seq"], "first_seen")
        self.explained(event["explanation"])
        self.size, self.since, self.since_t = size, since, number_of(first.get("t"))
        self.announced = True

    def explained(self, why: Mapping[str, Any]) -> None:
        """Update the description from an explanation."""
        mean, difference, shift = why["mean"], why["difference"], why["shift"]
        differs: list[dict[str, Any]] = []
        for name in list(why["most_moved"])[:DIFFERS]:
            here, apart = number_of(mean[str(name)]), number_of(difference[str(name)])
            there = None if here is None or apart is None else here - apart
            deviations = number_of(shift[str(name)])
            differs.append({"feature": str(name), "here": here, "there": there, "deviations": deviations})
        for name, its in list((why.get("values") or {}).items())[:DIFFERS]:
            here, there = its["value"], its["usual"]
            reported = {"here": None if here is None else str(here), "there": None if there is None else str(there)}
            differs.append({"feature": str(name), **reported, "deviations": None, "share": number_of(its["share"])})
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


@dataclass(slots=True, eq=False)
class Track:
    """A partition of a stream.

    Attributes
    ----------
    number
        Number of the partition, from 0.
    prefix
        Prefix of the subclass ids on the page.
    seq
        Position of the latest decision.
    blocks
        Places of old decisions.
    subclasses
        Announced subclasses by id.
    nameless
        The latest other subclasses.
    waiting
        Events of instances after the latest decision.
    """

    number: int
    prefix: str
    seq: int = -1
    blocks: Blocks = field(default_factory=Blocks)
    subclasses: dict[int, SubclassSummary] = field(default_factory=dict)
    nameless: OrderedDict[int, SubclassSummary] = field(default_factory=OrderedDict)
    waiting: deque[Mapping[str, Any]] = field(default_factory=deque)
    into: dict[int, int] = field(default_factory=dict)
