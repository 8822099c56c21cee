"""Missing values: densities with the missing features integrated out, and completed rows.

A missing feature leaves a direction of the whitened space open. Every density here is, in homogeneous coordinates,
``exp(head) (1 + x~' Q x~)^-power``. With r open directions integrated out the density has the same form. Let B be the
open directions, shape (r, d + 1), and ``C = B Q B'``. Then

    Q_open = Q - Q B' C^-1 B Q        power_open = power - r / 2
    head_open = head - log|C| / 2 + r/2 log pi + log Gamma(power - r/2) - log Gamma(power)

So a pattern of missing features has its own terms, and all functions that compute with terms can use them.

The present state gives the density of a row without its missing values, and the distribution of those values.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np

from stream_osr.model.categories import places_of
from stream_osr.model.jit import Array, borrowing_kernel, called_kernel, kernel
from stream_osr.model.known import Densities
from stream_osr.model.prior import homogeneous
from stream_osr.model.responsibilities import View
from stream_osr.model.student_t import log_sums, products

NOTHING = -1
"""Pattern of a row without missing values."""
OPEN = 1e-9
"""Share of the largest singular value below which missing features leave a direction closed."""


class Maps(Protocol):
    """Maps of features to whitened rows, ``forward``, shape (p, d), and back, ``backward``, shape (d, p)."""

    @property
    def forward(self) -> Array:
        """Map of a feature to whitened coordinates."""

    @property
    def backward(self) -> Array:
        """Map of whitened coordinates to a feature."""


class MissingPattern(NamedTuple):
    """Missing values of n rows.

    Attributes
    ----------
    pattern
        Number of the pattern of each row, ``NOTHING`` if the row is complete, shape (n,).
    basis
        Orthonormal open directions of each of P patterns, in its first rows, shape (P, d, d).
    rank
        Number of open directions of each pattern, shape (P,).
    shift
        Number to add to all log densities of a row, shape (n,). It is the log density of the drawn values and puts
        incomplete rows on the scale of complete rows.
    room, apart
        Scratch space for a form and a row, twice, shape (d + 2, d + 1).
    """

    pattern: Array
    basis: Array
    rank: Array
    shift: Array
    room: Array
    apart: Array


@kernel
def nothing_missing(n: int, d: int) -> MissingPattern:
    """Describe n complete rows of d dimensions."""
    nowhere = np.empty((0, d + 1))
    return MissingPattern(np.full(n, -1), np.zeros((0, d, d)), np.zeros(0, np.int64), np.zeros(n), nowhere, nowhere)


def missing_of(whitening: Maps, X: Array) -> MissingPattern:
    """Find the missing numeric features of raw rows, NaN = missing, shape (n, p).

    Examples
    --------
    >>> from stream_osr.model.feature_space.whitening import fit_whitening
    >>> space = fit_whitening(np.random.default_rng(0).normal(size=(50, 3)), np.arange(50) % 2)
    >>> gaps = missing_of(space, np.array([[0.0, 1.0, 2.0], [np.nan, 1.0, np.nan], [np.nan, 0.0, np.nan]]))
    >>> gaps.pattern, gaps.rank
    (array([-1,  0,  0]), array([2]))
    """
    n, d = len(X), whitening.forward.shape[1]
    missing = np.isnan(X)
    some = np.flatnonzero((missing & whitening.forward.any(axis=1)).any(axis=1))
    if not len(some) or not d:
        return nothing_missing(n, d)
    patterns, number = np.unique(missing[some], axis=0, return_inverse=True)
    number = number.ravel()
    basis, rank = np.zeros((len(patterns), d, d)), np.zeros(len(patterns), np.int64)
    deviation = np.sqrt((whitening.backward**2).sum(axis=0))  # of each feature
    ways = whitening.forward * deviation[:, None]
    for at, absent in enumerate(patterns):
        _, singular, axes = np.linalg.svd(ways[absent], full_matrices=False)
        rank[at] = int((singular > OPEN * np.linalg.norm(ways)).sum())
        basis[at, : rank[at]] = axes[: rank[at]]
    pattern = np.full(n, NOTHING)
    pattern[some] = np.where(rank[number] > 0, number, NOTHING)
    return MissingPattern(pattern, basis, rank, np.zeros(n), *np.empty((2, d + 2, d + 1)))


def filled_in(missing: MissingPattern, at: Sequence[int]) -> MissingPattern:
    """Treat the drawn values of some rows as observed, which costs less than integrating them out."""
    pattern = missing.pattern.copy()
    pattern[at] = NOTHING
    if (pattern == NOTHING).all():
        return nothing_missing(len(pattern), missing.basis.shape[1])
    return missing._replace(pattern=pattern)


def after(n: int, missing: MissingPattern) -> MissingPattern:
    """Put n complete rows before the incomplete rows, with separate scratch space because chains run in threads."""
    return missing._replace(
        pattern=np.concatenate([np.full(n, NOTHING), missing.pattern]),
        shift=np.concatenate([np.zeros(n), missing.shift]),
        room=np.empty_like(missing.room),
        apart=np.empty_like(missing.apart),
    )


@borrowing_kernel
def open_form(form: Array, basis: Array, rank: int, v: Array) -> float:
    """Integrate ``rank`` directions out of a form Q of shape (d + 1, d + 1), in place.

    ``basis`` holds the directions in its first rows, shape (d, d), and ``v`` is scratch space of shape (d + 1,). Each
    direction is one change of rank one.

    Returns
    -------
    The log-determinant of C.
    """
    width, log_det = form.shape[0], 0.0
    for r in range(rank):
        along = 0.0
        for a in range(width):
            v[a] = 0.0
            for b in range(width - 1):
                v[a] += form[a, b] * basis[r, b]
        for b in range(width - 1):
            along += basis[r, b] * v[b]
        log_det += math.log(along)
        for a in range(width):
            for b in range(width):
                form[a, b] -= v[a] * v[b] / along
    return log_det


@borrowing_kernel
def gain(power: float, log_det: float, rank: int) -> float:
    """Return the change of a density's head when ``rank`` directions with log|C| are integrated out."""
    left = power - 0.5 * rank
    return 0.5 * (rank * math.log(math.pi) - log_det) + math.lgamma(left) - math.lgamma(power)


@kernel
def open_terms(packed: Array, head: Array, power: Array, basis: Array, rank: int) -> tuple[Array, Array, Array]:
    """Integrate ``rank`` directions out of M terms (:class:`stream_osr.model.student_t.StudentTerms`).

    Returns
    -------
    Packed forms, heads and powers of the remaining terms.
    """
    width = basis.shape[1] + 1
    out, heads, powers = np.empty_like(packed), np.empty_like(head), power - 0.5 * rank
    form, v = np.empty((width, width)), np.empty(width)
    for m in range(len(head)):
        line = 0
        for a in range(width):
            for b in range(a + 1):
                form[a, b] = form[b, a] = packed[m, line] if a == b else 0.5 * packed[m, line]
                line += 1
        heads[m] = head[m] + gain(power[m], open_form(form, basis, rank, v), rank)
        line = 0
        for a in range(width):
            for b in range(a + 1):
                out[m, line] = form[a, b] if a == b else 2.0 * form[a, b]
                line += 1
    return out, heads, powers


@called_kernel
def log_open_density(form: Array, head: float, power: float, x: Array, basis: Array, rank: int, room: Array) -> float:
    """Log density of a homogeneous row, shape (d + 1,), with its open directions integrated out.

    ``room`` has shape (d + 2, d + 1).
    """
    width = form.shape[0]
    own, v = room[:width], room[width]
    for a in range(width):
        for b in range(width):
            own[a, b] = form[a, b]
    head += gain(power, open_form(own, basis, rank, v), rank)
    h = 0.0
    for a in range(width):
        for b in range(width):
            h += x[a] * own[a, b] * x[b]
    return head - (power - 0.5 * rank) * math.log1p(max(h, 0.0))


@called_kernel
def form_without(form: Array, x: Array, out: Array) -> float:
    """Write the form of a subclass without its instance ``x`` to ``out`` of shape (d + 2, d + 1).

    Returns
    -------
    ``1 - x~' Q x~``. Below ``LOSES_DIGITS`` the written form is not usable.
    """
    width = form.shape[0]
    v, left = out[width], 1.0
    for a in range(width):
        v[a] = 0.0
        for b in range(width):
            v[a] += form[a, b] * x[b]
        left -= x[a] * v[a]
    for a in range(width):
        for b in range(width):
            out[a, b] = form[a, b] + v[a] * v[b] / left
    return left


def complete(form: Array, power: float, x: Array, basis: Array, rng: np.random.Generator | None) -> Array:
    """Draw a row's open directions from a Student-t, given the others.

    Parameters
    ----------
    form, power
        Q of the density, shape (d + 1, d + 1), and its power.
    x
        Homogeneous row, shape (d + 1,). Its values in the open directions are ignored.
    basis
        The open directions, shape (r, d).
    rng
        Source of randomness. ``None``: the conditional mean instead of a draw.

    Returns
    -------
    The completed row, shape (d + 1,).
    """
    rank = len(basis)
    lifted = np.hstack([basis, np.zeros((rank, 1))])
    along, across = lifted @ form @ lifted.T, lifted @ form @ x
    mean = -np.linalg.solve(along, across)
    if rng is None:
        return np.asarray(x + mean @ lifted)
    rest = 1.0 + max(float(x @ form @ x + across @ mean), 0.0)
    freedom = 2.0 * power - rank
    spread = math.sqrt(rest / rng.chisquare(freedom))
    drawn = mean + spread * np.linalg.solve(np.linalg.cholesky(along).T, rng.standard_normal(rank))
    return np.asarray(x + drawn @ lifted)


def with_open_directions(view: View, missing: MissingPattern, pattern: int) -> View:
    """Return the terms of a view with the open directions of a pattern integrated out."""
    head, power, least = view.shape
    packed, head, power = open_terms(view.packed, head, power, missing.basis[pattern], int(missing.rank[pattern]))
    return view._replace(packed=packed, shape=np.array([head, power, least]))


def open_densities(
    frozen: Densities, view: View, missing: MissingPattern, rows: Array, log_density: Array, log_density_new: Array
) -> tuple[Array, Array, MissingPattern]:
    """Integrate the missing values out of the frozen densities.

    Parameters
    ----------
    frozen, view
        Densities of the known classes and of a new subclass, and all terms of the present state.
    missing
        Missing values of n rows.
    rows
        Homogeneous rows, with draws in place of missing values, shape (n, C + d + 1).
    log_density, log_density_new
        Log densities of the rows with the draws, shape (n, J) and (n,).

    Returns
    -------
    The log densities without the missing values, on the scale of complete rows, and the missing values with that
    shift. The drawn values add the same number to all log densities of a row, so they do not favour any class.
    """
    log_density, log_density_new, shift = log_density.copy(), log_density_new.copy(), missing.shift.copy()
    columns = rows.shape[1] - 1 - missing.basis.shape[1]
    for pattern in range(len(missing.rank)):
        at = np.flatnonzero(missing.pattern == pattern)
        if not len(at):
            continue
        product, places = products(rows[at], columns), places_of(rows[at], columns)
        closed = frozen.student_terms[:3]
        packed, head, power = open_terms(*closed, missing.basis[pattern], int(missing.rank[pattern]))
        left = frozen.student_terms._replace(packed=packed, head=head, power=power)
        sums, _ = log_sums(left, rows[at], columns)
        whole, part = (weights_of(v, product, places) for v in (view, with_open_directions(view, missing, pattern)))
        shift[at] = np.logaddexp.reduce(whole) - np.logaddexp.reduce(part)
        log_density[at], log_density_new[at] = (sums[:-1] + shift[at]).T, sums[-1] + shift[at]
    return log_density, log_density_new, missing._replace(shift=shift)


def weights_of(view: View, product: Array, places: Array) -> Array:
    """Log weight of each of M terms for n rows, from their products of coordinates and their places, shape (M, n)."""
    head, power, least = view.shape
    form = np.maximum(view.packed @ product.T, least[:, None])
    out = head[:, None] - power[:, None] * np.log1p(form)
    return np.asarray(out + view.values[:, places].sum(axis=1) if len(places) else out)


def complete_rows(
    view: View, rows: Array, missing: MissingPattern, rng: np.random.Generator | None, only: range | None = None
) -> Array:
    """Complete whitened rows, shape (n, C + d), given their observed values.

    Parameters
    ----------
    view
        All terms of the present state.
    rows, missing
        The rows, and their missing values.
    rng
        Source of randomness: it draws a term, then the missing values given the term and the observed values.
        ``None``: the most probable term and its conditional mean.
    only
        Known classes that the rows belong to.
    """
    out = homogeneous(rows)
    first, last = (0, len(view.packed)) if only is None else (view.first[only.start], view.first[only.stop])
    d = missing.basis.shape[1]
    columns = rows.shape[1] - d
    a, b = np.tril_indices(d + 1)
    for pattern in range(len(missing.rank)):
        at = np.flatnonzero(missing.pattern == pattern)
        if not len(at) or first == last:
            continue
        basis = missing.basis[pattern, : missing.rank[pattern]]
        places = places_of(out[at], columns)
        terms = with_open_directions(view, missing, pattern)
        weight = weights_of(terms, products(out[at], columns), places)[first:last]
        if rng is None:
            chosen = weight.argmax(axis=0)
        else:
            share = np.cumsum(np.exp(weight - weight.max(axis=0)), axis=0)
            chosen = (share < rng.random(len(at)) * share[-1]).sum(axis=0)
        for i, m in zip(at.tolist(), (first + np.minimum(chosen, len(weight) - 1)).tolist(), strict=True):
            form = np.zeros((d + 1, d + 1))
            form[a, b] = view.packed[m] * np.where(a == b, 1.0, 0.5)
            form = form + form.T - np.diag(np.diag(form))
            out[i, columns:] = complete(form, float(view.shape[1, m]), out[i, columns:], basis, rng)
    return np.ascontiguousarray(out[:, :-1])


def is_complete(missing: MissingPattern) -> bool:
    """Return whether no value is missing."""
    return bool((missing.pattern == NOTHING).all())
