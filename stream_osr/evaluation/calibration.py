"""Calibration of the probability of unknown, and its ranking of unknown above known instances."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stream_osr.errors import InvalidParameter

N_BINS = 15


class ReliabilityCurve(NamedTuple):
    """Predicted probability against observed share, by bins of rising prediction.

    Attributes
    ----------
    size
        Number of instances in each bin, shape (n_bins,).
    predicted
        Mean predicted probability of each bin, shape (n_bins,).
    observed
        Share of truly unknown instances in each bin, shape (n_bins,).
    """

    size: NDArray[np.int64]
    predicted: NDArray[np.float64]
    observed: NDArray[np.float64]


def reliability_curve(p_unknown: ArrayLike, is_unknown: ArrayLike, n_bins: int = N_BINS) -> ReliabilityCurve:
    """Put predictions into bins of equal mass, and compare each bin with the truth.

    The instances are sorted by prediction and cut into bins whose sizes differ by at most one. With fewer instances
    than bins, each instance is a bin. Instances with the same prediction may fall into several bins. Each then counts
    with the mean truth of all with that prediction, so that the order of the instances does not matter.

    Parameters
    ----------
    p_unknown
        Predicted probability of unknown, in [0, 1], shape (n,).
    is_unknown
        Mask of instances of unknown classes, shape (n,).
    n_bins
        Number of bins.

    Returns
    -------
    ReliabilityCurve
        ``min(n_bins, n)`` bins.

    Raises
    ------
    InvalidParameter
        If a prediction is not a probability, the lengths differ, or there is no bin.

    Examples
    --------
    >>> curve = reliability_curve([0.1, 0.9, 0.1, 0.7], [False, True, True, True], n_bins=2)
    >>> curve.size.tolist(), curve.predicted.tolist(), curve.observed.tolist()
    ([2, 2], [0.1, 0.8], [0.5, 1.0])
    """
    if n_bins < 1:
        raise InvalidParameter(f"n_bins is {n_bins}: at least 1 is needed")
    p, truth = _checked(p_unknown, is_unknown)
    if ((p < 0) | (p > 1)).any():
        wrong = p[(p < 0) | (p > 1)][0]
        raise InvalidParameter(f"p_unknown holds {wrong:g}: expected probabilities between 0 and 1")
    order = np.argsort(p, kind="stable")
    values, same, shared = np.unique(p[order], return_inverse=True, return_counts=True)
    share = np.bincount(same, truth[order], minlength=len(values)) / shared
    bins = np.array_split(np.arange(len(p)), min(n_bins, len(p))) if len(p) else []
    return ReliabilityCurve(
        size=np.array([len(places) for places in bins], dtype=np.int64),
        predicted=np.array([p[order[places]].mean() for places in bins], dtype=np.float64),
        observed=np.array([share[same[places]].mean() for places in bins], dtype=np.float64),
    )


def expected_calibration_error(p_unknown: ArrayLike, is_unknown: ArrayLike, n_bins: int = N_BINS) -> float:
    """Compute the mean absolute difference of predicted probability and observed share, over bins of equal mass.

    Parameters
    ----------
    p_unknown, is_unknown, n_bins
        As for `reliability_curve`.

    Returns
    -------
    float
        Error in [0, 1], 0 is best. It is nan if there are no instances.

    Raises
    ------
    InvalidParameter
        As `reliability_curve` does.

    References
    ----------
    .. [1] C. Guo, G. Pleiss, Y. Sun and K. Q. Weinberger, "On calibration of modern neural networks", ICML 2017.
    .. [2] K. Nguyen and B. O'Connor, "Posterior calibration and exploratory analysis for natural language
       processing models", EMNLP 2015: bins of equal mass.

    Examples
    --------
    >>> round(expected_calibration_error([0.1, 0.9, 0.1, 0.7], [False, True, True, True], n_bins=2), 3)
    0.3
    """
    curve = reliability_curve(p_unknown, is_unknown, n_bins)
    n = int(curve.size.sum())
    return float((curve.size * np.abs(curve.predicted - curve.observed)).sum() / n) if n else math.nan


def auroc(score: ArrayLike, is_unknown: ArrayLike) -> float:
    """Compute the area under the ROC curve.

    It is the probability that an unknown instance scores above a known one. Ties count half.

    Parameters
    ----------
    score
        Score of each instance, on any scale, infinities included, shape (n,). A higher score means more unknown.
    is_unknown
        Mask of instances of unknown classes, shape (n,).

    Returns
    -------
    float
        Area in [0, 1], 0.5 is chance. It is nan unless there are both known and unknown instances.

    Raises
    ------
    InvalidParameter
        If a score is nan, or the lengths differ.

    Examples
    --------
    >>> auroc([0.1, 0.4, 0.4, 0.8], [False, False, True, True])
    0.875
    """
    scores, truth = _checked(score, is_unknown)
    n_unknown = int(truth.sum())
    n_known = len(truth) - n_unknown
    if not n_unknown or not n_known:
        return math.nan
    from scipy.stats import rankdata  # slow to import

    ranks = rankdata(scores)  # Mann and Whitney's U, as a share of its largest value
    return float((ranks[truth].sum() - n_unknown * (n_unknown + 1) / 2) / (n_known * n_unknown))


def fpr_at_recall(score: ArrayLike, is_unknown: ArrayLike, recall: float = 0.95) -> float:
    """Compute the share of unknown instances accepted where a given share of known ones is: FPR95 by default.

    The known instances are the positive ones. The threshold is the smallest score up to which at least `recall` of
    the known ones are accepted. Instances with that score are accepted too, even unknown ones, so that ties count
    against the score. If all scores are equal, the result is 1, not chance.

    Parameters
    ----------
    score, is_unknown
        As for `auroc`.
    recall
        Share of known instances to accept, in (0, 1].

    Returns
    -------
    float
        Share in [0, 1], 0 is best and `recall` about chance. It is nan unless there are both known and unknown
        instances.

    Raises
    ------
    InvalidParameter
        If `recall` is not in (0, 1], or for the reasons of `auroc`.

    References
    ----------
    .. [1] S. Liang, Y. Li and R. Srikant, "Enhancing the reliability of out-of-distribution image detection in
       neural networks", ICLR 2018: the false positive rate at 95 % true positive rate.

    Examples
    --------
    Three of the four known are accepted up to 0.4, and one of the two unknown with them.

    >>> fpr_at_recall([0.1, 0.2, 0.4, 0.9, 0.4, 0.8], [False] * 4 + [True] * 2, recall=0.75)
    0.5
    """
    if not 0 < recall <= 1:
        raise InvalidParameter(
            f"recall is {recall:g}: expected a share of the known instances, above 0 and at most 1"
        )
    scores, truth = _checked(score, is_unknown)
    known, unknown = np.sort(scores[~truth]), scores[truth]
    if not len(known) or not len(unknown):
        return math.nan
    shares = np.arange(1, len(known) + 1) / len(known)  # compared as written: 0.07 * 100 is above 7
    threshold = known[np.searchsorted(shares, recall)]
    return float((unknown <= threshold).mean())


def oscr(score: ArrayLike, is_unknown: ArrayLike, right: ArrayLike) -> float:
    """Compute the area under the curve of the open-set classification rate.

    The score ranks the unknown, and the classifier names the known.

    Over all thresholds, the curve shows two shares. One is the share of known instances that are accepted with the
    true class as the best one. The other is the share of unknown instances that are accepted. The area is the
    probability that the best class of a known instance is true *and* an unknown instance scores above it. Ties count
    half, as in `auroc`. It equals the closed-set accuracy times the `auroc` of correctly named known instances
    against the unknown. If all are named correctly, it equals `auroc`. Otherwise it is between
    ``auroc - (1 - accuracy)`` and the smaller of `auroc` and accuracy.

    Parameters
    ----------
    score, is_unknown
        As for `auroc`.
    right
        Mask of instances whose best known class is the true one, shape (n,). Values of unknown instances are ignored.

    Returns
    -------
    float
        Area in [0, 1], 1 is best. It is nan unless there are both known and unknown instances.

    Raises
    ------
    InvalidParameter
        If the length of `right` differs from the others, or for the reasons of `auroc`.

    References
    ----------
    .. [1] A. R. Dhamija, M. Günther and T. E. Boult, "Reducing network agnostophobia", NeurIPS 2018: the curve.

    Examples
    --------
    >>> score, is_unknown = [0.1, 0.4, 0.4, 0.8], [False, False, True, True]
    >>> oscr(score, is_unknown, [True, True, False, False])
    0.875
    >>> oscr(score, is_unknown, [True, False, False, False])
    0.5
    """
    scores, truth = _checked(score, is_unknown)
    named = np.asarray(right, dtype=bool)
    if named.shape != truth.shape:
        raise InvalidParameter(
            f"right is of shape {named.shape} and truth of shape {truth.shape}: expected (n,) for both"
        )
    n_known = len(truth) - int(truth.sum())
    if not n_known or n_known == len(truth):
        return math.nan
    named = named & ~truth
    accuracy = int(named.sum()) / n_known
    return accuracy * auroc(scores[named | truth], truth[named | truth]) if accuracy else 0.0


def _checked(values: ArrayLike, is_unknown: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    predicted = np.asarray(values, dtype=np.float64)
    truth = np.asarray(is_unknown, dtype=bool)
    if predicted.ndim != 1 or predicted.shape != truth.shape:
        raise InvalidParameter(
            f"predictions are of shape {predicted.shape} and truth of shape {truth.shape}: expected (n,) for both"
        )
    if np.isnan(predicted).any():
        raise InvalidParameter(f"prediction {int(np.isnan(predicted).argmax())} is nan: every instance needs one")
    return predicted, truth
