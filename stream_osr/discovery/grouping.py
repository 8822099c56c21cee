"""Groups of subclasses: distances between Gaussians, their tree by average linkage, and votes of the chains.

The tree is cut at the height at which the same tree over the *known* subclasses reproduces the known classes. Each
chain groups its own subclasses, and the chains are then combined. This part does not depend on streams or events.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import entr

from stream_osr.model.dish_statistics import Dishes
from stream_osr.model.jit import Array
from stream_osr.model.known import Known
from stream_osr.model.nearest import means_and_scales
from stream_osr.model.prior import Prior
from stream_osr.model.restaurants import StreamState

LEAST_SIZE = 5
"""Smaller subclasses join the nearest larger one. In the tree they would be outliers that split off."""
NEARLY_BEST = 0.01
"""Tolerance of the normalised mutual information: the threshold is the lowest height this close to the best."""


class Distances(NamedTuple):
    """Subclasses as Gaussians, and the distances between them.

    Attributes
    ----------
    ids
        Id of each subclass, shape (K,).
    size
        Number of instances, shape (K,).
    mean, covariance
        Posterior mean and posterior mean covariance, shapes (K, d) and (K, d, d).
    log_det
        Log-determinant of the covariance, shape (K,).
    pairwise
        Bhattacharyya distances, shape (K, K).
    """

    ids: Array
    size: Array
    mean: Array
    covariance: Array
    log_det: Array
    pairwise: Array


def measure(ids: Array, dishes: Dishes, prior: Prior, before: Distances | None = None) -> Distances:
    """Measure the distances between subclasses, and reuse those between unchanged ones.

    Parameters
    ----------
    ids
        Id of each subclass, shape (K,).
    dishes
        Statistics of the subclasses.
    prior
        Base measure.
    before
        Result of an earlier call under the same base measure. It saves time and does not change the result.
    """
    return compare(ids, dishes.size, *means_and_scales(dishes, prior), before)


def compare(ids: Array, size: Array, mean: Array, covariance: Array, before: Distances | None = None) -> Distances:
    """Measure the Bhattacharyya distances between Gaussians.

    The distance is ``1/8 (a - b)' S^-1 (a - b) + 1/2 ln(|S| / sqrt(|A| |B|))`` with means a and b, covariances A and
    B, and S their mean. The cost is O(changed K d^3) if ``before`` has the rest. A subclass is unchanged if its mean
    and covariance have the same bits. Size alone is not enough, since one instance may have left and another arrived.

    Parameters
    ----------
    ids, size, mean, covariance
        As in :class:`Distances`. Covariances are positive definite.
    before
        Result of an earlier call.

    References
    ----------
    .. [1] K. Fukunaga, "Introduction to Statistical Pattern Recognition", 2nd ed., 1990, section 3.4.

    Examples
    --------
    >>> mean = np.array([[0.0], [4.0], [4.0]])
    >>> compare(np.arange(3), np.full(3, 9), mean, np.array([[[1.0]], [[1.0]], [[4.0]]])).pairwise.round(2)
    array([[0.  , 2.  , 0.91],
           [2.  , 0.  , 0.11],
           [0.91, 0.11, 0.  ]])
    """
    count = len(ids)
    between, log_det = np.zeros((count, count)), np.zeros(count)
    old = np.full(count, -1) if before is None else _unchanged(ids, mean, covariance, before)
    stays = np.flatnonzero(old >= 0)
    if before is not None and len(stays):
        between[np.ix_(stays, stays)] = before.pairwise[np.ix_(old[stays], old[stays])]
        log_det[stays] = before.log_det[old[stays]]
    changed = np.flatnonzero(old < 0)
    log_det[changed] = _log_det(covariance[changed])
    for number, k in enumerate(changed):
        others = np.concatenate([stays, changed[:number]])
        middle = 0.5 * (covariance[k] + covariance[others])
        step = mean[k] - mean[others]
        square = np.einsum("na,na->n", step, np.linalg.solve(middle, step[:, :, None])[:, :, 0])
        volume = _log_det(middle) - 0.5 * (log_det[k] + log_det[others])
        between[k, others] = between[others, k] = np.maximum(0.125 * square + 0.5 * volume, 0.0)
    return Distances(ids.copy(), size.copy(), mean, covariance, log_det, between)


def _unchanged(ids: Array, mean: Array, covariance: Array, before: Distances) -> Array:
    """Return the place of each subclass in ``before``, -1 if it is new or has changed, shape (K,)."""
    place = {int(key): at for at, key in enumerate(before.ids)}
    old = np.array([place.get(int(key), -1) for key in ids], np.int64)
    for k in np.flatnonzero(old >= 0):
        at = old[k]
        if not (np.array_equal(mean[k], before.mean[at]) and np.array_equal(covariance[k], before.covariance[at])):
            old[k] = -1
    return old


def _log_det(covariance: Array) -> Array:
    return np.asarray(np.linalg.slogdet(covariance)[1])


def tree(distances: Array) -> Array:
    """Group K >= 2 subclasses by average linkage, each with weight 1, as scipy's linkage matrix, shape (K - 1, 4)."""
    from scipy.cluster.hierarchy import linkage  # slow to import

    return np.asarray(linkage(distances[np.triu_indices(len(distances), 1)], "average"))


def cut(linked: Array, height: float) -> Array:
    """Cut a tree at a height, and return the group number of each subclass, shape (K,)."""
    from scipy.cluster.hierarchy import fcluster

    return np.asarray(fcluster(linked, height, "distance"))


def learn_threshold(known: Distances, owner: Array) -> float:
    """Learn from the known classes up to which distance subclasses belong together.

    At each height of the tree over the known subclasses, the groups are compared with the classes by normalised
    mutual information over instances. The threshold is the lowest height within ``NEARLY_BEST`` of the best. 0 means
    no grouping.

    Parameters
    ----------
    known
        Known subclasses. Those below ``LEAST_SIZE`` are ignored.
    owner
        Class number of each subclass, shape (K,).

    Examples
    --------
    Two classes, one of which has two subclasses:

    >>> mean = np.array([[0.0], [2.0], [12.0]])
    >>> known = compare(np.arange(3), np.full(3, 50), mean, np.ones((3, 1, 1)))
    >>> learn_threshold(known, np.array([0, 0, 1]))
    0.5
    """
    large = np.flatnonzero(known.size >= LEAST_SIZE)
    if len(large) < 2:
        return 0.0
    linked = tree(known.pairwise[np.ix_(large, large)])
    heights = np.unique(np.append(linked[:, 2], 0.0))
    weight, truth = known.size[large].astype(float), owner[large]
    found = [mutual_information(cut(linked, h), truth, weight) for h in heights]
    return float(heights[np.flatnonzero(np.array(found) >= max(found) - NEARLY_BEST)[0]])


def mutual_information(first: Array, second: Array, weight: Array) -> float:
    """Return the normalised mutual information of two weighted partitions, in [0, 1].

    The arithmetic mean of the entropies normalises it.

    Parameters
    ----------
    first, second
        Group of each item in either partition, shape (n,).
    weight
        Weight of each item, shape (n,), positive.

    Examples
    --------
    >>> mutual_information(np.array([1, 1, 2]), np.array([0, 0, 5]), np.ones(3))
    1.0
    >>> mutual_information(np.array([1, 1]), np.array([0, 1]), np.ones(2))
    0.0
    """
    _, a = np.unique(first, return_inverse=True)
    _, b = np.unique(second, return_inverse=True)
    table = np.zeros((a.max() + 1, b.max() + 1))
    np.add.at(table, (a, b), weight)
    both = entropy(table.sum(axis=1)) + entropy(table.sum(axis=0))
    if both <= 0.0:
        return 1.0
    return float(np.clip(2.0 * (both - entropy(table)) / both, 0.0, 1.0))


def entropy(weight: Array) -> float:
    """Return the entropy in nats of weights that need not sum to one.

    >>> round(entropy(np.array([2.0, 2.0])), 4)
    0.6931
    """
    return float(np.sum(entr(weight / np.sum(weight))))


def gather(emerging: Distances, threshold: float) -> Array:
    """Group subclasses: cut the tree over the larger ones at a distance, and add the smaller to the nearest.

    Returns
    -------
    Group number of each subclass, 0 to G - 1, shape (K,).

    Examples
    --------
    >>> mean = np.array([[0.0], [2.0], [12.0], [9.0]])
    >>> emerging = compare(np.arange(4), np.array([50, 50, 50, 2]), mean, np.ones((4, 1, 1)))
    >>> gather(emerging, 0.6)
    array([0, 0, 1, 1])
    """
    large, small = np.flatnonzero(emerging.size >= LEAST_SIZE), np.flatnonzero(emerging.size < LEAST_SIZE)
    if not len(large):
        return np.arange(len(small))
    group = np.zeros(len(emerging.ids), np.int64)
    if len(large) > 1:
        group[large] = cut(tree(emerging.pairwise[np.ix_(large, large)]), threshold)
    group[small] = group[large[emerging.pairwise[np.ix_(small, large)].argmin(axis=1)]]
    return np.asarray(np.unique(group, return_inverse=True)[1])


def agree(groups: Sequence[Array], seats: Array) -> Array:
    """Group the first chain's subclasses by the votes of all chains.

    The similarity of two subclasses is the share of chains that put their instances together. The first chain votes
    by its own groups. Another one votes by the probability that an instance of each is in the same group. The tree by
    average linkage is cut at one half. The vote corrects errors of single chains, whose thresholds come from few
    known subclasses.

    Parameters
    ----------
    groups
        Group of each subclass, for each of R chains.
    seats
        Place of the subclass of each remembered instance, shape (R, n). -1: none. Only the first chain votes on pairs
        without remembered instances.

    Returns
    -------
    Group number of each subclass of the first chain, shape (K,).

    References
    ----------
    .. [1] A. L. N. Fred and A. K. Jain, "Combining multiple clusterings using evidence accumulation", IEEE TPAMI 27,
       2005.

    Examples
    --------
    The first of three chains separates its subclasses 0 and 1. The others put their instances together:

    >>> groups = [np.array([0, 1, 2]), np.array([0, 1]), np.array([0, 1])]
    >>> seats = np.array([[0, 0, 1, 1, 2], [0, 0, 0, 0, 1], [0, 0, 0, 0, 1]])
    >>> agree(groups, seats)
    array([0, 0, 1])
    """
    if len(groups[0]) < 2:
        return groups[0]
    apart = np.maximum(1.0 - agreement(groups, seats), 0.0)
    np.fill_diagonal(apart, 0.0)
    return np.asarray(np.unique(cut(tree(apart), 0.5), return_inverse=True)[1])


def agreement(groups: Sequence[Array], seats: Array) -> Array:
    """Return the share of chains that put each pair of the first one's K subclasses together, shape (K, K).

    See `agree`.
    """
    own = groups[0]
    together = (own[:, None] == own).astype(float)
    voters = np.ones_like(together)
    for group, seat in zip(groups[1:], seats[1:], strict=True):
        here = seats[0] >= 0
        table = np.zeros((len(own), group.max(initial=0) + 2))  # the last column: in no group
        np.add.at(table, (seats[0][here], np.append(group, -1)[seat[here]]), 1.0)
        remembered = table.sum(axis=1)
        share = table[:, :-1] / np.maximum(remembered, 1.0)[:, None]
        votes = np.outer(remembered > 0, remembered > 0)
        together += votes * (share @ share.T)
        voters += votes
    return np.asarray(together / voters)


class SubclassDistances(NamedTuple):
    """Distances between the subclasses of one chain. Keeping them saves time in the next call.

    Attributes
    ----------
    known, emerging
        Distances between known subclasses, and between emerging ones.
    threshold
        Distance up to which subclasses belong together.
    """

    known: Distances
    emerging: Distances
    threshold: float


def measure_subclasses(
    known: Known, state: StreamState, before: SubclassDistances | None = None
) -> SubclassDistances:
    """Measure the distances between subclasses. Values that have not changed since ``before`` are reused."""
    old = (None, None) if before is None else before[:2]
    trained = measure(known.ids, known.dishes, known.prior, old[0])
    emerging = measure(state.ids, state.dishes, known.prior, old[1])
    if before is not None and all(np.array_equal(a, b) for a, b in zip(trained, before.known, strict=True)):
        return SubclassDistances(trained, emerging, before.threshold)
    return SubclassDistances(trained, emerging, learn_threshold(trained, known.seated.argmax(axis=0)))
