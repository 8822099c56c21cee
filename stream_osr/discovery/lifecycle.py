"""The life of emerging subclasses: candidate, emerged, dormant, recurred, forgotten. Values in, values out.

Matching from batch to batch is by construction: the sampler carries its state, and a subclass keeps its
identity as long as it has one guest or one place on the menu.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import NamedTuple

import numpy as np

from stream_osr.discovery.histories import (
    LATEST,
    NEVER,
    RECENT,
    TREND_HALF_LIFE,
    USUAL_HALF_LIFE,
    Coming,
    Lifecycle,
    MemberColumns,
    SubclassHistory,
    faded,
    only,
    places_of,
    take_in,
    with_lives,
)
from stream_osr.discovery.reservoir import without
from stream_osr.model.jit import Array, borrowing_kernel, kernel

EMERGES_WITH = 5
"""The latest r members of a subclass, those included that the window re-seated, r from this to ``RECENT`` ..."""
EMERGES_ABOVE = 0.9
"""... have at least this mean probability of being unknown ..."""
EMERGES_WITHIN = 16
"""... and came within so many times r^2 instances of the stream, and it is announced: the more slowly it gathers, the
more there must be ..."""
BURST = 8
"""... if they came in more than one batch, or it has so many members."""
OVERLAPS_ABOVE = 0.5
"""A subclass that is mostly new by the references is announced if this is the mean of all members that are
remembered: where it overlaps a known class none of them is surely unknown."""
WAKES_WITHIN = 640
"""The members that wake a dormant one came within so many instances."""
KEPT_WITH = 4
"""An emerged subclass with fewer instances is not held: the others have moved. So many new ones wake it."""
EXEMPLARS = 5
NOT_ANY = np.zeros(0, np.int64)
_NOTHING, _CANDIDATE, _GREW, _DORMANT, _RECURRED = range(5)
NOTICED_BY = 256.0
"""What is usual of a subclass that has brought so many instances is its rate since it began; before, nothing is."""
RISES_ABOVE = 2.0
"""A subclass comes more often than usual if it does so many times as often."""


class OnMenu(NamedTuple):
    """Subclasses on the menu: identities, instances in each, whether a table serves them, shape (M,)."""

    ids: Array
    size: Array
    served: Array


class LifecycleChanges(NamedTuple):
    """Lifecycle changes of a batch: identities of subclasses that emerged, doubled, became dormant or recurred."""

    emerged: tuple[int, ...]
    grew: tuple[int, ...]
    dormant: tuple[int, ...]
    recurred: tuple[int, ...]


def observe(
    life: Lifecycle,
    coming: Coming,
    menu: OnMenu,
    stands_out: Callable[[int, int], bool] = lambda key, first: True,
    new: Array = NOT_ANY,
) -> tuple[Lifecycle, LifecycleChanges]:
    """Follow one micro-batch.

    Parameters
    ----------
    life
        The lives so far; it does not change.
    coming
        Earlier instances that the window re-seated, and those of the batch.
    menu
        The subclasses after the batch.
    stands_out
        Asked of a candidate that has support, by its identity and the position of its first member: is it more than
        instances that resemble nothing?
    new
        Identities of subclasses that are mostly new by what references say of many members.
    """
    life = take_in(life, coming, menu.ids)
    happened, size = _go_on(life.ids, life.lives, *menu, new)
    if not happened.any():
        return life, LifecycleChanges((), (), (), ())
    kinds = _CANDIDATE, _GREW, _DORMANT, _RECURRED
    candidates, grew, dormant, recurred = (np.flatnonzero(happened == kind) for kind in kinds)
    first = life.lives["first"]
    asked = zip(candidates.tolist(), life.ids[candidates].tolist(), first[candidates].tolist(), strict=True)
    emerged = [at for at, key, since in asked if stands_out(key, since)]
    life.emerged[emerged] = True
    announced = life.lives["announced_size"]
    announced[emerged] = np.maximum(size, announced)[emerged]
    life.moments[dormant, LATEST] = None
    return life, LifecycleChanges(*(tuple(life.ids[slots].tolist()) for slots in (emerged, grew, dormant, recurred)))


@kernel
def _go_on(ids: Array, lives: Array, menu: Array, sizes: Array, served: Array, new: Array) -> tuple[Array, Array]:
    """Say what has happened to each life, and its size now, shape (K,); write it, but for who is a candidate."""
    at, size, happened = places_of(menu, ids), np.zeros(len(ids), np.int64), np.full(len(ids), _NOTHING)
    mostly_new = places_of(new, ids)
    for k in range(len(ids)):
        life = lives[k]
        if at[k] >= 0:
            size[k] = sizes[at[k]]
        if life.muted or life.owned:
            continue
        if not life.emerged:
            if size[k] >= EMERGES_WITH and _has_support(lives, k, size[k], mostly_new[k] >= 0):
                happened[k] = _CANDIDATE
        elif life.dormant:
            if _are_new(lives, k, KEPT_WITH, WAKES_WITHIN, EMERGES_ABOVE):
                happened[k] = _RECURRED
        elif size[k] > 0 and not served[at[k]]:
            happened[k], life.dormant = _DORMANT, True
            life.seq[:], life.p_unknown[:], life.batch[:] = NEVER, 0.0, 0
        elif size[k] >= 2 * life.announced_size:
            happened[k] = _GREW
        if happened[k] == _GREW or happened[k] == _RECURRED:
            life.dormant, life.announced_size = False, max(size[k], life.announced_size)
    return happened, size


@borrowing_kernel
def _has_support(lives: Array, k: int, size: int, mostly_new: bool) -> bool:
    """Say whether a candidate has members enough; of more than one batch, or many."""
    life, several = lives[k], size >= BURST
    for r in range(RECENT):
        several |= life.seq[r] > NEVER and life.batch[r] != life.batch[RECENT - 1]
    enough = mostly_new and _are_new(lives, k, RECENT, EMERGES_WITHIN * RECENT**2, OVERLAPS_ABOVE)
    for count in range(EMERGES_WITH, RECENT + 1):
        enough |= _are_new(lives, k, count, EMERGES_WITHIN * count**2, EMERGES_ABOVE)
    return several and enough


@borrowing_kernel
def _are_new(lives: Array, k: int, count: int, within: int, above: float) -> bool:
    """Say whether the latest members of a life, so many, came close together and were taken for unknown."""
    life, p = lives[k], 0.0
    oldest = life.seq[RECENT - count]
    if oldest == NEVER or life.seq[RECENT - 1] - oldest >= within:
        return False
    for r in range(RECENT - count, RECENT):
        p += life.p_unknown[r]
    return p >= above * count


def comes_as_usual(life: Lifecycle, seq: int) -> Array:
    """Say which subclasses, as of position ``seq``, have come for long about as often as they do lately, shape (K,).

    Nothing is usual of one that has begun within the last ``USUAL_HALF_LIFE`` instances, unless it has brought
    ``NOTICED_BY`` since: a class whose place it had taken would have been missed by then.

    Examples
    --------
    One in four, since a while, and since long:

    >>> from stream_osr.discovery.histories import lifecycle
    >>> from stream_osr.discovery.histories import NO_MOMENT
    >>> def coming(life, begin, end):
    ...     seq = np.arange(begin, end, 4)
    ...     came = Coming(seq[:0], 0 * seq + 7, MemberColumns(seq, 0.0 * seq, seq), NO_MOMENT.repeat(len(seq), 0))
    ...     return observe(life, came, OnMenu(np.array([7]), np.array([99]), np.array([True])))[0]
    >>> life = coming(lifecycle(), 0, 800)
    >>> comes_as_usual(life, 800)
    array([False])
    >>> comes_as_usual(coming(life, 800, 8000), 8000)
    array([ True])
    """
    return _comes_as_usual(life.lives, seq)


@kernel
def _comes_as_usual(lives: Array, seq: int) -> Array:
    out = np.empty(len(lives), np.bool_)
    for k in range(len(lives)):
        life, weight = lives[k], 1.0
        lately = life.arrivals * faded(seq - life.last, TREND_HALF_LIFE)
        usual = life.usual * faded(seq - life.last, USUAL_HALF_LIFE)
        if usual >= NOTICED_BY:
            weight = 1.0 - faded(seq - life.first, USUAL_HALF_LIFE)
        out[k] = lately / TREND_HALF_LIFE * weight < RISES_ABOVE * usual / USUAL_HALF_LIFE
    return out


def begin_emerged(life: Lifecycle, key: int, came: MemberColumns, moments: Array) -> Lifecycle:
    """Begin the life of a subclass that is announced at once, with these members, at these times."""
    own = np.full(len(moments), key)
    life = take_in(life, Coming(own[:0], own, came, moments), own[:1])
    life.emerged[-1], life.lives["announced_size"][-1] = True, len(own)
    return life


def without_row(life: Lifecycle, key: int, seq: int) -> Lifecycle:
    """Let go of a row that was kept of a subclass, if it was."""
    subclass = life.subclasses.get(key)
    if subclass is None or subclass.kept is None:
        return life
    return with_lives(life, {key: subclass._replace(kept=without(subclass.kept, np.array([seq])))})


def own(life: Lifecycle, keys: Collection[int]) -> tuple[Lifecycle, tuple[int, ...]]:
    """Say which subclasses describe a known class anew. One that was announced is a candidate again, and returned."""
    owned = (places_of(np.fromiter(keys, np.int64, len(keys)), life.ids) >= 0) & ~life.muted
    refuted = owned & life.emerged
    if np.array_equal(owned, life.owned) and not refuted.any():
        return life, ()
    life = only(life, np.ones(len(owned), bool))
    life.owned[:] = owned
    for flag in (life.emerged, life.dormant):
        flag[refuted] = False
    for column, nobody in (("seq", NEVER), ("p_unknown", 0.0), ("batch", 0)):
        life.lives[column][refuted] = nobody
    life.moments[refuted, LATEST], life.kept[refuted] = None, None
    return life, tuple(life.ids[refuted].tolist())


def forget(life: Lifecycle, alive: Array) -> tuple[Lifecycle, dict[int, SubclassHistory]]:
    """Drop the lives of subclasses that have left the model.

    Returns
    -------
    The lives of those alive, and the lives that ended of those that had been announced (and not muted since).
    """
    gone = places_of(alive, life.ids) < 0
    if not gone.any():
        return life, {}
    reported = gone & life.announced_unmuted
    return only(life, ~gone), dict(only(life, reported).subclasses) if reported.any() else {}


@kernel
def kept_on_menu(ids: Array, lives: Array, menu: Array, sizes: Array) -> Array:
    """Say which subclasses on the menu are held there: muted ones, and those announced that are large enough, (M,).

    Parameters
    ----------
    ids, lives
        Of a :class:`Lifecycle`.
    menu, sizes
        Identities on the menu, and the instances in each, shape (M,).
    """
    at, held = places_of(ids, menu), np.zeros(len(menu), np.bool_)
    for k in range(len(menu)):
        if at[k] >= 0:
            life = lives[at[k]]
            held[k] = life.muted or (life.emerged and sizes[k] >= KEPT_WITH)
    return held


@kernel
def hardly_there(ids: Array, lives: Array, menu: Array, sizes: Array, keys: Array) -> Array:
    """Say which of these subclasses have been announced, and are too small now to be held, shape (n,).

    The other parameters are as for :func:`kept_on_menu`.
    """
    at, there, few = places_of(ids, keys), places_of(menu, keys), np.zeros(len(keys), np.bool_)
    for i in range(len(keys)):
        if at[i] >= 0 and lives[at[i]].emerged:
            few[i] = there[i] < 0 or sizes[there[i]] < KEPT_WITH
    return few


def best_supported(life: Lifecycle, keys: Array, support: Array, size: Array, most: int) -> set[int]:
    """Choose ``most`` of n subclasses: muted ones, those with most seats, the largest, those seen last.

    Muted ones come first: off the menu they would come back as something new.
    """
    at = places_of(life.ids, keys)
    order = np.lexsort((keys, life.lives["last"][at], size, support, life.muted[at]))
    return set(keys[order[max(len(order) - most, 0) :]].tolist())


def worth_telling(life: Lifecycle) -> tuple[int, ...]:
    """Identities of the emerged subclasses that are not muted."""
    return tuple(life.ids[life.announced_unmuted].tolist())


def estimate_new_classes(n_emerged: int, n_known_subclasses: int, n_known_classes: int) -> int:
    """Equation (14): ``floor(|S_unknown| / (|S_known| / (J - 1)) + 1/2)``; J - 1 is the number of known classes.

    Examples
    --------
    >>> estimate_new_classes(14, 19, 5)  # the paper's USPS example
    4
    """
    return int(np.floor(n_emerged / max(n_known_subclasses / n_known_classes, 1e-12) + 0.5))
