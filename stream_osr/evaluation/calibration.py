"""Calibration of the probability of being unknown, and its ranking of unknown above known instances."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stream_osr.errors import InvalidParameter

N_BINS = 15


class ReliabilityCurve(NamedTuple):
    """Predicted probability against observed share, bin by bin, in rising order of the prediction.

    Attributes
    ----------
    size
        Instances in each bin, shape (n_bins,).
    predicted
        Mean predicted probability of each bin, shape (n_bins,).
    observed
        Share of each bin that is unknown indeed, shape (n_bins,).
    """

    size: NDArray[np.int64]
    predicted: NDArray[np.float64]
    observed: NDArray[np.float64]


def reliability_curve(p_unknown: ArrayLike, is_unknown: ArrayLike, n_bins: int = N_BINS) -> ReliabilityCurve:
    """Gather predictions into bins of equal mass and compare each with the truth.

    The instances, sorted by prediction, are cut into bins whose sizes differ by one at most; with fewer instances
    than bins each is a bin of its own. Instances with one prediction may fall into several bins; each of them then
    counts with the mean truth of all that share it, so that the order of the instances does not matter.

    Parameters
    ----------
    p_unknown
        Predicted probability of being unknown, in [0, 1], shape (n,).
    is_unknown
        Whether the instance is of an unknown class, shape (n,).
    n_bins
        Number of bins.

    Returns
    -------
    ReliabilityCurve
        ``min(n_bins, n)`` bins.

    Raises
    ------
    InvalidParameter
        If a prediction is not a probability, the two differ in length, or there is no bin.

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
    """Mean absolute difference of predicted probability and observed share, over bins of equal mass.

    Parameters
    ----------
    p_unknown, is_unknown, n_bins
        As for `reliability_curve`.

    Returns
    -------
    float
        In [0, 1], 0 being best; nan if there are no instances.

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
    """Area under the ROC curve: the chance that an unknown instance scores above a known one, a tie being half.

    Parameters
    ----------
    score
        The higher, the more unknown; of any scale, infinities included, shape (n,).
    is_unknown
        Whether the instance is of an unknown class, shape (n,).

    Returns
    -------
    float
        In [0, 1], 0.5 being chance; nan unless there are both known and unknown instances.

    Raises
    ------
    InvalidParameter
        If a score is nan or the two differ in length.

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
    """Share of the unknown taken for known where a given share of the known is accepted: FPR95, by default.

    The known are the positive ones. The threshold is the smallest score up to which at least `recall` of the known
    are accepted; whoever scores as much is accepted as well, the unknown included: ties count against the score. With
    one score for all it is 1, not chance.

    Parameters
    ----------
    score, is_unknown
        As for `auroc`.
    recall
        Share of the known instances that are to be accepted, in (0, 1].

    Returns
    -------
    float
        In [0, 1], 0 being best and `recall` about chance; nan unless there are both known and unknown instances.

    Raises
    ------
    InvalidParameter
        If `recall` is not in (0, 1], or as `auroc` does.

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
    """Area under the curve of the open-set classification rate: ranks the unknown, and names the known.

    Over all thresholds of the score, the share of the known that are accepted and whose best known class is the true
    one, against the share of the unknown that are accepted. The area below is the chance that the best class of a
    known instance is the true one *and* an unknown instance scores above it, a tie being half, as in `auroc`. It is
    therefore the closed-set accuracy times the `auroc` of the known that are right against the unknown: `auroc`
    itself where all are right, otherwise between ``auroc - (1 - accuracy)`` and the smaller of `auroc` and accuracy.

    Parameters
    ----------
    score, is_unknown
        As for `auroc`.
    right
        Whether the best known class of the instance is its true one, shape (n,); of unknown instances it is ignored.

    Returns
    -------
    float
        In [0, 1], 1 being best; nan unless there are both known and unknown instances.

    Raises
    ------
    InvalidParameter
        If `right` differs in length from the others, or as `auroc` does.

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
