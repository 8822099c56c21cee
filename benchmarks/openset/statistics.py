"""What may be said of figures that were measured with several seeds: intervals, paired differences, p-values.

`compare` makes one table of ours against the others, with a row for every method on record. The caller decides which
seeds belong into a table (`summary.REPORTING`), by the records that it hands over.

The seeds of a table draw their training and test parts from *one* data set, and the parts of two seeds overlap. Their
figures vary less than those of new data would: an interval of Student's t over seeds says how well the mean of such
divisions is known, and is too narrow as a claim about other data of the kind.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

LOWER_IS_BETTER = frozenset({"fpr95", "ece", "train_seconds", "us_per_instance"})
"""Measures of which less is better; of all others more is."""

ROUNDING = 1e-12
"""Sums of differences closer than this share of their largest possible value are one and the same."""


class Interval(NamedTuple):
    """Mean of a figure over seeds and where it lies.

    Attributes
    ----------
    n
        Number of values.
    mean
        Their mean; nan without any.
    low, high
        Ends of the interval; nan with fewer than two values.
    """

    n: int
    mean: float
    low: float
    high: float


def mean_interval(values: Iterable[float], level: float = 0.95) -> Interval:
    """Mean over seeds and its interval by Student's t.

    Parameters
    ----------
    values
        A figure, once a seed.
    level
        Share of such intervals that hold the mean, in (0, 1).

    Returns
    -------
    Interval
        Of width 0 if all values are equal.

    Examples
    --------
    >>> n, mean, low, high = mean_interval([0.80, 0.82, 0.84])
    >>> n, round(mean, 3), round(low, 3), round(high, 3)
    (3, 0.82, 0.77, 0.87)
    """
    x = np.array(list(values), dtype=np.float64)
    n = len(x)
    if n < 2:
        return Interval(n, float(x[0]) if n else math.nan, math.nan, math.nan)
    mean = float(x.mean())
    reach = float(stats.t.ppf((1 + level) / 2, n - 1) * x.std(ddof=1) / math.sqrt(n))
    return Interval(n, mean, mean - reach, mean + reach)


class Paired(NamedTuple):
    """A figure of ours less that of another method, seed by seed.

    Attributes
    ----------
    n
        Seeds that both have: what all the rest is of.
    left_out
        Seeds that only one of them has.
    mean, low, high
        Mean difference, ours less theirs, and its interval, as of `mean_interval`.
    wins, losses
        Seeds in which ours is larger, and in which it is smaller; in the others both are equal.
    p
        Of the hypothesis that ours and theirs could be exchanged in any seed, as of `sign_flip`.
    """

    n: int
    left_out: int
    mean: float
    low: float
    high: float
    wins: int
    losses: int
    p: float


def paired(ours: Mapping[int, float], theirs: Mapping[int, float], level: float = 0.95) -> Paired:
    """Compare two methods over the seeds that both were measured with.

    The interval takes the seeds for independent, and so does the p-value: both speak of divisions of this data set.
    Neither is a claim about other data, for which the divisions overlap too much.

    Parameters
    ----------
    ours, theirs
        The figure by seed.
    level
        As for `mean_interval`.

    Returns
    -------
    Paired
        Mean, interval and p-value are nan where there is no seed, or none but one, to tell them from.

    Examples
    --------
    >>> found = paired({0: 0.9, 1: 0.8, 2: 0.7, 3: 0.9}, {0: 0.8, 1: 0.7, 2: 0.75, 4: 0.1})
    >>> found.n, found.left_out, found.wins, found.losses, round(found.mean, 3), found.p
    (3, 2, 2, 1, 0.05, 0.5)
    >>> round(found.low, 3), round(found.high, 3)
    (-0.165, 0.265)
    """
    both = sorted(ours.keys() & theirs.keys())
    differences = np.array([ours[seed] - theirs[seed] for seed in both])
    n, mean, low, high = mean_interval(differences, level)
    wins, losses = int((differences > 0).sum()), int((differences < 0).sum())
    return Paired(n, len(ours.keys() ^ theirs.keys()), mean, low, high, wins, losses, sign_flip(differences))


def sign_flip(differences: ArrayLike) -> float:
    """Two-sided p-value of a mean difference: how often signs thrown by a coin give one as far from zero.

    All ``2^n`` patterns of signs are tried. With `n` differences the p-value is at least ``2^(1 - n)``.

    Parameters
    ----------
    differences
        Shape (n,), finite.

    Returns
    -------
    float
        In (0, 1]; nan if there are no differences.

    References
    ----------
    .. [1] R. A. Fisher, "The Design of Experiments", 1935, section 21.

    Examples
    --------
    >>> sign_flip([0.1, 0.2, 0.3]), sign_flip([0.1, 0.2, -0.3]), sign_flip([0.0, 0.0])
    (0.25, 1.0, 1.0)
    """
    d = np.asarray(differences, dtype=np.float64)
    if not len(d):
        return math.nan
    least = abs(d.sum()) - ROUNDING * np.abs(d).sum()
    patterns = np.arange(2 ** len(d))[:, None] >> np.arange(len(d)) & 1
    return float((np.abs((2 * patterns - 1) @ d) >= least).mean())


def holm(p_values: ArrayLike) -> NDArray[np.float64]:
    """Adjust the p-values of several comparisons, so that a share of all such tables holds any false claim.

    Step by step from the smallest: the k-th of m p-values is taken ``m - k + 1`` times, is no smaller than the one
    before it, and at most 1. Whatever is then below 0.05 may be claimed, all of it together, at that level.

    Parameters
    ----------
    p_values
        Shape (m,). Those that are nan belong to no comparison: they stay nan, and are not counted.

    Returns
    -------
    array of shape (m,)
        In the order given.

    References
    ----------
    .. [1] S. Holm, "A simple sequentially rejective multiple test procedure", Scandinavian Journal of Statistics 6,
       1979.

    Examples
    --------
    >>> holm([0.01, 0.04, 0.03, 0.005]).round(3).tolist()
    [0.03, 0.06, 0.06, 0.02]
    """
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p, kind="stable")[: np.isfinite(p).sum()]  # nan are last
    adjusted = np.full(p.shape, np.nan)
    adjusted[order] = np.minimum(np.maximum.accumulate(p[order] * np.arange(len(order), 0, -1)), 1.0)
    return adjusted


class Compared(NamedTuple):
    """A row of the table.

    Attributes
    ----------
    method
        Its name.
    figure
        Mean over the seeds at which the measure is defined, and its interval.
    difference
        Ours less theirs over the seeds that both have, where `wins` are the seeds in which ours is the *better* one;
        None in the row of ours.
    p
        That of the difference, adjusted by Holm's method over the rows of this table, no others; nan in the row of
        ours, and where nothing could be compared.
    """

    method: str
    figure: Interval
    difference: Paired | None
    p: float


def compare(
    records: Iterable[Mapping[str, Any]], dataset: str, n_unknown: int, measure: str, ours: str
) -> list[Compared]:
    """Compare a method with all others on record.

    Parameters
    ----------
    records
        Of any data sets, one of each method and seed: fields ``dataset``, ``n_unknown``, ``method``, ``seed`` and the
        measures. A measure that is None or nan is of a seed without figure.
    dataset, n_unknown
        Whose records make the table.
    measure
        A field of the records, such as ``"micro_f"``.
    ours
        The method that the others are compared with.

    Returns
    -------
    list of Compared
        Ours first, then the others, best mean first, those without any last.

    Raises
    ------
    ValueError
        If a method has two records of a seed.

    Examples
    --------
    >>> def record(method, seed, micro_f):
    ...     return {"dataset": "USPS", "n_unknown": 3, "method": method, "seed": seed, "micro_f": micro_f}
    >>> records = [record("new", s, f) for s, f in enumerate([0.8, 0.9, 0.9])]
    >>> records += [record("old", s, f) for s, f in enumerate([0.7, 0.7, 0.8])]
    >>> for row in compare(records, "USPS", 3, "micro_f", "new"):
    ...     print(row.method, round(row.figure.mean, 3), row.difference and row.difference.wins, row.p)
    new 0.867 None nan
    old 0.733 3 0.25
    """
    found: dict[str, dict[int, float]] = {}
    for record in records:
        if (record["dataset"], record["n_unknown"]) == (dataset, n_unknown):
            method, seed, value = record["method"], record["seed"], record.get(measure)
            of = found.setdefault(method, {})
            if seed in of:
                raise ValueError(f"{method} has two records of seed {seed}: hand over one of each method and seed")
            of[seed] = math.nan if value is None else value
    figures = {name: {seed: v for seed, v in of.items() if not math.isnan(v)} for name, of in found.items()}
    less, rows = measure in LOWER_IS_BETTER, []
    for method, of in figures.items():
        difference = None if method == ours else paired(figures[ours], of)
        if difference is not None and less:
            difference = difference._replace(wins=difference.losses, losses=difference.wins)
        rows.append(Compared(method, mean_interval(of.values()), difference, math.nan))
    adjusted = holm([math.nan if row.difference is None else row.difference.p for row in rows])
    rows = [row._replace(p=float(p)) for row, p in zip(rows, adjusted, strict=True)]

    def rank(row: Compared) -> tuple[bool, bool, float]:
        return row.method != ours, not row.figure.n, row.figure.mean if less else -row.figure.mean

    return sorted(rows, key=rank)
