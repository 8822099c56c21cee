"""Lives of emerging subclasses: one by one, in columns, and what members that come and go change.

The lives of all emerging subclasses of a chain: columns over them, and one by one for whoever deals with few.

The life of one emerging subclass, for whoever deals with few: what is done to many is in columns (`lifecycle`).

Members of emerging subclasses in columns, and what lives note of those that come and go; compiled.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from stream_osr.discovery.events import Moment
from stream_osr.discovery.reservoir import Reservoir, offer, without
from stream_osr.model.jit import Array, borrowing_kernel, kernel

RECENT = 16
"""Members that are remembered one by one: some may leave."""
TREND_HALF_LIFE = 300.0
"""Instances after which an arrival counts half in the trend."""
USUAL_HALF_LIFE = 4000.0
"""Instances after which it counts half in the usual rate of its subclass."""


class SubclassMember(NamedTuple):
    """An instance of an emerging subclass: its place, its p_unknown at once, position of the first of its batch."""

    moment: Moment
    p_unknown: float
    batch: int


class SubclassHistory(NamedTuple):
    """History of an emerging subclass beside its statistics.

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
    recent: tuple[SubclassMember, ...] = ()
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


def trend(subclass: SubclassHistory, seq: int) -> float:
    """Arrivals per 1000 instances of the stream, lately, as of position ``seq``.

    Examples
    --------
    One in two of the first six, three instances ago:

    >>> lately = SubclassHistory(Moment(0, None, None), Moment(5, None, None), arrivals=3.0)
    >>> round(trend(lately, 8))
    334
    """
    weight = (1.0 - faded(seq + 1 - subclass.first.seq, TREND_HALF_LIFE)) / (1.0 - faded(1, TREND_HALF_LIFE))
    return 1000.0 * subclass.arrivals * faded(seq - subclass.last.seq, TREND_HALF_LIFE) / max(weight, 1.0)


def leave(subclass: SubclassHistory, seqs: Collection[int]) -> SubclassHistory:
    """Forget the members at these positions: they are another's."""
    recent = tuple(m for m in subclass.recent if m.moment.seq not in seqs)
    kept = None if subclass.kept is None else without(subclass.kept, np.array(sorted(seqs)))
    return subclass._replace(recent=recent, kept=kept)


def unite(older: SubclassHistory, younger: SubclassHistory) -> SubclassHistory:
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


NEVER = -(1 << 60)
"""Position of a member that is not there."""

_BEGINS = SubclassHistory._field_defaults.items()
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
members, the last one last, before them places without one (``NEVER``); and those of a :class:`SubclassHistory`."""
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
        As of a :class:`SubclassHistory`, shape (K,).
    delta
        The latest estimate of the number of new classes.
    """

    ids: Array
    lives: Array
    moments: Array
    kept: Array
    delta: int

    @property
    def subclasses(self) -> Mapping[int, SubclassHistory]:
        """The lives by identity, one by one, for whoever deals with few."""
        return _Lives(self)

    @property
    def emerged(self) -> Array:
        """Mask of announced subclasses, shape (K,)."""
        return self.lives["emerged"]

    @property
    def dormant(self) -> Array:
        """Mask of dormant subclasses, shape (K,)."""
        return self.lives["dormant"]

    @property
    def muted(self) -> Array:
        """Mask of muted subclasses, shape (K,)."""
        return self.lives["muted"]

    @property
    def owned(self) -> Array:
        """Mask of subclasses that describe a known class anew, shape (K,)."""
        return self.lives["owned"]

    @property
    def asleep(self) -> np.ndarray:
        """Which are dormant and not muted, shape (K,)."""
        return np.asarray(self.dormant & ~self.muted)

    @property
    def noticed(self) -> Array:
        """Which have been announced or muted, shape (K,)."""
        return np.asarray(self.emerged | self.muted)

    @property
    def announced_unmuted(self) -> Array:
        """Mask of subclasses that have been announced and are not muted, shape (K,)."""
        return np.asarray(self.emerged & ~self.muted)


class _Lives(Mapping[int, SubclassHistory]):
    def __init__(self, life: Lifecycle) -> None:
        self._life = life

    def __getitem__(self, key: int) -> SubclassHistory:
        found = np.flatnonzero(self._life.ids == key)
        if not len(found):
            raise KeyError(key)
        _, lives, moments, kept, _ = self._life
        at = int(found[0])
        numbers, (begun, latest, *what) = lives[at].item(), moments[at].tolist()
        seqs, p_unknown, batches = (column.tolist() for column in numbers[2:5])
        there = slice(seqs.count(NEVER), None)
        came = (Moment(seq, *one) for seq, one in zip(seqs[there], what[there], strict=True))
        recent = tuple(map(SubclassMember, came, p_unknown[there], batches[there]))
        own = dict(zip(_PLAIN, numbers[5:], strict=True))
        return SubclassHistory(Moment(numbers[0], *begun), Moment(numbers[1], *latest), recent, kept=kept[at], **own)

    def __contains__(self, key: object) -> bool:
        return bool((self._life.ids == key).any())

    def __iter__(self) -> Iterator[int]:
        return iter(self._life.ids.tolist())

    def __len__(self) -> int:
        return len(self._life.ids)


def lifecycle(subclasses: Mapping[int, SubclassHistory] = {}, delta: int = 0) -> Lifecycle:
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


def only(life: Lifecycle, chosen: Array) -> Lifecycle:
    """Choose lives by a mask of shape (K,), in a copy."""
    return Lifecycle._make([*(column[chosen] for column in life[:-1]), life.delta])


def noted(life: Lifecycle, keys: Sequence[int] | Array, **fields: Any) -> Lifecycle:
    """Write numbers of some lives anew."""
    if not len(keys):
        return life
    lives, at = life.lives.copy(), places_of(life.ids, np.asarray(keys, np.int64))
    for name, value in fields.items():
        lives[name][at] = value
    return life._replace(lives=lives)


def with_lives(life: Lifecycle, subclasses: Mapping[int, SubclassHistory]) -> Lifecycle:
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
    one = unite(lives.get(older) or SubclassHistory(second.first, second.last), second)
    return with_lives(without_lives(life, (younger,)), {older: one})


@kernel
def places_of(ids: Array, keys: Array) -> Array:
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


NO_MOMENT = np.full((1, 2), None)


class MemberColumns(NamedTuple):
    """Instances of emerging subclasses, n of them.

    Attributes
    ----------
    seq, p_unknown, batch
        Positions, p_unknown at once, and positions of the first of their batches, shape (n,).
    """

    seq: Array
    p_unknown: Array
    batch: Array


class Coming(NamedTuple):
    """Instances that have taken a seat, n of them: the first m were re-seated, the others have arrived.

    Attributes
    ----------
    was
        Subclass that each of the first sat in, -1: a known one, shape (m,).
    key
        Subclass that each sits in, -1: a known one, shape (n,).
    member
        What lives note of them, by position.
    moments
        Their times and keys, shape (n, 2).
    """

    was: Array
    key: Array
    member: MemberColumns
    moments: Array


def moments_of(times: Sequence[float | None] | Array, keys: Array) -> Array:
    """Put times and keys side by side, shape (n, 2)."""
    out = np.empty((len(keys), 2), object)
    out[:, 0], out[:, 1] = times, keys
    return out


def take_in(life: Lifecycle, coming: Coming, menu: Array) -> Lifecycle:
    """Note who has left and who has come, in a copy.

    Parameters
    ----------
    life
        The lives so far.
    coming
        Who has come.
    menu
        Identities of the subclasses on the menu: instances of others are passed over. Who has no life begins one.
    """
    ids, lives, touched, source = _take_in(life.ids, life.lives, menu, *coming[:3])
    more = np.full(len(ids) - len(life.ids), None)
    moments = np.empty((len(ids), *life.moments.shape[1:]), object)
    moments[: len(life.ids)] = life.moments
    pool = np.concatenate([moments[touched].reshape(-1, 2), coming.moments, NO_MOMENT])
    moments[touched] = pool[source]
    return Lifecycle(ids, lives, moments, np.concatenate([life.kept, more]), life.delta)


@kernel
def _take_in(
    ids: Array, lives: Array, menu: Array, was: Array, key: Array, member: MemberColumns
) -> tuple[Array, Array, Array, Array]:
    """Do what :func:`take_in` does to the numbers.

    Returns
    -------
    Identities, numbers, slots of the t lives that have changed, and where their moments come from, shape (t, p): one
    of theirs as they were, one after the other; then of those who have come; -1: there is none.
    """
    slot, ids, lives = _begin(ids, lives, places_of(menu, key), places_of(ids, key), key)
    left, places, n, moved = places_of(ids, was), 2 + RECENT, len(key), len(was)
    row, touched = np.full(len(ids), -1), np.empty(len(ids), np.int64)
    count = 0
    for i in range(n + moved):
        k = slot[i] if i < n else left[i - n]
        if k >= 0 and row[k] < 0:
            row[k], touched[count] = count, k
            count += 1
    source = np.arange(count * places).reshape((count, places))
    for i in range(moved):
        if left[i] >= 0:
            _leave(lives, left[i], member.seq[i], source[row[left[i]]])
    before = lives["last"].copy()
    for i in range(n):
        if slot[i] >= 0:
            _come(lives, slot[i], member, i, source[row[slot[i]]], count * places + i)
    came = np.zeros((count, 2))
    for i in range(moved, n):
        if slot[i] >= 0:
            age = lives[slot[i]].last - member.seq[i]
            came[row[slot[i]], 0] += faded(age, TREND_HALF_LIFE)
            came[row[slot[i]], 1] += faded(age, USUAL_HALF_LIFE)
    for t in range(count):
        life = lives[touched[t]]
        gone = life.last - before[touched[t]]
        life.arrivals = life.arrivals * faded(gone, TREND_HALF_LIFE) + came[t, 0]
        life.usual = life.usual * faded(gone, USUAL_HALF_LIFE) + came[t, 1]
    return ids, lives, touched[:count], source


@kernel
def _begin(ids: Array, lives: Array, there: Array, slot: Array, key: Array) -> tuple[Array, Array, Array]:
    """Begin the lives of subclasses on the menu that have none, in copies; with the slot of each instance, or -1."""
    old, count = len(ids), len(ids)
    named = np.empty(old + len(key), np.int64)
    named[:old] = ids
    for i in range(len(key)):
        if there[i] < 0:
            slot[i] = -1
        elif slot[i] < 0:
            k = old
            while k < count and named[k] != key[i]:
                k += 1
            named[k], slot[i] = key[i], k
            count = max(count, k + 1)
    out = np.zeros(count, lives.dtype)
    out[:old] = lives
    for k in range(old, count):
        out[k].first, out[k].last = -NEVER, NEVER
        out[k].seq[:] = NEVER
    return slot, named[:count].copy(), out


@borrowing_kernel
def _leave(lives: Array, k: int, seq: int, source: Array) -> None:
    """Take a member out of the latest, if it is among them."""
    life, r = lives[k], RECENT - 1
    while r >= 0:
        if life.seq[r] != seq:
            r -= 1
            continue
        for to in range(r, 0, -1):
            _move(lives, k, to - 1, to, source)
        life.seq[0], life.p_unknown[0], life.batch[0], source[2] = NEVER, 0.0, 0, -1


@borrowing_kernel
def _come(lives: Array, k: int, member: MemberColumns, i: int, source: Array, moment: int) -> None:
    """Note member ``i``, which has come; where its moment is."""
    life, seq, r = lives[k], member.seq[i], RECENT - 1
    if seq < life.first:
        life.first, source[FIRST] = seq, moment
    if seq > life.last:
        life.last, source[LAST] = seq, moment
    while r >= 0 and life.seq[r] > seq:
        r -= 1
    for to in range(r):
        _move(lives, k, to + 1, to, source)
    if r >= 0:
        life.seq[r], life.p_unknown[r], life.batch[r] = seq, member.p_unknown[i], member.batch[i]
        source[2 + r] = moment


@borrowing_kernel
def _move(lives: Array, k: int, at: int, to: int, source: Array) -> None:
    """Put one of the latest members into another place."""
    life = lives[k]
    life.seq[to], life.p_unknown[to], life.batch[to] = life.seq[at], life.p_unknown[at], life.batch[at]
    source[2 + to] = source[2 + at]
