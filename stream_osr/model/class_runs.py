"""Known classes that come in runs: a hidden Markov model of the class of each instance.

In a stream with dependent neighbours, an instance often has the class of the one before it. The class stays with
probability s, and is otherwise drawn from the class shares pi:

    p(z_t = k | z_{t-1} = j) = s 1[j = k] + (1 - s) pi_k

Forward filtering and, within a micro-batch, backward smoothing give each instance a prior from its neighbours
(Rabiner 1989). Neighbours are dependent given the class as well: m of them have the information of ``m e``
independent instances, with e from the fitted process (:func:`.dependence.effective_share`). The likelihood of each
neighbour therefore has the power e.

A new class comes in runs, too. The log odds of a new class, by the instance alone, are averaged over the neighbours.
A neighbour at distance m has the weight ``(s r)^m``: the probability of one run times the correlation of instances in
it, ``r = (1 - e) / (1 + e)`` for a process of first order with that e.

The stream shows s by the pairs of neighbours. With probabilities p of the classes alone, a pair is
``R = sum_k p_{t-1,k} p_{t,k} / pi_k`` times as probable with one class as with two independent ones. EM over the
faded pairs estimates s. Neighbours resemble each other where they are classified wrong, too, so that this s is an
upper bound. The order of the training labels gives another one.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np

from stream_osr.model.jit import Array, kernel
from stream_osr.support import rules

HALF_LIFE = 500.0
"""Instances after which a pair of neighbours counts half: a few runs of every class."""
APART = 10.0
"""Pairs of two independent instances that are added to those of the stream: s begins at zero."""
LEAST_PAIRS = 64
"""Least number of adjacent training instances for an estimate of s."""
ROUNDS = 20
"""Rounds of EM for s. It begins at the estimate before, so that a few are enough."""
LEAST_START = 0.05
"""Least s at which EM begins, because zero is a fixed point."""
LARGEST = 500.0
"""Largest log odds, so that the odds are finite."""
LEAST_SHARE = 1e-4
"""Least share of a class, so that a class that has not come for long can come back."""


class Runs(NamedTuple):
    """Runs of J known classes in a stream, after each of the latest h instances.

    Attributes
    ----------
    filtered
        Probabilities of the class of each of these, given all instances up to it, shape (h, J).
    latest
        Probabilities of the class of the latest instance by its densities and the class shares alone, shape (J,).
    same, pairs
        Faded number of pairs of neighbours in one run, and of all pairs.
    score, weight
        Weighted sum of the log odds of the instances up to each, and of their weights (:func:`average_odds`), (h,).
    """

    filtered: Annotated[Array, rules.array("f", "h", "J", low=0.0, high=1.0)]
    latest: Annotated[Array, rules.array("f", "J", low=0.0, high=1.0)]
    same: Annotated[float, rules.number(0.0, 1e12)]
    pairs: Annotated[float, rules.number(0.0, 1e12)]
    score: Annotated[Array, rules.array("f", "h", low=-1e12, high=1e12)]
    weight: Annotated[Array, rules.array("f", "h", low=0.0, high=1e12)]


class Neighbours(NamedTuple):
    """Terms of a batch of a dependent stream.

    Attributes
    ----------
    most
        Persistence of the training labels (:func:`persistence_of`).
    independent
        Number of independent instances with the information of one instance.
    waiting
        Number of the first instances that came with earlier batches.
    kept
        Number of instances h to remember: those that may wait with the next batch, and one.
    empty
        Mask of the instances without information, which were drawn in place of repeated ones, shape (n,). ``None``:
        there are none.
    """

    most: float
    independent: float
    waiting: int = 0
    kept: int = 1
    empty: Array | None = None


def persistence_of(group: Array, order: Array) -> float:
    """Estimate s from the labels of training instances. It is 0 with few adjacent instances.

    Parameters
    ----------
    group, order
        Class of each instance, and its position in the order of arrival, both of shape (n,), by ascending position.

    Examples
    --------
    >>> labels = np.repeat([0, 1, 0, 1], 50)
    >>> persistence_of(labels, np.arange(200)) > 0.9, persistence_of(labels, 2 * np.arange(200))
    (True, 0.0)
    """
    adjacent = np.diff(order) == 1
    if adjacent.sum() < LEAST_PAIRS:
        return 0.0
    by_chance = float(((np.bincount(group) / len(group)) ** 2).sum())
    same = float((group[1:] == group[:-1])[adjacent].mean())
    return max(0.0, (same - by_chance) / (1.0 - by_chance)) if by_chance < 1.0 else 0.0


def follow_runs(runs: Runs | None, vote: Array, shares: Array, among: Neighbours) -> tuple[Runs, Array]:
    """Update the runs with a batch, and compute the prior of each instance from its neighbours.

    Parameters
    ----------
    runs
        The runs before. ``None``: there were none.
    vote
        Probability of each class by the densities alone, in order of arrival, shape (n, J).
    shares
        Shares of the classes in the stream, shape (J,).
    among
        Terms of the batch.

    Returns
    -------
    The runs after the batch, without the odds, and the priors, shape (n, J). They exclude the density of the instance
    itself.
    """
    pi, waiting = np.maximum(shares, LEAST_SHARE), among.waiting
    pi /= pi.sum()
    if among.empty is not None:
        vote = np.where(among.empty[:, None], 1.0 / len(pi), vote)
    own = vote * pi
    own /= own.sum(axis=1, keepdims=True)
    if runs is None or len(runs.latest) != len(pi):  # a label has opened a class, or taken one back
        nothing = np.zeros(0)
        same, pairs = (0.0, 0.0) if runs is None else (runs.same, runs.pairs)
        runs = Runs(np.zeros((0, len(pi))), pi, same, pairs, nothing, nothing)
    before = np.concatenate([runs.latest[None], own[waiting:-1]])
    ratio = (before * own[waiting:] / pi).sum(axis=1)
    same, pairs = _same(ratio, runs.same, runs.pairs)
    begin = runs.filtered[-waiting - 1] if len(runs.filtered) > waiting else pi
    stay = min(among.most, same / (pairs + APART))
    prior, filtered = _forward_backward(vote**among.independent, pi, begin, stay)
    kept = np.concatenate([runs.filtered, filtered[waiting:]])[-among.kept :]
    return Runs(kept, own[-1], same, pairs, runs.score, runs.weight), prior


def average_odds(runs: Runs, odds: Array, bound: float, among: Neighbours) -> tuple[Runs, Array]:
    """Average the odds of a new class over the neighbours of each instance.

    Parameters
    ----------
    runs
        The runs after the batch, with the odds before it.
    odds
        Odds of a new class by each instance alone, in order of arrival, shape (n,).
    bound
        Largest absolute log odds that an instance contributes. Beyond them, an instance keeps its own evidence.
    among
        Terms of the batch.

    Returns
    -------
    The runs with the odds after the batch, and the odds, shape (n,).
    """
    fade = min(among.most, runs.same / (runs.pairs + APART)) * (1.0 - among.independent) / (1.0 + among.independent)
    own, waiting = np.log(odds), among.waiting
    shared = np.clip(own, -bound, bound)
    counts = np.ones(len(own)) if among.empty is None else 1.0 - among.empty
    begin = (runs.score[-waiting - 1], runs.weight[-waiting - 1]) if len(runs.score) > waiting else (0.0, 0.0)
    mean, score, weight = _weighted_means(shared, counts, fade, *begin)
    mean = np.where(counts > 0.0, mean, shared)
    score, weight = (
        np.concatenate([old, new[waiting:]])[-among.kept :]
        for old, new in ((runs.score, score), (runs.weight, weight))
    )
    return runs._replace(score=score, weight=weight), np.exp(np.minimum(own - shared + mean, LARGEST))


@kernel
def _weighted_means(
    values: Array, counts: Array, fade: float, score: float, weight: float
) -> tuple[Array, Array, Array]:
    """Return the means of neighbours with weights ``counts * fade ** distance``, and the sums up to each, (n,)."""
    n = len(values)
    means, sums, weights = np.empty(n), np.empty(n), np.empty(n)
    for i in range(n):
        score, weight = fade * score + counts[i] * values[i], fade * weight + counts[i]
        sums[i], weights[i] = score, weight
    later, of_later = 0.0, 0.0
    for i in range(n - 1, -1, -1):
        means[i] = (sums[i] + fade * later) / max(weights[i] + fade * of_later, 1e-300)
        later, of_later = counts[i] * values[i] + fade * later, counts[i] + fade * of_later
    return means, sums, weights


@kernel
def _same(ratio: Array, same: float, pairs: float) -> tuple[float, float]:
    """Add pairs of neighbours to the faded numbers of those in one run, and of all, by EM."""
    n = len(ratio)
    weight = 0.5 ** (np.arange(n - 1, -1, -1) / HALF_LIFE)
    same, total = 0.5 ** (n / HALF_LIFE) * same, 0.5 ** (n / HALF_LIFE) * pairs + weight.sum()
    now, stay = same, max(same / (total + APART), LEAST_START)
    for _ in range(ROUNDS):
        now = same
        for i in range(n):
            now += weight[i] * stay * ratio[i] / (stay * ratio[i] + 1.0 - stay)
        stay = now / (total + APART)
    return now, total


@kernel
def _forward_backward(evidence: Array, pi: Array, begin: Array, stay: float) -> tuple[Array, Array]:
    """Return the prior of each instance from those before and after it, and the filtered probabilities, both (n, J).

    ``evidence`` has the likelihoods of the classes, up to a factor for each instance, shape (n, J).
    """
    n, n_classes = evidence.shape
    prior, filtered = np.empty((n, n_classes)), np.empty((n, n_classes))
    before, message = begin.copy(), np.ones(n_classes)
    for i in range(n):
        total = 0.0
        for j in range(n_classes):
            prior[i, j] = stay * before[j] + (1.0 - stay) * pi[j]
            before[j] = prior[i, j] * evidence[i, j]
            total += before[j]
        for j in range(n_classes):
            before[j] /= total
            filtered[i, j] = before[j]
    for i in range(n - 1, -1, -1):
        total, mean, largest = 0.0, 0.0, 0.0
        for j in range(n_classes):
            prior[i, j] *= message[j]
            total += prior[i, j]
            message[j] *= evidence[i, j]
            mean += pi[j] * message[j]
        for j in range(n_classes):
            prior[i, j] /= total
            message[j] = stay * message[j] + (1.0 - stay) * mean
            largest = max(largest, message[j])
        for j in range(n_classes):
            message[j] /= largest
    return prior, filtered
