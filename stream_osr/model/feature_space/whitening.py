"""Whitening: the map from raw features to the model's coordinates and back.

Whitened rows begin with the places of the categories. The numeric features follow, whitened.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

from stream_osr.errors import InvalidParameter
from stream_osr.model.feature_space.binary_features import NO_BINARY_FEATURES, BinaryFeatures, place_of_flag
from stream_osr.model.feature_space.bounded_scatter import bounded_scatter
from stream_osr.model.feature_space.subspace import Directions, Plan, follow, is_constant
from stream_osr.model.feature_space.yeo_johnson import NO_YEO_JOHNSON, YeoJohnson, bend, unbend
from stream_osr.model.jit import Array, borrowing_kernel, kernel
from stream_osr.model.prior import NO_COLUMN
from stream_osr.support import rules

RIDGE = 1e-6
"""Share of each feature's total variance that is added to its within-class variance."""

CONSTANT_SPREAD = 0.1
"""Standard deviation of a modelled feature that did not vary, as a share of the feature's size."""

HORIZON = 1e4
"""Distance from the training mean (in within-class standard deviations) to which farther rows are moved."""


class Whitening(NamedTuple):
    """A frozen map: transform features, fill missing values, project, whiten by the within-class covariance W.

    After the power transforms the map is affine: all fields but these are of transformed features.

    Attributes
    ----------
    fill
        Training mean of each raw feature, which replaces missing values, shape (p,).
    center
        Training mean ``mu0``, with bounded weights of far instances, shape (p,).
    forward
        ``z = (x - center) @ forward``, shape (p, d).
    backward
        ``x = center + z @ backward``, shape (d, p).
    constant
        Raw features that did not vary in training, shape (p,).
    variance_left
        Share of the total variance that a PCA left out (0 without PCA).
    columns
        Raw features that are categories, given as numbers of values, shape (C,). Whitened rows begin with their
        places (:mod:`stream_osr.model.categories`), and the maps ignore them.
    places
        Places of each category: its values, one for the column and one for all other values, shape (C,). Those of
        ``columns`` come first, then the flags.
    binary_features
        Categories that the input gives as numbers.
    yeo_johnson
        Features to transform first (:mod:`stream_osr.model.feature_space.yeo_johnson`).
    open
        Open categories among ``columns``, by their numbers among the categories. Known instances bring new values in
        them all the time (:func:`.open_categories.find_open`). A value that is not in training carries no information
        there and counts as missing.
    """

    fill: Annotated[Array, rules.array("f", "p", low=-1e100, high=1e100)]
    center: Annotated[Array, rules.array("f", "p", low=-1e100, high=1e100)]
    forward: Annotated[Array, rules.array("f", "p", "d")]
    backward: Annotated[Array, rules.array("f", "d", "p")]
    constant: Annotated[Array, rules.array("b", "p")]
    variance_left: rules.Share
    columns: Annotated[Array, rules.array("i", "*", low=0), rules.distinct, rules.some] = NO_COLUMN
    places: Annotated[Array, rules.array("i", "*", low=2)] = NO_COLUMN
    binary_features: BinaryFeatures = NO_BINARY_FEATURES
    yeo_johnson: YeoJohnson = NO_YEO_JOHNSON
    open: Annotated[Array, rules.array("i", "*", low=0), rules.distinct, rules.ascending, rules.some] = NO_COLUMN


NO_WHITENING = Whitening(np.zeros(0), np.zeros(0), np.zeros((0, 0)), np.zeros((0, 0)), np.zeros(0, bool), 0.0)
"""Whitening without numeric features."""


def fit_whitening(X: Array, group: Array, *, plan: Plan | None = None, pca: int | float | None = None) -> Whitening:
    """Fit the map on the training groups.

    The pooled within-class covariance W (eq. 13 of the paper) gets a ridge of ``RIDGE`` times each coordinate's total
    variance. With fewer within-class degrees of freedom than twice the dimension, W is shrunk towards the total
    variances in proportion to the shortfall. Instances far outside their class count as if they were nearer
    (:func:`bounded_scatter`).

    If each feature is a separate direction, a feature that did not vary gets a standard deviation. It is
    ``CONSTANT_SPREAD`` times the larger of the feature's size and the median standard deviation of the features that
    vary. Such features occur here if there are few instances, or if no feature varies (:func:`find_constant`).

    Parameters
    ----------
    X
        Training instances, NaN = missing, shape (n, p).
    group
        Class of each, 0 to J - 1, shape (n,).
    plan
        Treatment of the features (:mod:`.subspace`). ``None``: each is a separate direction.
    pca
        Number of principal components to keep, or share of the variance that they must explain (a float). Give no
        plan with it.

    Raises
    ------
    InvalidParameter
        If this number of components is not available.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(100, 3)) * [1, 10, 0] + [0, 0, 5]
    >>> space = fit_whitening(X, np.arange(100) % 2)
    >>> space.constant
    array([False, False,  True])
    >>> z = whiten(space, X)
    >>> bool(np.allclose(unwhiten(space, z), X))
    True
    """
    known = ~np.isnan(X)
    counts = known.sum(axis=0)
    fill = np.where(known, X, 0.0).sum(axis=0) / np.maximum(counts, 1)
    filled = np.where(known, X, fill)
    center = filled.mean(axis=0)
    constant = is_constant(X)
    variance_left = 0.0
    if pca is not None:
        basis, variance_left = _principal_axes(filled - center, pca)
        directions = Directions(basis, basis.T, np.zeros(basis.shape[1]))
    elif plan is not None and not plan.everything:
        directions = follow(plan, X)
    else:
        typical = float(np.median(filled.std(axis=0)[~constant])) if not constant.all() else 1.0
        size = CONSTANT_SPREAD * np.maximum(np.abs(center), typical)
        directions = Directions(np.eye(len(fill)), np.eye(len(fill)), np.where(constant, size**2, 0.0))
    basis, back, least = directions
    coordinates = np.where(constant, 0.0, filled - center) @ basis
    spread = np.maximum(coordinates.var(axis=0), least)
    W, weight = _within_covariance(coordinates, group, spread, np.maximum(RIDGE * spread, least))
    middle = (weight[:, None] * coordinates).sum(axis=0) / weight.sum()
    center = center + (middle - coordinates.mean(axis=0)) @ back
    scale = np.sqrt(np.diag(W))  # factor the correlation matrix: features differ by orders of magnitude
    lower = np.linalg.cholesky(W / np.outer(scale, scale))
    inverse = solve_triangular(lower, np.eye(len(lower)), lower=True)
    forward = basis @ (inverse / scale).T
    backward = (scale[:, None] * lower).T @ back
    return Whitening(fill, center, np.ascontiguousarray(forward), backward, constant, variance_left)


def _principal_axes(centred: Array, pca: int | float) -> tuple[Array, float]:
    _, singular, axes = np.linalg.svd(centred, full_matrices=False)
    power = singular**2
    useful = int((power > 1e-12 * power[0]).sum()) if power[0] > 0 else 0
    if useful == 0:
        raise InvalidParameter(
            "the training instances are all equal, so a PCA has no component to keep. Leave it out"
        )
    share = np.cumsum(power) / power.sum()
    components = pca if isinstance(pca, int) else int(np.searchsorted(share, pca - 1e-12)) + 1
    if components > useful:
        raise InvalidParameter(
            f"pca is {components}, but the {len(centred)} training instances span only {useful} dimensions"
        )
    return axes[:components].T, float(max(0.0, 1.0 - share[components - 1]))


def _within_covariance(coordinates: Array, group: Array, spread: Array, ridge: Array) -> tuple[Array, Array]:
    """Pooled within-class covariance, including the ridge, and the weight of each instance."""
    freedom = len(coordinates) - len(np.unique(group))

    def covariance(scatter: Array) -> Array:
        return shrunk_covariance(scatter, freedom, spread, ridge)

    _, scatter, weight = bounded_scatter(coordinates, group, covariance)
    return covariance(scatter), weight


def shrunk_covariance(scatter: Array, freedom: int, spread: Array, ridge: Array) -> Array:
    """Pooled covariance from the summed scatter, shrunk towards ``spread``, shape (d,), if there are few instances.

    With fewer degrees of freedom than twice the dimension, it is shrunk in proportion to the shortfall. ``ridge``,
    shape (d,), is added to the variances.
    """
    shrink = max(0.0, 1.0 - freedom / (2.0 * max(len(scatter), 1)))
    return np.asarray((1.0 - shrink) * scatter / max(freedom, 1) + np.diag(shrink * spread + ridge))


NARROWEST = 1e-4
"""Least variance within subclasses, in variances within classes."""


def along_subclasses(whitening: Whitening, rows: Array, subclass: Array) -> tuple[Whitening, Array]:
    """Turn the coordinates to the axes in which the pooled covariance within subclasses is diagonal.

    Classes with separate modes are wider than their modes, in some directions only.

    Parameters
    ----------
    whitening
        Map to coordinates with unit variance within classes.
    rows
        Whitened rows without categories, shape (n, d).
    subclass
        Subclass of each, shape (n,).

    Returns
    -------
    The map to the turned coordinates, and the variance within subclasses of each, shape (d,).
    """
    d = rows.shape[1]
    within, _ = _within_covariance(rows, subclass, np.ones(d), np.full(d, RIDGE))
    values, axes = np.linalg.eigh(within)
    return _turned(whitening, axes), np.clip(values, NARROWEST, 1.0)


def _turned(whitening: Whitening, axes: Array) -> Whitening:
    """Turn the coordinates by an orthogonal matrix, shape (d, d)."""
    forward = np.ascontiguousarray(whitening.forward @ axes)
    return whitening._replace(forward=forward, backward=np.ascontiguousarray(axes.T @ whitening.backward))


def aligned(whitening: Whitening, other: Whitening) -> Whitening:
    """Turn the coordinates as close as possible to those of another map (orthogonal Procrustes problem)."""
    one, _, two = np.linalg.svd(other.backward @ whitening.forward)
    return _turned(whitening, (one @ two).T)


def whiten(whitening: Whitening, X: Array) -> Array:
    """Map raw rows, NaN = missing, shape (n, p), to whitened rows, shape (n, C + d)."""
    numbers = bend(whitening.yeo_johnson, X)
    z = (np.where(np.isnan(numbers), whitening.fill, numbers) - whitening.center) @ whitening.forward
    largest = np.abs(z).max(axis=1, initial=0.0)  # not the norm at once: squares of 1e200 overflow
    far = largest > HORIZON / np.sqrt(max(z.shape[1], 1))
    if far.any():
        part = z[far] / largest[far, None]
        length = np.sqrt((part**2).sum(axis=1)) * largest[far]
        z[far] = part * (largest[far] * np.minimum(1.0, HORIZON / length))[:, None]
    if len(whitening.places):
        z = np.hstack([_places(X, whitening.columns, whitening.places, whitening.binary_features, whitening.open), z])
    return np.ascontiguousarray(z)


@kernel
def _places(X: Array, columns: Array, places: Array, binary_features: BinaryFeatures, open_: Array) -> Array:
    """Places of the categories of raw rows, shape (n, C)."""
    out, found = np.empty((len(X), len(places))), np.empty(len(places), np.int64)
    for i in range(len(X)):
        write_places(X[i], columns, places, binary_features, found, open_)
        out[i] = found
    return out


@borrowing_kernel
def write_places(
    raw: Array, columns: Array, places: Array, binary_features: BinaryFeatures, out: Array, open_: Array
) -> None:
    """Write the places of the categories of a raw row, shape (C,).

    The first place of a category is for a missing value, and the last for a value that is not in training. In an open
    category (``Whitening.open``) a value that is not in training also gets the first place.
    """
    given, begin, member, bound = len(columns), 0, 0, 0
    for c in range(len(places)):
        if c < given:
            code = raw[columns[c]]
            out[c] = begin if np.isnan(code) else begin + 1 + min(int(code), places[c] - 2)
        else:
            after = member + binary_features.spans[c - given]
            end = bound + binary_features.spans[c - given] * binary_features.sizes[c - given]
            out[c] = begin + place_of_flag(
                raw,
                binary_features.members[member:after],
                binary_features.low[bound:end],
                binary_features.high[bound:end],
            )
            member, bound = after, end
        begin += places[c]
    for c in open_:
        if out[c] == places[: c + 1].sum() - 1:
            out[c] -= places[c] - 1


def even_where_open(base: Array, whitening: Whitening) -> Array:
    """Spread the base measure of open categories evenly over their values, shape (V,)."""
    out, end = base.copy(), np.cumsum(whitening.places)
    for c in whitening.open.tolist():
        out[end[c] - whitening.places[c] + 1 : end[c]] = 1.0 / (whitening.places[c] - 1)
    return out


def numeric(whitening: Whitening) -> Array:
    """Find the raw features that are numbers and neither categories nor part of a flag, shape (p,)."""
    out = np.ones(len(whitening.center), bool)
    out[whitening.columns] = out[whitening.binary_features.members] = False
    return out


def unwhiten(whitening: Whitening, z: Array) -> Array:
    """Map whitened rows without categories, shape (n, d), back to raw features, shape (n, p)."""
    return unbend(whitening.yeo_johnson, whitening.center + z @ whitening.backward)


def raw_difference(whitening: Whitening, z: Array, other: Array) -> Array:
    """Return the difference of two whitened rows in each raw feature, shape (p,)."""
    apart = (z - other) @ whitening.backward  # of raw rows it would drown in a large centre
    columns = whitening.yeo_johnson.columns
    if len(columns):
        one, two = unwhiten(whitening, np.array([z, other]))[:, columns]
        apart[columns] = one - two
    return np.asarray(apart)


def in_deviations(whitening: Whitening, z: Array, other: Array, covariance: Array) -> Array:
    """Return the difference of two whitened rows in each transformed feature, in standard deviations, shape (p,).

    The standard deviations come from a covariance of whitened rows, shape (d, d).
    """
    return np.asarray((z - other) @ whitening.backward / np.maximum(bent_scale(whitening, covariance), 1e-300))


def bent_scale(whitening: Whitening, covariance: Array) -> Array:
    """Return the standard deviation of each transformed feature under a covariance of whitened rows, shape (p,)."""
    return np.asarray(np.sqrt((whitening.backward * (covariance @ whitening.backward)).sum(axis=0)))
