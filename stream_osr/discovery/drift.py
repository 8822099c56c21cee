"""Known classes that move, apart from what is new: a detector for each known class, on how usual its instances are.

What a detector sees is the density rank: the share of a class's training instances that are no denser than an
instance. It is uniform on [0, 1] for a class that stays as it is, sinks when the class moves or widens, rises when it
narrows, and one far instance counts no more than an odd one, which a log density would not grant. Means of ``BLOCK``
ranks go to a two-sided Page-Hinkley test for each class.

A detector fed with accepted instances alone would never see its class leave. Fed with all instances whose nearest
class it is, it would take every new class nearby for a drift. Here unknown instances count for their nearest class
only as far as they *replace* it: as many as are missing of the instances that the class should have, by its share
among the known ones so far. A new class beside a known one comes on top of it; one that has moved away leaves a gap.

A gap is also there by chance, again and again, and a new class that stays beside the known one would fill each. So an
instance that the stream's state gives to a subclass which comes as it has come for long
(:func:`stream_osr.discovery.lifecycle.comes_as_usual`) replaces nobody: it would have come anyway. What has taken a
known class's place shows as the opposite: a subclass that has begun lately, or comes far more often than it used to.
That it has been announced says nothing: a class that has moved away is announced, too, within a few instances.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import NamedTuple

import numpy as np

BLOCK = 8
"""Ranks whose mean is one value for a detector."""
TOLERANCE = 0.05
"""A mean rank that is off by less is no drift, however long it lasts: what is frozen is an estimate."""
PRIOR_BLOCKS = 8
"""So many blocks a detector begins with: of mean 1/2 as in training, or, after an alarm, as rank was lately."""
LATELY = 8.0
"""Instances of a class after which one counts half in what the class has been like lately."""
MOST_OWED = 16.0
"""Instances that a class may be short of, or ahead: more are not carried over."""
SHARES_HALF_LIFE = 4000.0
"""Instances of the stream after which an arrival counts half in the share of its class."""
LEAST_PACE = 0.25
"""A class is expected at this share of its usual rate at least, also if it is alone or the others are missing too."""

SPARSER, DENSER = "sparser", "denser"


class Drift(NamedTuple):
    """The detectors of J known classes in d whitened dimensions. Size O(J d), however long the stream.

    Attributes
    ----------
    detectors
        Page-Hinkley test of each class: values, their mean, the two sums and their extremes, shape (J, 6).
    pending
        Number and sum of the ranks of the unfinished block, shape (J, 2).
    arrived
        Instances that counted for each class, faded, shape (J,).
    seen
        Instances of the stream, faded likewise.
    owed
        Instances that each class is short of, shape (J,).
    usual
        Since when a change to sparser and to denser ranks may be under way: the position in the stream that follows
        the latest block that spoke against it, the detector's number of values then, and their mean, shape (J, 2, 3).
    lately
        Number of instances, sum of their ranks and of their whitened rows, faded by instances of the class,
        shape (J, d + 2).
    """

    detectors: np.ndarray
    pending: np.ndarray
    arrived: np.ndarray
    seen: float
    owed: np.ndarray
    usual: np.ndarray
    lately: np.ndarray


class Alarm(NamedTuple):
    """A known class has changed.

    Attributes
    ----------
    j
        Number of the class.
    direction
        ``"sparser"`` or ``"denser"``.
    since
        Position in the stream from which on it looks changed.
    size
        Instances that counted for it since.
    rank_before, rank_now
        Mean density rank before, and lately.
    mean
        Mean whitened row lately, shape (d,).
    """

    j: int
    direction: str
    since: int
    size: int
    rank_before: float
    rank_now: float
    mean: np.ndarray


def start_drift(n_classes: int, n_features: int) -> Drift:
    """Begin with nothing seen."""
    none = np.zeros(0)
    columns = np.zeros((0, 6)), np.zeros((0, 2)), none, 0.0, none, np.zeros((0, 2, 3)), np.zeros((0, n_features + 2))
    return _fit(Drift(*columns), n_classes, 0)


def threshold_for(interval: float) -> float:
    """Threshold, in summed ranks, of a false alarm every so many instances of a class that stays as it is.

    Siegmund's approximation for a random walk with the variance 1/12 of a uniform rank and the drift of
    ``TOLERANCE``, both directions counted.

    Examples
    --------
    >>> round(threshold_for(1e6), 2)
    9.75
    """
    variance = 1.0 / 12.0
    return variance / (2.0 * TOLERANCE) * math.log1p(4.0 * TOLERANCE**2 * interval / variance)


def follow(
    drift: Drift,
    nearest: np.ndarray,
    rank: np.ndarray,
    accepted: np.ndarray,
    rows: np.ndarray,
    first: int,
    n_classes: int,
    interval: float,
    usual: np.ndarray | None = None,
) -> tuple[Drift, list[Alarm]]:
    """Take in a batch.

    Parameters
    ----------
    drift
        The detectors so far; they do not change.
    nearest
        Number of the nearest class of each instance, shape (b,).
    rank
        Density rank of each instance in that class, in [0, 1], shape (b,).
    accepted
        Which instances are called known, shape (b,).
    rows
        Whitened rows, shape (b, d).
    first
        Position in the stream of the first of them.
    n_classes
        Known classes now: labels may have opened some.
    interval
        See :func:`threshold_for`.
    usual
        Which instances are given to what is new and comes as often as it has for long: they replace nobody, shape
        (b,); ``None``: it is not known of any.
    """
    drift = _fit(drift, n_classes, first)
    counts, drift = _count(drift, nearest, accepted, accepted if usual is None else accepted | usual)
    order = np.flatnonzero(counts)
    order = order[np.argsort(nearest[order], kind="stable")]
    label, values = nearest[order], np.column_stack([np.ones(len(order)), rank[order], rows[order]])
    ranks, after = rank[order].tolist(), (first + 1 + order).tolist()
    begins = np.searchsorted(label, np.arange(n_classes + 1)).tolist()
    detectors, pending, usual = drift.detectors.tolist(), drift.pending.tolist(), drift.usual.tolist()
    alarms: list[Alarm] = []
    threshold = threshold_for(interval) / BLOCK
    for j, (begin, end) in enumerate(pairwise(begins)):
        waiting, total = pending[j]
        last = begin
        for at in range(begin + BLOCK - int(waiting), end + 1, BLOCK):
            mean = (total + sum(ranks[last:at])) / BLOCK
            last, waiting, total = at, 0, 0.0
            detectors[j] = numbers = _update(detectors[j], mean)
            _, _, increase, decrease, least, largest = numbers
            for side, against in enumerate((decrease >= largest, increase <= least)):  # sparser, denser
                if against:
                    usual[j][side] = [after[at - 1], *numbers[:2]]
            if max(increase - least, largest - decrease) > threshold:
                side = int(increase - least > largest - decrease)
                since, blocks, before = usual[j][side]
                age = np.arange(at - begin, -1, -1)
                lately = 0.5 ** (age / LATELY) @ np.vstack([drift.lately[j], values[begin:at]])
                now, *row = (lately[1:] / lately[0]).tolist()
                size = BLOCK * int(numbers[0] - blocks)
                alarms.append(Alarm(j, (SPARSER, DENSER)[side], int(since), size, before, now, np.array(row)))
                detectors[j] = _begin(now)
                usual[j] = [[after[at - 1], *detectors[j][:2]]] * 2
        pending[j] = [waiting + end - last, total + sum(ranks[last:end])]
    came = np.diff(begins)
    weight = 0.5 ** ((np.array(begins)[1:][label] - 1 - np.arange(len(order))) / LATELY)
    member = (label == np.arange(n_classes)[:, None]) * weight
    lately = 0.5 ** (came / LATELY)[:, None] * drift.lately + member @ values
    detectors, pending, usual = np.array(detectors), np.array(pending), np.array(usual)
    return drift._replace(detectors=detectors, pending=pending, usual=usual, lately=lately), alarms


def _count(
    drift: Drift, nearest: np.ndarray, accepted: np.ndarray, explained: np.ndarray
) -> tuple[np.ndarray, Drift]:
    """Choose the instances that count for their nearest class: all accepted ones, some that nothing explains."""
    n, n_classes = len(nearest), len(drift.owed)
    came = np.bincount(nearest[accepted], minlength=n_classes)
    pace = (came.sum() - came) / np.maximum(drift.arrived.sum() - drift.arrived, 1.0)
    expected = drift.arrived * np.maximum(pace, LEAST_PACE * n / max(drift.seen, 1.0))
    owed = np.minimum(np.maximum(drift.owed + expected - came, -MOST_OWED), MOST_OWED)
    counts, places = accepted.copy(), owed.tolist()
    unknown = np.flatnonzero(~explained)
    for i, j in zip(unknown.tolist(), nearest[unknown].tolist(), strict=True):
        if places[j] >= 1.0:
            places[j] -= 1.0
            counts[i] = True
    fade = 0.5 ** (n / SHARES_HALF_LIFE)
    return counts, drift._replace(
        arrived=fade * drift.arrived + np.bincount(nearest[counts], minlength=n_classes),
        seen=fade * drift.seen + n,
        owed=np.array(places),
    )


def _fit(drift: Drift, n_classes: int, first: int) -> Drift:
    """Make room for classes that have come, from position ``first`` on, and forget those that have gone."""
    n = len(drift.owed)
    if n == n_classes:
        return drift

    begins: dict[str, list[float]] = {"detectors": _begin(0.5), "usual": [first, PRIOR_BLOCKS, 0.5]}
    wider = {name: values for name, values in drift._asdict().items() if name != "seen"}
    for name, values in wider.items():
        wider[name] = np.zeros((n_classes, *values.shape[1:]))
        wider[name][:n], wider[name][n:] = values[:n_classes], begins.get(name, 0.0)
    return drift._replace(**wider)


# A detector is a row of numbers: Page and Hinkley's, as ``river.drift.PageHinkley`` has it with ``alpha=1``.


def _begin(level: float) -> list[float]:
    """Begin a detector at a mean rank."""
    return [PRIOR_BLOCKS, level, 0.0, 0.0, 0.0, 0.0]


def _update(numbers: list[float], value: float) -> list[float]:
    """Let a detector go on from these numbers with one value."""
    n, mean, increase, decrease, least, largest = numbers
    n += 1.0
    mean += (1.0 / n) * (value - mean)
    off = value - mean
    increase, decrease = increase + off - TOLERANCE, decrease + off + TOLERANCE
    return [n, mean, increase, decrease, min(least, increase), max(largest, decrease)]
