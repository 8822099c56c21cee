"""Search for hidden classes: those that noise hides, or so rare that their seats fade between two instances.

The search takes each arrival among the unassigned instances (remembered, unknown, in no announced subclass) with its
nearest neighbours (:mod:`stream_osr.model.unassigned`). A group that is a class is announced.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from stream_osr.discovery.histories import leave, places_of, with_lives, without_lives
from stream_osr.discovery.lifecycle import begin_emerged
from stream_osr.model.lifecycle_moves import GatheredSubclass, gather
from stream_osr.model.noise import NoiseModel, is_broad
from stream_osr.model.prior import numbers_of
from stream_osr.model.unassigned import Alternatives, UnassignedRows, outweighs_noise
from stream_osr.stream.chain import Chain, IdentityChanges, LifecycleUpdate, SplitOff, changes_without
from stream_osr.stream.recent_instances import RecentInstances, members, places, since

EVIDENCE = 81.0
"""Least Bayes factor of unknown against known for an unassigned instance."""
LEAST_UNKNOWN, MOST_UNKNOWN = 0.5, 0.9
"""Bounds on the least probability of unknown for an unassigned instance."""
LOOKED_AT = 8
"""Latest arrivals of a batch to search."""
MOST = 1024
"""Latest unassigned instances to compare the arrivals with."""


def least_unknown(share: float) -> float:
    """Least probability of unknown of an unassigned instance, given the share of unknown instances.

    Examples
    --------
    >>> [round(least_unknown(share), 2) for share in (0.001, 0.01, 0.03, 0.1, 0.5)]
    [0.5, 0.5, 0.71, 0.9, 0.9]
    """
    return min(max(EVIDENCE * share / (1.0 + (EVIDENCE - 1.0) * share), LEAST_UNKNOWN), MOST_UNKNOWN)


def stands_out(
    key: int, first: int, chain: Chain, number: int, recent: RecentInstances, noise: NoiseModel, least: float
) -> bool:
    """Return whether a candidate is more probable as a subclass than as noise.

    Parameters
    ----------
    key, first
        The candidate, and the position of the first member.
    chain, number
        Its chain.
    recent
        The remembered instances.
    noise
        Noise model.
    least
        Least p_unknown of an unassigned instance.
    """
    around, recent = Alternatives(chain.known, chain.state, noise), since(recent, first)
    seat = recent.subclass[number, _unknown(recent, number, least)]
    others = seat[seat != key]  # the fewer of them are strangers, the more a candidate weighs
    if outweighs_noise(around, key, len(others)):
        return True
    return outweighs_noise(around, key, int((places_of(_settled(chain, noise), others) < 0).sum()))


def find_core(
    update: LifecycleUpdate,
    noise: NoiseModel,
    least: float,
    is_explained: Callable[[np.ndarray], bool],
    independent: float = 1.0,
) -> LifecycleUpdate:
    """Announce a class hidden among the unassigned instances, if it contains one of the latest arrivals.

    If neighbours depend on each other, unknown instances that the sampler has seated in known classes are unassigned.

    Parameters
    ----------
    update
        The leader after a batch.
    noise
        Noise model.
    least
        Least p_unknown of an unassigned instance.
    is_explained
        Whether a move of all known classes explains a class with this mean, shape (d,).
    independent
        Number of independent instances with the information of one instance.
    """
    chain, recent, settled = update.chain, update.recent, _settled(update.chain, noise)

    def unassigned_in(part: RecentInstances) -> np.ndarray:
        unknown = _unknown(part, 0, least) if independent == 1.0 else np.flatnonzero(part.p_unknown > LEAST_UNKNOWN)
        return unknown[places_of(settled, part.subclass[0, unknown]) < 0]

    if not len(recent.batches) or not len(unassigned_in(since(recent, int(recent.batches[-1])))):
        return update
    at = unassigned_in(recent)[-MOST:]
    arrived = np.flatnonzero(recent.seq + at >= recent.batches[-1])[-LOOKED_AT:]
    unassigned = UnassignedRows(recent.seq + at, recent.rows[at], recent.subclass[0, at])
    reported = chain.life.ids[chain.life.noticed]
    found = gather(Alternatives(chain.known, chain.state, noise), unassigned, arrived, reported, independent)
    if found is None or is_explained(numbers_of(found.core.rows, chain.known.prior).mean(axis=0)):
        return update
    return _announce(update, found)


def _settled(chain: Chain, noise: NoiseModel) -> np.ndarray:
    """Identities of the subclasses whose instances are assigned: announced, dormant, or part of a known class.

    A subclass that noise has widened since its announcement does not count. One of no interest does not count either,
    because it may hide others.
    """
    state, life = chain.state, chain.life
    of_noise = places_of(state.ids[is_broad(state.dishes, chain.known.prior, noise)], life.ids) >= 0
    return np.concatenate([life.ids[life.owned | (life.announced_unmuted & ~of_noise)], chain.dormant.ids])


def _unknown(recent: RecentInstances, number: int, least: float) -> np.ndarray:
    """Positions of the remembered instances that seem to be unknown and sit in a subclass of chain ``number``."""
    return np.flatnonzero((recent.p_unknown >= least) & (recent.subclass[number] >= 0))


def _announce(update: LifecycleUpdate, gathered: GatheredSubclass) -> LifecycleUpdate:
    """Announce the subclass made from the core and the other unassigned rows that fit it."""
    chain, (state, new, core, absorbed, left) = update.chain, gathered
    life, most, largest = without_lives(chain.life, absorbed), -1, 0
    for key in left:
        own = core.seqs[core.seat == key]
        life = with_lives(life, {key: leave(life.subclasses[key], own.tolist())})
        if len(own) > largest:
            most, largest = key, len(own)
    life = begin_emerged(life, new, *members(update.recent, places(update.recent, core.seqs)))
    identities = IdentityChanges(dict.fromkeys(absorbed, new), {new: SplitOff(most, core.seqs)})
    update = update.then(identities, chain._replace(state=state, life=life))
    changes = changes_without(update.changes, update.identities.merged)
    return update._replace(
        changes=changes._replace(emerged=(*changes.emerged, new)),
        regained=int(((core.seat >= 0) & ~np.isin(core.seat, chain.state.ids)).sum()),
    )
