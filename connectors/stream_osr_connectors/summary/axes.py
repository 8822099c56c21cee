"""The feature map: known and new subclasses on the two discriminant axes that separate the classes best.

Distances in the plane are in standard deviations within a known class. Two subclasses that overlap in the plane may
still be far apart in other directions.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from stream_osr.model.nearest import means_and_scales
from stream_osr.stream import Stream

INSIDE = 0.9
"""Share of a subclass that its ellipse covers."""
CORNERS = 36
"""Number of points of an outline."""
DOTS = 1500
"""Most instances that are drawn."""


class Spot(NamedTuple):
    """A subclass on the feature map.

    Attributes
    ----------
    id
        Its identity.
    label
        Label of the known class, ``None`` for a new subclass.
    size
        Instances in it.
    centre
        Its mean, shape (2,).
    outline
        Corners of the ellipse that covers the share ``INSIDE`` by the posterior mean covariance, shape (``CORNERS``,
        2).
    """

    id: int
    label: str | None
    size: int
    centre: NDArray[np.float64]
    outline: NDArray[np.float64]


class Plane(NamedTuple):
    """Subclasses, class means and instances on one feature map.

    Attributes
    ----------
    spots
        Known subclasses, then new ones.
    classes
        Mean of each known class, shape (2,) each.
    dots
        Instances of the stream, shape (n, 2).
    seats
        Emerged subclass of each instance, -1 for none, shape (n,).
    """

    spots: tuple[Spot, ...]
    classes: dict[str, NDArray[np.float64]]
    dots: NDArray[np.float64]
    seats: NDArray[np.int64]


def emerged_slots(stream: Stream) -> dict[int, int]:
    """Return the slot in the sampler's tables of each announced subclass, by id."""
    announced = set(stream.life.ids[stream.life.emerged].tolist())
    return {int(key): slot for slot, key in enumerate(stream.state.ids) if int(key) in announced}


def planes(stream: Stream) -> tuple[Plane, ...]:
    """Compute the feature maps of the known classes, and of known classes and new subclasses.

    Returns
    -------
    tuple of Plane
        Empty with a single feature. Without the second map if no subclass has emerged.
    """
    known = stream.known
    if known.prior.n_features < 2:
        return ()
    kept = np.isfinite(stream.chains[0].frozen.log_weight).any(axis=0)
    means, covariances = means_and_scales(known.dishes, known.prior)
    means, covariances, seated = means[kept], covariances[kept], known.seated[:, kept]
    fresh_means, fresh_covariances = means_and_scales(stream.state.dishes, known.prior)
    slots = emerged_slots(stream)
    at = np.array(list(slots.values()), dtype=np.int64)
    fresh_means, fresh_covariances = fresh_means[at], fresh_covariances[at]

    class_means = seated @ means / np.maximum(seated.sum(axis=1, keepdims=True), 1e-300)
    whole = seated.sum(axis=1) > 0  # a class none of whose subclasses is kept has no place
    owner = seated.argmax(axis=0)
    weight, off = seated.max(axis=0), means - class_means[owner]
    within = np.einsum("k,kab->ab", weight, covariances) + np.einsum("k,ka,kb->ab", weight, off, off)
    within /= weight.sum()
    middle = means[weight > 0].mean(axis=0)
    past = np.unique(np.linspace(0, len(stream.recent.keys) - 1, min(DOTS, len(stream.recent.keys))).astype(np.int64))
    dots, seats = stream.recent.rows[past, len(known.prior.first) :] - middle, stream.recent.subclass[0, past]
    seats = np.where(np.isin(seats, list(slots)), seats, -1)
    labels = [str(label) for label in stream.labels]
    clouds = [points - middle for points in (class_means[whole], fresh_means, means)]
    views = [clouds, [np.concatenate(clouds[:2]), *clouds[1:]]][: 2 if slots else 1]
    ids, sizes = [*known.ids[kept].tolist(), *slots], [*known.dishes.size[kept], *stream.state.dishes.size[at]]
    centres, shapes = np.concatenate([means, fresh_means]) - middle, np.concatenate([covariances, fresh_covariances])
    names = [labels[j] for j in owner] + [None] * len(slots)
    out = []
    for cloud in views:
        axes = discriminants(cloud, within)
        spots = [
            Spot(key, name, int(size), *_ellipse(centre, covariance, axes))
            for key, name, size, centre, covariance in zip(ids, names, sizes, centres, shapes, strict=True)
        ]
        classes = {labels[j]: (class_means[j] - middle) @ axes for j in np.flatnonzero(whole)}
        out.append(Plane(tuple(spots), classes, dots @ axes, seats))
    return tuple(out)


def discriminants(clouds: list[NDArray[np.float64]], within: NDArray[np.float64]) -> NDArray[np.float64]:
    """Find the two axes that separate points best, relative to the covariance within classes.

    Parameters
    ----------
    clouds
        Points to separate. Later arrays are used if the first ones leave an axis undetermined. Shape (n, d) each.
    within
        Covariance within classes, shape (d, d).

    Returns
    -------
    NDArray
        Coordinates of points are ``points @ axes``, shape (d, 2), d >= 2. ``axes.T @ within @ axes`` is the identity.

    Examples
    --------
    >>> axes = discriminants([np.array([[0.0, 0.0], [4.0, 0.0]])], np.diag([4.0, 1.0]))
    >>> (abs(axes) + 0.0).round(3).tolist()
    [[0.5, 0.0], [0.0, 1.0]]
    """
    lower = np.linalg.cholesky(within)
    straight = [solve_triangular(lower, points.T, lower=True).T for points in clouds]
    return np.asarray(solve_triangular(lower, _directions(straight, len(within)), lower=True, trans="T"))


def _directions(clouds: list[NDArray[np.float64]], d: int) -> NDArray[np.float64]:
    """Find the two widest orthonormal directions of the first cloud, or of the next ones if it has fewer.

    Two known classes differ along one line only. The second axis then shows the spread of new or known subclasses.
    """
    found = np.zeros((d, 0))
    for points in [*clouds, np.eye(d)]:
        rest = points - points.mean(axis=0) if len(points) else points
        rest = rest - rest @ found @ found.T
        _, width, axes = np.linalg.svd(rest, full_matrices=False)
        wide = axes[width > 1e-6 * max(1.0, float(np.abs(points).max(initial=0.0)))][: 2 - found.shape[1]]
        found = np.concatenate([found, wide.T], axis=1)
        if found.shape[1] == 2:
            break
    return np.asarray(found * np.where(np.take_along_axis(found, abs(found).argmax(0)[None], 0) < 0, -1.0, 1.0))


def _ellipse(
    mean: NDArray[np.float64], covariance: NDArray[np.float64], axes: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    centre = mean @ axes
    power, turned = np.linalg.eigh(axes.T @ covariance @ axes)
    angle = np.linspace(0.0, 2.0 * np.pi, CORNERS, endpoint=False)
    circle = np.sqrt(-2.0 * np.log1p(-INSIDE)) * np.column_stack([np.cos(angle), np.sin(angle)])
    return centre, centre + circle * np.sqrt(np.maximum(power, 0.0)) @ turned.T
