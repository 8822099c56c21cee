"""Metrics of known against novel for river's loops, with the names of the literature.

Every label outside the known classes is novel, in truths and in predictions. It can be the name of a class without
training, the unknown label, or the number of a novelty pattern. `OpenSetReport` defines how each pair counts. These
metrics count pairs in river's confusion matrix. They can share it, and they can revert pairs. A share without a
denominator is nan.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from typing import Any

import numpy as np
from river.base import Classifier, Estimator
from river.metrics import ConfusionMatrix
from river.metrics.base import ClassificationMetric, MultiClassMetric

from stream_osr.errors import InvalidParameter
from stream_osr.evaluation.calibration import auroc
from stream_osr.evaluation.metrics import OpenSetReport, known_labels

_NOVEL = object()
"""Substitute for every label outside the known classes, equal only to itself."""


class OpenSetMetric(MultiClassMetric):
    """Base class of the metrics of an open-set classifier.

    Parameters
    ----------
    known
        Labels of the known classes.
    cm
        Confusion matrix to share between metrics, which one of them updates. ``None``: a separate one.

    Raises
    ------
    InvalidParameter
        If there are no known classes.
    """

    def __init__(self, known: Iterable[Hashable], cm: ConfusionMatrix | None = None) -> None:
        super().__init__(cm)  # type: ignore[no-untyped-call]
        self.known = known_labels(known)

    @property
    def report(self) -> OpenSetReport:
        """Report of the counts so far."""
        report = OpenSetReport(self.known, _NOVEL)
        for y_true, row in self.cm.data.items():
            for y_pred, w in row.items():
                if w:
                    report.update(y_true, y_pred if y_pred in self.known else _NOVEL, w)
        return report

    @abstractmethod
    def get(self) -> float:
        """Return the value so far. It is nan before any relevant instance was counted."""


class _Reported(OpenSetMetric):
    """Metric that the report has, by its name there."""

    _figure: str

    def get(self) -> float:
        """Return the metric so far, in [0, 1]."""
        return float(getattr(self.report, self._figure))


class MNew(_Reported):
    """Share of novel instances that were called known. 0 is best.

    ``M_new = F_n / N_c`` of Masud et al. [1]_: F_n novel instances called known, of N_c novel ones.

    Parameters
    ----------
    known
        Labels of the known classes.
    cm
        Confusion matrix to share between metrics.

    References
    ----------
    .. [1] M. Masud, J. Gao, L. Khan, J. Han and B. Thuraisingham, "Classification and novel class detection in
       concept-drifting data streams under time constraints", IEEE TKDE 23(6), 2011.

    Examples
    --------
    >>> metric = MNew(known=["cat", "dog"])
    >>> for y_true, y_pred in [("emu", "unknown"), ("emu", "cat"), ("cow", "unknown"), ("cat", "dog")]:
    ...     metric.update(y_true, y_pred)
    >>> metric
    MNew: 33.33%
    """

    bigger_is_better = False
    _figure = "m_new"


class FNew(_Reported):
    """Share of known instances that were called novel. 0 is best.

    ``F_new = F_p / (N - N_c)`` of Masud et al. (see `MNew`): F_p known instances called novel, of N - N_c known ones.

    Parameters
    ----------
    known
        Labels of the known classes.
    cm
        Confusion matrix to share between metrics.

    Examples
    --------
    >>> metric = FNew(known=["cat", "dog"])
    >>> for y_true, y_pred in [("cat", "cat"), ("cat", "dog"), ("dog", "unknown"), ("dog", "emu"), ("emu", "emu")]:
    ...     metric.update(y_true, y_pred)
    >>> metric
    FNew: 50.00%
    """

    bigger_is_better = False
    _figure = "f_new"


class Err(_Reported):
    """Share of all instances with a wrong answer. 0 is best.

    ``Err = (F_p + F_n + F_e) / N`` of Masud et al. (see `MNew`): known called novel, novel called known, and F_e
    instances with a wrong known class.

    Parameters
    ----------
    known
        Labels of the known classes.
    cm
        Confusion matrix to share between metrics.

    Examples
    --------
    >>> metric = Err(known=["cat", "dog"])
    >>> for y_true, y_pred in [("cat", "cat"), ("cat", "dog"), ("dog", "unknown"), ("emu", "emu")]:
    ...     metric.update(y_true, y_pred)
    >>> metric
    Err: 50.00%
    >>> metric.revert("cat", "dog")
    >>> metric
    Err: 33.33%
    """

    bigger_is_better = False
    _figure = "err"


class OpenSetMicroF(_Reported):
    """Micro-F over the known classes, ``2 TP / (2 TP + FP + FN)``. 1 is best.

    A novel instance called known is a false positive. A known instance called novel is a false negative. A known
    instance with a wrong known class is both. A novel instance called novel is right, but does not count [1]_.

    Parameters
    ----------
    known
        Labels of the known classes.
    cm
        Confusion matrix to share between metrics.

    References
    ----------
    .. [1] P. R. Mendes Júnior et al., "Nearest neighbors distance ratio open-set classifier",
       Machine Learning 106, 2017: the open-set micro-F-measure.

    Examples
    --------
    >>> metric = OpenSetMicroF(known=["cat", "dog"])
    >>> for y_true, y_pred in [("cat", "cat"), ("cat", "dog"), ("dog", "unknown"), ("emu", "emu")]:
    ...     metric.update(y_true, y_pred)
    >>> metric
    OpenSetMicroF: 40.00%
    """

    _figure = "micro_f"


class OpenSetMacroF(OpenSetMetric):
    """Macro-F over the known classes: the mean of their F-measures, each as in `OpenSetMicroF`. 1 is best.

    A class without any instance or prediction has no F-measure and is left out. Mendes Júnior et al. use the
    F-measure of mean precision and mean recall instead. The mean of F-measures is what scikit-learn and river call
    macro-F, and it is preferable [1]_.

    Parameters
    ----------
    known
        Labels of the known classes.
    cm
        Confusion matrix to share between metrics.

    References
    ----------
    .. [1] J. Opitz and S. Burst, "Macro F1 and macro F1", arXiv 1911.03347, 2019.

    Examples
    --------
    >>> metric = OpenSetMacroF(known=["cat", "dog"])
    >>> for y_true, y_pred in [("cat", "cat"), ("cat", "dog"), ("dog", "unknown"), ("emu", "emu")]:
    ...     metric.update(y_true, y_pred)
    >>> metric
    OpenSetMacroF: 33.33%
    """

    def get(self) -> float:
        """Return the mean so far, in [0, 1]."""
        values = []
        for label in self.known:
            right = self.cm.true_positives(label)
            wrong = self.cm.false_positives(label) + self.cm.false_negatives(label)
            if right or wrong:
                values.append(2 * right / (2 * right + wrong))
        return math.fsum(values) / len(values) if values else math.nan


class AUROC(ClassificationMetric):
    """Area under the ROC curve of the probability of novel. 1 is best, 0.5 is chance.

    It is exact, like `auroc`, while river's `ROCAUC` uses a few thresholds. It is the probability that a novel
    instance has a larger probability than a known one. Ties count half. The object stores every distinct value.

    Parameters
    ----------
    known
        Labels of the known classes.

    Raises
    ------
    InvalidParameter
        If there are no known classes.

    Examples
    --------
    Probabilities of labels, as from `predict_proba_one`. The probability of novel is the rest beside the known
    classes.

    >>> metric = AUROC(known=["cat", "dog"])
    >>> metric.update("cat", {"cat": 0.5, "dog": 0.25, "unknown": 0.25})
    >>> metric.update("emu", {"cat": 0.25, "dog": 0.25, "unknown": 0.5})

    Or that probability itself, such as a decision's `p_unknown`:

    >>> metric.update("emu", 0.125)
    >>> metric
    AUROC: 50.00%
    """

    requires_labels = False
    works_with_weights = False  # of a fraction: a weight is how often the answer was given

    def __init__(self, known: Iterable[Hashable]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.known = known_labels(known)
        self._answers: Counter[tuple[float, bool]] = Counter()

    def works_with(self, model: Estimator) -> bool:
        """Check whether the model gives class probabilities."""
        return isinstance(model, Classifier)

    def update(self, y_true: Hashable, y_pred: float | Mapping[Any, float], w: float = 1.0) -> None:
        """Count an answer.

        Parameters
        ----------
        y_true
            True label.
        y_pred
            Probability of each label, or of being novel.
        w
            Number of times, a whole number.

        Raises
        ------
        InvalidParameter
            If a probability is nan, or the weight is no whole number.
        """
        if isinstance(y_pred, Mapping):
            novel = math.fsum(p for label, p in y_pred.items() if label not in self.known)
        else:
            novel = float(y_pred)
        if math.isnan(novel):
            raise InvalidParameter("a probability is nan: every answer needs a number")
        if w != int(w):
            raise InvalidParameter(f"the weight is {w}: expected a whole number of answers")
        self._answers[novel, y_true not in self.known] += int(w)

    def revert(self, y_true: Hashable, y_pred: float | Mapping[Any, float], w: float = 1.0) -> None:
        """Revert an answer that was counted."""
        self.update(y_true, y_pred, -w)

    def get(self) -> float:
        """Return the area so far, in [0, 1]. It is nan unless there are both known and novel instances."""
        times = np.array(list(self._answers.values()), dtype=np.int64)
        score, novel = np.array(list(self._answers), dtype=np.float64).reshape(-1, 2).T
        return auroc(np.repeat(score, times), np.repeat(novel > 0, times))
