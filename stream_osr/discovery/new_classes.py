"""Candidate new classes, and how many classes they are.

From subclasses to classes: which emerging subclasses belong together, by what the known classes teach.

Subclasses are compared as Gaussians, gathered by average linkage, and the tree is cut where the same tree over the
*known* subclasses, whose classes are known, would give those classes back. Several chains, each with subclasses of
its own, then agree on the groups. Nothing here knows of streams or events.

Candidate new classes: emerging subclasses that belong together, told in the caller's terms.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from typing import Any, NamedTuple

import numpy as np
from scipy.special import entr

from stream_osr.discovery.histories import Lifecycle, SubclassHistory, places_of
from stream_osr.discovery.lifecycle import EXEMPLARS, worth_telling
from stream_osr.model.dishes import Dishes
from stream_osr.model.franchise import StreamState
from stream_osr.model.jit import Array
from stream_osr.model.known import Densities, Known
from stream_osr.model.nearest import means_and_scales, nearest_known
from stream_osr.model.prior import Prior
from stream_osr.printable_text import brief, printable

LEAST_SIZE = 5
"""Smaller subclasses join the group of the nearest larger one: in the tree they would be outliers that split off."""
NEARLY_BEST = 0.01
"""Of the heights whose normalised mutual information is within this of the best, the lowest is the threshold."""
COUNTED_SIZE = 10
"""Subclasses with so many instances count in the estimate of the number of classes ..."""
COUNTED_SHARE = 0.25
"""... and groups with this share of the mean size of the three largest."""


class Distances(NamedTuple):
    """Subclasses as Gaussians, and how far they are from each other.

    Attributes
    ----------
    ids
        Identity of each subclass, shape (K,).
    size
        Its instances, shape (K,).
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
    """Measure the distances between subclasses; those between unchanged ones are taken over.

    Parameters
    ----------
    ids
        Identity of each subclass, shape (K,).
    dishes
        Their statistics.
    prior
        Base measure.
    before
        What an earlier call returned for subclasses under the same base measure. It saves time and changes nothing.
    """
    return compare(ids, dishes.size, *means_and_scales(dishes, prior), before)


def compare(ids: Array, size: Array, mean: Array, covariance: Array, before: Distances | None = None) -> Distances:
    """Measure the Bhattacharyya distances between Gaussians.

    ``1/8 (a - b)' S^-1 (a - b) + 1/2 ln(|S| / sqrt(|A| |B|))`` with means a and b, covariances A and B, and S their
    mean. It costs O(changed K d^3) when ``before`` holds the rest. A subclass is unchanged if its mean and covariance
    are the same bits: size alone does not tell, one instance may have gone and another come.

    Parameters
    ----------
    ids, size, mean, covariance
        As in :class:`Distances`; covariances are positive definite.
    before
        What an earlier call returned.

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
    """Find where each subclass stands in ``before``, -1 if it is new or has changed, shape (K,)."""
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
    """Gather K >= 2 subclasses by average linkage, each counting once; scipy's linkage matrix, shape (K - 1, 4)."""
    from scipy.cluster.hierarchy import linkage  # imported by what gathers: a process that does not starts sooner

    return np.asarray(linkage(distances[np.triu_indices(len(distances), 1)], "average"))


def cut(linked: Array, height: float) -> Array:
    """Cut a tree at a height: the number of the group of each subclass, shape (K,)."""
    from scipy.cluster.hierarchy import fcluster

    return np.asarray(fcluster(linked, height, "distance"))


def learn_threshold(known: Distances, owner: Array) -> float:
    """Learn from the known classes up to which distance subclasses belong together.

    At each height of the tree over the known subclasses its groups are compared with the classes, by the normalised
    mutual information over instances; the threshold is the lowest height that is within ``NEARLY_BEST`` of the best.
    0 says not to gather at all.

    Parameters
    ----------
    known
        Known subclasses; those below ``LEAST_SIZE`` are left out.
    owner
        Number of the class of each, shape (K,).

    Examples
    --------
    Two classes, one of them of two subclasses:

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
    """Normalised mutual information (by the arithmetic mean) of two partitions of weighted things, in [0, 1].

    Parameters
    ----------
    first, second
        Group of each thing in either partition, shape (n,).
    weight
        Weight of each, shape (n,), positive.

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
    """Entropy of weights that need not sum to one, in nats.

    >>> round(entropy(np.array([2.0, 2.0])), 4)
    0.6931
    """
    return float(np.sum(entr(weight / np.sum(weight))))


def gather(emerging: Distances, threshold: float) -> Array:
    """Gather subclasses in groups: the tree over the larger ones, cut at a distance; the smaller join the nearest.

    Returns
    -------
    Number of the group of each subclass, 0 to G - 1, shape (K,).

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
    """Gather the first chain's subclasses by what all chains say.

    Two subclasses are as near as the share of chains that put their instances together: the first one by its own
    groups, another one by the chance that an instance of either sit in the same of its groups. Average linkage, cut
    at one half. What one chain gathers wrongly, with a threshold learnt from few known subclasses, others seldom do.

    Parameters
    ----------
    groups
        Group of each subclass, for each of R chains.
    seats
        Position of the subclass that each remembered instance sits in, -1: none, shape (R, n). A pair of subclasses
        without remembered instances is judged by the first chain alone.

    Returns
    -------
    Number of the group of each subclass of the first chain, shape (K,).

    References
    ----------
    .. [1] A. L. N. Fred and A. K. Jain, "Combining multiple clusterings using evidence accumulation", IEEE TPAMI 27,
       2005.

    Examples
    --------
    The first of three chains keeps its subclasses 0 and 1 apart, the others put their instances together:

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
    """Share of the chains that put each pair of the first one's K subclasses together, shape (K, K); see `agree`."""
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


class ClassCounts(NamedTuple):
    """Number of classes among the emerging subclasses of one chain, by two counts that err on opposite sides.

    Attributes
    ----------
    groups
        Groups that are large enough. Where classes overlap pieces of one are groups of their own: often too many.
    ratio
        By the number of subclasses that a known class has. Where subclasses mix classes: too few.
    """

    groups: float
    ratio: float


class Estimate(NamedTuple):
    """The number of new classes, and what it may be.

    Attributes
    ----------
    number
        The estimate.
    low, high
        From the least to the most that is said: by any chain, and by either count over all chains.

    Examples
    --------
    >>> str(Estimate(3, 3, 4)), str(Estimate(3, 3, 3))
    ('3 (3 to 4)', '3')
    """

    number: int = 0
    low: int = 0
    high: int = 0

    def __str__(self) -> str:
        return f"{self.number} ({self.low} to {self.high})" if self.low < self.high else str(self.number)


def count_classes(group: Array, size: Array, known_size: Array, n_classes: int) -> ClassCounts:
    """Judge from one chain how many classes its emerging subclasses are.

    Once by the groups that have ``COUNTED_SHARE`` of the mean size of the three largest, once by ``J E / K``, with J
    known classes, E emerging and K known subclasses of ``COUNTED_SIZE`` instances (equation (14) of the paper). The
    ratio is no more than the effective number of emerging subclasses, the exponential of the entropy of their sizes:
    what has been split off from a large subclass is no class for being counted.

    Parameters
    ----------
    group
        Group of each emerging subclass, shape (K,), K >= 1.
    size, known_size
        Instances in each emerging and in each known subclass.
    n_classes
        Number of known classes.

    Examples
    --------
    Groups of 80, 70 and 10 instances, two of which count, and 2 * 4 / 4 by the subclasses:

    >>> count_classes(np.array([0, 0, 1, 2]), np.array([60, 20, 70, 10]), np.array([80, 90, 40, 30]), 2)
    ClassCounts(groups=2.0, ratio=2.0)

    Subclasses of 400, 300, 15 and 12 instances are hardly more than two:

    >>> found = count_classes(np.arange(4), np.array([400, 300, 15, 12]), np.array([80, 90]), 2)
    >>> round(found.ratio, 1)
    2.3
    """
    sizes = np.sort(np.bincount(group, size))[::-1]
    groups = float((sizes >= COUNTED_SHARE * sizes[:3].mean()).sum())
    emerging, known = int((size >= COUNTED_SIZE).sum()), int((known_size >= COUNTED_SIZE).sum())
    if not (emerging and known):
        return ClassCounts(groups, groups)
    return ClassCounts(groups, float(min(n_classes * emerging / known, np.exp(entropy(size)))))


def estimate_number(counts: Sequence[ClassCounts]) -> Estimate:
    """Estimate the number of classes from what each chain says: the geometric mean of all counts.

    The interval holds what each chain says, and what either count says, each by its geometric mean; all are rounded,
    and at least 1. Without a chain that has found something all are 0.

    Examples
    --------
    >>> estimate_number([ClassCounts(4.0, 3.0), ClassCounts(4.0, 2.5), ClassCounts(3.0, 2.8)])
    Estimate(number=3, low=3, high=4)
    >>> estimate_number([])
    Estimate(number=0, low=0, high=0)
    """
    if not counts:
        return Estimate()
    statistics = np.log(np.array(counts))
    least_and_most = [*statistics.mean(axis=1), *np.sort(statistics, axis=1).mean(axis=0)]
    return Estimate(_rounded(statistics.mean()), _rounded(min(least_and_most)), _rounded(max(least_and_most)))


def _rounded(log_number: float) -> int:
    return max(1, int(np.floor(np.exp(log_number) + 0.5)))


SHOWN = 20
"""Candidates that have a line of their own in the text of :class:`NewClasses`."""


@dataclass(frozen=True, slots=True)
class CandidateClass:
    """Emerging subclasses that seem to be one new class.

    Attributes
    ----------
    subclasses
        Their identities, the largest first; one of them at least has emerged.
    size
        Instances in them now.
    share
        Their share of the stream so far.
    nearest_class
        Known class nearest to the largest of them.
    exemplars
        Keys of some of their latest instances, those of the largest subclasses first.
    """

    subclasses: tuple[int, ...]
    size: int
    share: float
    nearest_class: Any
    exemplars: tuple[Any, ...]

    @property
    def name(self) -> str:
        """Name in reports and pages."""
        return name_of(self.subclasses)

    def __str__(self) -> str:
        keys = [brief(key) for key in self.exemplars if key is not None]
        share, near = f"{100 * self.share:.1f} %", printable(str(self.nearest_class), 60)
        text = f"{self.name}: {self.size} instances, {share} of the stream, nearest known class {near}"
        return text + (f", as in {listed(keys)}" if keys else "")


@dataclass(frozen=True, slots=True, repr=False)
class NewClasses:
    """New classes that the stream may hold; as text a line for each candidate.

    Attributes
    ----------
    candidates
        The candidates, the largest first. Subclasses in groups of which none has emerged are in no candidate.
    number
        Estimated number of new classes. Often less than there are candidates: one class may be several of them.
    delta
        The paper's Delta, equation (14): emerged subclasses by the subclasses that a known class has.
    low, high
        From the least to the most that the number may be, as far as the chains and two ways of counting disagree.

    Examples
    --------
    >>> NewClasses((CandidateClass((11, 14), 30, 0.25, "cement", (7, 9)),), number=1, delta=2, low=1, high=2)
    estimated number of new classes: 1 (1 to 2); candidates: 1
    candidates[0]: S11 and S14: 30 instances, 25.0 % of the stream, nearest known class cement, as in 7, 9
    """

    candidates: tuple[CandidateClass, ...]
    number: int
    delta: int
    low: int = 0
    high: int = 0

    @property
    def estimate(self) -> Estimate:
        """The number and its interval; as text ``3 (3 to 4)``, or ``3`` where there is but one answer."""
        return Estimate(self.number, self.low, self.high)

    def __repr__(self) -> str:
        lines = [f"candidates[{number}]: {candidate}" for number, candidate in enumerate(self.candidates[:SHOWN])]
        if len(self.candidates) > SHOWN:
            lines.append(f"and {len(self.candidates) - SHOWN} smaller ones")
        head = f"estimated number of new classes: {self.estimate}; candidates: {len(self.candidates)}"
        return "\n".join([head, *lines])


def name_of(ids: Sequence[int]) -> str:
    """Name a candidate by its subclasses, the largest first.

    >>> name_of([11]), name_of([11, 14]), name_of([11, 14, 15, 20, 21])
    ('S11', 'S11 and S14', 'S11, S14 and 3 more')
    """
    first = [f"S{key}" for key in ids[:2]]
    return " and ".join(first) if len(ids) < 3 else f"{', '.join(first)} and {len(ids) - 2} more"


def listed(names: Sequence[str], most: int = 6) -> str:
    """List the first of some names, and say how many more there are."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


class SubclassDistances(NamedTuple):
    """Distances between the subclasses of one chain; kept, they save time in the next call.

    Attributes
    ----------
    known, emerging
        Distances between the known and between the emerging subclasses.
    threshold
        Up to which distance subclasses belong together.
    """

    known: Distances
    emerging: Distances
    threshold: float


class EmergingSubclasses(NamedTuple):
    """Emerging subclasses of one chain.

    Attributes
    ----------
    known, frozen
        Known classes.
    state
        The sampler's state, with the emerging subclasses.
    life
        Their lives.
    """

    known: Known
    frozen: Densities
    state: StreamState
    life: Lifecycle


def measure_subclasses(
    known: Known, state: StreamState, before: SubclassDistances | None = None
) -> SubclassDistances:
    """Measure how far subclasses are from each other; what has not changed since ``before`` is taken over."""
    old = (None, None) if before is None else before[:2]
    trained = measure(known.ids, known.dishes, known.prior, old[0])
    emerging = measure(state.ids, state.dishes, known.prior, old[1])
    if before is not None and all(np.array_equal(a, b) for a, b in zip(trained, before.known, strict=True)):
        return SubclassDistances(trained, emerging, before.threshold)
    return SubclassDistances(trained, emerging, learn_threshold(trained, known.seated.argmax(axis=0)))


def find_new_classes(
    chains: Sequence[EmergingSubclasses], measured: Sequence[SubclassDistances], seats: Array, labels: Sequence[Any]
) -> NewClasses:
    """Gather the first chain's emerging subclasses in candidate classes and estimate how many classes they are.

    All subclasses in the model take part in the gathering, those that have not emerged too: they are bridges between
    others, and instances in them belong somewhere. A group is told of if one of its subclasses has emerged, and
    only such groups count in the number. Muted subclasses are bridges and no more.

    Parameters
    ----------
    chains
        The chains; identities are the first one's.
    measured
        Distances in each.
    seats
        Identity of the emerging subclass that each remembered instance sits in, -1: none, in each of R chains,
        shape (R, n).
    labels
        Labels of the known classes.
    """
    groups = [gather(one.emerging, one.threshold) for one in measured]
    at = np.array([places_of(chain.state.ids, seat) for chain, seat in zip(chains, seats, strict=True)])
    first = chains[0]
    group = agree(groups, at)
    announced = _announced(group, first)
    ids, size = first.state.ids.tolist(), first.state.dishes.size
    candidates = []
    for number in np.unique(group[announced]):
        slots = np.flatnonzero((group == number) & announced)
        slots = slots[np.argsort(-size[slots], kind="stable")]
        keys = tuple(ids[slot] for slot in slots)
        near = nearest_known(first.state.dishes, int(slots[0]), first.known, first.frozen)
        candidates.append(
            CandidateClass(
                subclasses=keys,
                size=int(size[slots].sum()),
                share=float(size[slots].sum() / max(first.state.seen, 1)),
                nearest_class=labels[near.owner],
                exemplars=_exemplars(keys, first.life.subclasses),
            )
        )
    candidates.sort(key=lambda candidate: (-candidate.size, candidate.subclasses))
    counts = []
    for own, one in zip(groups, chains, strict=True):
        there, size = _announced(own, one), one.state.dishes.size
        if candidates and there.any():
            counts.append(count_classes(own[there], size[there], one.known.dishes.size, len(labels)))
    found = estimate_number(counts)
    return NewClasses(tuple(candidates), found.number, first.life.delta, found.low, found.high)


def _announced(group: Array, chain: EmergingSubclasses) -> Array:
    """Say which subclasses are in a group of which one has emerged, but for settled ones, shape (K,)."""
    life, ids = chain.life, chain.state.ids
    emerged = np.isin(ids, worth_telling(life))
    return np.asarray(np.isin(group, group[emerged]) & ~np.isin(ids, life.ids[life.muted | life.owned]))


def _exemplars(keys: Sequence[int], lives: Mapping[int, SubclassHistory]) -> tuple[Any, ...]:
    """Take the latest key of each subclass in turn, then the ones before, until there are enough."""
    nothing = object()
    latest = [_latest(lives[key]) for key in keys if key in lives]
    turns = chain.from_iterable(zip_longest(*latest, fillvalue=nothing))
    return tuple(key for key in turns if key is not nothing)[:EXEMPLARS]


def _latest(subclass: SubclassHistory) -> Iterable[Any]:
    if not subclass.recent and subclass.kept is not None:
        return subclass.kept.keys
    return [member.moment.key for member in reversed(subclass.recent)]
