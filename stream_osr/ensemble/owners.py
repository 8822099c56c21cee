"""What the guard of a chain is: begun, fitted to subclasses that come and go, and whose each subclass is."""

from __future__ import annotations

import numpy as np

from stream_osr.ensemble.chain import Chain, Guard
from stream_osr.model.franchise import StreamState
from stream_osr.model.jit import kernel
from stream_osr.model.responsibilities import place_of
from stream_osr.trust.balance import Books, Shares
from stream_osr.trust.levels import N_LEVELS

LEAST_SUPPORT = 8.0
"""Remembered instances that a subclass needs before its owner may change."""
OWNED_ABOVE, FREED_BELOW = 0.5, 0.4
"""Known shares from which on a subclass gets an owner, and below which it loses it."""
MANY, EXPECTED, MOSTLY_NEW = 20.0, 4.0, 0.3
"""A subclass with so many remembered instances, and so many references if it were known, is mostly new if this share
of it is known at most."""
NOBODY = -1


def owned_by(chain: Chain) -> set[int]:
    """Identities of the subclasses that have an owner."""
    return set() if chain.guard is None else set(chain.guard.ids[chain.guard.owner != NOBODY].tolist())


def mostly_new(guard: Guard, many: np.ndarray) -> np.ndarray:
    """Identities of the subclasses of which little is known, by what references say of many members, shape (m,).

    Members are many if they would be ``EXPECTED`` references, were they of the class that has the fewest and has its
    share of the stream, an even one at least.

    Parameters
    ----------
    guard
        The guard after a batch.
    many
        Number of the references of each class, shape (J,).
    """
    return np.asarray(guard.ids[_mostly_new(guard.known, guard.books, guard.shares.classes, many)])


@kernel
def _mostly_new(known: np.ndarray, books: Books, classes: np.ndarray, many: np.ndarray) -> np.ndarray:
    out, n_classes, instances = np.zeros(len(known), np.bool_), len(classes), 0.0
    for j in range(n_classes):  # how many instances a reference stands for
        instances = max(instances, max(classes[j], 1.0 / n_classes) / max(many[j], 1.0))
    for k in range(len(known)):
        support = books.stream[n_classes + k].sum()
        enough = support >= max(MANY, EXPECTED * instances * books.seen[n_classes + k])
        out[k] = enough and 0.0 <= known[k] <= MOSTLY_NEW
    return out


def start_guard(n_classes: int) -> Guard:
    """Begin with nothing counted."""
    n_levels, cells = N_LEVELS, n_classes + 1
    shapes = (cells, n_levels), (cells,), (n_classes, cells, n_levels), (n_classes, cells), (n_classes,)
    books = Books(*(np.zeros(shape) for shape in shapes))
    even = np.full(n_classes, 1.0 / n_classes)
    shares = Shares(np.ones((cells, n_levels)), even[:, None].copy(), even, 1.0)
    return Guard(np.zeros(0, np.int64), books, shares, np.zeros(0, np.int64), np.zeros(0), -1)


def fit_guard(guard: Guard, ids: np.ndarray, n_classes: int) -> Guard:
    """Make room for subclasses and classes that have come, and forget those that have gone.

    Until the next batch a subclass that has come is what new ones are, and a class has the mean share.
    """
    if len(guard.books.votes) == n_classes and np.array_equal(ids, guard.ids):
        return guard
    return fitted(guard, ids, n_classes)


@kernel
def fitted(guard: Guard, ids: np.ndarray, n_classes: int) -> Guard:
    """Do what :func:`fit_guard` does where something has changed."""
    books, shares, before, new = guard.books, guard.shares, len(guard.books.votes), len(guard.ids)
    levels, count = books.stream.shape[1], n_classes + len(ids) + 1
    places = np.full(count, -1)  # where each cell was; what is new comes last
    places[:n_classes] = np.where(np.arange(n_classes) < before, np.arange(n_classes), -1)
    places[count - 1] = before + new
    stream, seen, known = np.zeros((count, levels)), np.zeros(count), np.ones((count, levels))
    taken, asked_of = np.zeros((n_classes, count, levels)), np.zeros((n_classes, count))
    votes_of, classes, whose = np.zeros(n_classes), np.zeros(n_classes), np.zeros((n_classes, len(ids) + 1))
    owner, share = np.full(len(ids), NOBODY), np.full(len(ids), -1.0)
    old = min(before, n_classes)
    for k in range(len(ids)):
        slot = place_of(guard.ids, ids[k])
        if slot >= 0:
            places[n_classes + k] = before + slot
            owner[k] = guard.owner[slot] if guard.owner[slot] < n_classes else NOBODY
            share[k] = guard.known[slot]
    votes_of[:old], classes[:old] = books.votes[:old], shares.classes[:old]
    for c in range(count):
        place = places[c]
        if place >= 0:
            stream[c], seen[c] = books.stream[place], books.seen[place]
        if c >= n_classes:
            known[c] = shares.known[place]  # one that has come is what new ones are
    old_asked, old_taken, old_whose = books.asked, books.taken, shares.owner
    for j in range(old):
        for c in range(count):
            place = places[c]
            if place >= 0:
                asked_of[j, c] = old_asked[j, place]
                for level in range(levels):
                    taken[j, c, level] = old_taken[j, place, level]
            if c >= n_classes:
                whose[j, c - n_classes] = old_whose[j, place - before if place >= 0 else new]
    for j in range(n_classes):
        classes[j] = classes[j] if classes[j] > 0.0 else 1.0 / n_classes
    return Guard(
        ids,
        Books(stream, seen, taken, asked_of, votes_of),
        Shares(known, whose, classes / classes.sum(), shares.kappa),
        owner,
        share,
        guard.estimated_at,
        guard.dependent,
    )


@kernel
def owners_of(
    owner: np.ndarray, known: np.ndarray, stream: np.ndarray, shares: Shares
) -> tuple[np.ndarray, np.ndarray]:
    """Say whose each emerging subclass is, :data:`NOBODY`'s if most of it is new, and what share of it is known.

    Parameters
    ----------
    owner, known
        What was said before, shape (K,).
    stream, shares
        What the books count, and what they say.
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
        if known[k] > OWNED_ABOVE or (owner[k] != NOBODY and known[k] >= FREED_BELOW):
            owner[k] = shares.owner[:, k].argmax()
        elif known[k] < FREED_BELOW:
            owner[k] = NOBODY
    return owner, known


def without_openings(state: StreamState, guard: Guard, n_classes: int) -> StreamState:
    """Forget who opened the tables of subclasses that have an owner: nothing new has come with them."""
    owned = np.append(guard.owner != NOBODY, False)
    if not owned.any():
        return state
    dish = state.franchise.table_dish - n_classes
    founder = np.where(owned[np.where(dish >= 0, dish, -1)], 0.0, state.franchise.table_founder)
    return state._replace(franchise=state.franchise._replace(table_founder=founder))
