"""Changes of known classes, and of the share called unknown.

Known classes that move, apart from what is new: a detector for each known class, on how usual its instances are.

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

The share of the stream that is called unknown, and whether it has jumped: a cumulative-sum test on a Bernoulli.

Whatever emerges is told when it has a shape. That much more of the stream than usual is unknown is a fact of its own:
it holds for noise, for a sensor that fails, for many small classes at once, for a subclass of which no more is told.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from stream_osr.model.jit import Array, kernel

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

    detectors: Array
    pending: Array
    arrived: Array
    seen: float
    owed: Array
    usual: Array
    lately: Array


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
    mean: Array


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
    nearest: Array,
    rank: Array,
    accepted: Array,
    rows: Array,
    first: int,
    n_classes: int,
    interval: float,
    usual: Array | None = None,
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
    explained = accepted if usual is None else accepted | usual
    batch = _DriftBatch(nearest, rank, accepted, explained, rows)
    drift, announced = _follow(drift, batch, first, threshold_for(interval) / BLOCK)
    alarms = []
    in_order = announced[np.argsort(announced[:, 0], kind="stable")].tolist()
    for j, side, since, blocks, before, n, now, *row in in_order:
        direction, size = (SPARSER, DENSER)[int(side)], BLOCK * int(n - blocks)
        alarms.append(Alarm(int(j), direction, int(since), size, before, now, np.array(row)))
    return drift, alarms


class _DriftBatch(NamedTuple):
    """The instances of a batch, as :func:`follow` has them; ``explained``: those that replace nobody."""

    nearest: Array
    rank: Array
    accepted: Array
    explained: Array
    rows: Array


@kernel
def _follow(drift: Drift, batch: _DriftBatch, first: int, threshold: float) -> tuple[Drift, Array]:
    """Do what :func:`follow` does, and list the alarms.

    Returns
    -------
    The detectors, and of each alarm, side by side: class, side, since when, the number of blocks and the mean rank
    then, the number of blocks now, mean rank and mean row lately.
    """
    counts, drift = _count(drift, batch)
    nearest, rank, _, _, rows = batch
    (n, d), n_classes = rows.shape, len(drift.owed)
    detectors, pending, usual = drift.detectors.copy(), drift.pending.copy(), drift.usual.copy()
    lately = drift.lately.copy()
    alarms, reported_from = np.empty((n // BLOCK + n_classes, 7 + d)), 0
    fade = 0.5 ** (1.0 / LATELY)
    for i in range(n):
        if not counts[i]:
            continue
        j = nearest[i]
        own = lately[j]
        own *= fade
        own[0] += 1.0
        own[1] += rank[i]
        own[2:] += rows[i]
        pending[j, 0] += 1.0
        pending[j, 1] += rank[i]
        if pending[j, 0] < BLOCK:
            continue
        mean = pending[j, 1] / BLOCK
        pending[j] = 0.0
        _update(detectors[j], mean)
        blocks, level, increase, decrease, least, largest = detectors[j]
        for side in range(2):  # sparser, denser
            if (decrease >= largest) if side == 0 else (increase <= least):
                usual[j, side, 0], usual[j, side, 1], usual[j, side, 2] = first + 1 + i, blocks, level
        if max(increase - least, largest - decrease) > threshold:
            side = 1 if increase - least > largest - decrease else 0
            alarm = alarms[reported_from]
            alarm[0], alarm[1], alarm[2:5], alarm[5] = j, side, usual[j, side], blocks
            alarm[6:] = own[1:] / own[0]
            reported_from += 1
            _begin(detectors[j], alarm[6])
            for side in range(2):
                usual[j, side, 0], usual[j, side, 1], usual[j, side, 2] = first + 1 + i, PRIOR_BLOCKS, alarm[6]
    return Drift(detectors, pending, drift.arrived, drift.seen, drift.owed, usual, lately), alarms[:reported_from]


@kernel
def _count(drift: Drift, batch: _DriftBatch) -> tuple[Array, Drift]:
    """Choose the instances that count for their nearest class: all accepted ones, some that nothing explains."""
    nearest, _, accepted, explained, _ = batch
    n, n_classes = len(nearest), len(drift.owed)
    came, counts, owed, arrived = np.zeros(n_classes), accepted.copy(), np.empty(n_classes), np.zeros(n_classes)
    for i in range(n):
        came[nearest[i]] += accepted[i]
    all_came, all_arrived = came.sum(), drift.arrived.sum()
    for j in range(n_classes):
        pace = (all_came - came[j]) / max(all_arrived - drift.arrived[j], 1.0)
        expected = drift.arrived[j] * max(pace, LEAST_PACE * n / max(drift.seen, 1.0))
        owed[j] = min(max(drift.owed[j] + expected - came[j], -MOST_OWED), MOST_OWED)
    for i in range(n):
        j = nearest[i]
        if not explained[i] and owed[j] >= 1.0:
            owed[j] -= 1.0
            counts[i] = True
        arrived[j] += counts[i]
    fade = 0.5 ** (n / SHARES_HALF_LIFE)
    arrived += fade * drift.arrived
    seen = fade * drift.seen + n
    return counts, Drift(drift.detectors, drift.pending, arrived, seen, owed, drift.usual, drift.lately)


def _fit(drift: Drift, n_classes: int, first: int) -> Drift:
    """Make room for classes that have come, from position ``first`` on, and forget those that have gone."""
    n = len(drift.owed)
    if n == n_classes:
        return drift

    wider = {name: values for name, values in drift._asdict().items() if name != "seen"}
    for name, values in wider.items():
        wider[name] = np.zeros((n_classes, *values.shape[1:]))
        wider[name][:n] = values[:n_classes]
    for detector in wider["detectors"][n:]:
        _begin(detector, 0.5)
    wider["usual"][n:] = first, PRIOR_BLOCKS, 0.5
    return drift._replace(**wider)


# A detector is a row of numbers: Page and Hinkley's, as ``river.drift.PageHinkley`` has it with ``alpha=1``.


@kernel
def _begin(numbers: Array, level: float) -> None:
    """Begin a detector at a mean rank."""
    numbers[:] = 0.0
    numbers[0], numbers[1] = PRIOR_BLOCKS, level


@kernel
def _update(numbers: Array, value: float) -> None:
    """Let a detector go on with one value."""
    n, mean, increase, decrease, least, largest = numbers
    n += 1.0
    mean += (1.0 / n) * (value - mean)
    off = value - mean
    increase, decrease = increase + off - TOLERANCE, decrease + off + TOLERANCE
    numbers[0], numbers[1], numbers[2], numbers[3] = n, mean, increase, decrease
    numbers[4], numbers[5] = min(least, increase), max(largest, decrease)


USUAL_HALF_LIFE = 4000.0
"""Instances after which what is usual is half forgotten."""
USUAL_FROM = 200.0
"""Instances that what training expects counts for, and a share that has changed."""
LEAST, MOST = 0.01, 0.5
"""Bounds of what training expects: less was never seen in so few instances."""
RISE = 0.05
"""A jump is to twice the usual share, or to this much above it if that is more; at most halfway to all."""
ALARM = math.log(1e6)
"""Log likelihood ratio of a jump against the usual share from which on it is told."""


class UnknownRate(NamedTuple):
    """Usual unknown rate, and the evidence that it has changed.

    Attributes
    ----------
    usual, of
        Unknown instances and all instances that say what is usual, faded.
    up, since, rising, risen
        Log likelihood ratio of a jump; the first position of what speaks for it; unknown and all instances since.
    down, falling, fallen
        The same of a fall to half, which nobody is told of.
    """

    usual: float
    of: float
    up: float = 0.0
    since: int = 0
    rising: float = 0.0
    risen: float = 0.0
    down: float = 0.0
    falling: float = 0.0
    fallen: float = 0.0

    @property
    def rate(self) -> float:
        """The usual share."""
        return self.usual / self.of


class Jump(NamedTuple):
    """The share is `rate` in the `size` instances from position `since` on, and was `before`."""

    rate: float
    before: float
    since: int
    size: int


def start_rate(expected: float) -> UnknownRate:
    """Begin with the share that training expects, of known instances alone."""
    return UnknownRate(min(max(expected, LEAST), MOST) * USUAL_FROM, USUAL_FROM)


def follow_rate(rate: UnknownRate, unknown: int, n: int, first: int) -> tuple[UnknownRate, Jump | None]:
    """Take in a batch of n instances from position ``first`` on, so many of them unknown.

    Examples
    --------
    One in a hundred is usual; then one in four is unknown:

    >>> rate, told = start_rate(0.01), []
    >>> for batch in range(40):
    ...     rate, jump = follow_rate(rate, 25 if batch >= 20 else 1, 100, 100 * batch)
    ...     told += [] if jump is None else [(batch, jump.since, jump.size)]
    >>> told, round(rate.rate, 2)
    ([(20, 2000, 100)], 0.25)
    """
    usual = min(max(rate.rate, 1e-3), 1.0 - 1e-3)
    higher = min(max(2.0 * usual, usual + RISE), 0.5 * (1.0 + usual))
    fade = 0.5 ** (n / USUAL_HALF_LIFE)
    up = rate.up + _log_ratio(unknown, n, higher, usual)
    down = rate.down + _log_ratio(unknown, n, 0.5 * usual, usual)
    since = rate.since if rate.risen else first
    rising, risen = rate.rising + unknown, rate.risen + n
    falling, fallen = rate.falling + unknown, rate.fallen + n
    if up >= ALARM:
        share = rising / risen
        return UnknownRate(share * USUAL_FROM, USUAL_FROM), Jump(share, rate.rate, since, int(risen))
    if down >= ALARM:
        return UnknownRate(max(falling / fallen, 1e-3) * USUAL_FROM, USUAL_FROM), None
    usual, of = fade * rate.usual, fade * rate.of
    if up <= 0.0:
        usual, of, up, rising, risen = usual + rising, of + risen, 0.0, 0.0, 0.0
    if down <= 0.0:
        down, falling, fallen = 0.0, 0.0, 0.0
    return UnknownRate(usual, of, up, since, rising, risen, down, falling, fallen), None


def _log_ratio(unknown: int, n: int, other: float, usual: float) -> float:
    return unknown * math.log(other / usual) + (n - unknown) * math.log((1.0 - other) / (1.0 - usual))
