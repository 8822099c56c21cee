"""One offset that all known classes share: an instrument that was moved, another season, another device.

A new class comes beside the known classes, which stay typical at their place. If a shared cause moves the features of
all instances, the known classes leave their place together and are found again at one offset from it. EM fits the
offset to a window of the stream. The known classes compete at their place, at the offset, and with one broad Gaussian
for instances of no known class.

The offset is a vector of raw features (:mod:`stream_osr.model.class_places`). Features that moved little are set
to zero, and the others are fitted again, so that the offset names the features that moved. A feature may also have a
gain, if the distances between the classes show it. Another unit or amplifier multiplies all features by one factor.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stream_osr.model.class_places import (
    LEAST_FACTOR,
    NEGLIGIBLE,
    NO_CLASS,
    Places,
    at_place,
    bounded,
    in_each,
    log_likelihood,
    log_sum,
    moved,
    nearest,
    place_in_deviations,
    returned,
    shift_of,
    split,
)
from stream_osr.model.feature_space.yeo_johnson import unbend
from stream_osr.model.jit import Array
from stream_osr.model.offset_fit import (
    HEATS,
    MOST_FEATURES,
    PASSES,
    ROUNDS,
    Window,
    expected,
    fit_place,
    fit_shares,
    log_of_shares,
    window_of,
)

SMALL = 0.25
"""Offset below which a feature counts as not moved, in standard deviations of the feature in training.

It holds for ``WINDOW`` instances, and grows with the standard error of a mean for fewer.
"""
SMALL_GAIN = 0.15
"""Gain below which an event does not name a feature. A gain of 0.2 has a standard error of about 0.06."""
WINDOW = 256
"""Most instances of a window."""
LEAST_THERE, LEAST_GAIN, ALONE = 0.62, 1.0, 0.9
"""Least typical share at the offset, the least gain in log likelihood there, for each instance, and the least typical
share if only one class shows the offset.

If four classes move each its own way, an offset and gains still explain up to 0.617 of 64 instances
(``tests/test_trust.py``).
"""
NEAR = 0.25
"""Least typical share at an offset for a fit with gains, or of more instances."""
CORE = 0.4
"""Share of the typical instances nearer to a class than half of the references from which classes are at their place.

It is 0.5 if they are there, whatever share of the stream is of new classes.
"""
LEAST_WHOLE = 8
"""Least number of rows without missing values that show the classes at their place. With fewer, EM decides."""
COMMON = 0.75
"""Least share of the squared shifts of the classes that the offset explains."""
MOST_GAIN = 10.0
"""Most gain of an instance. A new class that is far from all others would decide alone without a bound."""
STAYED = 0.06
"""Largest share of the instances at the place before, among those of a known class at either place."""
CERTAIN, LEAST_CLASS = 0.9, 0.1
"""Responsibility at the offset above which an instance surely belongs to a class, and the least share of such
instances that one class and all smaller ones have together.

At least two classes must be there, because a single one may be a new class. Each has more than one independent
instance. Of 26 letters none has a tenth of the stream, so that the shares of classes count together. With a
twentieth, a new class with 0.9 of the stream is a move (new/90, seed 0).
"""
DOMINANT = 0.7
"""Training share of a class from which no other class needs to show a move. A new class does not replace it."""
SURE = 3.0
"""Size from which a feature has a gain, in standard errors. One in 370 features without a gain has one by chance."""
SHARE_ROUNDS = 200
"""Rounds of EM for the shares of the places, which converge slowly if the places overlap."""
LARGEST_FACTOR, FACTORS = 3.0, 16
"""Largest factor of all features at which a search begins, and number of factors that are compared."""
GAUSSIANS, PAIRS, SCORED, FEW = 16, 128, 32, 64
"""Most Gaussians from which an instance may have come, pairs of a Gaussian and an instance, and instances to score a
pair. They bound the cost: about as much as EM itself."""


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
        offset and a gain, one class may stay while another moves. The smallest classes count as one.
    common
        Share of the squared shifts of the classes that the offset explains. If each moves its own way, it is small.
    size
        Number of independent instances with the information of the window.
    parameters
        Number of fitted parameters.
    is_one_enough
        Whether a single class at the offset counts. A new class has no reason to lie at the place of all raw features
        times one factor, and does not replace a class that has most of the training instances.
    """

    place: Array
    now: Array
    before: float
    after: float
    gain: float
    size: float
    parameters: int
    is_one_enough: bool = False
    stayed: float = 0.0
    classes: int = 0
    common: float = 0.0

    @property
    def is_near(self) -> bool:
        """Whether another fit may show that the known classes have moved."""
        return self.after >= NEAR

    @property
    def has_moved(self) -> bool:
        """Whether the known classes have moved together by the offset."""
        return bool(
            (self.place != self.now).any()
            and self.after >= LEAST_THERE
            and self.gain >= LEAST_GAIN
            and self.stayed < STAYED
            and self.common >= COMMON
            and (self.classes >= 2 or (self.classes == 1 and self.is_one_enough and self.after >= ALONE))
        )


def features_that_moved(places: Places, place: Array) -> Array:
    """Numbers of the features that moved by more than a little, or of all that moved if none did, shape (m,)."""
    offset, gain = np.abs(place_in_deviations(places, place))
    far = (offset >= SMALL) | (gain >= SMALL_GAIN)
    return np.flatnonzero(far if far.any() else offset)


def find_shared_offset(
    places: Places, rows: Array, now: Array, independent: float = 1.0, *, track: bool = False
) -> SharedOffset:
    """Fit one offset of all known classes to a window of the stream.

    Parameters
    ----------
    places
        Known classes.
    rows
        Whitened rows, perhaps with flags of missing features (:func:`stream_osr.model.class_places.split`).
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
    few = _thinned(rows, FEW)
    window, begun, free = window_of(places, rows, now), window_of(places, few, now), np.isfinite(places.deviation)
    fitted = window
    if track:
        fitted, begun = (each._replace(log_stay=np.full_like(each.log_stay, -np.inf)) for each in (window, begun))
    least = SMALL * np.sqrt(max(1.0, WINDOW / len(rows)))
    before, stays = at_place(places, window.rows, now, window.category, window.residual)
    seen = _Stay(_typical_share(places, before), stays, log_likelihood(stays, window.log_outlier))
    present, size = (places, window, seen), independent * len(rows)
    offsets, found = np.stack([free, np.zeros_like(free)]), list[SharedOffset]()
    for begin in (now,) if track else (np.zeros_like(now), _candidate(places, begun, free)):
        place, _ = fit_place(places, begun, begin, offsets, HEATS, passes=2)
        if (
            not track
            and _typical_share(places, at_place(places, begun.rows, place, begun.category, begun.residual)[0]) < NEAR
        ):
            continue
        for _ in range(2):  # those that few rows show, and of these the ones that all rows show
            large = offsets & (np.abs(shift_of(places, place)) > least)
            begin = np.where(large, place, 0.0)
            place, _ = fit_place(places, fitted, begin, large, HEATS[-1:], passes=PASSES)
        found.append(_described(*present, place, now, size))
    found.append(_described(*present, _scaled(places, begun), now, size, one_factor=True))
    best = max(found, key=_order)
    if not best.is_near or len(free) > MOST_FEATURES:  # or too many gains
        return _judged(*present, best, independent)
    both, kept, by_spread = np.stack([free, free]), np.zeros_like(offsets), not is_narrow(places, rows, independent)
    for rounds in (1, ROUNDS):
        place, information = fit_place(
            places, fitted, best.place, both, HEATS[-1:], by_spread=by_spread, rounds=rounds, passes=PASSES
        )
        kept[1, free] = place[1, free] ** 2 * information[free.sum() :] * independent > SURE**2
        kept[1] &= place[1] > LEAST_FACTOR - 1.0 + NEGLIGIBLE  # a value that all rows have has no spread
        if not kept.any():
            return _judged(*present, best, independent)
    kept[0] = kept[1] | (free & (np.abs(shift_of(places, place)) > least))
    begin = np.where(kept, place, 0.0)
    place, _ = fit_place(places, fitted, begin, kept, HEATS[-1:], by_spread=by_spread, passes=PASSES)
    best = max(best, _described(*present, place, now, size), key=_order)
    return _judged(*present, best, independent)


def _typical_share(places: Places, distance: Array) -> float:
    """Share of the instances that are typical of a class, from their squared distances, shape (n, K)."""
    return float((distance.min(axis=1) < places.cut).mean())


def _order(found: SharedOffset) -> float:
    """Log likelihood less the cost of the parameters (Schwarz 1978)."""
    return found.gain * found.size - 0.5 * found.parameters * float(np.log(max(found.size, 1.0)))


def is_narrow(places: Places, rows: Array, independent: float) -> bool:
    """Whether the spread of some rows says little about that of the classes.

    Dependent neighbours are closer to each other than their class is wide, unless they have the information of more
    independent instances than there are features.
    """
    return bool(independent < 1.0 and independent * len(rows) <= len(places.outlier))


def _candidate(places: Places, window: Window, free: Array) -> Array:
    """Offset at which EM begins, shape (2, p): that by which most instances may have moved together.

    An instance less the mean of the class is close to the offset. The instances of the known classes agree on it,
    whereas those of a new class do not, wherever it lies.
    """
    heavy, d = np.argsort(-places.log_weight, kind="stable")[:GAUSSIANS], len(places.outlier)
    from_each = _thinned(window.rows.numbers, PAIRS // len(heavy))[:, None] - places.mean[heavy]
    moves, residual = (
        from_each.reshape(-1, d),
        _thinned(window.residual.transpose(1, 0, 2), SCORED).transpose(1, 0, 2),
    )
    by, log_outlier = moves @ places.factor, _thinned(window.log_outlier, SCORED)
    crossed = by @ residual.transpose(0, 2, 1)  # the squares of their differences, from three products
    distance = (by**2).sum(axis=2)[:, :, None] + (residual**2).sum(axis=2)[:, None] - 2.0 * crossed
    constant = places.log_weight - 0.5 * d * np.log(HEATS[0])
    joint = (constant[:, None, None] - 0.5 * distance / HEATS[0]).transpose(1, 2, 0)
    joint = joint + _thinned(window.category, SCORED)
    best = int(log_likelihood(joint, log_outlier).sum(axis=1).argmax())
    unit = places.deviation[free, None] * places.forward[free]
    offset = places.deviation[free] * np.linalg.lstsq(unit.T, moves[best], rcond=None)[0]
    ends = np.repeat((places.center + places.mean[heavy[best % len(heavy)]] @ places.backward)[None], 2, axis=0)
    ends[1, free] += offset
    begin = np.zeros((2, len(free)))
    begin[0, free] = np.diff(unbend(places.yeo_johnson, ends), axis=0)[0, free]
    return bounded(places, begin)


def _scaled(places: Places, window: Window) -> Array:
    """Place at which gains begin, shape (2, p): all raw features times the factor with the greatest likelihood.

    Another unit, or an instrument of another gain, changes all instances by one factor. Factors are found from an
    instance and the mean of a Gaussian, and compared by all instances.
    """
    free = np.isfinite(places.deviation)
    heavy = np.argsort(-places.log_weight, kind="stable")[:GAUSSIANS]
    mean, centre = _raw(places, places.mean[heavy]), _raw(places, np.zeros((1, places.mean.shape[1])))[0]
    rows = _raw(places, _thinned(window.rows.numbers, PAIRS // len(heavy)))
    weight = np.where(free, 1.0, 0.0) / np.maximum(np.var(mean, axis=0) + np.var(rows, axis=0), 1e-300)
    factors = (rows @ (weight * mean).T / (weight * mean**2).sum(axis=1)).ravel()
    factors = factors[(factors > 1.0 / LARGEST_FACTOR) & (factors < LARGEST_FACTOR)]
    begins, found = np.zeros((2, len(free))), -np.inf
    some = _thinned(np.arange(len(window.log_stay)), SCORED)
    thinned = window.rows.only(some), window.category[some], window.log_outlier[some]
    for factor in np.quantile(factors, np.linspace(0.0, 1.0, FACTORS)) if len(factors) else ():
        place = (max(factor, LEAST_FACTOR) - 1.0) * np.where(free, [centre, np.ones(len(free))], 0.0)
        likelihood = float(log_likelihood(at_place(places, thinned[0], place, thinned[1])[1], thinned[2]).sum())
        if likelihood > found:
            begins, found = place, likelihood
    return begins


def _raw(places: Places, rows: Array) -> Array:
    """Return numeric whitened rows, shape (n, d), as raw features, shape (n, p)."""
    return unbend(places.yeo_johnson, places.center + rows @ places.backward)


def _thinned(rows: Array, most: int) -> Array:
    """Take rows at even intervals."""
    return rows if len(rows) <= most else rows[np.linspace(0.0, len(rows) - 1.0, most).astype(int)]


class _Stay(NamedTuple):
    """Present place in a window: typical share, log joint densities (n, K), and log likelihoods (n,)."""

    typical: float
    log_joint: Array
    log_likelihood: Array


def _described(
    places: Places, window: Window, stays: _Stay, place: Array, now: Array, size: float, *, one_factor: bool = False
) -> SharedOffset:
    """Describe how well a place explains a window, up to what :func:`_judged` adds."""
    distance, there = at_place(places, window.rows, place, window.category, window.residual)
    gain = log_likelihood(there, window.log_outlier) - stays.log_likelihood
    gain = np.clip(gain, -MOST_GAIN, MOST_GAIN)
    gains = int(np.count_nonzero(place[1]))
    parameters = 1 if one_factor else min(int(np.count_nonzero(place[0])), len(places.outlier)) + gains
    after = _typical_share(places, distance)
    return SharedOffset(place, now, stays.typical, after, float(gain.mean()), size, parameters, one_factor)


def _judged(places: Places, window: Window, stays: _Stay, found: SharedOffset, independent: float) -> SharedOffset:
    """Find the classes that a place explains, unless too few instances are there or gain."""
    place, now = found.place, found.now
    if found.after < LEAST_THERE or found.gain < LEAST_GAIN:
        return found
    there = at_place(places, window.rows, place, window.category, window.residual)[1]
    parts = np.stack([log_sum(there), log_sum(stays.log_joint), window.log_outlier], axis=1)
    density = np.exp(parts - parts.max(axis=1, keepdims=True)) / [1.0, 1.0, NO_CLASS]
    shares = fit_shares(density, SHARE_ROUNDS)
    here, stayed, _ = shares
    rest = np.ascontiguousarray(density[:, ::2])
    without = rest @ fit_shares(rest, SHARE_ROUNDS)
    evidence = independent * float(np.log(density @ shares / without).sum())
    share = expected(places, window, place, log_of_shares(shares))
    way = moved(places, places.mean, place) - moved(places, places.mean, now)
    way = ((way[:, None] @ places.factor) ** 2).sum(axis=(1, 2))
    share = share * (way > 1.0)  # with gains, some may stay
    count, residual = share.sum(axis=0), in_each(places, returned(places, window.rows, place))
    own = np.einsum("nk,nkd->kd", share, residual.transpose(1, 0, 2)) / np.maximum(count, NEGLIGIBLE)[:, None]
    beyond_chance = (own**2).sum(axis=1) - own.shape[1] / np.maximum(independent * count, NEGLIGIBLE)
    alone = count @ np.maximum(beyond_chance, 0.0) / max(count @ way, NEGLIGIBLE)
    of_class = np.stack([share[:, places.group == j].sum(axis=1) for j in np.unique(places.group)], axis=1)
    surely, least = (of_class > CERTAIN).sum(axis=0), LEAST_CLASS * len(window.log_stay)
    there_surely = np.sort(surely[surely * independent > 1.0]).cumsum()  # classes together, the largest one last
    replaces = (
        places.share_of_largest >= DOMINANT and share[:, places.group == places.largest].sum() > 0.5 * count.sum()
    )
    is_one_enough = found.is_one_enough or bool(replaces)
    one_is_there = is_one_enough and (share.sum(axis=1) > CERTAIN).sum() * independent > 1.0
    return found._replace(
        stayed=float(stayed / (here + stayed)) if evidence > SURE else 0.0,
        classes=max(int((there_surely > least).sum()), int(one_is_there)),
        common=float(1.0 - alone),
        is_one_enough=is_one_enough,
    )


def stay(places: Places, rows: Array, place: Array) -> bool:
    """Whether the classes have not left a place: many rows are typical and at their core.

    Only rows without missing values count: one that lacks the moved feature looks as if the classes had stayed.
    """
    _, own = split(places, rows)
    whole = np.setdiff1d(np.arange(len(rows)), own.lack)
    if len(whole) < LEAST_WHOLE:
        return False
    distance = nearest(places, returned(places, own.only(whole), place))
    typical = (distance < places.cut).mean()
    return bool(typical >= NEAR and (distance < places.middle).mean() >= CORE * typical)


def contradict(places: Places, rows: Array, place: Array, independent: float) -> bool:
    """Whether the mean of typical rows differs from a place (score test of an offset)."""
    window = window_of(places, rows, place)
    window = window._replace(log_stay=np.full_like(window.log_stay, -np.inf))
    share = expected(places, window, place, np.zeros(3))
    residual = in_each(places, returned(places, window.rows, place))
    pulled = np.einsum("nk,knb->kb", share, residual)
    score = np.einsum("kab,kb->a", places.factor, pulled)
    information = np.tensordot(share.sum(axis=0), places.factor @ places.factor.transpose(0, 2, 1), axes=1)
    d = len(score)
    squared = score @ np.linalg.solve(information + 1e-9 * np.eye(d), score)
    return bool(min(1.0, independent) * squared > d + SURE * np.sqrt(2.0 * d))
