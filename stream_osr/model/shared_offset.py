"""One offset that all known classes share: an instrument that was moved, another season, another device.

A new class comes beside the known classes, which stay typical at their place. If a shared cause moves the features of
all instances, the known classes leave their place together and are found again at one offset from it. EM fits the
offset to a window of the stream. The known classes compete at their place, at the offset, and with one broad Gaussian
for instances of no known class.

The offset is a vector of transformed features (:mod:`stream_osr.model.whitening`). Features that moved little are set
to zero, and the others are fitted again, so that the offset names the features that moved. A feature may also have a
gain, if the distances between the classes show it.

A place is an array of shape (2, p): the offset of each transformed feature at its training mean, and its gain less 1.
The training place is zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from stream_osr.model.jit import Array, kernel, summing_kernel
from stream_osr.model.known import Known
from stream_osr.model.nearest import means_and_scales
from stream_osr.model.prior import numbers_of
from stream_osr.model.whitening import Whitening
from stream_osr.model.yeo_johnson import YeoJohnson, bend, unbend

NO_CLASS = 0.1
"""Prior weight of the broad Gaussian for instances of no known class."""
OUTLIER_SPREAD = 4.0
"""Variance of the broad Gaussian, in variances of the training instances."""
SMALL = 0.25
"""Offset below which a feature counts as not moved, in standard deviations of the feature in training.

It holds for ``WINDOW`` instances, and grows with the standard error of a mean for fewer.
"""
WINDOW = 256
"""Most instances of a window."""
TYPICAL = 0.98
"""Share of the reference instances that are typical of a known class."""
LEAST_THERE, LEAST_GAIN, ALONE = 0.5, 1.0, 0.9
"""Least typical share at the offset, the least gain in log likelihood there, for each instance, and the least typical
share if only one class shows the offset."""
CORE = 0.25
"""Share of the instances nearer to a class than half of the references from which the classes are at their place."""
COMMON = 0.75
"""Least share of the squared shifts of the classes that the offset explains."""
MOST_GAIN = 10.0
"""Most gain of an instance. A new class that is far from all others would decide alone without a bound."""
STAYED = 0.03
"""Largest share of the instances at the place before, among those of a known class at either place."""
CERTAIN, LEAST_CLASS = 0.9, 0.1
"""Responsibility at the offset above which an instance surely belongs to a class, and the least share of such
instances for a class to count. They must be one independent instance or more. At least two classes must be there,
because a single one may be a new class."""
SURE = 3.0
"""Size from which a feature has a gain, in standard errors. One in 370 features without a gain has one by chance."""
LEAST_FACTOR, LARGEST_FACTOR, FACTORS = 0.1, 3.0, 16
"""Least gain, since at zero all instances would have one value, and the largest and the number of the factors of all
features at which the search begins."""
ROUNDS, CONVERGED = 20, 3e-3
"""Most rounds of EM, and the largest change of the last round, in standard deviations of a feature."""
NEGLIGIBLE, LOG_NEGLIGIBLE = 1e-9, -20.0
"""Responsibility below which an instance does not count for a class, and its logarithm."""
SHARE_ROUNDS = 200
"""Rounds of EM for the shares of the places, which converge slowly if the places overlap."""
HEATS = (2.0, 1.0)
"""Factors of the variances of the classes, one after the other.

The first offset is an instance less the mean of the class. Others of the class differ with twice the variance.
"""
GAUSSIANS, PAIRS, SCORED = 16, 128, 32
"""Most Gaussians from which an instance may have come, pairs of a Gaussian and an instance, and instances to score a
pair. They bound the cost: about as much as EM itself."""


class Places(NamedTuple):
    """Known classes as K Gaussians in d whitened numeric dimensions, for p features.

    Attributes
    ----------
    whitened
        Mean of each Gaussian in its own whitened coordinates, shape (K, d).
    factor
        Factor L of each precision ``L L'``, shape (K, d, d).
    log_weight
        Log weight and half the log determinant of the precision, shape (K,).
    group
        Class of each Gaussian, shape (K,).
    outlier, log_outlier
        Factor of the precision of the broad Gaussian, shape (d, d), and half its log determinant.
    forward, backward
        Whitened coordinates of a unit of each feature, shape (p, d), and the map back, shape (d, p).
    deviation
        Standard deviation of each transformed feature in training, shape (p,).
    mean
        Mean of each Gaussian, shape (K, d).
    apart
        The same as features, in deviations from the training mean, shape (K, p).
    precision
        Precision of each Gaussian for a deviation of each feature, shape (K, p, p).
    yeo_johnson, center
        Transformation of the raw features, and their means after it, shape (p,).
    raw_ends
        Raw features half a deviation below and above the means, shape (2, p).
    cut, middle
        Squared distance to the nearest Gaussian within which an instance is typical, and the median of the references.
    """

    whitened: Array
    factor: Array
    log_weight: Array
    group: Array
    outlier: Array
    log_outlier: float
    forward: Array
    backward: Array
    deviation: Array
    mean: Array
    apart: Array
    precision: Array
    yeo_johnson: YeoJohnson
    center: Array
    raw_ends: Array
    cut: float
    middle: float


class SharedOffset(NamedTuple):
    """One offset of all known classes, fitted to a window.

    Attributes
    ----------
    place, now
        The place that was found, and the present one, shape (2, p).
    before, after
        Share of the instances that are typical of a known class at the place before, and at the offset.
    gain
        Mean log likelihood of an instance at the offset, less that at the place before.
    stayed
        Share of the instances at the place before, among those of a known class at either place.
    classes
        Number of classes at the offset that have left the place before by a standard deviation of their own. With an
        offset and a gain, one class may stay while another moves.
    common
        Share of the squared shifts of the classes that the offset explains. If each moves its own way, it is small.
    count
        Number of independent instances with the information of the window.
    one_factor
        Whether the place is that of all raw features times one factor. A new class has no reason to lie there, so that
        a single class at it counts.
    """

    place: Array
    now: Array
    before: float
    after: float
    gain: float
    stayed: float
    classes: int
    common: float
    count: float
    one_factor: bool = False

    @property
    def has_moved(self) -> bool:
        """Whether the known classes have moved together by the offset."""
        return bool(
            (self.place != self.now).any()
            and self.after >= LEAST_THERE
            and self.gain >= LEAST_GAIN
            and self.stayed < STAYED
            and self.common >= COMMON
            and (self.classes >= 2 or (self.classes == 1 and self.one_factor and self.after >= ALONE))
        )


class Window(NamedTuple):
    """Rows of a stream, and their log densities where the classes are thought to be.

    Attributes
    ----------
    rows
        Numeric whitened rows, shape (n, d).
    residual
        Residuals from each Gaussian, in its whitened coordinates, shape (K, n, d).
    log_stay
        Log density at the present place, shape (n,).
    log_outlier
        Log density under the broad Gaussian, with its weight, shape (n,).
    """

    rows: Array
    residual: Array
    log_stay: Array
    log_outlier: Array


def places_of_classes(known: Known, whitening: Whitening, references: Array) -> Places:
    """Describe the known classes as Gaussians.

    Parameters
    ----------
    known
        Known classes.
    whitening
        Map of raw features to whitened rows.
    references
        Whitened rows of known instances, shape (R, C + d). They determine which instances are typical.
    """
    mean, covariance = means_and_scales(known.dishes, known.prior)
    group, share = known.seated.argmax(axis=0), known.seated.sum(axis=0)
    kept = share > 0
    mean, covariance, group, share = mean[kept], covariance[kept], group[kept], share[kept] / share.sum()
    factor = np.linalg.cholesky(np.linalg.inv(covariance))
    centre = share @ mean
    total = np.tensordot(share, covariance, axes=1) + (share * (mean - centre).T) @ (mean - centre)
    outlier = np.linalg.cholesky(np.linalg.inv(OUTLIER_SPREAD * total))
    deviation = np.sqrt((whitening.backward * (total @ whitening.backward)).sum(axis=0))
    log_det = np.log(np.einsum("kaa->ka", factor)).sum(axis=1)
    is_number = whitening.forward.any(axis=1)
    half = np.where(is_number, deviation, 0.0)[:, None] * whitening.forward @ factor
    places = Places(
        np.einsum("ka,kab->kb", mean, factor),
        factor,
        np.log(share) + log_det,
        group,
        outlier,
        float(np.log(np.diag(outlier)).sum()),
        whitening.forward,
        whitening.backward,
        np.where(is_number, deviation, np.inf),
        mean,
        mean @ whitening.backward / np.where(is_number, deviation, np.inf),
        half @ half.transpose(0, 2, 1),
        whitening.yeo_johnson,
        whitening.center,
        unbend(whitening.yeo_johnson, whitening.center + np.array([[-0.5], [0.5]]) * np.where(is_number, deviation, 0.0)),
        np.inf,
        np.inf,
    )
    nearest = _nearest(places, numbers_of(references, known.prior))
    return places._replace(cut=float(np.quantile(nearest, TYPICAL)), middle=float(np.median(nearest)))


def _stretch(maps: Whitening | Places, place: Array) -> Array:
    """Linear map of whitened rows by the gains of a place, shape (d, d)."""
    return np.asarray(np.eye(len(maps.backward)) + (maps.backward * place[1]) @ maps.forward)


def moved(maps: Whitening | Places, rows: Array, place: Array) -> Array:
    """Move numeric whitened rows, shape (n, d), from the training place to another one."""
    rows = rows @ _stretch(maps, place) if place[1].any() else rows
    return np.asarray(rows + place[0] @ maps.forward)


def unmoved(maps: Whitening | Places, rows: Array, place: Array) -> Array:
    """Move numeric whitened rows, shape (n, d), from a place back to the training place."""
    rows = rows - place[0] @ maps.forward
    return np.asarray(np.linalg.solve(_stretch(maps, place).T, rows.T).T) if place[1].any() else rows


def _volume(places: Places, place: Array) -> float:
    """Log of the volume at a place for a unit of volume at the training place."""
    return float(np.linalg.slogdet(_stretch(places, place))[1]) if place[1].any() else 0.0


def place_in_deviations(places: Places, place: Array) -> Array:
    """Offset of each feature in standard deviations, and its gain less 1, shape (2, p)."""
    return np.asarray(place / np.stack([places.deviation, np.ones_like(places.deviation)]))


def features_that_moved(places: Places, place: Array) -> Array:
    """Numbers of the features that moved by more than a little, or of all that moved if none did, shape (m,)."""
    offset, gain = np.abs(place_in_deviations(places, place))
    far = (np.hypot(offset, gain) >= SMALL) | (gain >= 0.6 * SMALL)
    return np.flatnonzero(far if far.any() else offset)


def _in_each(places: Places, rows: Array) -> Array:
    """Residuals of numeric rows from each Gaussian, in its whitened coordinates, shape (K, n, d)."""
    return np.asarray(rows @ places.factor - places.whitened[:, None])


def _distances(places: Places, residual: Array, move: Array) -> Array:
    """Squared distances to each Gaussian after a move of shape (d,), shape (n, K)."""
    return np.asarray(((residual - (move @ places.factor)[:, None]) ** 2).sum(axis=2).T)


def _at(places: Places, rows: Array, place: Array, residual: Array | None = None) -> tuple[Array, Array]:
    """Squared distances and log joint densities of numeric rows at a place, both of shape (n, K)."""
    if residual is None or place[1].any():
        residual, move = _in_each(places, unmoved(places, rows, place)), np.zeros(rows.shape[1])
    else:
        move = place[0] @ places.forward
    distance = _distances(places, residual, move)
    return distance, places.log_weight - 0.5 * distance - _volume(places, place)


def _window(places: Places, rows: Array, now: Array) -> Window:
    """Prepare the rows, shape (n, d), of a stream whose present place is ``now``."""
    residual = _in_each(places, rows)
    return Window(rows, residual, _log_sum(_at(places, rows, now, residual)[1]), _log_outlier(places, rows, now))


def _fit(
    places: Places,
    window: Window,
    place: Array,
    free: Array,
    heats: Sequence[float],
    *,
    by_spread: bool = False,
    rounds: int = ROUNDS,
) -> tuple[Array, Array]:
    """Fit the free offsets and gains by EM, the gains also by the spread within classes if ``by_spread``.

    The variances of the classes are multiplied by each of ``heats`` in turn, so that the classes find instances that
    are far from the first offset. In the last round, instances that are not typical at the offset do not count.

    Returns
    -------
    The place, shape (2, p), and the information on each free offset and gain, given all others, shape (f,).
    """
    unit = np.stack([places.deviation, np.ones_like(places.deviation)])[free]
    at, is_gain = np.concatenate([np.flatnonzero(own) for own in free]), np.repeat([False, True], free.sum(axis=1))
    size = np.where(is_gain, places.apart[:, at], 1.0)
    precision = places.precision[:, at[:, None], at] * size[:, :, None] * size[:, None, :]
    toward = places.factor.transpose(0, 2, 1) @ (places.forward[at] * places.deviation[at, None]).T
    moving = Moving(at, is_gain, size, toward, precision, *_spread(places, at[is_gain]))
    fitted, normal = _run(places, window, moving, place[free] / unit, np.array(heats), rounds, by_spread)
    place = np.zeros_like(place)
    place[free] = fitted * unit
    return place, 1.0 / np.diag(np.linalg.inv(normal))


class Moving(NamedTuple):
    """Free offsets and gains of a fit: f parameters, g of them gains, which come last.

    Attributes
    ----------
    at, is_gain
        Feature of each parameter, and whether it is a gain, shape (f,).
    size
        Effect of a unit of each parameter on the mean of each Gaussian, in deviations of the feature, shape (K, f).
    toward
        Whitened coordinates of a deviation of each feature, shape (K, d, f).
    precision
        Information of an instance of each Gaussian on the parameters, shape (K, f, f).
    back, by_spread
        Residual in each feature with a gain, from the whitened coordinates of each Gaussian, shape (K, d, g), and
        the information of the spread of an instance on the logarithms of the gains, shape (K, g, g).
    """

    at: Array
    is_gain: Array
    size: Array
    toward: Array
    precision: Array
    back: Array
    by_spread: Array


def _spread(places: Places, at: Array) -> tuple[Array, Array]:
    back = np.linalg.inv(places.factor) @ (places.backward[:, at] / places.deviation[at])
    covariance = back.transpose(0, 2, 1) @ back
    return back, np.eye(len(at)) + places.precision[:, at[:, None], at] * covariance


@kernel
def _run(
    places: Places, window: Window, moving: Moving, value: Array, heats: Array, rounds: int, by_spread: bool
) -> tuple[Array, Array]:
    """Run EM from some values of the parameters, shape (f,).

    Returns
    -------
    The values, and their information, shape (f, f).
    """
    count, n, d = window.residual.shape
    f, gains = len(value), moving.back.shape[2]
    sums = np.empty((n, count)), np.zeros(count), np.zeros((count, d)), np.zeros(3)
    share, weight, pulled, parts = sums
    residual, move, normal = window.residual, np.zeros((count, d)), np.eye(f)
    for heat in heats:
        log_share = np.zeros(3)
        for _ in range(rounds):
            volume, shift = 0.5 * d * np.log(heat), np.zeros(d)
            for j in range(f - gains):
                shift += value[j] * places.deviation[moving.at[j]] * places.forward[moving.at[j]]
            if gains:
                stretch = np.eye(d)
                for j in range(f - gains, f):
                    for a in range(d):
                        own = value[j] * places.backward[a, moving.at[j]]
                        for b in range(d):
                            stretch[a, b] += own * places.forward[moving.at[j], b]
                volume += np.linalg.slogdet(stretch)[1]
                rows, residual = np.dot(window.rows - shift, np.linalg.inv(stretch)), np.empty((count, n, d))
                for k in range(count):
                    residual[k] = np.dot(rows, places.factor[k]) - places.whitened[k]
            else:
                for k in range(count):
                    move[k] = np.dot(shift, places.factor[k])
            weight[:], pulled[:], parts[:] = 0.0, 0.0, 0.0
            given = residual, move, window.residual, places.log_weight - volume
            beside = window.log_stay, window.log_outlier, log_share
            _sum_expected(given, beside, heat, places.cut if heat == 1.0 else np.inf, sums)
            if heat == 1.0:
                log_share = _log_of_shares(parts / n)
            normal, pull = np.eye(f), np.zeros(f)
            for k in range(count):
                normal += weight[k] * moving.precision[k]
                pull += moving.size[k] * np.dot(pulled[k], moving.toward[k])
            if gains and by_spread:
                _add_spread(moving, residual, share, weight, value, normal, pull)
            step = np.linalg.solve(normal, pull)
            step = np.where(moving.is_gain, np.maximum(step, LEAST_FACTOR - 1.0), step)
            change = np.abs(step - value).max() if f else 0.0
            value = step
            if change < CONVERGED:
                break
    return value, normal


@kernel
def _add_spread(
    moving: Moving, residual: Array, share: Array, weight: Array, value: Array, normal: Array, pull: Array
) -> None:
    """Add the information of the spread within classes on the gains to ``normal`` and ``pull``."""
    count, n, d = residual.shape
    f, gains = len(value), moving.back.shape[2]
    first, score, information = f - gains, np.zeros(gains), np.zeros((gains, gains))
    for k in range(count):
        if weight[k] <= NEGLIGIBLE:
            continue
        square = np.dot((residual[k] * share[:, k : k + 1]).T, residual[k])
        score += (moving.toward[k, :, first:] * np.dot(square, moving.back[k])).sum(axis=0) - weight[k]
        information += weight[k] * moving.by_spread[k]
    own = 1.0 + value[first:]
    information /= own.reshape(-1, 1) * own
    normal[first:, first:] += information
    pull[first:] += np.dot(information, value[first:]) + score / own


def _expected(places: Places, window: Window, place: Array, log_share: Array) -> Array:
    """Responsibilities of the classes at a place, shape (n, K). Instances that are not typical have none.

    The classes compete with those at the place before and with the broad Gaussian. ``log_share`` has the log shares of
    the three.
    """
    n, d = window.rows.shape
    residual = _in_each(places, unmoved(places, window.rows, place))
    constant = places.log_weight - _volume(places, place)
    count = len(constant)
    sums = np.empty((n, count)), np.zeros(count), np.zeros((count, d)), np.zeros(3)
    beside = window.log_stay, window.log_outlier, log_share
    _sum_expected((residual, np.zeros((count, d)), residual, constant), beside, 1.0, places.cut, sums)
    return sums[0]


@summing_kernel
def _sum_expected(
    given: tuple[Array, Array, Array, Array],
    beside: tuple[Array, Array, Array],
    heat: float,
    cut: float,
    sums: tuple[Array, Array, Array, Array],
) -> None:
    """Compute the responsibilities of the classes after moves, and their sums.

    Parameters
    ----------
    given
        Residuals, shape (K, n, d), moves that are subtracted from them, shape (K, d), the residuals to sum, and a
        constant for each Gaussian, shape (K,).
    beside
        Log densities at the place before and in the broad Gaussian, shape (n,), and log shares of the three.
    heat, cut
        Factor of the variances, and squared distance from which an instance does not count.
    sums
        Results: responsibilities, shape (n, K), their sums, shape (K,), sums of the residuals, shape (K, d), and of the
        responsibilities of the three, shape (3,).
    """
    residual, move, original, constant = given
    log_stay, log_outlier, log_share = beside
    share, weight, pulled, parts = sums
    count, n, d = residual.shape
    for i in range(n):
        nearest, peak = np.inf, max(log_stay[i] + log_share[1], log_outlier[i] + log_share[2])
        for k in range(count):
            distance = 0.0
            for a in range(d):
                distance += (residual[k, i, a] - move[k, a]) ** 2
            nearest = min(nearest, distance)
            share[i, k] = constant[k] - 0.5 * distance / heat + log_share[0]
            peak = max(peak, share[i, k])
        here = 0.0
        for k in range(count):
            share[i, k] = np.exp(share[i, k] - peak)
            here += share[i, k]
        stays, other = np.exp(log_stay[i] + log_share[1] - peak), np.exp(log_outlier[i] + log_share[2] - peak)
        whole = here + stays + other
        parts[0] += here / whole
        parts[1] += stays / whole
        parts[2] += other / whole
        for k in range(count):
            share[i, k] = share[i, k] / whole if nearest < cut else 0.0
            if share[i, k] > NEGLIGIBLE:
                weight[k] += share[i, k]
                for a in range(d):
                    pulled[k, a] += share[i, k] * original[k, i, a]


@kernel
def _log_of_shares(share: Array) -> Array:
    """Log shares of the places and of others, less the prior weight of the others, which their density has already."""
    log_share = np.log(np.maximum(share, 1e-12))
    log_share[2] -= np.log(NO_CLASS)
    return log_share


@kernel
def _shares(density: Array, rounds: int) -> Array:
    """Estimate the shares of parts by EM from the density of each instance in each, shape (n, m)."""
    n, m = density.shape
    share = np.ones(m)
    for _ in range(rounds):
        total = np.zeros(m)
        for i in range(n):
            whole = 0.0
            for j in range(m):
                whole += density[i, j] * share[j]
            for j in range(m):
                total[j] += density[i, j] * share[j] / whole
        share = np.maximum(total / n, 1e-12)
    return share


def _log_sum(log_joint: Array) -> Array:
    peak = log_joint.max(axis=1)
    return np.asarray(peak + np.log(np.exp(log_joint - peak[:, None]).sum(axis=1)))


def _log_outlier(places: Places, rows: Array, now: Array) -> Array:
    """Log density of numeric rows under the broad Gaussian at a place, with its weight, shape (n,)."""
    squares = ((unmoved(places, rows, now) @ places.outlier) ** 2).sum(axis=1)
    return np.asarray(np.log(NO_CLASS) + places.log_outlier - 0.5 * squares - _volume(places, now))


def _log_likelihood(log_joint: Array, log_outlier: Array) -> Array:
    """Log likelihood of each instance, by the classes at one place or by the broad Gaussian, shape (n,)."""
    peak = np.maximum(log_joint.max(axis=1), log_outlier)
    return np.asarray(peak + np.log(np.exp(log_joint - peak[:, None]).sum(axis=1) + np.exp(log_outlier - peak)))


def find_shared_offset(
    places: Places, rows: Array, now: Array, independent: float = 1.0, *, track: bool = False
) -> SharedOffset:
    """Fit one offset of all known classes to a window of the stream.

    Parameters
    ----------
    places
        Known classes.
    rows
        Numeric whitened rows, shape (n, d).
    now
        Present place, shape (2, p).
    independent
        Number of independent instances with the information of one row.
    track
        Whether to begin at the present place, which does not compete with itself, and not at the training place.

    Returns
    -------
    The place that was found. "Before" refers to the present one.
    """
    window, free = _window(places, rows, now), np.isfinite(places.deviation)
    fitted = window._replace(log_stay=np.full(len(rows), -np.inf)) if track else window
    least = SMALL * np.sqrt(max(1.0, WINDOW / len(rows)))
    offsets, found = np.stack([free, np.zeros_like(free)]), list[SharedOffset]()
    for begin in (now,) if track else (np.zeros_like(now), _candidate(places, fitted, free)):
        place, _ = _fit(places, fitted, begin, offsets, HEATS)
        large = offsets & (np.abs(place) > least * places.deviation)
        place, _ = _fit(places, fitted, np.where(large, place, 0.0), large, HEATS[-1:])
        found.append(_describe(places, window, place, now, independent))
    best = max(found, key=_order)
    scaled = _describe(places, window, _scaled(places, fitted), now, independent)._replace(one_factor=True)
    best = max(best, scaled, key=_order)
    if best.after < 0.5 * LEAST_THERE:  # not even near
        return best
    both, kept, by_spread = np.stack([free, free]), np.zeros_like(offsets), not is_narrow(rows, independent)
    for rounds in (1, ROUNDS):
        heats = HEATS[-1:] if rounds == 1 else HEATS
        place, information = _fit(places, fitted, best.place, both, heats, by_spread=by_spread, rounds=rounds)
        kept[1, free] = place[1, free] ** 2 * information[free.sum() :] * independent > SURE**2
        if not kept.any():
            return best
    kept[0] = kept[1] | (free & (np.abs(place[0]) > least * places.deviation))
    place, _ = _fit(places, fitted, np.where(kept, place, 0.0), kept, HEATS[-1:], by_spread=by_spread)
    return max(best, _describe(places, window, place, now, independent), key=_order)


def _order(found: SharedOffset) -> float:
    """Log likelihood less the cost of the parameters (Schwarz 1978)."""
    parameters = 1 if found.one_factor else np.count_nonzero(found.place)
    return found.gain * found.count - 0.5 * parameters * float(np.log(max(found.count, 1.0)))


def is_narrow(rows: Array, independent: float) -> bool:
    """Whether the spread of some rows, shape (n, d), says little about that of the classes.

    Dependent neighbours are closer to each other than their class is wide, unless they have the information of more
    independent instances than there are features.
    """
    return bool(independent < 1.0 and independent * len(rows) <= rows.shape[1])


def _candidate(places: Places, window: Window, free: Array) -> Array:
    """Offset at which EM begins, shape (2, p): that by which most instances may have moved together.

    An instance less the mean of the class is close to the offset. The instances of the known classes agree on it,
    whereas those of a new class do not, wherever it lies.
    """
    heavy, d = np.argsort(-places.log_weight, kind="stable")[:GAUSSIANS], len(places.outlier)
    from_each = _thinned(window.rows, PAIRS // len(heavy))[:, None] - places.mean[heavy]
    moves, residual = from_each.reshape(-1, d), _thinned(window.residual.transpose(1, 0, 2), SCORED).transpose(1, 0, 2)
    by, log_outlier = moves @ places.factor, _thinned(window.log_outlier, SCORED)
    crossed = by @ residual.transpose(0, 2, 1)  # the squares of their differences, from three products
    distance = (by**2).sum(axis=2)[:, :, None] + (residual**2).sum(axis=2)[:, None] - 2.0 * crossed
    constant = places.log_weight - 0.5 * d * np.log(HEATS[0])
    best = moves[int(_scores(np.ascontiguousarray(distance), constant, log_outlier, HEATS[0]).argmax())]
    begin, unit = np.zeros((2, len(free))), places.deviation[free, None] * places.forward[free]
    begin[0, free] = places.deviation[free] * np.linalg.lstsq(unit.T, best, rcond=None)[0]
    return begin


def _scaled(places: Places, window: Window) -> Array:
    """Place at which gains begin, shape (2, p): all raw features times the factor with the greatest likelihood.

    Another unit, or an instrument of another gain, changes all instances by one factor. Factors are found from an
    instance and the mean of a Gaussian, and compared by all instances.
    """
    free = np.isfinite(places.deviation)
    heavy = np.argsort(-places.log_weight, kind="stable")[:GAUSSIANS]
    mean = _raw(places, places.mean[heavy])
    rows = _raw(places, _thinned(window.rows, PAIRS // len(heavy)))
    weight = np.where(free, 1.0, 0.0) / np.maximum(np.var(mean, axis=0) + np.var(rows, axis=0), 1e-300)
    factors = (rows @ (weight * mean).T / (weight * mean**2).sum(axis=1)).ravel()
    factors = factors[(factors > 1.0 / LARGEST_FACTOR) & (factors < LARGEST_FACTOR)]
    begins, found = np.zeros((2, len(free))), -np.inf
    thinned = [_thinned(each, SCORED) for each in (window.rows, window.log_stay, window.log_outlier)]
    for factor in np.quantile(factors, np.linspace(0.0, 1.0, FACTORS)) if len(factors) else ():
        place = np.zeros_like(begins)
        ends = bend(places.yeo_johnson, factor * places.raw_ends) - places.center
        place[:, free] = ends.mean(axis=0)[free], (np.ptp(ends, axis=0)[free] / places.deviation[free]) - 1.0
        place[1] = np.maximum(place[1], LEAST_FACTOR - 1.0)
        likelihood = float(_log_likelihood(_at(places, thinned[0], place)[1], thinned[2]).sum())
        if likelihood > found:
            begins, found = place, likelihood
    return begins


def _raw(places: Places, rows: Array) -> Array:
    """Return numeric whitened rows, shape (n, d), as raw features, shape (n, p)."""
    return unbend(places.yeo_johnson, places.center + rows @ places.backward)


@kernel
def _scores(distance: Array, constant: Array, log_outlier: Array, heat: float) -> Array:
    """Log likelihood of n instances after each of m moves, shape (m,), from squared distances, shape (K, m, n)."""
    count, m, n = distance.shape
    scores, joint = np.zeros(m), np.empty(count)
    for j in range(m):
        for i in range(n):
            peak = log_outlier[i]
            for k in range(count):
                joint[k] = constant[k] - 0.5 * distance[k, j, i] / heat
                peak = max(peak, joint[k])
            total = np.exp(log_outlier[i] - peak)
            for k in range(count):
                if joint[k] > peak + LOG_NEGLIGIBLE:
                    total += np.exp(joint[k] - peak)
            scores[j] += peak + np.log(total)
    return scores


def _thinned(rows: Array, most: int) -> Array:
    """Take rows at even intervals."""
    return rows if len(rows) <= most else rows[np.linspace(0.0, len(rows) - 1.0, most).astype(int)]


def _describe(places: Places, window: Window, place: Array, now: Array, independent: float) -> SharedOffset:
    """Describe how well a place explains a window."""
    distance, there = _at(places, window.rows, place, window.residual)
    before, stay = _at(places, window.rows, now, window.residual)
    parts = np.stack([_log_sum(there), _log_sum(stay), window.log_outlier], axis=1)
    density = np.exp(parts - parts.max(axis=1, keepdims=True)) / [1.0, 1.0, NO_CLASS]
    shares = _shares(density, SHARE_ROUNDS)
    here, stays, _ = shares
    without = density[:, ::2] @ _shares(density[:, ::2], SHARE_ROUNDS)
    evidence = independent * float(np.log(density @ shares / without).sum())
    share = _expected(places, window, place, _log_of_shares(shares))
    way = moved(places, places.mean, place) - moved(places, places.mean, now)
    way = ((way[:, None] @ places.factor) ** 2).sum(axis=(1, 2))
    share = share * (way > 1.0)  # with gains, some may stay
    count, residual = share.sum(axis=0), _in_each(places, unmoved(places, window.rows, place))
    own = np.einsum("nk,nkd->kd", share, residual.transpose(1, 0, 2)) / np.maximum(count, NEGLIGIBLE)[:, None]
    beyond_chance = (own**2).sum(axis=1) - own.shape[1] / np.maximum(independent * count, NEGLIGIBLE)
    alone = count @ np.maximum(beyond_chance, 0.0) / max(count @ way, NEGLIGIBLE)
    of_class = np.stack([share[:, places.group == j].sum(axis=1) for j in np.unique(places.group)], axis=1)
    surely = np.where(of_class > CERTAIN, 1.0, 0.0).sum(axis=0)
    gain = _log_likelihood(there, window.log_outlier) - _log_likelihood(stay, window.log_outlier)
    gain = np.clip(gain, -MOST_GAIN, MOST_GAIN)
    return SharedOffset(
        place,
        now,
        float((before.min(axis=1) < places.cut).mean()),
        float((distance.min(axis=1) < places.cut).mean()),
        float(gain.mean()),
        float(stays / (here + stays)) if evidence > SURE else 0.0,
        int((surely > max(LEAST_CLASS * len(window.rows), 1.0 / independent)).sum()),
        float(1.0 - alone),
        independent * len(window.rows),
    )


def is_typical(places: Places, rows: Array) -> Array:
    """Whether numeric rows, shape (n, d), are typical of a known class, shape (n,)."""
    return _nearest(places, rows) < places.cut


def stay(places: Places, rows: Array, place: Array) -> bool:
    """Whether so many rows, shape (n, d), are near a class at a place that the classes cannot have left it together."""
    return bool((_nearest(places, unmoved(places, rows, place)) < places.middle).mean() > CORE)


def _nearest(places: Places, rows: Array) -> Array:
    return np.asarray(_distances(places, _in_each(places, rows), np.zeros(rows.shape[1])).min(axis=1))


def contradict(places: Places, rows: Array, place: Array, independent: float) -> bool:
    """Whether the mean of typical rows, shape (n, d), differs from a place (score test of an offset)."""
    window = _window(places, rows, place)
    window = window._replace(log_stay=np.full(len(rows), -np.inf))
    share, residual = _expected(places, window, place, np.zeros(3)), _in_each(places, unmoved(places, rows, place))
    pulled = np.einsum("nk,knb->kb", share, residual)
    score = np.einsum("kab,kb->a", places.factor, pulled)
    information = np.tensordot(share.sum(axis=0), places.factor @ places.factor.transpose(0, 2, 1), axes=1)
    d = len(score)
    squared = score @ np.linalg.solve(information + 1e-9 * np.eye(d), score)
    return bool(min(1.0, independent) * squared > d + SURE * np.sqrt(2.0 * d))


def log_ratio(places: Places, rows: Array, now: Array, before: Array) -> Array:
    """Return the log likelihood of each numeric row at the place ``now``, less that at ``before``, shape (n,)."""
    log_outlier, residual = _log_outlier(places, rows, before), _in_each(places, rows)
    there, stay = (_at(places, rows, place, residual)[1] for place in (now, before))
    return _log_likelihood(there, log_outlier) - _log_likelihood(stay, log_outlier)
