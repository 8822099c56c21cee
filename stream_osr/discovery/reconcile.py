"""Global identities for emerged subclasses of several recognizers.

Recognizers with one trained model, such as one for each partition, find the same new class under different ids. Each
subclass is summarized by additive statistics. Two subclasses can therefore be compared without any instance. The
functions have no side effects: the same summaries in the same order give the same ids. A global id is unique and
never changes its meaning. The id of a subclass changes only if two global subclasses turn out to be one. Then the
older id continues.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from stream_osr.model.marginal import Statistics, log_ratios_together, of_nobody
from stream_osr.model.prior import Prior
from stream_osr.model.student_t import CONJUGATE, Location


class Local(NamedTuple):
    """Emerged subclass with its local id.

    Attributes
    ----------
    place
        Name of the recognizer.
    run
        Name of the recognizer's run. A new run uses the same ids again.
    id
        Local id of the subclass.
    """

    place: str
    run: str
    id: int


class LocalSummary(NamedTuple):
    """Summary of an emerged subclass from one recognizer. It replaces the earlier summary.

    Attributes
    ----------
    local
        The subclass.
    statistics
        Statistics over all instances of a single subclass. None: the subclass is no longer emerging (forgotten,
        promoted, or merged into another).
    absorbed
        Local ids of the recognizer that have merged into this one since the summary before.
    """

    local: Local
    statistics: Statistics | None
    absorbed: tuple[int, ...] = ()


class ReconciledSubclasses(NamedTuple):
    """Latest summaries, and the global ids so far.

    Attributes
    ----------
    statistics
        Latest statistics of each living subclass.
    links
        Global id of each subclass, including ended ones.
    sums
        Sum of the latest statistics, for each global subclass with a living one.
    merged
        Continuing id for each global id that has ended.
    next_id
        Id of the next global subclass.
    """

    statistics: Mapping[Local, Statistics] = {}
    links: Mapping[Local, int] = {}
    sums: Mapping[int, Statistics] = {}
    merged: Mapping[int, int] = {}
    next_id: int = 0


class LinkChanges(NamedTuple):
    """Changes caused by a summary.

    Attributes
    ----------
    linked
        Subclasses with a new global id, or with another one after a merge.
    emerged
        New global ids.
    merged
        Continuing id for each global id that has ended.
    """

    linked: dict[Local, int]
    emerged: tuple[int, ...]
    merged: dict[int, int]


def restore(
    summaries: Iterable[LocalSummary],
    links: Mapping[Local, int],
    merged: Mapping[int, int],
    next_id: int,
    prior: Prior,
) -> ReconciledSubclasses:
    """Restore a state from stored values.

    Parameters
    ----------
    summaries
        Summaries in order. Those that were replaced later may be missing.
    links, merged, next_id
        Stored values, which are not checked. A subclass without a link counts nowhere until its next summary.
    prior
        Base measure.
    """
    state = ReconciledSubclasses(links=dict(links), merged=dict(merged), next_id=next_id)
    for summary in summaries:
        state = state._replace(statistics=_with_summary(state, summary))
    return _add_up(state, set(links.values()), prior)


def reconcile(
    state: ReconciledSubclasses, summary: LocalSummary, prior: Prior, location: Location = CONJUGATE
) -> tuple[ReconciledSubclasses, LinkChanges]:
    """Update the state with one summary.

    A new subclass gets the id of the global one that it most probably equals, or else a new id. The criterion is the
    ratio of the marginal likelihoods of both as one and as two. A changed global subclass is compared with the others
    in the same way, and merged with the best one, repeatedly.

    Parameters
    ----------
    state
        Previous state, which does not change.
    summary
        Summary from a recognizer.
    prior, location
        Base measure of the shared trained model, and its location for new subclasses.

    Returns
    -------
    Next state, and the changes.

    Examples
    --------
    Two recognizers find the same class, a third one finds another:

    >>> from stream_osr.model.dish_statistics import empty_dishes, refill
    >>> from stream_osr.model.marginal import statistics_of
    >>> from stream_osr.model.prior import homogeneous, make_prior
    >>> prior = make_prior(2, nu=4, scale=1, beta=1)
    >>> centres = np.repeat([[0.0], [10.0]], [40, 20], axis=0)
    >>> rows = homogeneous(np.random.default_rng(1).normal(centres, size=(60, 2)))
    >>> dishes = empty_dishes(3, prior)
    >>> refill(dishes, np.repeat([0, 1, 2], 20), rows, prior)
    >>> state = ReconciledSubclasses()
    >>> for number in range(3):
    ...     local = Local(f"sensors/{number}", "", 7)
    ...     summary = LocalSummary(local, statistics_of(dishes, np.array([number])))
    ...     state, changes = reconcile(state, summary, prior)
    ...     print(list(changes.linked.values()), changes.emerged)
    [0] (0,)
    [0] ()
    [1] (1,)
    >>> int(state.sums[0].size[0])
    40
    """
    local = summary.local
    before, statistics = state, _with_summary(state, summary)
    gone = {state.links[one] for one in state.statistics.keys() - statistics.keys() if one in state.links}
    state = _add_up(state._replace(statistics=statistics), gone, prior)
    emerged: tuple[int, ...] = ()
    if local in state.statistics:
        if local not in state.links:
            key = _same(state, state.statistics[local], {}, prior, location)
            if key is None:
                key = state.next_id
                emerged = (key,)
                state = state._replace(next_id=key + 1)
            state = state._replace(links={**state.links, local: key})
        state = _add_up(state, {state.links[local]}, prior)
        state = _follow_absorbed(state, summary, prior)
        key = state.links[local]
        while (other := _same(state, state.sums[key], {key}, prior, location)) is not None:
            state, key = _merge(state, key, other, prior), min(key, other)
    linked = {one: key for one, key in state.links.items() if before.links.get(one) != key}
    merged = {one: key for one, key in state.merged.items() if before.merged.get(one) != key}
    return state, LinkChanges(linked, emerged, merged)


def _with_summary(state: ReconciledSubclasses, summary: LocalSummary) -> dict[Local, Statistics]:
    """Replace the previous statistics by those of the summary. It also ends an earlier run of the recognizer."""
    local, statistics, absorbed = summary
    ended = {local.id, *absorbed}

    def stays(one: Local) -> bool:
        return one.place != local.place or (one.id not in ended and (statistics is None or one.run == local.run))

    texts = {one: its for one, its in state.statistics.items() if stays(one)}
    if statistics is not None:
        texts[local] = statistics
    return texts


def _add_up(state: ReconciledSubclasses, keys: Iterable[int], prior: Prior) -> ReconciledSubclasses:
    """Sum up some global subclasses in a fixed order, so that sums do not depend on the history."""
    sums = dict(state.sums)
    nobody = of_nobody(prior)
    for key in keys:
        own = [state.statistics[one] for one in sorted(state.statistics) if state.links.get(one) == key]
        sums.pop(key, None)
        if own:
            size = sum((one.size for one in own), np.zeros(1, np.int64))
            matrix = sum((one.matrix - nobody for one in own), nobody[None])
            counts = sum((one.counts for one in own), np.zeros((1, len(prior.pseudo))))
            sums[key] = Statistics(size, matrix, counts)
    return state._replace(sums=sums)


def _same(
    state: ReconciledSubclasses, one: Statistics, apart_from: Iterable[int], prior: Prior, location: Location
) -> int | None:
    """Return the global subclass that most probably equals the given one, if there is one.

    There is no least number of instances, unlike for merges within a recognizer. Those are two because the sampler
    found so, and here only this test has compared them.
    """
    keys = [key for key in sorted(state.sums) if key not in apart_from]
    if not keys:
        return None
    others = Statistics._make(map(np.concatenate, zip(*(state.sums[key] for key in keys), strict=True)))
    ratios = log_ratios_together(one, others, prior, location)
    best = int(ratios.argmax())
    return keys[best] if ratios[best] > 0.0 else None


def _follow_absorbed(state: ReconciledSubclasses, summary: LocalSummary, prior: Prior) -> ReconciledSubclasses:
    """Let the global ids follow a merge within the recognizer, if no other living subclass has them."""
    local = summary.local
    for ended in summary.absorbed:
        key, own = state.links.get(local._replace(id=ended)), state.links[local]
        if key is not None and key != own and key not in state.sums:
            state = _merge(state, key, own, prior)
    return state


def _merge(state: ReconciledSubclasses, one: int, other: int, prior: Prior) -> ReconciledSubclasses:
    """Merge two global ids, and continue the older one."""
    older, younger = min(one, other), max(one, other)
    names = {younger: older}
    links = {local: names.get(key, key) for local, key in state.links.items()}
    merged = {ended: names.get(key, key) for ended, key in state.merged.items()} | names
    return _add_up(state._replace(links=links, merged=merged), {one, other}, prior)
