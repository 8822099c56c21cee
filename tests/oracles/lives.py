"""The lives of emerging subclasses, one member after the other."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import reduce
from math import exp2
from operator import add

from stream_osr.discovery.event_base import Moment
from stream_osr.discovery.histories import SubclassHistory, SubclassMember
from stream_osr.discovery.lifecycle import LifecycleChanges


def observe(
    lives: Mapping[int, SubclassHistory],
    arrivals: Sequence[tuple[int, SubclassMember]],
    moves: Sequence[tuple[int, int, SubclassMember]],
    sizes: Mapping[int, int],
    served: Collection[int],
) -> tuple[dict[int, SubclassHistory], LifecycleChanges]:
    """Follow one micro-batch: arrivals (subclass, member), moves (from, to, member), sizes of those on the menu."""
    lives = dict(lives)
    for was, _, member in moves:
        if was in lives:
            stayed = tuple(m for m in lives[was].recent if m.moment.seq != member.moment.seq)
            lives[was] = lives[was]._replace(recent=stayed)
    came = [(now, member, False) for _, now, member in moves] + [(key, member, True) for key, member in arrivals]
    for key in dict.fromkeys(key for key, _, _ in came if key in sizes):
        own = [(member, new) for other, member, new in came if other == key]
        lives[key] = _taken_in(lives.get(key), own)
    emerged, grew, dormant, recurred = [], [], [], []
    for key, life in lives.items():
        size = sizes.get(key, 0)
        if life.muted or life.owned:
            continue
        if not life.emerged:
            several = size >= 8 or len({m.batch for m in life.recent}) >= 2
            if size >= 5 and several and any(_are_new(life, count, 16 * count**2) for count in range(5, 17)):
                emerged.append(key)
        elif life.dormant:
            if _are_new(life, 4, 640):
                recurred.append(key)
        elif size and key not in served:
            dormant.append(key)
        elif size >= 2 * life.announced_size:
            grew.append(key)
    for key in (*emerged, *grew, *recurred):
        size = max(sizes.get(key, 0), lives[key].announced_size)
        lives[key] = lives[key]._replace(emerged=True, dormant=False, announced_size=size)
    for key in dormant:
        lives[key] = lives[key]._replace(dormant=True, recent=())
    return lives, LifecycleChanges(tuple(emerged), tuple(grew), tuple(dormant), tuple(recurred))


def _taken_in(life: SubclassHistory | None, came: Sequence[tuple[SubclassMember, bool]]) -> SubclassHistory:
    moments = [member.moment for member, _ in came]
    earliest, latest = min(moments, key=_position), max(moments, key=_position)
    life = life or SubclassHistory(earliest, earliest)
    last = max(life.last, latest, key=_position)
    ages = [last.seq - member.moment.seq for member, arrived in came if arrived]
    gone = last.seq - life.last.seq
    recent = sorted([*life.recent, *(member for member, _ in came)], key=lambda member: member.moment.seq)
    return life._replace(
        first=min(life.first, earliest, key=_position),
        last=last,
        recent=tuple(recent[-16:]),
        arrivals=life.arrivals * exp2(-gone / 300.0) + _added(exp2(-age / 300.0) for age in ages),
        usual=life.usual * exp2(-gone / 4000.0) + _added(exp2(-age / 4000.0) for age in ages),
    )


def _position(moment: Moment) -> int:
    return moment.seq


def _added(values: Iterable[float]) -> float:
    """Add up in order; from Python 3.12 on `sum` corrects its rounding."""
    return reduce(add, values, 0.0)


def _are_new(life: SubclassHistory, count: int, within: int) -> bool:
    latest = life.recent[-count:]
    return (
        len(latest) == count
        and latest[-1].moment.seq - latest[0].moment.seq < within
        and _added(member.p_unknown for member in latest) >= 0.9 * count
    )
