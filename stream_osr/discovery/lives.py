"""The lives of all emerging subclasses of a chain: columns over them, and one by one for whoever deals with few."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from stream_osr.discovery.events import Moment
from stream_osr.discovery.life import RECENT, Member, Subclass, unite
from stream_osr.model.jit import kernel

NEVER = -(1 << 60)
"""Position of a member that is not there."""

_BEGINS = Subclass._field_defaults.items()
_PLAIN = {name: type(first) for name, first in _BEGINS if isinstance(first, bool | int | float)}

LIFE = np.dtype(
    [
        *(("first", "i8"), ("last", "i8")),
        *(("seq", "i8", RECENT), ("p_unknown", "f8", RECENT), ("batch", "i8", RECENT)),
        *_PLAIN.items(),
    ],
    align=True,
)
"""The numbers of a life: positions of the first and the latest member; position, p_unknown and batch of its latest
members, the last one last, before them places without one (``NEVER``); and those of a :class:`Subclass`."""
FIRST, LAST, LATEST = 0, 1, slice(2, 2 + RECENT)
"""Where the moments of these members are."""


class Lifecycle(NamedTuple):
    """All emerging subclasses of a chain, K of them, in the order in which they began.

    Attributes
    ----------
    ids
        Identities, shape (K,).
    lives
        Their numbers, shape (K,) of ``LIFE``.
    moments
        Time and key of the first, of the latest, and of each of the latest members, shape (K, 2 + RECENT, 2).
    kept
        As of a :class:`Subclass`, shape (K,).
    delta
        The latest estimate of the number of new classes.
    """

    ids: np.ndarray
    lives: np.ndarray
    moments: np.ndarray
    kept: np.ndarray
    delta: int

    @property
    def subclasses(self) -> Mapping[int, Subclass]:
        """The lives by identity, one by one, for whoever deals with few."""
        return _Lives(self)

    @property
    def emerged(self) -> np.ndarray:
        """Which have been announced, shape (K,)."""
        return self.lives["emerged"]

    @property
    def dormant(self) -> np.ndarray:
        """Which are asleep, shape (K,)."""
        return self.lives["dormant"]

    @property
    def muted(self) -> np.ndarray:
        """Of which nothing is told any more, shape (K,)."""
        return self.lives["muted"]

    @property
    def owned(self) -> np.ndarray:
        """Which describe a known class anew, shape (K,)."""
        return self.lives["owned"]

    @property
    def noticed(self) -> np.ndarray:
        """Which have been announced or muted, shape (K,)."""
        return np.asarray(self.emerged | self.muted)

    @property
    def settled(self) -> np.ndarray:
        """Which are no candidates for a new class: muted, or known, shape (K,)."""
        return np.asarray(self.muted | self.owned)

    @property
    def told_of(self) -> np.ndarray:
        """Which have been announced and are not muted, shape (K,)."""
        return np.asarray(self.emerged & ~self.muted)


class _Lives(Mapping[int, Subclass]):
    def __init__(self, life: Lifecycle) -> None:
        self._life = life

    def __getitem__(self, key: int) -> Subclass:
        found = np.flatnonzero(self._life.ids == key)
        if not len(found):
            raise KeyError(key)
        _, lives, moments, kept, _ = self._life
        at = int(found[0])
        numbers, (begun, latest, *what) = lives[at].item(), moments[at].tolist()
        seqs, p_unknown, batches = (column.tolist() for column in numbers[2:5])
        there = slice(seqs.count(NEVER), None)
        came = (Moment(seq, *one) for seq, one in zip(seqs[there], what[there], strict=True))
        recent = tuple(map(Member, came, p_unknown[there], batches[there]))
        own = dict(zip(_PLAIN, numbers[5:], strict=True))
        return Subclass(Moment(numbers[0], *begun), Moment(numbers[1], *latest), recent, kept=kept[at], **own)

    def __contains__(self, key: object) -> bool:
        return bool((self._life.ids == key).any())

    def __iter__(self) -> Iterator[int]:
        return iter(self._life.ids.tolist())

    def __len__(self) -> int:
        return len(self._life.ids)

    def __repr__(self) -> str:
        return repr(dict(self))


def lifecycle(subclasses: Mapping[int, Subclass] = {}, delta: int = 0) -> Lifecycle:
    """Put lives into columns."""
    n, empty = len(subclasses), RECENT
    lives, moments, kept = np.zeros(n, LIFE), np.empty((n, 2 + RECENT, 2), object), np.empty(n, object)
    lives["seq"] = NEVER
    for at, one in enumerate(subclasses.values()):
        empty = RECENT - len(one.recent)
        whole = one.first, one.last, *(member.moment for member in one.recent)
        moments[at, [FIRST, LAST, *range(2 + empty, 2 + RECENT)]] = np.array(whole, object)[:, 1:]
        lives["first"][at], lives["last"][at] = one.first.seq, one.last.seq
        for name in _PLAIN:
            lives[name][at] = getattr(one, name)
        if one.recent:
            lives["seq"][at, empty:] = [member.moment.seq for member in one.recent]
            lives["p_unknown"][at, empty:] = [member.p_unknown for member in one.recent]
            lives["batch"][at, empty:] = [member.batch for member in one.recent]
        kept[at] = one.kept
    return Lifecycle(np.fromiter(subclasses, np.int64, n), lives, moments, kept, delta)


def only(life: Lifecycle, chosen: np.ndarray) -> Lifecycle:
    """Choose lives by a mask of shape (K,), in a copy."""
    return Lifecycle._make([*(column[chosen] for column in life[:-1]), life.delta])


def noted(life: Lifecycle, keys: Sequence[int] | np.ndarray, **fields: Any) -> Lifecycle:
    """Write numbers of some lives anew."""
    if not len(keys):
        return life
    lives, at = life.lives.copy(), places_of(life.ids, np.asarray(keys, np.int64))
    for name, value in fields.items():
        lives[name][at] = value
    return life._replace(lives=lives)


def with_lives(life: Lifecycle, subclasses: Mapping[int, Subclass]) -> Lifecycle:
    """Write some lives anew; those of subclasses that had none come last."""
    more = lifecycle(subclasses)
    at = places_of(life.ids, more.ids)
    old, new = at >= 0, at < 0
    both = zip(life[:-1], more[:-1], strict=True)
    life = Lifecycle._make([*(np.concatenate([column, changed[new]]) for column, changed in both), life.delta])
    for column, changed in zip(life[:-1], more[:-1], strict=True):
        column[at[old]] = changed[old]
    return life


def without_lives(life: Lifecycle, keys: Collection[int]) -> Lifecycle:
    """Drop some lives."""
    return only(life, ~np.isin(life.ids, list(keys)))


def united(life: Lifecycle, older: int, younger: int) -> Lifecycle:
    """Let one life go on for two; either may be unknown here as yet."""
    lives = life.subclasses
    second = lives.get(younger)
    if second is None:
        return life
    one = unite(lives.get(older) or Subclass(second.first, second.last), second)
    return with_lives(without_lives(life, (younger,)), {older: one})


@kernel
def places_of(ids: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """Turn identities into places among distinct ones, -1 for those that are not there."""
    room = 2
    while room < 2 * len(ids):
        room *= 2
    table, out = np.full(room, -1), np.full(len(keys), -1)
    for k in range(len(ids)):
        at = ids[k] & (room - 1)
        while table[at] >= 0:
            at = (at + 1) & (room - 1)
        table[at] = k
    for i in range(len(keys)):
        at = keys[i] & (room - 1)
        while table[at] >= 0 and out[i] < 0:
            if ids[table[at]] == keys[i]:
                out[i] = table[at]
            at = (at + 1) & (room - 1)
    return out
