"""Columns that fail: stuck at one value, out of scale, or shifted as a whole. Nothing here knows a class.

Training says how long each column repeats a value and which range its classes span. A column of the stream is
*stuck* once it repeats one value for longer than training makes plausible, *out of scale* once nearly all of its
latest values lie ten ranges beyond the range of training, and *shifted* once they have left the range together by one
range.
Instances that repeat their predecessor wholly are no evidence about a column (:mod:`stream_osr.discovery.repeats`).

A column that repeats a value goes on with a probability of at most h, an upper bound over its values in training. It
is stuck from ``log(FALSE_ALARM) / log(h)`` instances on, so that an instance raises a false alarm with a probability
below ``FALSE_ALARM`` where runs are geometric; and from twice its longest run in training on, or twice its second
longest run in the stream that ended.

A new class may lie out of range, too, and last. What tells a fault from it is that the instances in question are of
many kinds otherwise: their other columns vary as in training.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

FALSE_ALARM = 1e-12
"""Probability that an instance raises a false alarm in a column, where runs are geometric."""
LEAST_RUN = 16
"""Instances with one value that a stuck column has at least."""
AT_EDGE = 4
"""Times as long a run has to be at either end of the range of training, where values may be cut off."""
MOST_LEARNT = 256
"""Longest run that the stream itself makes usual."""
COMMON = 10
"""A value that occurs so often in training is judged by itself; all others are judged together."""
OUTERMOST = 0.01
"""Share of a class that lies below its range, and above."""

FAR, OFF, INSIDE = 10.0, 1.0, 0.1
"""Ranges beyond the range of training: out of scale; shifted; still inside."""
MEMORY = 16.0
"""Instances over which the share of values beyond the range is averaged, exponentially."""
BEGINS, ENDS = 0.85, 0.5
"""Share beyond the range above which a fault begins, and below which it ends."""
JUMP = 48
"""Instances since the last value inside the range, at most, when a shift begins: slower changes are drift."""
VARIETY_MEMORY = 64.0
"""Instances over which the variance of the other columns is averaged, exponentially."""
MOST_VARIETY = 0.8
"""Share of the training variance that is always enough."""

KINDS = ("", "stuck", "out of scale", "shifted")
"""What a column is: nothing is wrong, or one of these."""
STUCK, SCALE, SHIFTED = 1, 2, 3


class Usual(NamedTuple):
    """What training says of the p raw columns, and of rows that repeat.

    Attributes
    ----------
    longest
        Longest run of one value in order of arrival, shape (p,).
    stuck
        Length of a run from which on a column is stuck; 0: it is never, shape (p,).
    low, high
        Range: from the lowest 1st to the highest 99th percentile of a class, shape (p,). Both are 0 for columns that
        are not numeric or do not vary; these are not watched.
    middle, variance
        Training mean and variance, shape (p,); 0 and 1 for columns that are not watched.
    within
        Share of the variance that lies within classes, averaged over the watched columns.
    copies
        Copies of one row among ``WINDOW`` successive ones in training, at most.
    repeats
        Copies from which on a row repeats (:mod:`stream_osr.discovery.repeats`); 0: it never does.
    """

    longest: np.ndarray
    stuck: np.ndarray
    low: np.ndarray
    high: np.ndarray
    middle: np.ndarray
    variance: np.ndarray
    within: float
    copies: int
    repeats: int


class Columns(NamedTuple):
    """How the columns of a stream are doing.

    Attributes
    ----------
    last
        Latest value of each, NaN: none came, shape (p,).
    run
        Instances since it last changed, shape (p,).
    ended
        The longest and the second longest run that ended, at most ``MOST_LEARNT``, shape (2, p).
    beyond
        Shares of the latest values that are far beyond the range of training, and that are off it, shape (2, p).
    outside
        Instances since the last value inside, shape (p,).
    kind
        Number of the fault in ``KINDS``, shape (p,).
    hidden
        Columns that are treated as missing now, shape (p,).
    moments
        Weight of the instances of which a column was off lately, sum and sum of squares of each column, standardised,
        shape (3, p).
    """

    last: np.ndarray
    run: np.ndarray
    ended: np.ndarray
    beyond: np.ndarray
    outside: np.ndarray
    kind: np.ndarray
    hidden: np.ndarray
    moments: np.ndarray


class Fault(NamedTuple):
    """Column number ``column`` fails: the kind, since which position, in how many instances, the latest value."""

    column: int
    kind: str
    since: int
    size: int
    value: float


def usual_columns(X: np.ndarray, group: np.ndarray, numeric: np.ndarray, copies: int, repeats: int) -> Usual:
    """Say what is usual; rows that repeat their predecessor count once.

    Parameters
    ----------
    X
        Raw training rows in order of arrival, NaN = missing, shape (n, p).
    group
        Class of each, shape (n,).
    numeric
        Columns that are numbers, shape (p,).
    copies, repeats
        Of rows (:func:`stream_osr.discovery.repeats.usual_copies`).

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(200, 2)).round([9, 0])
    >>> usual = usual_columns(X, np.arange(200) % 2, np.ones(2, bool), 1, 8)
    >>> usual.longest, usual.stuck
    (array([1, 6]), array([16, 38]))
    """
    told = np.ones(len(X), bool)
    told[1:] = ((X[1:] != X[:-1]) & ~(np.isnan(X[1:]) & np.isnan(X[:-1]))).any(axis=1)
    X, group, p = X[told], group[told], X.shape[1]
    longest, stuck, within = np.ones(p, np.int64), np.zeros(p, np.int64), np.ones(p)
    low, high, middle, variance = np.zeros(p), np.zeros(p), np.zeros(p), np.ones(p)
    for c in range(p):
        there = ~np.isnan(X[:, c])
        x, own = X[there, c], group[there]
        if not len(x):
            continue
        longest[c] = _longest(x)
        if not numeric[c] or x.min() == x.max():
            continue
        parts = [x[own == j] for j in np.unique(own)]
        ends = np.array([np.quantile(part, (OUTERMOST, 1.0 - OUTERMOST)) for part in parts])
        if not ends[:, 0].min() < ends[:, 1].max():
            continue
        low[c], high[c], middle[c], variance[c] = ends[:, 0].min(), ends[:, 1].max(), x.mean(), x.var()
        within[c] = sum(len(part) * part.var() for part in parts) / (len(x) * variance[c])
        hold = _hold(x)
        if hold < 1.0:
            stuck[c] = max(LEAST_RUN, 2 * longest[c], math.ceil(math.log(FALSE_ALARM) / math.log(hold)))
    watched = low < high
    share = float(np.clip(within[watched].mean(), 0.0, 1.0)) if watched.any() else 1.0
    return Usual(longest, stuck, low, high, middle, variance, share, copies, repeats)


def _longest(x: np.ndarray) -> int:
    changes = np.flatnonzero(x[1:] != x[:-1]) + 1
    return int(np.diff(np.concatenate([[0], changes, [len(x)]])).max())


def _hold(x: np.ndarray) -> float:
    """Bound the probability that a value repeats, over the values of a column in order of arrival, from above."""
    if len(x) < 2:
        return 1.0
    _, value, count = np.unique(x[:-1], return_inverse=True, return_counts=True)
    ends = np.bincount(value, x[1:] != x[:-1])
    common = count >= COMMON
    count, ends = (np.append(of[common], of[~common].sum()) for of in (count, ends))
    judged = count >= min(COMMON, len(x) - 1)
    return float(1.0 - (np.maximum(ends - 2.0 * np.sqrt(ends), 0.0) / np.maximum(count, 1))[judged].min())


def start_columns(p: int) -> Columns:
    """Begin with p columns of which nothing is known."""
    nothing = np.zeros(p, np.int64)
    return Columns(
        np.full(p, np.nan),
        nothing,
        np.zeros((2, p), np.int64),
        np.zeros((2, p)),
        nothing,
        nothing,
        np.zeros(p, bool),
        np.zeros((3, p)),
    )


def follow_columns(
    usual: Usual, columns: Columns, values: np.ndarray, seq: int
) -> tuple[Columns, np.ndarray, list[Fault]]:
    """Follow the columns through a batch.

    Parameters
    ----------
    usual, columns
        Training, and the stream so far.
    values
        Raw rows, NaN = missing, shape (b, p), b >= 1.
    seq
        Position of the first of them.

    Returns
    -------
    The columns after the batch, which values are to be treated as missing, shape (b, p), and the faults that begin.
    """
    before, rows = columns, _filled(columns.last, values)
    same = rows == np.vstack([columns.last, rows[:-1]])
    same |= np.isnan(values)
    told = ~same.all(axis=1)
    if not told.any():
        return columns, np.tile(columns.hidden, (len(values), 1)), []
    at, rows, same = np.flatnonzero(told), rows[told], same[told]
    seen = np.cumsum(~np.isnan(values[told]), axis=0)
    begin = np.maximum.accumulate(np.vstack([-columns.run, np.where(same, np.iinfo(np.int64).min, seen - 1)]))[1:]
    run = seen - begin
    enough = np.maximum(usual.stuck, 2 * columns.ended[1])
    edge = (rows == usual.low) | (rows == usual.high)
    stuck = (usual.stuck > 0) & (run >= np.where(edge, AT_EDGE, 1) * enough)
    stuck |= (columns.kind == STUCK) & np.logical_and.accumulate(same, axis=0)
    columns = columns._replace(last=rows[-1], run=run[-1], ended=_ended(columns, run, same))
    width = np.where(usual.low < usual.high, usual.high - usual.low, np.inf)
    beyond = np.nan_to_num(np.maximum(usual.low - rows, rows - usual.high) / width, nan=0.0)
    faults = [
        Fault(c, KINDS[STUCK], int(seq + at[i] - run[i, c] + 1), int(run[i, c]), float(rows[i, c]))
        for i, c in np.argwhere(stuck & ~np.vstack([before.kind == STUCK, stuck[:-1]])).tolist()
    ]
    if (beyond > OFF).any() or columns.beyond.any():
        columns, wrong, more = _follow_range(usual, columns, (rows, beyond, stuck), seq + at)
        faults += more
    else:
        latest = np.maximum.accumulate(np.where(beyond <= INSIDE, np.arange(len(rows))[:, None], -1))[-1]
        outside = len(rows) - 1 - latest + np.where(latest < 0, columns.outside, 0)
        columns, wrong = columns._replace(outside=outside), np.zeros_like(stuck)
    kind = np.where(stuck[-1], STUCK, np.where(columns.kind == STUCK, 0, columns.kind))
    columns = columns._replace(kind=kind)
    hidden = stuck | wrong
    hidden &= (2 * hidden.sum(axis=1) <= (usual.low < usual.high).sum())[:, None]
    latest = np.cumsum(told) - 1
    return (
        columns._replace(hidden=hidden[-1]),
        np.where((latest >= 0)[:, None], hidden[latest], before.hidden),
        faults,
    )


def hidden_of(columns: Columns, values: np.ndarray) -> np.ndarray:
    """Say which values of raw rows, shape (n, p), are treated as missing now.

    Of a stuck column only the value that it repeats is.
    """
    return columns.hidden & ((columns.kind != STUCK) | (values == columns.last))


def _ended(columns: Columns, run: np.ndarray, same: np.ndarray) -> np.ndarray:
    """Note the runs that ended in a batch."""
    lengths = np.where(same, 0, np.vstack([columns.run, run[:-1]]))
    longest = np.partition(np.vstack([columns.ended, np.minimum(lengths, MOST_LEARNT)]), -2, axis=0)
    return np.asarray(longest[:-3:-1])


def _filled(last: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Put the latest value in the place of each that is missing."""
    there = ~np.isnan(values)
    if there.all():
        return values
    latest = np.maximum.accumulate(np.where(there, np.arange(len(values))[:, None], -1), axis=0)
    return np.where(latest >= 0, np.take_along_axis(values, np.maximum(latest, 0), axis=0), last)


def _follow_range(
    usual: Usual, columns: Columns, batch: tuple[np.ndarray, np.ndarray, np.ndarray], at: np.ndarray
) -> tuple[Columns, np.ndarray, list[Fault]]:
    """Follow the columns whose values leave the range, an instance after the other."""
    faults, (rows, beyond, stuck) = list[Fault](), batch
    flags, inside = np.stack([beyond > FAR, beyond > OFF], axis=1), beyond <= INSIDE
    share, outside, kind, moments = columns.beyond, columns.outside, columns.kind.copy(), columns.moments
    kind[kind == STUCK] = 0
    scaled = np.clip((rows - usual.middle) / np.sqrt(usual.variance), -1e3, 1e3)
    wrong, fade = np.zeros_like(stuck), math.exp(-1.0 / VARIETY_MEMORY)
    for i in range(len(rows)):
        were, share = share, share + (flags[i] - share) / MEMORY
        outside = np.where(inside[i], 0, outside + 1)
        if flags[i, 1].any():
            z = scaled[i]
            moments = fade * moments + np.stack([np.ones_like(z), z, z * z])
        elif share[1].max() < 0.05:
            moments = np.zeros_like(moments)
        kind[(kind > 0) & (share[1] < ENDS)] = 0
        begins = np.where(share[0] > BEGINS, SCALE, 0)
        jumped = (share[1] > BEGINS) & (were[1] <= BEGINS) & (outside <= JUMP)
        if not kind.any() and not begins.any() and not jumped.any():
            continue
        varied = _varied(usual, moments, share[1] > ENDS)
        begins = np.where((begins == 0) & jumped & varied, SHIFTED, begins) * ~stuck[i]
        for c in np.flatnonzero((begins > 0) & (kind == 0)).tolist():
            size = int(outside[c])
            faults.append(Fault(c, KINDS[begins[c]], int(max(at[i] - size + 1, 0)), size, float(rows[i, c])))
        kind = np.where(kind > 0, kind, begins)
        if varied:
            wrong[i] = kind > 0
    share = np.where(share < 1e-3, 0.0, share)
    return columns._replace(beyond=share, outside=outside, kind=kind, moments=moments), wrong, faults


def _varied(usual: Usual, moments: np.ndarray, off: np.ndarray) -> bool:
    """Say whether the instances of which a column is off are of many kinds otherwise."""
    others, weight = (usual.low < usual.high) & ~off, moments[0]
    if not others.any() or weight[0] < LEAST_RUN:
        return False
    mean, square = moments[1:, others] / weight[0]
    share = np.minimum(square - mean**2, 1.0).mean()
    return bool(share >= min(0.5 * (1.0 + usual.within), MOST_VARIETY))
