"""Whitening of mixed features, fitted to training rows: categories, constants, and numbers with missing values."""

from __future__ import annotations

import numpy as np

from stream_osr.model.feature_space.binary_features import NO_BINARY_FEATURES, OF_CONSTANT, BinaryFeatures
from stream_osr.model.feature_space.imputation import fill_groups
from stream_osr.model.feature_space.subspace import Plan, is_constant, make_plan, usual_values
from stream_osr.model.feature_space.whitening import NO_WHITENING, Whitening, fit_whitening
from stream_osr.model.feature_space.yeo_johnson import NO_YEO_JOHNSON, YeoJohnson, bend
from stream_osr.model.jit import Array
from stream_osr.model.prior import NO_COLUMN

LEAST_CONSTANT = 20
"""Least number of instances with one value for a constant feature."""


def find_constant(X: Array, places: Array) -> Array:
    """Find the numbers that are constant in training and not modelled, shape (p,).

    A feature that never varied carries no information about classes. With few instances that may be chance. If no
    other feature varies, there would be nothing to model. Arguments as for :func:`fit_mixed`.

    Examples
    --------
    >>> X = np.column_stack([np.full(40, 2025.0), np.arange(40)])
    >>> find_constant(X, np.zeros(2, int)), find_constant(X[:10], np.zeros(2, int))
    (array([ True, False]), array([False, False]))
    """
    constant = (places == 0) & is_constant(X) & ((~np.isnan(X)).sum(axis=0) >= LEAST_CONSTANT)
    return constant if ((places != 0) | ~is_constant(X)).any() else np.zeros(len(places), bool)


def choose(
    X: Array, group: Array, places: Array, order: Array | None = None, raw: Array | None = None
) -> Plan | None:
    """Choose the treatment of the numeric features, or ``None`` if there are none.

    Arguments as for :func:`fit_mixed`, and the others as for :func:`.subspace.make_plan`.
    """
    numeric = places == 0
    if not numeric.any():
        return None
    return make_plan(X[:, numeric], group, order, None if raw is None else raw[:, numeric])


def fill_mixed(X: Array, group: Array, places: Array, seed: int) -> Array:
    """Complete the numeric features of training rows (:func:`stream_osr.model.feature_space.imputation.fill_groups`).

    A category may be missing. Arguments as for :func:`fit_mixed`, and the seed of the draws.
    """
    numeric = places == 0
    if numeric.all():
        return fill_groups(X, group, seed)
    out = X.copy()
    out[:, numeric] = fill_groups(X[:, numeric], group, seed)
    return out


def fit_mixed(
    X: Array,
    group: Array,
    places: Array,
    *,
    binary_features: BinaryFeatures = NO_BINARY_FEATURES,
    yeo_johnson: YeoJohnson = NO_YEO_JOHNSON,
    open_categories: Array = NO_COLUMN,
    plan: Plan | None = None,
    pca: int | float | None = None,
) -> Whitening:
    """Fit the map of the numeric features (:func:`fit_whitening`), beside the categories.

    Parameters
    ----------
    X
        Training instances, NaN = missing, categories as numbers of values, shape (n, p).
    group
        Class of each, 0 to J - 1, shape (n,).
    places
        Places of each feature, shape (p,): 0 for a number, -1 for a column of a flag, -2 for a constant, and two more
        than the number of values for a category.
    binary_features
        Categories that are given as numbers (:func:`.find_binary_features`).
    yeo_johnson
        Features to transform first (:func:`stream_osr.model.feature_space.yeo_johnson.find_yeo_johnson`).
    open_categories
        Open categories (:func:`.open_categories.find_open`).
    plan
        Treatment of the numeric features (:func:`choose`).
    pca
        As for :func:`fit_whitening`, for the numeric features.

    Examples
    --------
    >>> from stream_osr.model.feature_space.whitening import whiten
    >>> X = np.array([[0, 1.5], [1, 2.5], [0, 3.5], [np.nan, 4.5]])
    >>> space = fit_mixed(X, np.array([0, 0, 1, 1]), np.array([4, 0]))
    >>> whiten(space, X)[:, 0]
    array([1., 2., 1., 0.])
    """
    numeric, columns, own, p = np.flatnonzero(places == 0), np.flatnonzero(places > 0), NO_WHITENING, len(places)
    X = bend(yeo_johnson, X)
    if len(numeric):
        numbers = X if len(numeric) == p else X[:, numeric]  # selected columns lie in another order, and round so
        own = fit_whitening(numbers, group, plan=plan, pca=pca)
    d = own.forward.shape[1]
    fill, center, constant = np.zeros(p), np.zeros(p), np.zeros(p, bool)
    forward, backward = np.zeros((p, d)), np.zeros((d, p))
    fill[numeric], center[numeric], constant[numeric] = own.fill, own.center, own.constant
    left_out = places == OF_CONSTANT
    fill[left_out] = center[left_out] = usual_values(X[:, left_out])
    constant |= left_out
    forward[numeric], backward[:, numeric] = own.forward, own.backward
    of_all = np.concatenate([places[columns], binary_features.sizes + 2])
    categories = columns, of_all, binary_features, yeo_johnson, open_categories
    return Whitening(fill, center, forward, backward, constant, own.variance_left, *categories)
