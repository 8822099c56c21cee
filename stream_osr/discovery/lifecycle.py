"""The life of emerging subclasses: candidate, emerged, dormant, recurred, forgotten. Values in, values out.

Matching from batch to batch is by construction: the sampler carries its state, and a subclass keeps its
identity as long as it has one guest or one place on the menu.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import NamedTuple

import numpy as np

from stream_osr.discovery.life import MOMENT, RECENT, TREND_HALF_LIFE, USUAL_HALF_LIFE, Subclass, faded
from stream_osr.discovery.lives import NEVER, NOBODY, Lifecycle, joined, only, places_of, unborn, with_lives
from stream_osr.discovery.reservoir import without

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
HELD_WITH = 4
"""An emerged subclass with fewer instances is not held: the others have moved. So many new ones wake it."""
EXEMPLARS = 5
NOTICED_BY = 256.0
"""What is usual of a subclass that has brought so many instances is its rate since it began; before, nothing is."""
RISES_ABOVE = 2.0
"""A subclass comes more often than usual if it does so many times as often."""


class Arrivals(NamedTuple):
    """Instances that took a seat, in order: subclass of each, shape (n,), and members, shape (n,) of ``MEMBER``."""

    key: np.ndarray
    member: np.ndarray


class Moves(NamedTuple):
    """Members that were re-seated, shape (n,): from which subclasses to which, -1: known classes; of ``MEMBER``."""

    was: np.ndarray
    now: np.ndarray
    member: np.ndarray


class OnMenu(NamedTuple):
    """Subclasses on the menu: identities, instances in each, whether a table serves them, shape (M,)."""

    ids: np.ndarray
    size: np.ndarray
    served: np.ndarray


class Changes(NamedTuple):
    """What a batch changed: identities of subclasses that emerged, doubled, fell asleep, came back."""

    emerged: tuple[int, ...]
    grew: tuple[int, ...]
    dormant: tuple[int, ...]
    recurred: tuple[int, ...]


def observe(
    life: Lifecycle,
    arrivals: Arrivals,
    moves: Moves,
    menu: OnMenu,
    stands_out: Callable[[int, int], bool] = lambda key, first: True,
) -> tuple[Lifecycle, Changes]:
    """Follow one micro-batch.

    Parameters
    ----------
    life
        The lives so far; it does not change.
    arrivals
        Instances of the batch.
    moves
        Earlier instances that the window re-seated.
    menu
        The subclasses after the batch.
    stands_out
        Asked of a candidate that has support, by its identity and the position of its first member: is it more than
        instances that resemble nothing?
    """
    keys, members = np.concatenate([moves.now, arrivals.key]), np.concatenate([moves.member, arrivals.member])
    came = np.flatnonzero(places_of(menu.ids, keys) >= 0)
    life, slot = _begun(life, keys[came])
    _reseat(life, places_of(life.ids, moves.was), moves.member["seq"], slot, members[came])
    _take_in(life, slot, members[came], came >= len(moves.now))
    at = places_of(menu.ids, life.ids)
    size, served = np.append(menu.size, 0)[at], np.append(menu.served, False)[at]
    told = ~(life.muted | life.owned)
    candidates = np.flatnonzero(told & ~life.emerged & (size >= EMERGES_WITH))
    candidates = candidates[_have_support(life.recent[candidates], size[candidates])]
    asked = zip(life.ids[candidates].tolist(), life.first["seq"][candidates].tolist(), strict=True)
    emerged = candidates[np.array([stands_out(*one) for one in asked], bool)]
    asleep = np.flatnonzero(told & life.emerged & life.dormant)
    recurred = asleep[_are_new(life.recent[asleep], np.array([HELD_WITH]), np.array([WAKES_WITHIN]))]
    awake = told & life.emerged & ~life.dormant
    dormant = np.flatnonzero(awake & (size > 0) & ~served)
    grew = np.flatnonzero(awake & ((size == 0) | served) & (size >= 2 * life.announced_size))
    announced = np.concatenate([emerged, grew, recurred])
    life.emerged[emerged] = True
    life.dormant[announced] = False
    life.announced_size[announced] = np.maximum(size, life.announced_size)[announced]
    life.dormant[dormant] = True
    life.recent[dormant] = NOBODY
    return life, Changes(*(tuple(life.ids[slots].tolist()) for slots in (emerged, grew, dormant, recurred)))


def _begun(life: Lifecycle, keys: np.ndarray) -> tuple[Lifecycle, np.ndarray]:
    """Begin the lives of subclasses that have none, in a copy that may be written to, and find the slots of all."""
    slot = places_of(life.ids, keys)
    fresh, first = np.unique(keys[slot < 0], return_index=True)
    life = joined(life, unborn(fresh[np.argsort(first)], life.delta))
    return life, places_of(life.ids, keys) if len(fresh) else slot


def _reseat(life: Lifecycle, left: np.ndarray, seqs: np.ndarray, slot: np.ndarray, member: np.ndarray) -> None:
    """Write who of the recent members of each life has left, -1: none, and who has come, in any order."""
    recent = life.recent
    left, seqs = left[left >= 0], seqs[left >= 0]
    move, place = np.nonzero(recent["seq"][left] == seqs[:, None])
    recent["seq"][left[move], place] = NEVER
    touched = np.unique(np.concatenate([left[move], slot]))
    there = recent[touched]
    stayed = there["seq"] > NEVER
    owner = np.concatenate([np.nonzero(stayed)[0], np.searchsorted(touched, slot)])
    both = np.concatenate([there[stayed], member])
    order = np.lexsort((both["seq"], owner))
    owner = owner[order]
    ago = np.searchsorted(owner, owner, "right") - 1 - np.arange(len(owner))
    latest = ago < RECENT
    there = NOBODY[np.zeros(len(there), np.int64)]
    there[owner[latest], RECENT - 1 - ago[latest]] = both[order[latest]]
    recent[touched] = there


def _take_in(life: Lifecycle, slot: np.ndarray, member: np.ndarray, arrived: np.ndarray) -> None:
    """Note first and last members, and how often they come, of those in these slots; some have just arrived."""
    order = np.lexsort((member["seq"], slot))
    slot, member, arrived = slot[order], member[order], arrived[order]
    begin = np.flatnonzero(np.diff(slot, prepend=-1))
    end, touched = np.append(begin, len(slot))[1:], slot[begin]
    before, moment = life.last["seq"][touched], member[list(MOMENT.names or ())]
    earlier = member["seq"][begin] < life.first["seq"][touched]
    life.first[touched[earlier]] = moment[begin[earlier]]
    later = member["seq"][end - 1] > before
    life.last[touched[later]] = moment[end[later] - 1]
    gone, ages = life.last["seq"][touched] - before, life.last["seq"][slot] - member["seq"]
    parts = list(zip(begin.tolist(), end.tolist(), strict=True))
    for rate, half_life in ((life.arrivals, TREND_HALF_LIFE), (life.usual, USUAL_HALF_LIFE)):
        came = np.where(arrived, _faded(ages, half_life), 0.0).tolist()
        rate[touched] = rate[touched] * _faded(gone, half_life) + [sum(came[i:j]) for i, j in parts]


def _have_support(recent: np.ndarray, size: np.ndarray) -> np.ndarray:
    """Say which candidates have members enough, shape (n,); of more than one batch, or many."""
    batch = recent["batch"]
    several = ((recent["seq"] > NEVER) & (batch != batch[:, -1:])).any(axis=1)
    counts = np.arange(EMERGES_WITH, RECENT + 1)
    return np.asarray(((size >= BURST) | several) & _are_new(recent, counts, EMERGES_WITHIN * counts**2))


def _are_new(recent: np.ndarray, counts: np.ndarray, within: np.ndarray) -> np.ndarray:
    """Say of which lives the latest members, of one of the counts, came close together and were taken for unknown.

    Parameters
    ----------
    recent
        Members, shape (n, RECENT).
    counts, within
        How many, and within how many instances of the stream, shape (c,).

    Returns
    -------
    Shape (n,).
    """
    seq, p = recent["seq"], recent["p_unknown"]
    oldest = seq[:, RECENT - counts]
    close = (oldest > NEVER) & (seq[:, -1:] - oldest < within)
    close &= p[:, ::-1].cumsum(axis=1)[:, counts - 1] > EMERGES_ABOVE * counts - 1e-6  # what a sum in order decides
    return np.array(
        [
            any(sum(own[-count:]) >= EMERGES_ABOVE * count for count in counts[asked].tolist())
            for own, asked in zip(p.tolist(), close, strict=True)
        ],
        bool,
    )


def comes_as_usual(life: Lifecycle, seq: int) -> np.ndarray:
    """Say which subclasses, as of position ``seq``, have come for long about as often as they do lately, shape (K,).

    Nothing is usual of one that has begun within the last ``USUAL_HALF_LIFE`` instances, unless it has brought
    ``NOTICED_BY`` since: a class whose place it had taken would have been missed by then.

    Examples
    --------
    One in four, since a while, and since long:

    >>> from stream_osr.discovery.life import MEMBER
    >>> from stream_osr.discovery.lives import lifecycle
    >>> def coming(life, begin, end):
    ...     member = np.zeros((end - begin) // 4, MEMBER)
    ...     member["seq"], key = np.arange(begin, end, 4), np.full(len(member), 7)
    ...     nobody = Moves(key[:0], key[:0], member[:0])
    ...     return observe(life, Arrivals(key, member), nobody, OnMenu(key[:1], np.array([99]), np.array([True])))[0]
    >>> life = coming(lifecycle(), 0, 800)
    >>> comes_as_usual(life, 800)
    array([False])
    >>> comes_as_usual(coming(life, 800, 8000), 8000)
    array([ True])
    """
    ago = seq - life.last["seq"]
    lately, usual = life.arrivals * _faded(ago, TREND_HALF_LIFE), life.usual * _faded(ago, USUAL_HALF_LIFE)
    weight = np.where(usual >= NOTICED_BY, 1.0 - _faded(seq - life.first["seq"], USUAL_HALF_LIFE), 1.0)
    return np.asarray(lately / TREND_HALF_LIFE * weight < RISES_ABOVE * usual / USUAL_HALF_LIFE)


def _faded(instances: np.ndarray, half_life: float) -> np.ndarray:
    return np.array([faded(age, half_life) for age in instances.tolist()], float)  # numpy's differs from libm's


def begin_emerged(life: Lifecycle, key: int, came: np.ndarray) -> Lifecycle:
    """Begin the life of a subclass that is announced at once, with these members."""
    life, slot = _begun(life, np.full(len(came), key))
    _reseat(life, slot[:0], slot[:0], slot, came)
    _take_in(life, slot, came, np.ones(len(came), bool))
    life.emerged[-1], life.announced_size[-1] = True, len(came)
    return life


def without_row(life: Lifecycle, key: int, seq: int) -> Lifecycle:
    """Let go of a row that was kept of a subclass, if it was."""
    subclass = life.subclasses.get(key)
    if subclass is None or subclass.kept is None:
        return life
    return with_lives(life, {key: subclass._replace(kept=without(subclass.kept, np.array([seq])))})


def own(life: Lifecycle, keys: Collection[int]) -> tuple[Lifecycle, tuple[int, ...]]:
    """Say which subclasses describe a known class anew. One that was announced is a candidate again, and returned."""
    owned = np.array([key in keys for key in life.ids.tolist()], bool) & ~life.muted
    refuted = owned & life.emerged
    life = life._replace(owned=owned)
    if refuted.any():
        life = only(life, np.ones(len(owned), bool))
        life.emerged[refuted] = life.dormant[refuted] = False
        life.recent[refuted], life.kept[refuted] = NOBODY, None
    return life, tuple(life.ids[refuted].tolist())


def forget(life: Lifecycle, alive: np.ndarray) -> tuple[Lifecycle, dict[int, Subclass]]:
    """Drop the lives of subclasses that have left the model.

    Returns
    -------
    The lives of those alive, and the lives that ended of those that had been announced (and not muted since).
    """
    gone = places_of(alive, life.ids) < 0
    if not gone.any():
        return life, {}
    return only(life, ~gone), dict(only(life, gone & life.told_of).subclasses)


def best_supported(life: Lifecycle, keys: np.ndarray, support: np.ndarray, size: np.ndarray, most: int) -> set[int]:
    """Choose ``most`` of n subclasses: muted ones, those with most seats, the largest, those seen last.

    Muted ones come first: off the menu they would come back as something new.
    """
    at = places_of(life.ids, keys)
    order = np.lexsort((keys, life.last["seq"][at], size, support, life.muted[at]))
    return set(keys[order[max(len(order) - most, 0) :]].tolist())


def worth_telling(life: Lifecycle) -> tuple[int, ...]:
    """Identities of the emerged subclasses that are not muted."""
    return tuple(life.ids[life.told_of].tolist())


def estimate_new_classes(n_emerged: int, n_known_subclasses: int, n_known_classes: int) -> int:
    """Equation (14): ``floor(|S_unknown| / (|S_known| / (J - 1)) + 1/2)``; J - 1 is the number of known classes.

    Examples
    --------
    >>> estimate_new_classes(14, 19, 5)  # the paper's USPS example
    4
    """
    return int(np.floor(n_emerged / max(n_known_subclasses / n_known_classes, 1e-12) + 0.5))
