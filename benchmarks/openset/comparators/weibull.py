"""Weibull distributions fitted to tails: the calibration that W-SVM, P_I-SVM and EVM share."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

STEPS = 60
"""Newton steps at most; about five are needed."""

STEEPEST = 1e6
"""Shape of samples that (nearly) coincide, whose likelihood has no maximum."""


class Weibull(NamedTuple):
    """Weibull distributions with location 0, an array of them.

    Attributes
    ----------
    shape, scale
        Arrays of one shape, > 0: kappa and lambda of ``cdf(x) = 1 - exp(-(x / lambda)^kappa)``.
    """

    shape: NDArray[np.float64]
    scale: NDArray[np.float64]

    def cdf(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """``P(X <= x)``; 0 for x <= 0."""
        return -np.expm1(-self.hazard(x))

    def hazard(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Cumulative hazard, ``-ln P(X > x)``; 0 for x <= 0."""
        with np.errstate(divide="ignore", over="ignore"):
            return np.exp(self.shape * np.log(np.maximum(x, 0.0) / self.scale))


def fit_weibull(samples: NDArray[np.float64]) -> Weibull:
    """Weibull distributions of greatest likelihood, one for each row.

    The shape is the root of ``sum x^k ln x / sum x^k - 1/k - mean ln x``, which grows with k, found
    by Newton's method; the scale follows in closed form.

    Parameters
    ----------
    samples
        Array of shape (..., n), positive.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.random.default_rng(1).weibull(2.0, size=20_000) * 3.0
    >>> shape, scale = fit_weibull(x)
    >>> round(float(shape), 2), round(float(scale), 2)
    (2.0, 3.0)
    """
    logs = np.log(samples)
    top = logs.max(axis=-1, keepdims=True)
    below = logs - top
    mean = below.mean(axis=-1)
    spread = below.std(axis=-1)
    # Moments of ln x, which is Gumbel distributed, give the start.
    shape = np.minimum(np.pi / np.sqrt(6.0) / np.maximum(spread, 1e-300), STEEPEST)
    for _ in range(STEPS):
        weights = np.exp(shape[..., None] * below)
        weights /= weights.sum(axis=-1, keepdims=True)
        first = (weights * below).sum(axis=-1)
        second = (weights * below**2).sum(axis=-1)
        value = first - 1.0 / shape - mean
        slope = second - first**2 + 1.0 / shape**2
        proposed = np.clip(shape - value / slope, shape / 2, shape * 2)
        proposed = np.minimum(proposed, STEEPEST)
        done = np.all(np.abs(proposed - shape) <= 1e-10 * shape)
        shape = proposed
        if done:
            break
    scale = np.exp(top[..., 0] + np.log(np.exp(shape[..., None] * below).mean(axis=-1)) / shape)
    return Weibull(shape, scale)


class Tail(NamedTuple):
    """A Weibull distribution fitted to the extreme scores of a sample, read for single scores.

    Attributes
    ----------
    weibull
        Of the extremes, shifted so that the least extreme one is at 1.
    sign
        +1 if large scores are the extreme ones, -1 if small ones are.
    origin
        The least extreme score of the tail, times the sign.
    """

    weibull: Weibull
    sign: int
    origin: float

    def cdf(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Probability that an extreme is less extreme than each score."""
        return self.weibull.cdf(self.sign * scores - self.origin + 1.0)

    def log_survival(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Logarithm of the probability that an extreme is more extreme than each score."""
        return -self.weibull.hazard(self.sign * scores - self.origin + 1.0)


def fit_tail(scores: NDArray[np.float64], size: int, sign: int) -> Tail:
    """Fit the `size` most extreme of n scores; all of them if there are fewer.

    The shift by one makes the samples positive whatever the scores, as is usual in the calibration of
    scores [1]_.

    References
    ----------
    .. [1] W. J. Scheirer, A. Rocha, R. Micheals and T. Boult, "Meta-recognition: the theory and practice of
       recognition score analysis", IEEE TPAMI 33, 2011.
    """
    flipped = np.sort(sign * scores)[::-1][: max(size, 1)]
    origin = float(flipped[-1])
    return Tail(fit_weibull(flipped - origin + 1.0), sign, origin)
