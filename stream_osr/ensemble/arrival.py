"""The order of arrival in an ensemble: what the latest instances of the known classes say of the next ones."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stream_osr.ensemble.chain import Chains, opening_seats
from stream_osr.model.cells import asked
from stream_osr.model.dependence import Process, Residuals
from stream_osr.model.known import log_categories, log_densities
from stream_osr.model.ordered import Came, Tracked, predict_in_order, start
from stream_osr.trust.references import References

ACCEPTED_FROM = 0.2
"""Share of the independent references of a class that are no denser than an instance, from which on it moves the state
of the class."""


class Arrival(NamedTuple):
    """Where the known classes are, and what that said of the latest instances.

    Attributes
    ----------
    process
        What the residuals of the classes are like.
    tracked
        Where the classes are.
    latest
        By how much more likely the latest instances were given those before them, shape (m,).
    """

    process: Process
    tracked: Tracked
    latest: np.ndarray


def begin(process: Process, n_classes: int) -> Arrival:
    """Begin where nothing has come yet."""
    return Arrival(process, start(process, n_classes), np.zeros(0))


def follow_order(
    arrival: Arrival,
    residuals: Residuals,
    chains: Chains,
    references: References,
    rows: np.ndarray,
    incomplete: np.ndarray | None,
    kept: int,
) -> tuple[Arrival, np.ndarray]:
    """Predict a batch, and let the classes follow the instances that are accepted as theirs.

    Parameters
    ----------
    arrival
        The state before the batch; it does not change.
    residuals
        Of the J trained classes.
    chains
        Before the batch.
    references
        Of the known classes, with their densities in order of arrival.
    rows
        Whitened rows, shape (b, C + d).
    incomplete
        Rows of which something is missing: they are not predicted, shape (b,); ``None``: none.
    kept
        Instances whose densities are remembered: those of the window.

    Returns
    -------
    The state after it, and by how much more likely the instances of the window and of the batch were given those
    before them, shape (w + b,).
    """
    prior, n_classes = chains[0].known.prior, len(residuals.mean)
    who = asked(rows, prior)
    product = who.product if who.product.size else None
    found = [log_densities(c.known, c.frozen, who.rows, product) for c in chains]
    log_density = np.ascontiguousarray(np.mean([each[0] for each in found], axis=0)[:, :n_classes])
    seats = np.mean([opening_seats(c.known, c.frozen) for c in chains], axis=0)
    new = np.mean([each[2] for each in found], axis=0) + seats[-1]
    category = log_categories(chains[0].known, chains[0].frozen, who.rows)[:, :n_classes]
    complete = np.ones(len(rows), bool) if incomplete is None else ~incomplete
    came = Came(rows[:, len(prior.first) :], category, log_density, new - seats[:n_classes].max(), complete)
    gain, tracked = predict_in_order(
        arrival.process, residuals, arrival.tracked, came, least_accepted(references, n_classes)
    )
    window = len(chains[0].state.window.rows)
    before = arrival.latest[max(len(arrival.latest) - window, 0) :]
    everyone = np.concatenate([np.zeros(window - len(before)), before, gain])
    return Arrival(arrival.process, tracked, everyone[max(len(everyone) - kept, 0) :]), everyone


def least_accepted(references: References, n_classes: int) -> np.ndarray:
    """Find the log densities from which on an instance is accepted as one of each class, shape (2, J)."""
    own, out = np.mean(references.log_density, axis=0), np.full((2, n_classes), np.inf)
    count = references.effective or len(references.group) / n_classes
    share = (ACCEPTED_FROM * (count + 1.0) - 1.0) / count
    if share <= 0.0:  # the references are too few to reject any
        return np.full((2, n_classes), -np.inf)
    for j in range(n_classes):
        theirs = references.group == j
        if theirs.any():
            frozen = own[theirs, j]
            out[:, j] = np.quantile([frozen, frozen + references.gains[theirs]], share, axis=1)
    return out
