"""Novelty patterns against classes: the combined error rate, the unknown rate, and purity.

A novelty pattern is a group of instances that a method found by itself: here an emerging subclass. It has a number
and no name, and several may be one class. De Faria et al. let each pattern stand for the class that most of its
instances are of, known or not, and keep apart what no pattern explains: the instances called just unknown.

How well the groups are those of the classes is told by river's `NormalizedMutualInfo` and `AdjustedRand` too.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Container, Hashable
from typing import NamedTuple

from river.metrics import ConfusionMatrix
from river.metrics.base import MultiClassMetric

from stream_osr.config import Label
from stream_osr.decision import Decision


class NoveltyPattern(NamedTuple):
    """An emerging subclass as the answer of a classifier; its number cannot be taken for a label.

    Attributes
    ----------
    subclass_id
        Its identity.
    """

    subclass_id: int


def pattern_of(decision: Decision, unknown: Label, emerged: Container[int] | None = None) -> Label | NoveltyPattern:
    """Return a decision as the confusion matrix of de Faria et al. has it.

    Parameters
    ----------
    decision
        A final decision.
    unknown
        The unknown label.
    emerged
        Identities of the subclasses that count as patterns; ``None``: all of them.

    Returns
    -------
    The label of a class; or the pattern that an unknown instance sits in; or, without one, the unknown label.

    Examples
    --------
    >>> from stream_osr import OpenSetRecognizer
    >>> model = OpenSetRecognizer(batch_size=20)
    >>> for i in range(40):
    ...     model.learn_one({"a": i % 7, "b": i % 5}, "left")
    ...     model.learn_one({"a": 20 + i % 7, "b": i % 5}, "right")
    >>> for i in range(20):
    ...     model.learn_one({"a": 90 + i % 7, "b": i % 5})
    >>> *_, last = model.drain()
    >>> pattern_of(last, "unknown"), pattern_of(last, "unknown", emerged=())
    (NoveltyPattern(subclass_id=2), 'unknown')
    """
    if decision.label != unknown:
        return decision.label
    number = decision.subclass_id
    if number is None or (emerged is not None and number not in emerged):
        return unknown
    return NoveltyPattern(number)


class _PatternMetric(MultiClassMetric):
    bigger_is_better = False

    def __init__(self, unknown: Label = "unknown", cm: ConfusionMatrix | None = None) -> None:
        super().__init__(cm)  # type: ignore[no-untyped-call]
        self.unknown = unknown

    def _classes(self) -> list[Hashable]:
        return [label for label, n in self.cm.sum_row.items() if n]


class CER(_PatternMetric):
    """Combined error rate of de Faria et al.; 0 is best.

    ``CER = 1/2 sum_i n_i / n (FPR_i + FNR_i)`` over the true classes i, on the n instances that were explained, n_i
    of them of class i: FNR_i is the share of these that were given to another class, FPR_i the share of the others
    that were given to class i. A `NoveltyPattern` stands for the class that most of its instances are of, any other
    answer for itself. Instances called just unknown are not explained and do not count: read it beside `UnkR`, and
    remember that many small patterns flatter it.

    Parameters
    ----------
    unknown
        The unknown label.
    cm
        A confusion matrix to share between metrics.

    References
    ----------
    .. [1] E. R. de Faria, I. Gonçalves, J. Gama and A. Carvalho, "Evaluation methodology for multiclass novelty
       detection algorithms", BRACIS 2013; "Evaluation of multiclass novelty detection algorithms for data streams",
       IEEE TKDE 27(11), 2015.
    .. [2] E. R. de Faria, A. Carvalho and J. Gama, "MINAS: multiclass learning algorithm for novelty detection in
       data streams", Data Mining and Knowledge Discovery 30, 2016.

    Examples
    --------
    Pattern 1 stands for *emu*; of 6 explained instances one *cow* is given to it.

    >>> metric = CER()
    >>> for y_true, y_pred in [
    ...     ("cat", "cat"), ("cat", "cat"), ("cat", "unknown"), ("cow", NoveltyPattern(1)),
    ...     ("emu", NoveltyPattern(1)), ("emu", NoveltyPattern(1)), ("emu", NoveltyPattern(2)),
    ... ]:
    ...     metric.update(y_true, y_pred)
    >>> metric
    CER: 16.67%
    """

    def get(self) -> float:
        """Return the rate so far, in [0, 1]; nan if nothing was explained."""
        classes = self._classes()
        explained = {c: self.cm[c].copy() for c in classes}
        for row in explained.values():
            row.pop(self.unknown, None)
        size = {c: math.fsum(row.values()) for c, row in explained.items()}
        total = math.fsum(size.values())
        given: defaultdict[Hashable, float] = defaultdict(float)
        right: defaultdict[Hashable, float] = defaultdict(float)
        for answer in {answer for row in explained.values() for answer in row}:
            column = {c: row.get(answer, 0.0) for c, row in explained.items()}
            if isinstance(answer, NoveltyPattern):
                stands_for = max(classes, key=lambda c: (column[c], -size[c]))
            else:
                stands_for = answer
            given[stands_for] += math.fsum(column.values())
            right[stands_for] += column.get(stands_for, 0.0)
        rates = []
        for c in classes:
            missed = (size[c] - right[c]) / size[c] if size[c] else 0.0
            others = total - size[c]
            false = (given[c] - right[c]) / others if others else 0.0
            rates.append(size[c] / total * (missed + false) / 2 if total else math.nan)
        return math.fsum(rates) if rates else math.nan


class UnkR(_PatternMetric):
    """Unknown rate of de Faria et al. (see `CER`): how much is called just unknown, the mean of the true classes.

    ``UnkR = 1/M sum_i unknown_i / n_i``: of the n_i instances of class i, unknown_i were explained neither by a
    class nor by a novelty pattern; M classes were met. (streamndr gives the share of all instances instead.)

    Parameters
    ----------
    unknown
        The unknown label.
    cm
        A confusion matrix to share between metrics.

    Examples
    --------
    >>> metric = UnkR()
    >>> for y_true, y_pred in [("cat", "cat"), ("cat", "unknown"), ("emu", "unknown"), ("cow", NoveltyPattern(1))]:
    ...     metric.update(y_true, y_pred)
    >>> metric
    UnkR: 50.00%
    """

    def get(self) -> float:
        """Return the rate so far, in [0, 1]; nan before anything was counted."""
        shares = [self.cm[c].get(self.unknown, 0.0) / self.cm.sum_row[c] for c in self._classes()]
        return math.fsum(shares) / len(shares) if shares else math.nan


class Purity(MultiClassMetric):
    """Share of the instances that are of the class that is most frequent in their group; 1 is best.

    Groups of one instance each are pure: it says something only where the groups are few.

    Parameters
    ----------
    cm
        A confusion matrix to share between metrics.

    References
    ----------
    .. [1] C. D. Manning, P. Raghavan and H. Schütze, "Introduction to information retrieval", 2008, section 16.3.

    Examples
    --------
    >>> metric = Purity()
    >>> for y_true, group in [("emu", 1), ("emu", 1), ("cow", 1), ("cow", 2)]:
    ...     metric.update(y_true, group)
    >>> metric
    Purity: 75.00%
    """

    def get(self) -> float:
        """Return the purity so far, in [0, 1]; nan before anything was counted."""
        largest: dict[Hashable, float] = {}
        for row in self.cm.data.values():
            for group, n in row.items():
                largest[group] = max(largest.get(group, 0.0), n)
        total = self.cm.total_weight
        return math.fsum(largest.values()) / total if total else math.nan
