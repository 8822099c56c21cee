"""The life of emerging subclasses: candidate, emerged, dormant, recurred, forgotten. Values in, values out.

Matching from batch to batch is by construction: the sampler carries its state, and a subclass keeps its
identity as long as it has one guest or one place on the menu.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from stream_osr.discovery.events import Moment
from stream_osr.discovery.reservoir import Reservoir, offer, without

EMERGES_WITH = 5
"""The latest r members of a subclass, those included that the window re-seated, r from this to ``RECENT`` ..."""
EMERGES_ABOVE = 0.9
"""... have at least this mean probability of being unknown ..."""
EMERGES_WITHIN = 16
"""... and came within so many times r^2 instances of the stream, and it is announced: the more slowly it gathers, the
more there must be ..."""
BURST = 8
"""... if they came in more than one batch, or it has so many members."""
WAKES_WITHIN = 640
"""The members that wake a dormant one came within so many instances."""
RECENT = 16
"""Members that are remembered one by one: some may leave."""
HELD_WITH = 4
"""An emerged subclass with fewer instances is not held: the others have moved. So many new ones wake it."""
EXEMPLARS = 5
TREND_HALF_LIFE = 300.0
"""Instances after which an arrival counts half in the trend."""
USUAL_HALF_LIFE = 4000.0
"""Instances after which it counts half in the usual rate of its subclass."""
NOTICED_BY = 256.0
"""What is usual of a subclass that has brought so many instances is its rate since it began; before, nothing is."""
RISES_ABOVE = 2.0
"""A subclass comes more often than usual if it does so many times as often."""


class Member(NamedTuple):
    """An instance of an emerging subclass: its place, its p_unknown at once, position of the first of its batch."""

    moment: Moment
    p_unknown: float
    batch: int


MEMBER = np.dtype([("seq", "i8"), ("t", "O"), ("key", "O"), ("p_unknown", "f8"), ("batch", "i8")])
"""A `Member` in a column."""


def as_members(column: np.ndarray) -> tuple[Member, ...]:
    """Read a column of ``MEMBER``."""
    return tuple(Member(Moment(seq, t, key), p_unknown, batch) for seq, t, key, p_unknown, batch in column.tolist())


class Move(NamedTuple):
    """A member that was re-seated: from one subclass to another, -1: to or from a known class."""

    was: int
    now: int
    member: Member


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
    life: Lifecycle,
    arrivals: Sequence[tuple[int, Member]],
    moves: Sequence[Move],
    sizes: Mapping[int, int],
    served: Collection[int],
    stands_out: Callable[[int, Subclass], bool] = lambda key, subclass: True,
) -> tuple[Lifecycle, Changes]:
    """Follow one micro-batch.

    Parameters
    ----------
    life
        The lives so far; it does not change.
    arrivals
        Subclass and instance, for each of the batch that took a seat in an emerging subclass, in order.
    moves
        Earlier instances that the window re-seated.
    sizes
        Instances in each subclass that is on the menu after the batch.
    served
        Those of them that a table serves.
    stands_out
        Asked of a candidate that has support: is it more than instances that resemble nothing?
    """
    lives = dict(life.subclasses)
    left: dict[int, set[int]] = {}
    came: dict[int, list[Member]] = {}
    arrived: dict[int, list[Member]] = {}
    for move in moves:
        left.setdefault(move.was, set()).add(move.member.moment.seq)
        if move.now in sizes:
            came.setdefault(move.now, []).append(move.member)
    for key, member in arrivals:
        came.setdefault(key, []).append(member)
        arrived.setdefault(key, []).append(member)
    for key in left.keys() & lives.keys():
        stayed = tuple(m for m in lives[key].recent if m.moment.seq not in left[key])
        lives[key] = lives[key]._replace(recent=stayed)
    for key, members in came.items():
        lives[key] = _take_in(lives.get(key), members, arrived.get(key, ()))
    emerged, grew, dormant, recurred = [], [], [], []
    for key, subclass in lives.items():
        size = sizes.get(key, 0)
        if subclass.muted or subclass.owned:
            continue
        if not subclass.emerged:
            if _has_support(subclass.recent, size) and stands_out(key, subclass):
                emerged.append(key)
        elif subclass.dormant:
            if _are_new(subclass.recent, HELD_WITH, WAKES_WITHIN):
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


def _take_in(old: Subclass | None, came: Sequence[Member], arrived: Sequence[Member]) -> Subclass:
    """Note new members, and which of them have just arrived."""
    moments = [member.moment for member in came]
    if old is None:
        first = min(moments, key=_position)
        old = Subclass(first, first)
    last = max(old.last, *moments, key=_position)
    ages = [last.seq - member.moment.seq for member in arrived]
    count = old.arrivals * _faded(last.seq - old.last.seq) + sum(map(_faded, ages))
    usual = old.usual * _slowly(last.seq - old.last.seq) + sum(map(_slowly, ages))
    recent = sorted((*old.recent, *came), key=lambda member: member.moment.seq)
    first = min(old.first, *moments, key=_position)
    return old._replace(first=first, last=last, recent=tuple(recent[-RECENT:]), arrivals=count, usual=usual)


def _position(moment: Moment) -> int:
    return moment.seq


def _faded(instances: int) -> float:
    return math.exp2(-instances / TREND_HALF_LIFE)


def _slowly(instances: int) -> float:
    return math.exp2(-instances / USUAL_HALF_LIFE)


def trend(subclass: Subclass, seq: int) -> float:
    """Arrivals per 1000 instances of the stream, lately, as of position ``seq``.

    Examples
    --------
    One in four:

    >>> came = [Member(Moment(i, None, None), 1.0, 0) for i in range(0, 40, 4)]
    >>> life, _ = observe(Lifecycle(), [(7, member) for member in came], [], {7: 10}, {7})
    >>> round(trend(life.subclasses[7], 39))
    249
    """
    weight = (1.0 - _faded(seq + 1 - subclass.first.seq)) / (1.0 - _faded(1))
    return 1000.0 * subclass.arrivals * _faded(seq - subclass.last.seq) / max(weight, 1.0)


def comes_as_usual(subclass: Subclass, seq: int) -> bool:
    """Say whether a subclass, as of position ``seq``, has come for long about as often as it does lately.

    Nothing is usual of one that has begun within the last ``USUAL_HALF_LIFE`` instances, unless it has brought
    ``NOTICED_BY`` since: a class whose place it had taken would have been missed by then.

    Examples
    --------
    One in four, since a while, and since long:

    >>> came = [Member(Moment(i, None, None), 1.0, 0) for i in range(0, 8000, 4)]
    >>> life, _ = observe(Lifecycle(), [(7, member) for member in came[:200]], [], {7: 200}, {7})
    >>> comes_as_usual(life.subclasses[7], 800)
    False
    >>> life, _ = observe(life, [(7, member) for member in came[200:]], [], {7: 2000}, {7})
    >>> comes_as_usual(life.subclasses[7], 8000)
    True
    """
    ago = seq - subclass.last.seq
    lately, usual = subclass.arrivals * _faded(ago) / TREND_HALF_LIFE, subclass.usual * _slowly(ago)
    weight = 1.0 - _slowly(seq - subclass.first.seq) if usual >= NOTICED_BY else 1.0
    return lately * weight < RISES_ABOVE * usual / USUAL_HALF_LIFE


def _has_support(recent: Sequence[Member], size: int) -> bool:
    if size < EMERGES_WITH or (size < BURST and _in_batches(recent) < 2):
        return False
    return any(_are_new(recent, count, EMERGES_WITHIN * count**2) for count in range(EMERGES_WITH, RECENT + 1))


def _in_batches(recent: Sequence[Member]) -> int:
    return len({member.batch for member in recent})


def _are_new(recent: Sequence[Member], count: int, within: int) -> bool:
    """Say whether the latest so many members came close together and were taken for unknown."""
    latest = recent[-count:]
    return (
        len(latest) == count
        and latest[-1].moment.seq - latest[0].moment.seq < within
        and sum(member.p_unknown for member in latest) >= EMERGES_ABOVE * count
    )


def begin_emerged(came: Sequence[Member]) -> Subclass:
    """Begin the life of a subclass that is announced at once, with these instances."""
    return _take_in(None, came, came)._replace(emerged=True, announced_size=len(came))


def leave(subclass: Subclass, seqs: Collection[int]) -> Subclass:
    """Forget the members at these positions: they are another's."""
    recent = tuple(m for m in subclass.recent if m.moment.seq not in seqs)
    kept = None if subclass.kept is None else without(subclass.kept, np.array(sorted(seqs)))
    return subclass._replace(recent=recent, kept=kept)


def unite(older: Subclass, younger: Subclass) -> Subclass:
    """Make one life of those of two subclasses that have turned out to be one. It is announced if the older was."""
    first = min(older.first, younger.first, key=_position)
    last = max(older.last, younger.last, key=_position)
    kept = older.kept
    if older.kept is not None and younger.kept is not None:
        kept = offer(older.kept, *younger.kept[:3])
    return older._replace(
        first=first,
        last=last,
        recent=tuple(sorted((*older.recent, *younger.recent), key=lambda m: m.moment.seq)[-RECENT:]),
        arrivals=sum(one.arrivals * _faded(last.seq - one.last.seq) for one in (older, younger)),
        usual=sum(one.usual * _slowly(last.seq - one.last.seq) for one in (older, younger)),
        dormant=older.dormant and (younger.dormant or not younger.emerged),
        kept=kept,
        muted=older.muted,
    )


def without_row(life: Lifecycle, key: int, seq: int) -> Lifecycle:
    """Let go of a row that was kept of a subclass, if it was."""
    subclass = life.subclasses.get(key)
    if subclass is None or subclass.kept is None:
        return life
    kept = without(subclass.kept, np.array([seq]))
    return life._replace(subclasses={**life.subclasses, key: subclass._replace(kept=kept)})


def own(life: Lifecycle, keys: Collection[int]) -> tuple[Lifecycle, tuple[int, ...]]:
    """Say which subclasses describe a known class anew. One that was announced is a candidate again, and returned."""
    lives = dict(life.subclasses)
    refuted = []
    for key, subclass in life.subclasses.items():
        owned = key in keys and not subclass.muted
        if owned and subclass.emerged:
            refuted.append(key)
            lives[key] = subclass._replace(owned=True, emerged=False, dormant=False, recent=(), kept=None)
        elif owned != subclass.owned:
            lives[key] = subclass._replace(owned=owned)
    return life._replace(subclasses=lives), tuple(refuted)


def forget(life: Lifecycle, alive: Collection[int]) -> tuple[Lifecycle, dict[int, Subclass]]:
    """Drop the lives of subclasses that have left the model.

    Returns
    -------
    The lives of those alive, and the lives that ended of those that had been announced (and not muted since).
    """
    kept = {key: subclass for key, subclass in life.subclasses.items() if key in alive}
    ended = {key: s for key, s in life.subclasses.items() if key not in alive and s.emerged and not s.muted}
    return life._replace(subclasses=kept), ended


def best_supported(
    life: Lifecycle, keys: Collection[int], support: Mapping[int, float], sizes: Mapping[int, int], most: int
) -> set[int]:
    """Choose ``most`` of some subclasses: muted ones, those with most seats, the largest, those seen last.

    Muted ones come first: off the menu they would come back as something new.
    """

    def rank(key: int) -> tuple[bool, float, int, int, int]:
        subclass = life.subclasses[key]
        return subclass.muted, support.get(key, 0.0), sizes[key], subclass.last.seq, key

    order = sorted(keys, key=rank)
    return set(order[max(len(order) - most, 0) :])


def worth_telling(life: Lifecycle) -> tuple[int, ...]:
    """Identities of the emerged subclasses that are not muted."""
    return tuple(key for key, subclass in life.subclasses.items() if subclass.emerged and not subclass.muted)


def estimate_new_classes(n_emerged: int, n_known_subclasses: int, n_known_classes: int) -> int:
    """Equation (14): ``floor(|S_unknown| / (|S_known| / (J - 1)) + 1/2)``; J - 1 is the number of known classes.

    Examples
    --------
    >>> estimate_new_classes(14, 19, 5)  # the paper's USPS example
    4
    """
    return int(np.floor(n_emerged / max(n_known_subclasses / n_known_classes, 1e-12) + 0.5))
