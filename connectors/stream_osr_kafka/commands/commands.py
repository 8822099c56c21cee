"""Commands in the order of their topic, kept small: people ask for little, and machines label a great deal."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise

import orjson

from .labelling import Command


class Commands:
    """A log of commands: 16 bytes, and what each says as JSON.

    Attributes
    ----------
    asked
        The last place at which something was asked of a partition; late labels are asked of none.

    Examples
    --------
    >>> log = Commands()
    >>> log.append(3, Command("label", key="k7", label="leak"))
    >>> log.append(9, Command("undo", "sensors", 0))
    >>> [command.action for command in log.between(3, 9)], log.asked
    (['label'], {('sensors', 0): 9})
    """

    def __init__(self) -> None:
        self.asked: dict[tuple[str, int], int] = {}
        self._places = array("q")
        self._ends = array("q")
        self._said = bytearray()

    def append(self, place: int, command: Command) -> None:
        """Take in the next one, which stands after all others."""
        self._said += orjson.dumps(tuple(command))
        self._places.append(place)
        self._ends.append(len(self._said))
        if command.topic is not None and command.partition is not None:
            self.asked[command.topic, command.partition] = place

    def between(self, begin: int, end: int) -> Sequence[Command]:
        """Return the commands from one place up to another."""
        first, last = bisect_left(self._places, begin), bisect_left(self._places, end)
        starts = [self._ends[first - 1] if first else 0, *self._ends[first:last]]
        return [Command(*orjson.loads(self._said[start:stop])) for start, stop in pairwise(starts)]
