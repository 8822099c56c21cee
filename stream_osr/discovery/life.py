"""The life of one emerging subclass, for whoever deals with few: what is done to many is in columns (`lifecycle`)."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import NamedTuple

import numpy as np

from stream_osr.discovery.events import Moment
from stream_osr.discovery.reservoir import Reservoir, offer, without
from stream_osr.model.jit import borrowing_kernel

RECENT = 16
"""Members that are remembered one by one: some may leave."""
TREND_HALF_LIFE = 300.0
"""Instances after which an arrival counts half in the trend."""
USUAL_HALF_LIFE = 4000.0
"""Instances after which it counts half in the usual rate of its subclass."""


class Member(NamedTuple):
    """An instance of an emerging subclass: its place, its p_unknown at once, position of the first of its batch."""

    moment: Moment
    p_unknown: float
    batch: int


class Subclass(NamedTuple):
    """What is remembered of an emerging subclass beside its statistics.

    Attributes
    ----------
    first, last
        First and latest member.
    recent
        The latest members, at most ``RECENT``; since it fell asleep, if it did.
    arrivals
        All that arrived in it, as of position ``last``, faded.
    emerged
        It has been announced.
    dormant
        All its seats have faded, and it has not been announced as back.
    announced_size
        Its size when it was last told of.
    tried_size
        Its size when it was last tried to part it.
    kept
        A sample of its rows, once it has emerged.
    muted
        Nothing is told of it any more: a person knows it and does not care.
    owned
        It describes a known class anew, and is not new.
    usual
        As ``arrivals``, but faded more slowly: how often it has come for long.
    """

    first: Moment
    last: Moment
    recent: tuple[Member, ...] = ()
    arrivals: float = 0.0
    emerged: bool = False
    dormant: bool = False
    announced_size: int = 0
    tried_size: int = 0
    kept: Reservoir | None = None
    muted: bool = False
    owned: bool = False
    usual: float = 0.0


@borrowing_kernel
def faded(instances: int, half_life: float) -> float:
    """Say what an arrival counts so many instances later."""
    return math.exp2(-instances / half_life)


def trend(subclass: Subclass, seq: int) -> float:
    """Arrivals per 1000 instances of the stream, lately, as of position ``seq``.

    Examples
    --------
    One in two of the first six, three instances ago:

    >>> lately = Subclass(Moment(0, None, None), Moment(5, None, None), arrivals=3.0)
    >>> round(trend(lately, 8))
    334
    """
    weight = (1.0 - faded(seq + 1 - subclass.first.seq, TREND_HALF_LIFE)) / (1.0 - faded(1, TREND_HALF_LIFE))
    return 1000.0 * subclass.arrivals * faded(seq - subclass.last.seq, TREND_HALF_LIFE) / max(weight, 1.0)


def leave(subclass: Subclass, seqs: Collection[int]) -> Subclass:
    """Forget the members at these positions: they are another's."""
    recent = tuple(m for m in subclass.recent if m.moment.seq not in seqs)
    kept = None if subclass.kept is None else without(subclass.kept, np.array(sorted(seqs)))
    return subclass._replace(recent=recent, kept=kept)


def unite(older: Subclass, younger: Subclass) -> Subclass:
    """Make one life of those of two subclasses that have turned out to be one. It is announced if the older was."""
    both, kept = (older, younger), older.kept
    if older.kept is not None and younger.kept is not None:
        kept = offer(older.kept, *younger.kept[:3])
    last = max((one.last for one in both), key=lambda moment: moment.seq)
    return older._replace(
        first=min((one.first for one in both), key=lambda moment: moment.seq),
        last=last,
        recent=tuple(sorted((*older.recent, *younger.recent), key=lambda m: m.moment.seq)[-RECENT:]),
        arrivals=sum(one.arrivals * faded(last.seq - one.last.seq, TREND_HALF_LIFE) for one in both),
        usual=sum(one.usual * faded(last.seq - one.last.seq, USUAL_HALF_LIFE) for one in both),
        dormant=older.dormant and (younger.dormant or not younger.emerged),
        kept=kept,
    )
