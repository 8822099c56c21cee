"""Whitened coordinates of raw rows some of whose features are categories."""

from __future__ import annotations

import numpy as np

from stream_osr.model.filling import fill_groups
from stream_osr.model.flags import NO_FLAGS, Flags
from stream_osr.model.powers import NO_POWERS, Powers, bend
from stream_osr.model.prior import NO_COLUMN
from stream_osr.model.space import Space, fit_space
from stream_osr.model.subspace import Plan, make_plan

OPEN_SHARE, LEAST_ALONE = 0.02, 5
"""A category is open if so large a share of its instances, and so many, have a value that no other one has."""


def find_open(X: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Find the categories of which known instances bring new values all the time: addresses, names, identifiers.

    As many instances of a stream have a value that training did not have as training instances have a value that no
    other one has (Good 1953). Arguments as for :func:`fit_mixed`.

    Returns
    -------
    Their numbers among the categories.

    Examples
    --------
    Of 40 addresses each is there once, of two protocols each twenty times:

    >>> find_open(np.column_stack([np.arange(40), np.arange(40) % 2]), np.array([42, 4]))
    array([0])
    """
    out = list[int]()
    for number, at in enumerate(np.flatnonzero(places > 0).tolist()):
        code = X[~np.isnan(X[:, at]), at]
        count = np.unique(code[code < places[at] - 2], return_counts=True)[1]
        alone = int((count == 1).sum()) + int((code >= places[at] - 2).sum())
        if alone >= max(LEAST_ALONE, OPEN_SHARE * len(code)):
            out.append(number)
    return np.array(out, np.int64)


def choose(X: np.ndarray, group: np.ndarray, places: np.ndarray, order: np.ndarray | None = None) -> Plan | None:
    """Choose what becomes of the numeric features; ``None``: there are none.

    Arguments as for :func:`fit_mixed`, and the order of arrival as for
    :func:`~stream_osr.model.subspace.make_plan`.
    """
    return None if not (places == 0).any() else make_plan(X[:, places == 0], group, order)


def fill_mixed(X: np.ndarray, group: np.ndarray, places: np.ndarray, seed: int) -> np.ndarray:
    """Complete the numeric features of training rows (:func:`stream_osr.model.filling.fill_groups`).

    A category may be missing. Arguments as for :func:`fit_mixed`, and the seed of what is drawn.
    """
    numeric = places == 0
    if numeric.all():
        return fill_groups(X, group, seed)
    out = X.copy()
    out[:, numeric] = fill_groups(X[:, numeric], group, seed)
    return out


def fit_mixed(
    X: np.ndarray,
    group: np.ndarray,
    places: np.ndarray,
    *,
    flags: Flags = NO_FLAGS,
    powers: Powers = NO_POWERS,
    open_categories: np.ndarray = NO_COLUMN,
    plan: Plan | None = None,
    pca_components: int | None = None,
    pca_variance: float | None = None,
) -> Space:
    """Fit the map of the numeric features (:func:`stream_osr.model.space.fit_space`), beside the categories.

    Parameters
    ----------
    X
        Training instances, NaN = missing, categories as numbers of values, shape (n, p).
    group
        Class of each, 0 to J - 1, shape (n,).
    places
        Places of each feature: 0 for a numeric one, -1 for one of a flag, and two more than a category has values,
        shape (p,).
    flags
        Categories that are given as numbers (:func:`stream_osr.model.flags.find_flags`).
    powers
        Features that are bent first (:func:`stream_osr.model.powers.find_powers`).
    open_categories
        Those in which a new value says nothing (:func:`find_open`).
    plan
        What becomes of the numeric features (:func:`choose`).
    pca_components, pca_variance
        Of the numeric features.

    Examples
    --------
    >>> from stream_osr.model.space import whiten
    >>> X = np.array([[0, 1.5], [1, 2.5], [0, 3.5], [np.nan, 4.5]])
    >>> space = fit_mixed(X, np.array([0, 0, 1, 1]), np.array([4, 0]))
    >>> whiten(space, X)[:, 0]
    array([1., 2., 1., 0.])
    """
    numeric, columns = np.flatnonzero(places == 0), np.flatnonzero(places > 0)
    X = bend(powers, X)
    if not len(columns) and not len(flags.sizes):
        own = fit_space(X, group, plan=plan, pca_components=pca_components, pca_variance=pca_variance)
        return own._replace(powers=powers)
    p = len(places)
    if len(numeric):
        own = fit_space(X[:, numeric], group, plan=plan, pca_components=pca_components, pca_variance=pca_variance)
    else:
        own = Space(np.zeros(0), np.zeros(0), np.zeros((0, 0)), np.zeros((0, 0)), np.zeros(0, bool), 0.0)
    d = own.forward.shape[1]
    fill, center, constant = np.zeros(p), np.zeros(p), np.zeros(p, bool)
    forward, backward = np.zeros((p, d)), np.zeros((d, p))
    fill[numeric], center[numeric], constant[numeric] = own.fill, own.center, own.constant
    forward[numeric], backward[:, numeric] = own.forward, own.backward
    of_all = np.concatenate([places[columns], flags.sizes + 2])
    categories = columns, of_all, flags, powers, open_categories
    return Space(fill, center, forward, backward, constant, own.variance_left, *categories)
