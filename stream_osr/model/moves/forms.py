"""Quadratic forms of many rows at once, and how they follow an update of rank one."""

from __future__ import annotations

import numpy as np

from stream_osr.model.dishes import Dishes
from stream_osr.model.jit import fused_borrowing_kernel, kernel


@kernel
def packed_forms(used: np.ndarray, dishes: Dishes) -> np.ndarray:
    """Lower triangles of the inverses, what is off the diagonal twice: forms are linear in :func:`products`."""
    width = dishes.inverse.shape[1]
    out = np.empty((len(used), width * (width + 1) // 2))
    for position in range(len(used)):
        inverse = dishes.inverse[used[position]]
        line = 0
        for a in range(width):
            for b in range(a + 1):
                out[position, line] = inverse[a, b] if a == b else 2.0 * inverse[a, b]
                line += 1
    return out


@fused_borrowing_kernel
def quadratic_forms(inverse: np.ndarray, columns: np.ndarray, side: np.ndarray, out: np.ndarray) -> None:
    """Write ``x~' Q x~`` of each column, shape (d + 1, n), to ``out``, shape (n,); ``side`` is room of that shape."""
    width, n = columns.shape
    out[:] = 0.0
    for a in range(width):
        for i in range(n):
            side[i] = 0.5 * inverse[a, a] * columns[a, i]
        for b in range(a):
            for i in range(n):
                side[i] += inverse[a, b] * columns[b, i]
        for i in range(n):
            out[i] += 2.0 * columns[a, i] * side[i]


@fused_borrowing_kernel
def shift_forms(form: np.ndarray, columns: np.ndarray, v: np.ndarray, factor: float, side: np.ndarray) -> None:
    """Add ``factor (x~' v)^2`` of each column to its quadratic form, shape (n,); ``side`` is room of that shape."""
    width, n = columns.shape
    side[:] = 0.0
    whole = width - width % 4
    for a in range(0, whole, 4):  # four at a time: the sums are read and written a quarter as often
        p, q, r, s = v[a], v[a + 1], v[a + 2], v[a + 3]
        for i in range(n):
            side[i] += p * columns[a, i] + q * columns[a + 1, i] + r * columns[a + 2, i] + s * columns[a + 3, i]
    for a in range(whole, width):
        for i in range(n):
            side[i] += v[a] * columns[a, i]
    for i in range(n):
        form[i] += factor * side[i] * side[i]
