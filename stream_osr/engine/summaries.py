"""What sums up the emerged subclasses of a stream, for others to compare with, and when to say it again."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from stream_osr.discovery import events as ev
from stream_osr.engine.state import Stream
from stream_osr.hdp.marginal import Statistics, of_slots, statistics_of

GROWN = 1.25
"""A subclass is said again when its size passes a power of this, up or down."""


class Said(NamedTuple):
    """What is to be said of an emerged subclass.

    Attributes
    ----------
    id
        Its identity.
    statistics
        Of all its instances, of a single subclass; None: it is no longer an emerging one.
    absorbed
        Identities that have ended in it.
    """

    id: int
    statistics: Statistics | None
    absorbed: tuple[int, ...] = ()


def emerged_statistics(stream: Stream) -> dict[int, Statistics]:
    """Return the statistics of the subclasses that have emerged, those set aside and those muted included.

    Those of the first chain, which is told of; by identity, in ascending order.
    """
    chain = stream.chains[0]
    own = chain.state.ids.tolist()
    found = {key: statistics_of(chain.state.dishes, np.array([slot])) for slot, key in enumerate(own)}
    found |= {key: of_slots(chain.aside.statistics, [at]) for at, key in enumerate(chain.aside.ids.tolist())}
    lives = chain.life.subclasses
    return {key: found[key] for key in sorted(found) if key in lives and (lives[key].emerged or lives[key].muted)}


def to_say(
    before: Mapping[int, Statistics], after: Mapping[int, Statistics], events: Iterable[ev.Event]
) -> list[Said]:
    """Choose of which subclasses a micro-batch has made something new to say; those that have ended come last.

    Nothing has to be remembered but the statistics before and after it, so a replay says the same again.

    Parameters
    ----------
    before, after
        Statistics of the emerged subclasses.
    events
        What was told after the micro-batch: whatever is told of is said, too.
    """
    told: set[int] = set()
    absorbed: dict[int, tuple[int, ...]] = {}
    for event in events:
        if isinstance(event, ev.SubclassMerged):
            absorbed[event.into] = (*absorbed.get(event.into, ()), event.subclass_id)
        told.update(getattr(event, name) for name in ("subclass_id", "new_id", "into") if hasattr(event, name))
    out = []
    for key, now in after.items():
        if key in told or key not in before or _level(before[key]) != _level(now):
            out.append(Said(key, now, absorbed.get(key, ())))
    return [*out, *(Said(key, None) for key in before if key not in after)]


def _level(statistics: Statistics) -> int:
    return math.floor(math.log(max(int(statistics.size[0]), 1), GROWN))
