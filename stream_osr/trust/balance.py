"""Mass balance: which share of what an emerging subclass takes belongs to known classes after all.

The stream's instances and the references are asked of the same state, and fall into the same cells: a known class or
an emerging subclass (or something new), by how dense the instance is in the known classes at all (``LEVELS``). With
``kappa`` the share of known instances in the stream and ``pi`` the shares of the classes among them, N instances of
the stream send ``N kappa sum_j pi_j r_jc`` known ones into cell c, where ``r_jc`` is the rate at which it takes
references of class j. What comes beyond that is new. Both counts are uncertain, so the share t of a cell's S
instances that are known has a posterior: of S + a instances, a are references, each with odds ``t / v`` for one to
one of the stream,

    p(t | S, a)  is proportional to  t^a (1 + t / v)^-(S + a) p(t),

v being the instances of the stream that one reference stands for. The prior p(t) says that most subclasses are of
one kind: all known with probability .8 t0, all new with .8 (1 - t0), else any share; ``t0`` is what the small cells
say together. ``docs/inference.md``, section 15, has the argument.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from stream_osr.model.elementwise import exp_each, largest, log_each
from stream_osr.model.jit import kernel

LEVELS = np.array([0.01, 0.05, 0.2, 0.5])
"""Shares of the references that lie below the bounds of the levels."""
BEYOND = 2.0
"""The lowest level of all lies beyond the references: further below their median than this many times the lowest."""
N_LEVELS = len(LEVELS) + 2
LEAST_BELOW = 4.0
"""A bound that fewer references of a typical class lie below is not used."""
SMALL = 8.0
"""Instances of the stream below which a subclass counts with all other small ones."""
T_GRID = 1.0 / (1.0 + np.exp(-np.linspace(-8.0, 8.0, 65)))
LOG_T = np.log(T_GRID)
MIXED = 0.2
"""Prior probability that a cell holds both known and new instances, in whatever proportion; else it holds one
kind."""
LOG_SLAB = np.log(MIXED * T_GRID * (1.0 - T_GRID) / (T_GRID * (1.0 - T_GRID)).sum())
KAPPAS = np.linspace(0.04, 1.0, 17)
INCOHERENCE = 0.05
"""Standard deviation of kappa from what the cells say together."""
UNSEEN = 0.1
"""References that a cell has in any case, when it is estimated what one of them stands for."""
PRIOR_SHARES = 50.0
"""Weight of the training shares in the shares of the classes, in instances of the stream."""
EVEN = 0.5
"""Prior mean of the share of a cell that is known, where nothing else is said."""
EXTREME = 0.02
"""The small cells together say no less, and no more than 1 minus it, of each of them."""
DOUBT = 0.1
"""What a subclass was, it is again with at most 1 minus this probability, until counts say more."""
CRUMB = 0.01
"""Instances below which nothing is said of a cell."""
ROUNDS = 100


class Books(NamedTuple):
    """Counts of J known classes and C cells: the known classes, K emerging subclasses, and what is new; L levels.

    Attributes
    ----------
    stream
        Instances of the stream in each cell, faded, shape (C, L).
    seen
        Instances that came since each cell is there, faded, shape (C,).
    taken
        References of each class in each cell, faded, shape (J, C, L).
    asked
        References of each class that were asked since each cell is there, faded, shape (J, C).
    votes
        What the classes' densities alone say of the known instances, faded, shape (J,).
    """

    stream: np.ndarray
    seen: np.ndarray
    taken: np.ndarray
    asked: np.ndarray
    votes: np.ndarray


class Shares(NamedTuple):
    """What the books say.

    Attributes
    ----------
    known
        Share of each cell that is known, shape (C, L); 1 for the known classes.
    owner
        Of what is known in each emerging subclass and in what is new, the weight of each class, shape (J, K + 1).
    classes
        Shares of the classes among the known instances, shape (J,).
    kappa
        Share of the stream that is known.
    """

    known: np.ndarray
    owner: np.ndarray
    classes: np.ndarray
    kappa: float


@kernel
def class_shares(votes: np.ndarray, confusion: np.ndarray, trained: np.ndarray) -> np.ndarray:
    """Shares of the classes among the stream's known instances: the maximum of their posterior (EM).

    Parameters
    ----------
    votes
        Sums over the stream of how probable each class is by its density alone, shape (J,).
    confusion
        The same as means over the references of each class, shape (J, J).
    trained
        Shares of the training set: the prior, with a weight of ``PRIOR_SHARES`` instances, shape (J,).

    Examples
    --------
    Two classes that are told apart three times in four, three quarters of the stream of the first (and a prior):

    >>> confusion = np.array([[0.75, 0.25], [0.25, 0.75]])
    >>> class_shares(10_000 * np.array([0.625, 0.375]), confusion, np.array([0.5, 0.5])).round(2)
    array([0.74, 0.26])
    """
    n_classes = len(trained)
    shares, counts = trained.copy(), np.empty(n_classes)
    for _ in range(ROUNDS):
        for j in range(n_classes):
            counts[j] = PRIOR_SHARES * trained[j]
        for c in range(n_classes):
            total = 0.0
            for j in range(n_classes):
                total += shares[j] * (confusion[j, c] + 1e-9)
            for j in range(n_classes):
                counts[j] += votes[c] * shares[j] * (confusion[j, c] + 1e-9) / total
        whole = counts.sum()
        for j in range(n_classes):
            shares[j] = counts[j] / whole
    return shares


@kernel
def known_share(stream: float, taken: float, stands_for: float, before: float) -> tuple[float, float]:
    """Posterior of the share of a cell that is known, on the grid ``T_GRID``.

    Parameters
    ----------
    stream, taken
        Instances of the stream, and references, in the cell: S and a.
    stands_for
        Instances of the stream that a reference stands for: v.
    before
        Prior mean t0: with probability ``1 - MIXED`` all of the cell is known (t0) or all of it new; else any share.

    Returns
    -------
    Posterior mean, and the logarithm of the evidence.
    """
    n = len(T_GRID)
    value = np.empty(n)
    rate = 1.0 / stands_for
    for i in range(n):
        value[i] = 1.0 + T_GRID[i] * rate
    log_each(value)
    for i in range(n):
        value[i] = LOG_SLAB[i] + taken * LOG_T[i] - (stream + taken) * value[i]
    for i, mass in ((0, 1.0 - before), (n - 1, before)):
        value[i] += math.log1p((1.0 - MIXED) * mass * math.exp(-LOG_SLAB[i]))
    peak = largest(value)
    for i in range(n):
        value[i] -= peak
    exp_each(value)
    total, mean = 0.0, 0.0
    for i in range(n):
        total += value[i]
        mean += value[i] * T_GRID[i]
    return mean / total, peak + math.log(total) - taken * math.log(stands_for)


class _Cells(NamedTuple):
    """C cells, L levels each: instances of the stream, and what the references in them are worth.

    Attributes
    ----------
    stream, seen
        As in :class:`Books`.
    effective, stands
        Effective references, and what each stands for if all of the stream is known, shape (C, L).
    n_classes
        How many cells are known classes; they come first.
    before
        As :func:`share_out` takes it.
    """

    stream: np.ndarray
    seen: np.ndarray
    effective: np.ndarray
    stands: np.ndarray
    n_classes: int
    before: np.ndarray


@kernel
def _weigh(
    seen: np.ndarray, taken: np.ndarray, asked: np.ndarray, distinct: np.ndarray, classes: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Effective references in each cell and what each stands for if all of the stream is known, both (C, L)."""
    n_classes, count, levels = taken.shape
    effective, stands = np.zeros((count, levels)), np.zeros((count, levels))
    for c in range(count):
        base = 0.0
        for j in range(n_classes):
            if asked[j, c] > 0.0 and distinct[j] > 0.0:
                base += classes[j] * classes[j] * seen[c] / min(asked[j, c], distinct[j])
        for level in range(levels):
            total, square = 0.0, 0.0
            for j in range(n_classes):
                if asked[j, c] > 0.0 and distinct[j] > 0.0:  # asking the same reference again tells nothing new
                    used = min(asked[j, c], distinct[j])
                    w, count_j = classes[j] * seen[c] / used, taken[j, c, level] * used / asked[j, c]
                    total += w * count_j
                    square += w * w * count_j
            stands[c, level] = max((square + UNSEEN * base * base) / max(total + UNSEEN * base, 1e-12), 1e-9)
            effective[c, level] = total / stands[c, level]
    return effective, stands


@kernel
def _pool(cells: _Cells) -> tuple[np.ndarray, np.ndarray]:
    """Say which cells are small, shape (C,), and sum those up level by level: S, a and v, shape (3, L)."""
    stream, first = cells.stream, cells.n_classes
    count, levels = stream.shape
    small = np.zeros(count, np.bool_)
    for c in range(first, count):
        small[c] = c == count - 1 or (cells.before[c - first] < 0.0 and stream[c].sum() < SMALL)
    pool = np.zeros((3, levels))
    for level in range(levels):
        weight = 0.0
        for c in range(count):
            if small[c]:
                pool[0, level] += stream[c, level]
                pool[1, level] += cells.effective[c, level]
                pool[2, level] += (stream[c, level] + CRUMB) * cells.stands[c, level]
                weight += stream[c, level] + CRUMB
        pool[2, level] /= weight
    return small, pool


@kernel
def _estimate_kappa(cells: _Cells) -> float:
    """Posterior mean of the share of the stream that is known.

    Its evidence is that of all cells, the small ones together; and it must be about what the cells' shares add up to.
    A known class is one cell here: what it takes is frozen, and may well be a little denser than its references.
    """
    stream, seen, effective, stands, n_classes, _ = cells
    small, pool = _pool(cells)
    count, levels = stream.shape
    evidence = np.zeros(len(KAPPAS))
    for number in range(len(KAPPAS)):
        kappa = KAPPAS[number]
        rate, whole = 0.0, 1e-12
        for level in range(levels):
            prior = EVEN if level > 0 else EXTREME
            of_small, log_evidence = known_share(pool[0, level], pool[1, level], pool[2, level] * kappa, prior)
            evidence[number] += log_evidence
            for c in range(n_classes, count):
                s, a = stream[c, level], effective[c, level]
                if s + a < CRUMB:
                    continue
                share = of_small
                if not small[c]:
                    share, log_evidence = known_share(s, a, stands[c, level] * kappa, prior)
                    evidence[number] += log_evidence
                rate += s / seen[c] * share
                whole += s / seen[c]
        for c in range(n_classes):
            s, a, v = stream[c].sum(), 0.0, 1e-9
            mass = (effective[c] * stands[c]).sum()
            if mass > 0.0:
                v = (effective[c] * stands[c] * stands[c]).sum() / mass
                a = mass / v
            if s + a >= CRUMB:
                share, log_evidence = known_share(s, a, v * kappa, EVEN)
                evidence[number] += log_evidence
                rate += s / seen[c] * share
                whole += s / seen[c]
        evidence[number] -= 0.5 * ((kappa - rate / whole) / INCOHERENCE) ** 2
    weight = np.exp(evidence - evidence.max())
    return float((weight * KAPPAS).sum() / weight.sum())


@kernel
def _known_shares(cells: _Cells, kappa: float) -> np.ndarray:
    """Share of each cell that is known, shape (C, L): 1 for the known classes."""
    _, pool = _pool(cells)
    count, levels = cells.stream.shape
    known = np.ones((count, levels))
    for level in range(levels):
        together, _ = known_share(pool[0, level], pool[1, level], pool[2, level] * kappa, EVEN)
        together = min(max(together, EXTREME), 1.0 - EXTREME)
        if level == 0:
            together = EXTREME  # where no reference lies: new, until there are counts that say otherwise
        for c in range(cells.n_classes, count):
            s, a, v = cells.stream[c, level], cells.effective[c, level], cells.stands[c, level] * kappa
            prior = together
            if c < count - 1 and level > 0 and cells.before[c - cells.n_classes] >= 0.0:
                prior = min(max(cells.before[c - cells.n_classes], DOUBT), 1.0 - DOUBT)
            known[c, level] = prior
            if c < count - 1 and s + a >= CRUMB:
                known[c, level], _ = known_share(s, a, v, prior)
    return known


def share_out(
    books: Books,
    classes: np.ndarray,
    distinct: np.ndarray,
    kappa: float | None = None,
    before: np.ndarray | None = None,
) -> Shares:
    """Say what share of each cell is known, and whose.

    Parameters
    ----------
    books
        The counts.
    classes
        Shares of the classes (:func:`class_shares`), shape (J,).
    distinct
        References that there are of each class, shape (J,).
    kappa
        Share of the stream that is known, if it has been estimated lately.
    before
        Share of each emerging subclass that was known when it had support, negative: it had none so far, shape (K,).
    """
    n_classes = len(classes)
    if before is None:
        before = np.full(len(books.stream) - n_classes - 1, -1.0)
    weighed = _weigh(books.seen, books.taken, books.asked, distinct, classes)
    cells = _Cells(books.stream, books.seen, *weighed, n_classes, before)
    if kappa is None:
        kappa = _estimate_kappa(cells)
    known = _known_shares(cells, kappa)
    rate = books.taken[:, n_classes:].sum(axis=2) / np.maximum(books.asked[:, n_classes:], 1e-9)
    owner = classes[:, None] * np.sqrt(rate + 1e-4)
    return Shares(known, owner / owner.sum(axis=0), classes, kappa)


def level_bounds(score: np.ndarray, group: np.ndarray) -> np.ndarray:
    """Bounds of the levels from the scores of the references, shape (L - 1,), ascending.

    The first is beyond all references; of the others those are left out that too few references lie below.
    """
    middle = float(np.median(score))
    beyond = middle - BEYOND * (middle - float(score.min()))
    bounds = np.quantile(score, LEVELS)
    typical = np.median(np.bincount(group)[np.unique(group)])
    bounds[LEVELS * typical < LEAST_BELOW] = beyond
    return np.append(beyond, bounds)


def scores(
    log_density: np.ndarray, count: np.ndarray, total: np.ndarray, group: np.ndarray | None = None
) -> np.ndarray:
    """How dense instances are in the known classes: the largest excess over the mean of a class's references, (n,).

    Parameters
    ----------
    log_density
        Under each known class, shape (n, J).
    count, total
        Number of the references of each class, and the sum of their log densities under it, shape (J,).
    group
        Class of each, when they are references themselves: its own mean is then that of the others.
    """
    n = len(log_density)
    of, whole = np.tile(count, (n, 1)), np.tile(total, (n, 1))
    if group is not None:
        at = np.arange(n)
        of[at, group] -= 1.0
        whole[at, group] -= log_density[at, group]
    with np.errstate(divide="ignore", invalid="ignore"):
        excess = np.where(of > 0.0, log_density - whole / of, -np.inf)
    return np.asarray(np.where(np.isnan(excess), -np.inf, excess).max(axis=1))
