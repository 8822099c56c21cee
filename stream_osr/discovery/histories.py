"""Histories of emerging subclasses, in columns and one by one.

Most code works on columns over all emerging subclasses of a chain. Code for a few subclasses uses one record for
each. Compiled functions update the columns when members arrive or leave.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Annotated, Any, NamedTuple

import numpy as np

from stream_osr.discovery.event_base import Moment
from stream_osr.discovery.reservoir import Reservoir, objects, offer, without
from stream_osr.model.jit import Array, borrowing_kernel, kernel
from stream_osr.support import rules

RECENT = 16
"""Number of latest members that are stored one by one, since some may leave."""
TREND_HALF_LIFE = 300.0
"""Number of instances after which an arrival has half the weight in the trend."""
USUAL_HALF_LIFE = 4000.0
"""Number of instances after which an arrival has half the weight in the usual rate of the subclass."""


class SubclassMember(NamedTuple):
    """Member of an emerging subclass: moment, first p_unknown, and first position in the batch."""

    moment: Moment
    p_unknown: float
    batch: int


class SubclassHistory(NamedTuple):
    """History of an emerging subclass, in addition to its statistics.

    Attributes
    ----------
    first, last
        First and latest member.
    recent
        Latest members, at most ``RECENT``. After a dormant phase, only later ones.
    arrivals
        Decayed number of arrivals, as of position ``last``.
    emerged
        True if the subclass has been announced.
    dormant
        True if the whole weight has decayed, and no recurrence has been announced.
    announced_size
        Size at the latest event.
    tried_size
        Size at the latest split test.
    kept
        Sample of rows, once the subclass has emerged.
    muted
        True if a person muted the subclass: it emits no further events.
    owned
        True if the subclass describes a known class again, and is not new.
    usual
        Like ``arrivals``, but with a slower decay: the usual rate.
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
    """Return the weight of an arrival after a number of instances."""
    return float(2.0 ** (-instances / half_life))


def trend(subclass: SubclassHistory, seq: int) -> float:
    """Return recent arrivals per 1000 instances of the stream, as of position ``seq``.

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
    """Remove the members at these positions, which now belong to another subclass."""
    recent = tuple(m for m in subclass.recent if m.moment.seq not in seqs)
    kept = None if subclass.kept is None else without(subclass.kept, np.array(sorted(seqs)))
    return subclass._replace(recent=recent, kept=kept)


def unite(older: SubclassHistory, younger: SubclassHistory) -> SubclassHistory:
    """Merge the histories of two subclasses. The result is announced if the older one was."""
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
"""Position that marks a missing member."""

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
"""Numeric fields of a history: the positions of the first and the latest member, then of the latest members, and the
numbers of a :class:`SubclassHistory`. Each of the latest members has a position, a p_unknown and a batch. They are
right-aligned, with ``NEVER`` in empty places."""
FIRST, LAST, LATEST = 0, 1, slice(2, 2 + RECENT)
"""Places of the moments of these members."""


class Lifecycle(NamedTuple):
    """All K emerging subclasses of a chain, in the order of their beginning.

    Attributes
    ----------
    ids
        Ids, shape (K,).
    lives
        Numeric fields, shape (K,) of ``LIFE``.
    moments
        Time and key of the first, of the latest, and of each of the latest members, shape (K, 2 + RECENT, 2).
    kept
        As in :class:`SubclassHistory`, shape (K,).
    delta
        Latest estimate of the number of new classes.
    """

    ids: Array
    lives: Array
    moments: Array
    kept: Array
    delta: int

    @property
    def subclasses(self) -> Mapping[int, SubclassHistory]:
        """Histories by id, as single records."""
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
        """Mask of subclasses that describe a known class again, shape (K,)."""
        return self.lives["owned"]

    @property
    def asleep(self) -> np.ndarray:
        """Mask of dormant subclasses that are not muted, shape (K,)."""
        return np.asarray(self.dormant & ~self.muted)

    @property
    def noticed(self) -> Array:
        """Mask of subclasses that have been announced or muted, shape (K,)."""
        return np.asarray(self.emerged | self.muted)

    @property
    def announced_unmuted(self) -> Array:
        """Mask of subclasses that have been announced and are not muted, shape (K,)."""
        return np.asarray(self.emerged & ~self.muted)


class ArchivedHistories(NamedTuple):
    """Fields of a :class:`Lifecycle` in archives (:func:`as_columns`), shape (K,) or (K, RECENT)."""

    ids: Annotated[Array, rules.array("i", "K", low=0), rules.distinct]
    first: Annotated[Array, rules.array("i", "K", low=0)]
    last: Annotated[Array, rules.array("i", "K", low=0)]
    seq: Annotated[Array, rules.array("i", "K", str(RECENT), low=-1), rules.ascending]
    p_unknown: Annotated[Array, rules.array("f", "K", str(RECENT), low=0.0, high=1.0)]
    batch: Annotated[Array, rules.array("i", "K", str(RECENT))]
    arrivals: Annotated[Array, rules.array("f", "K", low=0.0)]
    emerged: Annotated[Array, rules.array("b", "K")]
    dormant: Annotated[Array, rules.array("b", "K")]
    announced_size: Annotated[Array, rules.array("i", "K", low=0)]
    tried_size: Annotated[Array, rules.array("i", "K", low=0)]
    muted: Annotated[Array, rules.array("b", "K")]
    owned: Annotated[Array, rules.array("b", "K")]
    usual: Annotated[Array, rules.array("f", "K", low=0.0)]
    times: tuple[rules.AnyNumber | None, ...]
    keys: tuple[Any, ...]
    kept: Annotated[tuple[Reservoir | None, ...], rules.length("K")]
    delta: rules.Count


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
    """Put histories into columns."""
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


def as_columns(life: Lifecycle) -> dict[str, Any]:
    """Convert histories to plain columns, the form in archives.

    Times and keys are those of the first, the latest and each of the latest members, subclass by subclass. A missing
    member has the position -1.
    """
    seq = life.lives["seq"]
    there = np.concatenate([np.ones((len(seq), 2), bool), seq != NEVER], axis=1)
    columns = {name: np.ascontiguousarray(life.lives[name]) for name in LIFE.names or ()}
    return {
        "ids": life.ids,
        **columns,
        "seq": np.where(seq == NEVER, -1, seq),
        "times": tuple(life.moments[there, 0].tolist()),
        "keys": tuple(life.moments[there, 1].tolist()),
        "kept": tuple(life.kept.tolist()),
        "delta": life.delta,
    }


def from_columns(
    ids: Array, times: Sequence[Any], keys: Sequence[Any], kept: Sequence[Any], delta: int, **columns: Array
) -> Lifecycle:
    """Restore histories from the columns of :func:`as_columns`."""
    lives = np.zeros(len(ids), LIFE)
    for name, values in columns.items():
        lives[name] = np.where(values < 0, NEVER, values) if name == "seq" else values
    there = np.concatenate([np.ones((len(ids), 2), bool), lives["seq"] != NEVER], axis=1)
    moments = np.full((len(ids), 2 + RECENT, 2), None)
    moments[there, 0], moments[there, 1] = objects(times), objects(keys)
    return Lifecycle(ids, lives, moments, objects(kept), delta)


def only(life: Lifecycle, chosen: Array) -> Lifecycle:
    """Select histories by a mask of shape (K,), as a copy."""
    return Lifecycle._make([*(column[chosen] for column in life[:-1]), life.delta])


def with_fields(life: Lifecycle, keys: Sequence[int] | Array, **fields: Any) -> Lifecycle:
    """Update numeric fields of some histories."""
    if not len(keys):
        return life
    lives, at = life.lives.copy(), places_of(life.ids, np.asarray(keys, np.int64))
    for name, value in fields.items():
        lives[name][at] = value
    return life._replace(lives=lives)


def with_lives(life: Lifecycle, subclasses: Mapping[int, SubclassHistory]) -> Lifecycle:
    """Replace some histories. Those of new subclasses come last."""
    more = lifecycle(subclasses)
    at = places_of(life.ids, more.ids)
    old, new = at >= 0, at < 0
    both = zip(life[:-1], more[:-1], strict=True)
    life = Lifecycle._make([*(np.concatenate([column, changed[new]]) for column, changed in both), life.delta])
    for column, changed in zip(life[:-1], more[:-1], strict=True):
        column[at[old]] = changed[old]
    return life


def without_lives(life: Lifecycle, keys: Collection[int]) -> Lifecycle:
    """Drop some histories."""
    return only(life, ~np.isin(life.ids, list(keys)))


def united(life: Lifecycle, older: int, younger: int) -> Lifecycle:
    """Merge the histories of two subclasses, either of which may have none."""
    lives = life.subclasses
    second = lives.get(younger)
    if second is None:
        return life
    one = unite(lives.get(older) or SubclassHistory(second.first, second.last), second)
    return with_lives(without_lives(life, (younger,)), {older: one})


@kernel
def places_of(ids: Array, keys: Array) -> Array:
    """Convert ids to places among distinct ids, or -1 for missing ones."""
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
