"""Novelty patterns against classes: the combined error rate, the unknown rate, and purity.

A novelty pattern is a group of instances that a method found by itself. Here it is an emerging subclass. It has a
number and no name, and several patterns may be one class. In the method of de Faria et al., each pattern stands for
the class of most members, known or not. Instances without a pattern are called just unknown and are counted
separately.

river's `NormalizedMutualInfo` and `AdjustedRand` also measure how well groups match classes.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Container, Hashable
from typing import NamedTuple

from river.metrics import ConfusionMatrix
from river.metrics.base import MultiClassMetric

from stream_osr.decision import Decision
from stream_osr.parameters import Label


class NoveltyPattern(NamedTuple):
    """Emerging subclass as the answer of a classifier. Its number cannot be confused with a label.

    Attributes
    ----------
    subclass_id
        Id of the subclass.
    """

    subclass_id: int


def pattern_of(decision: Decision, unknown: Label, emerged: Container[int] | None = None) -> Label | NoveltyPattern:
    """Convert a decision to an entry of the confusion matrix of de Faria et al.

    Parameters
    ----------
    decision
        A final decision.
    unknown
        The unknown label.
    emerged
        Ids of the subclasses that count as patterns. ``None``: all of them count.

    Returns
    -------
    Label of a class, pattern of an unknown instance, or the unknown label if there is no pattern.

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
    """Combined error rate of de Faria et al. 0 is best.

    ``CER = 1/2 sum_i n_i / n (FPR_i + FNR_i)`` over the true classes i, on n explained instances, n_i of which have
    class i. FNR_i is the share of class i that was given to another class. FPR_i is the share of the others that was
    given to class i. A `NoveltyPattern` stands for the class of most members, and any other answer for
    itself. Instances called just unknown are not explained and do not count. Read it together with `UnkR`. Many small
    patterns make it look better than it is.

    Parameters
    ----------
    unknown
        The unknown label.
    cm
        Confusion matrix to share between metrics.

    References
    ----------
    .. [1] E. R. de Faria, I. Gonçalves, J. Gama and A. Carvalho, "Evaluation methodology for multiclass novelty
       detection algorithms", BRACIS 2013; "Evaluation of multiclass novelty detection algorithms for data streams",
       IEEE TKDE 27(11), 2015.
    .. [2] E. R. de Faria, A. Carvalho and J. Gama, "MINAS: multiclass learning algorithm for novelty detection in
       data streams", Data Mining and Knowledge Discovery 30, 2016.

    Examples
    --------
    Pattern 1 stands for *emu*. Of 6 explained instances one *cow* is given to it.

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
        """Return the rate so far, in [0, 1]. It is nan if no instance was explained."""
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
                per_reference = max(classes, key=lambda c: (column[c], -size[c]))
            else:
                per_reference = answer
            given[per_reference] += math.fsum(column.values())
            right[per_reference] += column.get(per_reference, 0.0)
        rates = []
        for c in classes:
            missed = (size[c] - right[c]) / size[c] if size[c] else 0.0
            others = total - size[c]
            false = (given[c] - right[c]) / others if others else 0.0
            rates.append(size[c] / total * (missed + false) / 2 if total else math.nan)
        return math.fsum(rates) if rates else math.nan


class UnkR(_PatternMetric):
    """Unknown rate of de Faria et al. (see `CER`): the share called just unknown, averaged over the true classes.

    ``UnkR = 1/M sum_i unknown_i / n_i``. Of the n_i instances of class i, neither a class nor a novelty pattern
    explained unknown_i. M is the number of classes so far. (streamndr gives the share of all instances instead.)

    Parameters
    ----------
    unknown
        The unknown label.
    cm
        Confusion matrix to share between metrics.

    Examples
    --------
    >>> metric = UnkR()
    >>> for y_true, y_pred in [("cat", "cat"), ("cat", "unknown"), ("emu", "unknown"), ("cow", NoveltyPattern(1))]:
    ...     metric.update(y_true, y_pred)
    >>> metric
    UnkR: 50.00%
    """

    def get(self) -> float:
        """Return the rate so far, in [0, 1]. It is nan before any instance was counted."""
        shares = [self.cm[c].get(self.unknown, 0.0) / self.cm.sum_row[c] for c in self._classes()]
        return math.fsum(shares) / len(shares) if shares else math.nan


class Purity(MultiClassMetric):
    """Share of instances in the most frequent class of their group. 1 is best.

    Groups of one instance each are pure. The metric is only useful if there are few groups.

    Parameters
    ----------
    cm
        Confusion matrix to share between metrics.

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
        """Return the purity so far, in [0, 1]. It is nan before any instance was counted."""
        largest: dict[Hashable, float] = {}
        for row in self.cm.data.values():
            for group, n in row.items():
                largest[group] = max(largest.get(group, 0.0), n)
        total = self.cm.total_weight
        return math.fsum(largest.values()) / total if total else math.nan
