"""Whitened coordinates of raw rows some of whose features are categories."""

from __future__ import annotations

import numpy as np

from stream_osr.model.filling import fill_groups
from stream_osr.model.flags import NO_FLAGS, Flags
from stream_osr.model.powers import NO_POWERS, Powers, bend
from stream_osr.model.space import Space, fit_space
from stream_osr.model.subspace import Plan, make_plan


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
    return Space(fill, center, forward, backward, constant, own.variance_left, columns, of_all, flags, powers)
