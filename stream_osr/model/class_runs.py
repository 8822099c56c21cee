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

from typing import NamedTuple

import numpy as np

from stream_osr.model.jit import Array, kernel

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
    """Runs of J known classes in a stream.

    Attributes
    ----------
    filtered
        Probabilities of the class of the latest instance, given all instances up to it, shape (J,).
    latest
        Its probabilities by its densities and the class shares alone, shape (J,).
    same, pairs
        Faded number of pairs of neighbours in one run, and of all pairs.
    score, weight
        Weighted sum of the log odds of the latest instances, and of their weights (:func:`average_odds`).
    """

    filtered: Array
    latest: Array
    same: float = 0.0
    pairs: float = 0.0
    score: float = 0.0
    weight: float = 0.0


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


def follow_runs(
    runs: Runs | None, vote: Array, shares: Array, most: float, independent: float, waiting: int = 0
) -> tuple[Runs, Array]:
    """Update the runs with a batch, and compute the prior of each instance from its neighbours.

    Parameters
    ----------
    runs
        The runs before. ``None``: there were none.
    vote
        Probability of each class by the densities alone, in order of arrival, shape (n, J).
    shares
        Shares of the classes in the stream, shape (J,).
    most
        Persistence of the training labels (:func:`persistence_of`).
    independent
        Number of independent instances with the information of one instance.
    waiting
        Number of the first instances that came with earlier batches.

    Returns
    -------
    The runs after the batch, and the priors, shape (n, J). They exclude the density of the instance itself.
    """
    pi = np.maximum(shares, LEAST_SHARE)
    pi /= pi.sum()
    own = vote * pi
    own /= own.sum(axis=1, keepdims=True)
    known = runs is not None and len(runs.latest) == len(pi)
    before, begin = (runs.latest, runs.filtered) if runs is not None and known else (own[waiting], pi)
    came = own[waiting:]
    ratio = (np.concatenate([before[None], came[:-1]]) * came / pi).sum(axis=1)[0 if known else 1 :]
    same, pairs = (0.0, 0.0) if runs is None else (runs.same, runs.pairs)
    fade = 0.5 ** (len(ratio) / HALF_LIFE)
    same, pairs = _same(ratio, fade * same, fade * pairs)
    stay = min(most, same / (pairs + APART))
    prior, filtered = _forward_backward(vote**independent, pi, pi if waiting else begin, stay)
    score, weight = (0.0, 0.0) if runs is None else (runs.score, runs.weight)
    return Runs(filtered, own[-1], same, pairs, score, weight), prior


def average_odds(
    runs: Runs, odds: Array, most: float, independent: float, bound: float, waiting: int = 0
) -> tuple[Runs, Array]:
    """Average the odds of a new class over the neighbours of each instance.

    Parameters
    ----------
    runs
        The runs after the batch, with the sums before it.
    odds
        Odds of a new class by each instance alone, in order of arrival, shape (n,).
    most, independent, waiting
        As for :func:`follow_runs`.
    bound
        Largest absolute log odds that an instance contributes. Beyond them, an instance keeps its own evidence.

    Returns
    -------
    The runs with the sums after the batch, and the odds, shape (n,).
    """
    fade = min(most, runs.same / (runs.pairs + APART)) * (1.0 - independent) / (1.0 + independent)
    own = np.log(odds)
    shared = np.clip(own, -bound, bound)
    begin = (0.0, 0.0) if waiting else (runs.score, runs.weight)
    mean, score, weight = _weighted_means(shared, fade, *begin)
    return runs._replace(score=score, weight=weight), np.exp(np.minimum(own - shared + mean, LARGEST))


@kernel
def _weighted_means(values: Array, fade: float, score: float, weight: float) -> tuple[Array, float, float]:
    """Return the means of neighbours with weights ``fade ** distance``, (n,), and the last sums to continue with."""
    n = len(values)
    sums, weights = np.empty(n), np.empty(n)
    for i in range(n):
        score, weight = fade * score + values[i], fade * weight + 1.0
        sums[i], weights[i] = score, weight
    later, of_later = 0.0, 0.0
    for i in range(n - 1, -1, -1):
        sums[i] = (sums[i] + fade * later) / (weights[i] + fade * of_later)
        later, of_later = values[i] + fade * later, 1.0 + fade * of_later
    return sums, score, weight


@kernel
def _same(ratio: Array, same: float, pairs: float) -> tuple[float, float]:
    """Add pairs of neighbours to the faded numbers of those in one run, and of all, by EM."""
    total, now = pairs + len(ratio), same
    stay = max(same / (pairs + APART), LEAST_START)
    for _ in range(ROUNDS):
        now = same
        for i in range(len(ratio)):
            now += stay * ratio[i] / (stay * ratio[i] + 1.0 - stay)
        stay = now / (total + APART)
    return now, total


@kernel
def _forward_backward(evidence: Array, pi: Array, begin: Array, stay: float) -> tuple[Array, Array]:
    """Return the prior of each instance from those before and after it, (n, J), and the last filtered one, (J,).

    ``evidence`` has the likelihoods of the classes, up to a factor for each instance, shape (n, J).
    """
    n, n_classes = evidence.shape
    prior, filtered, message = np.empty((n, n_classes)), begin.copy(), np.ones(n_classes)
    for i in range(n):
        total = 0.0
        for j in range(n_classes):
            prior[i, j] = stay * filtered[j] + (1.0 - stay) * pi[j]
            filtered[j] = prior[i, j] * evidence[i, j]
            total += filtered[j]
        for j in range(n_classes):
            filtered[j] /= total
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
