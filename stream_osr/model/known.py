"""Summary of the known classes: the result of training that the stream uses.

For seating, a known class is one dish with one density ``F_j(x) = sum_k n_jk / (n_j + alpha0) f_k(x)``. The sum runs
over the subclasses that hold at least the share epsilon of the class. Background components
(:mod:`stream_osr.model.background_components`) take the remaining mass. The dish's menu weight is the number of
tables of the class.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np

from stream_osr.model import student_t
from stream_osr.model.background_components import BackgroundComponent, add_background_component, log_missing
from stream_osr.model.categories import log_table, places_of
from stream_osr.model.dish_statistics import Dishes, add, copy_slots, log_predictive, log_predictive_without
from stream_osr.model.jit import Array, kernel
from stream_osr.model.prior import Prior
from stream_osr.support import rules

N_RANKS = 101


class Known(NamedTuple):
    """J known classes made of K subclasses.

    Attributes
    ----------
    prior
        Base measure.
    dishes
        Statistics of the subclasses.
    ids
        Identity of each subclass, shape (K,).
    seated
        Instances of each class in each subclass, n_jk, shape (J, K).
    tables
        Tables of each class that serve each subclass, shape (J, K).
    size
        Instances of each class, including those of dropped subclasses, shape (J,).
    alpha, gamma
        Concentrations as trained.
    epsilon
        Share of a class below which a subclass does not count.
    ranks
        Evenly spaced quantiles of the leave-one-out log densities of each class, ascending, shape (J, 101).
    location
        Density of the first instance of a new subclass.
    background_components
        Background components of each class, J or fewer. Empty if there are none.
    named
        Identities of subclasses that a person has named. They count whatever their share of the class.
    """

    prior: Annotated[Prior, rules.sizes("d")]
    dishes: Annotated[Dishes, rules.sizes("K")]
    ids: Annotated[Array, rules.array("i", "K", low=0), rules.distinct, rules.some]
    seated: Annotated[Array, rules.array("f", "J", "K", low=0.0, high=1e15), rules.counted]
    tables: Annotated[Array, rules.array("f", "J", "K", low=0.0, high=1e15), rules.counted]
    size: Annotated[Array, rules.array("f", "J", low=0.0, high=1e15), rules.counted, rules.some]
    alpha: Annotated[float, rules.number(1e-300, 1e12)]
    gamma: Annotated[float, rules.number(1e-300, 1e12)]
    epsilon: rules.Share
    ranks: Annotated[Array, rules.array("f", "J", "101", allowed=("-inf",)), rules.ascending]
    location: student_t.Location = student_t.CONJUGATE
    background_components: tuple[tuple[Annotated[BackgroundComponent, rules.sizes("d")], ...], ...] = ()
    named: tuple[rules.Count, ...] = ()


class Densities(NamedTuple):
    """Terms of the frozen densities, derived from :class:`Known` once per change.

    Attributes
    ----------
    student_terms
        The J class densities and, last, that of a new subclass, as sums of Student-t densities.
    log_weight
        ``log(n_jk / (n_j + alpha0))``, minus infinity if the subclass is not part of the class, shape (J, K).
    menu
        Trained tables of each class (its weight on the stream's menu), at least 1, shape (J,).
    """

    student_terms: student_t.StudentTerms
    log_weight: Array
    menu: Array


def densities(known: Known) -> Densities:
    """Derive the frozen densities."""
    kept = _kept(known)
    with np.errstate(divide="ignore"):
        log_weight = np.log(np.where(kept, known.seated / (known.size + known.alpha)[:, None], 0.0))
    sums = _terms(known, log_weight)
    return Densities(student_t.pack(sums, known.prior.n_features, len(known.prior.pseudo)), log_weight, menu(known))


def menu(known: Known) -> Array:
    """Return the number of tables of each class in its own subclasses, shape (J,)."""
    return np.asarray(np.maximum(np.where(_kept(known), known.tables, 0.0).sum(axis=1), 1.0))


def _kept(known: Known) -> Array:
    """Whether a subclass is part of a class, shape (J, K)."""
    share = known.seated / np.maximum(known.size, 1.0)[:, None]
    return np.asarray(((share >= known.epsilon) | np.isin(known.ids, known.named)) & (known.seated > 0))


def background_of_each(known: Known) -> tuple[tuple[BackgroundComponent, ...], ...]:
    """Return the background components of every class. A class without instances has none."""
    components = (*known.background_components, *[()] * (len(known.size) - len(known.background_components)))
    return tuple(each if n else () for each, n in zip(components, known.size.tolist(), strict=True))


def _terms(known: Known, log_weight: Array) -> list[list[student_t.StudentTerm]]:
    """Terms of each class density, including its background component, and of the density of a new subclass."""
    dishes, prior = known.dishes, known.prior
    components, missing, sums = background_of_each(known), log_missing(log_weight), []
    values = log_table(dishes.counts, prior)
    for j, weights in enumerate(log_weight):
        student_terms = []
        for k in np.flatnonzero(np.isfinite(weights)):
            n = float(dishes.size[k])
            head = weights[k] + dishes.constant[k, 0] - 0.5 * dishes.log_det[k]
            power, least = 0.5 * (prior.nu + n + 1.0), 1.0 / (prior.beta + n)
            student_terms.append(student_t.StudentTerm(dishes.inverse[k], head, power, least, int(k), values[k]))
        student_terms += [student_t.student_t(shape, missing[j] + np.log(share)) for shape, share in components[j]]
        sums.append(student_terms)
    return [*sums, student_t.new_subclass(prior, known.location)]


@kernel
def mix(log_subclass: Array, log_weight: Array) -> tuple[Array, Array]:
    """Mix subclass densities into class densities.

    Parameters
    ----------
    log_subclass
        Log density of each row under each subclass, shape (n, K).
    log_weight
        Log weight of each subclass in each class, shape (J, K).

    Returns
    -------
    Log class densities, shape (n, J), and the most responsible subclass of each class, shape (n, J).
    """
    n, count = log_subclass.shape
    classes = log_weight.shape[0]
    out = np.full((n, classes), -np.inf)
    best = np.zeros((n, classes), np.int64)
    for i in range(n):
        for j in range(classes):
            peak = -np.inf
            for k in range(count):
                if log_weight[j, k] == -np.inf:
                    continue
                v = log_subclass[i, k] + log_weight[j, k]
                if v > peak:
                    peak = v
                    best[i, j] = k
            if peak > -np.inf:
                total = 0.0
                for k in range(count):
                    if log_weight[j, k] > -np.inf:
                        total += np.exp(log_subclass[i, k] + log_weight[j, k] - peak)
                out[i, j] = peak + np.log(total)
    return out, best


def log_densities(known: Known, frozen: Densities, rows: Array) -> tuple[Array, Array, Array]:
    """Log densities of homogeneous rows under the known classes and under a new subclass.

    The results of a row do not depend on the other rows.

    Parameters
    ----------
    known, frozen
        The known classes.
    rows
        Homogeneous rows, shape (n, C + d + 1).

    Returns
    -------
    Log density ``F_j`` and the most responsible subclass, both of shape (n, J), and the log density as the first
    instance of a new subclass, shape (n,).
    """
    sums, best = student_t.log_sums(frozen.student_terms, rows, len(known.prior.first))
    return np.ascontiguousarray(sums[:-1].T), np.ascontiguousarray(best[:-1].T), sums[-1]


def log_class_densities(known: Known, frozen: Densities, rows: Array) -> tuple[Array, Array]:
    """Log density ``F_j`` of homogeneous rows and the most responsible subclass, both of shape (n, J)."""
    return log_densities(known, frozen, rows)[:2]


def log_new(known: Known, rows: Array) -> Array:
    """Log density of each homogeneous row as the first instance of a new subclass, shape (n,)."""
    return student_t.log_new_densities(rows, known.prior, known.location)


def log_categories(known: Known, frozen: Densities, rows: Array) -> Array:
    """Log probability of the categories of homogeneous rows in each class, ignoring their numbers, shape (n, J)."""
    columns, n_classes = len(known.prior.first), len(known.size)
    if not columns:
        return np.zeros((len(rows), n_classes))
    places, logs = places_of(rows, columns), log_table(known.dishes.counts, known.prior)
    return mix(np.ascontiguousarray(logs[:, places].sum(axis=1).T), frozen.log_weight)[0]


class ClassFields(NamedTuple):
    """Fields for leave-one-out densities: those of :class:`Known`, and ``log_weight`` of :class:`Densities`."""

    dishes: Dishes
    log_weight: Array
    seated: Array
    size: Array
    alpha: float
    prior: Prior


@kernel
def leave_one_out(rows: Array, group: Array, dish: Array, holding: ClassFields) -> Array:
    """Log class densities of the training instances, each left out of the subclass that holds it, shape (n, J).

    ``rows`` are homogeneous. ``group`` and ``dish`` are the class and the kept subclass of each row, -1 for a dropped
    subclass.
    """
    dishes, log_weight, seated, size, alpha, prior = holding
    n = rows.shape[0]
    classes, count = log_weight.shape
    log_subclass = np.empty((1, count))
    out = np.empty((n, classes))
    weight = np.empty((1, count))
    for i in range(n):
        own, j = dish[i], group[i]
        for k in range(count):
            if k == own and dishes.size[k] > 1:
                log_subclass[0, k] = log_predictive_without(dishes, k, rows[i], prior)
            elif k == own:
                log_subclass[0, k] = -np.inf
            else:
                log_subclass[0, k] = log_predictive(dishes, k, rows[i], prior)
        mixed, _ = mix(log_subclass, log_weight)
        out[i] = mixed[0]
        for k in range(count):  # the instance's own class has one instance less
            left = seated[j, k] - (1.0 if k == own else 0.0)
            weight[0, k] = -np.inf
            if log_weight[j, k] > -np.inf and left > 0.0:
                weight[0, k] = np.log(left / (size[j] - 1.0 + alpha))
        mixed, _ = mix(log_subclass, weight)
        out[i, j] = mixed[0, 0]
    return out


def unseen(known: Known, frozen: Densities, rows: Array, group: Array, slot: Array) -> Array:
    """Leave-one-out log density of instances of known classes, each under its own class, shape (n,).

    If no other instance is left, the density is that of the first instance of a new subclass. Arguments as for
    :func:`leave_one_out`.
    """
    holding = ClassFields(known.dishes, frozen.log_weight, known.seated, known.size, known.alpha, known.prior)
    apart = add_background_component(
        leave_one_out(rows, group, slot, holding), background_of_each(known), frozen.log_weight, rows
    )
    found = apart[np.arange(len(rows)), group]
    return np.where(np.isfinite(found), found, log_new(known, rows))


def open_class(known: Known, level: float = 0.0) -> Known:
    """Add a class without instances, with all quantiles of the log densities at ``level``."""
    seated, tables = (np.vstack([v, np.zeros(v.shape[1])]) for v in (known.seated, known.tables))
    ranks = np.vstack([known.ranks, np.full(N_RANKS, level)])
    return known._replace(seated=seated, tables=tables, size=np.append(known.size, 0.0), ranks=ranks)


def learn_labelled(known: Known, row: Array, j: int, rng: np.random.Generator, next_id: int) -> Known:
    """Seat one labelled homogeneous row in its class's own restaurant. The argument does not change.

    This is a sequential collapsed update. Equation (10) draws the subclass from those of the class and a new one, and
    the statistics of that subclass then include the instance. If ``j`` equals the number of classes, it opens a
    class.

    Returns
    -------
    The new summary. If a subclass was opened, it has one subclass more, with identity ``next_id``.
    """
    prior = known.prior
    if j == len(known.size):
        known = open_class(known, float(log_new(known, row[None])[0]))
    seated, tables, size = (v.copy() for v in (known.seated, known.tables, known.size))
    total = tables.sum() + known.gamma
    own = np.flatnonzero(seated[j] > 0)
    log_weight = np.append(
        np.log(seated[j, own] + known.alpha * tables[:, own].sum(axis=0) / total),
        np.log(known.alpha * known.gamma / total),
    )
    log_density = np.append(
        [log_predictive(known.dishes, int(k), row, prior) for k in own], log_new(known, row[None])
    )
    logits = log_weight + log_density
    weights = np.exp(logits - logits.max())
    pick = int(np.searchsorted(np.cumsum(weights), rng.random() * weights.sum()))
    pick = min(pick, len(own))
    count, ids, opens = len(known.ids), known.ids, pick == len(own)
    dishes = copy_slots(known.dishes, np.arange(count), count + opens)
    if opens:
        k, new_table = count, True
        seated, tables = (np.hstack([v, np.zeros((len(v), 1))]) for v in (seated, tables))
        ids = np.append(ids, next_id)
    else:
        k = int(own[pick])
        fresh = known.alpha * tables[:, k].sum() / total
        new_table = bool(rng.random() * (seated[j, k] + fresh) < fresh)
    add(dishes, k, row, prior)
    seated[j, k] += 1.0
    tables[j, k] += float(new_table)
    size[j] += 1.0
    return known._replace(dishes=dishes, ids=ids, seated=seated, tables=tables, size=size)
