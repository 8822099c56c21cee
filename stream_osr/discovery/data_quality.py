"""Faults of the data: columns that fail, and rows that repeat.

Rows that repeat far more often than in training: they count once.

Copies of a row count once if there are more of them among the latest ``WINDOW`` instances than twice what training
had among so many. That the row repeats is told if there are more than training makes plausible: than a binomial law
has with the share of the commonest row in its class. In some tables most rows repeat: there all count.

Columns that fail: stuck at one value, out of scale, or shifted as a whole. Nothing here knows a class.

Training says how long each column repeats a value and which range its classes span. A column of the stream is
*stuck* once it repeats one value for longer than training makes plausible, *out of scale* once nearly all of its
latest values lie ten ranges beyond the range of training, and *shifted* once they have left the range together by one
range.
Instances that repeat their predecessor wholly are no evidence about a column.

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
from scipy.special import betainc

from stream_osr.model.jit import Array, borrowing_kernel, kernel

WINDOW = 64
"""Latest instances among which copies are counted."""
LEAST_COPIES = 8
"""Copies from which on it is told that a row repeats, at least."""
LEAST_ONCE = 4
"""Copies from which on they count once, at least; one more where any row of training repeats."""
MOST_COPIES = 48
"""If it took more than so many, all rows count."""
FALSE_ALARM = 1e-12
"""Probability of so many copies by chance; and that an instance raises a false alarm in a column, where runs are
geometric."""
MIXER, LARGEST = 0x2545F4914F6CDD1D, (1 << 62) - 1
"""Of fingerprints: an odd factor, and the bits that are kept."""


class UsualCopies(NamedTuple):
    """Repetition of rows in training.

    Attributes
    ----------
    most
        Copies of one row among ``WINDOW`` successive ones, at most.
    once
        Copies from which on they count once; 0: they never do.
    reported_from
        Copies from which on it is told that the row repeats; 0: it never is.
    """

    most: int
    once: int
    reported_from: int


def fingerprints(values: Array) -> Array:
    """Mix raw rows, NaN = missing, shape (n, p), to numbers of 62 bits: equal rows have the same, shape (n,).

    Examples
    --------
    >>> one, two, three = fingerprints(np.array([[1.0, np.nan], [1.0, 2.0], [1.0, np.nan]]))
    >>> bool(one == three), bool(one == two)
    (True, False)
    """
    return _mixed(np.ascontiguousarray(np.where(np.isnan(values), np.nan, values + 0.0)).view(np.int64))


@kernel
def _mixed(bits: Array) -> Array:
    out = np.zeros(len(bits), np.int64)
    for i in range(len(bits)):
        for c in range(bits.shape[1]):
            out[i] = (out[i] ^ bits[i, c] ^ (bits[i, c] >> 29)) * MIXER
            out[i] ^= out[i] >> 31
        out[i] &= LARGEST
    return out


def usual_copies(X: Array, group: Array) -> UsualCopies:
    """Say how rows repeat in training.

    Parameters
    ----------
    X
        Raw rows in order of arrival, NaN = missing, shape (n, p).
    group
        Class of each, shape (n,).

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> usual_copies(rng.normal(size=(200, 3)), np.arange(200) % 2)
    UsualCopies(most=1, once=4, reported_from=16)
    >>> usual_copies(rng.integers(2, size=(200, 2)).astype(float), np.arange(200) % 2)
    UsualCopies(most=26, once=0, reported_from=0)
    """
    rows = fingerprints(X)
    most, share = max(copies_of(rows)), 0.0
    once = max(2 * most + 1, LEAST_ONCE + (len(np.unique(rows)) < len(rows)))
    for j in np.unique(group):
        own = rows[group == j]
        common = int(np.unique(own, return_counts=True)[1].max())
        upper = (common + 3.0 * np.sqrt(common)) / len(own) if common > 1 else 4.0 / len(rows)
        share = max(share, min(upper, 1.0))
    copies = np.arange(1, WINDOW + 1)
    plausible = int((betainc(copies, WINDOW - copies + 1.0, share) > FALSE_ALARM).sum())
    reported_from = max(LEAST_COPIES, once, plausible + 1)
    return UsualCopies(most, once, reported_from) if reported_from <= MOST_COPIES else UsualCopies(most, 0, 0)


def copies_of(rows: Array) -> list[int]:
    """Count the copies of each row, given by its fingerprint, among the latest ``WINDOW`` up to itself.

    Examples
    --------
    >>> copies_of(np.array([7, 5, 7]))
    [1, 1, 2]
    """
    _, number = np.unique(rows, return_inverse=True)
    count, out, order = [0] * (int(number.max(initial=-1)) + 1), [], number.tolist()
    for i, row in enumerate(order):
        if i >= WINDOW:
            count[order[i - WINDOW]] -= 1
        count[row] += 1
        out.append(count[row])
    return out


LEAST_RUN = 16
"""Instances with one value that a stuck column has at least."""
AT_EDGE = 4
"""Times as long a run has to be at either end of the range of training, where values may be cut off."""
MOST_LEARNT = 256
"""Longest run that the stream itself makes usual."""
COMMON, FEW, LARGE = 10, 5, 0.25
"""A value that occurs so often in training is judged by itself if so many of its runs end or it has so large a share
of the column; all others are judged together."""
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

NOTHING = 1e-3
"""Shares below are none."""
HARDLY = 0.05
"""If no column is off in so many instances, no moments are kept."""
FARTHEST = 1e3
"""Standard deviations that an instance differs by at most."""

KINDS = ("", "stuck", "out of scale", "shifted")
"""What a column is: nothing is wrong, or one of these."""
STUCK, SCALE, SHIFTED = 1, 2, 3


class UsualColumns(NamedTuple):
    """Usual values of the p raw columns and of repeated rows, from training.

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
    rows
        How rows repeat (:class:`UsualCopies`).
    """

    longest: Array
    stuck: Array
    low: Array
    high: Array
    middle: Array
    variance: Array
    within: float
    rows: UsualCopies


class ColumnStates(NamedTuple):
    """State of the columns of a stream.

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

    last: Array
    run: Array
    ended: Array
    beyond: Array
    outside: Array
    kind: Array
    hidden: Array
    moments: Array


class Fault(NamedTuple):
    """Column number ``column`` fails: the kind, since which position, in how many instances, the latest value."""

    column: int
    kind: str
    since: int
    size: int
    value: float


def usual_columns(X: Array, group: Array, numeric: Array) -> UsualColumns:
    """Say what is usual; rows that repeat their predecessor count once.

    Parameters
    ----------
    X
        Raw training rows in order of arrival, NaN = missing, shape (n, p).
    group
        Class of each, shape (n,).
    numeric
        Columns that are numbers, shape (p,).

    Examples
    --------
    >>> x, y = np.random.default_rng(0).normal(size=(2, 200))
    >>> usual = usual_columns(np.column_stack([x, y.round()]), np.arange(200) % 2, np.ones(2, bool))
    >>> usual.longest, usual.stuck
    (array([1, 6]), array([16, 53]))
    """
    rows, announced = usual_copies(X, group), np.ones(len(X), bool)
    announced[1:] = ((X[1:] != X[:-1]) & ~(np.isnan(X[1:]) & np.isnan(X[:-1]))).any(axis=1)
    X, group, p = X[announced], group[announced], X.shape[1]
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
        if not ends[:, 0].min() < ends[:, 1].max() or not x.var() > 0.0:
            continue
        low[c], high[c], middle[c], variance[c] = ends[:, 0].min(), ends[:, 1].max(), x.mean(), x.var()
        within[c] = sum(len(part) * part.var() for part in parts) / (len(x) * variance[c])
        hold = _hold(x)
        if hold < 1.0:
            stuck[c] = max(LEAST_RUN, 2 * longest[c], math.ceil(math.log(FALSE_ALARM) / math.log(hold)))
    watched = low < high
    share = float(np.clip(within[watched].mean(), 0.0, 1.0)) if watched.any() else 1.0
    return UsualColumns(longest, stuck, low, high, middle, variance, share, rows)


def _longest(x: Array) -> int:
    changes = np.flatnonzero(x[1:] != x[:-1]) + 1
    return int(np.diff(np.concatenate([[0], changes, [len(x)]])).max())


def _hold(x: Array) -> float:
    """Bound the probability that a value repeats, over the values of a column in order of arrival, from above."""
    if len(x) < 2:
        return 1.0
    _, value, count = np.unique(x[:-1], return_inverse=True, return_counts=True)
    ends = np.bincount(value, x[1:] != x[:-1])
    common = (count >= COMMON) & ((ends >= FEW) | (count >= LARGE * count.sum()))
    count, ends = (np.append(of[common], of[~common].sum()) for of in (count, ends))
    judged = count >= min(COMMON, len(x) - 1)
    return float(1.0 - (np.maximum(ends - 2.0 * np.sqrt(ends), 0.0) / np.maximum(count, 1))[judged].min())


def start_columns(p: int) -> ColumnStates:
    """Begin with p columns of which nothing is known."""
    last, nothing, hidden = np.full(p, np.nan), np.zeros(p, np.int64), np.zeros(p, bool)
    ended, beyond, moments = np.zeros((2, p), np.int64), np.zeros((2, p)), np.zeros((3, p))
    return ColumnStates(last, nothing, ended, beyond, nothing, nothing, hidden, moments)


def follow_columns(
    usual: UsualColumns, columns: ColumnStates, values: Array, seq: int
) -> tuple[ColumnStates, Array, list[Fault]]:
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
    A fault that is found in a batch is one from its first instance there.
    """
    columns, hidden, announced = _follow(usual, columns, values)
    faults = []
    for c, kind, at, size in announced.tolist():
        begin = at - size + 1
        if hidden[at, c]:
            hidden[max(begin, 0) : at, c] = True
        faults.append(Fault(c, KINDS[kind], max(seq + begin, 0), size, float(values[at, c])))
    return columns, hidden, faults


@kernel
def _follow(usual: UsualColumns, columns: ColumnStates, values: Array) -> tuple[ColumnStates, Array, Array]:
    """Do what :func:`follow_columns` does; faults as column, kind, position in the batch and size, shape (m, 4)."""
    n, p = values.shape
    last, run, ended, beyond = columns.last.copy(), columns.run.copy(), columns.ended.copy(), columns.beyond.copy()
    outside, kind, present = columns.outside.copy(), columns.kind.copy(), columns.hidden.copy()
    moments, hidden, wrong = columns.moments.copy(), np.zeros((n, p), np.bool_), np.zeros((n, p), np.bool_)
    announced, count = np.empty((p * (2 * n // LEAST_RUN + 4) + 1, 4), np.int64), 0
    watched, fade = (usual.low < usual.high).sum(), math.exp(-1.0 / VARIETY_MEMORY)
    for i in range(n):
        repeats, off, ranged, most = True, False, False, 0.0
        for c in range(p):
            if not np.isnan(values[i, c]) and values[i, c] != last[c]:
                repeats = False
        if repeats:
            hidden[i] = present
            continue
        for c in range(p):
            if not np.isnan(values[i, c]):
                if values[i, c] == last[c]:
                    run[c] += 1
                else:
                    _note_run(ended[:, c], run[c])
                    last[c], run[c] = values[i, c], 1
                    if kind[c] == STUCK:
                        kind[c] = 0
            if not usual.low[c] < usual.high[c] or np.isnan(last[c]):
                continue
            edge = last[c] == usual.low[c] or last[c] == usual.high[c]
            least = max(usual.stuck[c], 2 * ended[1, c]) * (AT_EDGE if edge else 1)
            if usual.stuck[c] and kind[c] != STUCK and run[c] >= least:
                kind[c] = STUCK
                announced[count] = c, STUCK, i, run[c]
                count = min(count + 1, len(announced) - 1)
            away = max(usual.low[c] - last[c], last[c] - usual.high[c]) / (usual.high[c] - usual.low[c])
            were = beyond[1, c]
            beyond[0, c] = _averaged(beyond[0, c], away > FAR)
            beyond[1, c] = _averaged(were, away > OFF)
            outside[c] = outside[c] + 1 if away > INSIDE else 0
            most, off = max(most, beyond[1, c]), off or away > OFF
            if kind[c] > STUCK and beyond[1, c] < ENDS:
                kind[c] = 0
            wrong[i, c] = kind[c] == 0 and were <= BEGINS < beyond[1, c] and outside[c] <= JUMP
            ranged |= kind[c] > STUCK or wrong[i, c] or beyond[0, c] > BEGINS
        if off:
            _add(moments, last, usual, fade)
        elif most < HARDLY:
            moments[:] = 0.0
        varied = ranged and _varied(usual, moments, beyond[1])
        failing = 0
        for c in range(p):
            begins = SCALE if beyond[0, c] > BEGINS else 0
            if wrong[i, c] and varied:
                begins = SCALE if beyond[0, c] > ENDS else SHIFTED
            if kind[c] == 0 and begins:
                kind[c] = begins
                announced[count] = c, begins, i, outside[c]
                count = min(count + 1, len(announced) - 1)
            present[c] = kind[c] == STUCK or (kind[c] > 0 and varied)
            failing += present[c]
        if 2 * failing > watched:
            present[:] = False
        hidden[i] = present
    return ColumnStates(last, run, ended, beyond, outside, kind, present, moments), hidden, announced[:count].copy()


@borrowing_kernel
def _note_run(ended: Array, run: int) -> None:
    """Note a run that ended among the longest two."""
    run = min(run, MOST_LEARNT)
    if run > ended[0]:
        ended[0], ended[1] = run, ended[0]
    elif run > ended[1]:
        ended[1] = run


@borrowing_kernel
def _averaged(share: float, more: bool) -> float:
    """Average a share exponentially; next to nothing is nothing."""
    share += (more - share) / MEMORY
    return share if more or share > NOTHING else 0.0


@borrowing_kernel
def _add(moments: Array, last: Array, usual: UsualColumns, fade: float) -> None:
    """Add an instance to the moments."""
    for c in range(len(last)):
        z = 0.0 if np.isnan(last[c]) else (last[c] - usual.middle[c]) / math.sqrt(usual.variance[c])
        z = min(max(z, -FARTHEST), FARTHEST)
        moments[0, c] = fade * moments[0, c] + 1.0
        moments[1, c] = fade * moments[1, c] + z
        moments[2, c] = fade * moments[2, c] + z * z


@borrowing_kernel
def _varied(usual: UsualColumns, moments: Array, off: Array) -> bool:
    """Say whether the instances of which a column is off are of many kinds otherwise."""
    total, others = 0.0, 0
    for c in range(len(off)):
        if usual.low[c] < usual.high[c] and off[c] <= ENDS and moments[0, c] >= LEAST_RUN:
            mean = moments[1, c] / moments[0, c]
            total += min(moments[2, c] / moments[0, c] - mean * mean, 1.0)
            others += 1
    return others > 0 and total >= others * min(0.5 * (1.0 + usual.within), MOST_VARIETY)


def hidden_of(columns: ColumnStates, values: Array) -> Array:
    """Say which values of raw rows, shape (n, p), are treated as missing now.

    Of a stuck column only the value that it repeats is.
    """
    hidden: Array = columns.hidden & ((columns.kind != STUCK) | (values == columns.last))
    return hidden
