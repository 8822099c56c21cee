"""One of the models that are averaged, as a value, and what may happen to the identities of its subclasses."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

import numpy as np

from stream_osr.discovery.histories import Lifecycle, SubclassHistory, lifecycle
from stream_osr.discovery.lifecycle import LifecycleChanges
from stream_osr.model import edit
from stream_osr.model import step as sampler
from stream_osr.model.franchise import StreamState
from stream_osr.model.known import Densities, Known, densities
from stream_osr.model.lifecycle_moves import DormantSubclasses, bring_back, no_dormant
from stream_osr.model.moves.hyperparameters import STREAM_ALPHA
from stream_osr.model.transfer import moved
from stream_osr.stream.recent_instances import RecentInstances, relabel, reseat
from stream_osr.trained import TrainedModel
from stream_osr.trust.balance import KnownShares, ReferenceCounts

PRIOR_SEATS = 50.0
"""Seats that the known classes hold when a stream begins; they fade like all others."""


class ReferenceCheck(NamedTuple):
    """Reference check of one chain: counts of the stream and of references, and the shares that they give.

    Attributes
    ----------
    ids
        Identities of the emerging subclasses that are counted, shape (K,).
    counts
        The counts.
    shares
        What they say.
    owner
        Number of the known class that each subclass describes anew, -1: it is new, shape (K,).
    known
        Share of each that was known when it had support, -1: it had none so far, shape (K,).
    estimated_at
        Position in the stream at which the known share of the stream was last estimated, -1: never.
    dependent
        Neighbouring instances depend on each other: levels are those of typicality.
    """

    ids: np.ndarray
    counts: ReferenceCounts
    shares: KnownShares
    owner: np.ndarray
    known: np.ndarray
    estimated_at: int
    dependent: bool = False


class Chain(NamedTuple):
    """One of the models that are averaged: known classes, sampler state, lives of its emerging subclasses.

    Attributes
    ----------
    known, frozen
        Known classes: the trained ones, or this stream's own copy once a label has changed them.
    state
        The sampler's state.
    life
        Lives of the emerging subclasses.
    dormant
        The dormant ones: off the menu.
    check
        Reference check of its known classes; ``None``: the model has no references, or nothing has come yet.
    """

    known: Known
    frozen: Densities
    state: StreamState
    life: Lifecycle
    dormant: DormantSubclasses
    check: ReferenceCheck | None = None


Chains = tuple[Chain, ...]
"""The ensemble: a leader, whose ids, lives and names are told, and followers, which give probabilities and seats."""


class SplitOff(NamedTuple):
    """Origin of a new subclass: the one it was split off, and the positions of its instances, shape (n,)."""

    old: int
    seqs: np.ndarray


class IdentityChanges(NamedTuple):
    """Changes of identities of emerging subclasses in a chain: made once, and followed by all who hold any.

    Attributes
    ----------
    merged
        For each identity that ended in another: the one that goes on.
    split
        For each identity that is new because a subclass was parted: where it comes from.
    moved
        Positions of the instances that the sampler re-seated, shape (m,), and their subclass now, -1: a known one.
    """

    merged: Mapping[int, int] = {}
    split: Mapping[int, SplitOff] = {}
    moved: tuple[np.ndarray, np.ndarray] = (np.zeros(0, np.int64), np.zeros(0, np.int64))

    def then(self, later: IdentityChanges) -> IdentityChanges:
        """Put what happened later after this; the sampler moves nobody later."""
        now = later.merged
        return IdentityChanges(
            {was: now.get(key, key) for was, key in self.merged.items()} | {**now},
            {now.get(key, key): part for key, part in self.split.items()} | {**later.split},
            self.moved,
        )


class LifecycleUpdate(NamedTuple):
    """The emerging subclasses of one chain after a batch, and what happened to them.

    Attributes
    ----------
    chain
        The chain, its lives included.
    recent
        The remembered instances, under the identities that go on.
    identities
        What happened to identities.
    changes
        Who emerged, doubled, fell asleep, came back.
    ended
        Lives that ended, of those that had been announced.
    seated
        The state before subclasses were set aside and forgotten.
    refuted
        Identities that had been announced and are a known class's after all.
    regained
        Instances that had left the model with a subclass that was never announced, and are in one that is.
    """

    chain: Chain
    recent: RecentInstances
    identities: IdentityChanges
    changes: LifecycleChanges
    ended: dict[int, SubclassHistory]
    seated: StreamState
    refuted: tuple[int, ...] = ()
    regained: int = 0

    def then(self, later: IdentityChanges, chain: Chain) -> LifecycleUpdate:
        """Go on with more changes of the leader's identities: what is remembered follows them."""
        recent = relabel(self.recent, 0, later.merged)
        for new, (_, seqs) in later.split.items():
            recent = reseat(recent, 0, seqs, new)
        return self._replace(chain=chain, recent=recent, identities=self.identities.then(later))


def without(changes: LifecycleChanges, gone: Collection[int]) -> LifecycleChanges:
    """Leave some subclasses out of what is told."""
    return LifecycleChanges(*(tuple(key for key in kind if key not in gone) for kind in changes))


def open_chains(trained: TrainedModel, count: int, lasting: float) -> Chains:
    """Begin so many chains over the draws of a trained model, in turn; the known classes have ``lasting`` seats."""
    draws, frozen = trained.draws, trained.densities
    return tuple(_open(draws[at % len(draws)], frozen[at % len(draws)], lasting) for at in range(count))


def _open(known: Known, frozen: Densities, lasting: float) -> Chain:
    seats = known.size * min(1.0, lasting / known.size.sum())
    state = edit.seat_classes(sampler.open_stream(known, frozen), seats)
    return Chain(known, frozen, state, lifecycle(), no_dormant(known.prior))


def opening_seats(known: Known, frozen: Densities) -> np.ndarray:
    """Log weight of each known class and, last, of a new one when a stream begins (equation 10), shape (J + 1,)."""
    alpha = STREAM_ALPHA.shape / STREAM_ALPHA.rate
    share = alpha / (frozen.menu.sum() + known.gamma)
    seats = PRIOR_SEATS * known.size / known.size.sum() + share * frozen.menu
    return np.asarray(np.log(np.append(seats, share * known.gamma)))


def refreshed(chain: Chain, known: Known) -> Chain:
    """Carry a chain over to known classes that have changed, or become more."""
    frozen = densities(known)
    state = edit.refresh_classes(chain.state, frozen)
    return chain._replace(known=known, frozen=frozen, state=state)


def awake(chain: Chain, keys: Collection[int]) -> Chain:
    """Put those of the subclasses that are set aside on the menu again."""
    for key in chain.dormant.ids.tolist():
        if key in keys:
            state, dormant = bring_back(chain.state, chain.dormant, key, None, chain.known.prior)
            chain = chain._replace(state=state, dormant=dormant)
    return chain


def sizes_of(state: StreamState) -> dict[int, int]:
    """Count the instances in each emerging subclass that is on the menu."""
    return dict(zip(state.ids.tolist(), state.dishes.size.tolist(), strict=True))


def move_classes(chains: Chains, move: np.ndarray) -> Chains:
    """Move the known classes of every chain by vectors of whitened coordinates, shape (J, d)."""
    known = [moved(chain.known, move) for chain in chains]
    return tuple(chain._replace(known=k, frozen=densities(k)) for chain, k in zip(chains, known, strict=True))


def follow_identities(check: ReferenceCheck | None, changes: IdentityChanges) -> ReferenceCheck | None:
    """Go on after subclasses were joined, and others parted off the one that they were part of."""
    if check is None or not (changes.merged or changes.split):
        return check
    n_classes = len(check.counts.votes)
    check = check._replace(counts=ReferenceCounts(*(counts.copy() for counts in check.counts)))
    for younger, older in changes.merged.items():
        check = _join(check, younger, older, n_classes)
    for new, (old, _) in changes.split.items():
        check = _part(check, new, old, n_classes)
    return check


def _join(check: ReferenceCheck, younger: int, older: int, n_classes: int) -> ReferenceCheck:
    ids = check.ids.tolist()
    if younger in ids and older in ids:
        one, other = n_classes + ids.index(younger), n_classes + ids.index(older)
        check.counts.stream[other] += check.counts.stream[one]
        check.counts.taken[:, other] += check.counts.taken[:, one]
    return check._replace(ids=np.where(check.ids == younger, -1 if older in ids else older, check.ids))


def _part(check: ReferenceCheck, new: int, old: int, n_classes: int) -> ReferenceCheck:
    """Let both parts have half of what was counted: the next batches tell them apart."""
    ids = check.ids.tolist()
    if old not in ids or new in ids:
        return check
    at = ids.index(old)
    cell, last = n_classes + at, n_classes + len(ids)
    counts, shares = check.counts, check.shares
    counts.stream[cell] *= 0.5
    counts.taken[:, cell] *= 0.5
    places = [*range(last), cell, last]  # the new part behind the subclasses, what is new comes last
    by_cell = (
        counts.stream.take(places, 0),
        counts.seen.take(places),
        counts.taken.take(places, 1),
        counts.total.take(places, 1),
    )
    owner = shares.owner.take([*range(len(ids)), at, len(ids)], 1)
    return check._replace(
        ids=np.append(check.ids, new),
        counts=ReferenceCounts(*by_cell, counts.votes),
        shares=shares._replace(known=shares.known.take(places, 0), owner=owner),
        owner=np.append(check.owner, check.owner[at]),
        known=np.append(check.known, check.known[at]),
    )
