"""The order of arrival in an ensemble: a test for dependence between neighbours, and predictions from it."""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np

from stream_osr.model import autocorrelation, dependence
from stream_osr.model.class_runs import Runs
from stream_osr.model.jit import kernel
from stream_osr.model.known import log_categories, log_densities
from stream_osr.model.prior import homogeneous, numbers_of
from stream_osr.stream.chain import Chains, opening_seats
from stream_osr.support import rules
from stream_osr.trust.density_levels import quantiles
from stream_osr.trust.references import References, once

TYPICAL_FROM = 0.2
"""Least density rank at which an instance is typical of a class, and moves its state.

The density rank is the share of the class's independent references that are no denser.
"""
PLAUSIBLE_FROM = 0.02
"""Least density rank at which an instance counts in the test."""
ELSEWHERE = 3.0
"""Least correlation in a dependent stream, in standard errors, after the class with the strongest is left out."""
PAIRS_HALF_LIFE = 2000.0
"""Instances after which a pair of neighbours counts half in the test."""
USUAL_HALF_LIFE = 10_000.0
"""Instances after which an instance counts half in the usual location of the class."""
LOST, LEAST_TYPICAL, MANY_REFERENCES, AT_ONCE = 0.4, 12.0, 50, 3
"""Thresholds at which the known classes dissolve.

A class dissolves if more than the first share of the typical instances is labelled unknown. It needs at least the
second number of typical instances and the third number of references. With 14 references, LIBRAS loses 0.17 of
micro-F. Dissolving of at least the last number of classes, and of most classes, means that
the sampler has abandoned the known classes in bulk. A new class replaces only one.
"""
GONE = 8.0
"""Latest typical instances below which all known classes have moved away or are gone."""
LATELY = 256
"""Instances after which a typical instance counts half."""
DEPARTED_FOR = 5000
"""Instances after a bulk departure for which typicality decides which instances are known."""
ASSUMED = 0.1
"""Independent instances with the information of one stream instance, as long as their dependence is not estimated."""
FITTED_AGAIN, FITTED_OFTEN = 1024, 256
"""Intervals in instances between fits of a stream's process, later and at first."""


class Arrival(NamedTuple):
    """The order of arrival in a stream, for the J trained classes in d numeric dimensions.

    Attributes
    ----------
    pairs
        Faded sums over neighbours in the stream.
    residual, group, at
        Residuals of the latest instances, shape (m, d), the class of each (-1 if implausible for all), and its
        position in the stream, both of shape (m,).
    usual
        Faded number of plausible instances of each class, and the sum of their residuals, shape (J, d + 1).
    process
        Process of the residuals. ``None`` if neighbours are independent.
    tracked
        Locations of the classes. ``None`` if neighbours are independent.
    gain
        Log likelihood gain of the latest instances given the instances before them, shape (w,).
    since
        Position in the stream since which neighbours are known to be dependent, -1 if they are not.
    fitted
        Position at which the process was fitted, -1 for training.
    independent
        Number of independent instances with the information of one stream instance.
    typical
        Faded counts of the latest typical instances of each class, and of those labelled unknown, shape (J, 2).
    departed
        Position at which most typical instances were labelled unknown, -1 if never.
    runs
        Runs of the known classes. ``None`` as long as neighbours are independent.
    """

    pairs: Annotated[autocorrelation.Pairs, rules.sizes("J d")]
    residual: Annotated[np.ndarray, rules.array("f", "m", "d", low=-1e12, high=1e12)]
    group: Annotated[np.ndarray, rules.array("i", "m", low=-1, below="J")]
    at: Annotated[np.ndarray, rules.array("i", "m", low=0), rules.distinct, rules.ascending]
    usual: Annotated[np.ndarray, rules.array("f", "J", "d+1")]
    process: Annotated[dependence.Process, rules.sizes("d")] | None = None
    tracked: Annotated[dependence.TrackedLocations, rules.sizes("J d")] | None = None
    gain: Annotated[np.ndarray, rules.array("f", "*", low=-1e12, high=1e12)] = np.zeros(0)
    since: rules.Position = -1
    fitted: rules.Position = -1
    independent: Annotated[float, rules.number(rules.ABOVE_0, 1.0)] = ASSUMED
    typical: Annotated[np.ndarray, rules.array("f", "J", "2", low=0.0, high=1e12)] = np.zeros((0, 2))
    departed: rules.Position = -1
    runs: Runs | None = None

    @property
    def counts_typicality(self) -> bool:
        """Whether typicality, and not location, decides which instances are known."""
        return self.process is not None or self.departed >= 0

    @property
    def has_left(self) -> bool:
        """Whether almost none of the latest instances is typical of any known class."""
        return bool((self.at >= LATELY).any() and self.typical[:, 0].sum() < GONE)


def independent_of(arrival: Arrival | None) -> float:
    """Return the number of independent instances with the information of one stream instance."""
    return 1.0 if arrival is None or arrival.process is None else arrival.independent


def independent_locations(arrival: Arrival | None, order: dependence.ArrivalOrder | None) -> float:
    """Return the same number from the neighbours in training and in the stream together.

    Training of few instances underestimates how long a class stays in one place.
    """
    if arrival is None or arrival.process is None or order is None or order.process is None:
        return independent_of(arrival)
    products, number = (ours + theirs for ours, theirs in zip(arrival.pairs[:2], order.pairs[:2], strict=True))
    pairs = order.pairs._replace(products=products, number=number)
    return dependence.effective_share(pairs, dependence.fit_process(pairs))


def begin(order: dependence.ArrivalOrder) -> Arrival:
    """Begin with no instances."""
    n_classes, d = order.residuals.mean.shape
    nothing = np.zeros(0, np.int64)
    usual, typical = np.zeros((n_classes, d + 1)), np.zeros((n_classes, 2))
    pairs = autocorrelation.no_pairs(n_classes, d)
    arrival = Arrival(pairs, np.zeros((0, d)), nothing, nothing, usual, typical=typical)
    if order.process is None:
        return arrival
    tracked = dependence.start(order.process, n_classes)
    return _fitted(arrival, order.process, order.pairs)._replace(tracked=tracked, since=0)


def _fitted(arrival: Arrival, process: dependence.Process, pairs: autocorrelation.Pairs) -> Arrival:
    return arrival._replace(process=process, independent=dependence.effective_share(pairs, process))


def predict(
    arrival: Arrival,
    residuals: autocorrelation.Residuals,
    chains: Chains,
    references: References,
    rows: np.ndarray,
    incomplete: np.ndarray,
    kept: int,
) -> tuple[Arrival, np.ndarray | None]:
    """Predict a batch, and update the locations of the classes with the instances accepted as each class.

    Parameters
    ----------
    arrival
        The state before the batch. It does not change.
    residuals
        Whitened residuals of the J trained classes.
    chains
        Chains before the batch.
    references
        References of the known classes.
    rows
        Whitened rows, shape (b, C + d).
    incomplete
        Rows with missing values, or drawn in place of others, shape (b,). They are not predicted.
    kept
        Number of instances whose gain is remembered: those of the window.

    Returns
    -------
    The state after the batch, and the log likelihood gain of the latest instances given the instances before them,
    with the batch last. The gain is ``None`` if neighbours are independent.
    """
    if arrival.process is None or arrival.tracked is None:
        return arrival, None
    prior, n_classes = chains[0].known.prior, len(residuals.mean)
    who = homogeneous(rows)
    found = [log_densities(c.known, c.frozen, who) for c in chains]
    log_density = np.ascontiguousarray(np.mean([each[0] for each in found], axis=0)[:, :n_classes])
    seats = np.mean([opening_seats(c.known, c.frozen) for c in chains], axis=0)
    log_new = np.mean([each[2] for each in found], axis=0) + seats[-1] - seats[:n_classes].max()
    category = log_categories(chains[0].known, chains[0].frozen, who)[:, :n_classes]
    complete = ~incomplete
    came = dependence.Came(numbers_of(rows, prior), category, log_density, log_new, complete)
    least = _least(references, n_classes, TYPICAL_FROM)
    gain, tracked = dependence.predict_in_order(arrival.process, residuals, arrival.tracked, came, least)
    everyone = np.concatenate([arrival.gain, gain])
    return arrival._replace(tracked=tracked, gain=everyone[max(len(everyone) - kept, 0) :]), everyone


def test(
    arrival: Arrival,
    order: dependence.ArrivalOrder,
    references: References,
    rows: np.ndarray,
    log_density: np.ndarray,
    incomplete: np.ndarray,
    unknown: np.ndarray,
    first: int,
) -> Arrival:
    """Count the neighbours in a batch, and test for dependence and for dissolving classes.

    Parameters
    ----------
    arrival, order, references, incomplete
        As for :func:`predict`.
    rows
        Numeric whitened rows of the batch, shape (b, d).
    log_density
        Frozen log densities under the trained classes, averaged over the chains, shape (b, J).
    unknown
        Whether each row is labelled unknown, shape (b,).
    first
        Position of the first row in the stream.
    """
    near, now, n_classes = log_density.argmax(axis=1), first + len(rows), log_density.shape[1]
    density = log_density[np.arange(len(near)), near]
    typical = density >= _least(references, n_classes, TYPICAL_FROM)[near]
    many = np.bincount(references.group, minlength=n_classes)[:n_classes] >= MANY_REFERENCES
    arrival = _count_typical(arrival, near, typical, unknown, many, now)
    plausible = density >= _least(references, n_classes, PLAUSIBLE_FROM, always=True)[near]
    plausible &= ~incomplete & ~unknown  # a new class that begins beside a known one is no dependence
    z = autocorrelation.shortened(autocorrelation.whitened(order.residuals, rows, near))
    group = np.concatenate([arrival.group, np.where(plausible, near, -1)])
    residual = np.concatenate([arrival.residual, z])
    at = np.concatenate([arrival.at, first + np.arange(len(rows))])
    count = arrival.usual[:, :1]
    middle = np.where(count >= autocorrelation.LEAST_EARLIER, arrival.usual[:, 1:] / np.maximum(count, 1.0), np.nan)
    usual = arrival.usual * 0.5 ** (len(rows) / USUAL_HALF_LIFE)
    _add_rows(usual, near[plausible], np.hstack([np.ones((len(z), 1)), z])[plausible])
    dependent = arrival.process is not None
    pairs = autocorrelation.faded_pairs(arrival.pairs, 0.5 ** (len(rows) / PAIRS_HALF_LIFE))
    suspicious = dependent or autocorrelation.correlation_of(pairs)[0] > autocorrelation.STILL_CORRELATED
    pairs = autocorrelation.count_pairs(
        pairs, residual, group, at, len(arrival.at), middle=middle, products=suspicious
    )
    last = slice(-int(autocorrelation.LAGS[-1]), None)
    arrival = arrival._replace(pairs=pairs, usual=usual, residual=residual[last], group=group[last], at=at[last])
    if order.process is not None:
        return arrival
    found = autocorrelation.is_dependent(
        pairs, autocorrelation.LEAST_STREAM_PAIRS, autocorrelation.CORRELATED_STREAM, was=dependent
    )
    if found and not dependent and n_classes > 1:
        rest, errors, _ = autocorrelation.correlation_of(autocorrelation.without_strongest(pairs))
        found = rest > autocorrelation.CORRELATED_STREAM and errors > ELSEWHERE
    if not found:
        return arrival._replace(process=None, tracked=None, gain=np.zeros(0), since=-1)
    if not dependent:
        process = dependence.fit_process(pairs)
        tracked = dependence.start(process, n_classes)
        return _fitted(arrival, process, pairs)._replace(tracked=tracked, since=now, fitted=now)
    if now - arrival.fitted >= (FITTED_AGAIN if pairs.number[0] >= FITTED_AGAIN else FITTED_OFTEN):
        return _fitted(arrival, dependence.fit_process(pairs), pairs)._replace(fitted=now)
    return arrival


@kernel
def _add_rows(sums: np.ndarray, at: np.ndarray, rows: np.ndarray) -> None:
    """Do the work of ``np.add.at`` for a few rows, which it takes much longer for."""
    for i in range(len(at)):
        for a in range(rows.shape[1]):
            sums[at[i], a] += rows[i, a]


def _count_typical(
    arrival: Arrival, near: np.ndarray, is_typical: np.ndarray, unknown: np.ndarray, many: np.ndarray, now: int
) -> Arrival:
    """Count the typical instances of a batch, and record when most known classes dissolve.

    Parameters
    ----------
    near, is_typical, unknown
        Nearest class of each instance, whether it is typical of the class, and whether it is labelled unknown, (b,).
    many
        Classes with enough references, shape (J,).
    now
        Position after the batch.
    """
    n = len(near)
    weight = is_typical.astype(float)
    typical = 0.5 ** (n / LATELY) * arrival.typical
    _add_rows(typical, near, np.column_stack([weight, weight * unknown]))
    posterior = many & (typical[:, 0] >= LEAST_TYPICAL)
    dissolved = posterior & (typical[:, 1] > LOST * typical[:, 0])
    departed = arrival.departed
    if dissolved.sum() >= AT_ONCE and 2 * dissolved.sum() > posterior.sum():
        departed = now
    elif now - departed >= DEPARTED_FOR:
        departed = -1
    return arrival._replace(typical=typical, departed=departed)


@once
def _least(references: References, n_classes: int, share: float, *, always: bool = False) -> np.ndarray:
    """Log density, averaged over the chains, below which a share of each class's independent references lies, (J,).

    With too few references for the share, the bound rejects nothing. With ``always`` it rejects instances less dense
    than all references.
    """
    own, out = np.mean(references.log_density, axis=0), np.full(n_classes, np.inf)
    count = references.effective or len(references.group) / n_classes
    share = (share * (count + 1.0) - 1.0) / count
    if share <= 0.0 and not always:
        return np.full(n_classes, -np.inf)
    for j in range(n_classes):
        theirs = references.group == j
        if theirs.any():
            out[j] = quantiles(own[theirs, j], np.array([share]), references.weights[theirs])[0]
    return out
