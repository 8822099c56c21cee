"""Where old instances are found again: marks in a stream, and which blocks between them hold what.

The number of marks is bounded. When there are too many, every second one goes, and what was noted of two blocks is
noted of the one that they have become.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

MOST = 2048
"""Blocks."""
LEAST_STRIDE = 256
"""Instances of a block in the beginning."""


class Blocks:
    """Marks in one partition of a stream.

    Attributes
    ----------
    stride
        Instances of a block.

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
        """Take in an instance, and say in which block it is.

        Parameters
        ----------
        number
            Its number in the partition: larger than the one before.
        place
            Where it is read.
        """
        block, into = divmod(self._n, self.stride)
        if into == 0:
            self._numbers.append(number)
            self._places.append(place)
        self._n += 1
        return block

    def is_full(self) -> bool:
        """Say whether the next instance has no block: blocks have to be merged first."""
        return self._n >= MOST * self.stride

    def merge(self) -> None:
        """Make one block of each two."""
        del self._numbers[1::2], self._places[1::2]
        self.stride *= 2

    def span(self, block: int) -> tuple[int, int, int | None]:
        """Tell number and place of the first instance of a block, and the place of the next one, if it has begun."""
        after = self._places[block + 1] if block + 1 < len(self._places) else None
        return self._numbers[block], self._places[block], after

    def holding(self, number: int) -> int | None:
        """Say which block an instance is in, if it is in one."""
        block = bisect_right(self._numbers, number) - 1
        return None if block < 0 else block


def halved(bits: int) -> int:
    """Say which blocks hold something, when each two have become one.

    >>> bin(halved(0b10_00_01_11))
    '0b1011'
    """
    digits = f"{bits:b}"[::-1]
    pairs = (digits[i : i + 2] for i in range(0, len(digits), 2))
    return int("".join("1" if "1" in pair else "0" for pair in pairs)[::-1] or "0", 2)


def newest_first(bits: int) -> Iterator[int]:
    """Give the blocks that hold something, the newest first.

    >>> list(newest_first(0b1010))
    [3, 1]
    """
    while bits:
        last = bits.bit_length() - 1
        yield last
        bits ^= 1 << last
