"""Separate modes of the known classes, as a start of the training sweeps.

The sweeps move one instance at a time. In five dimensions or more no single instance gains by leaving the one
Gaussian of a class, however far apart two modes are. So k-means divides each class into cells. Then two cells at a
time merge, as long as the marginal likelihood of the partition, with the prior probability of the partition, grows.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.cluster.vq import kmeans2, vq
from scipy.linalg import solve_triangular
from scipy.sparse.csgraph import connected_components
from scipy.special import gammaln

from stream_osr.model.feature_space.whitening import shrunk_covariance
from stream_osr.model.jit import Array
from stream_osr.model.known import Known
from stream_osr.model.marginal import Statistics, log_marginals, of_nobody
from stream_osr.model.prior import Prior, homogeneous
from stream_osr.model.student_t import CONJUGATE
from stream_osr.support.parallel import each

MOST_CELLS = 20
"""Most cells of a class."""
LEAST_IN_CELL, LEAST_FOR_DIMENSION, LEAST_IN_MODE = 10, 2.0, 1.0
"""Least mean number of instances in a cell, overall and for each dimension, and in a mode for each dimension.

With fewer, the covariance of a cell would be that of the base measure. A few instances far from the others are the
outliers of a class, and no mode.
"""
ROUNDS, DIGITS = 10, 9
"""Rounds of k-means, and decimals of a whitened coordinate in which instances differ."""
TURNS, LEAST_WITHIN = 7, 1e-6
"""Times that k-means divides the classes, and least variance within cells, in variances within classes."""
ROUGH_ROUNDS, MOST_ROWS = 5, 500
"""Rounds of k-means in the turns between the first and the last, and most instances that place a class's cells."""
DEPENDENT = 0.03
"""Independent instances with the information of one, if neighbouring training instances depend on each other.

A run of similar instances is not a mode.
"""
ALONE = 1.0
"""Concentration of the Dirichlet process of the partition."""
APART = 2.5
"""Distance of two groups from which they are separate, in sums of their standard deviations on the line that
separates them best."""
LEAST_GROUP = 0.05
"""Least share of a class of a subclass that is a group by itself. Smaller ones belong to the nearest group."""


def find_modes(
    rows: Array,
    group: Array,
    priors: Sequence[Sequence[Prior]],
    rng: np.random.Generator,
    effective: float = 1.0,
    features: Array | None = None,
    n_jobs: int | None = None,
) -> Array:
    """Find the modes of each class.

    Parameters
    ----------
    rows
        Whitened rows without categories, shape (n, d).
    group
        Class of each, 0 to J - 1, shape (n,).
    priors
        Base measures of the numeric features, with a spread of ones: several scales for each number of degrees of
        freedom. With a narrower spread the prior of a mean is narrow as well, and separate modes merge.
    rng
        Source of randomness of the cells.
    effective
        Number of independent instances with the information of one.
    features
        Map from whitened rows to standardised features, shape (d, p). ``None``: the cells are sought in whitened
        coordinates alone.
    n_jobs
        Number of threads. ``None``: one for each core.

    Returns
    -------
    Number of the mode of each instance, shape (n,). The modes of class j have consecutive numbers, before those of
    class j + 1. It is the partition whose probability exceeds that of the undivided class the most, with the same
    degrees of freedom and the best scale of each. Most evidence on the degrees of freedom comes from covariances, so
    the most probable number is not the one that shows modes best.

    Examples
    --------
    Two classes in six dimensions. The second has two modes:

    >>> from stream_osr.model.prior import make_prior
    >>> rng, group = np.random.default_rng(0), np.repeat([0, 1], 200)
    >>> rows = rng.normal(size=(400, 6)) + 12.0 * (np.arange(400) >= 300)[:, None]
    >>> np.bincount(find_modes(rows, group, [[make_prior(6, nu=26, scale=0.1, beta=0.1)]], rng))
    array([200, 100, 100])
    """
    members = [own for j in range(int(group.max()) + 1) if len(own := np.flatnonzero(group == j))]
    starts = [np.eye(rows.shape[1])]
    if features is not None:
        starts.append(np.linalg.cholesky(features @ features.T + 1e-9 * np.eye(len(features))))
    tasks = list(zip(starts, rng.spawn(len(starts)), strict=True))
    with warnings.catch_warnings():  # around the threads: each would restore the filters of another
        warnings.simplefilter("ignore", UserWarning)  # an empty cell is no loss
        clusters = [cell for pair in each(lambda task: _cells(rows, members, *task), tasks, n_jobs) for cell in pair]
    out, count = np.zeros(len(group), np.int64), 0
    found = each(
        lambda own: _partition(rows[own], [cell[own] for cell in clusters], priors, effective), members, n_jobs
    )
    for own, mode in zip(members, found, strict=True):
        out[own] = count + mode
        count += int(mode.max()) + 1
    return out


def _partition(rows: Array, clusters: list[Array], priors: Sequence[Sequence[Prior]], effective: float) -> Array:
    """Find the best partition of a class that merges cells, shape (n,)."""
    best, found = 0.0, np.zeros(len(rows), np.int64)
    whole, *parts = [_moments_of(homogeneous(rows), cell) for cell in (found, *clusters)]
    for scales in priors:
        undivided = max(_merged(whole, prior, effective)[1] for prior in scales)
        for prior in scales:
            for part in parts:
                mode, score = _merged(part, prior, effective)
                if score - undivided > best:
                    best, found = score - undivided, mode[part.cell]
    return np.asarray(np.unique(found, return_inverse=True)[1])


class _Moments(NamedTuple):
    """Cells of a class: number of each row, (n,), size of each cell, (K,), and sum of outer products, (K, a, a)."""

    cell: Array
    size: Array
    products: Array


def _moments_of(rows: Array, cell: Array) -> _Moments:
    """Sum the outer products of homogeneous rows in each cell."""
    number = np.unique(cell, return_inverse=True)[1]
    return _Moments(number, np.bincount(number), np.array([own.T @ own for own in _split(rows, number)]))


def _split(rows: Array, cell: Array) -> list[Array]:
    """Split rows by their cells."""
    return np.split(rows[np.argsort(cell, kind="stable")], np.cumsum(np.bincount(cell))[:-1])


def _cells(rows: Array, members: list[Array], start: Array, rng: np.random.Generator) -> list[Array]:
    """Divide each class by k-means, in the given coordinates and in those in which the cells are round.

    A direction in which all classes have the same modes is one of large variance within classes, and whitened
    coordinates hide it. The variance within cells is smaller in this direction. So coordinates with unit variance
    within cells show it better, and the cells that k-means finds there still better.

    Parameters
    ----------
    rows
        Whitened rows, shape (n, d).
    members
        Positions of the rows of each class.
    start
        First coordinates ``rows @ start``, shape (d, d).

    Returns
    -------
    Cell of each row in the first and in the last coordinates, each of shape (n,).
    """
    n, d = rows.shape
    found, forward = list[Array](), start
    if not d:
        return [np.zeros(n, np.int64)]
    most = [_number_of_cells(rows[own]) for own in members]
    for turn in range(TURNS):
        rough = 0 < turn < TURNS - 1
        z, cell, count = rows @ forward, np.zeros(n, np.int64), 0
        for own, k in zip(members, most, strict=True):
            cell[own] = count + _cells_of(z[own], k, rng, rough)
            count = int(cell[own].max()) + 1
        if not rough:
            found.append(cell)
        size, order = np.bincount(cell), np.argsort(cell, kind="stable")
        means = np.add.reduceat(rows[order], np.cumsum(size) - size) / size[:, None]
        centred = rows - means[cell]
        within = shrunk_covariance(centred.T @ centred, n - count, np.ones(d), np.full(d, LEAST_WITHIN))
        forward = solve_triangular(np.linalg.cholesky(within), np.eye(d), lower=True).T
    return found


def _number_of_cells(rows: Array) -> int:
    """Return the number of cells of a class: at most one for each distinct instance."""
    least = max(LEAST_IN_CELL, LEAST_FOR_DIMENSION * rows.shape[1])
    k = int(np.clip(len(rows) / least, 1, MOST_CELLS))
    return min(k, len(np.unique(rows.round(DIGITS), axis=0)))


def _cells_of(rows: Array, k: int, rng: np.random.Generator, rough: bool) -> Array:
    """Divide the rows of a class into k cells by k-means, shape (n,)."""
    if k < 2:
        return np.zeros(len(rows), np.int64)
    some = rows if len(rows) <= MOST_ROWS else rng.choice(rows, MOST_ROWS, replace=False)
    if rough:
        centre, cell = kmeans2(some, k, iter=ROUGH_ROUNDS, minit="points", rng=rng)
    else:
        centre, cell = kmeans2(some, k, iter=ROUNDS, minit="++", rng=rng)
    if len(some) < len(rows):
        cell = vq(rows, centre)[0]
    return np.asarray(np.unique(cell, return_inverse=True)[1])


def _merged(clusters: _Moments, prior: Prior, effective: float) -> tuple[Array, float]:
    """Merge the cells of a class while the probability of the partition grows. Small cells merge in any case.

    Returns
    -------
    Number of the merged cell of each cell, shape (K,), and the log probability of rows and partition.
    """
    count, nobody, least = len(clusters.size), of_nobody(prior), max(LEAST_IN_CELL, LEAST_IN_MODE * prior.n_features)
    parts = _weighed(clusters, nobody, effective)
    score, gain = log_marginals(parts, prior, CONJUGATE) + _seats(parts.size), np.full((count, count), -np.inf)

    def gains(a: int, others: Array) -> Array:
        size, matrix = parts.size[a] + parts.size[others], parts.matrix[a] + parts.matrix[others] - nobody
        together = Statistics(size, matrix, np.zeros((len(others), 0)))
        return np.asarray(log_marginals(together, prior, CONJUGATE) + _seats(size) - score[a] - score[others])

    for a in range(count - 1):
        gain[a, a + 1 :] = gains(a, np.arange(a + 1, count))
    home, there, size = np.arange(count), np.ones(count, bool), clusters.size.copy()
    while there.sum() > 1:
        small = there & (size < least)
        allowed = gain if gain.max() > 0.0 else np.where(small[:, None] | small, gain, -np.inf)
        a, b = (int(at) for at in np.unravel_index(allowed.argmax(), gain.shape))
        if allowed[a, b] == -np.inf:
            break
        size[a] += size[b]
        score[a] += score[b] + gain[a, b]
        parts.size[a] += parts.size[b]
        parts.matrix[a] += parts.matrix[b] - nobody
        home[home == b], there[b] = a, False
        gain[b], gain[:, b] = -np.inf, -np.inf
        others = np.flatnonzero(there & (np.arange(count) != a))
        gain[np.minimum(a, others), np.maximum(a, others)] = gains(a, others)
    return home, float(score[there].sum())


def _seats(size: Array) -> Array:
    """Log probability of the seats of each part under the Dirichlet process, less what all partitions share."""
    return np.asarray(math.log(ALONE) + gammaln(size))


def _weighed(clusters: _Moments, nobody: Array, effective: float) -> Statistics:
    """Count each instance as ``effective`` independent ones, at least 2 in each cell."""
    size = np.minimum(clusters.size, np.maximum(2, np.rint(effective * clusters.size))).astype(np.int64)
    share = (size / clusters.size)[:, None, None]
    return Statistics(size, nobody + share * clusters.products, np.zeros((len(size), 0)))


def separate_groups(known: Known, j: int) -> tuple[float, ...]:
    """Share of each group of subclasses of class j that lies apart from the others, largest first.

    Two subclasses belong to one group if they lie nearer than :data:`APART`, measured on the line that separates them
    best (Fisher's discriminant), or if a chain of such subclasses connects them.

    Examples
    --------
    >>> from stream_osr import OpenSetRecognizer
    >>> rng, model = np.random.default_rng(0), OpenSetRecognizer(chains=1)
    >>> for i in range(120):
    ...     row = rng.normal(size=5) + (i % 3 == 2) * 20.0
    ...     model.learn_one(dict(zip("abcde", row.tolist(), strict=True)), "left" if i % 3 == 1 else "right")
    >>> report = model.freeze()
    >>> {label: len(shares) for label, shares in report.separate_groups.items()}
    {'right': 2}
    """
    slots = np.flatnonzero(known.seated[j] > 0)
    share = known.seated[j, slots] / max(known.seated[j, slots].sum(), 1.0)
    large = share >= LEAST_GROUP
    if not large.any():
        return ()
    pooled, means, covariances = _shapes(known)
    slots, share = np.append(slots[large], slots[~large]), np.append(share[large], share[~large])
    apart = means[slots][:, None] - means[slots]
    line = np.linalg.solve(pooled, apart[..., None])[..., 0]
    width = np.sqrt(np.maximum(np.einsum("abi,aij,abj->ab", line, covariances[slots], line), 0.0))
    separation = np.einsum("abi,abi->ab", apart, line) / np.maximum(width + width.T, 1e-300)
    np.fill_diagonal(separation, 0.0)
    many = int(large.sum())
    number = connected_components(separation[:many, :many] < APART, directed=False)[1]
    number = np.append(number, number[separation[many:, :many].argmin(axis=1)] if many < len(slots) else [])
    return tuple(sorted(np.bincount(number.astype(np.int64), weights=share).tolist(), reverse=True))


def _shapes(known: Known) -> tuple[Array, Array, Array]:
    """Covariance pooled over all subclasses, shape (d, d), and mean and covariance of each, (K, d) and (K, d, d).

    The line that separates two subclasses best is that of the pooled covariance. With the covariances of small
    subclasses, it would separate any two.
    """
    d, size, matrix = known.prior.n_features, known.dishes.size, known.dishes.matrix
    r = matrix[:, d, d]
    mean = matrix[:, d, :d] / r[:, None]
    scatter = matrix[:, :d, :d] - r[:, None, None] * mean[:, :, None] * mean[:, None, :]
    freedom = np.maximum(known.prior.nu + size - d - 1.0, 1.0)
    return scatter.sum(axis=0) / freedom.sum(), mean, scatter / freedom[:, None, None]
