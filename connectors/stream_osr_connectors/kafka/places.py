"""Names of partitions."""

from __future__ import annotations

from typing import NamedTuple


class Place(NamedTuple):
    """A partition of a topic.

    >>> str(Place("sensors", 3))
    'sensors/3'
    """

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}"
