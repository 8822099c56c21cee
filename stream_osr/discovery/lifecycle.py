"""The life of emerging subclasses: candidate, emerged, dormant, recurred, forgotten. Values in, values out.

Matching from batch to batch is by construction: the sampler carries its state, and a subclass keeps its
identity as long as it has one guest or one place on the menu.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from stream_osr.discovery.events import Moment
from stream_osr.discovery.reservoir import Reservoir, offer, without

EMERGES_WITH = 8
"""Arrivals in a subclass (and as many that have stayed) ..."""
EMERGES_WITHIN = 640
"""... within so many instances of the stream ..."""
EMERGES_ABOVE = 0.9
"""... with at least this mean probability of being unknown, and it is announced ..."""
BURST = 2 * EMERGES_WITH
"""... if they came in more than one batch, or it has so many instances."""
HELD_WITH = EMERGES_WITH // 2
"""An emerged subclass with fewer instances (others have moved) is not held. So many arrivals wake a dormant one."""
EXEMPLARS = 5
TREND_HALF_LIFE = 300.0
"""Instances after which an arrival counts half in the trend."""


class Arrival(NamedTuple):
    """An instance that took a seat in an emerging subclass: its place, its p_unknown, the number of its batch."""

    moment: Moment
    p_unknown: float
    batch: int


class Subclass(NamedTuple):
    """What is remembered of an emerging subclass beside its statistics.

    Attributes
    ----------
    first, last
        First and latest arrival.
    recent
        The latest arrivals, at most ``EMERGES_WITH``; since it fell asleep, if it did.
    arrivals
        All arrivals as of the latest one, faded.
    emerged
        It has been announced.
    dormant
        All its seats have faded, and it has not been announced as back.
    announced_size
        Its size when it was last told of.
    kept
        A sample of its rows, once it has emerged.
    """

    first: Moment
    last: Moment
    recent: tuple[Arrival, ...] = ()
    arrivals: float = 0.0
    emerged: bool = False
    dormant: bool = False
    announced_size: int = 0
    kept: Reservoir | None = None


class Lifecycle(NamedTuple):
    """All emerging subclasses by identity, and the latest estimate of the number of new classes."""

    subclasses: Mapping[int, Subclass] = {}
    delta: int = 0


class Changes(NamedTuple):
    """What a batch changed: identities of subclasses that emerged, doubled, fell asleep, came back."""

    emerged: tuple[int, ...]
    grew: tuple[int, ...]
    dormant: tuple[int, ...]
    recurred: tuple[int, ...]


def observe(
    life: Lifecycle, arrivals: Sequence[tuple[int, Arrival]], sizes: Mapping[int, int], served: Collection[int]
) -> tuple[Lifecycle, Changes]:
    """Follow one micro-batch.

    Parameters
    ----------
    life
        The lives so far; it does not change.
    arrivals
        Subclass and arrival of each instance of the batch that took a seat in an emerging subclass, in order.
    sizes
        Instances in each subclass that is on the menu after the batch.
    served
        Those of them that a table serves.
    """
    lives = dict(life.subclasses)
    together: dict[int, list[Arrival]] = {}
    for key, arrival in arrivals:
        together.setdefault(key, []).append(arrival)
    for key, came in together.items():
        lives[key] = _arrive(lives.get(key), came)
    emerged, grew, dormant, recurred = [], [], [], []
    for key, subclass in lives.items():
        size = sizes.get(key, 0)
        if not subclass.emerged:
            if _has_support(subclass.recent, size):
                emerged.append(key)
        elif subclass.dormant:
            if _is_back(subclass.recent):
                recurred.append(key)
        elif size and key not in served:
            dormant.append(key)
        elif size >= 2 * subclass.announced_size:
            grew.append(key)
    for key in emerged:
        lives[key] = lives[key]._replace(emerged=True)
    for key in (*emerged, *grew, *recurred):
        size = max(sizes[key], lives[key].announced_size)
        lives[key] = lives[key]._replace(dormant=False, announced_size=size)
    for key in dormant:
        lives[key] = lives[key]._replace(dormant=True, recent=())
    return life._replace(subclasses=lives), Changes(tuple(emerged), tuple(grew), tuple(dormant), tuple(recurred))


def _arrive(old: Subclass | None, came: Sequence[Arrival]) -> Subclass:
    first, last = came[0].moment, came[-1].moment
    if old is None:
        old = Subclass(first, first)
    count = old.arrivals * _faded(last.seq - old.last.seq)
    count += sum(_faded(last.seq - arrival.moment.seq) for arrival in came)
    recent = (*old.recent, *came[-EMERGES_WITH:])[-EMERGES_WITH:]
    return old._replace(last=last, recent=recent, arrivals=count)


def _faded(instances: int) -> float:
    return math.exp2(-instances / TREND_HALF_LIFE)


def trend(subclass: Subclass, seq: int) -> float:
    """Arrivals per 1000 instances of the stream, lately, as of position ``seq``.

    Examples
    --------
    One in four:

    >>> came = [Arrival(Moment(i, None, None), 1.0, 0) for i in range(0, 40, 4)]
    >>> life, _ = observe(Lifecycle(), [(7, arrival) for arrival in came], {7: 10}, {7})
    >>> round(trend(life.subclasses[7], 39))
    252
    """
    weight = (1.0 - _faded(seq + 1 - subclass.first.seq)) / (1.0 - _faded(1))
    return 1000.0 * subclass.arrivals * _faded(seq - subclass.last.seq) / max(weight, 1.0)


def _has_support(recent: Sequence[Arrival], size: int) -> bool:
    return (
        len(recent) == EMERGES_WITH <= size
        and (size >= BURST or recent[0].batch < recent[-1].batch)
        and recent[-1].moment.seq - recent[0].moment.seq < EMERGES_WITHIN
        and sum(arrival.p_unknown for arrival in recent) >= EMERGES_ABOVE * EMERGES_WITH
    )


def _is_back(recent: Sequence[Arrival]) -> bool:
    latest = recent[-HELD_WITH:]
    return (
        len(latest) == HELD_WITH
        and latest[-1].moment.seq - latest[0].moment.seq < EMERGES_WITHIN
        and sum(arrival.p_unknown for arrival in latest) >= EMERGES_ABOVE * HELD_WITH
    )


def unite(older: Subclass, younger: Subclass) -> Subclass:
    """Make one life of those of two subclasses that have turned out to be one."""
    first = min(older.first, younger.first, key=lambda moment: moment.seq)
    last = max(older.last, younger.last, key=lambda moment: moment.seq)
    kept = older.kept or younger.kept
    if older.kept is not None and younger.kept is not None:
        kept = offer(older.kept, *younger.kept)
    return older._replace(
        first=first,
        last=last,
        recent=tuple(sorted((*older.recent, *younger.recent), key=lambda a: a.moment.seq)[-EMERGES_WITH:]),
        arrivals=sum(one.arrivals * _faded(last.seq - one.last.seq) for one in (older, younger)),
        emerged=older.emerged or younger.emerged,
        dormant=all(one.dormant for one in (older, younger) if one.emerged) and (older.emerged or younger.emerged),
        announced_size=max(older.announced_size, younger.announced_size),
        kept=kept,
    )


def without_row(life: Lifecycle, key: int, seq: int) -> Lifecycle:
    """Let go of a row that was kept of a subclass, if it was."""
    subclass = life.subclasses.get(key)
    if subclass is None or subclass.kept is None:
        return life
    kept = without(subclass.kept, np.array([seq]))
    return life._replace(subclasses={**life.subclasses, key: subclass._replace(kept=kept)})


def forget(life: Lifecycle, alive: Collection[int]) -> tuple[Lifecycle, dict[int, Subclass]]:
    """Drop the lives of subclasses that have left the model.

    Returns
    -------
    The lives of those alive, and the lives that ended of those that had been announced.
    """
    kept = {key: subclass for key, subclass in life.subclasses.items() if key in alive}
    ended = {key: s for key, s in life.subclasses.items() if key not in alive and s.emerged}
    return life._replace(subclasses=kept), ended


def best_supported(
    life: Lifecycle, keys: Collection[int], support: Mapping[int, float], sizes: Mapping[int, int], most: int
) -> set[int]:
    """Choose ``most`` of some subclasses: those with most seats, then the largest, then those seen last."""
    order = sorted(keys, key=lambda key: (support.get(key, 0.0), sizes[key], life.subclasses[key].last.seq, key))
    return set(order[max(len(order) - most, 0) :])


def estimate_new_classes(n_emerged: int, n_known_subclasses: int, n_known_classes: int) -> int:
    """Equation (14): ``floor(|S_unknown| / (|S_known| / (J - 1)) + 1/2)``; J - 1 is the number of known classes.

    Examples
    --------
    >>> estimate_new_classes(14, 19, 5)  # the paper's USPS example
    4
    """
    return int(np.floor(n_emerged / max(n_known_subclasses / n_known_classes, 1e-12) + 0.5))
