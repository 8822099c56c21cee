"""Classes that the sampler does not see by itself: hidden in noise, or so rare that their seats fade between two.

Among the remembered unknown instances that are in no announced subclass, each that arrives is looked at with its
nearest neighbours (:mod:`stream_osr.model.unassigned`); a group that is a class is announced.
"""

from __future__ import annotations

import numpy as np

from stream_osr.discovery.histories import leave, places_of, with_lives, without_lives
from stream_osr.discovery.lifecycle import begin_emerged
from stream_osr.model.lifecycle_moves import GatheredSubclass, gather
from stream_osr.model.unassigned import Alternatives, NoiseModel, UnassignedRows, is_broad, outweighs_noise
from stream_osr.stream.chain import Chain, IdentityChanges, LifecycleUpdate, SplitOff, without
from stream_osr.stream.recent_instances import RecentInstances, members, places, since

EVIDENCE = 81.0
"""A stranger is so many times as probable if it is unknown than if it is known, ..."""
LEAST_UNKNOWN, MOST_UNKNOWN = 0.5, 0.9
"""... and unknown with this probability at least; with that it need not be more."""
LOOKED_AT = 8
"""Arrivals of a batch that are looked at, the latest."""
MOST = 1024
"""Instances that they are compared with, the latest."""


def least_unknown(share: float) -> float:
    """Least probability of unknown that makes an instance a stranger, where this share of all is unknown.

    Examples
    --------
    >>> [round(least_unknown(share), 2) for share in (0.001, 0.01, 0.03, 0.1, 0.5)]
    [0.5, 0.5, 0.71, 0.9, 0.9]
    """
    return min(max(EVIDENCE * share / (1.0 + (EVIDENCE - 1.0) * share), LEAST_UNKNOWN), MOST_UNKNOWN)


def stands_out(
    key: int, first: int, chain: Chain, number: int, recent: RecentInstances, noise: NoiseModel, least: float
) -> bool:
    """Say whether a candidate is rather a subclass than as many of the instances that resemble nothing.

    Parameters
    ----------
    key, first
        The candidate, and the position of its first member.
    chain, number
        The chain that it is in.
    recent
        The remembered instances.
    noise
        What instances that resemble nothing look like.
    least
        p_unknown of a stranger at least.
    """
    around, recent = Alternatives(chain.known, chain.state, noise), since(recent, first)
    seat = recent.subclass[number, _unknown(recent, number, least)]
    others = seat[seat != key]  # the fewer of them are strangers, the more a candidate weighs
    if outweighs_noise(around, key, len(others)):
        return True
    return outweighs_noise(around, key, int((places_of(_settled(chain, noise), others) < 0).sum()))


def find_core(update: LifecycleUpdate, noise: NoiseModel, least: float) -> LifecycleUpdate:
    """Announce a class that is hidden among the strangers, if one of those that have just arrived is of it.

    Parameters
    ----------
    update
        The leader after a batch.
    noise
        What instances that resemble nothing look like.
    least
        p_unknown of a stranger at least.
    """
    chain, recent = update.chain, update.recent
    unknown = _unknown(recent, 0, least)
    at = unknown[places_of(_settled(chain, noise), recent.subclass[0, unknown]) < 0][-MOST:]
    arrived = np.flatnonzero(recent.seq + at >= recent.batches[-1:])[-LOOKED_AT:]
    if not len(arrived):
        return update
    unassigned = UnassignedRows(recent.seq + at, recent.rows[at], recent.subclass[0, at])
    reported = chain.life.ids[chain.life.noticed]
    found = gather(Alternatives(chain.known, chain.state, noise), unassigned, arrived, reported)
    return update if found is None else _announce(update, found)


def _settled(chain: Chain, noise: NoiseModel) -> np.ndarray:
    """Identities of the subclasses whose instances are strangers no longer: announced, set aside, or a known class's.

    One that noise has widened since it was announced is no home, and one of which nothing is told hides others.
    """
    state, life = chain.state, chain.life
    of_noise = places_of(state.ids[is_broad(state.dishes, chain.known.prior, noise)], life.ids) >= 0
    return np.concatenate([life.ids[life.owned | (life.announced_unmuted & ~of_noise)], chain.dormant.ids])


def _unknown(recent: RecentInstances, number: int, least: float) -> np.ndarray:
    """Places of the remembered instances that seem to be unknown, and sit in a subclass of chain ``number``."""
    return np.flatnonzero((recent.p_unknown >= least) & (recent.subclass[number] >= 0))


def _announce(update: LifecycleUpdate, gathered: GatheredSubclass) -> LifecycleUpdate:
    """Announce the core, and what else of the strangers is rather of it, which are a subclass now."""
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
    changes = without(update.changes, update.identities.merged)
    return update._replace(
        changes=changes._replace(emerged=(*changes.emerged, new)),
        regained=int((~np.isin(core.seat, chain.state.ids)).sum()),
    )
