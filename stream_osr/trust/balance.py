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

Books: which cells the stream's instances and the references fall into, as counts that fade.

What the sampler calls unknown, divided: part of it goes back to the known classes that it belongs to.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from stream_osr.model.elementwise import exp_each, exp_each_using, largest, log_each_using, total_of
from stream_osr.model.jit import Array, kernel
from stream_osr.trust.levels import with_odds


class ReferenceCounts(NamedTuple):
    """Counts of J known classes and C cells: the known classes, K emerging subclasses, and what is new; L levels.

    Attributes
    ----------
    stream
        Instances of the stream in each cell, faded, shape (C, L).
    seen
        Instances that came since each cell is there, faded, shape (C,).
    taken
        References of each class in each cell, faded, shape (J, C, L).
    total
        References of each class that were asked since each cell is there, faded, shape (J, C).
    votes
        What the classes' densities alone say of the known instances, faded, shape (J,).
    """

    stream: Array
    seen: Array
    taken: Array
    total: Array
    votes: Array


@kernel
def counted(
    counts: ReferenceCounts, cell_counts: Array, level: Array, group: Array, weight: Array, n: int, fade: float
) -> ReferenceCounts:
    """Take references and instances of the stream into the books, but for the votes.

    Parameters
    ----------
    counts
        The counts so far; they do not change.
    cell_counts, level
        Responsibilities of the cells and the level of each, shapes (m, C) and (m,): first the references, then n
        instances, and whoever else there is.
    group, weight
        Class of each reference and what it counts, shape (Q,).
    n
        Instances of the stream.
    fade
        What is left of the counts so far.
    """
    (n_classes, count, levels), first = counts.taken.shape, len(group)
    total, taken = np.zeros(n_classes), np.zeros((n_classes, levels, count))
    for i in range(first):
        total[group[i]] += weight[i]
        here = taken[group[i], level[i]]
        for c in range(count):
            here[c] += weight[i] * cell_counts[i, c]
    came = np.zeros((levels, count))
    for i in range(first, first + n):
        for c in range(count):
            came[level[i], c] += cell_counts[i, c]
    all_taken, all_asked = fade * counts.taken, fade * counts.total
    for j in range(n_classes):
        for c in range(count):
            all_asked[j, c] += total[j]
            for at in range(levels):
                all_taken[j, c, at] += taken[j, at, c]
    return ReferenceCounts(
        fade * counts.stream + came.T, fade * counts.seen + n, all_taken, all_asked, fade * counts.votes
    )


SMALL = 8.0
"""Instances of the stream below which a subclass counts with all other small ones."""
T_GRID = 1.0 / (1.0 + np.exp(-np.linspace(-8.0, 8.0, 65)))
LOG_T = np.log(T_GRID)
MIXED = 0.2
"""Prior probability that a cell holds both known and new instances, in whatever proportion; else it holds one
kind."""
SLAB = MIXED * T_GRID * (1.0 - T_GRID) / (T_GRID * (1.0 - T_GRID)).sum()
LOG_SLAB = np.log(SLAB)
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


class KnownShares(NamedTuple):
    """Known shares estimated from the counts.

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

    known: Array
    owner: Array
    classes: Array
    kappa: float


@kernel
def class_shares(votes: Array, confusion: Array, trained: Array) -> Array:
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
    shares, mixed, per_class = trained.copy(), confusion + 1e-9, np.ascontiguousarray(confusion.T) + 1e-9
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
        for j in range(n_classes):
            shares[j] = counts[j] / whole
    return shares


@kernel
def known_share(room: Array, stream: float, taken: float, stands_for: float, before: float) -> tuple[float, float]:
    """Posterior of the share of a cell that is known, on the grid ``T_GRID``.

    Parameters
    ----------
    room
        Room, shape (2, grid).
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
    value, scratch = room[0], room[1]
    rate = 1.0 / stands_for
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
    return mean / total, peak + math.log(total) - taken * math.log(stands_for)


class _CellCounts(NamedTuple):
    """C cells, L levels each: instances of the stream, and what the references in them are worth.

    Attributes
    ----------
    stream, seen
        As in :class:`ReferenceCounts`.
    effective, stands
        Effective references, and what each stands for if all of the stream is known, shape (C, L).
    n_classes
        How many cells are known classes; they come first.
    before
        As :func:`cell_shares` takes it.
    """

    stream: Array
    seen: Array
    effective: Array
    stands: Array
    n_classes: int
    before: Array


@kernel
def _weigh(
    seen: Array, taken: Array, n_references: Array, distinct: Array, spread: Array, classes: Array
) -> tuple[Array, Array]:
    """Effective references in each cell and what each stands for if all of the stream is known, both (C, L)."""
    n_classes, count, levels = taken.shape
    base, total, square = np.zeros((count, levels)), np.zeros((count, levels)), np.zeros((count, levels))
    for j in range(n_classes):
        for c in range(count):
            if n_references[j, c] > 0.0 and distinct[j] > 0.0:
                used = min(n_references[j, c], distinct[j])  # asking the same reference again tells nothing new
                w, share = classes[j] * seen[c] / used, used / n_references[j, c]
                for level in range(levels):
                    each, worth = w * spread[j, level], w * taken[j, c, level] * share
                    base[c, level] += classes[j] * each
                    total[c, level] += worth
                    square[c, level] += each * worth
    for c in range(count):
        for level in range(levels):
            rest = UNSEEN * base[c, level]
            stands = max((square[c, level] + rest * base[c, level]) / max(total[c, level] + rest, 1e-12), 1e-9)
            total[c, level] /= stands
            square[c, level] = stands
    return total, square


@kernel
def _pool(counts: _CellCounts) -> tuple[Array, Array]:
    """Say which cells are small, shape (C,), and sum those up level by level: S, a and v, shape (3, L)."""
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
                pool[2, level] += (stream[c, level] + CRUMB) * stands[c, level]
                weight += stream[c, level] + CRUMB
        pool[2, level] /= weight
    return small, pool


@kernel
def _estimate_kappa(counts: _CellCounts) -> float:
    """Posterior mean of the share of the stream that is known.

    Its evidence is that of all cells, the small ones together; and it must be about what the cells' shares add up to.
    A known class is one cell here: what it takes is frozen, and may well be a little denser than its references.
    """
    stream, seen, effective, stands, n_classes, _ = counts
    small, pool = _pool(counts)
    count, levels = stream.shape
    evidence, room = np.zeros(len(KAPPAS)), np.empty((2, len(T_GRID)))
    for number in range(len(KAPPAS)):
        kappa = KAPPAS[number]
        rate, whole = 0.0, 1e-12
        for level in range(levels):
            prior = EVEN if level > 0 else EXTREME
            of_small, log_evidence = known_share(room, pool[0, level], pool[1, level], pool[2, level] * kappa, prior)
            evidence[number] += log_evidence
            for c in range(n_classes, count):
                s, a = stream[c, level], effective[c, level]
                if s + a < CRUMB:
                    continue
                share = of_small
                if not small[c]:
                    share, log_evidence = known_share(room, s, a, stands[c, level] * kappa, prior)
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
                share, log_evidence = known_share(room, s, a, v * kappa, EVEN)
                evidence[number] += log_evidence
                rate += s / seen[c] * share
                whole += s / seen[c]
        evidence[number] -= 0.5 * ((kappa - rate / whole) / INCOHERENCE) ** 2
    weight = np.exp(evidence - evidence.max())
    return float((weight * KAPPAS).sum() / weight.sum())


@kernel
def _known_shares(counts: _CellCounts, kappa: float) -> Array:
    """Share of each cell that is known, shape (C, L): 1 for the known classes."""
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
                prior = min(max(before[c - n_classes], DOUBT), 1.0 - DOUBT)
            known[c, level] = prior
            if s + a >= CRUMB:
                known[c, level], _ = known_share(room, s, a, stands[c, level] * kappa, prior)
    return known


@kernel
def cell_shares(
    counts: ReferenceCounts, classes: Array, distinct: Array, spread: Array, kappa: float, before: Array
) -> KnownShares:
    """Say what share of each cell is known, and whose.

    Parameters
    ----------
    counts
        The counts.
    classes
        Shares of the classes (:func:`class_shares`), shape (J,).
    distinct
        References that there are of each class, shape (J,).
    spread
        Mean weight of the references of each class on each level, each counted by its weight, shape (J, L).
    kappa
        Share of the stream that is known, if it has been estimated lately, else NaN.
    before
        Share of each emerging subclass that was known when it had support, negative: it had none so far, shape (K,).
    """
    n_classes, count = counts.total.shape
    effective, stands = _weigh(counts.seen, counts.taken, counts.total, distinct, spread, classes)
    cell_counts = _CellCounts(counts.stream, counts.seen, effective, stands, n_classes, before)
    if np.isnan(kappa):
        kappa = _estimate_kappa(cell_counts)
    owner = np.empty((n_classes, count - n_classes))
    for c in range(n_classes, count):
        whole = 0.0
        for j in range(n_classes):
            taken = counts.taken[j, c].sum()
            owner[j, c - n_classes] = classes[j] * np.sqrt(taken / max(counts.total[j, c], 1e-9) + 1e-4)
            whole += owner[j, c - n_classes]
        owner[:, c - n_classes] /= whole
    return KnownShares(_known_shares(cell_counts, kappa), owner, classes, kappa)


@kernel
def votes(log_density: Array) -> Array:
    """Probability of each class by its density alone, shape (n, J)."""
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
    shares: KnownShares, unknown: Array, responsibilities: Array, level: Array, vote: Array, odds: Array | None = None
) -> Array:
    """Divide what the sampler calls unknown, and state the known classes by their shares in the stream.

    Parameters
    ----------
    shares
        What the books say.
    unknown
        How probable each instance is unknown, as the sampler has it, shape (n,); NaN: as the cells have it.
    responsibilities
        Responsibilities of the cells, shape (n, C).
    level
        Level of each instance, shape (n,).
    vote
        How probable each known class is by its density alone (:func:`votes`), shape (n, J).
    odds
        Odds that each instance is new by what the frozen classes say, shape (n,): the shares are those of typicality
        (:mod:`stream_osr.trust.levels`); ``None``: they are those of references in the cells.

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
