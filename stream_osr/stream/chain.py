"""One chain of the ensemble as a value, and the changes of subclass identities."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Annotated, NamedTuple

import numpy as np

from stream_osr.discovery.histories import Lifecycle, SubclassHistory, lifecycle
from stream_osr.discovery.lifecycle import LifecycleChanges
from stream_osr.model import class_edits, edit, sampler
from stream_osr.model.known import Densities, Known, densities
from stream_osr.model.lifecycle_moves import DormantSubclasses, bring_back, no_dormant
from stream_osr.model.moves.hyperparameters import STREAM_ALPHA
from stream_osr.model.restaurants import StreamState
from stream_osr.model.transfer import moved
from stream_osr.stream.recent_instances import RecentInstances, relabel, reseat
from stream_osr.support import rules
from stream_osr.training.trained import TrainedModel
from stream_osr.trust.known_shares import KnownShares
from stream_osr.trust.reference_counts import ReferenceCounts

PRIOR_SEATS = 50.0
"""Seats of the known classes at the beginning of a stream. They fade like all others.

In a plane with two known classes, 0.37 of the known instances are called unknown with 50 seats, and 0.95 without.
With five known classes, 0.45 of a new class is found with 50 seats, and 0.41 with 100
(``benchmarks/results/experiments.md``).
"""


class ReferenceCheck(NamedTuple):
    """Reference check of one chain: counts of the stream and of references, and the resulting shares.

    Attributes
    ----------
    ids
        Identities of the counted emerging subclasses, shape (K,).
    counts
        The counts.
    shares
        The shares derived from the counts.
    owner
        Number of the known class that each subclass repeats, -1 if it is new, shape (K,).
    known
        Known share of each subclass when it last had support, -1 if it never had, shape (K,).
    estimated_at
        Position in the stream of the last estimate of the stream's known share, -1 if never.
    dependent
        Whether neighbouring instances depend on each other. Then levels are those of typicality.
    """

    ids: Annotated[np.ndarray, rules.array("i", "E", low=-1)]
    counts: Annotated[ReferenceCounts, rules.sizes("C J", L="6")]
    shares: Annotated[KnownShares, rules.sizes("C J", L="6", B="E+1")]
    owner: Annotated[np.ndarray, rules.array("i", "E", low=-1, below="J")]
    known: Annotated[np.ndarray, rules.array("f", "E", low=-1.0, high=1.0)]
    estimated_at: rules.Position
    dependent: bool = False


class Chain(NamedTuple):
    """One chain of the ensemble: known classes, sampler state, histories of the emerging subclasses.

    Attributes
    ----------
    known, frozen
        Known classes: the trained ones, or this stream's own copy once a label has changed them.
    state
        The sampler's state.
    life
        Histories of the emerging subclasses.
    dormant
        Dormant subclasses, which are off the menu.
    check
        Reference check of the known classes. ``None`` if the model has no references or no instance has come yet.
    carried
        Log densities from the batch before. Archives do not contain them.
    """

    known: Annotated[Known, rules.sizes("K J d")]
    frozen: Densities
    state: Annotated[StreamState, rules.sizes("w")]
    life: Lifecycle
    dormant: DormantSubclasses
    check: ReferenceCheck | None = None
    carried: sampler.WindowDensities | None = None


Chains = tuple[Chain, ...]
"""The ensemble: a leader with the reported ids, histories and names, and followers with probabilities and seats."""


class SplitOff(NamedTuple):
    """Origin of a new subclass: the subclass it was split from, and the positions of the instances, shape (n,)."""

    old: int
    seqs: np.ndarray


class IdentityChanges(NamedTuple):
    """Changes of identities of emerging subclasses in a chain, for all parts that store identities.

    Attributes
    ----------
    merged
        Map from each identity that ended to the one that continues.
    split
        Map from each new identity of a split subclass to its origin.
    moved
        Positions of the instances that the sampler re-seated, shape (m,), and their current subclass, -1 for a known
        one.
    """

    merged: Mapping[int, int] = {}
    split: Mapping[int, SplitOff] = {}
    moved: tuple[np.ndarray, np.ndarray] = (np.zeros(0, np.int64), np.zeros(0, np.int64))

    def then(self, later: IdentityChanges) -> IdentityChanges:
        """Append later changes, in which the sampler moves no instance."""
        now = later.merged
        return IdentityChanges(
            {was: now.get(key, key) for was, key in self.merged.items()} | {**now},
            {now.get(key, key): part for key, part in self.split.items()} | {**later.split},
            self.moved,
        )


class LifecycleUpdate(NamedTuple):
    """The emerging subclasses of one chain after a batch, and their changes.

    Attributes
    ----------
    chain
        The chain, including its histories.
    recent
        The remembered instances, under the current identities.
    identities
        Changes of identities.
    changes
        Subclasses that emerged, doubled, became dormant or recurred.
    ended
        Histories of announced subclasses that ended.
    seated
        The state before subclasses became dormant or were forgotten.
    refuted
        Announced identities that turned out to be part of a known class.
    regained
        Instances that had left the model with an unannounced subclass and are now in an announced one.
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
        """Append changes of the leader's identities, and update the remembered instances."""
        recent = relabel(self.recent, 0, later.merged)
        for new, (_, seqs) in later.split.items():
            recent = reseat(recent, 0, seqs, new)
        return self._replace(chain=chain, recent=recent, identities=self.identities.then(later))


def changes_without(changes: LifecycleChanges, gone: Collection[int]) -> LifecycleChanges:
    """Remove some subclasses from the changes."""
    return LifecycleChanges(*(tuple(key for key in kind if key not in gone) for kind in changes))


def open_chains(trained: TrainedModel, count: int, lasting: float) -> Chains:
    """Open ``count`` chains on the draws of a trained model, in turn. The known classes have ``lasting`` seats."""
    draws, frozen = trained.draws, trained.densities
    return tuple(open_chain(draws[at % len(draws)], frozen[at % len(draws)], lasting) for at in range(count))


def open_chain(known: Known, frozen: Densities, lasting: float) -> Chain:
    """Open a chain on known classes that have ``lasting`` seats."""
    seats = known.size * min(1.0, lasting / known.size.sum())
    state = edit.seat_classes(sampler.open_stream(known, frozen), seats)
    return Chain(known, frozen, state, lifecycle(), no_dormant(known.prior))


def opening_seats(known: Known, frozen: Densities) -> np.ndarray:
    """Log weight of each known class and, last, of a new one in a new stream (equation 10), shape (J + 1,)."""
    alpha = STREAM_ALPHA.shape / STREAM_ALPHA.rate
    share = alpha / (frozen.menu.sum() + known.gamma)
    seats = PRIOR_SEATS * known.size / known.size.sum() + share * frozen.menu
    return np.asarray(np.log(np.append(seats, share * known.gamma)))


def with_densities(chains: Chains, trained: TrainedModel) -> Chains:
    """Derive the densities of chains from an archive. Those of trained classes are shared with the trained model."""
    derived = {id(known): frozen for known, frozen in zip(trained.draws, trained.densities, strict=True)}
    for chain in chains:
        if id(chain.known) not in derived:
            derived[id(chain.known)] = densities(chain.known)
    return tuple(chain._replace(frozen=derived[id(chain.known)]) for chain in chains)


def refreshed(chain: Chain, known: Known) -> Chain:
    """Carry a chain over to changed or additional known classes."""
    frozen = densities(known)
    state = class_edits.refresh_classes(chain.state, frozen)
    return chain._replace(known=known, frozen=frozen, state=state)


def awake(chain: Chain, keys: Collection[int]) -> Chain:
    """Return these dormant subclasses to the menu."""
    for key in chain.dormant.ids.tolist():
        if key in keys:
            state, dormant = bring_back(chain.state, chain.dormant, key, None, chain.known.prior)
            chain = chain._replace(state=state, dormant=dormant)
    return chain


def sizes_of(state: StreamState) -> dict[int, int]:
    """Count the instances in each emerging subclass on the menu."""
    return dict(zip(state.ids.tolist(), state.dishes.size.tolist(), strict=True))


def move_classes(chains: Chains, move: np.ndarray) -> Chains:
    """Move the known classes of every chain by vectors of whitened coordinates, shape (J, d)."""
    known = [moved(chain.known, move) for chain in chains]
    return tuple(chain._replace(known=k, frozen=densities(k)) for chain, k in zip(chains, known, strict=True))


def follow_identities(check: ReferenceCheck | None, changes: IdentityChanges) -> ReferenceCheck | None:
    """Update the check after subclasses were merged or split."""
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
    """Give both parts of a split subclass half of the counts. The next batches separate them."""
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
