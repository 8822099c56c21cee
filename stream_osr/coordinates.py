"""Coordinates of the model, fitted to labelled rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stream_osr.config import Parameters
from stream_osr.features import Features
from stream_osr.kinds import commonest
from stream_osr.limits import MODELLED_VALUES
from stream_osr.model.binary_features import NO_BINARY_FEATURES, OF_FLAG, BinaryFeatures, find_binary_features
from stream_osr.model.subspace import Plan
from stream_osr.model.whitening import Whitening, choose, fill_mixed, find_open, fit_mixed
from stream_osr.model.yeo_johnson import NO_YEO_JOHNSON, bend, find_yeo_johnson, unbend


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
        Number of places of each feature, shape (p,). It is 0 for a number, -1 for a member of a binary feature, and
        the number of values plus two for a category.
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
    return ModelledFeatures(features, X, binary_features, places, find_open(X, places))


def fit_coordinates(
    rows: ModelledFeatures, group: np.ndarray, p: Parameters, order: np.ndarray | None = None
) -> tuple[np.ndarray, Plan | None, Whitening]:
    """Fit the coordinates to rows with their classes and positions in the order of arrival.

    Missing values are completed.

    Returns
    -------
    Completed rows, shape (n, p), the plan for the numeric features, and the map to whitened rows. The plan is
    ``None`` if it is not chosen, or if there are no numeric features.

    Raises
    ------
    InvalidParameter
        If the rows do not allow the given PCA.
    """
    X, places = rows.X, rows.places
    powers = find_yeo_johnson(X, group, places == 0) if p.pca is None else NO_YEO_JOHNSON
    bent = bend(powers, X)
    plan = choose(bent, group, places, order) if p.pca is None else None
    X = unbend(powers, fill_mixed(bent, group, places, p.seed))
    whitening = fit_mixed(
        X,
        group,
        places,
        binary_features=rows.binary_features,
        yeo_johnson=powers,
        open_categories=rows.open,
        plan=plan,
        pca_components=p.pca_components,
        pca_variance=p.pca_variance,
    )
    return X, plan, whitening
