"""Open categories: those in which known instances bring new values all the time."""

from __future__ import annotations

import numpy as np

from stream_osr.model.jit import Array

OPEN_SHARE, LEAST_ALONE = 0.02, 5
"""Least share and least number of instances with a value that no other instance has, for a category to be open."""


def find_open(X: Array, places: Array) -> Array:
    """Find the categories in which known instances bring new values all the time: addresses, names, identifiers.

    The share of stream instances with a value that is not in training is estimated by the share of training instances
    with a unique value (Good 1953). Arguments as for
    :func:`stream_osr.model.feature_space.mixed_whitening.fit_mixed`.

    Returns
    -------
    Their numbers among the categories.

    Examples
    --------
    Among 40 rows each of 40 addresses occurs once, and each of two protocols twenty times:

    >>> find_open(np.column_stack([np.arange(40), np.arange(40) % 2]), np.array([42, 4]))
    array([0])
    """
    out = list[int]()
    for number, at in enumerate(np.flatnonzero(places > 0).tolist()):
        code = X[~np.isnan(X[:, at]), at]
        count = np.unique(code[code < places[at] - 2], return_counts=True)[1]
        alone = int((count == 1).sum()) + int((code >= places[at] - 2).sum())
        if alone >= max(LEAST_ALONE, OPEN_SHARE * len(code)):
            out.append(number)
    return np.array(out, np.int64)
