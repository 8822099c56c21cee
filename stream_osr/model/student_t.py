"""Student-t densities: sums of many at once, and the density of a new subclass.

Sums are computed for many rows at once: quadratic forms, then logarithms and exponentials of whole arrays. In
homogeneous coordinates every Student-t is ``exp(head) (1 + x~' Q x~)^-power``, and its quadratic form is linear in
the products of coordinates. So the known subclasses, the background components and the density of a new subclass are
rows of one table of forms (``docs/inference.md``, section 11).

The location of a new subclass has the conjugate prior's density, or a Student-t learnt from the known classes
(:mod:`stream_osr.model.location_fit`).
"""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

import numpy as np
from scipy.special import gammaln

from stream_osr.model import categories
from stream_osr.model.dish_statistics import Dishes, log_prior_densities, log_prior_predictives
from stream_osr.model.elementwise import exp_each, log_each
from stream_osr.model.jit import Array, borrowing_kernel, fused_borrowing_kernel, kernel
from stream_osr.model.prior import NO_VALUE, Prior
from stream_osr.support import rules


class StudentTerms(NamedTuple):
    """M weighted Student-t densities. The terms of one sum are adjacent.

    Attributes
    ----------
    packed
        Lower triangles of the forms Q, with off-diagonal elements doubled, shape (M, (d + 1) (d + 2) / 2).
    head
        Log density, weight included, where the quadratic form is 0, shape (M,).
    power
        Half of (degrees of freedom + d), shape (M,).
    least
        Least possible value of the quadratic form, a bound against rounding errors, shape (M,).
    first
        Sum s has the terms ``first[s]`` to ``first[s + 1] - 1``, shape (S + 1,).
    subclass
        Subclass of the term, -1 if none, shape (M,).
    values
        Log probability of each place of the categorical columns, shape (M, V).
    """

    packed: Array
    head: Array
    power: Array
    least: Array
    first: Array
    subclass: Array
    values: Array


class StudentTerm(NamedTuple):
    """One weighted Student-t: form Q of shape (d + 1, d + 1) and the fields of :class:`StudentTerms`."""

    form: Array
    head: float
    power: float
    least: float
    subclass: int = -1
    values: Array = NO_VALUE


def pack(sums: list[list[StudentTerm]], n_features: int, places: int = 0) -> StudentTerms:
    """Lay out the terms of each sum side by side. All terms have log probabilities of ``places`` places."""
    student_terms = [term for each in sums for term in each]
    a, b = np.tril_indices(n_features + 1)
    packed = np.array([term.form[a, b] for term in student_terms]).reshape(len(student_terms), len(a))
    return StudentTerms(
        packed * np.where(a == b, 1.0, 2.0),
        np.array([term.head for term in student_terms], dtype=float),
        np.array([term.power for term in student_terms], dtype=float),
        np.array([term.least for term in student_terms], dtype=float),
        np.cumsum([0, *(len(each) for each in sums)]),
        np.array([term.subclass for term in student_terms], dtype=np.int64),
        np.array([term.values for term in student_terms], dtype=float).reshape(len(student_terms), places),
    )


@kernel
def products(rows: Array, columns: int = 0) -> Array:
    """Products of every two numeric coordinates of each row, shape (n, C + d + 1).

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
def packed_forms(used: Array, dishes: Dishes) -> Array:
    """Lower triangles of the inverses, off-diagonal elements doubled: forms are linear in :func:`products`."""
    width = dishes.inverse.shape[1]
    out = np.empty((len(used), width * (width + 1) // 2))
    for position in range(len(used)):
        inverse = dishes.inverse[used[position]]
        line = 0
        for a in range(width):
            for b in range(a + 1):
                out[position, line] = inverse[a, b] if a == b else 2.0 * inverse[a, b]
                line += 1
    return out


ROWS_TOGETHER = 64
"""Rows whose products of coordinates are computed together: those of 40 dimensions stay in a processor's cache."""
FEW = 4
"""Number of rows from which several rows are computed at once."""


@kernel
def quadratic_forms(packed: Array, rows: Array, columns: int) -> Array:
    """Quadratic forms of homogeneous rows, with the same bits whatever other rows come with them.

    The order of summation is fixed. In a matrix product of BLAS it depends on the shapes. So a form is the same
    number in every micro-batch, and can be carried over.

    Parameters
    ----------
    packed
        Lower triangles of M forms, off-diagonal elements doubled, shape (M, (d + 1) (d + 2) / 2).
    rows, columns
        Homogeneous rows, shape (n, C + d + 1), and the number C of categorical columns, which come first.

    Returns
    -------
    Array of shape (M, n).
    """
    (count, size), (n, width) = packed.shape, rows.shape
    out, room, width = np.empty(count * n), np.empty(size * min(n, ROWS_TOGETHER)), width - columns
    for begin in range(0, n, ROWS_TOGETHER):
        many = min(ROWS_TOGETHER, n - begin)
        product, number = (
            room[: size * many].reshape((size, many)),
            categories.numbers_of(rows[begin : begin + many], columns),
        )
        line = 0
        for a in range(width):
            for b in range(a + 1):
                _multiply(number[a], number[b], product[line + b])
            line += a + 1
        if many < FEW:
            for m in range(count):
                for i in range(many):
                    out[m * n + begin + i] = _form(packed[m], product[:, i])
            continue
        for m in range(0, count - count % 2, 2):
            first, second = m * n + begin, (m + 1) * n + begin
            _two_forms(packed[m], packed[m + 1], product, out[first : first + many], out[second : second + many])
        if count % 2:
            first = (count - 1) * n + begin
            _two_forms(packed[count - 1], packed[count - 1], product, out[first : first + many], np.empty(many))
    return out.reshape((count, n))


@borrowing_kernel
def _multiply(x: Array, y: Array, out: Array) -> None:
    for i in range(out.shape[0]):
        out[i] = x[i] * y[i]


@fused_borrowing_kernel
def _form(packed: Array, product: Array) -> float:
    """Sum in the order of :func:`_two_forms`."""
    size, total = packed.shape[0], 0.0
    whole = size - size % 4
    for p in range(0, whole, 4):
        total += (packed[p] * product[p] + packed[p + 1] * product[p + 1]) + (
            packed[p + 2] * product[p + 2] + packed[p + 3] * product[p + 3]
        )
    for p in range(whole, size):
        total += packed[p] * product[p]
    return total


@fused_borrowing_kernel
def _two_forms(packed: Array, other: Array, product: Array, out: Array, out_other: Array) -> None:
    """Write two forms of each column of products, so that each product is read once for both."""
    size, n = product.shape
    whole = size - size % 4
    for i in range(n):
        out[i] = out_other[i] = 0.0
    for p in range(0, whole, 4):
        a, b, c, d = packed[p], packed[p + 1], packed[p + 2], packed[p + 3]
        e, f, g, h = other[p], other[p + 1], other[p + 2], other[p + 3]
        for i in range(n):
            w, x, y, z = product[p, i], product[p + 1, i], product[p + 2, i], product[p + 3, i]
            out[i] += (a * w + b * x) + (c * y + d * z)
            out_other[i] += (e * w + f * x) + (g * y + h * z)
    for p in range(whole, size):
        for i in range(n):
            out[i] += packed[p] * product[p, i]
            out_other[i] += other[p] * product[p, i]


@kernel
def log_sums(student_terms: StudentTerms, rows: Array, columns: int) -> tuple[Array, Array]:
    """Logarithms of the sums of densities, and the subclass that contributes most.

    The results of a row do not depend on the other rows (:func:`quadratic_forms`).

    Parameters
    ----------
    student_terms
        M terms in S sums.
    rows, columns
        Homogeneous rows, shape (n, C + d + 1), and the number C of categorical columns, which come first.

    Returns
    -------
    Log densities, minus infinity for an empty sum, and subclasses (0 if the sum has none), both of shape (S, n).
    """
    n, count, places = rows.shape[0], student_terms.first.shape[0] - 1, categories.places_of(rows, columns)
    value = quadratic_forms(student_terms.packed, rows, columns)
    for m in range(value.shape[0]):
        least = student_terms.least[m]
        for i in range(n):
            value[m, i] = 1.0 + max(value[m, i], least)
    log_each(value.reshape(value.size))
    for m in range(value.shape[0] if places.shape[0] > 0 else 0):
        weight = 1.0 / student_terms.power[m]  # what follows is multiplied by the power, and subtracted
        for c in range(places.shape[0]):
            for i in range(n):
                value[m, i] -= weight * student_terms.values[m, places[c, i]]
    out = np.full((count, n), -np.inf)
    best = np.zeros((count, n), np.int64)
    lead = np.empty(n)
    for s in range(count):
        lead[:] = -np.inf
        for m in range(student_terms.first[s], student_terms.first[s + 1]):
            head, power, subclass = student_terms.head[m], student_terms.power[m], student_terms.subclass[m]
            for i in range(n):
                v = head - power * value[m, i]
                value[m, i] = v
                out[s, i] = max(out[s, i], v)
                better = v > lead[i] and subclass >= 0
                lead[i] = v if better else lead[i]
                best[s, i] = subclass if better else best[s, i]
        for m in range(student_terms.first[s], student_terms.first[s + 1]):
            for i in range(n):
                value[m, i] -= out[s, i]
    exp_each(value.reshape(value.size))
    total = np.empty(n)
    for s in range(count):
        if student_terms.first[s] == student_terms.first[s + 1]:
            continue
        total[:] = 0.0
        for m in range(student_terms.first[s], student_terms.first[s + 1]):
            for i in range(n):
                total[i] += value[m, i]
        log_each(total)
        for i in range(n):
            out[s, i] += total[i]
    return out, best


CONJUGATE_SHARE = 0.01
"""Share of the conjugate predictive in that density.

Its tails are heavier than those of any subclass, so an instance far from everything is new, whatever q is.
"""


class Location(NamedTuple):
    """Density of the first instance of a new subclass.

    Attributes
    ----------
    freedom
        Degrees of freedom q. 0: the conjugate prior predictive, and the other fields are empty.
    mean
        Centre, shape (d,).
    factor
        Inverse Cholesky factor of the scale matrix, shape (d, d).
    values
        Log probability of each place of the categorical columns, shape (V,). Empty: that of the base measure.
    """

    freedom: rules.NonNegative
    mean: Annotated[Array, rules.array("f", "d")]
    factor: Annotated[Array, rules.array("f", "d", "d")]
    values: Annotated[Array, rules.array("f", "*", high=0.0)] = NO_VALUE


CONJUGATE = Location(0.0, np.zeros(0), np.zeros((0, 0)))


def log_new_densities(rows: Array, prior: Prior, location: Location = CONJUGATE) -> Array:
    """Log density of each homogeneous row as the first instance of a new subclass, shape (n,)."""
    conjugate = log_prior_predictives(rows, prior)
    if location.freedom == 0.0:
        return conjugate
    placed = log_student_t(rows, location)
    if len(prior.first):
        placed += categories.log_of_each(categories.log_base(prior), rows, len(prior.first))
    return np.logaddexp(math.log1p(-CONJUGATE_SHARE) + placed, math.log(CONJUGATE_SHARE) + conjugate)


@kernel
def log_placed(row: Array, prior: Prior, location: Location) -> float:
    """Log ratio of the location density and the conjugate density of one row as the first of a new subclass.

    The row is homogeneous, without categories: both densities agree on these.
    """
    d, q, square, log_det = prior.n_features, location.freedom, 0.0, 0.0
    if q == 0.0:
        return 0.0
    for a in range(d):
        z = 0.0
        for b in range(d):
            z += location.factor[a, b] * (row[b] - location.mean[b])
        square += z * z
        log_det -= 2.0 * math.log(location.factor[a, a])
    placed = math.lgamma(0.5 * (q + d)) - math.lgamma(0.5 * q) - 0.5 * d * math.log(q * math.pi)
    placed -= 0.5 * (log_det + (q + d) * math.log1p(square / q))
    ratio = math.log1p(-CONJUGATE_SHARE) + placed - log_prior_densities(row.reshape(1, d + 1), 0, prior)[0]
    least = math.log(CONJUGATE_SHARE)
    return max(ratio, least) + math.log1p(math.exp(-abs(ratio - least)))


def log_student_t(rows: Array, location: Location) -> Array:
    """Log density of homogeneous rows under the Student-t, shape (n,)."""
    d = len(location.mean)
    columns = rows.shape[1] - 1 - d
    z = (rows[:, columns:-1] - location.mean) @ location.factor.T
    square = np.einsum("na,na->n", z, z)
    log_determinant = -2.0 * np.log(np.diag(location.factor)).sum()
    out = np.asarray(log_t(square, log_determinant, d, location.freedom))
    return out + categories.log_of_each(location.values, rows, columns) if len(location.values) else out


def student_t(shape: Location, log_weight: float) -> StudentTerm:
    """Express a weighted Student-t as a quadratic form in homogeneous coordinates."""
    d = len(shape.mean)
    precision = shape.factor.T @ shape.factor / shape.freedom
    form = np.empty((d + 1, d + 1))
    form[:d, :d] = precision
    form[d, :d] = form[:d, d] = -precision @ shape.mean
    form[d, d] = shape.mean @ precision @ shape.mean
    log_determinant = -2.0 * np.log(np.diag(shape.factor)).sum()
    head = log_weight + float(log_t(np.zeros(1), log_determinant, d, shape.freedom)[0])
    return StudentTerm(form, head, 0.5 * (shape.freedom + d), 0.0, values=shape.values)


def new_subclass(prior: Prior, location: Location) -> list[StudentTerm]:
    """Terms of the density of the first instance of a new subclass."""
    d = prior.n_features
    form = np.diag(np.append(1.0 / (prior.psi * prior.spread), 1.0 / prior.beta))
    power = 0.5 * (prior.nu + 1.0)
    at_origin = float(log_prior_densities(np.append(np.zeros(d), 1.0)[None], 0, prior)[0])
    head, base = at_origin + power * math.log1p(1.0 / prior.beta), categories.log_base(prior)
    if location.freedom == 0.0:
        return [StudentTerm(form, head, power, 1.0 / prior.beta, values=base)]
    return [
        student_t(location, math.log1p(-CONJUGATE_SHARE))._replace(values=base),
        StudentTerm(form, head + math.log(CONJUGATE_SHARE), power, 1.0 / prior.beta, values=base),
    ]


def log_t(square: Array, log_determinant: float | Array, d: int, freedom: float) -> Array:
    """Log density of the Student-t in d dimensions at squared Mahalanobis lengths, given its log-determinant."""
    constant = gammaln(0.5 * (freedom + d)) - gammaln(0.5 * freedom) - 0.5 * d * math.log(freedom * math.pi)
    return np.asarray(constant - 0.5 * log_determinant - 0.5 * (freedom + d) * np.log1p(square / freedom))
