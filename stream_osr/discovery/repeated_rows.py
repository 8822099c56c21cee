"""Repeated rows: copies of a row count once if they are too many among the latest ``WINDOW`` instances.

The limit is twice the largest number in training. A row is reported as repeated if it has more copies than a binomial
law makes plausible. The law uses the share of the commonest row in its class. If most rows of a table repeat, all
rows count.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import betainc

from stream_osr.model.jit import Array, kernel
from stream_osr.support import rules

WINDOW = 64
"""Number of latest instances among which copies are counted."""
LEAST_COPIES = 8
"""Least number of copies for reporting a repeated row."""
LEAST_ONCE = 4
"""Least number of copies that count once. It is one more if any row of training repeats."""
MOST_COPIES = 48
"""If the limit would exceed this number, all rows count."""
FALSE_ALARM = 1e-12
"""Probability of that many copies by chance, and of a false alarm of an instance in a column with geometric runs."""
MIXER, LARGEST = 0x2545F4914F6CDD1D, (1 << 62) - 1
"""Constants of fingerprints: an odd factor, and the bits that are kept."""


class UsualCopies(NamedTuple):
    """Repetition of rows in training.

    Attributes
    ----------
    most
        Largest number of copies of a row among ``WINDOW`` successive ones.
    once
        Number of copies from which they count once. 0: they never do.
    reported_from
        Number of copies from which the row is reported. 0: it never is.
    """

    most: rules.Count
    once: rules.Count
    reported_from: rules.Count


def fingerprints(values: Array) -> Array:
    """Convert raw rows, NaN = missing, shape (n, p), to 62-bit numbers of shape (n,). Equal rows get equal numbers.

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
    """Measure how rows repeat in training.

    Parameters
    ----------
    X
        Raw rows in order of arrival, NaN = missing, shape (n, p).
    group
        Class of each row, shape (n,).

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
    """Count the copies of each row, as a fingerprint, among the latest ``WINDOW`` rows including itself.

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
