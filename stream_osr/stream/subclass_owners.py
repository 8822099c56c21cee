"""Owners of emerging subclasses: the counts of the reference check in a chain, and what follows from them.

An emerging subclass has an owner if more than half its instances are known: it repeats a known class. Such a subclass
causes no events, does not count as a new class, and its tables are no evidence of new classes (alpha0).
"""

from __future__ import annotations

import numpy as np

from stream_osr.model.jit import kernel
from stream_osr.model.responsibilities import place_of
from stream_osr.model.restaurants import StreamState
from stream_osr.stream.chain import Chain, ReferenceCheck
from stream_osr.trust.density_levels import N_LEVELS
from stream_osr.trust.known_shares import KnownShares
from stream_osr.trust.reference_counts import ReferenceCounts

LEAST_SUPPORT = 8.0
"""Remembered instances that a subclass needs before its owner may change."""
OWNED_ABOVE, UNOWNED_BELOW = 0.5, 0.4
"""Known shares above which a subclass gets an owner, and below which it loses it."""
LEAST_INSTANCES, LEAST_REFERENCES, MOST_KNOWN = 20.0, 4.0, 0.3
"""Conditions for a subclass to be mostly new: remembered instances, expected references, and largest known share."""
NOBODY = -1


def owned_by(chain: Chain) -> set[int]:
    """Identities of the subclasses that have an owner."""
    return set() if chain.check is None else set(chain.check.ids[chain.check.owner != NOBODY].tolist())


@kernel
def mostly_new(check: ReferenceCheck, many: np.ndarray) -> np.ndarray:
    """Identities of the subclasses with a small known share, supported by enough members, shape (m,).

    The members are enough if they would correspond to ``LEAST_REFERENCES`` references of any class at its share of
    the stream, or at an even share if that is larger.

    Parameters
    ----------
    check
        The check after a batch.
    many
        Number of references of each class, shape (J,).
    """
    known, counts, classes = check.known, check.counts, check.shares.classes
    out, n_classes, instances = np.zeros(len(known), np.bool_), len(classes), 0.0
    for j in range(n_classes):  # how many instances a reference stands for
        instances = max(instances, max(classes[j], 1.0 / n_classes) / max(many[j], 1.0))
    for k in range(len(known)):
        support = counts.stream[n_classes + k].sum()
        enough = support >= max(LEAST_INSTANCES, LEAST_REFERENCES * instances * counts.seen[n_classes + k])
        out[k] = enough and 0.0 <= known[k] <= MOST_KNOWN
    return check.ids[out]


def start_check(n_classes: int) -> ReferenceCheck:
    """Begin with empty counts."""
    cells, even = n_classes + 1, np.full(n_classes, 1.0 / n_classes)
    by_class = np.zeros((n_classes, cells, N_LEVELS)), np.zeros((n_classes, cells)), np.zeros(n_classes)
    counts = ReferenceCounts(np.zeros((cells, N_LEVELS)), np.zeros(cells), *by_class)
    shares = KnownShares(np.ones((cells, N_LEVELS)), even[:, None].copy(), even, 1.0)
    return ReferenceCheck(np.zeros(0, np.int64), counts, shares, np.zeros(0, np.int64), np.zeros(0), -1)


def fit_check(check: ReferenceCheck, ids: np.ndarray, n_classes: int) -> ReferenceCheck:
    """Add new subclasses and classes, and delete those that have gone.

    Until the next batch a new subclass has the known share of the cell for new subclasses, and a new class has the
    mean share.
    """
    return check if fits(check, ids, n_classes) else refitted(check, ids, n_classes)


@kernel
def fits(check: ReferenceCheck, ids: np.ndarray, n_classes: int) -> bool:
    """Return whether a check has these classes and subclasses."""
    return len(check.counts.votes) == n_classes and np.array_equal(ids, check.ids)


@kernel
def refitted(check: ReferenceCheck, ids: np.ndarray, n_classes: int) -> ReferenceCheck:
    """Return a check with the present subclasses and classes (:func:`fit_check`)."""
    counts, shares, before, new = check.counts, check.shares, len(check.counts.votes), len(check.ids)
    levels, count = counts.stream.shape[1], n_classes + len(ids) + 1
    places = np.full(count, -1)  # where each cell was; what is new comes last
    places[:n_classes] = np.where(np.arange(n_classes) < before, np.arange(n_classes), -1)
    places[count - 1] = before + new
    stream, seen, known = np.zeros((count, levels)), np.zeros(count), np.ones((count, levels))
    taken, asked_of = np.zeros((n_classes, count, levels)), np.zeros((n_classes, count))
    votes_of, classes, whose = np.zeros(n_classes), np.zeros(n_classes), np.zeros((n_classes, len(ids) + 1))
    owner, share = np.full(len(ids), NOBODY), np.full(len(ids), -1.0)
    old = min(before, n_classes)
    for k in range(len(ids)):
        slot = place_of(check.ids, ids[k])
        if slot >= 0:
            places[n_classes + k] = before + slot
            owner[k] = check.owner[slot] if check.owner[slot] < n_classes else NOBODY
            share[k] = check.known[slot]
    votes_of[:old], classes[:old] = counts.votes[:old], shares.classes[:old]
    for c in range(count):
        place = places[c]
        if place >= 0:
            stream[c], seen[c] = counts.stream[place], counts.seen[place]
        if c >= n_classes:
            known[c] = shares.known[place]  # one that has come is what new ones are
    old_asked, old_taken, old_whose = counts.total, counts.taken, shares.owner
    for j in range(old):
        asked_of[j, :old], taken[j, :old] = old_asked[j, :old], old_taken[j, :old]
        for c in range(n_classes, count):
            place = places[c]
            if place >= 0:
                asked_of[j, c], taken[j, c] = old_asked[j, place], old_taken[j, place]
            whose[j, c - n_classes] = old_whose[j, place - before if place >= 0 else new]
    for j in range(n_classes):
        classes[j] = classes[j] if classes[j] > 0.0 else 1.0 / n_classes
    return ReferenceCheck(
        ids,
        ReferenceCounts(stream, seen, taken, asked_of, votes_of),
        KnownShares(known, whose, classes / classes.sum(), shares.kappa),
        owner,
        share,
        check.estimated_at,
        check.dependent,
    )


@kernel
def owners_of(
    owner: np.ndarray, known: np.ndarray, stream: np.ndarray, shares: KnownShares
) -> tuple[np.ndarray, np.ndarray]:
    """Find the owner of each emerging subclass (:data:`NOBODY` if most is new) and its known share.

    Parameters
    ----------
    owner, known
        Results of the check before, shape (K,).
    stream, shares
        The counts, and the shares derived from them.
    """
    owner, known, n_classes = owner.copy(), known.copy(), len(shares.classes)
    for k in range(len(owner)):
        support, kept = 0.0, 0.0
        for level in range(stream.shape[1]):
            support += stream[n_classes + k, level]
            kept += stream[n_classes + k, level] * shares.known[n_classes + k, level]
        if support < LEAST_SUPPORT:
            continue
        known[k] = kept / support
        if known[k] > OWNED_ABOVE or (owner[k] != NOBODY and known[k] >= UNOWNED_BELOW):
            owner[k] = shares.owner[:, k].argmax()
        elif known[k] < UNOWNED_BELOW:
            owner[k] = NOBODY
    return owner, known


def without_openings(state: StreamState, check: ReferenceCheck, n_classes: int) -> StreamState:
    """Reset the openings of tables of subclasses that have an owner, because they are not evidence of new classes."""
    if (check.owner == NOBODY).all():
        return state
    owned = np.append(check.owner != NOBODY, False)
    dish = state.franchise.table_dish - n_classes
    founder = np.where(owned[np.where(dish >= 0, dish, -1)], 0.0, state.franchise.table_founder)
    return state._replace(franchise=state.franchise._replace(table_founder=founder))
