"""Reference instances: training instances kept to monitor the known classes.

A frozen density does not learn, but an emerging subclass does. An emerging subclass with many instances may therefore
be new, or describe a known class better. Training instances can decide this, since they belong to known classes by
definition. Each is scored by densities that were made without it (:mod:`stream_osr.trust.unseen_densities`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache, wraps
from typing import Annotated, Concatenate, NamedTuple, ParamSpec, TypeVar

import numpy as np
from scipy.special import ndtri, stdtrit

from stream_osr.model.jit import Array
from stream_osr.parameters import Parameters
from stream_osr.support import rules

P = ParamSpec("P")
R = TypeVar("R")

NO_GAIN, NO_PART = np.zeros(0), np.zeros(0, np.int64)
LEAST_OF_CLASS = 20
"""Least number of references of each class that has them, however many classes there are."""
UNUSUAL, OF_UNUSUAL = 0.05, 0.5
"""Least usual share of a class, and its share of the references if not all instances are references. New classes are
most similar to these instances.

The recall of the unknown on SHUTTLE rises from 0.67 to 0.94 by this choice (``benchmarks/results/experiments.md``).
"""


USUAL_SPREAD, PRIOR_PARTS = 0.05, 3.0
"""Prior standard deviation of the recall between parts of a stream, and its weight in parts.

A few parts of one training set are alike by chance, and then the interval of the recall would be too narrow.
"""


class References(NamedTuple):
    """Reference instances of J known classes, R in total. Any stretch has all classes in proportion.

    Attributes
    ----------
    rows
        Whitened rows, shape (R, C + d).
    group
        Class number of each, shape (R,).
    log_density
        Log density of each under the known classes, shape (R, J), in each model. The density of the own class was
        made without it.
    weight
        Number of instances of the class that each represents in means, shape (R,). ``None``: one each. They sum to
        the number of the class's references.
    gain
        Gain in log likelihood of each given the previous training instances (:mod:`stream_osr.model.dependence`),
        shape (R,). It is empty if neighbours are independent.
    effective
        Effective number of independent instances among the training instances of a typical class. 0: the number of
        references.
    tempered
        True if the statistics of the classes are tempered to the effective number of instances.
    earlier
        Always false. Archives and fingerprints have this field.
    part
        Number of the block of arrival, or of the groups, that each was scored without, shape (R,). It is empty if
        neighbours are independent.
    """

    rows: Annotated[Array, rules.array("f", "n", "w", low=-1e12, high=1e12)]
    group: Annotated[Array, rules.array("i", "n", low=0)]
    log_density: Annotated[
        tuple[Annotated[Array, rules.array("f", "n", "J", allowed=("-inf",))], ...], rules.length("R"), rules.some
    ]
    weight: Annotated[Array, rules.array("f", "n", low=1e-9, high=1e9)] | None = None
    gain: Annotated[Array, rules.array("f", "n", low=-1e12, high=1e12)] = NO_GAIN
    effective: rules.NonNegative = 0.0
    tempered: bool = False
    earlier: bool = False
    part: Annotated[Array, rules.array("i", "n", low=-1)] = NO_PART

    @property
    def gains(self) -> Array:
        """Gain of each, 0 if neighbours are independent, shape (R,)."""
        return self.gain if len(self.gain) else np.zeros(len(self.group))

    @property
    def weights(self) -> Array:
        """Weight of each, shape (R,)."""
        return np.ones(len(self.group)) if self.weight is None else self.weight

    @property
    def spread(self) -> float:
        """Standard error of the recall in the stream, as a part that the references were scored without.

        The recalls of the parts are Gaussian, with a conjugate prior for their variance. The next part then has
        Student's t (Gelman et al. 2013, section 3.3). The result is the standard error of the Gaussian whose 95 %
        interval is as wide. It is 0 if neighbours are independent.
        """
        there = [self.part == part for part in np.unique(self.part[self.part >= 0])] if len(self.part) else []
        if not there:
            return 0.0
        right = np.mean(self.log_density, axis=0).argmax(axis=1) == self.group
        recalls = [
            np.mean([right[own & (self.group == j)].mean() for j in np.unique(self.group[own])]) for own in there
        ]
        n = len(recalls)
        freedom = n - 1 + PRIOR_PARTS
        variance = (n * np.var(recalls) + PRIOR_PARTS * USUAL_SPREAD**2) / freedom
        return float(np.sqrt(variance * (1.0 + 1.0 / n)) * stdtrit(freedom, 0.975) / ndtri(0.975))

    def distinct(self, n_classes: int) -> Array:
        """Return the effective number of evenly drawn references for the mean of each class, shape (J,).

        If neighbours are dependent, they inform about no more instances than are independent.
        """
        sums = [np.bincount(self.group, weight, minlength=n_classes) for weight in (self.weights, self.weights**2)]
        return np.minimum(sums[0] ** 2 / np.maximum(sums[1], np.finfo(float).tiny), self.effective or np.inf)


class _Same:
    """References as a cache key, equal only to the same object."""

    def __init__(self, references: References) -> None:
        self.references = references

    def __hash__(self) -> int:
        return id(self.references.group)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.references is other.references


def once(function: Callable[Concatenate[References, P], R]) -> Callable[Concatenate[References, P], R]:
    """Cache the result of a function for each set of references."""
    kept: Callable[..., R] = lru_cache(maxsize=64)(lambda same, *args, **kw: function(same.references, *args, **kw))

    @wraps(function)
    def of(references: References, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return kept(_Same(references), *args, **kwargs)

    return of


def choose_references(
    rows: Array,
    group: Array,
    log_density: Sequence[Array],
    p: Parameters,
    mislabelled: Array | None = None,
    gain: Array | None = None,
    effective: float = 1.0,
    tempered: bool = False,
    part: Array | None = None,
) -> References | None:
    """Sample ``references`` of the training instances, evenly among the classes.

    Unusual instances of a class have a higher probability and a lower weight. Instances without a density are
    excluded.

    Parameters
    ----------
    rows
        Whitened rows, shape (n, d).
    group
        Class of each row, 0 to J - 1, shape (n,).
    log_density
        As :func:`unseen_densities` returns them.
    p
        Parameters with the number of references and the seed.
    mislabelled
        Mask of instances that look mislabelled, shape (n,). They are excluded.
    gain
        Gain in log likelihood of each instance given the previous ones, shape (n,). ``None``: neighbours are
        independent.
    effective
        Effective number of independent instances, as a share of the instances.
    tempered
        True if the statistics of the classes are tempered to that number.
    part
        Number of the part that each instance was scored without (:func:`divided`), shape (n,), if neighbours are
        dependent.
    """
    if not p.references:
        return None
    rng = np.random.default_rng([p.seed, 17])
    n_classes = int(group.max()) + 1
    usable = np.all([np.isfinite(each[np.arange(len(group)), group]) for each in log_density], axis=0)
    if mislabelled is not None:
        usable &= ~mislabelled
    most = max(LEAST_OF_CLASS, -(-p.references // n_classes))
    if p.max_false_unknown is not None:
        most = max(most, least_references(p.max_false_unknown))
    chosen, place, weight = [np.zeros(0, np.int64)], [np.zeros(0)], [np.zeros(0)]
    usual = np.mean([each[np.arange(len(group)), group] for each in log_density], axis=0)
    for j in range(n_classes):
        own, begin = rng.permutation(np.flatnonzero((group == j) & usable)), rng.random()
        for stratum, many in _strata(usual[own], most):
            chosen.append(own[stratum][:many])
            place.append((np.arange(many) + begin) / max(many, 1))
            weight.append(np.full(many, stratum.sum() * min(len(own), most) / max(many * len(own), 1)))
    order = np.argsort(np.concatenate(place), kind="stable")
    at, each_weight = np.concatenate(chosen)[order], np.concatenate(weight)[order]
    rows, *densities = (np.ascontiguousarray(each[at]) for each in (rows, *log_density))
    even = bool((each_weight == 1.0).all())
    found = References(rows, group[at], tuple(densities), None if even else each_weight)
    if gain is None:
        return found
    count = float(np.median(np.bincount(group)[np.unique(group)])) * effective
    parts = NO_PART if part is None else part[at]
    return found._replace(gain=gain[at], effective=count, tempered=tempered, part=parts)


def _strata(usual: Array, most: int) -> list[tuple[Array, int]]:
    """Divide the instances of a class by how usual they are, (n,), with the number of references of each part."""
    n = len(usual)
    if n <= most:
        return [(np.ones(n, bool), n)]
    unusual = np.zeros(n, bool)
    unusual[np.argsort(usual, kind="stable")[: math.ceil(UNUSUAL * n)]] = True
    many = min(int(unusual.sum()), int(OF_UNUSUAL * most))
    return [(unusual, many), (~unusual, most - many)]


def least_references(max_false_unknown: float) -> int:
    """Return the least number of references of a class for this bound on false unknowns.

    Examples
    --------
    >>> least_references(0.01), least_references(0.1)
    (99, 9)
    """
    return int(np.ceil(1.0 / max_false_unknown - 1e-9)) - 1
