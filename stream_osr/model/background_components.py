"""Background components: the part of a class that its kept subclasses do not describe.

The restaurant of class j has mass outside the kept subclasses: ``alpha0 / (n_j + alpha0)`` for a new subclass, and
the seats of the dropped ones. The sum over kept subclasses lacks all this mass. A background component puts it
where the class lies as a whole, so that the class density ``F_j`` integrates to one. It is a Student-t with the mean
and scatter of the class, shrunk to the pooled within-class covariance. Instances far outside the class count as if
they were nearer (:func:`.bounded_scatter.bounded_scatter`). Its degrees of freedom are those that best predict the
training instances, each left out of the class it belongs to.

A component around all of a class with separate modes would cover the place between them. Such a class has a
background component around each large subclass instead (:func:`has_hole`).

Its tails are lighter than those of the density of a new subclass in every direction, so an instance far from
everything is unknown.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import gammaincinv

from stream_osr.model import categories, student_t
from stream_osr.model.feature_space.bounded_scatter import bounded_scatter
from stream_osr.model.jit import Array
from stream_osr.model.prior import Prior
from stream_osr.support import rules

FREEDOM_ABOVE = 2.0 ** np.arange(2, 9)
"""Candidate degrees of freedom, above those of the density of a new subclass."""


class Outline(NamedTuple):
    """A class of n instances as a whole, and without each instance in turn.

    Attributes
    ----------
    mean
        Shape (d,).
    factor
        Inverse Cholesky factor of the scale matrix, shape (d, d).
    square
        Squared Mahalanobis length of each instance, by the mean and scale matrix without it, shape (n,). Infinite if
        it is the only one.
    log_determinant
        Log-determinant of the scale matrix without each instance, shape (n,).
    """

    mean: Array
    factor: Array
    square: Array
    log_determinant: Array


def outline(members: Array, spread: Array | None = None) -> Outline:
    """Compute the outline of a class from its whitened rows without categories, shape (n, d).

    The scale matrix is ``S = A / (n + d + 1)`` with ``A = scatter + (d + 1) D``. D is diagonal with elements
    ``spread``, by default 1. Instance i has weight ``c_i`` (1, unless it is far), and the weights sum to C. Without
    it the mean is ``m - c_i u / (C - c_i)``, ``u = x_i - m``, and A becomes ``A - c_i C / (C - c_i) u u'``. This is a
    change of rank one, whose determinant and inverse follow from ``u' A^-1 u``. The weights of the other instances
    stay the same, which is exact without far instances and an approximation otherwise.
    """
    n, d = members.shape
    shrunk = np.diag(np.ones(d) if spread is None else spread)

    def covariance(scatter: Array) -> Array:
        return np.asarray((scatter + (d + 1) * shrunk) / (n + d + 1))

    means, scatter, counts = bounded_scatter(members, np.zeros(n, np.int64), covariance)
    factor = solve_triangular(np.linalg.cholesky(covariance(scatter)), np.eye(d), lower=True)
    factor = np.ascontiguousarray(factor)
    if n == 1:
        return Outline(means[0], factor, np.full(1, np.inf), np.zeros(1))
    form = (((members - means[0]) @ factor.T) ** 2).sum(axis=1) / (n + d + 1)
    away = counts.sum() / (counts.sum() - counts)  # (x_i - mean without it) is so many times u
    ratio = np.maximum(1.0 - counts * away * form, np.finfo(float).eps)
    log_determinant = -2.0 * np.log(np.diag(factor)).sum() + d * np.log((n + d + 1) / (n + d)) + np.log(ratio)
    return Outline(means[0], factor, away**2 * (n + d) * form / ratio, log_determinant)


class BackgroundComponent(NamedTuple):
    """Background component of a class.

    Attributes
    ----------
    shape
        Student-t.
    share
        Share of the background mass of the class, above 0, at most 1.
    """

    shape: Annotated[student_t.Location, rules.sizes("d")]
    share: Annotated[float, rules.number(rules.ABOVE_0, 1.0)]


class _Sought(NamedTuple):
    """Background components of a class of m instances, up to their degrees of freedom.

    Attributes
    ----------
    own
        Rows of the class, shape (m,).
    parts
        Positions of the instances of each component among them.
    outlines
        Outline of each component.
    square, log_determinant
        As in :class:`Outline`, for each instance and component, shape (m, c).
    log_values
        Log probability of the values of each instance, times the share of the component, shape (m, c).
    """

    own: Array
    parts: list[Array]
    outlines: list[Outline]
    square: Array
    log_determinant: Array
    log_values: Array


LARGE = 0.1
"""Least share of a class of a subclass that has a background component."""
CERTAIN = 0.99
"""Share of the instances of a subclass that lie nearer than what counts as outside."""
BETWEEN = 3.0
"""Log odds in favour of one component, from which a class with a hole has one: its instances lie in the hole, too."""


def fit_background_components(
    rows: Array, group: Array, dish: Array, log_own: Array, alpha: float, prior: Prior
) -> tuple[tuple[tuple[BackgroundComponent, ...], ...], Array]:
    """Fit the background components: outlines, and one number of degrees of freedom for all.

    A class has one component, its outline. A class with a hole (:func:`has_hole`) has one for each large subclass,
    unless its own left-out instances lie in the hole: then they are more probable under one component by far.

    Parameters
    ----------
    rows
        Whitened rows of the training instances, shape (n, C + d).
    group
        Class of each, 0 to J - 1, shape (n,).
    dish
        Kept subclass of each, -1 if none, shape (n,).
    log_own
        Leave-one-out log density of each under the kept subclasses of the class, shape (n,).
    alpha
        Concentration of the classes' restaurants.
    prior
        Base measure, with which the background components compete.

    Returns
    -------
    The components of each class, and the log density of each instance under its class, shape (n,). The instance is
    left out of subclasses and background components. For the only instance of a class the value is minus infinity.
    """
    columns = len(prior.first)
    d = rows.shape[1] - columns
    least = prior.nu - d + 1.0  # of the conjugate predictive
    size, held = np.bincount(group), np.bincount(group, dish >= 0)
    missing = (size - held)[group] - (dish < 0) + alpha  # of the other instances
    log_weight = np.log(missing / (size[group] - 1.0 + alpha))
    candidates = [_seek(rows, np.flatnonzero(group == j), dish, prior) for j in range(len(size))]
    best, freedom, log_density = -np.inf, least + FREEDOM_ABOVE[-1], log_own
    chosen = [divisions[-1] for divisions in candidates]
    for tried in least + FREEDOM_ABOVE:
        divided = [_choose(divisions, log_own, log_weight, d, tried) for divisions in candidates]
        left_out = np.empty(len(rows))
        for sought, own in divided:
            left_out[sought.own] = own
        score = left_out[np.isfinite(left_out)].sum()
        if score > best:
            best, freedom, log_density, chosen = score, float(tried), left_out, [sought for sought, _ in divided]
    return tuple(_components(sought, rows, freedom, prior) for sought in chosen), log_density


def _choose(
    divisions: list[_Sought], log_own: Array, log_weight: Array, d: int, freedom: float
) -> tuple[_Sought, Array]:
    """Choose a division of a class, and return it with the log density of each instance when left out, shape (m,)."""
    found = list[tuple[float, Array]]()
    for sought in divisions:
        each = student_t.log_t(sought.square, sought.log_determinant, d, freedom) + sought.log_values
        apart = each[:, 0] if each.shape[1] == 1 else np.logaddexp.reduce(each, axis=1)
        own = np.logaddexp(log_own[sought.own], log_weight[sought.own] + apart)
        found.append((float(own[np.isfinite(own)].sum()), own))
    at = 0 if found[0][0] >= found[-1][0] - BETWEEN else -1
    return divisions[at], found[at][1]


def _components(sought: _Sought, rows: Array, freedom: float, prior: Prior) -> tuple[BackgroundComponent, ...]:
    """Make the components of a class with the given degrees of freedom."""
    total = sum(map(len, sought.parts))
    return tuple(
        BackgroundComponent(
            student_t.Location(freedom, whole.mean, whole.factor, log_values(rows[sought.own[part]], prior)),
            len(part) / total,
        )
        for whole, part in zip(sought.outlines, sought.parts, strict=True)
    )


def _seek(rows: Array, own: Array, dish: Array, prior: Prior) -> list[_Sought]:
    """Divide a class among its background components: not at all, and among its subclasses if it has a hole."""
    numbers = rows[own, len(prior.first) :]
    subclass, count = np.unique(dish[own], return_counts=True)
    large = subclass[(subclass >= 0) & (count >= LARGE * len(own))]
    parts = [np.flatnonzero(dish[own] == k) for k in large] if len(large) > 1 else []
    outlines = [outline(numbers[part], prior.spread) for part in parts]
    whole = _compared(rows, own, [np.arange(len(own))], [outline(numbers)], prior)
    return [_compared(rows, own, parts, outlines, prior), whole] if has_hole(outlines) else [whole]


def _compared(rows: Array, own: Array, parts: list[Array], outlines: list[Outline], prior: Prior) -> _Sought:
    """Compare each instance of a class with each component."""
    columns, members = len(prior.first), rows[own]
    numbers = members[:, columns:]
    square, log_determinant, values = np.empty((3, len(own), len(parts)))
    total = sum(map(len, parts))
    for c, (part, whole) in enumerate(zip(parts, outlines, strict=True)):
        square[:, c] = (((numbers - whole.mean) @ whole.factor.T) ** 2).sum(axis=1)
        log_determinant[:, c] = -2.0 * np.log(np.diag(whole.factor)).sum()
        values[:, c] = categories.log_of_each(log_values(members[part], prior), members, columns) if columns else 0.0
        square[part, c], log_determinant[part, c] = whole.square, whole.log_determinant
        values[part, c] = log_values_left_out(members[part], prior)
        values[:, c] += np.log(len(part) / total)
    return _Sought(own, parts, outlines, square, log_determinant, values)


def has_hole(outlines: list[Outline]) -> bool:
    """Check whether instances half way between two subclasses of a class would lie outside of all its subclasses.

    An instance around such a place, with the covariance of the subclass, has the expected squared distance
    ``D^2 + d`` from it, where D is the distance of the place. The place is outside if this exceeds the 99 % quantile
    of the chi-squared distribution with d degrees of freedom for every subclass.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> first = rng.normal(size=(200, 3))
    >>> has_hole([outline(first), outline(first + 2.0)]), has_hole([outline(first), outline(first + 6.0)])
    (False, True)
    """
    if len(outlines) < 2:
        return False
    means = np.array([each.mean for each in outlines])
    d = means.shape[1]
    one, other = np.triu_indices(len(means), 1)
    middle = 0.5 * (means[one] + means[other])
    nearest = np.min([(((middle - each.mean) @ each.factor.T) ** 2).sum(axis=1) for each in outlines], axis=0)
    return bool((nearest + d > 2.0 * gammaincinv(0.5 * max(d, 1), CERTAIN)).any())  # scipy.stats is slow to import


def log_values_left_out(rows: Array, prior: Prior) -> Array:
    """Log probability of the values of each row of a class, shape (n, C + d), under the other rows, shape (n,)."""
    counts = categories.counts_of(rows, prior)
    return categories.log_without_each(counts, rows, prior)


def log_values(rows: Array, prior: Prior) -> Array:
    """Log probability of each place in a class as a whole, from its whitened rows, shape (V,)."""
    return np.asarray(categories.log_table(categories.counts_of(rows, prior)[None], prior)[0])


def log_missing(log_weight: Array) -> Array:
    """Log of the mass outside the kept subclasses of each class, shape (J,), from their log weights, (J, K)."""
    return np.asarray(np.log1p(-np.exp(log_weight).sum(axis=1)))


def add_background_component(
    log_density: Array,
    background_components: tuple[tuple[BackgroundComponent, ...], ...],
    log_weight: Array,
    rows: Array,
) -> Array:
    """Add the background components to log class densities of shape (n, J).

    Parameters
    ----------
    log_density
        Under the kept subclasses, shape (n, J).
    background_components
        Components of the classes, J or fewer.
    log_weight
        Log weights of the kept subclasses, shape (J, K). The background components take the remaining mass.
    rows
        Homogeneous rows, shape (n, d + 1).
    """
    out = log_density.copy()
    for j, (components, missing) in enumerate(zip(background_components, log_missing(log_weight), strict=False)):
        for shape, share in components:
            out[:, j] = np.logaddexp(out[:, j], missing + np.log(share) + student_t.log_student_t(rows, shape))
    return out
