"""What the sampler calls unknown, divided: part of it goes back to the known classes that it belongs to."""

from __future__ import annotations

import numpy as np

from stream_osr.model.elementwise import exp_each, largest, total_of
from stream_osr.model.jit import kernel
from stream_osr.trust.balance import Shares
from stream_osr.trust.typical import with_odds


@kernel
def votes(log_density: np.ndarray) -> np.ndarray:
    """How probable each class is by its density alone, shape (n, J)."""
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
    shares: Shares,
    unknown: np.ndarray,
    cells: np.ndarray,
    level: np.ndarray,
    vote: np.ndarray,
    odds: np.ndarray | None = None,
) -> np.ndarray:
    """Divide what the sampler calls unknown, and state the known classes by their shares in the stream.

    Parameters
    ----------
    shares
        What the books say.
    unknown
        How probable each instance is unknown, as the sampler has it, shape (n,); NaN: as the cells have it.
    cells
        Responsibilities of the cells, shape (n, C).
    level
        Level of each instance, shape (n,).
    vote
        How probable each known class is by its density alone (:func:`votes`), shape (n, J).
    odds
        Odds that each instance is new by what the frozen classes say, shape (n,): the shares are those of typicality
        (:mod:`stream_osr.trust.typical`); ``None``: they are those of references in the cells.

    Returns
    -------
    Probabilities of the known classes and, last, unknown, shape (n, J + 1).
    """
    (n, n_classes), count = vote.shape, cells.shape[1]
    back, new = np.empty((n, count - n_classes)), np.empty(n)
    known, classes = np.ascontiguousarray(shares.known[n_classes:].T), shares.classes
    for i in range(n):
        here, share, emerging = back[i], known[level[i]], cells[i, n_classes:]
        new[i] = total_of(emerging)
        scale = 1.0 / max(new[i], 1e-300)
        for c in range(count - n_classes):
            here[c] = emerging[c] * scale * (share[c] if odds is None else with_odds(share[c], odds[i]))
    theirs, out = back @ shares.owner.T, np.empty((n, n_classes + 1))
    for i in range(n):
        whole = new[i] if np.isnan(unknown[i]) else unknown[i]
        own, their = 0.0, 0.0
        for j in range(n_classes):
            theirs[i, j] *= vote[i, j]
            their += theirs[i, j]
            own += classes[j] * vote[i, j]
        own, their = (1.0 - whole) / own, whole * total_of(back[i]) / max(their, 1e-300)
        left = 1.0
        for j in range(n_classes):
            kept = own * classes[j] * vote[i, j]
            if odds is not None:
                kept *= with_odds(shares.known[j, level[i]], odds[i])
            out[i, j] = kept + their * theirs[i, j]
            left -= out[i, j]
        out[i, n_classes] = max(left, 0.0)
    return out
