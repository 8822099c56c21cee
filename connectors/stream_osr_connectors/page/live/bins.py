"""Counts along a stream of any length in a bounded number of bins: when they are full, each two become one."""

from __future__ import annotations

from array import array
from collections.abc import Iterable

MOST = 120
"""Bins; an even number."""


def empty() -> array[int]:
    """Make a row without counts."""
    return array("q", bytes(8 * MOST))


class Bins:
    """The axis that rows of counts share.

    Attributes
    ----------
    width
        Instances of a bin.
    n
        Instances so far.
    times
        Time of the first instance of each bin that has begun, ``None`` where it has none.

    Examples
    --------
    >>> bins, row = Bins(), empty()
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
        """Say whether there is no bin for the next instance: rows have to be merged first."""
        return self.n >= MOST * self.width

    def begin(self, t: float | None) -> int:
        """Count an instance, and say in which bin it is."""
        at = self.n // self.width
        if at == len(self.times):
            self.times.append(t)
        self.n += 1
        return at

    def merge(self, rows: Iterable[array[int]]) -> None:
        """Make one bin of each two, in all rows."""
        half = MOST // 2
        for row in rows:
            row[:half] = array("q", [row[i] + row[i + 1] for i in range(0, MOST, 2)])
            row[half:] = array("q", bytes(8 * half))
        self.times = self.times[::2]
        self.width *= 2

    def edges(self) -> list[int]:
        """Give the number of the first instance of each bin that has begun, and of the instance that comes next."""
        return [i * self.width for i in range(len(self.times))] + [self.n]
