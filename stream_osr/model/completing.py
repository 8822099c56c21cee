"""Rows of which something is missing, in a present state: how dense they are without it, and what it may be."""

from __future__ import annotations

import numpy as np

from stream_osr.model.categories import places_of
from stream_osr.model.gaps import NOTHING, Gaps, complete, open_terms
from stream_osr.model.known import Densities
from stream_osr.model.predictive import View
from stream_osr.model.prior import homogeneous
from stream_osr.model.terms import log_sums, products


def opened(view: View, gaps: Gaps, pattern: int) -> View:
    """State the terms of a view with what a pattern leaves open integrated out."""
    head, power, least = view.shape
    packed, head, power = open_terms(view.packed, head, power, gaps.basis[pattern], int(gaps.rank[pattern]))
    return view._replace(packed=packed, shape=np.array([head, power, least]))


def open_densities(
    frozen: Densities, view: View, gaps: Gaps, rows: np.ndarray, log_density: np.ndarray, log_density_new: np.ndarray
) -> tuple[np.ndarray, np.ndarray, Gaps]:
    """Integrate what is missing out of the frozen densities.

    Parameters
    ----------
    frozen, view
        Densities of the known classes and of a new subclass, and all terms of the present state.
    gaps
        What is missing of n rows.
    rows
        Homogeneous, with what was drawn where something is missing, shape (n, C + d + 1).
    log_density, log_density_new
        Of the rows as they are, shape (n, J) and (n,).

    Returns
    -------
    The log densities without what is missing, on the scale of complete rows, and the gaps with that shift: what is
    drawn for a row adds the same to all of its densities, so that it does not choose between them.
    """
    log_density, log_density_new, shift = log_density.copy(), log_density_new.copy(), gaps.shift.copy()
    columns = rows.shape[1] - 1 - gaps.basis.shape[1]
    for pattern in range(len(gaps.rank)):
        at = np.flatnonzero(gaps.pattern == pattern)
        if not len(at):
            continue
        product, terms, places = products(rows[at], columns), frozen.terms, places_of(rows[at], columns)
        packed, head, power = open_terms(
            terms.packed, terms.head, terms.power, gaps.basis[pattern], int(gaps.rank[pattern])
        )
        sums, _ = log_sums(terms._replace(packed=packed, head=head, power=power), product, places)
        whole, part = (weights_of(v, product, places) for v in (view, opened(view, gaps, pattern)))
        shift[at] = np.logaddexp.reduce(whole) - np.logaddexp.reduce(part)
        log_density[at], log_density_new[at] = (sums[:-1] + shift[at]).T, sums[-1] + shift[at]
    return log_density, log_density_new, gaps._replace(shift=shift)


def weights_of(view: View, product: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Log weight of each of M terms for n rows, by products of their coordinates and their places, shape (M, n)."""
    head, power, least = view.shape
    form = np.maximum(view.packed @ product.T, least[:, None])
    out = head[:, None] - power[:, None] * np.log1p(form)
    return np.asarray(out + view.values[:, places].sum(axis=1) if len(places) else out)


def complete_rows(
    view: View, rows: np.ndarray, gaps: Gaps, rng: np.random.Generator | None, only: range | None = None
) -> np.ndarray:
    """Complete whitened rows, shape (n, C + d), by what is there of them.

    Parameters
    ----------
    view
        All terms of the present state.
    rows, gaps
        The rows, and what is missing of them.
    rng
        Source of randomness: a term is drawn, then what is missing given that and the rest. ``None``: the most
        probable term, and the middle of it.
    only
        Known classes that the rows belong to.
    """
    out = homogeneous(rows)
    first, last = (0, len(view.packed)) if only is None else (view.first[only.start], view.first[only.stop])
    d = gaps.basis.shape[1]
    columns = rows.shape[1] - d
    a, b = np.tril_indices(d + 1)
    for pattern in range(len(gaps.rank)):
        at = np.flatnonzero(gaps.pattern == pattern)
        if not len(at) or first == last:
            continue
        basis = gaps.basis[pattern, : gaps.rank[pattern]]
        places = places_of(out[at], columns)
        weight = weights_of(opened(view, gaps, pattern), products(out[at], columns), places)[first:last]
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


def is_complete(gaps: Gaps) -> bool:
    """Say whether nothing is missing."""
    return bool((gaps.pattern == NOTHING).all())
