"""Known classes translated as they are: densities, weights and density ranks are the same, elsewhere."""

from __future__ import annotations

import numpy as np

from stream_osr.model.dishes import Dishes, copy_slots
from stream_osr.model.gaussian.full import invert
from stream_osr.model.known import Known
from stream_osr.model.prior import DIAGONAL, FULL, Prior


def moved(known: Known, move: np.ndarray) -> Known:
    """Translate known classes by vectors of shape (J, d): the densities are the same, elsewhere.

    A subclass that several classes share goes by the mean of their ways, by their instances in it.
    """
    held = known.seated.sum(axis=0)
    by = (known.seated / np.maximum(held, 1.0)).T @ move
    broad = tuple(
        shape if shape is None else shape._replace(mean=shape.mean + way)
        for shape, way in zip(known.broad, move, strict=False)
    )
    return known._replace(dishes=_translated(known.dishes, by, known.prior), broad=broad)


def _translated(dishes: Dishes, by: np.ndarray, prior: Prior) -> Dishes:
    """Translate subclasses, what the prior has put into their statistics included: scatters stay as they are."""
    count = len(dishes.size)
    out = copy_slots(dishes, np.arange(count), count)
    for k in np.flatnonzero(by.any(axis=1)).tolist():
        way, r = by[k], prior.beta + float(dishes.size[k])
        if prior.covariance == FULL:
            lift = np.eye(len(way) + 1)
            lift[-1, :-1] = way
            matrix = lift.T @ dishes.matrix[k] @ lift
            out.matrix[k] = 0.5 * (matrix + matrix.T)
            out.log_det[k] = invert(out.matrix[k], out.inverse[k])
            out.updates[k] = 0
            continue
        out.matrix[k, 0] += r * way
        if prior.covariance == DIAGONAL:
            out.matrix[k, 1] += 2.0 * way * dishes.matrix[k, 0] + r * way**2
        out.inverse[k, 0] += way  # the mean; a scatter does not change
    return out
