"""Reference instances: training instances kept with the model, each with what the known classes say of it unseen.

A frozen density does not learn and an emerging subclass does, so an emerging subclass that takes many instances may
be new, or a known class described better. Training instances tell which: they are instances of known classes by
definition. To be comparable with the stream's they must look to the model as the stream's do, so each is weighed by
densities that were made without it: its fold (a tenth) is left out of the whitening and of all statistics, the seats
of the others as trained. Where instances are so many that one of them changes little, leaving out the instance alone
says the same. Not so of categories: a fold leaves out rare values with it, as a stream brings some that training did
not have.

A promise for each known class: at most so large a share of it is called unknown, whatever its distribution.

Split conformal prediction (Vovk, Gammerman and Shafer 2005) class by class: an instance is plausible for a class
unless it is among the least dense of ``max_false_unknown`` of it, by the class's frozen density and its reference
instances, each of which the density has not seen. An instance of the class is implausible for it with at most that
probability, if it is exchangeable with the references: the class must not have moved. Where several models are
averaged it is their mean log density that is ranked.

Training instances that look mislabelled: another class describes them as its own, and theirs does not.

An instance between two classes is an error of the model, and its label may be right. The density of a mislabelled one
is as much higher in its true class as that of any instance of the class: its excess has the distribution of the
margins by which instances that are labelled right prefer their own class.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from stream_osr.config import Label, Parameters
from stream_osr.errors import InvalidParameter
from stream_osr.model.binary_features import OF_FLAG
from stream_osr.model.categories import base_of
from stream_osr.model.jit import Array
from stream_osr.model.known import N_RANKS, Known, densities, log_densities
from stream_osr.model.prior import Prior, homogeneous
from stream_osr.model.subspace import Plan
from stream_osr.model.training import Training, dish_of_guests, seat_by_groups, summarize
from stream_osr.model.whitening import Whitening, even_where_open, fit_mixed, whiten

FOLDS = 10
NO_GAIN = np.zeros(0)
BLOCKS = 4
"""Blocks of arrival into which each class is divided where neighbours are dependent."""
PLENTY = 20.0
"""Within-class degrees of freedom for each dimension from which on an instance is left out alone, without its
fold."""
LEAST_OF_CLASS = 20
"""References of each class that has them, however many classes there are."""
UNUSUAL, OF_UNUSUAL = 0.05, 0.5
"""Of a class that not all are references of, its least usual twentieth gives half: there it meets what is new."""


class References(NamedTuple):
    """R reference instances of J known classes, in an order in which any stretch holds all classes in proportion.

    Attributes
    ----------
    rows
        Whitened rows, shape (R, C + d).
    group
        Number of the class of each, shape (R,).
    log_density
        Log density of each under the known classes, its own made without it, in each model, shape (R, J).
    weight
        Instances of its class that each stands for, in means over the class, shape (R,); ``None``: one each. They sum
        to the number of the class's references.
    gain
        By how much more likely each was given the training instances before it (:mod:`stream_osr.model.dependence`),
        shape (R,); empty where neighbours are independent.
    effective
        Number of independent instances that say as much as the training instances of a typical class; 0: as many as
        there are references of it.
    tempered
        The statistics of the classes count as so many independent instances as there are.
    earlier
        Always false; archives and fingerprints have it.
    """

    rows: Array
    group: Array
    log_density: tuple[Array, ...]
    weight: Array | None = None
    gain: Array = NO_GAIN
    effective: float = 0.0
    tempered: bool = False
    earlier: bool = False

    @property
    def gains(self) -> Array:
        """Gain of each, 0 where neighbours are independent, shape (R,)."""
        return self.gain if len(self.gain) else np.zeros(len(self.group))

    @property
    def weights(self) -> Array:
        """The weight of each, shape (R,)."""
        return np.ones(len(self.group)) if self.weight is None else self.weight

    def distinct(self, n_classes: int) -> Array:
        """Effective number of evenly drawn references for the mean of each class, shape (J,)."""
        sums = [np.bincount(self.group, weight, minlength=n_classes) for weight in (self.weights, self.weights**2)]
        return np.asarray(sums[0] ** 2 / np.maximum(sums[1], np.finfo(float).tiny))


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
) -> list[Array]:
    """Log class densities of the training instances as if the model had not seen them, one (n, J) for each model.

    Parameters
    ----------
    X
        Training rows, NaN = missing, shape (n, p).
    group
        Class of each, 0 to J - 1, shape (n,).
    p
        Hyperparameters and seed.
    whitening
        Whitened coordinates of the model: densities are stated in them.
    trainings
        The models as training left them.
    left_out
        Log class densities, each instance left out alone (:func:`stream_osr.model.training.summarize`).
    plan
        What became of the features.
    order
        Position of each row in the order of arrival, shape (n,), if neighbours are dependent: folds are then blocks
        of arrival, so that no instance is judged by its own neighbours.
    effective
        As for :func:`stream_osr.model.training.summarize`.

    Returns
    -------
    Minus infinity, under its own class, for an instance that is the only one of its class.
    """
    fold = _divided(group, p, trainings[0], order)
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
    """Mean log density of the instances under their own classes, over the models; none that is alone in its class."""
    own = np.mean(log_density, axis=0)[np.arange(len(group)), group]
    return float(own[np.isfinite(own)].mean())


def unseen_rows(
    X: Array,
    group: Array,
    p: Parameters,
    whitening: Whitening,
    trainings: Sequence[Training],
    order: Array | None = None,
) -> Array:
    """Whitened training rows, shape (n, C + d), as the model would see them had they not been in training.

    A value of a category that only instances of one fold have is one that training did not have. Arguments as for
    :func:`unseen_densities`.
    """
    rows = trainings[0].seating.guests.rows[:, :-1]
    fold, count = _divided(group, p, trainings[0], order), len(whitening.places)
    if fold is None or not count:
        return rows
    seen = _without_own_values(X, whitening, fold)
    return np.hstack([whiten(whitening, seen)[:, :count], rows[:, count:]])


def _divided(group: Array, p: Parameters, training: Training, order: Array | None) -> Array | None:
    """Return the number of the fold of each instance, shape (n,); ``None``: each is left out alone."""
    freedom = len(group) - len(np.unique(group))
    plenty = freedom >= PLENTY * training.seating.guests.rows.shape[1] and not len(training.whitening.columns)
    if plenty and order is None:
        return None
    return _folds(group, p.seed) if order is None else _blocks(group, order)


def _without_own_values(X: Array, whitening: Whitening, fold: Array) -> Array:
    """Give raw rows whose value of a category occurs in their fold alone one that training did not have.

    Of very many values only the commonest have a place of their own: of the values that occur in the other rows as
    often as the rarest of these, a share has one.
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
    """Divide each class among the folds; the only instance of a class is in none (-1)."""
    rng = np.random.default_rng([seed, 18])
    fold = np.full(len(group), -1)
    for j in range(int(group.max()) + 1):
        own = rng.permutation(np.flatnonzero(group == j))
        if len(own) > 1:
            fold[own] = (np.arange(len(own)) + rng.integers(FOLDS)) % FOLDS
    return fold


def _blocks(group: Array, order: Array) -> Array:
    """Divide each class into consecutive blocks of arrival; the only instance of a class is in none (-1)."""
    fold = np.full(len(group), -1)
    for j in range(int(group.max()) + 1):
        own = np.flatnonzero(group == j)
        if len(own) > 1:
            fold[own[np.argsort(order[own], kind="stable")]] = np.arange(len(own)) * BLOCKS // len(own)
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
    """Log class densities of some instances, as they are ``seen``, by models of the others, seated as they are."""
    rest = ~member_rows
    try:
        places = np.zeros(X.shape[1], np.int64)
        places[whitening.columns] = whitening.places[: len(whitening.columns)]
        places[whitening.binary_features.members] = OF_FLAG
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
    """Let the base measure of the categories be that of these instances; concentrations stay."""
    if not len(prior.first):
        return prior
    concentration = np.repeat(prior.pseudo[prior.first], whitening.places)
    return prior._replace(pseudo=concentration * even_where_open(base_of(rows, group, whitening.places), whitening))


def with_ranks(known: Known, group: Array, log_density: Array) -> Known:
    """Take the quantiles of density ranks from these log class densities of the training instances."""
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
) -> References | None:
    """Sample ``references`` of the training instances, evenly among the classes; none of which nothing is known.

    Within a class the least usual are more likely, and weigh less.

    Parameters
    ----------
    rows
        Whitened rows, shape (n, d).
    group
        Class of each, 0 to J - 1, shape (n,).
    log_density
        As :func:`unseen_densities` returns them.
    p
        Their number, and the seed.
    mislabelled
        Instances that look mislabelled, shape (n,): they are no references.
    gain
        By how much more likely each instance was given those before it, shape (n,); ``None``: neighbours are
        independent.
    effective
        Number of independent instances that say as much, as a share of the instances.
    tempered
        The statistics of the classes count as so many.
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
        for part, many in _strata(usual[own], most):
            chosen.append(own[part][:many])
            place.append((np.arange(many) + begin) / max(many, 1))
            weight.append(np.full(many, part.sum() * min(len(own), most) / max(many * len(own), 1)))
    order = np.argsort(np.concatenate(place), kind="stable")
    at, each_weight = np.concatenate(chosen)[order], np.concatenate(weight)[order]
    rows, *densities = (np.ascontiguousarray(each[at]) for each in (rows, *log_density))
    even = bool((each_weight == 1.0).all())
    found = References(rows, group[at], tuple(densities), None if even else each_weight)
    if gain is None:
        return found
    count = float(np.median(np.bincount(group)[np.unique(group)])) * effective
    return found._replace(gain=gain[at], effective=count, tempered=tempered)


def _strata(usual: Array, most: int) -> list[tuple[Array, int]]:
    """Divide the instances of a class by how usual they are, (n,): parts, and how many of each are references."""
    n = len(usual)
    if n <= most:
        return [(np.ones(n, bool), n)]
    unusual = np.zeros(n, bool)
    unusual[np.argsort(usual, kind="stable")[: math.ceil(UNUSUAL * n)]] = True
    many = min(int(unusual.sum()), int(OF_UNUSUAL * most))
    return [(unusual, many), (~unusual, most - many)]


def least_references(max_false_unknown: float) -> int:
    """Count the references of a class that it takes to promise that no larger share of it is called unknown.

    Examples
    --------
    >>> least_references(0.01), least_references(0.1)
    (99, 9)
    """
    return int(np.ceil(1.0 / max_false_unknown - 1e-9)) - 1


def plausible(references: References, log_density: Array, max_false_unknown: float) -> Array:
    """Say for which classes each instance is not implausible, shape (n, J).

    Parameters
    ----------
    references
        R references.
    log_density
        Mean log density of n instances under each known class, over the models, shape (n, J).
    max_false_unknown
        What may be called unknown of a class. One with too few references to promise it is left out.

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
    """Check that the references of every trained class suffice for the promise.

    Raises
    ------
    InvalidParameter
        Naming the class, what it has and what it would need.
    """
    if max_false_unknown is None:
        return
    least = least_references(max_false_unknown)
    group = np.zeros(0, np.int64) if references is None else references.group
    for label, count in zip(labels, np.bincount(group, minlength=len(labels)), strict=True):
        if count < least:
            raise InvalidParameter(
                f"max_false_unknown is {max_false_unknown:g}, and class {label!r} has {count} reference instances, "
                f"where {least} are needed; give it more training instances, or promise less "
                f"(max_false_unknown={1.0 / (count + 1):.2g} is the least that these allow)"
            )


def call_known(probabilities: Array, is_plausible: Array) -> Array:
    """Give to the plausible classes what is called unknown, where there are any; probabilities of shape (n, J + 1).

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
"""The other class finds it usual: so many of its own instances, as a share, are less dense in it."""
LEAST_EXCESS = math.log(50.0)
"""Excess of a mislabelled instance at least: where classes overlap widely, margins are as small as errors."""
LEAST_SHARE, LEAST = 0.02, 10
"""Mislabelled instances there are if the excess of so large a share, and of so many, is above the median margin."""


def mislabelled(log_density: Sequence[Array], group: Array) -> Array:
    """Say which training instances look mislabelled, shape (n,).

    Their excess is above the first quartile of the margins. None are, unless enough are above the median.

    Parameters
    ----------
    log_density
        Log class densities of the instances in each model, its own made without it, shape (n, J).
    group
        Class of each, shape (n,).

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
