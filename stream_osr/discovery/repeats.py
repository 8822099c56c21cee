"""Rows that repeat far more often than in training: they count once.

Copies of a row count once if there are more of them among the latest ``WINDOW`` instances than twice what training
had among so many. That the row repeats is told if there are more than training makes plausible: than a binomial law
has with the share of the commonest row in its class. In some tables most rows repeat: there all count.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import betainc

from stream_osr.model.jit import kernel

WINDOW = 64
"""Latest instances among which copies are counted."""
LEAST_COPIES = 8
"""Copies from which on it is told that a row repeats, at least."""
LEAST_ONCE = 4
"""Copies from which on they count once, at least; one more where any row of training repeats."""
MOST_COPIES = 48
"""If it took more than so many, all rows count."""
FALSE_ALARM = 1e-12
"""Probability of so many copies by chance."""
MIXER, LARGEST = 0x2545F4914F6CDD1D, (1 << 62) - 1
"""Of fingerprints: an odd factor, and the bits that are kept."""


class UsualCopies(NamedTuple):
    """How rows repeat in training.

    Attributes
    ----------
    most
        Copies of one row among ``WINDOW`` successive ones, at most.
    once
        Copies from which on they count once; 0: they never do.
    told
        Copies from which on it is told that the row repeats; 0: it never is.
    """

    most: int
    once: int
    told: int


def fingerprints(values: np.ndarray) -> np.ndarray:
    """Mix raw rows, NaN = missing, shape (n, p), to numbers of 62 bits: equal rows have the same, shape (n,).

    Examples
    --------
    >>> one, two, three = fingerprints(np.array([[1.0, np.nan], [1.0, 2.0], [1.0, np.nan]]))
    >>> bool(one == three), bool(one == two)
    (True, False)
    """
    return _mixed(np.ascontiguousarray(np.where(np.isnan(values), np.nan, values + 0.0)).view(np.int64))


@kernel
def _mixed(bits: np.ndarray) -> np.ndarray:
    out = np.zeros(len(bits), np.int64)
    for i in range(len(bits)):
        for c in range(bits.shape[1]):
            out[i] = (out[i] ^ bits[i, c] ^ (bits[i, c] >> 29)) * MIXER
            out[i] ^= out[i] >> 31
        out[i] &= LARGEST
    return out


def usual_copies(X: np.ndarray, group: np.ndarray) -> UsualCopies:
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
    UsualCopies(most=1, once=4, told=16)
    >>> usual_copies(rng.integers(2, size=(200, 2)).astype(float), np.arange(200) % 2)
    UsualCopies(most=26, once=0, told=0)
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
    told = max(LEAST_COPIES, once, plausible + 1)
    return UsualCopies(most, once, told) if told <= MOST_COPIES else UsualCopies(most, 0, 0)


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
