"""The life of emerging subclasses: candidate, emerged, forgotten. Values in, values out.

Matching from batch to batch is by construction: the sampler carries its state, and a subclass keeps its
identity as long as it has one guest or one place on the menu.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from stream_osr.discovery.events import Moment

EMERGES_WITH = 8
"""Arrivals in a subclass (and as many that have stayed) ..."""
EMERGES_WITHIN = 640
"""... within so many instances of the stream ..."""
EMERGES_ABOVE = 0.9
"""... with at least this mean probability of being unknown, and it is announced."""
HELD_WITH = EMERGES_WITH // 2
"""An emerged subclass with fewer instances (the others have moved) is not held on the menu."""
EXEMPLARS = 5


class Subclass(NamedTuple):
    """What is remembered of an emerging subclass beside its statistics.

    Attributes
    ----------
    first, last
        First and latest arrival.
    recent
        Position and p_unknown of the latest arrivals, at most ``EMERGES_WITH``.
    exemplars
        Keys of the latest arrivals.
    emerged
        It has been announced.
    announced_size
        Its size when it was last told of.
    muted
        Nothing is told of it any more: a person knows it and does not care.
    """

    first: Moment
    last: Moment
    recent: tuple[tuple[int, float], ...] = ()
    exemplars: tuple[Any, ...] = ()
    emerged: bool = False
    announced_size: int = 0
    muted: bool = False


class Lifecycle(NamedTuple):
    """All emerging subclasses by identity, and the latest estimate of the number of new classes."""

    subclasses: Mapping[int, Subclass] = {}
    delta: int = 0


class Changes(NamedTuple):
    """What a batch changed: identities of subclasses that emerged, that doubled."""

    emerged: tuple[int, ...]
    grew: tuple[int, ...]


def observe(
    life: Lifecycle,
    arrivals: Sequence[tuple[int, Moment, float]],
    sizes: Mapping[int, int],
) -> tuple[Lifecycle, Changes]:
    """Follow one micro-batch.

    Parameters
    ----------
    life
        The lives so far; it does not change.
    arrivals
        Subclass, place in the stream and p_unknown of each instance of the batch that took a seat in an
        emerging subclass, in order.
    sizes
        Instances in each subclass that exists after the batch.
    """
    lives = dict(life.subclasses)
    together: dict[int, list[tuple[Moment, float]]] = {}
    for key, moment, p_unknown in arrivals:
        together.setdefault(key, []).append((moment, p_unknown))
    for key, came in together.items():
        old = lives.get(key) or Subclass(first=came[0][0], last=came[0][0])
        lives[key] = old._replace(
            last=came[-1][0],
            recent=(*old.recent, *((moment.seq, p) for moment, p in came[-EMERGES_WITH:]))[-EMERGES_WITH:],
            exemplars=(*old.exemplars, *(moment.key for moment, _ in came[-EXEMPLARS:]))[-EXEMPLARS:],
        )
    emerged, grew = [], []
    for key, subclass in lives.items():
        size = sizes.get(key, 0)
        if subclass.muted:
            continue
        if not subclass.emerged and size >= EMERGES_WITH and _has_support(subclass):
            emerged.append(key)
        elif subclass.emerged and size >= 2 * subclass.announced_size:
            grew.append(key)
    for key in (*emerged, *grew):
        lives[key] = lives[key]._replace(emerged=True, announced_size=sizes[key])
    return life._replace(subclasses=lives), Changes(tuple(emerged), tuple(grew))


def forget(life: Lifecycle, alive: Collection[int]) -> tuple[Lifecycle, dict[int, Subclass]]:
    """Drop the lives of subclasses that have left the model.

    Returns
    -------
    The lives of those alive, and the lives that ended of those that had been announced (and not muted since).
    """
    kept = {key: subclass for key, subclass in life.subclasses.items() if key in alive}
    ended = {key: s for key, s in life.subclasses.items() if key not in alive and s.emerged and not s.muted}
    return life._replace(subclasses=kept), ended


def _has_support(subclass: Subclass) -> bool:
    recent = subclass.recent
    return (
        len(recent) == EMERGES_WITH
        and recent[-1][0] - recent[0][0] < EMERGES_WITHIN
        and sum(p for _, p in recent) >= EMERGES_ABOVE * EMERGES_WITH
    )


def to_hold(life: Lifecycle, support: Mapping[int, float], sizes: Mapping[int, int], most: int) -> set[int]:
    """Choose the emerged subclasses that stay on the menu however their seats fade: the ``most`` best supported.

    Muted ones come first, emerged or not: off the menu they would come back as something new. A subclass that is not
    chosen lives on until its last table is cleared. One whose instances have nearly all moved to others is not
    chosen: with none left it would be one more door to "something new".
    """
    lives = life.subclasses
    held = [
        k for k, s in lives.items() if sizes.get(k, 0) >= (1 if s.muted else HELD_WITH) and (s.emerged or s.muted)
    ]
    held.sort(key=lambda k: (lives[k].muted, support[k], sizes[k], k), reverse=True)
    return set(held[:most])


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
