"""Coordinates of the model, fitted to labelled rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stream_osr.errors import InvalidParameter
from stream_osr.instances.features import Features
from stream_osr.instances.kinds import commonest
from stream_osr.model.dependence import ArrivalOrder
from stream_osr.model.feature_space.binary_features import (
    NO_BINARY_FEATURES,
    OF_CONSTANT,
    OF_FLAG,
    BinaryFeatures,
    category_of,
    find_binary_features,
    with_categories,
)
from stream_osr.model.feature_space.mixed_whitening import choose, fill_mixed, find_constant, fit_mixed
from stream_osr.model.feature_space.open_categories import find_open
from stream_osr.model.feature_space.subspace import Plan
from stream_osr.model.feature_space.whitening import Whitening, along_subclasses, bent_scale, whiten
from stream_osr.model.feature_space.yeo_johnson import NO_YEO_JOHNSON, YeoJohnson, bend, find_yeo_johnson, unbend
from stream_osr.model.modes import DEPENDENT, find_modes
from stream_osr.parameters import Parameters
from stream_osr.support.limits import MODELLED_VALUES
from stream_osr.training import members

MOST_OF_ALARM = 20
"""Most values in training of a number whose change alone means unknown."""


class ModelledFeatures(NamedTuple):
    """Labelled rows in the form that the model uses.

    Attributes
    ----------
    features
        Features, with the values of categories that have a probability of their own.
    X
        Rows, NaN = missing, shape (n, p).
    binary_features
        Numeric features that the model treats as categories.
    places
        Number of places of each feature, shape (p,). It is 0 for a number, -1 for a member of a binary feature, -2
        for a constant that is not modelled, and the number of values plus two for a category.
    open
        Categories in which a new value carries no information
        (:func:`stream_osr.model.feature_space.open_categories.find_open`).
    alarms
        Categories of which a new value alone means unknown (``Input.alarms``).

    The numbers of categories in ``open`` and ``alarms`` are those of the columns of a whitened row.
    """

    features: Features
    X: np.ndarray
    binary_features: BinaryFeatures
    places: np.ndarray
    open: np.ndarray
    alarms: np.ndarray


def as_modelled(features: Features, X: np.ndarray, p: Parameters) -> ModelledFeatures:
    """Determine how the model treats each feature of labelled rows, NaN = missing, shape (n, p).

    Raises
    ------
    InvalidParameter
        If a feature in ``alarms`` is a number with many values.
    """
    X, occurring = commonest(X, features.names, features.kinds, MODELLED_VALUES)
    features = Features(features.names, occurring)
    places = features.places
    alarms = np.array([name in (p.alarms or ()) for name in features.names], bool)
    searched = np.where(alarms, OF_FLAG, places)
    binary_features = find_binary_features(X, searched) if p.pca is None else NO_BINARY_FEATURES
    numbers = np.flatnonzero(alarms & (places == 0)).tolist()
    given = int((places > 0).sum()) + len(binary_features.spans)
    values = [(at, _values_of_alarm(features, X, at)) for at in numbers]
    binary_features = with_categories(binary_features, [category_of(at, own) for at, own in values])
    places[binary_features.members] = OF_FLAG
    if p.pca is None:
        places[find_constant(X, places)] = OF_CONSTANT
    category = np.cumsum(places > 0) - 1
    return ModelledFeatures(
        features,
        X,
        binary_features,
        places,
        find_open(X, np.where(alarms, 0, places)),
        np.concatenate([category[alarms & (places > 0)], given + np.arange(len(numbers))]),
    )


def _values_of_alarm(features: Features, X: np.ndarray, at: int) -> np.ndarray:
    """Return the values in training of a number whose change alone means unknown, in ascending order."""
    values = np.unique(X[~np.isnan(X[:, at]), at])
    if len(values) > MOST_OF_ALARM:
        raise InvalidParameter(
            f"alarms has {features.names[at]!r}, which is a number with {len(values)} values in training: expected a "
            f"category or at most {MOST_OF_ALARM} values. Name it in categorical as well, or leave it out of alarms"
        )
    return values


class Coordinates(NamedTuple):
    """Coordinates of the model, with the training rows that they were fitted to.

    Attributes
    ----------
    X
        Completed rows, shape (n, p).
    plan
        Plan for the numeric features. ``None``: it is not chosen, or there are no numeric features.
    whitening
        Map to whitened rows.
    """

    X: np.ndarray
    plan: Plan | None
    whitening: Whitening


def fit_coordinates(
    rows: ModelledFeatures, group: np.ndarray, p: Parameters, order: np.ndarray | None = None
) -> Coordinates:
    """Fit the coordinates to rows with their classes and positions in the order of arrival.

    Missing values are completed first, so that they do not change the choice of directions.

    Raises
    ------
    InvalidParameter
        If the rows do not allow the given PCA.
    """
    yeo_johnson = find_yeo_johnson(rows.X, group, rows.places == 0) if p.pca is None else NO_YEO_JOHNSON
    bent = bend(yeo_johnson, rows.X)
    filled = fill_mixed(bent, group, rows.places, p.seed)
    plan = choose(filled, group, rows.places, order, bent) if p.pca is None else None
    X = unbend(yeo_johnson, filled)
    return Coordinates(X, plan, _whitening(rows, X, group, yeo_johnson, plan, p))


def complete_within(
    fitted: Coordinates, rows: ModelledFeatures, group: np.ndarray, subclass: np.ndarray, p: Parameters
) -> Coordinates:
    """Complete the rows again, within subclasses, and fit the map to them. The plan stays.

    A class with separate modes is no Gaussian: values completed within the class would lie between its modes.
    """
    yeo_johnson = fitted.whitening.yeo_johnson
    X = unbend(yeo_johnson, fill_mixed(bend(yeo_johnson, rows.X), subclass, rows.places, p.seed))
    return Coordinates(X, fitted.plan, _whitening(rows, X, group, yeo_johnson, fitted.plan, p))


def _whitening(
    rows: ModelledFeatures,
    X: np.ndarray,
    group: np.ndarray,
    yeo_johnson: YeoJohnson,
    plan: Plan | None,
    p: Parameters,
) -> Whitening:
    return fit_mixed(
        X,
        group,
        rows.places,
        binary_features=rows.binary_features,
        yeo_johnson=yeo_johnson,
        open_categories=rows.open,
        plan=plan,
        pca=p.pca,
    )


class Modes(NamedTuple):
    """Modes of the classes.

    Attributes
    ----------
    fitted
        Coordinates, turned to the axes of the modes.
    start
        Mode of each training instance, shape (n,). ``None``: each class is one.
    spread
        Variance within modes in each numeric coordinate, shape (d,). ``None``: each class is one mode.
    """

    fitted: Coordinates
    start: np.ndarray | None
    spread: np.ndarray | None


def search_modes(
    fitted: Coordinates, modelled: ModelledFeatures, group: np.ndarray, order: ArrivalOrder | None, p: Parameters
) -> Modes:
    """Find the modes of the classes, and complete missing values within them."""
    numbers = whitened(fitted)
    priors = members.priors_of_modes(numbers.shape[1], p)
    dependent = order is not None and order.process is not None
    rng = np.random.default_rng([p.seed, len(numbers), 23])
    features = fitted.whitening.backward / np.maximum(bent_scale(fitted.whitening, np.eye(numbers.shape[1])), 1e-300)
    start = find_modes(numbers, group, priors, rng, DEPENDENT if dependent else 1.0, features, p.n_jobs)
    if start.max() == group.max():
        return Modes(fitted, None, None)
    if np.isnan(modelled.X).any():
        fitted = complete_within(fitted, modelled, group, start, p)
        numbers = whitened(fitted)
    whitening, spread = along_subclasses(fitted.whitening, numbers, start)
    return Modes(fitted._replace(whitening=whitening), start, spread)


def whitened(fitted: Coordinates) -> np.ndarray:
    """Numeric coordinates of the whitened rows, shape (n, d)."""
    return np.ascontiguousarray(whiten(fitted.whitening, fitted.X)[:, len(fitted.whitening.places) :])
