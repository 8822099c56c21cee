"""Sums of Student-t densities, many at once: one matrix product, then logarithms and exponentials of whole arrays.

In homogeneous coordinates every Student-t is ``exp(head) (1 + x~' Q x~)^-power``, and its quadratic form is linear in
the products of coordinates. So the known subclasses, the broad terms and the density of a new subclass are columns
of one product (``docs/inference.md``, section 11).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stream_osr.model.elementwise import exp_each, log_each
from stream_osr.model.jit import kernel
from stream_osr.model.prior import NO_VALUE


class Terms(NamedTuple):
    """M weighted Student-t densities; those of one sum lie side by side.

    Attributes
    ----------
    packed
        Lower triangles of the forms Q, what is off the diagonal twice, shape (M, (d + 1) (d + 2) / 2).
    head
        Log density, weight included, where the quadratic form is 0, shape (M,).
    power
        Half of (degrees of freedom + d), shape (M,).
    least
        The least value that the quadratic form can have: rounding may not push it lower, shape (M,).
    first
        Sum s has the terms ``first[s]`` to ``first[s + 1] - 1``, shape (S + 1,).
    subclass
        Subclass that the term stands for, -1: none, shape (M,).
    values
        Log probability of each place of the categorical columns, shape (M, V).
    """

    packed: np.ndarray
    head: np.ndarray
    power: np.ndarray
    least: np.ndarray
    first: np.ndarray
    subclass: np.ndarray
    values: np.ndarray


class Term(NamedTuple):
    """One weighted Student-t: form Q of shape (d + 1, d + 1) and the fields of :class:`Terms`."""

    form: np.ndarray
    head: float
    power: float
    least: float
    subclass: int = -1
    values: np.ndarray = NO_VALUE


def pack(sums: list[list[Term]], n_features: int, places: int = 0) -> Terms:
    """Lay the terms of each sum side by side; all have log probabilities of so many places."""
    terms = [term for each in sums for term in each]
    a, b = np.tril_indices(n_features + 1)
    packed = np.array([term.form[a, b] for term in terms]).reshape(len(terms), len(a))
    return Terms(
        packed * np.where(a == b, 1.0, 2.0),
        np.array([term.head for term in terms], dtype=float),
        np.array([term.power for term in terms], dtype=float),
        np.array([term.least for term in terms], dtype=float),
        np.cumsum([0, *(len(each) for each in sums)]),
        np.array([term.subclass for term in terms], dtype=np.int64),
        np.array([term.values for term in terms], dtype=float).reshape(len(terms), places),
    )


@kernel
def products(rows: np.ndarray, columns: int = 0) -> np.ndarray:
    """Products of every two coordinates of each row, of shape (n, C + d + 1), but for its categories.

    Returns
    -------
    Array of shape (n, (d + 1) (d + 2) / 2).
    """
    n, width = rows.shape[0], rows.shape[1] - columns
    out = np.empty((n, width * (width + 1) // 2))
    for i in range(n):
        line = 0
        for a in range(width):
            for b in range(a + 1):
                out[i, line + b] = rows[i, columns + a] * rows[i, columns + b]
            line += a + 1
    return out


@kernel
def log_sums(terms: Terms, product: np.ndarray, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Logarithms of the sums of densities, and the subclass that contributes most.

    Parameters
    ----------
    terms
        M terms in S sums.
    product
        :func:`products` of the n homogeneous rows.
    places
        Places of their categories, shape (C, n).

    Returns
    -------
    Log densities, minus infinity for an empty sum, and subclasses (0 if the sum has none), both of shape (S, n).
    """
    n, count = product.shape[0], terms.first.shape[0] - 1
    value = terms.packed @ product.T
    for m in range(value.shape[0]):
        least = terms.least[m]
        for i in range(n):
            value[m, i] = 1.0 + max(value[m, i], least)
    log_each(value.reshape(value.size))
    for m in range(value.shape[0] if places.shape[0] > 0 else 0):
        weight = 1.0 / terms.power[m]  # what follows is multiplied by the power, and subtracted
        for c in range(places.shape[0]):
            for i in range(n):
                value[m, i] -= weight * terms.values[m, places[c, i]]
    out = np.full((count, n), -np.inf)
    best = np.zeros((count, n), np.int64)
    lead = np.empty(n)
    for s in range(count):
        lead[:] = -np.inf
        for m in range(terms.first[s], terms.first[s + 1]):
            head, power, subclass = terms.head[m], terms.power[m], terms.subclass[m]
            for i in range(n):
                v = head - power * value[m, i]
                value[m, i] = v
                out[s, i] = max(out[s, i], v)
                better = v > lead[i] and subclass >= 0
                lead[i] = v if better else lead[i]
                best[s, i] = subclass if better else best[s, i]
        for m in range(terms.first[s], terms.first[s + 1]):
            for i in range(n):
                value[m, i] -= out[s, i]
    exp_each(value.reshape(value.size))
    total = np.empty(n)
    for s in range(count):
        if terms.first[s] == terms.first[s + 1]:
            continue
        total[:] = 0.0
        for m in range(terms.first[s], terms.first[s + 1]):
            for i in range(n):
                total[i] += value[m, i]
        log_each(total)
        for i in range(n):
            out[s, i] += total[i]
    return out, best
