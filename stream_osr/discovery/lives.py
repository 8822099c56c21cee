"""The lives of all emerging subclasses of a chain: columns over them, and one by one for whoever deals with few."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from stream_osr.discovery.events import Moment
from stream_osr.discovery.life import MEMBER, MOMENT, RECENT, Member, Subclass, unite

NEVER = -(1 << 60)
"""Position of a member that is not there ..."""
NOBODY = np.full((1, RECENT), np.array((NEVER, None, None, 0.0, 0), MEMBER))
"""... and what stands in the places of a life without members; indexing is a quick way to have more of it."""

_BEGINS = Subclass._field_defaults.items()
_PLAIN: Mapping[str, Any] = {name: type(first) for name, first in _BEGINS if isinstance(first, bool | int | float)}
"""Columns of numbers."""


class Lifecycle(NamedTuple):
    """All emerging subclasses of a chain, K of them, in the order in which they began.

    Attributes
    ----------
    ids
        Identities, shape (K,).
    first, last
        First and latest members, shape (K,) of ``MOMENT``.
    recent
        Their latest members, the last one last, before them places without one (``NOBODY``), of ``MEMBER``, shape
        (K, RECENT).
    arrivals, emerged, dormant, announced_size, tried_size, kept, muted, owned, usual
        As of a :class:`Subclass`, shape (K,).
    delta
        The latest estimate of the number of new classes.
    """

    ids: np.ndarray
    first: np.ndarray
    last: np.ndarray
    recent: np.ndarray
    arrivals: np.ndarray
    emerged: np.ndarray
    dormant: np.ndarray
    announced_size: np.ndarray
    tried_size: np.ndarray
    kept: np.ndarray
    muted: np.ndarray
    owned: np.ndarray
    usual: np.ndarray
    delta: int

    @property
    def subclasses(self) -> Mapping[int, Subclass]:
        """The lives by identity, one by one, for whoever deals with few."""
        return _Lives(self)

    @property
    def told_of(self) -> np.ndarray:
        """Which have been announced and are not muted, shape (K,)."""
        return np.asarray(self.emerged & ~self.muted)


class _Lives(Mapping[int, Subclass]):
    def __init__(self, life: Lifecycle) -> None:
        self._life = life
        self._slot = {key: at for at, key in enumerate(life.ids.tolist())}

    def __getitem__(self, key: int) -> Subclass:
        at, life = self._slot[key], self._life
        first, last = (Moment(*member.tolist()) for member in (life.first[at], life.last[at]))
        there = life.recent[at][life.recent["seq"][at] > NEVER].tolist()
        recent = tuple(Member(Moment(*moment), p_unknown, batch) for *moment, p_unknown, batch in there)
        plain = {name: getattr(life, name)[at].item() for name in _PLAIN}
        return Subclass(first, last, recent, kept=life.kept[at], **plain)

    def __contains__(self, key: object) -> bool:
        return key in self._slot

    def __iter__(self) -> Iterator[int]:
        return iter(self._slot)

    def __len__(self) -> int:
        return len(self._slot)

    def __repr__(self) -> str:
        return repr(dict(self))


def lifecycle(subclasses: Mapping[int, Subclass] = {}, delta: int = 0) -> Lifecycle:
    """Put lives into columns."""
    life = unborn(np.fromiter(subclasses, np.int64, len(subclasses)), delta)
    for at, one in enumerate(subclasses.values()):
        life.first[at], life.last[at] = tuple(one.first), tuple(one.last)
        life.recent[at, RECENT - len(one.recent) :] = [(*m.moment, m.p_unknown, m.batch) for m in one.recent]
        for name in (*_PLAIN, "kept"):
            getattr(life, name)[at] = getattr(one, name)
    return life


def unborn(ids: np.ndarray, delta: int) -> Lifecycle:
    """Give subclasses lives in which nothing has happened yet."""
    n = len(ids)
    first, last, recent = np.zeros(n, MOMENT), np.zeros(n, MOMENT), NOBODY[np.zeros(n, np.int64)]
    first["seq"], last["seq"] = -NEVER, NEVER
    plain = {name: np.zeros(n, kind) for name, kind in _PLAIN.items()}
    return Lifecycle(ids, first, last, recent, kept=np.full(n, None), delta=delta, **plain)


def only(life: Lifecycle, chosen: np.ndarray) -> Lifecycle:
    """Choose lives by a mask of shape (K,)."""
    return Lifecycle._make([*(column[chosen] for column in life[:-1]), life.delta])


def with_lives(life: Lifecycle, subclasses: Mapping[int, Subclass]) -> Lifecycle:
    """Write some lives anew; those of subclasses that had none come last."""
    more = lifecycle(subclasses)
    at = places_of(life.ids, more.ids)
    old, new = at >= 0, at < 0
    life = joined(life, only(more, new))
    for column, changed in zip(life[:-1], more[:-1], strict=True):
        column[at[old]] = changed[old]
    return life


def without_lives(life: Lifecycle, keys: Collection[int]) -> Lifecycle:
    """Drop some lives."""
    return only(life, ~np.isin(life.ids, list(keys)))


def joined(life: Lifecycle, more: Lifecycle) -> Lifecycle:
    """Put lives after others, in a copy."""
    return Lifecycle._make([*map(np.concatenate, zip(life[:-1], more[:-1], strict=True)), life.delta])


def united(life: Lifecycle, older: int, younger: int) -> Lifecycle:
    """Let one life go on for two; either may be unknown here as yet."""
    lives = life.subclasses
    second = lives.get(younger)
    if second is None:
        return life
    one = unite(lives.get(older) or Subclass(second.first, second.last), second)
    return with_lives(without_lives(life, (younger,)), {older: one})


def places_of(ids: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """Turn identities into places among distinct ones, -1 for those that are not there."""
    order = np.argsort(ids)
    found = np.append(order, -1)[np.searchsorted(ids[order], keys)]
    return np.asarray(np.where(np.append(ids, -1)[found] == keys, found, -1))
