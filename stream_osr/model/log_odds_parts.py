"""Contributions of the features to a log-odds of two sums of Student-t densities.

Let v(S) be the log-odds of a row in which only the features S are observed. The model integrates missing values out
(:mod:`.missing_features`), so v(S) is exact for every S. Features are removed one after the other. The
contribution of a feature is the change of the log-odds by its removal:

    v(all) = v(nothing) + sum_k [v(S_k) - v(S_k without i_k)],   S_1 = all,  S_(k+1) = S_k without i_k

By the chain rule, a contribution is the log ratio of two densities of the feature's value, given the features that
remain. It measures the deviation from the value that these features predict. The deviation from a mean would spread
the effect of one feature over all features that correlate with it. The sum is exact for mixtures, Student-t
densities, categories and chains alike. v(nothing) comes from the weights of the sums.

In homogeneous coordinates each density is ``exp(head) (1 + x~' Q x~)^-power``. Let f be the row of the whitening of a
feature, with 0 at the end, ``t = f' Q x~`` and ``b = f' Q f``. Without the feature the form of the row is
``h - t^2 / b``, the power is less by 1/2, and the head changes by ``-log(b) / 2`` and a function of the power. So one
removal costs an update of rank one, and all candidates cost little. Factors of f are common to all densities.

The order is free, and the sum is exact for each order. The *surprise* of a feature is the gain in the log density of
some sums if each of their densities had the most probable value of the feature, given the features that remain. For
one Gaussian it is ``z^2 / 2``, where z is the standardized residual. Each time the feature with the largest surprise
is removed, if that is at least ``UNUSUAL``. Otherwise it is the feature whose removal changes the log-odds most. An
unusual value may change the log-odds little, because it is improbable under both sides. So surprise comes first.

If several features share one direction of the model, removing any of them removes all. Then the feature goes first
whose value is farthest from the training mean.

A missing number contributes 0. A missing category is a value with its own probability.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln

from stream_osr.model.feature_space.whitening import Whitening, whiten
from stream_osr.model.feature_space.yeo_johnson import bend
from stream_osr.model.jit import Array
from stream_osr.model.missing_features import NOTHING, OPEN, missing_of, with_open_directions
from stream_osr.model.responsibilities import View

EQUAL = 1e-6
"""Relative difference up to which two changes count as equal."""
UNUSUAL = 4.5
"""Least surprise of an unusual value. For one Gaussian that is a residual of 3 standard deviations."""
ROOM = 4_000_000
"""Most numbers in a temporary array."""


class LogOddsParts(NamedTuple):
    """Parts of the log-odds of n rows: ``log_odds = prior + contributions.sum(axis=1) + rest``.

    Attributes
    ----------
    log_odds, prior
        The log-odds, and the log-odds without any feature, shape (n,).
    contributions
        Contribution of each raw feature, then of each category, shape (n, p + C). It is 0 for a raw feature that is
        missing, is a category, or has no effect in the model.
    order
        Features in the order of their removal, shape (n, k), -1 after the last one.
    rest
        Contributions of the features that were not removed, and rounding, shape (n,).
    """

    log_odds: Array
    prior: Array
    contributions: Array
    order: Array
    rest: Array


class QueryForms(NamedTuple):
    """Rows with the same missing features, and the M densities of all chains.

    Attributes
    ----------
    rows, places
        Homogeneous rows without categories, shape (n, d + 1), and the places of their categories, shape (n, C).
    forms
        Q of each density, without the missing features, shape (M, d + 1, d + 1).
    shape
        Head, power and least form of each density, shape (3, M).
    values
        Log probability of each place of the categories, shape (M, V).
    forward, size
        Row of the whitening of each raw feature, shape (p, d), and its form in each density before any feature is
        missing, shape (M, p).
    owner, begin
        Number of the sum of each density, shape (M,), and the first density of each chain.
    deviation
        Whitened distance of each feature from the training mean, 0 for missing ones and categories, shape (n, p + C).
    highest
        Log probability of the most probable place of each category, shape (M, C).
    """

    rows: Array
    places: Array
    forms: Array
    shape: Array
    values: Array
    forward: Array
    size: Array
    owner: Array
    begin: Array
    deviation: Array
    highest: Array

    def log_densities(self) -> Array:
        """Return the weighted log density of each row, shape (n, M)."""
        head, power, least = self.shape
        h = np.einsum("na,mab,nb->nm", self.rows, self.forms, self.rows, optimize=True)
        return np.asarray(head - power * np.log1p(np.maximum(h, least)) + self.values[:, self.places].sum(axis=2).T)


def query_forms(values: Array, views: Sequence[View], whitening: Whitening) -> Iterator[tuple[Array, QueryForms]]:
    """Yield the positions of rows with the same missing features, and these rows.

    Parameters
    ----------
    values
        Raw rows, NaN = missing, shape (n, p).
    views
        Densities of each chain (:func:`stream_osr.model.responsibilities.view`).
    whitening
        Map to whitened coordinates.
    """
    missing, whitened, count = missing_of(whitening, values), whiten(whitening, values), len(whitening.places)
    rows = np.column_stack([whitened[:, count:], np.ones(len(values))])
    forward, d = whitening.forward, whitening.forward.shape[1]
    apart = np.nan_to_num(np.abs(bend(whitening.yeo_johnson, values) - whitening.center))
    deviation = np.zeros((len(values), len(forward) + count))
    deviation[:, : len(forward)] = apart * np.sqrt((forward**2).sum(axis=1))
    size = np.concatenate([_sizes(forward, _forms(each.packed, d)) for each in views])
    owner = np.concatenate([np.repeat(np.arange(len(each.first) - 1), np.diff(each.first)) for each in views])
    begin = np.cumsum([0, *(len(each.packed) for each in views[:-1])])
    tables = np.concatenate([each.values for each in views])
    ends = np.cumsum(whitening.places)
    highest = np.array(
        [tables[:, end - size : end].max(axis=1) for size, end in zip(whitening.places, ends, strict=True)]
    )
    highest = highest.reshape(count, len(tables)).T
    most = max(1, ROOM // (len(owner) * (d * d + 8 * (len(forward) + count) + 1)))
    for pattern in range(NOTHING, len(missing.rank)):
        of_pattern, own = np.flatnonzero(missing.pattern == pattern), views
        if not len(of_pattern):
            continue
        if pattern != NOTHING:
            own = [with_open_directions(each, missing, pattern) for each in views]
        forms = np.concatenate([_forms(each.packed, d) for each in own])
        shape = np.hstack([each.shape for each in own])
        for at in np.split(of_pattern, range(most, len(of_pattern), most)):
            places = whitened[at, :count].astype(np.int64)
            fixed = forms, shape, tables, forward, size, owner, begin
            yield at, QueryForms(rows[at], places, *fixed, deviation[at], highest)


def _forms(packed: Array, d: int) -> Array:
    """Unpack the forms Q of densities, shape (M, d + 1, d + 1)."""
    a, b = np.tril_indices(d + 1)
    out = np.empty((len(packed), d + 1, d + 1))
    out[:, a, b] = out[:, b, a] = packed * np.where(a == b, 1.0, 0.5)
    return out


def _sizes(forward: Array, forms: Array) -> Array:
    """Return ``f' Q f`` of each feature in each density, shape (M, p)."""
    d = forward.shape[1]
    return np.asarray(((forward @ forms[:, :d, :d]) * forward).sum(axis=2))


def log_odds_of(log_weight: Array, owner: Array, begin: Array, above: Array, below: Array) -> Array:
    """Log-odds of some sums against others, from their probabilities averaged over the chains.

    Parameters
    ----------
    log_weight
        Log weights, shape (n, M) or (n, M, q).
    owner, begin
        As in :class:`QueryForms`.
    above, below
        Sums in the numerator and in the denominator, for each row, shape (n, J + 1).

    Returns
    -------
    The log-odds, shape (n,) or (n, q).
    """
    whole = np.logaddexp.reduceat(log_weight, begin, axis=1)
    ends = []
    for side in (above, below):
        inside = side[:, owner].reshape(*log_weight.shape[:2], *([1] * (log_weight.ndim - 2)))
        part = np.logaddexp.reduceat(np.where(inside, log_weight, -np.inf), begin, axis=1)
        ends.append(np.logaddexp.reduce(part - whole, axis=1))
    return np.asarray(ends[0] - ends[1])


def split_log_odds(
    query: QueryForms,
    above: Array,
    below: Array,
    log_weights: Array,
    *,
    usual_in: Array | None = None,
    shift: float = 0.0,
    most: int | None = None,
) -> LogOddsParts:
    """Split the log-odds of some sums against others for each row.

    Parameters
    ----------
    query
        The rows (:func:`query_forms`).
    above, below
        As in :func:`log_odds_of`.
    log_weights
        Log weight of each sum in each chain without any feature, shape (chains, J + 1).
    usual_in
        Sums whose density defines the surprise, shape (J + 1,). ``None``: no value counts as unusual.
    shift
        Number to add to the log-odds, as part of the prior.
    most
        Number of features to remove. ``None``: all of them.

    Examples
    --------
    Two Gaussians (Student-t densities of many degrees of freedom): N(0, I) against N(0, diag(1, 4)), and the row (0,
    4). Only the second feature differs. It contributes ``-4^2/2 + 4^2/8 + log 2``:

    >>> nu = 1e12
    >>> forms = np.array([np.diag([1.0, 1.0, 0.0]), np.diag([1.0, 0.25, 0.0])]) / nu
    >>> shape = np.array([[0.0, -math.log(2.0)], [nu / 2 + 1, nu / 2 + 1], [0.0, 0.0]])
    >>> none, two = np.zeros((2, 0)), np.arange(2)
    >>> row, size = np.array([[0.0, 4.0, 1.0]]), np.ones((2, 2))
    >>> fixed = forms, shape, none, np.eye(2), size / nu, two, two[:1]
    >>> query = QueryForms(row, np.zeros((1, 0), int), *fixed, np.zeros((1, 2)), none)
    >>> parts = split_log_odds(query, np.array([[True, False]]), np.array([[False, True]]), np.zeros((1, 2)))
    >>> parts.contributions.round(6)
    array([[ 0.      , -5.306853]])
    """
    chains, sums = log_weights.shape
    flat = np.tile(log_weights.reshape(1, -1), (len(query.rows), 1))
    prior = log_odds_of(flat, np.tile(np.arange(sums), chains), sums * np.arange(chains), above, below)
    left = _Elimination(query)

    def odds(log_weight: Array) -> Array:
        return log_odds_of(log_weight, query.owner, query.begin, above, below)

    now = log_odds = odds(left.log_weight())
    n, count = len(query.rows), len(query.forward) + query.places.shape[1]
    steps = count if most is None else min(most, count)
    contributions, order, at = np.zeros((n, count)), np.full((n, steps), -1), np.arange(n)
    for step in range(steps):
        there, without = left.candidates()
        change = np.where(there, now[:, None] - odds(without), 0.0)
        rank = np.abs(change)
        if usual_in is not None:
            surprise = np.where(there, left.surprise(usual_in), 0.0)
            unusual = surprise.max(axis=1, keepdims=True, initial=0.0) >= UNUSUAL
            rank = np.where(unusual, surprise, rank)
        equal = there & (rank >= (1.0 - EQUAL) * rank.max(axis=1, keepdims=True, initial=0.0))
        chosen = np.where(equal, query.deviation, -1.0).argmax(axis=1)
        some = there[at, chosen]
        if not some.any():
            break
        contributions[at[some], chosen[some]], order[some, step] = change[at, chosen][some], chosen[some]
        now = np.where(some, now - change[at, chosen], now)
        left.remove(at[some], chosen[some])
    rest = log_odds - prior - contributions.sum(axis=1)
    return LogOddsParts(log_odds + shift, prior + shift, contributions, order, rest)


class _Elimination:
    """Densities of rows while features are removed one by one, in the order of each row."""

    def __init__(self, query: QueryForms) -> None:
        self._query, (n, m) = query, (len(query.rows), len(query.forms))
        p, d = query.forward.shape
        slope = np.einsum("mab,nb->nma", query.forms, query.rows)
        self._form = (slope * query.rows[:, None]).sum(axis=2)  # h
        self._matrix = np.broadcast_to(query.forms[:, :d, :d], (n, m, d, d)).copy()
        self._along = slope[:, :, :d] @ query.forward.T  # t of each feature
        self._size = np.broadcast_to(_sizes(query.forward, query.forms), (n, m, p)).copy()  # b of each feature
        self._head, self._power = (np.tile(each, (n, 1)) for each in query.shape[:2])
        self._category = query.values[:, query.places].transpose(1, 0, 2).copy()
        self._there = np.ones((n, p + query.places.shape[1]), bool)

    def log_weight(self) -> Array:
        """Return the weighted log densities of the remaining features, shape (n, M)."""
        form = np.maximum(self._form, self._query.shape[2])
        return np.asarray(self._head - self._power * np.log1p(form) + self._category.sum(axis=2))

    def candidates(self) -> tuple[Array, Array]:
        """Return the features that can be removed, shape (n, p + C), and the log weights without each of them."""
        large = (self._size > OPEN * self._query.size) & (self._query.size > 0.0)
        open_ = large.all(axis=1)
        self._there[:, : open_.shape[1]] &= open_
        size, form = self._without()
        rest = (self._head + self._gain() + self._category.sum(axis=2))[:, :, None]
        numbers = rest - 0.5 * np.log(size) - (self._power - 0.5)[:, :, None] * np.log1p(form)
        categories = self.log_weight()[:, :, None] - self._category
        return self._there, np.concatenate([numbers, categories], axis=2)

    def surprise(self, sums: Array) -> Array:
        """Return the surprise of each feature in the density of some sums, averaged over the chains, (n, p + C)."""
        _, form = self._without()
        now = self.log_weight()[:, :, None]
        fixed = (self._head + self._category.sum(axis=2))[:, :, None]
        numbers = fixed - self._power[:, :, None] * np.log1p(form)
        highest = np.concatenate([numbers, now - self._category + self._query.highest], axis=2)
        inside = sums[self._query.owner]
        return np.asarray(
            np.logaddexp.reduce(highest[:, inside], axis=1) - np.logaddexp.reduce(now[:, inside], axis=1)
        )

    def _without(self) -> tuple[Array, Array]:
        """Return b of each number, or 1 if it cannot be removed, and the form without it, shape (n, M, p)."""
        large = (self._size > OPEN * self._query.size) & (self._query.size > 0.0)
        size = np.where(large, self._size, 1.0)
        return size, np.maximum(self._form[:, :, None] - self._along**2 / size, self._query.shape[2][:, None])

    def remove(self, rows: Array, features: Array) -> None:
        """Remove one feature from each of some rows."""
        self._there[rows, features] = False
        p = len(self._query.forward)
        at, i = rows[features >= p], features[features >= p] - p
        self._category[at, :, i] = 0.0
        at, i = rows[features < p], features[features < p]
        size, along = self._size[at, :, i], self._along[at, :, i]
        across = np.einsum("nmab,nb->nma", self._matrix[at], self._query.forward[i])
        self._matrix[at] -= across[:, :, :, None] * across[:, :, None, :] / size[:, :, None, None]
        of_each = across @ self._query.forward.T
        self._along[at] -= of_each * (along / size)[:, :, None]
        self._size[at] -= of_each**2 / size[:, :, None]
        self._form[at] -= along**2 / size
        self._head[at] += self._gain()[at] - 0.5 * np.log(size)
        self._power[at] -= 0.5

    def _gain(self) -> Array:
        """Return the change of each head by the power, shape (n, M)."""
        power = self._power
        return np.asarray(0.5 * math.log(math.pi) + gammaln(power - 0.5) - gammaln(power))
