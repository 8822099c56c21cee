"""Lifecycle of emerging subclasses: candidate, emerged, dormant, recurred, forgotten.

Subclasses need no matching from batch to batch. The sampler carries its state, and a subclass keeps its id while it
has an instance or a place on the menu.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import NamedTuple

import numpy as np

from stream_osr.discovery import histories
from stream_osr.discovery.membership import MemberColumns, NewSeats, record_members
from stream_osr.discovery.reservoir import without
from stream_osr.model.jit import Array, borrowing_kernel, kernel

EMERGES_WITH = 5
"""Condition for emergence: least number r of latest members, including re-seated ones. The largest is ``RECENT``.

With 5 members, 0.94 of the new classes of LETTER are announced within 30 of their instances, and with 8 members 0.80.
A known stream of USPS has 0.11 false alarms with 4 members, and none with 5 (``benchmarks/results/discovery.md``).
"""
EMERGES_ABOVE = 0.9
"""Condition for emergence: least mean probability of being unknown of those r members.

A mean of 0.8 changes next to nothing (``benchmarks/results/discovery.md``).
"""
EMERGES_WITHIN = 16
"""Condition for emergence: the r members arrived within this number times r^2 instances. A slower subclass needs more
members.

On LETTER, 0.89 of the returning instances are under the old ids, and 0.86 with a factor of 10. In 20 000 known
instances of YALEB there are 1.63 false announcements, and 1.50 with 10 (``benchmarks/results/discovery.md``).
"""
BURST = 8
"""Number of members that is enough if they all came in one batch."""
OVERLAPS_ABOVE = 0.5
"""Least mean probability of all remembered members, for a subclass that is mostly new by the reference check. Where
it overlaps a known class, no member is surely unknown.

With this condition, a class 3 standard deviations from a known one is announced with five seeds of five, and without
it with three. False announcements rise from 0.007 to 0.013 in a known stream (``benchmarks/results/experiments.md``).
"""
WAKES_WITHIN = 640
"""Number of instances within which members must arrive to wake a dormant subclass."""
LEAST_KEPT = 4
"""Least size of an emerged subclass to stay on the menu. The same number of new members wakes it."""
EXEMPLARS = 5
NOT_ANY = np.zeros(0, np.int64)
_NOTHING, _CANDIDATE, _GREW, _DORMANT, _RECURRED = range(5)
NOTICED_BY = 256.0
"""Number of instances from which the usual rate of a subclass is its rate since it began."""
RISES_ABOVE = 2.0
"""Factor by which a subclass must exceed its usual rate to count as more frequent."""


class OnMenu(NamedTuple):
    """Subclasses on the menu: ids, number of instances, and whether a table serves them, shape (M,)."""

    ids: Array
    size: Array
    served: Array


class LifecycleChanges(NamedTuple):
    """Lifecycle changes of a batch: ids of subclasses that emerged, doubled, became dormant or recurred."""

    emerged: tuple[int, ...]
    grew: tuple[int, ...]
    dormant: tuple[int, ...]
    recurred: tuple[int, ...]


def observe(
    life: histories.Lifecycle,
    coming: NewSeats,
    menu: OnMenu,
    stands_out: Callable[[int, int], bool] = lambda key, first: True,
    new: Array = NOT_ANY,
) -> tuple[histories.Lifecycle, LifecycleChanges]:
    """Update the histories with one micro-batch.

    Parameters
    ----------
    life
        Histories so far, which do not change.
    coming
        Earlier instances that were re-seated, and those of the batch.
    menu
        The subclasses after the batch.
    stands_out
        Function that decides whether a supported candidate is more than instances that resemble nothing. Its
        arguments are the id and the position of the first member.
    new
        Ids of subclasses that are mostly new by the reference check of many members.
    """
    life = record_members(life, coming, menu.ids)
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
    life.moments[dormant, histories.LATEST] = None
    return life, LifecycleChanges(*(tuple(life.ids[slots].tolist()) for slots in (emerged, grew, dormant, recurred)))


@kernel
def _go_on(ids: Array, lives: Array, menu: Array, sizes: Array, served: Array, new: Array) -> tuple[Array, Array]:
    """Return the change and the size of each subclass, shape (K,). Write all changes except candidates."""
    at, size, happened = histories.places_of(menu, ids), np.zeros(len(ids), np.int64), np.full(len(ids), _NOTHING)
    mostly_new = histories.places_of(new, ids)
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
            if _are_new(lives, k, LEAST_KEPT, WAKES_WITHIN, EMERGES_ABOVE):
                happened[k] = _RECURRED
        elif size[k] > 0 and not served[at[k]]:
            happened[k], life.dormant = _DORMANT, True
            life.seq[:], life.p_unknown[:], life.batch[:] = histories.NEVER, 0.0, 0
        elif size[k] >= 2 * life.announced_size:
            happened[k] = _GREW
        if happened[k] == _GREW or happened[k] == _RECURRED:
            life.dormant, life.announced_size = False, max(size[k], life.announced_size)
    return happened, size


@borrowing_kernel
def _has_support(lives: Array, k: int, size: int, mostly_new: bool) -> bool:
    """Check whether a candidate has enough members, from more than one batch or many of them."""
    life, several = lives[k], size >= BURST
    for r in range(histories.RECENT):
        several |= life.seq[r] > histories.NEVER and life.batch[r] != life.batch[histories.RECENT - 1]
    enough = mostly_new and _are_new(lives, k, histories.RECENT, EMERGES_WITHIN * histories.RECENT**2, OVERLAPS_ABOVE)
    for count in range(EMERGES_WITH, histories.RECENT + 1):
        enough |= _are_new(lives, k, count, EMERGES_WITHIN * count**2, EMERGES_ABOVE)
    return several and enough


@borrowing_kernel
def _are_new(lives: Array, k: int, count: int, within: int, above: float) -> bool:
    """Check whether the latest members of a subclass arrived close together and were called unknown."""
    life, p = lives[k], 0.0
    oldest = life.seq[histories.RECENT - count]
    if oldest == histories.NEVER or life.seq[histories.RECENT - 1] - oldest >= within:
        return False
    for r in range(histories.RECENT - count, histories.RECENT):
        p += life.p_unknown[r]
    return p >= above * count


def arrives_as_usual(life: histories.Lifecycle, seq: int) -> Array:
    """Return the mask of subclasses whose recent rate at position ``seq`` is about their usual rate, shape (K,).

    A subclass from the last ``USUAL_HALF_LIFE`` instances has no usual rate, unless it has brought ``NOTICED_BY``
    instances. By then a class that it replaced would have been missed.

    Examples
    --------
    One in four, for a short and for a long time:

    >>> from stream_osr.discovery.histories import lifecycle
    >>> from stream_osr.discovery.membership import NO_MOMENT
    >>> def coming(life, begin, end):
    ...     seq = np.arange(begin, end, 4)
    ...     came = NewSeats(seq[:0], 0 * seq + 7, MemberColumns(seq, 0.0 * seq, seq), NO_MOMENT.repeat(len(seq), 0))
    ...     return observe(life, came, OnMenu(np.array([7]), np.array([99]), np.array([True])))[0]
    >>> life = coming(lifecycle(), 0, 800)
    >>> arrives_as_usual(life, 800)
    array([False])
    >>> arrives_as_usual(coming(life, 800, 8000), 8000)
    array([ True])
    """
    return _comes_as_usual(life.lives, seq)


@kernel
def _comes_as_usual(lives: Array, seq: int) -> Array:
    out = np.empty(len(lives), np.bool_)
    for k in range(len(lives)):
        life, weight = lives[k], 1.0
        lately = life.arrivals * histories.faded(seq - life.last, histories.TREND_HALF_LIFE)
        usual = life.usual * histories.faded(seq - life.last, histories.USUAL_HALF_LIFE)
        if usual >= NOTICED_BY:
            weight = 1.0 - histories.faded(seq - life.first, histories.USUAL_HALF_LIFE)
        out[k] = lately / histories.TREND_HALF_LIFE * weight < RISES_ABOVE * usual / histories.USUAL_HALF_LIFE
    return out


def begin_emerged(life: histories.Lifecycle, key: int, came: MemberColumns, moments: Array) -> histories.Lifecycle:
    """Begin the history of a subclass that is announced at once, with the given members and times."""
    own = np.full(len(moments), key)
    life = record_members(life, NewSeats(own[:0], own, came, moments), own[:1])
    life.emerged[-1], life.lives["announced_size"][-1] = True, len(own)
    return life


def without_row(life: histories.Lifecycle, key: int, seq: int) -> histories.Lifecycle:
    """Remove a row from the sample of a subclass."""
    subclass = life.subclasses.get(key)
    if subclass is None or subclass.kept is None:
        return life
    return histories.with_lives(life, {key: subclass._replace(kept=without(subclass.kept, np.array([seq])))})


def own(life: histories.Lifecycle, keys: Collection[int]) -> tuple[histories.Lifecycle, tuple[int, ...]]:
    """Set which subclasses describe a known class again.

    Announced ones become candidates, and their ids are returned.
    """
    owned = (histories.places_of(np.fromiter(keys, np.int64, len(keys)), life.ids) >= 0) & ~life.muted
    refuted = owned & life.emerged
    if np.array_equal(owned, life.owned) and not refuted.any():
        return life, ()
    life = histories.only(life, np.ones(len(owned), bool))
    life.owned[:] = owned
    for flag in (life.emerged, life.dormant):
        flag[refuted] = False
    for column, nobody in (("seq", histories.NEVER), ("p_unknown", 0.0), ("batch", 0)):
        life.lives[column][refuted] = nobody
    life.moments[refuted, histories.LATEST], life.kept[refuted] = None, None
    return life, tuple(life.ids[refuted].tolist())


def forget(
    life: histories.Lifecycle, alive: Array
) -> tuple[histories.Lifecycle, dict[int, histories.SubclassHistory]]:
    """Drop the histories of subclasses that left the model.

    Returns
    -------
    The remaining histories, and the ended histories of announced, unmuted subclasses.
    """
    gone = histories.places_of(alive, life.ids) < 0
    if not gone.any():
        return life, {}
    reported = gone & life.announced_unmuted
    return histories.only(life, ~gone), dict(histories.only(life, reported).subclasses) if reported.any() else {}


@kernel
def kept_on_menu(ids: Array, lives: Array, menu: Array, sizes: Array) -> Array:
    """Return the mask of subclasses to keep on the menu, (M,): muted ones, and announced ones that are large enough.

    Parameters
    ----------
    ids, lives
        Columns of a :class:`Lifecycle`.
    menu, sizes
        Ids on the menu, and their numbers of instances, shape (M,).
    """
    at, held = histories.places_of(ids, menu), np.zeros(len(menu), np.bool_)
    for k in range(len(menu)):
        if at[k] >= 0:
            life = lives[at[k]]
            held[k] = life.muted or (life.emerged and sizes[k] >= LEAST_KEPT)
    return held


@kernel
def few_members(ids: Array, lives: Array, menu: Array, sizes: Array, keys: Array) -> Array:
    """Return the mask of announced subclasses that are too small now for the menu, shape (n,).

    The other parameters are as for :func:`kept_on_menu`.
    """
    at, there, few = histories.places_of(ids, keys), histories.places_of(menu, keys), np.zeros(len(keys), np.bool_)
    for i in range(len(keys)):
        if at[i] >= 0 and lives[at[i]].emerged:
            few[i] = there[i] < 0 or sizes[there[i]] < LEAST_KEPT
    return few


def best_supported(life: histories.Lifecycle, keys: Array, support: Array, size: Array, most: int) -> set[int]:
    """Choose ``most`` of n subclasses: muted ones, those with most weight, the largest, the latest.

    Muted ones come first. Otherwise they would emerge again as new subclasses.
    """
    at = histories.places_of(life.ids, keys)
    order = np.lexsort((keys, life.lives["last"][at], size, support, life.muted[at]))
    return set(keys[order[max(len(order) - most, 0) :]].tolist())


def announced_ids(life: histories.Lifecycle) -> tuple[int, ...]:
    """Return the ids of emerged subclasses that are not muted."""
    return tuple(life.ids[life.announced_unmuted].tolist())


def estimate_new_classes(n_emerged: int, n_known_subclasses: int, n_known_classes: int) -> int:
    """Equation (14): ``floor(|S_unknown| / (|S_known| / (J - 1)) + 1/2)``. J - 1 is the number of known classes.

    Examples
    --------
    >>> estimate_new_classes(14, 19, 5)  # the paper's USPS example
    4
    """
    return int(np.floor(n_emerged / max(n_known_subclasses / n_known_classes, 1e-12) + 0.5))
