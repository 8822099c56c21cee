"""Candidate new classes, and the estimated number of classes.

**Grouping.** The known classes define which emerging subclasses belong together.

Subclasses are compared as Gaussians and grouped by average linkage. The tree is cut at the height at which the same
tree over *known* subclasses reproduces the known classes. Each chain groups its own subclasses, and the chains are
then combined. This part does not depend on streams or events.

**Candidates.** Emerging subclasses that belong together, in the caller's units.
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
from stream_osr.printable_text import brief, html_table, listed, printable

LEAST_SIZE = 5
"""Smaller subclasses join the nearest larger one. In the tree they would be outliers that split off."""
NEARLY_BEST = 0.01
"""Tolerance of the normalised mutual information: the threshold is the lowest height this close to the best."""
COUNTED_SIZE = 10
"""Least number of instances of a subclass in the estimated number of classes."""
COUNTED_SHARE = 0.25
"""Least size of a group in that estimate, as a share of the mean size of the three largest."""

MOST_NAMES = 6
"""Number of names that a line of text lists."""


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
    from scipy.cluster.hierarchy import linkage  # imported by what gathers: a process that does not starts sooner

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


class ClassCounts(NamedTuple):
    """Number of classes among the emerging subclasses of one chain, from two counts that err on opposite sides.

    Attributes
    ----------
    groups
        Number of groups that are large enough. If classes overlap, parts of one form separate groups: often too many.
    ratio
        Number from the subclasses for each known class. If subclasses mix classes, it is too low.
    """

    groups: float
    ratio: float


class Estimate(NamedTuple):
    """Estimated number of new classes, with an interval.

    Attributes
    ----------
    number
        Estimated number.
    low, high
        Smallest and largest estimate: of any chain, and of either count over all chains.

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
    """Count the classes among the emerging subclasses of one chain, in two ways.

    The first count is the number of groups with ``COUNTED_SHARE`` of the mean size of the three largest. The second
    is ``J E / K``, with J known classes, E emerging and K known subclasses of at least ``COUNTED_SIZE`` instances
    (equation (14) of the paper). The ratio is limited by the exponential of the entropy of the emerging sizes, the
    effective number of subclasses. A small part that split off a large subclass thus does not count as a class.

    Parameters
    ----------
    group
        Group of each emerging subclass, shape (K,), K >= 1.
    size, known_size
        Number of instances in each emerging and in each known subclass.
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
    """Estimate the number of classes as the geometric mean of all counts of all chains.

    The interval covers the geometric means of each chain and of each count, rounded. Without counts all are 0.

    Examples
    --------
    >>> estimate_number([ClassCounts(4.0, 3.0), ClassCounts(4.0, 2.5), ClassCounts(3.0, 2.8)])
    Estimate(number=3, low=3, high=4)
    """
    if not counts:
        return Estimate()
    statistics = np.log(np.array(counts))
    least_and_most = [*statistics.mean(axis=1), *np.sort(statistics, axis=1).mean(axis=0)]
    return Estimate(_rounded(statistics.mean()), _rounded(min(least_and_most)), _rounded(max(least_and_most)))


def _rounded(log_number: float) -> int:
    return max(1, int(np.floor(np.exp(log_number) + 0.5)))


SHOWN = 20
"""Number of candidates with a line in the text of :class:`NewClasses`."""


@dataclass(frozen=True, slots=True)
class CandidateClass:
    """Candidate for one new class: emerging subclasses that belong together.

    Attributes
    ----------
    subclasses
        Ids of the subclasses, the largest first. At least one of them has emerged.
    size
        Present number of instances in them.
    share
        Share of the stream so far.
    nearest_class
        Known class nearest to the largest subclass.
    exemplars
        Keys of some of the latest instances, those of the largest subclasses first.
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
        name, size, share, near, keys = _texts(self)
        text = f"{name}: {size} instances, {share} of the stream, nearest known class {near}"
        return text + (f", as in {keys}" if keys else "")


def _texts(its: CandidateClass) -> tuple[str, str, str, str, str]:
    """Return name, size, share, nearest known class and keys as text."""
    keys = listed([brief(key) for key in its.exemplars if key is not None], MOST_NAMES)
    return its.name, str(its.size), f"{100 * its.share:.1f} %", printable(str(its.nearest_class), 60), keys


@dataclass(frozen=True, slots=True, repr=False)
class NewClasses:
    """Candidate new classes and their estimated number. The text has a line for each candidate.

    Attributes
    ----------
    candidates
        Candidates, the largest first. Groups without an emerged subclass are no candidates.
    number
        Estimated number of new classes, often smaller than that of the candidates: one class may be several.
    delta
        The paper's Delta, equation (14): emerged subclasses divided by the subclasses for each known class.
    low, high
        Smallest and largest plausible number, from the disagreement of chains and counts.
    ungrouped
        Number of recent unknown instances in no emerged subclass, 0 if they are few.

    Examples
    --------
    >>> NewClasses((CandidateClass((11, 14), 30, 0.25, "cement", (7, 9)),), number=1, delta=2, low=1, high=2)
    estimated number of new classes: 1 (1 to 2), candidates: 1
    candidates[0]: S11 and S14: 30 instances, 25.0 % of the stream, nearest known class cement, as in 7, 9
    """

    candidates: tuple[CandidateClass, ...]
    number: int
    delta: int
    low: int = 0
    high: int = 0
    ungrouped: int = 0

    @property
    def estimate(self) -> Estimate:
        """Estimated number with its interval. As text it is ``3 (3 to 4)``, or ``3`` if both limits agree."""
        return Estimate(self.number, self.low, self.high)

    def __repr__(self) -> str:
        lines = [f"candidates[{number}]: {candidate}" for number, candidate in enumerate(self.candidates[:SHOWN])]
        return "\n".join([self._head(), *lines, *self._rest()])

    def _repr_html_(self) -> str:
        head = ("candidate", "instances", "share of the stream", "nearest known class", "keys")
        rows = [_texts(each) for each in self.candidates[:SHOWN]]
        return html_table(head, rows, self._head(), self._rest())

    def _head(self) -> str:
        return f"estimated number of new classes: {self.estimate}, candidates: {len(self.candidates)}"

    def _rest(self) -> list[str]:
        more, n = len(self.candidates) - SHOWN, self.ungrouped
        texts = {f"and {more} smaller ones": more, f"{n} recent instances are unknown, in no group yet": n}
        return [text for text, count in texts.items() if count > 0]


def name_of(ids: Sequence[int]) -> str:
    """Return the name of a candidate from its subclasses, the largest first.

    >>> name_of([11]), name_of([11, 14]), name_of([11, 14, 15, 20, 21])
    ('S11', 'S11 and S14', 'S11, S14 and 3 more')
    """
    first = [f"S{key}" for key in ids[:2]]
    return " and ".join(first) if len(ids) < 3 else f"{', '.join(first)} and {len(ids) - 2} more"


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


class EmergingSubclasses(NamedTuple):
    """Emerging subclasses of one chain.

    Attributes
    ----------
    known, frozen
        Known classes, and their densities.
    state
        State of the sampler, with the emerging subclasses.
    life
        Histories of the emerging subclasses.
    """

    known: Known
    frozen: Densities
    state: StreamState
    life: Lifecycle


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


def find_new_classes(
    chains: Sequence[EmergingSubclasses], measured: Sequence[SubclassDistances], seats: Array, labels: Sequence[Any]
) -> NewClasses:
    """Group the first chain's emerging subclasses into candidates, and estimate the number of classes.

    All subclasses of the model take part in the grouping, even those that have not emerged. They connect others, and
    their instances belong to a group. A group is a candidate if at least one subclass has emerged. Only candidates
    count in the number. Muted subclasses only connect others.

    Parameters
    ----------
    chains
        The chains. Ids are those of the first one.
    measured
        Distances in each chain.
    seats
        Id of the emerging subclass of each remembered instance, in each of R chains, shape (R, n). -1: none.
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
    """Return the mask of subclasses in groups with an emerged one, without settled ones, shape (K,)."""
    life, ids = chain.life, chain.state.ids
    emerged = np.isin(ids, worth_telling(life))
    return np.asarray(np.isin(group, group[emerged]) & ~np.isin(ids, life.ids[life.muted | life.owned]))


def _exemplars(keys: Sequence[int], lives: Mapping[int, SubclassHistory]) -> tuple[Any, ...]:
    """Return the latest key of each subclass in turn, then the ones before, until there are enough."""
    nothing = object()
    latest = [_latest(lives[key]) for key in keys if key in lives]
    turns = chain.from_iterable(zip_longest(*latest, fillvalue=nothing))
    return tuple(key for key in turns if key is not nothing)[:EXEMPLARS]


def _latest(subclass: SubclassHistory) -> Iterable[Any]:
    if not subclass.recent and subclass.kept is not None:
        return subclass.kept.keys
    return [member.moment.key for member in reversed(subclass.recent)]
