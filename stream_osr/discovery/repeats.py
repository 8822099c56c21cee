"""Rows that repeat far more often than in training: they count once.

A row repeats if there are more copies of it among the latest ``WINDOW`` instances than training makes plausible: than
a binomial law has with the share of the commonest row in its class, and twice what training had in so many successive
rows. In some tables most rows repeat: there no row does more than is usual.
"""

from __future__ import annotations

import numpy as np
from scipy.special import betainc

WINDOW = 64
"""Latest instances among which copies are counted."""
LEAST_COPIES = 8
"""Copies from which on a row repeats, at least."""
MOST_COPIES = 48
"""If it took more than so many, no row repeats."""
FALSE_ALARM = 1e-12
"""Probability of so many copies by chance."""


def fingerprints(values: np.ndarray) -> np.ndarray:
    """Mix raw rows, NaN = missing, shape (n, p), to numbers of 63 bits: equal rows have the same, shape (n,).

    Examples
    --------
    >>> one, two, three = fingerprints(np.array([[1.0, np.nan], [1.0, 2.0], [1.0, np.nan]]))
    >>> bool(one == three), bool(one == two)
    (True, False)
    """
    bits = np.where(np.isnan(values), np.nan, values + 0.0).view(np.uint64)
    out = np.zeros(len(bits), np.uint64)
    for column in bits.T:
        out = (out ^ column ^ (column >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
        out ^= out >> np.uint64(31)
    return (out >> np.uint64(1)).astype(np.int64)


def usual_copies(X: np.ndarray, group: np.ndarray) -> tuple[int, int]:
    """Count copies of a row among ``WINDOW`` successive rows of training: the most, and from how many on it repeats.

    Parameters
    ----------
    X
        Raw training rows in order of arrival, NaN = missing, shape (n, p).
    group
        Class of each, shape (n,).

    Returns
    -------
    Both numbers; the second is 0 if no row repeats by this rule.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> usual_copies(rng.normal(size=(200, 3)), np.arange(200) % 2)
    (1, 8)
    >>> usual_copies(rng.integers(3, size=(200, 2)).astype(float), np.arange(200) % 2)
    (14, 43)
    """
    rows = fingerprints(X)
    most = max(copies_of(rows))
    share = 0.0
    for j in np.unique(group):
        own = rows[group == j]
        common = np.unique(own, return_counts=True)[1].max()
        upper = (common + 3.0 * np.sqrt(common)) / len(own) if common > 1 else 4.0 / len(rows)
        share = max(share, min(upper, 1.0))
    copies = np.arange(1, WINDOW + 1)
    plausible = int((betainc(copies, WINDOW - copies + 1.0, share) > FALSE_ALARM).sum())
    repeats = max(LEAST_COPIES, 2 * most, plausible + 1)
    return most, repeats if repeats <= MOST_COPIES else 0


def copies_of(rows: np.ndarray) -> list[int]:
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
