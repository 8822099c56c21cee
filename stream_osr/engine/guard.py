"""The guard of the known classes: references asked beside the stream, and what follows for decisions and books.

Chain by chain, after the sampler has seated a batch: the batch and a stretch of the references are asked of the
state as it is now, each without itself; :mod:`stream_osr.trust.balance` says what share of each emerging subclass is
known, and whose. What the sampler calls unknown is then divided accordingly. An emerging subclass of which more than
half is known has an owner: it describes a known class anew. No event tells of it, it counts as no new class, and its
tables are no evidence that new things come (alpha0).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from stream_osr.config import Parameters
from stream_osr.engine.state import Chain, Guard
from stream_osr.model import step as sampler
from stream_osr.model.dishes import Dishes, log_predictive_without, log_predictives
from stream_osr.model.elementwise import exp_each, largest, log_each
from stream_osr.model.franchise import menu_weights
from stream_osr.model.jit import kernel
from stream_osr.model.known import Known, log_new
from stream_osr.model.prior import FULL, Prior, homogeneous
from stream_osr.model.restaurant import StreamState
from stream_osr.model.terms import products
from stream_osr.trust.balance import N_LEVELS, Books, Shares, class_shares, level_bounds, scores, share_out
from stream_osr.trust.references import References

ASKED = 256
"""References asked with each batch, those next in order."""
REMEMBERED = 1000.0
"""Instances of the stream after which what was counted weighs half."""
ANEW = 256
"""Instances after which the share of the stream that is known is estimated again."""
LEAST_SUPPORT = 8.0
"""Remembered instances that a subclass needs before its owner may change."""
OWNED_ABOVE, FREED_BELOW = 0.5, 0.4
"""Known shares from which on a subclass gets an owner, and below which it loses it."""
NOBODY = -1


class Guarded(NamedTuple):
    """What the guard makes of a batch in one chain.

    Attributes
    ----------
    guard
        The guard after it.
    state
        The sampler's state, without the openings of subclasses that have an owner.
    result
        What the step found out, its probabilities balanced.
    references
        Numbers of the references that were asked, shape (Q,).
    probabilities
        Their probabilities, balanced as the stream's, shape (Q, J + 1).
    """

    guard: Guard
    state: StreamState
    result: sampler.BatchResult
    references: np.ndarray
    probabilities: np.ndarray


class Model(NamedTuple):
    """What the references say of the frozen densities of one chain alone.

    Attributes
    ----------
    many, total
        Number of references of each class and the sum of their log densities under it, shape (J,).
    bounds
        Bounds of the levels.
    level
        Level of each reference, shape (R,).
    confusion
        Mean over the references of each class of how probable each class is, shape (J, J).
    log_new
        Log densities under a new subclass, by the base measure that they were made with.
    rows
        Whitened rows of the references, shape (R, d).
    """

    many: np.ndarray
    total: np.ndarray
    bounds: np.ndarray
    level: np.ndarray
    confusion: np.ndarray
    log_new: dict[int, tuple[Known, np.ndarray]]
    rows: np.ndarray

    def new_of(self, chain: Chain) -> np.ndarray:
        """Log density of each reference as the first of a new subclass, which no label changes; shape (R,)."""
        key = id(chain.known.prior)
        if key not in self.log_new:
            self.log_new[key] = (chain.known, log_new(chain.known, homogeneous(self.rows)))
        return self.log_new[key][1]

    def levels(self, log_density: np.ndarray) -> np.ndarray:
        """Level of each instance by its log densities under the known classes, (n, J); shape (n,)."""
        return np.asarray(np.searchsorted(self.bounds, scores(log_density, self.many, self.total)))


class _Held:
    """References as the key of a cache: one is as good as itself only."""

    def __init__(self, references: References) -> None:
        self.references = references

    def __hash__(self) -> int:
        return id(self.references.group)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Held) and self.references is other.references


def model_of(references: References, number: int) -> Model:
    """Sum up what the references say of the densities of chain ``number``; made once for each set of references."""
    return _model_of(_Held(references), number % len(references.log_density))


@lru_cache(maxsize=64)
def _model_of(held: _Held, number: int) -> Model:
    references = held.references
    log_density, group = references.log_density[number], references.group
    n_classes = log_density.shape[1]
    count = np.bincount(group, minlength=n_classes).astype(float)
    total = np.bincount(group, log_density[np.arange(len(group)), group], minlength=n_classes)
    score = scores(log_density, count, total, group)
    bounds = level_bounds(score, group)
    vote = votes(log_density)
    confusion = np.eye(n_classes)
    for j in np.unique(group):
        confusion[j] = vote[group == j].mean(axis=0)
    return Model(count, total, bounds, np.searchsorted(bounds, score), confusion, {}, references.rows)


def votes(log_density: np.ndarray) -> np.ndarray:
    """How probable each class is by its density alone, shape (n, J)."""
    weight = np.exp(log_density - log_density.max(axis=1, keepdims=True))
    return np.asarray(weight / weight.sum(axis=1, keepdims=True))


def follow_balance(
    chain: Chain,
    state: StreamState,
    references: References,
    number: int,
    rows: np.ndarray,
    result: sampler.BatchResult,
    parameters: Parameters,
    shifts: np.ndarray | None = None,
) -> Guarded:
    """Take a batch into the books, and balance its probabilities.

    Parameters
    ----------
    chain
        The chain before the batch.
    state
        The sampler's state after it.
    references
        Those of the stream's known classes.
    number
        Of the chain.
    rows
        Whitened rows of the batch, shape (b, d).
    result
        What the step found out.
    parameters
        Of the seats' half-life, and whether decisions wait.
    shifts
        How far each known class has moved with its instances, whitened, shape (J, d): its references go with it.
    """
    known, n = chain.known, len(rows)
    n_classes = len(known.size)
    model = model_of(references, number)
    guard = fit_guard(start_guard(n_classes) if chain.guard is None else chain.guard, state.ids, n_classes)
    fade = 0.5 ** (n / REMEMBERED)
    books = Books(*(fade * each for each in guard.books))
    own_density = references.log_density[number % len(references.log_density)]
    at = (chain.state.batches * ASKED + np.arange(min(ASKED, len(own_density)))) % len(own_density)
    group, level = references.group[at], model.level[at]
    where = references.rows[at] if shifts is None else references.rows[at] + shifts[group]
    asked = cells_of(chain, state, where, own_density[at], None if shifts is not None else model.new_of(chain)[at])
    n_levels = len(model.bounds) + 1
    place = np.zeros((n_classes * n_levels, len(at)))
    place[group * n_levels + level, np.arange(len(at))] = 1.0
    books.taken[:] += (place @ asked).reshape(n_classes, n_levels, -1).transpose(0, 2, 1)
    books.asked[:] += np.bincount(group, minlength=n_classes)[:, None]
    weight = 0.5 ** (n / parameters.half_life)
    cells = cells_of(
        chain, state, rows, result.log_density, result.log_density_new, subclass=result.subclass, weight=weight
    )
    levels = model.levels(result.log_density)
    of_level = (levels[:, None] == np.arange(n_levels)).astype(float)
    books.stream[:] += cells.T @ of_level
    books.seen[:] += n
    classes = class_shares(books.votes, model.confusion, known.size / known.size.sum())
    due = guard.estimated_at < 0 or state.seen - guard.estimated_at >= ANEW
    shares = share_out(books, classes, model.many, None if due else guard.shares.kappa, guard.known)
    probabilities = balance(shares, result.probabilities, cells, levels, result.log_density)
    books.votes[:] += (1.0 - probabilities[:, -1]) @ votes(result.log_density)
    owner, part = _owners(guard, books, shares, n_classes)
    guard = guard._replace(
        books=books,
        shares=shares,
        owner=owner,
        known=part,
        estimated_at=state.seen if due else guard.estimated_at,
    )
    result = result._replace(probabilities=probabilities)
    if parameters.decision_delay and len(result.window_seq):
        result = result._replace(window_probabilities=_balance_window(chain, state, guard, model, result, weight))
    of_references = np.column_stack([asked[:, :n_classes], asked[:, n_classes:].sum(axis=1)])
    found = balance(shares, of_references, asked, level, own_density[at])
    return Guarded(guard, without_openings(state, guard, n_classes), result, at, found)


def _balance_window(
    chain: Chain, state: StreamState, guard: Guard, model: Model, result: sampler.BatchResult, weight: float
) -> np.ndarray:
    """Balance the probabilities of the window's instances."""
    log_density = result.window_log_density
    rows = chain.state.window.rows[:, :-1]
    held = weight * chain.state.window.weight
    cells = cells_of(chain, state, rows, log_density, subclass=result.window_subclass, weight=held)
    levels = model.levels(log_density)
    return balance(guard.shares, result.window_probabilities, cells, levels, log_density)


def start_guard(n_classes: int) -> Guard:
    """Begin with nothing counted."""
    n_levels, cells = N_LEVELS, n_classes + 1
    books = Books(
        np.zeros((cells, n_levels)),
        np.zeros(cells),
        np.zeros((n_classes, cells, n_levels)),
        np.zeros((n_classes, cells)),
        np.zeros(n_classes),
    )
    even = np.full(n_classes, 1.0 / n_classes)
    shares = Shares(np.ones((cells, n_levels)), even[:, None].copy(), even, 1.0)
    return Guard(np.zeros(0, np.int64), books, shares, np.zeros(0, np.int64), np.zeros(0), -1)


def fit_guard(guard: Guard, ids: np.ndarray, n_classes: int) -> Guard:
    """Make room for subclasses and classes that have come, and forget those that have gone.

    Until the next batch a subclass that has come is what new ones are, and a class has the mean share.
    """
    books, shares, before = guard.books, guard.shares, len(guard.books.votes)
    if before == n_classes and np.array_equal(ids, guard.ids):
        return guard
    place = {key: at for at, key in enumerate(guard.ids.tolist())}
    new = len(guard.ids)
    classes = [j if j < before else -1 for j in range(n_classes)]
    slots = [place.get(key, -1) for key in ids.tolist()]
    cells = [*classes, *(before + slot if slot >= 0 else -1 for slot in slots), before + new]
    owner = np.append(guard.owner, NOBODY)[slots]
    known = np.ones((n_classes + len(ids) + 1, shares.known.shape[1]))
    known[n_classes:] = shares.known[before:][[*(slot if slot >= 0 else new for slot in slots), new]]
    whose = _taken_over(shares.owner, classes, 0)[:, [*(slot if slot >= 0 else new for slot in slots), new]]
    mix = _taken_over(shares.classes, classes, 0)
    mix = np.where(mix > 0.0, mix, 1.0 / n_classes)
    return guard._replace(
        ids=ids,
        books=Books(
            _taken_over(books.stream, cells, 0),
            _taken_over(books.seen, cells, 0),
            _taken_over(_taken_over(books.taken, classes, 0), cells, 1),
            _taken_over(_taken_over(books.asked, classes, 0), cells, 1),
            _taken_over(books.votes, classes, 0),
        ),
        shares=shares._replace(known=known, owner=whose, classes=mix / mix.sum()),
        owner=np.where(owner < n_classes, owner, NOBODY),
        known=np.append(guard.known, -1.0)[slots],
    )


def _taken_over(values: np.ndarray, places: list[int], axis: int) -> np.ndarray:
    """Take values from these places along an axis, zeros where the place is -1."""
    wider = np.concatenate([values, np.zeros_like(values.take([0], axis))], axis)
    return np.asarray(wider.take(places, axis))


def rename(guard: Guard | None, joined: Mapping[int, int], parted: Mapping[int, int]) -> Guard | None:
    """Go on after subclasses were joined, and others parted off the one that they were part of."""
    if guard is None or not (joined or parted):
        return guard
    n_classes = len(guard.books.votes)
    guard = guard._replace(books=Books(*(each.copy() for each in guard.books)))
    for younger, older in joined.items():
        guard = _join(guard, younger, older, n_classes)
    for new, old in parted.items():
        guard = _part(guard, new, old, n_classes)
    return guard


def _join(guard: Guard, younger: int, older: int, n_classes: int) -> Guard:
    ids = guard.ids.tolist()
    if younger in ids and older in ids:
        one, other = n_classes + ids.index(younger), n_classes + ids.index(older)
        guard.books.stream[other] += guard.books.stream[one]
        guard.books.taken[:, other] += guard.books.taken[:, one]
    return guard._replace(ids=np.where(guard.ids == younger, -1 if older in ids else older, guard.ids))


def _part(guard: Guard, new: int, old: int, n_classes: int) -> Guard:
    """Let both parts have half of what was counted: the next batches tell them apart."""
    ids = guard.ids.tolist()
    if old not in ids or new in ids:
        return guard
    at = ids.index(old)
    cell, last = n_classes + at, n_classes + len(ids)
    books, shares = guard.books, guard.shares
    books.stream[cell] *= 0.5
    books.taken[:, cell] *= 0.5
    return guard._replace(
        ids=np.append(guard.ids, new),
        books=books._replace(
            stream=np.insert(books.stream, last, books.stream[cell], axis=0),
            seen=np.insert(books.seen, last, books.seen[cell]),
            taken=np.insert(books.taken, last, books.taken[:, cell], axis=1),
            asked=np.insert(books.asked, last, books.asked[:, cell], axis=1),
        ),
        shares=shares._replace(
            known=np.insert(shares.known, last, shares.known[cell], axis=0),
            owner=np.insert(shares.owner, last - n_classes, shares.owner[:, at], axis=1),
        ),
        owner=np.append(guard.owner, guard.owner[at]),
        known=np.append(guard.known, guard.known[at]),
    )


def _owners(guard: Guard, books: Books, shares: Shares, n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Say whose each emerging subclass is, :data:`NOBODY`'s if most of it is new, and what share of it is known."""
    stream = books.stream[n_classes:-1]
    support = stream.sum(axis=1)
    enough = support >= LEAST_SUPPORT
    now = (stream * shares.known[n_classes:-1]).sum(axis=1) / np.maximum(support, 1e-12)
    known = np.where(enough, now, guard.known)
    owner = guard.owner.copy()
    owner[enough & (known < FREED_BELOW)] = NOBODY
    gets = enough & ((known > OWNED_ABOVE) | ((guard.owner != NOBODY) & (known >= FREED_BELOW)))
    owner[gets] = shares.owner[:, :-1].argmax(axis=0)[gets]
    return owner, known


def without_openings(state: StreamState, guard: Guard, n_classes: int) -> StreamState:
    """Forget who opened the tables of subclasses that have an owner: nothing new has come with them."""
    owned = np.flatnonzero(guard.owner != NOBODY) + n_classes
    if not len(owned):
        return state
    franchise = state.franchise
    theirs = np.isin(franchise.table_dish, owned)
    return state._replace(franchise=franchise._replace(table_founder=np.where(theirs, 0.0, franchise.table_founder)))


def balance(
    shares: Shares, probabilities: np.ndarray, cells: np.ndarray, level: np.ndarray, log_density: np.ndarray
) -> np.ndarray:
    """Divide what the sampler calls unknown, and state the known classes by their shares in the stream.

    Parameters
    ----------
    shares
        What the books say.
    probabilities
        As the sampler has them: known classes and, last, unknown, shape (n, J + 1).
    cells
        Responsibilities of the cells, shape (n, C).
    level
        Level of each instance, shape (n,).
    log_density
        Under each known class, shape (n, J).

    Returns
    -------
    Probabilities of shape (n, J + 1).
    """
    n_classes = log_density.shape[1]
    new = cells[:, n_classes:]
    part = new / np.maximum(new.sum(axis=1, keepdims=True), 1e-300)
    weight = np.exp(log_density - log_density.max(axis=1, keepdims=True))
    back = part * shares.known[n_classes:].T[level]
    unknown = probabilities[:, -1:]
    returned = unknown * back.sum(axis=1, keepdims=True)
    own, theirs = shares.classes * weight, (back @ shares.owner.T) * weight
    out = np.empty_like(probabilities)
    out[:, :-1] = own / own.sum(axis=1, keepdims=True) * (1.0 - unknown)
    out[:, :-1] += theirs / np.maximum(theirs.sum(axis=1, keepdims=True), 1e-300) * returned
    out[:, -1] = np.maximum(1.0 - out[:, :-1].sum(axis=1), 0.0)
    return out


def cells_of(
    chain: Chain,
    state: StreamState,
    rows: np.ndarray,
    log_density: np.ndarray,
    log_density_new: np.ndarray | None = None,
    *,
    subclass: np.ndarray | None = None,
    weight: float | np.ndarray = 0.0,
) -> np.ndarray:
    """Ask of the present state where whitened rows of shape (n, d) would sit: equation (10), each row without itself.

    Parameters
    ----------
    chain
        Its known classes.
    state
        The sampler's state.
    rows, log_density
        Whitened rows, and their log densities under the known classes, shape (n, J).
    log_density_new
        Their log densities under a new subclass, shape (n,), if they are at hand.
    subclass
        Emerging subclass that each row is part of, -1: none.
    weight
        What their seats weigh.

    Returns
    -------
    Probability of each known class, each emerging subclass and a new one, shape (n, J + K + 1).
    """
    known, franchise, instances = chain.known, state.franchise, homogeneous(rows)
    n_classes = len(known.size)
    log_seats = log_seats_of(state)
    if known.prior.covariance == FULL:
        terms, dishes = known.prior.n_features + 1, state.dishes
        a, b = np.tril_indices(terms)
        packed = dishes.inverse[:, a, b] * np.where(a == b, 1.0, 2.0)
        head = dishes.constant[:, 0] - 0.5 * dishes.log_det
        power = 0.5 * (known.prior.nu + dishes.size + 1.0)
        log_emerging = _log_emerging(
            packed @ products(np.ascontiguousarray(instances.T)), head, power, 1.0 / (known.prior.beta + dishes.size)
        )
    else:
        log_emerging = log_predictives(instances, state.dishes, known.prior)
    fresh = log_new(known, instances) if log_density_new is None else log_density_new
    log_weight = np.concatenate([log_density, log_emerging, fresh[:, None]], axis=1) + log_seats
    if subclass is not None:
        order = np.argsort(state.ids)
        at = np.append(order, 0)[np.searchsorted(state.ids[order], subclass)]
        inside = (subclass >= 0) & (np.append(state.ids, -1)[at] == subclass)
        weights = np.broadcast_to(np.asarray(weight, float), len(rows)).copy()
        slot = np.where(inside, at, -1)
        share = franchise.alpha[0] / (franchise.total[0] + franchise.gamma[0])
        own = franchise.seated[0], menu_weights(franchise)
        _leave_out(log_weight, instances, slot, weights, *own, share, n_classes, state.dishes, known.prior)
    _normalize(log_weight)
    return np.asarray(log_weight)


def log_seats_of(state: StreamState) -> np.ndarray:
    """Log weight of a seat at each dish, and of a new one, in equation (10), shape (J + K + 1,)."""
    franchise = state.franchise
    share = franchise.alpha[0] / (franchise.total[0] + franchise.gamma[0])
    tables = menu_weights(franchise)
    seats = np.where(tables > 0.0, franchise.seated[0] + share * tables, 0.0)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(np.append(seats, share * franchise.gamma[0])))


@kernel
def _log_emerging(value: np.ndarray, head: np.ndarray, power: np.ndarray, least: np.ndarray) -> np.ndarray:
    """Log densities of n rows under K subclasses, from their forms of shape (K, n); shape (n, K)."""
    count, n = value.shape
    for k in range(count):
        for i in range(n):
            value[k, i] = 1.0 + max(value[k, i], least[k])
    log_each(value.reshape(value.size))
    out = np.empty((n, count))
    for k in range(count):
        for i in range(n):
            out[i, k] = head[k] - power[k] * value[k, i]
    return out


@kernel
def _leave_out(
    log_weight: np.ndarray,
    instances: np.ndarray,
    slot: np.ndarray,
    weight: np.ndarray,
    seated: np.ndarray,
    tables: np.ndarray,
    share: float,
    n_classes: int,
    dishes: Dishes,
    prior: Prior,
) -> None:
    """Weigh each instance's own subclass, at ``slot`` (-1: none), without it and its seat."""
    for i in range(len(slot)):
        k = slot[i]
        if k >= 0:
            left = max(seated[n_classes + k] - weight[i], 0.0) + share * tables[n_classes + k]
            log_weight[i, n_classes + k] = -np.inf
            if dishes.size[k] > 1 and left > 0.0:
                log_weight[i, n_classes + k] = log_predictive_without(dishes, k, instances[i], prior) + np.log(left)


@kernel
def _normalize(weight: np.ndarray) -> None:
    """Turn log weights into weights that add up to one in each row."""
    for i in range(weight.shape[0]):
        peak = largest(weight[i])
        for k in range(weight.shape[1]):
            weight[i, k] -= peak
        exp_each(weight[i])
        total = 0.0
        for k in range(weight.shape[1]):
            total += weight[i, k]
        for k in range(weight.shape[1]):
            weight[i, k] /= total
