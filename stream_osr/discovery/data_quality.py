"""Columns of the data that fail.

A column can be stuck at one value, out of scale, or shifted as a whole. A column that was
constant in training can change. The detection uses no classes.

Training shows how long each column repeats a value, and which range its classes span. A column is *stuck* once it
repeats one value longer than is plausible from training. It is *out of scale* once nearly all latest values are ten
ranges beyond the training range. It is *shifted* once they all left the training range together by one range. An
instance that equals its predecessor in all columns is no evidence about a column.

A column repeats its value with a probability of at most h, an upper bound over its training values. It is stuck after
``log(FALSE_ALARM) / log(h)`` instances. If runs are geometric, an instance then raises a false alarm with a
probability below ``FALSE_ALARM``. The run must also be twice the longest run in training, and twice the second
longest run in the stream that ended.

A new class may also be out of range, permanently. A fault differs in that it affects instances of many kinds: their
other columns vary as in training.
"""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

import numpy as np

from stream_osr.discovery.repeated_rows import FALSE_ALARM, UsualCopies, usual_copies
from stream_osr.model.feature_space.subspace import usual_values
from stream_osr.model.jit import Array, borrowing_kernel, kernel
from stream_osr.support import rules

LEAST_RUN = 16
"""Least number of instances with one value in a stuck column."""
AT_EDGE = 4
"""Factor on the run length at either end of the training range, where values may be cut off."""
MOST_LEARNT = 256
"""Longest run that the stream itself can make usual."""
COMMON, FEW, LARGE = 10, 5, 0.25
"""Thresholds for judging a common value by itself: number of occurrences, number of ended runs, share of the column.

Other values are judged together."""
OUTERMOST = 0.01
"""Share of a class below its range, and above."""

FAR, OFF, INSIDE = 10.0, 1.0, 0.1
"""Distances beyond the training range, in ranges: out of scale, shifted, and still inside."""
MEMORY = 16.0
"""Number of instances over which the share beyond the range is averaged, exponentially."""
BEGINS, ENDS = 0.85, 0.5
"""Share beyond the range above which a fault begins, and below which it ends."""
JUMP = 48
"""Largest number of instances since the last value inside the range when a shift begins. Slower changes are drift."""
VARIETY_MEMORY = 64.0
"""Number of instances over which the variance of the other columns is averaged, exponentially."""
MOST_VARIETY = 0.8
"""Share of the training variance that is always enough."""

NOTHING = 1e-3
"""Smaller shares count as 0."""
HARDLY = 0.05
"""If no column has a larger share beyond its range, no moments are kept."""
FARTHEST = 1e3
"""Largest deviation of an instance, in standard deviations."""

SAME, RETURNED = 1e-12, 1024
"""Largest relative difference of a value from the constant of a column, and number of instances with the constant
after which another change is reported again."""

KINDS = ("", "stuck", "out of scale", "shifted", "changed", "error code")
"""Kinds of faults. The first means that the column is good."""
STUCK, SCALE, SHIFTED, CHANGED, CODE = 1, 2, 3, 4, 5


class UsualColumns(NamedTuple):
    """Usual values of the p raw columns and usual repetition of rows, from training.

    Attributes
    ----------
    longest
        Longest run of one value in order of arrival, shape (p,).
    stuck
        Length of a run from which a column is stuck, shape (p,). 0: it never is.
    low, high
        Range from the lowest 1st to the highest 99th percentile of a class, shape (p,). Both are 0 for columns that
        are not numeric or do not vary. These have no range to leave.
    middle, variance
        Training mean and variance, shape (p,). They are 0 and 1 for columns without a range.
    constant
        The value of each column that the model leaves out because it did not vary, shape (p,). NaN for the others.
    within
        Share of the variance within classes, averaged over the monitored columns.
    rows
        Repetition of rows (:class:`UsualCopies`).
    """

    longest: Annotated[Array, rules.array("i", "p", low=0)]
    stuck: Annotated[Array, rules.array("i", "p", low=0)]
    low: Annotated[Array, rules.array("f", "p", low=-1e100, high=1e100)]
    high: Annotated[Array, rules.array("f", "p", low=-1e100, high=1e100)]
    middle: Annotated[Array, rules.array("f", "p", low=-1e100, high=1e100)]
    variance: Annotated[Array, rules.array("f", "p", low=rules.ABOVE_0)]
    constant: Annotated[Array, rules.array("f", "p", allowed=("nan",))]
    within: rules.Share
    rows: UsualCopies


class ColumnStates(NamedTuple):
    """State of the columns of a stream.

    Attributes
    ----------
    last
        Latest value of each column, shape (p,). NaN: there was none.
    run
        Number of instances since the last change, shape (p,).
    ended
        Longest and second longest run that ended, at most ``MOST_LEARNT``, shape (2, p).
    beyond
        Share of the latest values far beyond the training range, and share outside it, shape (2, p).
    outside
        Number of instances since the last value inside the range, or of a constant since its last change, shape (p,).
    kind
        Number of the fault in ``KINDS``, shape (p,).
    hidden
        Columns that are treated as missing now, shape (p,).
    moments
        Weight of recent instances with a column out of range, and sum and sum of squares of each standardised column,
        shape (3, p).
    """

    last: Annotated[Array, rules.array("f", "p", low=-1e100, high=1e100, allowed=("nan",))]
    run: Annotated[Array, rules.array("i", "p", low=0, high=10**15)]
    ended: Annotated[Array, rules.array("i", "2", "p", low=0, high=10**15)]
    beyond: Annotated[Array, rules.array("f", "2", "p", low=0.0, high=1.0)]
    outside: Annotated[Array, rules.array("i", "p", low=0, high=10**15)]
    kind: Annotated[Array, rules.array("i", "p", low=0, high=4)]
    hidden: Annotated[Array, rules.array("b", "p")]
    moments: Annotated[Array, rules.array("f", "3", "p", low=-1e9, high=1e9)]


class Fault(NamedTuple):
    """Failing column ``column``: kind, first position, number of instances, and latest value."""

    column: int
    kind: str
    since: int
    size: int
    value: float


def usual_columns(X: Array, group: Array, numeric: Array, constant: Array | None = None) -> UsualColumns:
    """Measure the usual columns. Rows that equal their predecessor count once.

    Parameters
    ----------
    X
        Raw training rows in order of arrival, NaN = missing, shape (n, p).
    group
        Class of each row, shape (n,).
    numeric
        Mask of numeric columns, shape (p,).
    constant
        Mask of the columns that the model leaves out because they are constant, shape (p,). ``None``: there are none.

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
    usual = np.full(p, np.nan) if constant is None else np.where(constant, usual_values(X), np.nan)
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
    return UsualColumns(longest, stuck, low, high, middle, variance, usual, share, rows)


def _longest(x: Array) -> int:
    changes = np.flatnonzero(x[1:] != x[:-1]) + 1
    return int(np.diff(np.concatenate([[0], changes, [len(x)]])).max())


def _hold(x: Array) -> float:
    """Return an upper bound of the probability that a value repeats, for a column in order of arrival."""
    if len(x) < 2:
        return 1.0
    _, value, count = np.unique(x[:-1], return_inverse=True, return_counts=True)
    ends = np.bincount(value, x[1:] != x[:-1])
    common = (count >= COMMON) & ((ends >= FEW) | (count >= LARGE * count.sum()))
    count, ends = (np.append(of[common], of[~common].sum()) for of in (count, ends))
    judged = count >= min(COMMON, len(x) - 1)
    return float(1.0 - (np.maximum(ends - 2.0 * np.sqrt(ends), 0.0) / np.maximum(count, 1))[judged].min())


def start_columns(p: int) -> ColumnStates:
    """Return the initial state of p columns."""
    last, nothing, hidden = np.full(p, np.nan), np.zeros(p, np.int64), np.zeros(p, bool)
    ended, beyond, moments = np.zeros((2, p), np.int64), np.zeros((2, p)), np.zeros((3, p))
    return ColumnStates(last, nothing, ended, beyond, nothing, nothing, hidden, moments)


def follow_columns(
    usual: UsualColumns, columns: ColumnStates, values: Array, seq: int
) -> tuple[ColumnStates, Array, list[Fault]]:
    """Update the columns with a batch.

    Parameters
    ----------
    usual, columns
        Usual columns, and the state so far.
    values
        Raw rows, NaN = missing, shape (b, p), b >= 1.
    seq
        Position of the first row.

    Returns
    -------
    Columns after the batch, mask of values to treat as missing, shape (b, p), and new faults. A fault that is found
    in a batch applies from its first instance there.
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
    """Compute :func:`follow_columns`, with faults as column, kind, position in the batch and size, shape (m, 4)."""
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
            if not np.isnan(usual.constant[c]) and not np.isnan(values[i, c]):
                same = abs(values[i, c] - usual.constant[c]) <= SAME * abs(usual.constant[c])
                outside[c] = outside[c] + 1 if same else 0
                if not same and kind[c] == 0:
                    kind[c] = CHANGED
                    announced[count] = c, CHANGED, i, 1
                    count = min(count + 1, len(announced) - 1)
                elif kind[c] == CHANGED and outside[c] >= RETURNED:
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
            present[c] = kind[c] == STUCK or (0 < kind[c] < CHANGED and varied)
            failing += present[c]
        if 2 * failing > watched:
            present[:] = False
        hidden[i] = present
    return ColumnStates(last, run, ended, beyond, outside, kind, present, moments), hidden, announced[:count].copy()


@borrowing_kernel
def _note_run(ended: Array, run: int) -> None:
    """Record a run that ended, if it is one of the longest two."""
    run = min(run, MOST_LEARNT)
    if run > ended[0]:
        ended[0], ended[1] = run, ended[0]
    elif run > ended[1]:
        ended[1] = run


@borrowing_kernel
def _averaged(share: float, more: bool) -> float:
    """Average a share exponentially. Very small shares become 0."""
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
    """Check whether the instances with a column out of range are of many kinds otherwise."""
    total, others = 0.0, 0
    for c in range(len(off)):
        if usual.low[c] < usual.high[c] and off[c] <= ENDS and moments[0, c] >= LEAST_RUN:
            mean = moments[1, c] / moments[0, c]
            total += min(moments[2, c] / moments[0, c] - mean * mean, 1.0)
            others += 1
    return others > 0 and total >= others * min(0.5 * (1.0 + usual.within), MOST_VARIETY)


def hidden_of(columns: ColumnStates, values: Array) -> Array:
    """Return the mask of values in raw rows, shape (n, p), that are treated as missing now.

    In a stuck column, only the repeated value is.
    """
    hidden: Array = columns.hidden & ((columns.kind != STUCK) | (values == columns.last))
    return hidden
