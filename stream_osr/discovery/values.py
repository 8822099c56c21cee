"""Remembered instances in the caller's terms."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from stream_osr.discovery.explanation import NEW_VALUE
from stream_osr.model.flags import texts_of
from stream_osr.model.space import Space, bent_scale, numeric, unwhiten

ROUNDING = 1e-9
"""Standard deviations of a feature within classes that are taken for rounding about zero."""


def values_of(
    rows: np.ndarray, space: Space, names: Sequence[Hashable], categories: Sequence[Sequence[str]] = ()
) -> dict[Hashable, list[Any]]:
    """Say what whitened rows were before, as far as the model keeps it.

    Directions that training has left out are at their mean, and what was missing is filled in.

    Parameters
    ----------
    rows
        Whitened rows, shape (n, C + d).
    space
        The map that made them.
    names
        Names of the raw features, shape (p,).
    categories
        Values of each of the C categories, those of flags last.

    Returns
    -------
    dict
        Of each numeric feature, then of each category, n values; a category that is missing is None.

    Examples
    --------
    >>> from stream_osr.model.space import fit_space, whiten
    >>> X = np.array([[1.0, 5.0], [2.0, 5.5], [3.0, 4.0], [7.0, 9.0]])
    >>> space = fit_space(X, np.array([0, 0, 1, 1]))
    >>> {name: np.round(values, 6).tolist() for name, values in values_of(whiten(space, X), space, "ab").items()}
    {'a': [1.0, 2.0, 3.0, 7.0], 'b': [5.0, 5.5, 4.0, 9.0]}
    """
    count = len(space.places)
    raw = unwhiten(space, rows[:, count:])
    raw[np.abs(raw) < ROUNDING * bent_scale(space, np.eye(space.backward.shape[0]))] = 0.0
    out: dict[Hashable, list[Any]] = {
        names[at]: raw[:, at].tolist() for at in np.flatnonzero(numeric(space)).tolist()
    }
    given = [*(names[at] for at in space.columns.tolist()), *(name for name, _ in texts_of(space.flags, names))]
    begins = np.cumsum([0, *space.places.tolist()])
    for name, texts, begin, column in zip(given, categories, begins[:-1], rows.T[:count], strict=True):
        values = [None, *texts, NEW_VALUE]
        out[name] = [values[place] for place in (column - begin).astype(np.int64).tolist()]
    return out
