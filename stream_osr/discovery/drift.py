"""Changes of known classes, and of the unknown rate.

**Known classes.** Each known class has a detector that monitors how usual the class's instances are.

A detector uses the density rank: the share of the class's training instances that are at most as dense as an
instance. The rank is uniform on [0, 1] for a stable class. It falls when the class moves or widens, and rises when it
narrows. Unlike a log density, it limits the weight of a far instance. Means of ``BLOCK`` ranks go to a two-sided
Page-Hinkley test for each class. If neighbours were dependent in training, a block counts as its number of
independent instances.

Each change is reported once. After a report, a detector stays at the reported rank. It reports again when the class
has moved as far again, or has come back and moved again. It has come back when its rank is less than half as far from
the training mean as the reported one. The way back itself is not reported.

With accepted instances alone, a detector would never see its class leave. With all instances whose nearest class it
is, every new class nearby would look like drift. Therefore unknown instances count for their nearest class only if
they *replace* it. Their number is limited to the missing instances of the class, by its share among the known ones so
far. A new class beside a known one adds instances. A class that moved away leaves a gap.

Gaps also occur by chance, and a permanent new class beside the known one would fill each of them. An instance of a
subclass that arrives at its usual rate (:func:`.arrives_as_usual`) therefore replaces no
class. A subclass that replaced a known class has begun recently, or arrives far more often than before. An
announcement is no evidence: a class that moved away is announced within a few instances, too.

**Unknown rate.** A cumulative-sum test on a Bernoulli detects jumps of the share that is called unknown.

Emerging subclasses are announced when they have a shape. A jump of the unknown rate is a separate fact. It also
covers noise, a failing sensor, many small classes at once, and subclasses of no interest.
"""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

import numpy as np

from stream_osr.model.jit import Array, kernel
from stream_osr.support import rules

BLOCK = 8
"""Number of ranks whose mean is one value for a detector (comparison of detectors:
``benchmarks/results/discovery.md``)."""
TOLERANCE = 0.05
"""Deviation of a mean rank that is never drift, since the frozen classes are estimates."""
PRIOR_BLOCKS = 8
"""Number of blocks that a detector begins with. Their mean is 1/2 as in training or, after a report, the reported
rank."""
LEAST_MOVED = 20
"""Least number of independent instances of a class since a change that is reported."""
LATELY = 8.0
"""Number of instances of a class after which one has half the weight in the recent mean."""
MOST_OWED = 16.0
"""Largest number of instances that a class may be short of, or ahead."""
SHARES_HALF_LIFE = 4000.0
"""Number of instances of the stream after which an arrival has half the weight in the class share."""
LEAST_PACE = 0.25
"""Least share of the usual rate at which a class is expected, even if it is alone or others are missing."""

SPARSER, DENSER = "sparser", "denser"


class Drift(NamedTuple):
    """Detectors of J known classes in d whitened dimensions, of size O(J d).

    Attributes
    ----------
    detectors
        Page-Hinkley test of each class: number of independent blocks, their mean rank, the two sums and their
        extremes, shape (J, 6).
    pending
        Number and sum of the ranks of the unfinished block, shape (J, 2).
    arrived
        Decayed number of instances of each class, shape (J,).
    seen
        Decayed number of instances of the stream.
    owed
        Number of instances that each class is short of, shape (J,).
    usual
        Possible start of a change to sparser and to denser ranks, shape (J, 2, 3). The values are the position after
        the latest block against it, the detector's number of blocks then, and their mean rank.
    lately
        Number of instances, sum of their ranks and of their whitened rows, shape (J, d + 2). They decay with the
        instances of the class.
    """

    detectors: Annotated[Array, rules.array("f", "J", "6")]
    pending: Annotated[Array, rules.array("f", "J", "2", low=0.0, high=8.0)]
    arrived: Annotated[Array, rules.array("f", "J", low=0.0, high=1e15)]
    seen: Annotated[float, rules.number(0.0, 1e15)]
    owed: Annotated[Array, rules.array("f", "J", low=-16.0, high=16.0)]
    usual: Annotated[Array, rules.array("f", "J", "2", "3")]
    lately: Annotated[Array, rules.array("f", "J", "e")]


class Alarm(NamedTuple):
    """Alarm for a known class.

    Attributes
    ----------
    j
        Number of the class.
    direction
        ``"sparser"`` or ``"denser"``.
    since
        Estimated position in the stream where the change began.
    size
        Number of instances of the class since then.
    rank_before, rank_now
        Mean density rank before the change, and recently.
    mean
        Recent mean of the whitened rows, shape (d,).
    """

    j: int
    direction: str
    since: int
    size: int
    rank_before: float
    rank_now: float
    mean: Array


def start_drift(n_classes: int, n_features: int) -> Drift:
    """Return the detectors before any instance."""
    none = np.zeros(0)
    columns = np.zeros((0, 6)), np.zeros((0, 2)), none, 0.0, none, np.zeros((0, 2, 3)), np.zeros((0, n_features + 2))
    return _fit(Drift(*columns), n_classes, 0)


def threshold_for(interval: float) -> float:
    """Return the threshold, in summed ranks, for a given mean interval between false alarms of a stable class.

    Sums and interval are those of independent instances.

    It uses Siegmund's approximation for a random walk with the variance 1/12 of a uniform rank and the drift
    ``TOLERANCE``, for both directions.

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
    independent: float = 1.0,
) -> tuple[Drift, list[Alarm]]:
    """Update the detectors with a batch.

    Parameters
    ----------
    drift
        Detectors so far, which do not change.
    nearest
        Number of the nearest class of each instance, shape (b,).
    rank
        Density rank of each instance in that class, in [0, 1], shape (b,).
    accepted
        Mask of instances that are called known, shape (b,).
    rows
        Whitened rows, shape (b, d).
    first
        Position of the first instance in the stream.
    n_classes
        Present number of known classes. Labels may have opened some.
    interval
        See :func:`threshold_for`.
    usual
        Mask of instances in new subclasses that arrive at their usual rate, shape (b,). They replace no known class.
        ``None``: there are none.
    independent
        Number of independent instances with the information of one instance.
    """
    drift = _fit(drift, n_classes, first)
    explained = accepted if usual is None else accepted | usual
    batch = _DriftBatch(nearest, rank, accepted, explained, rows)
    drift, announced = _follow(drift, batch, first, threshold_for(interval) / BLOCK, independent)
    alarms = []
    in_order = announced[np.argsort(announced[:, 0], kind="stable")].tolist()
    for j, side, since, blocks, before, n, now, *row in in_order:
        direction, size = (SPARSER, DENSER)[int(side)], BLOCK * round((n - blocks) / independent)
        alarms.append(Alarm(int(j), direction, int(since), size, before, now, np.array(row)))
    return drift, alarms


class _DriftBatch(NamedTuple):
    """Instances of a batch, as in :func:`follow`. ``explained`` are those that replace no class."""

    nearest: Array
    rank: Array
    accepted: Array
    explained: Array
    rows: Array


@kernel
def _follow(
    drift: Drift, batch: _DriftBatch, first: int, threshold: float, independent: float
) -> tuple[Drift, Array]:
    """Compute :func:`follow`, and list the alarms.

    Returns
    -------
    The detectors, and an array with a row for each alarm. Its columns are the class, the side, and the start with the
    number of blocks and the mean rank then. The present number of blocks and the recent mean rank and row follow.
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
        _update(detectors[j], mean, independent)
        blocks, level, increase, decrease, least, largest = detectors[j]
        for side in range(2):  # sparser, denser
            if (decrease >= largest) if side == 0 else (increase <= least):
                usual[j, side, 0], usual[j, side, 1], usual[j, side, 2] = first + 1 + i, blocks, level
        side = 1 if increase - least > largest - decrease else 0
        if (
            max(increase - least, largest - decrease) > threshold
            and BLOCK * (blocks - usual[j, side, 1]) >= LEAST_MOVED
        ):
            alarm = alarms[reported_from]
            alarm[0], alarm[1], alarm[2:5], alarm[5] = j, side, usual[j, side], blocks
            alarm[6:] = own[1:] / own[0]
            before, now = alarm[4] - 0.5, alarm[6] - 0.5
            is_back = 2.0 * abs(now) < abs(before)
            if not is_back and abs(now - before) >= abs(before):
                reported_from += 1
                _begin(detectors[j], alarm[6])
            elif is_back:
                _begin(detectors[j], alarm[6] if now * before > 0.0 else 0.5)
            else:
                _begin(detectors[j], alarm[4])
            for side in range(2):
                usual[j, side, 0], usual[j, side, 1], usual[j, side, 2] = first + 1 + i, PRIOR_BLOCKS, detectors[j, 1]
    return Drift(detectors, pending, drift.arrived, drift.seen, drift.owed, usual, lately), alarms[:reported_from]


@kernel
def _count(drift: Drift, batch: _DriftBatch) -> tuple[Array, Drift]:
    """Choose the instances that count for their nearest class: accepted ones, and some of the unexplained ones."""
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
    """Add classes that were opened, from position ``first`` on, and remove those that were dropped."""
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
    """Start a detector at a mean rank."""
    numbers[:] = 0.0
    numbers[0], numbers[1] = PRIOR_BLOCKS, level


@kernel
def _update(numbers: Array, value: float, weight: float) -> None:
    """Update a detector with one value, which counts as ``weight`` values."""
    n, mean, increase, decrease, least, largest = numbers
    n += weight
    mean += (weight / n) * (value - mean)
    off, tolerance = weight * (value - mean), weight * TOLERANCE
    increase, decrease = increase + off - tolerance, decrease + off + tolerance
    numbers[0], numbers[1], numbers[2], numbers[3] = n, mean, increase, decrease
    numbers[4], numbers[5] = min(least, increase), max(largest, decrease)


USUAL_HALF_LIFE = 4000.0
"""Number of instances after which the usual rate has half the weight."""
USUAL_FROM = 200.0
"""Weight in instances of the expected rate from training, and of a rate after a jump."""
LEAST, MOST = 0.01, 0.5
"""Bounds of the expected rate from training."""
RISE = 0.05
"""Size of a jump: to twice the usual rate, or by this much if that is more, but at most halfway to 1."""
ALARM = math.log(1e6)
"""Log likelihood ratio of a jump against the usual rate that raises an alarm."""


class UnknownRate(NamedTuple):
    """Usual unknown rate, and the evidence for a change.

    Attributes
    ----------
    usual, of
        Decayed numbers of unknown and of all instances that define the usual rate.
    up, since, rising, risen
        Evidence for a jump: log likelihood ratio, first position, and numbers of unknown and of all instances since
        then.
    down, falling, fallen
        The same for a fall to half, which emits no event.
    """

    usual: Annotated[float, rules.number(0.0, 1e15)]
    of: Annotated[float, rules.number(1e-300, 1e15)]
    up: Annotated[float, rules.number(0.0, 1e15)] = 0.0
    since: rules.Count = 0
    rising: Annotated[float, rules.number(0.0, 1e15)] = 0.0
    risen: Annotated[float, rules.number(0.0, 1e15)] = 0.0
    down: Annotated[float, rules.number(0.0, 1e15)] = 0.0
    falling: Annotated[float, rules.number(0.0, 1e15)] = 0.0
    fallen: Annotated[float, rules.number(0.0, 1e15)] = 0.0

    @property
    def rate(self) -> float:
        """The usual rate."""
        return self.usual / self.of


class Jump(NamedTuple):
    """Jump to `rate` in the `size` instances from position `since` on. The rate was `before`."""

    rate: float
    before: float
    since: int
    size: int


def start_rate(expected: float) -> UnknownRate:
    """Start with the unknown rate that training expects for known instances."""
    return UnknownRate(min(max(expected, LEAST), MOST) * USUAL_FROM, USUAL_FROM)


def follow_rate(rate: UnknownRate, unknown: int, n: int, first: int) -> tuple[UnknownRate, Jump | None]:
    """Update the rate with a batch of n instances from position ``first`` on, some of them unknown.

    Examples
    --------
    One in a hundred is usual. Then one in four is unknown:

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
