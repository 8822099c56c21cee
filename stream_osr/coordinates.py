"""Coordinates of the model, fitted to labelled rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stream_osr.config import Parameters
from stream_osr.features import Features
from stream_osr.kinds import commonest
from stream_osr.limits import MODELLED_VALUES
from stream_osr.model.binary_features import (
    NO_BINARY_FEATURES,
    OF_CONSTANT,
    OF_FLAG,
    BinaryFeatures,
    find_binary_features,
)
from stream_osr.model.subspace import Plan
from stream_osr.model.whitening import Whitening, choose, fill_mixed, find_constant, find_open, fit_mixed
from stream_osr.model.yeo_johnson import NO_YEO_JOHNSON, YeoJohnson, bend, find_yeo_johnson, unbend


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
        Categories in which a new value carries no information (:func:`stream_osr.model.whitening.find_open`).
    """

    features: Features
    X: np.ndarray
    binary_features: BinaryFeatures
    places: np.ndarray
    open: np.ndarray


def as_modelled(features: Features, X: np.ndarray, p: Parameters) -> ModelledFeatures:
    """Determine how the model treats each feature of labelled rows, NaN = missing, shape (n, p)."""
    X, occurring = commonest(X, features.names, features.kinds, MODELLED_VALUES)
    features = Features(features.names, occurring)
    binary_features = find_binary_features(X, features.places) if p.pca is None else NO_BINARY_FEATURES
    places = features.places
    places[binary_features.members] = OF_FLAG
    if p.pca is None:
        places[find_constant(X, places)] = OF_CONSTANT
    return ModelledFeatures(features, X, binary_features, places, find_open(X, places))


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
        pca_components=p.pca_components,
        pca_variance=p.pca_variance,
    )
