"""A stream along a line of the terminal: how much of each stretch is of one kind, and where something was told."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

BLOCKS = "·▁▂▃▄▅▆▇█"
"""From none to all."""
PLAIN = ".:-=+*%@#"
"""The same where the terminal has no such letters."""
ARROW, PLAIN_ARROW = "▲", "^"


class Strip(NamedTuple):
    """A stream of so many instances, laid out in so many columns.

    Attributes
    ----------
    length
        Instances of the stream, at least one.
    width
        Columns, at least one.
    plain
        Draw in ASCII.

    Examples
    --------
    >>> strip = Strip(length=12, width=4)
    >>> strip.bars([3, 4, 6, 7, 8, 9, 10, 11])
    '·▆██'
    >>> strip.bars([])
    '····'
    >>> strip.mark(1, "S1")
    '▲ S1'
    >>> strip.mark(11, "S2")
    'S2 ▲'
    >>> Strip(length=12, width=4, plain=True).bars([0, 1, 2])
    '#...'
    """

    length: int
    width: int
    plain: bool = False

    def column(self, seq: int) -> int:
        """Return the column of an instance."""
        return min(seq * self.width // self.length, self.width - 1)

    def bars(self, seqs: Iterable[int]) -> str:
        """Draw which share of each column the instances at these places are."""
        of_kind = self._count(seqs)
        letters = PLAIN if self.plain else BLOCKS
        steps = len(letters) - 1
        # rounded up: a single instance shows
        heights = [-(-steps * n // max(total, 1)) for n, total in zip(of_kind, self._sizes(), strict=True)]
        return "".join(letters[height] for height in heights)

    def mark(self, seq: int, told: str) -> str:
        """Point at an instance, with words beside it: on the left if there alone is room."""
        arrow, at = PLAIN_ARROW if self.plain else ARROW, self.column(seq)
        if at + 2 + len(told) > self.width and len(told) < at:
            return f"{told} ".rjust(at) + arrow
        return f"{' ' * at}{arrow} {told}"

    def _sizes(self) -> Sequence[int]:
        return self._count(range(self.length))

    def _count(self, seqs: Iterable[int]) -> list[int]:
        counts = [0] * self.width
        for seq in seqs:
            counts[self.column(seq)] += 1
        return counts
