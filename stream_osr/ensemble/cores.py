"""Classes that the sampler does not see by itself: hidden in noise, or so rare that their seats fade between two.

Among the remembered unknown instances that are in no announced subclass, each that arrives is looked at with its
nearest neighbours (:mod:`stream_osr.model.strangers`); a group that is a class is announced.
"""

from __future__ import annotations

import numpy as np

from stream_osr.discovery.lifecycle import Subclass, begin_emerged, leave
from stream_osr.ensemble.chain import Chain, Followed, IdentityChanges, Parted, without
from stream_osr.ensemble.past import Past, members, since
from stream_osr.model.background import Background, is_broad
from stream_osr.model.between import gather
from stream_osr.model.strangers import Around, Strangers, find_group, outweighs_noise

EVIDENCE = 81.0
"""A stranger is so many times as probable if it is unknown than if it is known, ..."""
LEAST_UNKNOWN, MOST_UNKNOWN = 0.5, 0.9
"""... and unknown with this probability at least; with that it need not be more."""
ASKED = 8
"""Arrivals of a batch that are looked at, the latest."""
MOST = 1024
"""Instances that they are compared with, the latest."""


def least_unknown(share: float) -> float:
    """How probable it must be that an instance is unknown for it to be a stranger, where this share of all is.

    Examples
    --------
    >>> [round(least_unknown(share), 2) for share in (0.001, 0.01, 0.03, 0.1, 0.5)]
    [0.5, 0.5, 0.71, 0.9, 0.9]
    """
    return min(max(EVIDENCE * share / (1.0 + (EVIDENCE - 1.0) * share), LEAST_UNKNOWN), MOST_UNKNOWN)


def stands_out(
    key: int,
    subclass: Subclass,
    chain: Chain,
    number: int,
    past: tuple[Past, ...],
    background: Background,
    least: float,
) -> bool:
    """Say whether a candidate is rather a subclass than as many of the instances that resemble nothing.

    Parameters
    ----------
    key, subclass
        The candidate.
    chain, number
        The chain that it is in.
    past
        The remembered instances.
    background
        What instances that resemble nothing look like.
    least
        p_unknown of a stranger at least.
    """
    settled = _settled(chain, background)
    others = (
        chunk.subclass[number, _of_chunk(chunk, number, settled, least)] != key
        for chunk in since(past, subclass.first.seq)
    )
    return outweighs_noise(Around(chain.known, chain.state, background), key, sum(int(one.sum()) for one in others))


def find_core(followed: Followed, background: Background, least: float) -> Followed:
    """Announce a class that is hidden among the strangers, if one of those that have just arrived is of it.

    Parameters
    ----------
    followed
        The leader after a batch.
    background
        What instances that resemble nothing look like.
    least
        p_unknown of a stranger at least.
    """
    chain, past = followed.chain, followed.past
    settled = _settled(chain, background)
    if not past or not len(_of_chunk(past[-1], 0, settled, least)):
        return followed
    strangers = _strangers(past, settled, least)
    arrived = np.flatnonzero(strangers.seqs >= past[-1].seq)[-ASKED:]
    told = {key for key, life in chain.life.subclasses.items() if life.emerged or life.muted}
    core = find_group(strangers, arrived, Around(chain.known, chain.state, background), told)
    return followed if core is None else _announce(followed, Strangers(*(part[core] for part in strangers)))


def _settled(chain: Chain, background: Background) -> np.ndarray:
    """Identities of the subclasses whose instances are strangers no longer: announced, set aside, or a known class's.

    One that noise has widened since it was announced is no home, and a muted one hides others.
    """
    state, lives = chain.state, chain.life.subclasses.items()
    broad = set(state.ids[is_broad(state.dishes, chain.known.prior, background)].tolist())
    told = [key for key, one in lives if one.owned or (one.emerged and not one.muted and key not in broad)]
    return np.array([*told, *chain.aside.ids.tolist()], np.int64)


def _of_chunk(chunk: Past, number: int, settled: np.ndarray, least: float) -> np.ndarray:
    """Places of the strangers in a batch, as chain ``number`` sees them."""
    seat = chunk.subclass[number]
    unknown = np.flatnonzero((chunk.p_unknown >= least) & (seat >= 0))
    return unknown[~np.isin(seat[unknown], settled)] if len(unknown) else unknown


def _strangers(past: tuple[Past, ...], settled: np.ndarray, least: float) -> Strangers:
    found: list[Strangers] = []
    for chunk in reversed(past):
        places = _of_chunk(chunk, 0, settled, least)
        if len(places):
            found.insert(0, Strangers(chunk.seq + places, chunk.rows[places], chunk.subclass[0, places]))
            if sum(len(some.seqs) for some in found) >= MOST:
                break
    return Strangers(*(np.concatenate(part)[-MOST:] for part in zip(*found, strict=True)))


def _announce(followed: Followed, core: Strangers) -> Followed:
    """Make the core, and what else of the strangers is rather of it, a subclass that is announced."""
    chain = followed.chain
    state, new, absorbed, left = gather(chain.known, chain.state, core)
    lives, most, largest = dict(chain.life.subclasses), -1, 0
    for key in absorbed:
        lives.pop(key, None)
    for key in left:
        own = core.seqs[core.seat == key]
        lives[key] = leave(lives[key], own.tolist())
        if len(own) > largest:
            most, largest = key, len(own)
    came = [member for member in members(followed.past, core.seqs) if member is not None]
    lives[new] = begin_emerged(came)
    followed = followed.then(
        IdentityChanges(dict.fromkeys(absorbed, new), {new: Parted(most, core.seqs)}), chain.after(state, lives)
    )
    changes = without(followed.changes, followed.identities.joined)
    return followed._replace(
        changes=changes._replace(emerged=(*changes.emerged, new)),
        regained=int((~np.isin(core.seat, chain.state.ids)).sum()),
    )
