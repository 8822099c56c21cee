"""Mass balance: the probability of unknown is divided, and its known part returns to the known classes."""

from __future__ import annotations

import numpy as np

from stream_osr.model.elementwise import exp_each, largest, total_of
from stream_osr.model.jit import Array, kernel
from stream_osr.trust.density_levels import with_odds
from stream_osr.trust.known_shares import KnownShares


@kernel
def votes(log_density: Array) -> Array:
    """Return the probability of each class by its density alone, shape (n, J)."""
    n, n_classes = log_density.shape
    out = np.empty((n, n_classes))
    for i in range(n):
        peak = largest(log_density[i])
        for j in range(n_classes):
            out[i, j] = log_density[i, j] - peak
    exp_each(out.reshape(out.size))
    for i in range(n):
        scale = 1.0 / total_of(out[i])
        for j in range(n_classes):
            out[i, j] *= scale
    return out


@kernel
def balance(
    shares: KnownShares,
    unknown: Array,
    responsibilities: Array,
    level: Array,
    vote: Array,
    odds: Array | None = None,
    hypotheses: Array | None = None,
    prior: Array | None = None,
) -> Array:
    """Divide the probability of unknown, and weight the known classes by their shares in the stream.

    Parameters
    ----------
    shares
        Estimated known shares.
    unknown
        Probability of unknown of each instance from the sampler, shape (n,). NaN: use the cells.
    responsibilities
        Responsibilities of the cells, shape (n, C).
    level
        Level of each instance, shape (n,).
    vote
        Probability of each known class by its density alone (:func:`votes`), shape (n, J).
    odds
        Odds of a new class of each instance alone, shape (n,), if typicality decides
        (:mod:`stream_osr.trust.density_levels`).
    hypotheses
        Numbers of each cell in that case (:func:`.density_levels.known_by_typicality`), shape (C, 2).
    prior
        Prior of the classes of each instance from its neighbours in that case
        (:func:`stream_osr.model.class_runs.follow_runs`), shape (n, J), in place of the shares.

    Returns
    -------
    Probabilities of the known classes and, last, unknown, shape (n, J + 1).
    """
    (n, n_classes), count = vote.shape, responsibilities.shape[1]
    back, new = np.empty((n, count - n_classes)), np.empty(n)
    known, classes = np.ascontiguousarray(shares.known[n_classes:].T), shares.classes
    for i in range(n):
        here, share, emerging = back[i], known[level[i]], responsibilities[i, n_classes:]
        new[i] = total_of(emerging)
        scale = 1.0 / max(new[i], 1e-300)
        for c in range(count - n_classes):
            kept = share[c] if odds is None or hypotheses is None else with_odds(hypotheses[n_classes + c], odds[i])
            here[c] = emerging[c] * scale * kept
    theirs, out = back @ shares.owner.T, np.empty((n, n_classes + 1))
    for i in range(n):
        whole = new[i] if np.isnan(unknown[i]) else unknown[i]
        expected = classes if prior is None else prior[i]
        own, their = 0.0, 0.0
        for j in range(n_classes):
            theirs[i, j] *= vote[i, j]
            their += theirs[i, j]
            own += expected[j] * vote[i, j]
        own, their = (1.0 - whole) / own, whole * total_of(back[i]) / max(their, 1e-300)
        left = 1.0
        for j in range(n_classes):
            kept = own * expected[j] * vote[i, j]
            if odds is not None and hypotheses is not None:
                kept *= with_odds(hypotheses[j], odds[i])
            out[i, j] = kept + their * theirs[i, j]
            left -= out[i, j]
        out[i, n_classes] = max(left, 0.0)
    return out
