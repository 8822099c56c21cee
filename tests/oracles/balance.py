"""What guards the known classes, from textbook formulas: posteriors by numerical integration and plain maximisation.

An instance of the stream and a reference are worth the same evidence, so that S and a of them in one cell say what
share t of the cell is known; class shares are the mode of a mixture's posterior; an instance that no model has seen
is weighed by a model of the others, made anew from what is left.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
import scipy

from tests.oracles.niw import Array, BaseMeasure
from tests.oracles.seating import dish_probabilities, seat_probabilities

EDGES = scipy.special.expit(np.arange(-24.0, 24.5, 0.5))


def known_share(
    stream: float, taken: float, per_reference: float, before: float, mixed: float
) -> tuple[float, float]:
    """Mean and log evidence of ``t^a (1 + t/v)^-(S + a) v^-a`` under a prior that is mostly 0 or 1.

    The prior is ``mixed`` times the uniform distribution, and else all known with probability ``before``, or all new.

    Examples
    --------
    Nothing was seen: the prior.

    >>> mean, log_evidence = known_share(0.0, 0.0, 1.0, 0.3, 0.2)
    >>> round(mean, 9), abs(log_evidence) < 1e-9
    (0.34, True)
    """
    mode = 1.0 if taken * per_reference >= stream else taken * per_reference / stream  # a / t = (S + a) / (v + t)

    def log_likelihood(t: float) -> float:
        powers = taken * float(np.log(t / per_reference)) if taken else 0.0
        return powers - (stream + taken) * float(np.log1p(t / per_reference))

    top = max(log_likelihood(mode) if mode > 0.0 else 0.0, log_likelihood(1.0))

    def integral(power: int) -> float:
        edges = [0.0, *EDGES, 1.0]

        def density(t: float) -> float:
            return float(t**power * np.exp(log_likelihood(t) - top)) if t > 0.0 or not taken else 0.0

        return float(sum(scipy.integrate.quad(density, low, high)[0] for low, high in pairwise(edges)))

    nothing = float(np.exp(-top)) if taken == 0.0 else 0.0
    all_known = float(np.exp(log_likelihood(1.0) - top))
    sure = 1.0 - mixed
    whole = mixed * integral(0) + sure * (before * all_known + (1.0 - before) * nothing)
    mean = (mixed * integral(1) + sure * before * all_known) / whole
    return mean, top + float(np.log(whole))


def class_shares(votes: Array, confusion: Array, trained: Array, weight: float) -> Array:
    """Mode of ``sum_c votes_c log(sum_j pi_j r_jc) + weight sum_j trained_j log pi_j`` over the simplex.

    Examples
    --------
    >>> class_shares(np.array([30.0, 10.0]), np.eye(2), np.array([0.5, 0.5]), 20.0).round(4)
    array([0.6667, 0.3333])
    """

    def loss(logits: Array) -> float:
        shares = scipy.special.softmax(logits)
        mixed = shares @ confusion
        seen = votes > 0
        return -float(votes[seen] @ np.log(mixed[seen]) + weight * trained @ np.log(shares))

    found = scipy.optimize.minimize(loss, np.log(trained), method="BFGS", options={"gtol": 1e-8})
    return np.asarray(scipy.special.softmax(found.x))


def unseen(X: Array, group: Array, dish: Array, held: Array, base: BaseMeasure, alpha0: float, ridge: float) -> Array:
    """Log class densities of the held instances, in the features' own units, by a model of all the others.

    The others are centred, whitened by their pooled within-class covariance (``n - J`` degrees of freedom, each
    feature's variance times ``ridge`` added), and seated as ``dish`` says. Class j has the density
    ``sum_k n_jk / (n_j + alpha0) f_k(z)``, times the volume that whitening makes of the features.
    """
    X_rest, group_rest, dish_rest = X[~held], group[~held], dish[~held]
    classes = np.unique(group)
    within = np.zeros((X.shape[1], X.shape[1]))
    for j in np.unique(group_rest):
        members = X_rest[group_rest == j]
        within += (len(members) - 1) * np.cov(members.T, ddof=1).reshape(within.shape) if len(members) > 1 else 0.0
    within /= len(X_rest) - len(np.unique(group_rest))
    within += ridge * np.diag(X_rest.var(axis=0))
    values, vectors = np.linalg.eigh(within)
    whitener = vectors / np.sqrt(values)  # any root does: the base measure knows no directions
    centre = X_rest.mean(axis=0)
    z_rest, z = (X_rest - centre) @ whitener, (X[held] - centre) @ whitener
    log_volume = -0.5 * np.log(values).sum()
    out = np.empty((len(z), len(classes)))
    for i, row in enumerate(z):
        for j in classes:
            own = dish_rest[group_rest == j]
            terms = [
                np.log((own == k).sum() / (len(own) + alpha0))
                + base.log_predictive(row, z_rest[(group_rest == j) & (dish_rest == k)])
                for k in np.unique(own)
            ]
            out[i, j] = scipy.special.logsumexp(terms) + log_volume
    return out


def cells(
    row: Array,
    own: tuple[int, int] | None,
    weight: float,
    tables: Sequence[tuple[int, float]],
    menu: Mapping[int, float],
    log_known: Sequence[float],
    blocks: Mapping[int, Array],
    base: BaseMeasure,
    alpha0: float,
    gamma: float,
) -> Array:
    """Responsibilities of the known classes, of the emerging subclasses and of a new one for a row, by equation (10).

    Parameters
    ----------
    row
        The whitened row.
    own
        Its table, and its place in the block of that table's dish: it is taken out of both;
        ``None``: it sits nowhere.
    weight
        What its seat weighs.
    tables
        Dish and seats of each table in the restaurant of the stream.
    menu
        Tables that count for each dish; known classes come first.
    log_known
        Log densities of the known classes.
    blocks
        Rows of each emerging subclass.
    base, alpha0, gamma
        Base measure and concentrations.
    """
    blocks, seats = dict(blocks), [(0, dish, taken) for dish, taken in tables]
    if own is not None:
        table, place = own
        _, dish, taken = seats[table]
        seats[table] = (0, dish, taken - weight)
        blocks[dish] = np.delete(blocks[dish], place, axis=0)

    def log_density(dish: int | None) -> float:
        if dish is None:
            return base.log_predictive(row, base.block([]))
        return log_known[dish] if dish < len(log_known) else base.log_predictive(row, blocks[dish])

    eats = dish_probabilities(seat_probabilities(0, seats, menu, list(menu), log_density, alpha0, gamma))
    return np.array([eats[dish] for dish in (*sorted(menu), None)])


def divided(unknown: Array, cells: Array, vote: Array, known: Array, owner: Array, classes: Array) -> Array:
    """Probabilities of the known classes and unknown when what is unknown is divided, row by row.

    Parameters
    ----------
    unknown, cells, vote
        How probable each row is unknown, (n,); its cells, (n, C); how probable the classes are by density, (n, J).
    known
        Share of each new cell that is known, at the level of each row, shape (n, C - J).
    owner, classes
        Whose that is, shape (J, C - J), and the shares of the classes, shape (J,).

    Examples
    --------
    >>> even, cells = np.full((1, 2), 0.5), np.array([[0.1, 0.1, 0.8]])
    >>> divided(np.array([0.8]), cells, even, np.array([[0.5]]), np.array([[1.0], [0.0]]), even[0])
    array([[0.5, 0.1, 0.4]])
    """
    out = []
    for i in range(len(vote)):
        new = cells[i, len(classes) :]
        own, back = classes * vote[i], new / new.sum() * known[i]
        theirs = (owner * back).sum(axis=1) * vote[i]
        known_now = (1.0 - unknown[i]) * own / own.sum()
        if theirs.sum() > 0.0:
            known_now = known_now + unknown[i] * back.sum() * theirs / theirs.sum()
        out.append([*known_now, max(1.0 - known_now.sum(), 0.0)])
    return np.array(out)
