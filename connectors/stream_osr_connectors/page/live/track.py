"""A partition of a stream, as the summary remembers it."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Mapping
from typing import Any

from stream_osr_connectors.page.live.blocks import Blocks
from stream_osr_connectors.page.live.held import Subclass


class Track:
    """A partition of a stream.

    Attributes
    ----------
    number
        Which one, from 0.
    prefix
        What stands before the identities of its subclasses on the page.
    seq
        Position of the latest decision.
    blocks
        Where old decisions are found.
    subclasses
        Those that an event told of, by identity.
    nameless
        The others; the latest ones.
    waiting
        Events that are of later instances than the latest decision.
    """

    def __init__(self, number: int, prefix: str) -> None:
        self.number = number
        self.prefix = prefix
        self.seq = -1
        self.blocks = Blocks()
        self.subclasses: dict[int, Subclass] = {}
        self.nameless: OrderedDict[int, Subclass] = OrderedDict()
        self.waiting: deque[Mapping[str, Any]] = deque()
        self.into: dict[int, int] = {}
