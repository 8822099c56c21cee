"""Features that an instance does not name: missing, or zero.

Sparse vectors leave out zeros: word counts, TF-IDF, hashed features, libsvm files. A feature that an instance does
not name is then zero. A feature with ``None`` or NaN lacks a value. Training decides for each feature, from the
labelled instances.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Literal

import numpy as np
from scipy.special import chdtrc

from stream_osr.instances.features import FeatureRow, Features
from stream_osr.instances.kinds import Name

Absent = Literal["auto", "missing", "zero"]

LEAST_ABSENT = 1.0 / 3.0
"""Least share of values that sparse vectors leave out, among features that they ever leave out."""
MOST_ZEROS = 0.05
"""Largest share of written values that are zero. Hashed features that cancel out are zero."""
FAR_FROM_ZERO = 4.0
"""Mean of a feature, in its standard deviations, above which zero is no plausible value."""
SURE = 1e-3
"""Significance level of the test whether absence depends on the class."""


def zero_features(
    features: Features, X: np.ndarray, group: np.ndarray, written: Collection[Name], absent: Absent
) -> tuple[Name, ...]:
    """Return the features that are zero in an instance that does not name them.

    Parameters
    ----------
    features
        Names of the columns, and the categories among them.
    X
        Training rows, NaN where a value is missing or absent, shape (n, p).
    group
        Class of each, shape (n,).
    written
        Features that an instance named without a value.
    absent
        ``"zero"``: all numeric features. ``"auto"``: features that are sometimes absent, if they look like sparse
        vectors. Zeros are then hardly ever written, a third of the values is absent, and absence depends on the
        class.

    Examples
    --------
    >>> X = np.array([[1, np.nan, 2], [3, np.nan, 1], [np.nan, 2, 5], [np.nan, 1, 6]] * 5)
    >>> zero_features(Features("abc"), X, np.array([0, 0, 1, 1] * 5), (), "auto")
    ('a', 'b')
    >>> zero_features(Features("abc"), X, np.array([0, 0, 1, 1] * 5), ("a", "b"), "auto")
    ()
    """
    numeric = np.array([name not in features.kinds.values for name in features.names], bool)
    if absent == "auto":
        unwritten = np.array([name not in written for name in features.names], bool)
        numeric &= unwritten & np.isnan(X).any(axis=0) & ~np.isnan(X).all(axis=0)
        if not numeric.any() or not _looks_sparse(X[:, numeric], group):
            return ()
    return tuple(name for name, zero in zip(features.names, numeric, strict=True) if zero and absent != "missing")


def absent_as_zero(features: Features, row: FeatureRow, x: Mapping[Any, object]) -> FeatureRow:
    """Replace numeric features that an instance does not name by zeros.

    >>> absent_as_zero(Features("ab"), FeatureRow(np.array([np.nan, np.nan]), 2, 0), {"b": None})
    FeatureRow(values=array([ 0., nan]), missing=1, extra=0)
    """
    absent = [name not in x and name not in features.kinds.values for name in features.names]
    values = np.where(absent & np.isnan(row.values), 0.0, row.values)
    return FeatureRow(values, int(np.isnan(values).sum()), row.extra)


def _looks_sparse(X: np.ndarray, group: np.ndarray) -> bool:
    """Check whether rows, NaN = absent, look like sparse vectors."""
    there = ~np.isnan(X)
    values = X[there]
    if there.mean() > 1.0 - LEAST_ABSENT or (values == 0.0).mean() > MOST_ZEROS:
        return False
    length = np.sqrt(np.where(there, X, 0.0) ** 2 @ np.ones(X.shape[1]))
    counts = bool((values == np.round(values)).all())
    of_length_one = bool((np.abs(length[length > 0.0] - 1.0) < 1e-6).all())
    sizes = np.bincount(group)
    if (sizes > 0).sum() < 2:
        return counts or of_length_one
    return (counts or of_length_one or not _far_from_zero(X, there)) and _depends(there, group, sizes)


def _far_from_zero(X: np.ndarray, there: np.ndarray) -> bool:
    count = there.sum(axis=0)
    several = count > 1
    mean = np.where(there, X, 0.0).sum(axis=0) / count
    spread = np.sqrt((np.where(there, X - mean, 0.0) ** 2).sum(axis=0) / count)
    ratio = np.abs(mean) / np.maximum(spread, 1e-300)
    return bool(several.any() and np.median(ratio[several]) > FAR_FROM_ZERO)


def _depends(there: np.ndarray, group: np.ndarray, sizes: np.ndarray) -> bool:
    """Test whether the absence of some feature depends on the class: a chi-squared test for each, by Bonferroni."""
    used = np.flatnonzero(sizes)
    share = there.mean(axis=0)
    spread = np.maximum(share * (1.0 - share), 1e-12)
    by_class = np.array([there[group == j].mean(axis=0) for j in used])
    statistic = (sizes[used, None] * (by_class - share) ** 2).sum(axis=0) / spread
    least = float(chdtrc(len(used) - 1, statistic.max()))
    return len(used) > 1 and least * there.shape[1] < SURE
