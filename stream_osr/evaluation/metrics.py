"""Open-set metrics: micro-F over the known classes, and openness of the problem."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_osr.errors import InvalidLabel, InvalidParameter

KINDS = ("known_right", "known_confused", "known_rejected", "unknown_rejected", "unknown_accepted")
"""Kinds of decisions."""


def known_labels(known: Iterable[Hashable]) -> frozenset[Hashable]:
    """Check the labels of the known classes.

    Raises
    ------
    InvalidParameter
        If there are none.
    """
    if not (labels := frozenset(known)):
        raise InvalidParameter("known is empty: at least one known class is needed")
    return labels


class OpenSetReport:
    """Counts of right and wrong decisions, one decision at a time.

    The known classes are the positive ones. Errors count as follows:

    ======================= ================= ===========================
    true class              predicted         counts as
    ======================= ================= ===========================
    known *i*               known *i*         true positive
    known *i*               known *j*         false positive *and* negative
    known                   unknown           false negative
    not known               known             false positive
    not known               unknown           (right, but no positive)
    ======================= ================= ===========================

    Any true label outside `known` is an unknown class, whether it is the unknown label or the name of a class without
    training. A share without a denominator is nan, such as the precision of a model that never accepted an instance.

    Parameters
    ----------
    known
        Labels of the known classes.
    unknown
        Label of unknown instances in predictions.

    Raises
    ------
    InvalidLabel
        If the unknown label is one of the known classes.
    InvalidParameter
        If there are no known classes.

    References
    ----------
    .. [1] P. R. Mendes Júnior et al., "Nearest neighbors distance ratio open-set classifier",
       Machine Learning 106, 2017: the open-set micro-F-measure.

    Examples
    --------
    >>> report = OpenSetReport(known=["a", "b"], unknown="unknown")
    >>> report.update("a", "a")
    >>> report.update("b", "a")
    >>> report.update("b", "unknown")
    >>> report.update("z", "unknown")
    >>> report.update("z", "b")
    >>> report.counts
    {'known_right': 1, 'known_confused': 1, 'known_rejected': 1, 'unknown_rejected': 1, 'unknown_accepted': 1}
    >>> round(report.precision, 3), round(report.recall, 3), round(report.micro_f, 3)
    (0.333, 0.333, 0.333)
    >>> report.accuracy, report.unknown_recall
    (0.4, 0.5)
    """

    def __init__(self, known: Iterable[Hashable], unknown: Hashable) -> None:
        self.known = known_labels(known)
        self.unknown = unknown
        if unknown in self.known:
            raise InvalidLabel(f"the unknown label {unknown!r} is one of the known classes: choose another")
        self._counts: dict[str, float] = dict.fromkeys(KINDS, 0)

    def __repr__(self) -> str:
        return (
            f"OpenSetReport(micro_f={self.micro_f:.3f}, recall={self.recall:.3f}, "
            f"unknown_recall={self.unknown_recall:.3f}, n={self.n})"
        )

    def update(self, y_true: Hashable, y_pred: Hashable, w: float = 1) -> None:
        """Count one decision with its weight.

        Parameters
        ----------
        y_true
            True label.
        y_pred
            A known class, or the unknown label.
        w
            Weight of the decision.

        Raises
        ------
        InvalidLabel
            If the prediction is neither a known class nor the unknown label. Nothing is counted then.
        """
        accepted = y_pred in self.known
        if not accepted and y_pred != self.unknown:
            raise InvalidLabel(
                f"prediction {y_pred!r} is neither a known class nor the unknown label {self.unknown!r}: "
                "map it to one of them first"
            )
        if y_true not in self.known:
            kind = "unknown_accepted" if accepted else "unknown_rejected"
        elif accepted:
            kind = "known_right" if y_pred == y_true else "known_confused"
        else:
            kind = "known_rejected"
        self._counts[kind] += w

    def update_many(self, y_true: Iterable[Hashable], y_pred: Iterable[Hashable]) -> None:
        """Count a sequence of decisions. Both arguments must have the same length."""
        for true, predicted in zip(y_true, y_pred, strict=True):
            self.update(true, predicted)

    @property
    def counts(self) -> dict[str, float]:
        """Number of decisions of each of the five kinds."""
        return dict(self._counts)

    @property
    def confusion(self) -> NDArray[Any]:
        """Array of shape (2, 2), with rows for true known and unknown, and columns for called known and unknown."""
        right, confused, rejected, unknown_rejected, unknown_accepted = self._counts.values()
        return np.array([[right + confused, rejected], [unknown_accepted, unknown_rejected]])

    @property
    def n(self) -> float:
        """Number of decisions so far."""
        return sum(self.counts.values())

    @property
    def n_known(self) -> float:
        """Number of decisions about instances of known classes."""
        return self._counts["known_right"] + self._counts["known_confused"] + self._counts["known_rejected"]

    @property
    def n_unknown(self) -> float:
        """Number of decisions about instances of unknown classes."""
        return self._counts["unknown_accepted"] + self._counts["unknown_rejected"]

    @property
    def true_positives(self) -> float:
        """Number of known instances with the right label."""
        return self._counts["known_right"]

    @property
    def false_positives(self) -> float:
        """Number of instances with the label of a wrong known class."""
        return self._counts["unknown_accepted"] + self._counts["known_confused"]

    @property
    def false_negatives(self) -> float:
        """Number of known instances without the right label."""
        return self._counts["known_rejected"] + self._counts["known_confused"]

    @property
    def precision(self) -> float:
        """``TP / (TP + FP)``."""
        return _share(self.true_positives, self.true_positives + self.false_positives)

    @property
    def recall(self) -> float:
        """``TP / (TP + FN)``."""
        return _share(self.true_positives, self.true_positives + self.false_negatives)

    @property
    def micro_f(self) -> float:
        """Harmonic mean of precision and recall, ``2 TP / (2 TP + FP + FN)``."""
        twice = 2 * self.true_positives
        return _share(twice, twice + self.false_positives + self.false_negatives)

    @property
    def known_accuracy(self) -> float:
        """Share of known instances with the right label. It equals `recall`."""
        return _share(self._counts["known_right"], self.n_known)

    @property
    def unknown_recall(self) -> float:
        """Share of unknown instances that are called unknown."""
        return _share(self._counts["unknown_rejected"], self.n_unknown)

    @property
    def accuracy(self) -> float:
        """Share of right decisions: known instances with the right label, unknown ones as unknown."""
        return _share(self._counts["known_right"] + self._counts["unknown_rejected"], self.n)

    @property
    def m_new(self) -> float:
        """Share of unknown instances that are called known."""
        return _share(self._counts["unknown_accepted"], self.n_unknown)

    @property
    def f_new(self) -> float:
        """Share of known instances that are called unknown."""
        return _share(self._counts["known_rejected"], self.n_known)

    @property
    def err(self) -> float:
        """Share of wrong decisions: `m_new`, `f_new`, and wrong known classes together."""
        counts = self._counts
        return _share(counts["unknown_accepted"] + counts["known_rejected"] + counts["known_confused"], self.n)


def openness(n_train: int, n_target: int, n_test: int) -> float:
    """Compute the openness of a problem, from 0 (closed) towards 1.

    Equation (1) of Geng and Chen, after Scheirer et al. (2013):
    ``1 - sqrt(2 n_train / (n_test + n_target))``.

    Parameters
    ----------
    n_train
        Number of classes in training.
    n_target
        Number of classes to recognize. In the paper's figures these are all classes in training.
    n_test
        Number of classes in testing, known and unknown.

    Returns
    -------
    float
        In [0, 1).

    Raises
    ------
    InvalidParameter
        If a number is below 1, or if testing and target classes are too few to define the measure.

    Examples
    --------
    The paper's medium openness, as percentages: LETTER has 10 known and 10 unknown classes, USPS 5 and 3.

    >>> round(100 * openness(10, 10, 20), 2)
    18.35
    >>> round(100 * openness(5, 5, 8), 2)
    12.29
    >>> openness(5, 5, 5)
    0.0
    """
    for name, value in (("n_train", n_train), ("n_target", n_target), ("n_test", n_test)):
        if value < 1:
            raise InvalidParameter(f"{name} is {value}: a number of classes is at least 1")
    if n_test + n_target < 2 * n_train:
        raise InvalidParameter(
            f"openness is not defined for {n_train} training classes with only {n_target} target and "
            f"{n_test} testing classes: testing should meet every class trained on"
        )
    return 1.0 - math.sqrt(2 * n_train / (n_test + n_target))


def _share(numerator: float, whole: float) -> float:
    return numerator / whole if whole else math.nan
