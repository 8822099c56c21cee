"""Categorical columns of a subclass: one Dirichlet-multinomial each, with its probabilities integrated out.

All columns share one array of *places*. The first place of a column stands for the column as a whole. Its values
follow, and its last place is for all values that are not in training. A row names one place for each column: the
first where its value is missing. Let n be the counts of a subclass and a the Dirichlet parameters. At the first place
of a column both have the sum over the values of the column. Then

``p(place) = (n[place] + a[place]) / (n[first] + a[first])``

so a missing value has probability 1: it is marginalised out (``docs/inference.md``).

Every function takes views of one subclass: ``counts`` (n) has shape (V,). The first C numbers of a row ``x`` are
places.
"""

from __future__ import annotations

import math

import numpy as np

from stream_osr.model.elementwise import log_each
from stream_osr.model.jit import Array, borrowing_kernel, called_kernel, kernel
from stream_osr.model.prior import Prior

EXCLUSIVE = 1e-200
"""Concentration of a category of which a subclass excludes every value that no instance of the subclass has.

The log probability of such a value is below -460.
"""


@borrowing_kernel
def shift(counts: Array, x: Array, sign: float, prior: Prior) -> None:
    """Add the values of ``x`` to the counts (sign 1) or remove them (sign -1)."""
    for c in range(prior.first.shape[0]):
        place = int(x[c])
        if place != prior.first[c]:
            counts[place] += sign
            counts[prior.first[c]] += sign


@borrowing_kernel
def log_predictive(counts: Array, x: Array, prior: Prior) -> float:
    """Log probability of the values of ``x`` under the posterior predictive."""
    total = 0.0
    for c in range(prior.first.shape[0]):
        place, first = int(x[c]), prior.first[c]
        if place != first:
            value, whole = counts[place] + prior.pseudo[place], counts[first] + prior.pseudo[first]
            total += math.log(value / whole)
    return total


@borrowing_kernel
def log_predictive_without(counts: Array, x: Array, prior: Prior) -> float:
    """Log probability of the values of ``x`` under the other instances. The counts include ``x``."""
    total = 0.0
    for c in range(prior.first.shape[0]):
        place, first = int(x[c]), prior.first[c]
        if place != first:
            value, whole = counts[place] - 1.0 + prior.pseudo[place], counts[first] - 1.0 + prior.pseudo[first]
            total += math.log(value / whole)
    return total


@called_kernel
def log_block_predictive(counts: Array, block: Array, member: bool, prior: Prior) -> float:
    """Log probability of the values of some rows together. ``member`` is true if the counts include these rows.

    Each row is predicted from the counts plus the rows before it. The counts are unchanged on return.
    """
    total = 0.0
    if member:
        for i in range(block.shape[0]):
            shift(counts, block[i], -1.0, prior)
    for i in range(block.shape[0]):
        total += log_predictive(counts, block[i], prior)
        shift(counts, block[i], 1.0, prior)
    if not member:
        for i in range(block.shape[0]):
            shift(counts, block[i], -1.0, prior)
    return total


@borrowing_kernel
def log_marginal(counts: Array, prior: Prior) -> float:
    """Log marginal probability of the counted values, in any one order."""
    total = 0.0
    for c in range(prior.first.shape[0]):
        first = prior.first[c]
        if counts[first] == 0.0:
            continue
        last = prior.first[c + 1] if c + 1 < prior.first.shape[0] else prior.pseudo.shape[0]
        total += math.lgamma(prior.pseudo[first]) - math.lgamma(prior.pseudo[first] + counts[first])
        for place in range(first + 1, last):
            if counts[place] > 0.0:
                total += math.lgamma(prior.pseudo[place] + counts[place]) - math.lgamma(prior.pseudo[place])
    return total


@borrowing_kernel
def log_apart(counts: Array, prior: Prior) -> float:
    """Log probability of the counted values if each is drawn from the base measure by itself."""
    total = 0.0
    for c in range(prior.first.shape[0]):
        first = prior.first[c]
        last = prior.first[c + 1] if c + 1 < prior.first.shape[0] else prior.pseudo.shape[0]
        for place in range(first + 1, last):
            if counts[place] > 0.0:
                total += counts[place] * math.log(prior.pseudo[place] / prior.pseudo[first])
    return total


@borrowing_kernel
def log_rarer(counts: Array, x: Array, prior: Prior) -> float:
    """Log ratio of the probability of the commonest values to that of the values of ``x``, over all columns."""
    total = 0.0
    for c in range(prior.first.shape[0]):
        place, first = int(x[c]), prior.first[c]
        if place != first:
            last = prior.first[c + 1] if c + 1 < prior.first.shape[0] else prior.pseudo.shape[0]
            most = 0.0
            for other in range(first + 1, last):
                most = max(most, counts[other] + prior.pseudo[other])
            total += math.log(most / (counts[place] + prior.pseudo[place]))
    return total


@kernel
def log_table(counts: Array, prior: Prior) -> Array:
    """Log probability of each place under K subclasses, 0 at the first of each column, shape (K, V)."""
    out = counts + prior.pseudo
    log_each(out.reshape(out.size))
    columns, places = prior.first.shape[0], prior.pseudo.shape[0]
    for c in range(columns):
        first = prior.first[c]
        last = prior.first[c + 1] if c + 1 < columns else places
        for k in range(out.shape[0]):
            whole = out[k, first]
            for place in range(first, last):
                out[k, place] -= whole
    return out


@kernel
def places_of(rows: Array, count: int) -> Array:
    """Places that n rows name in their first ``count`` columns, shape (C, n)."""
    out = np.empty((count, rows.shape[0]), np.int64)
    for c in range(count):
        for i in range(rows.shape[0]):
            out[c, i] = int(rows[i, c])
    return out


@kernel
def numbers_of(rows: Array, count: int) -> Array:
    """Coordinates of n homogeneous rows without their first ``count`` columns, shape (d + 1, n)."""
    return np.ascontiguousarray(rows[:, count:].T)


def log_of_each(logs: Array, rows: Array, count: int) -> Array:
    """Sum the log probabilities, shape (V,), of the places that each of n rows names, shape (n,)."""
    return np.asarray(logs[rows[:, :count].astype(np.int64)].sum(axis=1))


@kernel
def log_without_each(counts: Array, rows: Array, prior: Prior) -> Array:
    """Log probability of the values of each of n rows under the other instances. The counts include all n rows."""
    out = np.empty(rows.shape[0])
    for i in range(rows.shape[0]):
        out[i] = log_predictive_without(counts, rows[i], prior)
    return out


def log_base(prior: Prior) -> Array:
    """Log probability of each place under a subclass without instances, shape (V,)."""
    return np.asarray(log_table(np.zeros((1, len(prior.pseudo))), prior)[0])


@borrowing_kernel
def mismatches(x: Array, y: Array, count: int) -> float:
    """Count the columns in which two rows have different values. A missing value matches any value."""
    total = 0.0
    for c in range(count):
        total += 1.0 if x[c] != y[c] else 0.0
    return total


def spread_out(rows: Array, count: int) -> Array:
    """Encode the categories of n rows as numbers: one column for each value, 1 where the row has it, shape (n, ...).

    Examples
    --------
    >>> spread_out(np.array([[1.0, 0.5], [2.0, 0.7]]), 1)
    array([[1. , 0. , 0.5],
           [0. , 1. , 0.7]])
    """
    values = [(rows[:, c : c + 1] == np.unique(rows[:, c])).astype(float) for c in range(count)]
    return np.hstack([*values, rows[:, count:]])


def counts_of(rows: Array, prior: Prior) -> Array:
    """Count the values of some rows, shape (V,)."""
    out = np.zeros(len(prior.pseudo))
    for c, first in enumerate(prior.first.tolist()):
        place = rows[:, c].astype(np.int64)
        place = place[place != first]
        np.add.at(out, place, 1.0)
        out[first] = len(place)
    return out


def with_base(prior: Prior, places: Array, base: Array, concentration: float | Array) -> Prior:
    """Add categorical columns to a base measure.

    Parameters
    ----------
    prior
        Base measure of the numeric features.
    places
        Places of each column, shape (C,).
    base
        Probability of each place within its column, 1 at the first of each, shape (V,).
    concentration
        Weight of the base measure of each column, in instances, shape (C,) or the same for all.
    """
    first = np.cumsum(places) - places
    return prior._replace(
        first=first.astype(np.int64), pseudo=np.repeat(np.broadcast_to(concentration, len(places)), places) * base
    )


def base_of(rows: Array, group: Array, places: Array) -> Array:
    """Probability of each place before any instance: its frequency in a class, averaged over the classes.

    Each class has the same weight, however many instances it has. One more instance is added to each class, spread
    evenly over all places of the column, so a value that is not in training is possible.

    Parameters
    ----------
    rows
        Rows whose first C numbers are places, shape (n, C + d).
    group
        Class of each row, shape (n,).
    places
        Places of each column, shape (C,).

    Returns
    -------
    Array of shape (V,), 1 at the first place of each column.

    Examples
    --------
    One column with two values. In one class nine of ten instances have the first value, in the other none of ten:

    >>> rows = np.repeat([1.0, 2.0, 2.0], [9, 1, 10])[:, None]
    >>> base_of(rows, np.repeat([0, 1], 10), np.array([4])).round(3)
    array([1.   , 0.439, 0.53 , 0.03 ])
    """
    out = np.ones(int(places.sum()))
    begin = 0
    for c, count in enumerate(places.tolist()):
        place = rows[:, c].astype(np.int64) - begin
        values = np.zeros((int(group.max()) + 1, count))
        np.add.at(values, (group, place), 1.0)
        values = values[:, 1:] + 1.0 / (count - 1)
        out[begin + 1 : begin + count] = (values / values.sum(axis=1, keepdims=True)).mean(axis=0)
        begin += count
    return out
