"""Estimated number of new classes: two counts for each chain, their mean and interval."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from stream_osr.discovery.grouping import entropy
from stream_osr.model.jit import Array

COUNTED_SIZE = 10
"""Least number of instances of a subclass in the estimated number of classes."""
COUNTED_SHARE = 0.25
"""Least size of a group in that estimate, as a share of the mean size of the three largest.

The mean relative error of the number is 0.157 with 0.25, and 0.176 with 0.20. With 0.30 it is 0.152, but 0.57 on
YALEB with 28 new classes (``benchmarks/results/discovery.md``).
"""


class ClassCounts(NamedTuple):
    """Number of classes among the emerging subclasses of one chain, from two counts that err on opposite sides.

    Attributes
    ----------
    groups
        Number of groups that are large enough. If classes overlap, parts of one form separate groups: often too many.
    ratio
        Number from the subclasses for each known class. If subclasses mix classes, it is too low.
    """

    groups: float
    ratio: float


class Estimate(NamedTuple):
    """Estimated number of new classes, with an interval.

    Attributes
    ----------
    number
        Estimated number.
    low, high
        Smallest and largest estimate: of any chain, and of either count over all chains.

    Examples
    --------
    >>> str(Estimate(3, 3, 4)), str(Estimate(3, 3, 3))
    ('3 (3 to 4)', '3')
    """

    number: int = 0
    low: int = 0
    high: int = 0

    def __str__(self) -> str:
        return f"{self.number} ({self.low} to {self.high})" if self.low < self.high else str(self.number)


def count_classes(group: Array, size: Array, known_size: Array, n_classes: int) -> ClassCounts:
    """Count the classes among the emerging subclasses of one chain, in two ways.

    The first count is the number of groups with ``COUNTED_SHARE`` of the mean size of the three largest. The second
    is ``J E / K``, with J known classes, E emerging and K known subclasses of at least ``COUNTED_SIZE`` instances
    (equation (14) of the paper). The ratio is limited by the exponential of the entropy of the emerging sizes, the
    effective number of subclasses. A small part that split off a large subclass thus does not count as a class.

    Parameters
    ----------
    group
        Group of each emerging subclass, shape (K,), K >= 1.
    size, known_size
        Number of instances in each emerging and in each known subclass.
    n_classes
        Number of known classes.

    Examples
    --------
    Groups of 80, 70 and 10 instances, two of which count, and 2 * 4 / 4 by the subclasses:

    >>> count_classes(np.array([0, 0, 1, 2]), np.array([60, 20, 70, 10]), np.array([80, 90, 40, 30]), 2)
    ClassCounts(groups=2.0, ratio=2.0)

    Subclasses of 400, 300, 15 and 12 instances are hardly more than two:

    >>> found = count_classes(np.arange(4), np.array([400, 300, 15, 12]), np.array([80, 90]), 2)
    >>> round(found.ratio, 1)
    2.3
    """
    sizes = np.sort(np.bincount(group, size))[::-1]
    groups = float((sizes >= COUNTED_SHARE * sizes[:3].mean()).sum())
    emerging, known = int((size >= COUNTED_SIZE).sum()), int((known_size >= COUNTED_SIZE).sum())
    if not (emerging and known):
        return ClassCounts(groups, groups)
    return ClassCounts(groups, float(min(n_classes * emerging / known, np.exp(entropy(size)))))


def estimate_number(counts: Sequence[ClassCounts]) -> Estimate:
    """Estimate the number of classes as the geometric mean of all counts of all chains.

    The interval covers the geometric means of each chain and of each count, rounded. Without counts all are 0.

    Examples
    --------
    >>> estimate_number([ClassCounts(4.0, 3.0), ClassCounts(4.0, 2.5), ClassCounts(3.0, 2.8)])
    Estimate(number=3, low=3, high=4)
    """
    if not counts:
        return Estimate()
    statistics = np.log(np.array(counts))
    least_and_most = [*statistics.mean(axis=1), *np.sort(statistics, axis=1).mean(axis=0)]
    return Estimate(_rounded(statistics.mean()), _rounded(min(least_and_most)), _rounded(max(least_and_most)))


def _rounded(log_number: float) -> int:
    return max(1, int(np.floor(np.exp(log_number) + 0.5)))
