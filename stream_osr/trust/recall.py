"""Recall of the known classes: expected from training, and estimated from the references during a stream.

Both use training instances that the model scores as unseen (:mod:`stream_osr.trust.references`). The expected recall
uses only the known classes, at the shares of the training set. In a stream, new classes compete with them, subclasses
emerge, and shares change. The references are therefore scored with every batch, in the same steps as the stream's
instances.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, NamedTuple

import numpy as np
from scipy.special import stdtrit

from stream_osr.model.jit import Array, kernel
from stream_osr.parameters import Label
from stream_osr.printable_text import printable
from stream_osr.support import rules

NO_DOUBT = np.zeros(3)
DISPUTED, DISPUTED_SPREAD = 0.5, 0.05
"""Share of the disputed instances that count as wrong, and the half-width of the interval."""
UNPLACED = (0.25, 0.5)
"""Share of known instances among few unknown ones without a subclass: at the upper end of the interval, and the
estimate. Both rise to 1 with their share in the stream."""
Z = 1.96
"""Half-width of an interval, in standard errors."""
REMEMBERED = 500.0
"""Number of stream instances after which a result of a reference has half the weight."""
ENOUGH = 0.03
"""Largest half-width of the interval of an expected recall."""
LEAST_ASKED = 100.0
"""Least number of scored references for reporting a drop, unless there are fewer in total."""
WIDEST = 0.005
"""Least standard error, however many references there are, since they are not the stream."""


class ExpectedRecall(NamedTuple):
    """Share of known instances that get their own label.

    Attributes
    ----------
    recall
        Estimate, in [0, 1].
    low, high
        95 % interval, given the number of references.
    false_unknown
        Share of known instances that are called unknown.

    Examples
    --------
    >>> print(ExpectedRecall(0.97, 0.95, 0.98, 0.01))
    0.970 (0.950 to 0.980), 1.0 % of the known called unknown
    """

    recall: rules.Share
    low: rules.Share
    high: rules.Share
    false_unknown: rules.Share

    def __str__(self) -> str:
        share = f"{self.recall:.3f} ({self.low:.3f} to {self.high:.3f})"
        return f"{share}, {100 * self.false_unknown:.1f} % of the known called unknown"


class RecallByGroup(NamedTuple):
    """Expected recall if training instances have a group: the person, device or day that they come from.

    Attributes
    ----------
    name
        Name of the column of groups.
    groups
        Number of groups in training.
    same
        Expected recall for further instances of these groups. That for a new one is ``TrainingReport.known_recall``.
    undivided
        Classes that only one of the groups has. They cannot be scored without their group.
    """

    name: str
    groups: Annotated[int, rules.whole(1, rules.LARGEST)]
    same: rules.Share
    undivided: Annotated[tuple[Label, ...], rules.distinct] = ()

    def compared(self, new: str) -> str:
        """Return one line with the given recall for a new group, and that for the same ones.

        >>> print(RecallByGroup("person", 12, 0.961).compared("0.790"))
        for a new person: 0.790; for the same (12 in training): 0.961
        >>> print(RecallByGroup("person", 1, 0.961).compared("0.790"))
        for a new person: not known, since training has only one; for the same: 0.961
        """
        name, one = printable(self.name, 60), self.groups == 1
        new, many = ("not known, since training has only one", "") if one else (new, f" ({self.groups} in training)")
        return "; ".join([f"for a new {name}: {new}", f"for the same{many}: {self.same:.3f}"])


class ReferenceResults(NamedTuple):
    """Recent decisions about references.

    Attributes
    ----------
    right, unknown, total
        Decayed numbers of references of each class that got their own label, that were called unknown, and of all,
        shape (J,).
    shares
        Shares of the classes among the stream's known instances, shape (J,).
    dropped
        True if the recall has dropped below the expected recall, and the event has been emitted.
    doubt
        Decayed numbers of instances if neighbours are dependent, shape (3,). The first are known by the frozen
        classes. The second are unknown by the frozen classes but were called known. The third were called unknown and
        belong to no announced subclass.
    """

    right: Annotated[Array, rules.array("f", "J", low=0.0, high=1e12)]
    unknown: Annotated[Array, rules.array("f", "J", low=0.0, high=1e12)]
    total: Annotated[Array, rules.array("f", "J", low=0.0, high=1e12)]
    shares: Annotated[Array, rules.array("f", "J", low=0.0, high=1.0)]
    dropped: bool = False
    doubt: Annotated[Array, rules.array("f", "3", low=0.0, high=1e12)] = NO_DOUBT


def no_results(n_classes: int) -> ReferenceResults:
    """Return the results before any reference was scored."""
    none = np.zeros(n_classes)
    return ReferenceResults(none, none, none, np.full(n_classes, 1.0 / max(n_classes, 1)))


def promise(log_density: Sequence[Array], group: Array, units: Array | None = None) -> ExpectedRecall:
    """Estimate the recall of the known classes on their own training instances, each scored as unseen.

    Parameters
    ----------
    log_density
        Log class densities of the training instances in each model, shape (n, J).
    group
        Class of each instance, shape (n,).
    units
        Number of the person, device or day of each instance, shape (n,), that its density leaves out. The interval is
        then that of the mean over units, and at least as wide as that of the mean over instances.
    """
    share = np.bincount(group, minlength=log_density[0].shape[1]) / len(group)
    found = np.zeros_like(log_density[0])
    judged = np.all([np.isfinite(each.max(axis=1)) for each in log_density], axis=0)
    for each in log_density:
        weight = share * np.exp(each[judged] - each[judged].max(axis=1, keepdims=True))
        found[judged] += weight / weight.sum(axis=1, keepdims=True)
    is_right = judged & (found.argmax(axis=1) == group)
    right = float(is_right.mean())
    n = len(group)
    centre = (right * n + 0.5 * Z**2) / (n + Z**2)
    half = Z / (n + Z**2) * np.sqrt(right * (1.0 - right) * n + 0.25 * Z**2) + Z * WIDEST
    low, high = float(centre - half), float(centre + half)
    if units is not None:
        half = _half_width_over_units(is_right - right, units)
        low, high = min(low, right - half), max(high, right + half)
    return ExpectedRecall(right, max(0.0, low), min(1.0, high), 0.0)


def _half_width_over_units(error: Array, units: Array) -> float:
    """Return the half-width of the 95 % interval of a mean over units, by Student's t, from deviations from the mean.

    The units that score a unit are nearly the same for all, so that the results are correlated. The variance of the
    mean is therefore ``1 / G + 1 / (G - 1)`` times that of a unit (Nadeau and Bengio 2003).

    >>> round(_half_width_over_units(np.array([0.1, 0.1, -0.1, -0.1]), np.array([0, 0, 1, 1])), 3)
    2.201
    """
    sums = np.bincount(units, error)[np.bincount(units) > 0]
    freedom = len(sums) - 1
    if not freedom:
        return 1.0
    variance = (sums**2).sum() / freedom * len(sums) ** 2 / len(error) ** 2
    return float(stdtrit(freedom, 0.975) * np.sqrt(variance * (1.0 / len(sums) + 1.0 / freedom)))


def instances_that_would_do(recall: float) -> int:
    """Return the number of training instances that makes the interval of such a recall narrow enough.

    Examples
    --------
    >>> instances_that_would_do(0.9)
    848
    """
    room = ENOUGH - Z * WIDEST
    return int(np.ceil(max(recall * (1.0 - recall), 0.02) * (Z / room) ** 2))


def call(
    before: ReferenceResults, label: Array, group: Array, shares: Array, n: int, weight: Array | None = None
) -> ReferenceResults:
    """Update the results with the labels of references in a batch.

    Parameters
    ----------
    before
        Previous results, which do not change.
    label
        Class number of each label, J for unknown, shape (Q,).
    group
        True class number of each reference, shape (Q,).
    shares
        Shares of the classes in the stream, shape (J,).
    n
        Number of instances in the batch.
    weight
        Weight of each reference, shape (Q,). ``None``: 1.
    """
    fade = 0.5 ** (n / REMEMBERED)
    weight = np.ones(len(label)) if weight is None else weight
    counts = before.right, before.unknown, before.total
    right, unknown, total = _called(*counts, label, group, weight, len(shares), fade)
    return before._replace(right=right, unknown=unknown, total=total, shares=shares)


def shares_of_labels(before: Array, probabilities: Array) -> Array:
    """Update the shares of the classes with the decisions of a batch if neighbours are dependent.

    The classes of a dependent stream come in runs, and the confusion of the references is not that of a run.

    Parameters
    ----------
    before
        Previous shares, shape (J,) or shorter if a class has come since.
    probabilities
        Probabilities of the known classes, shape (b, J).
    """
    weight = 0.5 ** (len(probabilities) / REMEMBERED) * REMEMBERED / math.log(2.0)
    shares = weight * _fit(before, probabilities.shape[1]) + probabilities.sum(axis=0)
    return np.asarray(shares / max(shares.sum(), 1e-300))


@kernel
def _called(
    right: Array, unknown: Array, total: Array, label: Array, group: Array, weight: Array, n_classes: int, fade: float
) -> tuple[Array, Array, Array]:
    """Count the labels of references, after decaying the previous counts."""
    now = np.zeros((3, n_classes))
    for j in range(min(n_classes, len(total))):
        now[0, j], now[1, j], now[2, j] = fade * right[j], fade * unknown[j], fade * total[j]
    came = np.zeros((3, n_classes))
    for i in range(len(label)):
        came[0, group[i]] += weight[i] * (label[i] == group[i])
        came[1, group[i]] += weight[i] * (label[i] == n_classes)
        came[2, group[i]] += weight[i]
    now += came
    return now[0], now[1], now[2]


def _fit(values: Array, n_classes: int) -> Array:
    return np.append(values[:n_classes], np.zeros(max(n_classes - len(values), 0)))


def expect(called: ReferenceResults, distinct: Array, spread: float = 0.0) -> ExpectedRecall | None:
    """Estimate the present recall. ``None``: no reference has been scored.

    Parameters
    ----------
    called
        Recent results of references.
    distinct
        Effective number of references of each class (:meth:`References.distinct`), shape (J,).
    spread
        Standard error of the recall between parts of training (:attr:`References.spread`).
    """
    distinct = _fit(distinct, len(called.total))  # a class may have come since, or gone
    some, recall, error, unknown = _expect(called.right, called.unknown, called.total, called.shares, distinct)
    if not some:
        return None
    return _doubted(called.doubt, recall, Z * math.hypot(error, spread), unknown)


def doubt(called: ReferenceResults, known: int, disputed: int, unplaced: int, placed: Array) -> ReferenceResults:
    """Update the doubt with the stream's own instances of a batch. It decays like the references (:func:`call`).

    ``placed`` has the number of instances since each earlier one that belongs to an announced subclass now, shape
    (m,). It no longer lacks a subclass.
    """
    fade = 0.5 ** ((known + disputed + unplaced) / REMEMBERED)
    before = called.doubt.copy()
    before[2] = max(0.0, before[2] - float((0.5 ** (placed / REMEMBERED)).sum()))
    return called._replace(doubt=fade * before + np.array([known, disputed, unplaced]))


def _doubted(doubt: Array, recall: float, half: float, unknown: float) -> ExpectedRecall:
    """Lower and widen the estimate by the evidence of the stream against it.

    References come from the training distribution. Unknown instances without a subclass may be known ones that have
    moved, or the beginning of a new class. A new class with a large share would be announced. The larger their share,
    the more of them are therefore known: half of a small share, all if there are no others. The upper end of the
    interval assumes a quarter of a small share, the lower end all. Instances on which frozen classes and labels
    disagree may be wrong as well.
    """
    disputed, unplaced = (doubt[1:] / max(doubt.sum(), 1e-300)).tolist()
    wrong, spread = DISPUTED * disputed, DISPUTED_SPREAD * disputed
    least, most = (unplaced * (part + (1.0 - part) * unplaced) for part in UNPLACED)
    low = max(0.0, (recall - half) * (1.0 - wrong - unplaced) - spread)
    high = min(1.0, (recall + half) * (1.0 - wrong - least) + spread)
    return ExpectedRecall(recall * (1.0 - wrong - most), low, high, min(1.0, unknown + (1.0 - unknown) * most))


@kernel
def _expect(
    right: Array, unknown: Array, total: Array, shares: Array, distinct: Array
) -> tuple[bool, float, float, float]:
    """Return whether any reference was scored, then recall, its standard error, and the share called unknown."""
    whole, recall, error, none = 0.0, 0.0, 0.0, 0.0
    for j in range(len(total)):
        if total[j] > 0.0 and distinct[j] > 0 and shares[j] > 0.0:
            whole += shares[j]
            recall += shares[j] * right[j] / total[j]
            none += shares[j] * unknown[j] / total[j]
            used = min(total[j], float(distinct[j]))
            guess = (right[j] / total[j] * used + 0.5) / (used + 1.0)
            error += shares[j] ** 2 * guess * (1.0 - guess) / used
    if whole == 0.0:
        return False, 0.0, 0.0, 0.0
    return True, min(recall / whole, 1.0), math.sqrt(error / whole**2 + WIDEST**2), none / whole


def has_dropped(
    called: ReferenceResults, now: ExpectedRecall, promised: tuple[float, float], distinct: Array
) -> bool:
    """Check whether the recall is surely below the expected recall.

    After a drop, check whether it has not recovered.
    """
    if called.total.sum() < min(LEAST_ASKED, float(distinct.sum())):
        return False
    return (now.recall if called.dropped else now.high) < promised[0]
