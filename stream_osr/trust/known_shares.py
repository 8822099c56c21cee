"""Share of known instances in each emerging subclass, and in the stream.

The stream's instances and the references are scored under the same state and fall into the same cells. A cell is a
known class, an emerging subclass or something new, at one level of density in the known classes (``LEVELS``). Let
``kappa`` be the share of known instances in the stream, and ``pi`` the class shares among them. N instances of the
stream then send ``N kappa sum_j pi_j r_jc`` known ones into cell c. Here ``r_jc`` is the rate at which the cell
attracts references of class j. All further instances are new. Both counts are uncertain. The share t of known ones
among a cell's S instances therefore has a posterior. Of S + a instances, a are references. Each has odds ``t / v`` to
one of being a reference rather than from the stream,

    p(t | S, a)  is proportional to  t^a (1 + t / v)^-(S + a) p(t),

where v is the number of stream instances that one reference represents. By the prior p(t), most subclasses are of one
kind. A cell is all known with probability 0.8 t0, all new with 0.8 (1 - t0), and otherwise has any share. ``t0``
comes from the small cells together. ``docs/inference.md``, section 15, has the argument.
"""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

import numpy as np

from stream_osr.model.elementwise import exp_each_using, largest, log_each_using, total_of
from stream_osr.model.jit import Array, called_kernel, kernel, unrolled_kernel
from stream_osr.support import rules
from stream_osr.trust.reference_counts import ReferenceCounts

SMALL = 8.0
"""Number of stream instances below which a subclass is pooled with all other small ones."""
T_GRID = 1.0 / (1.0 + np.exp(-np.linspace(-8.0, 8.0, 65)))
LOG_T = np.log(T_GRID)
MIXED = 0.2
"""Prior probability that a cell has both known and new instances, in any proportion. Otherwise it has one kind."""
SLAB = MIXED * T_GRID * (1.0 - T_GRID) / (T_GRID * (1.0 - T_GRID)).sum()
LOG_SLAB = np.log(SLAB)
KAPPAS = np.linspace(0.04, 1.0, 17)
INCOHERENCE = 0.05
"""Standard deviation of kappa from the estimate of all cells together."""
NEGLIGIBLE = 20.0
"""Nats below the largest evidence at which the search for kappa ends: a probability of 2e-9."""
UNSEEN = 0.1
"""Least number of references of a cell, for estimating what one of them represents."""
PRIOR_SHARES = 50.0
"""Weight of the training shares in the shares of the classes, in instances of the stream."""
EVEN = 0.5
"""Prior mean of the known share of a cell without other evidence."""
EXTREME = 0.02
"""Bounds on the pooled known share of small cells: ``EXTREME`` and 1 - ``EXTREME``."""
LEAST_CHANGE = 0.1
"""Least prior probability that a subclass has changed its kind, until counts are stronger."""
LEAST_ESTIMATED = 0.01
"""Number of instances below which a cell is not estimated."""
ROUNDS = 100
"""Most rounds of EM for the shares of the classes."""
CONVERGED = 1e-7
"""Largest change of a share in the last round."""


class KnownShares(NamedTuple):
    """Known shares estimated from the counts.

    Attributes
    ----------
    known
        Known share of each cell, shape (C, L). It is 1 for the known classes.
    owner
        Weight of each class in the known part of each emerging subclass and of new instances, shape (J, K + 1).
    classes
        Shares of the classes among the known instances, shape (J,).
    kappa
        Known share of the stream.
    """

    known: Annotated[Array, rules.array("f", "C", "L", low=0.0, high=1.0)]
    owner: Annotated[Array, rules.array("f", "J", "B", low=0.0, high=1.0)]
    classes: Annotated[Array, rules.array("f", "J", low=0.0, high=1.0)]
    kappa: rules.Share


@kernel
def class_shares(votes: Array, confusion: Array, trained: Array, begin: Array) -> Array:
    """Return the shares of the classes among the stream's known instances, at the maximum of their posterior (EM).

    Parameters
    ----------
    votes
        Sums over the stream of the class probabilities by density alone, shape (J,).
    confusion
        Means of the same probabilities over the references of each class, shape (J, J).
    trained
        Shares of the training set, shape (J,). They are the prior, with a weight of ``PRIOR_SHARES`` instances.
    begin
        Shares to begin with, shape (J,): those of the batch before.

    Examples
    --------
    Two classes that are separated three times in four, three quarters of the stream of the first (and a prior):

    >>> confusion = np.array([[0.75, 0.25], [0.25, 0.75]])
    >>> even = np.array([0.5, 0.5])
    >>> class_shares(10_000 * np.array([0.625, 0.375]), confusion, even, even).round(2)
    array([0.74, 0.26])
    """
    n_classes = len(trained)
    shares: Array = np.maximum(begin, 1e-9)
    mixed, per_class = confusion + 1e-9, np.ascontiguousarray(confusion.T) + 1e-9
    ratio, counts = np.empty(n_classes), np.empty(n_classes)
    for _ in range(ROUNDS):
        ratio[:] = 0.0
        for j in range(n_classes):
            for c in range(n_classes):
                ratio[c] += shares[j] * mixed[j, c]
        for c in range(n_classes):
            ratio[c] = votes[c] / ratio[c]
        counts[:] = 0.0
        for c in range(n_classes):
            for j in range(n_classes):
                counts[j] += ratio[c] * per_class[c, j]
        whole = 0.0
        for j in range(n_classes):
            counts[j] = PRIOR_SHARES * trained[j] + shares[j] * counts[j]
            whole += counts[j]
        change = 0.0
        for j in range(n_classes):
            share = counts[j] / whole
            change = max(change, abs(share - shares[j]))
            shares[j] = share
        if change < CONVERGED:
            break
    return shares


@called_kernel
def known_share(room: Array, stream: float, taken: float, per_reference: float, before: float) -> tuple[float, float]:
    """Return the posterior mean of the known share of a cell, on the grid ``T_GRID``.

    Parameters
    ----------
    room
        Work space, shape (2, grid).
    stream, taken
        Numbers of stream instances and of references in the cell: S and a.
    per_reference
        Number of stream instances that a reference represents: v.
    before
        Prior mean t0. With probability ``1 - MIXED`` the cell is all known (t0) or all new. Otherwise it has any
        share.

    Returns
    -------
    Posterior mean, and the logarithm of the evidence.
    """
    n = len(T_GRID)
    value, scratch = room[0], room[1]
    rate = 1.0 / per_reference
    for i in range(n):
        value[i] = 1.0 + T_GRID[i] * rate
    log_each_using(scratch, value)
    for i in range(n):
        value[i] = LOG_SLAB[i] + taken * LOG_T[i] - (stream + taken) * value[i]
    peak = largest(value)
    for i in range(n):
        value[i] -= peak
    exp_each_using(scratch.view(np.int64), value)
    value[0] *= 1.0 + (1.0 - MIXED) * (1.0 - before) / SLAB[0]
    value[n - 1] *= 1.0 + (1.0 - MIXED) * before / SLAB[n - 1]
    total = total_of(value)
    for i in range(n):
        value[i] *= T_GRID[i]
    mean = total_of(value)
    return mean / total, peak + math.log(total) - taken * math.log(per_reference)


class _CellCounts(NamedTuple):
    """Counts of C cells with L levels each: stream instances and effective references.

    Attributes
    ----------
    stream, seen
        As in :class:`ReferenceCounts`.
    effective, stands
        Effective references, and the number of instances that each represents if the whole stream is known, shape (C,
        L).
    n_classes
        Number of cells that are known classes, which come first.
    before
        As in :func:`cell_shares`.
    """

    stream: Array
    seen: Array
    effective: Array
    stands: Array
    n_classes: int
    before: Array


@unrolled_kernel
def _weigh_class(asked: Array, distinct: float, of_class: float, seen: Array, out: Array) -> None:
    """Write the stream instances that a reference represents in each cell, and the share of distinct references."""
    per_reference, share = out[0], out[1]
    for c in range(len(seen)):
        used = min(asked[c], distinct)  # asking the same reference again tells nothing new
        per_reference[c] = of_class * seen[c] / (used if used > 0.0 else np.inf)
        share[c] = used / (asked[c] if asked[c] > 0.0 else 1.0)


@unrolled_kernel
def _add_class(
    taken: Array, weights: Array, of_class: float, spread: float, base: Array, total: Array, square: Array
) -> None:
    """Add the references of a class on one level to the sums of each cell."""
    per_reference, share = weights[0], weights[1]
    for c in range(len(taken)):
        each, worth = per_reference[c] * spread, per_reference[c] * taken[c] * share[c]
        base[c] += of_class * each
        total[c] += worth
        square[c] += each * worth


@kernel
def _weigh(
    counts: ReferenceCounts, distinct: Array, spread: Array, classes: Array, begin: int
) -> tuple[Array, Array]:
    """Return the effective references in each cell from ``begin`` on, and what each represents, both (C, L).

    One reference represents this number of instances if the whole stream is known.
    """
    (n_classes, count, levels), seen = counts.taken.shape, counts.seen[begin:]
    sums, weights = np.zeros((3, levels, count)), np.zeros((2, len(seen)))
    for j in range(n_classes):
        if distinct[j] > 0.0:
            _weigh_class(counts.total[j, begin:], distinct[j], classes[j], seen, weights)
            for level in range(levels):
                taken, to = counts.taken[j, begin:, level], sums[:, level, begin:]
                _add_class(taken, weights, classes[j], spread[j, level], to[0], to[1], to[2])
    effective, stands = np.zeros((count, levels)), np.zeros((count, levels))
    for c in range(begin, count):
        for level in range(levels):
            base, total, square = sums[0, level, c], sums[1, level, c], sums[2, level, c]
            rest = UNSEEN * base
            stands[c, level] = max((square + rest * base) / max(total + rest, 1e-12), 1e-9)
            effective[c, level] = total / stands[c, level]
    return effective, stands


@kernel
def _pool(counts: _CellCounts) -> tuple[Array, Array]:
    """Return the mask of small cells, shape (C,), and their sums for each level: S, a and v, shape (3, L)."""
    stream, _, effective, stands, first, before = counts
    count, levels = stream.shape
    small = np.zeros(count, np.bool_)
    for c in range(first, count):
        small[c] = c == count - 1 or (before[c - first] < 0.0 and stream[c].sum() < SMALL)
    pool = np.zeros((3, levels))
    for level in range(levels):
        weight = 0.0
        for c in range(count):
            if small[c]:
                pool[0, level] += stream[c, level]
                pool[1, level] += effective[c, level]
                pool[2, level] += (stream[c, level] + LEAST_ESTIMATED) * stands[c, level]
                weight += stream[c, level] + LEAST_ESTIMATED
        pool[2, level] /= weight
    return small, pool


@kernel
def _estimate_kappa(counts: _CellCounts, before: float) -> float:
    """Return the posterior mean of the known share of the stream.

    The evidence is that of all cells, with the small ones pooled. The result must be close to the sum of the cells'
    shares. A known class is one cell here, since its frozen instances may be a little denser than its references.

    The search begins at the estimate ``before`` (NaN: none) and ends on each side where the evidence is negligible.
    """
    stream, effective, stands, n_classes = counts.stream, counts.effective, counts.stands, counts.n_classes
    (small, pool), whole_class = _pool(counts), np.zeros((n_classes, 3))
    for c in range(n_classes):
        mass = (effective[c] * stands[c]).sum()
        v = (effective[c] * stands[c] * stands[c]).sum() / mass if mass > 0.0 else 1e-9
        whole_class[c] = stream[c].sum(), mass / v, v
    evidence, count, best = np.full(len(KAPPAS), -np.inf), len(KAPPAS), -np.inf
    begin = 0 if np.isnan(before) else min(int(np.searchsorted(KAPPAS, before)), count - 1)
    for number in range(begin, count):
        evidence[number] = _evidence(KAPPAS[number], counts, small, pool, whole_class)
        best = max(best, evidence[number])
        if evidence[number] < best - NEGLIGIBLE and not np.isnan(before):
            break
    for number in range(begin - 1, -1, -1):
        evidence[number] = _evidence(KAPPAS[number], counts, small, pool, whole_class)
        best = max(best, evidence[number])
        if evidence[number] < best - NEGLIGIBLE:
            break
    weight = np.exp(evidence - best)
    return float((weight * KAPPAS).sum() / weight.sum())


@kernel
def _evidence(kappa: float, counts: _CellCounts, small: Array, pooled: Array, whole_class: Array) -> float:
    """Return the log evidence of a known share of the stream: ``small`` and ``pooled`` from :func:`_pool`.

    ``whole_class`` has S, a and v of each known class over all levels, shape (J, 3).
    """
    stream, seen, effective, stands, n_classes, _ = counts
    (count, levels), room = stream.shape, np.empty((2, len(T_GRID)))
    total, rate, whole = 0.0, 0.0, 1e-12
    for level in range(levels):
        prior = EVEN if level > 0 else EXTREME
        of_small, log_evidence = known_share(
            room, pooled[0, level], pooled[1, level], pooled[2, level] * kappa, prior
        )
        total += log_evidence
        for c in range(n_classes, count):
            s, a = stream[c, level], effective[c, level]
            if s + a < LEAST_ESTIMATED:
                continue
            share = of_small
            if not small[c]:
                share, log_evidence = known_share(room, s, a, stands[c, level] * kappa, prior)
                total += log_evidence
            rate += s / seen[c] * share
            whole += s / seen[c]
    for c in range(n_classes):
        s, a, v = whole_class[c]
        if s + a >= LEAST_ESTIMATED:
            share, log_evidence = known_share(room, s, a, v * kappa, EVEN)
            total += log_evidence
            rate += s / seen[c] * share
            whole += s / seen[c]
    return total - 0.5 * ((kappa - rate / whole) / INCOHERENCE) ** 2


@kernel
def _known_shares(counts: _CellCounts, kappa: float) -> Array:
    """Return the known share of each cell, shape (C, L). It is 1 for the known classes."""
    stream, _, effective, stands, n_classes, before = counts
    _, pool = _pool(counts)
    count, levels = stream.shape
    known, room = np.ones((count, levels)), np.empty((2, len(T_GRID)))
    for level in range(levels):
        together, _ = known_share(room, pool[0, level], pool[1, level], pool[2, level] * kappa, EVEN)
        together = min(max(together, EXTREME), 1.0 - EXTREME)
        if level == 0:
            together = EXTREME  # where no reference lies: new, until there are counts that say otherwise
        known[n_classes:, level] = together
        for c in range(n_classes, count - 1):
            s, a, prior = stream[c, level], effective[c, level], together
            if level > 0 and before[c - n_classes] >= 0.0:
                prior = min(max(before[c - n_classes], LEAST_CHANGE), 1.0 - LEAST_CHANGE)
            known[c, level] = prior
            if s + a >= LEAST_ESTIMATED:
                known[c, level], _ = known_share(room, s, a, stands[c, level] * kappa, prior)
    return known


@kernel
def cell_shares(
    counts: ReferenceCounts,
    classes: Array,
    distinct: Array,
    spread: Array,
    kappa: float,
    before: Array,
    due: bool,
) -> KnownShares:
    """Estimate the known share of each cell, and the classes that it belongs to.

    Parameters
    ----------
    counts
        Counts of references and instances.
    classes
        Shares of the classes (:func:`class_shares`), shape (J,).
    distinct
        Number of references of each class, shape (J,).
    spread
        Weighted mean weight of the references of each class at each level, shape (J, L).
    kappa
        Last estimate of the known share of the stream, NaN if there is none.
    before
        Known share of each emerging subclass when it had support, shape (K,). Negative: it had none so far.
    due
        Whether to estimate the known share of the stream again.
    """
    n_classes, count = counts.total.shape  # the known classes count for kappa alone
    effective, stands = _weigh(counts, distinct, spread, classes, 0 if due else n_classes)
    cell_counts = _CellCounts(counts.stream, counts.seen, effective, stands, n_classes, before)
    if due:
        kappa = _estimate_kappa(cell_counts, kappa)
    owner = np.empty((n_classes, count - n_classes))
    for c in range(n_classes, count):
        whole = 0.0
        for j in range(n_classes):
            taken = counts.taken[j, c].sum()
            owner[j, c - n_classes] = classes[j] * np.sqrt(taken / max(counts.total[j, c], 1e-9) + 1e-4)
            whole += owner[j, c - n_classes]
        owner[:, c - n_classes] /= whole
    return KnownShares(_known_shares(cell_counts, kappa), owner, classes, kappa)
