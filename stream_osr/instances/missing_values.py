"""Recognized spellings of a missing value."""

from __future__ import annotations

import math

import numpy as np


def is_missing(value: object) -> bool:
    """Check for None, NaN, masked values, and the missing values of data frame libraries."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    if isinstance(value, np.ma.MaskedArray):  # also the constant numpy.ma.masked
        return value.ndim == 0 and bool(value.mask)
    return isinstance(value, float | np.floating) and math.isnan(value)


def without_mask(array: np.ndarray) -> np.ndarray:
    """Return an array with masked cells as NaN or, if it is not numeric, None. Without a mask, return the same array.

    Examples
    --------
    >>> without_mask(np.ma.array([1, 2], mask=[False, True])).tolist()
    [1.0, nan]
    >>> without_mask(np.ma.array(["a", "b"], mask=[True, False])).tolist()
    [None, 'b']
    """
    if not isinstance(array, np.ma.MaskedArray):
        return array
    if not np.ma.is_masked(array):
        return np.asarray(array.data)
    numeric = array.dtype.kind in "fiu"
    out = np.array(array.data, dtype=np.float64 if numeric else object)
    out[array.mask] = math.nan if numeric else None
    return out
