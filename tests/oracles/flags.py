"""Categories that are given as numbers, found and read the slow way."""

from __future__ import annotations

from itertools import combinations

import numpy as np


def exact_covers(on: np.ndarray) -> list[list[int]]:
    """Try all sets of columns; keep those of which exactly one is set in each row, and that share no column."""
    q = on.shape[1]
    sets = [c for k in range(1, q + 1) for c in combinations(range(q), k)]
    covers = [c for c in sets if all(sum(row[at] for at in c) == 1 for row in on.astype(int).tolist())]
    return sorted(list(c) for c in covers if not any(set(c) & set(other) for other in covers if other != c))


def place(row: list[float], values: list[list[tuple[float, float]]]) -> int:
    """Place of a row of the members' numbers: 0 missing, then the values, and one for all others.

    Parameters
    ----------
    row
        A number of each member, NaN = missing.
    values
        Of each value: between what each member lies.
    """
    known = [at for at, x in enumerate(row) if x == x]
    if not known:
        return 0
    fits = [v for v, bounds in enumerate(values) if all(bounds[at][0] <= row[at] <= bounds[at][1] for at in known)]
    if len(fits) > 1:
        return 0
    return 1 + fits[0] if fits else 1 + len(values)
