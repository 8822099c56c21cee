"""Reference instances: training instances kept to monitor the known classes.

A frozen density does not learn, but an emerging subclass does. An emerging subclass with many instances may therefore
be new, or describe a known class better. Training instances can decide this, since they belong to known classes by
definition. To be comparable with the stream, each is scored by densities that were made without it. Its fold (a
tenth) is left out of the whitening and of all statistics, while the seats of the others stay. With very many
instances, leaving out only the instance itself gives the same result. This does not apply to categories. A fold takes
its rare values with it, just as a stream has values that training did not have.

**Bound on false unknowns.** At most a given share of each known class is called unknown, for any distribution.

The bound uses split conformal prediction (Vovk, Gammerman and Shafer 2005) for each class. An instance is plausible
for a class unless it is among the least dense ``max_false_unknown`` of the class. The ranking uses the frozen density
and the reference instances, which the density has not seen. An instance of the class is implausible with at most that
probability if it is exchangeable with the references: the class must not have moved. With several models, the mean
log density is ranked.

**Mislabelled training instances.** Another class describes them as its own, and their class does not.

An instance between two classes is an error of the model, and its label may be right. A mislabelled instance is as
much denser in its true class as any instance of that class. Its excess has the distribution of the margins by which
correctly labelled instances prefer their own class.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache, wraps
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeVar

import numpy as np
from scipy.special import ndtri, stdtrit

from stream_osr.config import Label, Parameters
from stream_osr.errors import InvalidParameter
from stream_osr.model.binary_features import OF_CONSTANT, OF_FLAG
from stream_osr.model.categories import base_of
from stream_osr.model.jit import Array
from stream_osr.model.known import N_RANKS, Known, densities, log_densities
from stream_osr.model.prior import Prior, homogeneous
from stream_osr.model.subspace import Plan
from stream_osr.model.training import Training, dish_of_guests, seat_by_groups, summarize
from stream_osr.model.whitening import Whitening, aligned, even_where_open, fit_mixed, whiten

P = ParamSpec("P")
R = TypeVar("R")

FOLDS = 10
NO_GAIN, NO_PART = np.zeros(0), np.zeros(0, np.int64)
BLOCKS = 4
"""Number of blocks of arrival in each class if neighbours are dependent."""
PLENTY = 20.0
"""Within-class degrees of freedom for each dimension from which an instance is left out without its fold."""
LEAST_OF_CLASS = 20
"""Least number of references of each class that has them, however many classes there are."""
UNUSUAL, OF_UNUSUAL = 0.05, 0.5
"""Least usual share of a class, and its share of the references if not all instances are references. New classes are
most similar to these instances."""


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

    rows: Array
    group: Array
    log_density: tuple[Array, ...]
    weight: Array | None = None
    gain: Array = NO_GAIN
    effective: float = 0.0
    tempered: bool = False
    earlier: bool = False
    part: Array = NO_PART

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


def unseen_densities(
    X: Array,
    group: Array,
    p: Parameters,
    whitening: Whitening,
    trainings: Sequence[Training],
    left_out: Sequence[Array],
    plan: Plan | None = None,
    order: Array | None = None,
    effective: float = 1.0,
    units: Array | None = None,
    within: bool = False,
) -> list[Array]:
    """Return log class densities of the training instances as unseen by the model, one (n, J) for each model.

    Parameters
    ----------
    X
        Training rows, NaN = missing, shape (n, p).
    group
        Class of each row, 0 to J - 1, shape (n,).
    p
        Hyperparameters and seed.
    whitening
        Whitened coordinates of the model, which the densities refer to.
    trainings
        Trained models.
    left_out
        Log class densities with each instance left out alone (:func:`stream_osr.model.training.summarize`).
    plan
        Plan for the features.
    order
        Position of each row in the order of arrival, shape (n,), if neighbours are dependent. Folds are then blocks
        of arrival, so that no instance is scored by its neighbours.
    effective
        As for :func:`stream_osr.model.training.summarize`.
    units
        Number of the person, device or day of each row, shape (n,). An instance is not scored by its unit.
        ``None``: not known.
    within
        Score an instance by its unit as well. Blocks of arrival are then blocks of each unit.

    Returns
    -------
    Minus infinity, under its own class, for an instance that is alone in its class.
    """
    fold = divided(group, p, trainings[0], order, units, within)
    if fold is None:
        return list(left_out)
    seen, out = _without_own_values(X, whitening, fold), [each.copy() for each in left_out]
    for number in range(int(fold.max(initial=-1)) + 1):
        member_rows = fold == number
        if member_rows.any():
            for each, found in zip(
                out, _without(member_rows, X, seen, group, p, whitening, trainings, plan, effective), strict=True
            ):
                each[member_rows] = found
    return out


def own_density(log_density: Sequence[Array], group: Array) -> float:
    """Return the mean log density of the instances under their own classes, over the models.

    Instances that are alone in their class are excluded.
    """
    own = np.mean(log_density, axis=0)[np.arange(len(group)), group]
    return float(own[np.isfinite(own)].mean())


def unseen_rows(
    X: Array,
    group: Array,
    p: Parameters,
    whitening: Whitening,
    trainings: Sequence[Training],
    order: Array | None = None,
    units: Array | None = None,
) -> Array:
    """Return whitened training rows, shape (n, C + d), as unseen by the model.

    A category value that only one fold has counts as a new value. Arguments as for :func:`unseen_densities`.
    """
    rows = trainings[0].seating.guests.rows[:, :-1]
    fold, count = divided(group, p, trainings[0], order, units), len(whitening.places)
    if fold is None or not count:
        return rows
    seen = _without_own_values(X, whitening, fold)
    return np.hstack([whiten(whitening, seen)[:, :count], rows[:, count:]])


def divided(
    group: Array,
    p: Parameters,
    training: Training,
    order: Array | None,
    units: Array | None = None,
    within: bool = False,
) -> Array | None:
    """Return the fold number of each instance, shape (n,). ``None``: each is left out alone."""
    freedom = len(group) - len(np.unique(group))
    plenty = freedom >= PLENTY * training.seating.guests.rows.shape[1] and not len(training.whitening.columns)
    if plenty and order is None and (units is None or within):
        return None
    cells = group
    if units is not None and within:
        cells = np.unique(group * (int(units.max()) + 1) + units, return_inverse=True)[1]
    fold = _folds(group, p.seed) if order is None else _blocks(cells, order)
    return fold if units is None or within else _units_apart(group, units, fold)


def _without_own_values(X: Array, whitening: Whitening, fold: Array) -> Array:
    """Replace category values that only one fold has by a new value, in raw rows.

    With very many values, only the commonest have a place of their own. Some values occur as often in the other rows
    as the rarest of these. Of those values, a share has a place.
    """
    out, rng = X, np.random.default_rng(len(X))
    for at, places in zip(whitening.columns.tolist(), whitening.places.tolist(), strict=False):
        there = np.flatnonzero(X[:, at] < places - 2)
        value, without = X[there, at].astype(np.int64), int((X[:, at] >= places - 2).sum())
        count = np.bincount(value)
        pair, within = np.unique(np.stack([value, fold[there]]), axis=1, return_inverse=True, return_counts=True)[1:]
        elsewhere = count[value] - within[pair.ravel()]
        rare = elsewhere == 0
        if without:
            least = count[count > 0].min(initial=len(X))
            kept = int((count == least).sum())
            share = kept / (kept + without / least)
            rare = (elsewhere < least) | ((elsewhere == least) & (rng.random(len(there)) >= share))
        own = there[rare & (fold[there] >= 0)]
        if len(own):
            out = out.copy() if out is X else out
            out[own, at] = places - 2
    return out


def _folds(group: Array, seed: int) -> Array:
    """Divide each class among the folds. The only instance of a class is in none (-1)."""
    rng = np.random.default_rng([seed, 18])
    fold = np.full(len(group), -1)
    for j in range(int(group.max()) + 1):
        own = rng.permutation(np.flatnonzero(group == j))
        if len(own) > 1:
            fold[own] = (np.arange(len(own)) + rng.integers(FOLDS)) % FOLDS
    return fold


def _blocks(group: Array, order: Array) -> Array:
    """Divide each class into consecutive blocks of arrival. The only instance of a class is in none (-1)."""
    turn, size = np.lexsort((order, group)), np.bincount(group)
    own, fold = size[group[turn]], np.empty(len(group), np.int64)
    rank = np.arange(len(group)) - (np.cumsum(size) - size)[group[turn]]
    fold[turn] = np.where(own > 1, rank * BLOCKS // own, -1)
    return fold


def _units_apart(group: Array, units: Array, otherwise: Array) -> Array:
    """Put whole units (persons, devices, days) into at most :data:`FOLDS` folds of similar size.

    A class must keep instances without the fold. If one fold has all units of a class, the class has separate folds,
    one for each unit. The instances of a class with one unit are in the folds ``otherwise``.
    """
    size = np.bincount(units)
    of_unit = np.arange(len(size))
    if len(size) > FOLDS:
        filled = np.zeros(FOLDS, np.int64)
        for unit in np.argsort(-size, kind="stable"):
            of_unit[unit] = filled.argmin()
            filled[of_unit[unit]] += size[unit]
    fold: Array = of_unit[units]
    for j in np.unique(group):
        own = np.flatnonzero(group == j)
        if (fold[own] == fold[own[0]]).all():
            place = np.unique(units[own], return_inverse=True)[1]
            fold[own] = place % FOLDS if place.any() else otherwise[own]
    return fold


def _without(
    member_rows: Array,
    X: Array,
    seen: Array,
    group: Array,
    p: Parameters,
    whitening: Whitening,
    trainings: Sequence[Training],
    plan: Plan | None,
    effective: float,
) -> list[Array]:
    """Return log class densities of some instances, as ``seen``, by models of the others with their seats."""
    rest = ~member_rows
    try:
        places = np.zeros(X.shape[1], np.int64)
        places[whitening.columns] = whitening.places[: len(whitening.columns)]
        places[whitening.binary_features.members] = OF_FLAG
        places[whitening.constant & ~whitening.forward.any(axis=1)] = OF_CONSTANT
        pca: dict[str, Any] = {"pca_components": p.pca_components, "pca_variance": p.pca_variance}
        kinds: dict[str, Any] = {
            "binary_features": whitening.binary_features,
            "yeo_johnson": whitening.yeo_johnson,
            "open_categories": whitening.open,
        }
        other = fit_mixed(X[rest], group[rest], places, **kinds, plan=plan, **pca)
    except InvalidParameter:  # the others do not span the components of the PCA
        other = whitening
    if other.forward.shape != whitening.forward.shape:
        other = whitening
    elif any((training.prior.spread != 1.0).any() for training in trainings):
        other = aligned(other, whitening)
    volume = float(np.linalg.slogdet(whitening.backward @ other.forward)[1])  # of a unit of the coordinates
    rows, total = homogeneous(whiten(other, X[rest])), homogeneous(whiten(other, seen[member_rows]))
    out = []
    for training in trainings:
        dish = np.unique(dish_of_guests(training.seating)[rest], return_inverse=True)[1]
        prior = _rebased(training.prior, rows, group[rest], whitening)
        seating = seat_by_groups(rows, group[rest], dish, prior, exclusive=True)
        seating.franchise.alpha[:] = training.seating.franchise.alpha[0]
        seating.franchise.gamma[:] = training.seating.franchise.gamma[0]
        known, _ = summarize(
            training._replace(whitening=other, prior=prior, seating=seating),
            p.epsilon,
            p.background_component,
            effective,
        )
        out.append(log_densities(known, densities(known), total)[0] + volume)
    return out


def _rebased(prior: Prior, rows: Array, group: Array, whitening: Whitening) -> Prior:
    """Set the base measure of the categories to that of the given instances. Concentrations stay."""
    if not len(prior.first):
        return prior
    concentration = np.repeat(prior.pseudo[prior.first], whitening.places)
    return prior._replace(pseudo=concentration * even_where_open(base_of(rows, group, whitening.places), whitening))


def with_ranks(known: Known, group: Array, log_density: Array) -> Known:
    """Compute the quantiles of density ranks from log class densities of the training instances."""
    ranks = known.ranks.copy()
    for j in range(len(ranks)):
        own = log_density[group == j, j]
        if np.isfinite(own).all():
            ranks[j] = np.quantile(own, np.linspace(0.0, 1.0, N_RANKS))
    return known._replace(ranks=ranks)


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


def plausible(references: References, log_density: Array, max_false_unknown: float) -> Array:
    """Return the mask of classes that are plausible for each instance, shape (n, J).

    Parameters
    ----------
    references
        The R references.
    log_density
        Mean log density of n instances under each known class, over the models, shape (n, J).
    max_false_unknown
        Share of a class that may be called unknown. Classes with too few references for this bound are never
        plausible.

    Examples
    --------
    >>> references = References(np.zeros((9, 1)), np.zeros(9, int), (np.arange(9.0)[:, None],))
    >>> plausible(references, np.array([[-0.5], [0.5]]), 0.1)
    array([[False],
           [ True]])
    """
    out = np.zeros(log_density.shape, bool)
    own, weights = np.mean(references.log_density, axis=0), references.weights
    for j in range(log_density.shape[1]):
        theirs, weight = own[references.group == j, j], weights[references.group == j]
        if len(theirs) >= least_references(max_false_unknown):
            order = np.argsort(theirs, kind="stable")
            reached = np.cumsum(weight[order])  # the reference above counts as well
            reached = np.append(reached, reached[-1] + weight.max())
            rank = reached[np.searchsorted(theirs[order], log_density[:, j], side="right")]
            out[:, j] = rank > max_false_unknown * reached[-1] + 1e-9
    return out


def check_references(references: References | None, labels: Sequence[Label], max_false_unknown: float | None) -> None:
    """Check that each trained class has enough references for the bound.

    Raises
    ------
    InvalidParameter
        With the class, its number of references and the number that it needs.
    """
    if max_false_unknown is None:
        return
    least = least_references(max_false_unknown)
    group = np.zeros(0, np.int64) if references is None else references.group
    for label, count in zip(labels, np.bincount(group, minlength=len(labels)), strict=True):
        if count < least:
            raise InvalidParameter(
                f"max_false_unknown is {max_false_unknown:g}, and class {label!r} has {count} reference instances, "
                f"where {least} are needed. Give it more training instances, or raise the bound "
                f"(max_false_unknown={1.0 / (count + 1):.2g} is the least that these allow)"
            )


def call_known(probabilities: Array, is_plausible: Array) -> Array:
    """Move the probability of unknown to the plausible classes, if there are any, in shape (n, J + 1).

    Examples
    --------
    >>> call_known(np.array([[0.2, 0.1, 0.7]]), np.array([[True, False]]))
    array([[0.9, 0.1, 0. ]])
    """
    theirs = is_plausible * np.maximum(probabilities[:, :-1], 1e-12)
    total = theirs.sum(axis=1)
    rows = total > 0.0
    out = probabilities.copy()
    out[rows, :-1] += probabilities[rows, -1:] * theirs[rows] / total[rows, None]
    out[rows, -1] = 0.0
    return out


USUAL = 0.05
"""Share of instances of the other class that must be less dense than a mislabelled instance."""
LEAST_EXCESS = math.log(50.0)
"""Least excess of a mislabelled instance. If classes overlap widely, margins are as small as errors."""
LEAST_SHARE, LEAST = 0.02, 10
"""Least share and number of instances with an excess above the median margin, for finding any mislabelled ones."""


def mislabelled(log_density: Sequence[Array], group: Array) -> Array:
    """Return the mask of training instances that look mislabelled, shape (n,).

    Their excess is above the first quartile of the margins. There are none unless enough are above the median.

    Parameters
    ----------
    log_density
        Log class densities of the instances in each model, shape (n, J). The own density was made without it.
    group
        Class of each instance, shape (n,).

    Examples
    --------
    Two classes, ten standard deviations apart, with a tenth of the labels of the first exchanged:

    >>> rng, true = np.random.default_rng(0), np.arange(400) % 2
    >>> x = rng.normal(10.0 * true)
    >>> group = np.where(np.arange(400) % 20 == 0, 1, true)
    >>> log_density = -0.5 * np.column_stack([x, x - 10.0]) ** 2
    >>> found = mislabelled([log_density], group)
    >>> bool((group != true)[found].all()), int(found.sum()), int(mislabelled([log_density], true).sum())
    (True, 17, 0)
    """
    mean, each = np.mean(log_density, axis=0), np.arange(len(group))
    own, others = mean[each, group], mean.copy()
    others[each, group] = -np.inf
    nearest, most = others.argmax(axis=1), others.max(axis=1)
    there = np.isfinite(own) & np.isfinite(most)
    right = there & (most < own)
    if not right.any():
        return np.zeros(len(group), bool)
    margin = own[right, None] - others[right]
    quartile, median = np.maximum(np.quantile(margin[np.isfinite(margin)], [0.25, 0.5]), LEAST_EXCESS)
    usual = np.zeros(len(group), bool)
    for j in np.unique(nearest[there]):
        theirs, total = own[there & (group == j)], there & (nearest == j)
        if len(theirs):
            usual[total] = most[total] > np.quantile(theirs, USUAL)
    excess = np.where(there & usual, most - np.where(there, own, 0.0), -np.inf)
    enough = (excess > median).sum() >= max(LEAST, LEAST_SHARE * len(group))
    return np.asarray((excess > quartile) & enough)
