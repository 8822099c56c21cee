"""The guard of the known classes: references asked beside the stream, and what follows for decisions and books.

Chain by chain, after the sampler has seated a batch: the batch and a stretch of the references are asked of the
state as it is now, each without itself; :mod:`stream_osr.trust.balance` says what share of each emerging subclass is
known, and whose. What the sampler calls unknown is then divided accordingly. An emerging subclass of which more than
half is known has an owner: it describes a known class anew. No event tells of it, it counts as no new class, and its
tables are no evidence that new things come (alpha0).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from stream_osr.config import Parameters
from stream_osr.ensemble.chain import Chain, Chains, Guard
from stream_osr.ensemble.step import Judged, Seated
from stream_osr.model.cells import cells_of
from stream_osr.model.known import Known, log_new
from stream_osr.model.prior import homogeneous
from stream_osr.model.restaurant import StreamState
from stream_osr.parallel import each
from stream_osr.trust.balance import N_LEVELS, Books, Shares, class_shares, level_bounds, scores, share_out
from stream_osr.trust.conformal import call_known, plausible
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

    def new_of(self, known: Known) -> np.ndarray:
        """Log density of each reference as the first of a new subclass, which no label changes; shape (R,)."""
        key = id(known.prior)
        if key not in self.log_new:
            self.log_new[key] = (known, log_new(known, homogeneous(self.rows)))
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


def ask_references(
    seated: Sequence[Seated],
    references: References,
    rows: np.ndarray,
    parameters: Parameters,
    shifts: np.ndarray | None = None,
) -> list[Seated]:
    """Ask the references in each chain, in threads, and balance what the sampler has found.

    Parameters
    ----------
    seated
        The chains, and what the sampler has made of the batch.
    references
        Those of the stream's known classes.
    rows
        Whitened rows of the batch, shape (b, d).
    parameters
        Of the seats' half-life, of threads, and whether decisions wait.
    shifts
        How far each known class has moved with its instances, whitened, shape (J, d): its references go with it.
    """
    return each(
        lambda number: _follow_balance(seated[number], number, references, rows, parameters, shifts),
        range(len(seated)),
        parameters.n_jobs,
    )


def _follow_balance(
    seated: Seated,
    number: int,
    references: References,
    rows: np.ndarray,
    parameters: Parameters,
    shifts: np.ndarray | None,
) -> Seated:
    """Take a batch into the books of a chain, and balance its probabilities."""
    chain, state, result = seated[:3]
    known, n = chain.known, len(rows)
    n_classes = len(known.size)
    model = model_of(references, number)
    guard = fit_guard(chain.guard or start_guard(n_classes), state.ids, n_classes)
    fade = 0.5 ** (n / REMEMBERED)
    books = Books(*(fade * counts for counts in guard.books))
    own_density = references.log_density[number % len(references.log_density)]
    at = (chain.state.batches * ASKED + np.arange(min(ASKED, len(own_density)))) % len(own_density)
    group, level = references.group[at], model.level[at]
    where = references.rows[at] if shifts is None else references.rows[at] + shifts[group]
    asked = cells_of(known, state, where, own_density[at], None if shifts is not None else model.new_of(known)[at])
    n_levels = len(model.bounds) + 1
    place = np.zeros((n_classes * n_levels, len(at)))
    place[group * n_levels + level, np.arange(len(at))] = 1.0
    books.taken[:] += (place @ asked).reshape(n_classes, n_levels, -1).transpose(0, 2, 1)
    books.asked[:] += np.bincount(group, minlength=n_classes)[:, None]
    weight = 0.5 ** (n / parameters.half_life)
    cells = cells_of(
        known, state, rows, result.log_density, result.log_density_new, subclass=result.subclass, weight=weight
    )
    levels = model.levels(result.log_density)
    books.stream[:] += cells.T @ (levels[:, None] == np.arange(n_levels)).astype(float)
    books.seen[:] += n
    classes = class_shares(books.votes, model.confusion, known.size / known.size.sum())
    due = guard.estimated_at < 0 or state.seen - guard.estimated_at >= ANEW
    shares = share_out(books, classes, model.many, None if due else guard.shares.kappa, guard.known)
    probabilities = balance(shares, result.probabilities, cells, levels, result.log_density)
    books.votes[:] += (1.0 - probabilities[:, -1]) @ votes(result.log_density)
    owner, part = _owners(guard, books, shares, n_classes)
    guard = Guard(guard.ids, books, shares, owner, part, state.seen if due else guard.estimated_at)
    result = result._replace(probabilities=probabilities)
    if parameters.decision_delay and len(result.window_seq):
        held = chain.state.window
        log_density, subclass = result.window_log_density, result.window_subclass
        cells = cells_of(known, state, held.rows[:, :-1], log_density, subclass=subclass, weight=weight * held.weight)
        window = balance(shares, result.window_probabilities, cells, model.levels(log_density), log_density)
        result = result._replace(window_probabilities=window)
    return seated._replace(
        state=without_openings(state, guard, n_classes),
        result=result,
        guard=guard,
        references=at,
        probabilities=balance(shares, in_classes(asked, n_classes), asked, level, own_density[at]),
    )


def asked_together(judged: Judged) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Average what the chains say of the references: their numbers, probabilities, and the shares of the classes."""
    shares = [one.guard.shares.classes for one in judged.seated if one.guard is not None]
    probabilities = np.mean([one.probabilities for one in judged.seated], axis=0)
    return judged.seated[0].references, probabilities, np.mean(shares, axis=0)


def keep_promise(seated: Sequence[Seated], references: References, max_false_unknown: float | None) -> list[Seated]:
    """Call nobody unknown who is plausible for a known class, if that is promised."""
    results = [one.result for one in seated]
    if max_false_unknown is None:
        return list(seated)
    batch = plausible(references, np.mean([r.log_density for r in results], axis=0), max_false_unknown)
    results = [r._replace(probabilities=call_known(r.probabilities, batch)) for r in results]
    if len(results[0].window_seq):  # only looked at where decisions wait
        window = plausible(references, np.mean([r.window_log_density for r in results], axis=0), max_false_unknown)
        results = [r._replace(window_probabilities=call_known(r.window_probabilities, window)) for r in results]
    return [one._replace(result=result) for one, result in zip(seated, results, strict=True)]


def in_classes(cells: np.ndarray, n_classes: int) -> np.ndarray:
    """Sum up where rows would sit: known classes and, last, all else, shape (n, J + 1)."""
    return np.column_stack([cells[:, :n_classes], cells[:, n_classes:].sum(axis=1)])


def shares_of(chains: Chains) -> list[Shares | None]:
    """Say what the books of each chain make of the present state."""
    fitted = (chain.guard and fit_guard(chain.guard, chain.state.ids, len(chain.known.size)) for chain in chains)
    return [guard and guard.shares for guard in fitted]


def owned_by(chain: Chain) -> set[int]:
    """Identities of the subclasses that have an owner."""
    return set() if chain.guard is None else set(chain.guard.ids[chain.guard.owner != NOBODY].tolist())


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
    books, shares, before = guard.books, guard.shares, len(guard.books.votes)
    if before == n_classes and np.array_equal(ids, guard.ids):
        return guard
    place = {key: at for at, key in enumerate(guard.ids.tolist())}
    new = len(guard.ids)
    classes = [j if j < before else -1 for j in range(n_classes)]
    slots = [place.get(key, -1) for key in ids.tolist()]
    cells = [*classes, *(before + slot if slot >= 0 else -1 for slot in slots), before + new]
    owner, shown = np.append(guard.owner, NOBODY)[slots], [*(slot if slot >= 0 else new for slot in slots), new]
    known = np.ones((n_classes + len(ids) + 1, shares.known.shape[1]))
    known[n_classes:] = shares.known[before:][shown]
    whose = _taken_over(shares.owner, classes, 0)[:, shown]
    stream, seen = (_taken_over(counts, cells, 0) for counts in books[:2])
    taken, asked, votes = (_taken_over(counts, classes, 0) for counts in books[2:])
    mix = _taken_over(shares.classes, classes, 0)
    mix = np.where(mix > 0.0, mix, 1.0 / n_classes)
    return guard._replace(
        ids=ids,
        books=Books(stream, seen, _taken_over(taken, cells, 1), _taken_over(asked, cells, 1), votes),
        shares=shares._replace(known=known, owner=whose, classes=mix / mix.sum()),
        owner=np.where(owner < n_classes, owner, NOBODY),
        known=np.append(guard.known, -1.0)[slots],
    )


def _taken_over(values: np.ndarray, places: list[int], axis: int) -> np.ndarray:
    """Take values from these places along an axis, zeros where the place is -1."""
    wider = np.concatenate([values, np.zeros_like(values.take([0], axis))], axis)
    return np.asarray(wider.take(places, axis))


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
