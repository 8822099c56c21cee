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

from stream_osr.model.jit import Array
from stream_osr.model.known import Known
from stream_osr.model.nearest import means_and_scales
from stream_osr.model.prior import numbers_of
from stream_osr.model.whitening import Whitening

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
LEAST_THERE, LEAST_GAIN = 0.5, 1.0
"""Least typical share at the offset, and the least gain in log likelihood there, for each instance."""
STAYED = 0.03
"""Largest share of the instances at the place before, among those of a known class at either place."""
CERTAIN, LEAST_CLASS = 0.9, 0.1
"""Responsibility at the offset above which an instance surely belongs to a class, and the least share of such
instances for a class to count. They must be one independent instance or more. At least two classes must be there,
because a single one may be a new class."""
SURE = 3.0
"""Size from which a feature has a gain, in standard errors. One in 370 features without a gain has one by chance."""
LEAST_FACTOR = 0.1
"""Least gain. At zero all instances would have one value."""
ROUNDS, CONVERGED = 20, 3e-3
"""Most rounds of EM, and the largest change of the last round, in standard deviations of a feature."""
SHARE_ROUNDS = 200
"""Rounds of EM for the shares of the places, which converge slowly if the places overlap."""
HEATS = (2.0, 1.0)
"""Factors of the variances of the classes, one after the other.

The first offset is an instance less the mean of the class. Others of the class differ with twice the variance.
"""
GAUSSIANS, PAIRS, SCORED = 16, 256, 64
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
    cut
        Squared distance to the nearest Gaussian within which an instance is typical.
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
    cut: float


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
    """

    place: Array
    now: Array
    before: float
    after: float
    gain: float
    stayed: float
    classes: int

    @property
    def has_moved(self) -> bool:
        """Whether the known classes have moved together by the offset."""
        return bool(
            (self.place != self.now).any()
            and self.after >= LEAST_THERE
            and self.gain >= LEAST_GAIN
            and self.stayed < STAYED
            and self.classes >= 2
        )


class Window(NamedTuple):
    """Rows of a stream, and their log densities where the classes are thought to be.

    Attributes
    ----------
    rows
        Numeric whitened rows, shape (n, d).
    residual
        Residuals from each Gaussian, in its whitened coordinates, shape (K, n, d).
    stay
        Log joint density at the present place, shape (n, K).
    log_outlier
        Log density under the broad Gaussian, with its weight, shape (n,).
    """

    rows: Array
    residual: Array
    stay: Array
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
        np.inf,
    )
    nearest = _distances(places, _in_each(places, numbers_of(references, known.prior)), centre * 0.0).min(axis=1)
    return places._replace(cut=float(np.quantile(nearest, TYPICAL)))


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
    far = np.hypot(*place_in_deviations(places, place))
    return np.flatnonzero((far >= SMALL) if (far >= SMALL).any() else far)


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
    return Window(rows, residual, _at(places, rows, now, residual)[1], _log_outlier(places, rows, now))


def _fit(
    places: Places, window: Window, place: Array, free: Array, heats: Sequence[float], *, by_spread: bool = False
) -> tuple[Array, Array]:
    """Fit the free offsets and gains by EM, the gains also by the spread within classes if ``by_spread``.

    The variances of the classes are multiplied by each of ``heats`` in turn, so that the classes find instances that
    are far from the first offset. In the last round, instances that are not typical at the offset do not count.

    Returns
    -------
    The place, shape (2, p), and the information on each free offset and gain, given all others, shape (f,).
    """
    d, unit = window.rows.shape[1], np.stack([places.deviation, np.ones_like(places.deviation)])[free]
    at, is_gain = np.concatenate([np.flatnonzero(own) for own in free]), np.repeat([False, True], free.sum(axis=1))
    size = np.where(is_gain, places.apart[:, at], 1.0)
    precision = places.precision[:, at[:, None], at] * size[:, :, None] * size[:, None, :]
    toward = places.factor.transpose(0, 2, 1) @ (places.forward[at] * places.deviation[at, None]).T
    spread, normal = _spread(places, at[is_gain], toward[:, :, is_gain]), np.eye(len(at))
    for heat in heats:
        volume, log_share = 0.5 * d * np.log(heat), np.zeros(3)
        for _ in range(ROUNDS):
            distance, joint = _at(places, window.rows, place, window.residual)
            joint = joint + 0.5 * (1.0 - 1.0 / heat) * distance - volume
            share = _responsibilities(joint, window, log_share)
            if heat == 1.0:
                share *= (distance.min(axis=1) < places.cut)[:, None]
                log_share = _log_shares(joint, window, log_share, 1)
            normal = np.tensordot(share.sum(axis=0), precision, axes=1) + np.eye(len(at))
            pull = np.einsum("kb,kba->ka", np.einsum("nk,knb->kb", share, window.residual), toward)
            pull = (pull * size).sum(axis=0)
            if is_gain.any() and by_spread:
                score, information = _of_spread(places, window, place, share, spread)
                own, now = 1.0 + place[1, at[is_gain]], place[1, at[is_gain]]
                information = information / np.outer(own, own)
                normal[np.ix_(is_gain, is_gain)] += information
                pull[is_gain] += information @ now + score / own
            step = np.linalg.solve(normal, pull)
            step[is_gain] = np.maximum(step[is_gain], LEAST_FACTOR - 1.0)
            change = np.abs(step - (place[free] / unit)).max(initial=0.0)
            place = np.zeros_like(place)
            place[free] = step * unit
            if change < CONVERGED:
                break
    return place, 1.0 / np.diag(np.linalg.inv(normal))


class Spread(NamedTuple):
    """Terms of the spread within the classes along g features with a gain.

    Attributes
    ----------
    toward, back
        Pull of a residual on each feature, and the residual in it, from the whitened coordinates of each Gaussian,
        shape (K, d, g).
    information
        Information of an instance on the logarithms of the gains, shape (K, g, g).
    """

    toward: Array
    back: Array
    information: Array


def _spread(places: Places, at: Array, toward: Array) -> Spread:
    back = np.linalg.inv(places.factor) @ (places.backward[:, at] / places.deviation[at])
    covariance = back.transpose(0, 2, 1) @ back
    return Spread(toward, back, np.eye(len(at)) + places.precision[:, at[:, None], at] * covariance)


def _of_spread(places: Places, window: Window, place: Array, share: Array, spread: Spread) -> tuple[Array, Array]:
    """Score of the logarithms of the gains by the spread within classes, shape (g,), and its information."""
    residual = _in_each(places, unmoved(places, window.rows, place))
    square = (residual * share.T[:, :, None]).transpose(0, 2, 1) @ residual
    weight = share.sum(axis=0)
    score = np.einsum("kag,kab,kbg->g", spread.toward, square, spread.back) - weight.sum()
    return score, np.tensordot(weight, spread.information, axes=1)


def _responsibilities(there: Array, window: Window, log_share: Array) -> Array:
    """Responsibilities of the classes at the offset, shape (n, K).

    They compete with the classes at the place before and with the broad Gaussian. ``log_share`` has the log shares of
    the three.
    """
    parts = np.stack([_log_sum(there), _log_sum(window.stay), window.log_outlier], axis=1)
    return np.exp(there + log_share[0] - _log_sum(parts + log_share)[:, None])


def _log_shares(there: Array, window: Window, log_share: Array, rounds: int) -> Array:
    """Estimate the log shares of the classes at the offset, of those at the place before, and of others, by EM."""
    parts = np.stack([_log_sum(there), _log_sum(window.stay), window.log_outlier], axis=1)
    for _ in range(rounds):
        whole = parts + log_share
        mean = np.exp(whole - _log_sum(whole)[:, None]).mean(axis=0)
        log_share = np.log(np.maximum(mean, 1e-12)) - [0.0, 0.0, np.log(NO_CLASS)]  # which the density has already
    return log_share


def _log_sum(log_joint: Array) -> Array:
    return np.asarray(np.logaddexp.reduce(log_joint, axis=1))


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
    fitted = window._replace(stay=np.full_like(window.stay, -np.inf)) if track else window
    least = SMALL * np.sqrt(max(1.0, WINDOW / len(rows)))
    offsets, both = np.stack([free, np.zeros_like(free)]), np.stack([free, free])
    candidate, found = _candidate(places, fitted, free), list[SharedOffset]()
    for begin in (now if track else np.zeros_like(now), candidate):
        place, _ = _fit(places, fitted, begin, offsets, HEATS)
        large = offsets & (np.abs(place) > least * places.deviation)
        place, _ = _fit(places, fitted, np.where(large, place, 0.0), large, HEATS[-1:])
        found.append(_describe(places, window, place, now, independent))
    best = max(found, key=lambda each: each.after)
    found, by_spread = [best], not is_narrow(rows, independent)
    for begin in (best.place, candidate):
        place, information = _fit(places, fitted, begin, both, HEATS, by_spread=by_spread)
        kept = np.zeros_like(both)
        kept[1, free] = place[1, free] ** 2 * information[free.sum() :] * independent > SURE**2
        if kept.any():
            kept[0] = kept[1] | (free & (np.abs(place[0]) > least * places.deviation))
            place, _ = _fit(places, fitted, np.where(kept, place, 0.0), kept, HEATS[-1:], by_spread=by_spread)
            found.append(_describe(places, window, place, now, independent))
    return max(found, key=lambda each: (each.after, each.gain))


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
    heavy = np.argsort(-places.log_weight, kind="stable")[:GAUSSIANS]
    from_each = _thinned(window.rows, PAIRS // len(heavy))[:, None] - places.mean[heavy]
    moves = from_each.reshape(-1, len(places.outlier))
    log_outlier = _thinned(window.log_outlier, SCORED)
    residual = _thinned(window.residual.transpose(1, 0, 2), SCORED).transpose(1, 0, 2)
    scores = list[float]()
    for move in moves:
        joint = places.log_weight - 0.5 * _distances(places, residual, move) / HEATS[0]
        scores.append(float(_log_likelihood(joint - 0.5 * len(move) * np.log(HEATS[0]), log_outlier).sum()))
    begin, unit = np.zeros((2, len(free))), places.deviation[free, None] * places.forward[free]
    best = moves[int(np.argmax(scores))]
    begin[0, free] = places.deviation[free] * np.linalg.lstsq(unit.T, best, rcond=None)[0]
    return begin


def _thinned(rows: Array, most: int) -> Array:
    """Take rows at even intervals."""
    return rows if len(rows) <= most else rows[np.linspace(0.0, len(rows) - 1.0, most).astype(int)]


def _describe(places: Places, window: Window, place: Array, now: Array, independent: float) -> SharedOffset:
    """Describe how well a place explains a window."""
    distance, there = _at(places, window.rows, place, window.residual)
    before, stay = _at(places, window.rows, now, window.residual)
    log_share = _log_shares(there, window, np.zeros(3), SHARE_ROUNDS)
    share, (here, stays, _) = _responsibilities(there, window, log_share), np.exp(log_share)
    way = moved(places, places.mean, place) - moved(places, places.mean, now)
    share = share * (((way[:, None] @ places.factor) ** 2).sum(axis=(1, 2)) > 1.0)  # with gains, some may stay
    of_class = np.stack([share[:, places.group == j].sum(axis=1) for j in np.unique(places.group)], axis=1)
    surely = np.where(of_class > CERTAIN, 1.0, 0.0).sum(axis=0)
    gain = _log_likelihood(there, window.log_outlier) - _log_likelihood(stay, window.log_outlier)
    return SharedOffset(
        place,
        now,
        float((before.min(axis=1) < places.cut).mean()),
        float((distance.min(axis=1) < places.cut).mean()),
        float(gain.mean()),
        float(stays / (here + stays)),
        int((surely > max(LEAST_CLASS * len(window.rows), 1.0 / independent)).sum()),
    )


def is_typical(places: Places, rows: Array) -> Array:
    """Whether numeric rows, shape (n, d), are typical of a known class, shape (n,)."""
    nothing = np.zeros(rows.shape[1])
    return np.asarray(_distances(places, _in_each(places, rows), nothing).min(axis=1) < places.cut)


def log_ratio(places: Places, rows: Array, now: Array, before: Array) -> Array:
    """Return the log likelihood of each numeric row at the place ``now``, less that at ``before``, shape (n,)."""
    log_outlier, residual = _log_outlier(places, rows, before), _in_each(places, rows)
    there, stay = (_at(places, rows, place, residual)[1] for place in (now, before))
    return _log_likelihood(there, log_outlier) - _log_likelihood(stay, log_outlier)
