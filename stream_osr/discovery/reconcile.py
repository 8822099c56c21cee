"""The same new class in several recognizers: their emerged subclasses joined under global identities.

Recognizers over one trained model, one for each partition of a stream, say, find the same new class each under an
identity of its own. A subclass is summed up by statistics that add up, so what it would be together with one of
another recognizer can be said without any instance. Values in, values out: the same summaries in the same order give
the same identities. A global identity is given once and never to anything else; the one that a subclass was given
stays, but for two global subclasses that turn out to be one: then the older goes on for both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from stream_osr.model.marginal import Statistics, log_ratios_together, of_nobody
from stream_osr.model.prior import Prior
from stream_osr.model.student_t import CONJUGATE, Location


class Local(NamedTuple):
    """An emerged subclass as its recognizer knows it.

    Attributes
    ----------
    place
        Names the recognizer.
    run
        Names the run of that recognizer: one that has begun anew uses its identities again.
    id
        Identity of the subclass there.
    """

    place: str
    run: str
    id: int


class LocalSummary(NamedTuple):
    """Summary of an emerged subclass from one recognizer; it replaces the earlier one.

    Attributes
    ----------
    local
        The subclass.
    statistics
        Of all its instances, of a single subclass; None: it is no longer an emerging one (forgotten, promoted, or
        merged into another).
    absorbed
        Identities of the same recognizer that have ended in this one since the summary before.
    """

    local: Local
    statistics: Statistics | None
    absorbed: tuple[int, ...] = ()


class ReconciledSubclasses(NamedTuple):
    """Latest summaries, and the global identities given so far.

    Attributes
    ----------
    statistics
        Latest statistics of each subclass that is alive.
    links
        Global identity of each that there ever was.
    sums
        Statistics of each global subclass that has one alive: the sum of what was last said of those.
    merged
        For each global identity that has ended: the one that goes on.
    next_id
        Identity of the next global subclass.
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
        Subclasses that have a global identity now, or another one because two were merged.
    emerged
        Global identities that are new.
    merged
        For each global identity that has ended: the one that goes on.
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
    """Put a state together again from what is stored of it.

    Parameters
    ----------
    summaries
        What was said, in order; what was replaced later may be missing.
    links, merged, next_id
        As they were. They are taken at their word: a subclass that has no link counts nowhere until it is said again.
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
    """Take in one summary.

    A subclass that is new gets the identity of the global one that it is most probably the same as, by the ratio of
    the marginal likelihoods of both as one and as two, or else a new one. A global subclass that has changed is
    compared with the others in the same way, and merged with the best of them, again and again.

    Parameters
    ----------
    state
        Before; it does not change.
    summary
        What a recognizer says.
    prior, location
        Base measure of the trained model that all recognizers share, and where it places new subclasses.

    Returns
    -------
    The state after it, and what has changed.

    Examples
    --------
    Two recognizers find the same class, a third one another:

    >>> from stream_osr.model.dishes import empty_dishes, refill
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
    """Put what is said in the place of what was said before; with it an earlier run of the recognizer has ended."""
    local, statistics, absorbed = summary
    ended = {local.id, *absorbed}

    def stays(one: Local) -> bool:
        return one.place != local.place or (one.id not in ended and (statistics is None or one.run == local.run))

    texts = {one: its for one, its in state.statistics.items() if stays(one)}
    if statistics is not None:
        texts[local] = statistics
    return texts


def _add_up(state: ReconciledSubclasses, keys: Iterable[int], prior: Prior) -> ReconciledSubclasses:
    """Add up some global subclasses, in a fixed order: sums do not depend on what was before."""
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
    """Find the global subclass that one is most probably the same as, if there is one.

    No least number of instances is asked for, as it is where subclasses of one recognizer are joined: those are two
    because the sampler has found so, and here nothing but this test has compared them.
    """
    keys = [key for key in sorted(state.sums) if key not in apart_from]
    if not keys:
        return None
    others = Statistics._make(map(np.concatenate, zip(*(state.sums[key] for key in keys), strict=True)))
    ratios = log_ratios_together(one, others, prior, location)
    best = int(ratios.argmax())
    return keys[best] if ratios[best] > 0.0 else None


def _follow_absorbed(state: ReconciledSubclasses, summary: LocalSummary, prior: Prior) -> ReconciledSubclasses:
    """Let the identities follow a merge of the recognizer's own, where nothing else is alive under them."""
    local = summary.local
    for ended in summary.absorbed:
        key, own = state.links.get(local._replace(id=ended)), state.links[local]
        if key is not None and key != own and key not in state.sums:
            state = _merge(state, key, own, prior)
    return state


def _merge(state: ReconciledSubclasses, one: int, other: int, prior: Prior) -> ReconciledSubclasses:
    """Let the older of two global identities go on for both."""
    older, younger = min(one, other), max(one, other)
    names = {younger: older}
    links = {local: names.get(key, key) for local, key in state.links.items()}
    merged = {ended: names.get(key, key) for ended, key in state.merged.items()} | names
    return _add_up(state._replace(links=links, merged=merged), {one, other}, prior)
