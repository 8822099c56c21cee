"""Classes that the sampler does not see by itself: hidden in noise, or so rare that their seats fade between two.

Among the remembered unknown instances that are in no announced subclass, each that arrives is looked at with its
nearest neighbours. They are a class if they are more probable as one subclass than as what lies around them: noise
over the range of training, outliers of the known class nearest to them, the subclass that they sit in with others.
The Chinese restaurant's odds of so many among so many are asked in addition, because the best of very many groups
would nearly always win.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln

from stream_osr.discovery.life import leave
from stream_osr.discovery.lifecycle import begin_emerged
from stream_osr.discovery.lives import with_lives, without_lives
from stream_osr.engine.followed import Followed, Parted
from stream_osr.engine.past import Past, members, places, reseat, since
from stream_osr.engine.state import Chain
from stream_osr.model import regroup
from stream_osr.model.background import NARROWEST, Background, gain, is_broad, log_density, squares
from stream_osr.model.dishes import empty_dishes, keep_slots, log_predictives, means_and_scales, sum_up
from stream_osr.model.marginal import Statistics, log_marginals, of_rows, statistics_of
from stream_osr.model.prior import TIED, homogeneous

SIZES = (8, 16)
"""Instances that are looked at together: one that has arrived and its nearest neighbours, ..."""
LATELY = (256, 2048, 1 << 40)
"""... of those that came within so many instances of the stream: a class that begins now need not outnumber the noise
of long ago."""
EVIDENCE = 81.0
"""A stranger is so many times as probable if it is unknown than if it is known, ..."""
LEAST_UNKNOWN, MOST_UNKNOWN = 0.5, 0.9
"""... and unknown with this probability at least; with that it need not be more."""
ASKED = 8
"""Arrivals of a batch that are looked at, the latest."""
MARGIN = 3.0
"""Log odds that a candidate must have, ..."""
GAIN = 0.5
"""... and as much more for each of its instances: no noise is quite as the background has it."""
PASSES = 5
"""Times that a core may grow."""
LOOKED = math.log(len(SIZES) * len(LATELY)) + math.log(1000.0)
"""What the choice among them costs, and that it is made for each arrival anew."""
MOST = 1024
"""Instances that they are compared with, the latest."""


class Strangers(NamedTuple):
    """Remembered unknown instances that are in no announced subclass, n of them.

    Attributes
    ----------
    seqs
        Positions in the stream, ascending, shape (n,).
    rows
        Whitened rows, shape (n, d).
    seat
        Emerging subclass that each sits in, or sat in before that left the model, shape (n,).
    """

    seqs: np.ndarray
    rows: np.ndarray
    seat: np.ndarray


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
    first: int,
    chain: Chain,
    number: int,
    past: Past,
    background: Background,
    least: float,
) -> bool:
    """Say whether a candidate is rather a subclass than as many of the instances that resemble nothing.

    Parameters
    ----------
    key, first
        The candidate, and the position of its first member.
    chain, number
        The chain that it is in.
    past
        The remembered instances.
    background
        What instances that resemble nothing look like.
    least
        p_unknown of a stranger at least.
    """
    if chain.known.prior.covariance == TIED:
        return True  # a width that is given says nothing
    recent, state = since(past, first), chain.state
    one = statistics_of(state.dishes, np.array([regroup.slot_of(state, key)]))
    there = _strangers(recent, number, _settled(chain, background), least)
    others = int((recent.subclass[number, there] != key).sum())
    size = int(one.size[0])
    odds = float(restaurant_odds(chain, size, np.array(size + others)))
    return gain(one, background, chain.known) + odds > MARGIN + GAIN * size


def find_core(followed: Followed, background: Background, least: float) -> Followed:
    """Announce a class that is hidden among the strangers, if one of those that have just arrived is of it.

    Parameters
    ----------
    followed
        The first chain after a batch.
    background
        What instances that resemble nothing look like.
    least
        p_unknown of a stranger at least.
    """
    settled = _settled(followed.chain, background)
    past = followed.past
    at = _strangers(past, 0, settled, least)[-MOST:]
    arrived = np.flatnonzero(past.seq + at >= past.batches[-1])[-ASKED:] if len(at) else at
    if not len(arrived):
        return followed
    strangers = Strangers(past.seq + at, past.rows[at], past.subclass[0, at])
    core = _densest(strangers, arrived, followed.chain, background)
    if core is None:
        return followed
    return _announce(followed, strangers, _grown(core, strangers, followed.chain, background))


def _settled(chain: Chain, background: Background) -> np.ndarray:
    """Identities of the subclasses whose instances are strangers no longer: announced, set aside, or a known class's.

    One that noise has widened since it was announced is no home, and a muted one hides others.
    """
    state, life = chain.state, chain.life
    broad = np.isin(life.ids, state.ids[is_broad(state.dishes, chain.known.prior, background)])
    return np.concatenate([life.ids[life.owned | (life.told_of & ~broad)], chain.aside.ids])


def _strangers(past: Past, number: int, settled: np.ndarray, least: float) -> np.ndarray:
    """Places of the strangers among remembered instances, as chain ``number`` sees them."""
    seat = past.subclass[number]
    unknown = np.flatnonzero((past.p_unknown >= least) & (seat >= 0))
    return unknown[~np.isin(seat[unknown], settled)]


def _densest(strangers: Strangers, arrived: np.ndarray, chain: Chain, background: Background) -> np.ndarray | None:
    """Find the group around one of the arrivals that stands out most; ``None``: none does."""
    seqs, rows = strangers.seqs, strangers.rows
    groups: dict[int, list[np.ndarray]] = {size: [] for size in SIZES}
    begin: dict[int, list[int]] = {size: [] for size in SIZES}
    distance = ((rows[arrived, None] - rows) ** 2).sum(axis=2)
    before = -1
    for lately in LATELY:
        first = int(np.searchsorted(seqs, seqs[-1] - lately))
        if first == before:
            continue
        before = first
        for size in SIZES:
            if len(seqs) - first >= size:
                near = np.argpartition(distance[:, first:], size - 1, axis=1)[:, :size] + first
                groups[size] += [np.sort(each) for each in near]
                begin[size] += [first] * len(near)
    found = [
        one
        for size in SIZES
        if groups[size]
        for one in _standing_out(np.array(groups[size]), np.array(begin[size]), rows, chain, background)
    ]
    for _, group, first in sorted(found, key=lambda each: -each[0]):
        recent = Strangers(*(each[first:] for each in strangers))
        if _stands_out(group - first, recent, chain):
            return group
    return None


def _standing_out(
    groups: np.ndarray, begin: np.ndarray, rows: np.ndarray, chain: Chain, background: Background
) -> list[tuple[float, np.ndarray, int]]:
    """Choose those of the groups, shape (g, k), that are rather a subclass than part of the background.

    Returns
    -------
    Of each: log odds, the group, and from which stranger on it was looked for.
    """
    size = groups.shape[1]
    odds = _together(groups, rows, chain) + restaurant_odds(chain, size, len(rows) - begin) - LOOKED
    square = squares(rows, *background)
    odds -= log_density(square[groups].sum(axis=1), size, background.covariance, NARROWEST)
    return [(float(odds[at]), groups[at], int(begin[at])) for at in np.flatnonzero(odds > 0.0)]


def restaurant_odds(chain: Chain, size: int, among: np.ndarray) -> np.ndarray:
    """Log odds that the Chinese restaurant gives to so many of so many at a dish of their own."""
    alpha = math.log(float(chain.state.franchise.alpha[0]))
    return np.asarray(alpha + gammaln(size) + gammaln(among - size + 1) - gammaln(among))


def _together(groups: np.ndarray, rows: np.ndarray, chain: Chain) -> np.ndarray:
    """Log marginal likelihood of each group as a subclass, shape (g,)."""
    known, (count, size) = chain.known, groups.shape
    dishes = empty_dishes(count, known.prior)
    sum_up(dishes, np.repeat(np.arange(count), size), homogeneous(rows[groups.ravel()]), known.prior)
    return log_marginals(Statistics(dishes.size, dishes.matrix), known.prior, known.location)


def _stands_out(group: np.ndarray, strangers: Strangers, chain: Chain) -> bool:
    """Say whether a group is rather a subclass than outliers of a known class or part of where it sits."""
    known, own = chain.known, strangers.rows[group]
    rows = homogeneous(own)
    everybody = np.arange(len(group))[None]
    odds = float(_together(everybody, own, chain)[0]) - LOOKED
    odds += float(restaurant_odds(chain, len(group), np.array(len(strangers.seqs))))
    near = int(log_predictives(rows, known.dishes, known.prior).sum(axis=0).argmax())
    mean, covariance = means_and_scales(keep_slots(known.dishes, np.array([near])), known.prior)
    if odds <= float(log_density(squares(own, mean[0], covariance[0]).sum(), len(group), covariance[0], 1.0)):
        return False
    state, seat = chain.state, strangers.seat[group]
    told = set(chain.life.ids[chain.life.emerged | chain.life.muted].tolist())
    for at in np.flatnonzero(np.isin(state.ids, seat)):
        key = int(state.ids[at])
        inside = seat == key
        count, among = int(inside.sum()), int((strangers.seat == key).sum())
        if key in told or 2 * count < state.dishes.size[at]:
            dish = keep_slots(state.dishes, np.array([at]))
            there = float(log_predictives(rows[inside], dish, known.prior).sum())
            odds = float(_together(np.flatnonzero(inside)[None], own, chain)[0]) - LOOKED
            if odds + float(restaurant_odds(chain, count, np.array(among))) <= there:
                return False
    return True


def _grown(core: np.ndarray, strangers: Strangers, chain: Chain, background: Background) -> np.ndarray:
    """Add the strangers that the core predicts better than all that is around it does."""
    known, rows = chain.known, homogeneous(strangers.rows)
    around = log_density(squares(strangers.rows, *background), 1, background.covariance, 1.0) + math.log(len(rows))
    around = np.maximum(around, _where_they_sit(strangers, chain))
    for _ in range(PASSES):
        dishes = empty_dishes(1, known.prior)
        sum_up(dishes, np.zeros(len(core), np.int64), rows[core], known.prior)
        own = log_predictives(rows, dishes, known.prior)[:, 0] + math.log(len(core))
        wider = np.union1d(core, np.flatnonzero(own > around))
        if len(wider) == len(core):
            break
        core = wider
    return core


def _where_they_sit(strangers: Strangers, chain: Chain) -> np.ndarray:
    """Log density of each stranger under the subclass that it sits in, times the size of that, shape (n,)."""
    out = np.full(len(strangers.seqs), -np.inf)
    for at in np.flatnonzero(np.isin(chain.state.ids, strangers.seat)):
        inside = strangers.seat == chain.state.ids[at]
        dish = keep_slots(chain.state.dishes, np.array([at]))
        rows = homogeneous(strangers.rows[inside])
        out[inside] = log_predictives(rows, dish, chain.known.prior)[:, 0] + math.log(int(dish.size[0]))
    return out


def _announce(followed: Followed, strangers: Strangers, core: np.ndarray) -> Followed:
    """Make the core, and what else of the strangers is rather of it, a subclass that is announced."""
    chain, past = followed.chain, followed.past
    prior = chain.known.prior
    state, life = chain.state, chain.life
    new = state.next_id
    state = state._replace(next_id=new + 1)
    seqs, rows, seat = strangers.seqs[core], strangers.rows[core], strangers.seat[core]
    on_menu = np.isin(seat, state.ids)
    joined, most, parts = dict(followed.joined), -1, []
    for key in np.unique(seat[on_menu]).tolist():
        own = seat == key
        size = int(state.dishes.size[regroup.slot_of(state, key)])
        if own.sum() == size:
            parts.append(key)
            joined = {was: new if now == key else now for was, now in joined.items()} | {key: new}
            life = without_lives(life, (key,))
            continue
        parts.append(state.next_id)
        state = regroup.separate(state, key, rows[own], seqs[own], prior)
        life = with_lives(life, {key: leave(life.subclasses[key], seqs[own].tolist())})
        if most < 0 or own.sum() > (seat == most).sum():
            most = key
    if (~on_menu).any():
        alone = regroup.Aside(np.array([new]), of_rows(homogeneous(rows[~on_menu]), prior))
        state, _ = regroup.bring_back(state, alone, new, parts[0] if parts else None, prior)
    else:
        state = regroup.rename(state, parts[0], new)
    for part in parts[1:]:
        state = regroup.join(state, new, part, prior)
    life = begin_emerged(life, new, members(past, places(past, seqs)))
    past = reseat(past, 0, seqs, new)
    changes = followed.changes
    gone = set(joined)
    changes = type(changes)(*(tuple(key for key in kind if key not in gone) for kind in changes))
    return followed._replace(
        chain=chain._replace(state=state, life=life),
        past=past,
        joined=joined,
        parted=followed.parted | {new: Parted(most, seqs)},
        changes=changes._replace(emerged=(*changes.emerged, new)),
        seated=state,
        regained=int((~on_menu).sum()),
    )
