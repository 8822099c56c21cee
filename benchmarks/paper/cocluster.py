"""The paper's own algorithm (its Algorithm 1): all training groups and the whole test batch clustered together.

Nothing is frozen: test instances move known subclasses, known classes may share subclasses, and the whole is
sampled again for every batch. It is the reference that the stream is measured against, not a way to run one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np

from stream_osr.errors import InvalidParameter
from stream_osr.model.categories import base_of, with_base
from stream_osr.model.feature_space.mixed_whitening import fit_mixed
from stream_osr.model.feature_space.whitening import whiten
from stream_osr.model.prior import homogeneous, make_prior
from stream_osr.model.training import dish_of_guests, seat_by_groups, sweep
from stream_osr.support.parallel import one_thread

UNKNOWN = -1


class CoClustering(NamedTuple):
    """What co-clustering found.

    Attributes
    ----------
    label
        Class number of each test instance, or ``UNKNOWN``, shape (n_test,).
    subclass
        Subclass of each test instance, shape (n_test,).
    counts
        Instances of each group in each subclass, the test batch last, shape (J + 1, K).
    kept
        Which subclasses belong to which class: at least the share epsilon of it, shape (J, K).
    alpha, gamma
        Concentrations at the end.
    """

    label: np.ndarray
    subclass: np.ndarray
    counts: np.ndarray
    kept: np.ndarray
    alpha: float
    gamma: float


def cocluster(
    X_train: np.ndarray,
    group: np.ndarray,
    X_test: np.ndarray,
    rng: np.random.Generator,
    *,
    nu: float,
    scale: float,
    beta: float = 1.0,
    initial_subclasses: int = 30,
    sweeps: int = 30,
    start: Literal["random", "classwise"] = "random",
    epsilon: float = 0.01,
    places: np.ndarray | None = None,
    concentration: float = 1.0,
    pca_components: int | None = None,
    pca_variance: float | None = None,
    progress: Callable[[int], None] | None = None,
) -> CoClustering:
    """Cluster training groups and a test batch together and label the batch.

    Parameters
    ----------
    X_train
        Training instances, shape (n, p).
    group
        Their classes, 0 to J - 1, shape (n,).
    X_test
        The test batch, shape (n_test, p); it is the last group.
    rng
        Source of randomness.
    nu, scale, beta
        Base measure; the paper chooses nu in d to d + 20 and scale in 1e-5 to 1 by validation, beta is 1.
    initial_subclasses
        Subclasses of the random start (InS); each group spreads evenly over all of them.
    sweeps
        Gibbs sweeps (T).
    start
        ``"random"`` as in the paper; ``"classwise"``: each class, and the test batch, begins in a subclass of its
        own, which is far less erratic.
    epsilon
        Share of its class below which a subclass is removed.
    pca_components, pca_variance
        As for :class:`stream_osr.OpenSetRecognizer`.
    places
        Places of each feature: 0 for a number, and for a category, held as numbers of values, two more than it has
        values, shape (p,); ``None``: all are numbers. The paper has none: a subclass is what it is in the stream
        (:mod:`stream_osr.model.categories`).
    concentration
        Of each category: instances that the base measure weighs.
    progress
        Called with the number of each finished sweep.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> centres = np.repeat([[0, 0], [9, 0], [0, 9]], 40, axis=0)
    >>> X = centres + rng.normal(size=(120, 2))
    >>> found = cocluster(X[:60], np.repeat([0, 1], [40, 20]), X[60:], rng, nu=6, scale=0.5, start="classwise")
    >>> [int((found.label[:20] == 1).sum()), int((found.label[20:] == UNKNOWN).sum())]
    [20, 40]

    The same with a category beside the numbers, whose third value is none of the training part:

    >>> X = np.column_stack([X, np.repeat([0, 1, 2], 40)])
    >>> options = {"nu": 6, "scale": 0.5, "start": "classwise", "places": np.array([0, 0, 4])}
    >>> found = cocluster(X[:60], np.repeat([0, 1], [40, 20]), X[60:], rng, **options)
    >>> [int((found.label[:20] == 1).sum()), int((found.label[20:] == UNKNOWN).sum())]
    [20, 40]
    """
    if start not in ("random", "classwise"):
        raise InvalidParameter(f"start is {start!r}; expected 'random' or 'classwise'")
    n_groups = int(group.max()) + 1
    everyone = np.concatenate([group, np.full(len(X_test), n_groups)])
    with one_thread():
        kinds = np.zeros(X_train.shape[1], np.int64) if places is None else places
        space = fit_mixed(X_train, group, kinds, pca_components=pca_components, pca_variance=pca_variance)
        rows = homogeneous(whiten(space, np.concatenate([X_train, X_test])))
        prior = make_prior(space.forward.shape[1], nu=nu, scale=scale, beta=beta)
        if len(space.places):
            base = base_of(rows[: len(X_train)], group, space.places)
            prior = with_base(prior, space.places, base, concentration)
        dish = everyone if start == "classwise" else _spread(everyone, initial_subclasses, rng)
        seating = seat_by_groups(rows, everyone, dish, prior, exclusive=False)
        for number in range(sweeps):
            seating = sweep(seating, prior, rng, exclusive=False)
            if progress is not None:
                progress(number + 1)
    subclass = np.unique(dish_of_guests(seating), return_inverse=True)[1]
    counts = np.zeros((n_groups + 1, int(subclass.max()) + 1))
    np.add.at(counts, (everyone, subclass), 1.0)
    owner = owners(counts, epsilon)
    known = counts[:n_groups]
    kept = _kept(known, epsilon)
    of_test = subclass[len(X_train) :]
    franchise = seating.franchise
    return CoClustering(owner[of_test], of_test, counts, kept, float(franchise.alpha[0]), float(franchise.gamma[0]))


def owners(counts: np.ndarray, epsilon: float) -> np.ndarray:
    """Say which known class each subclass belongs to: the one that has most of it, of those that keep it.

    Parameters
    ----------
    counts
        Instances of each group in each subclass, the test batch last, shape (J + 1, K).
    epsilon
        Share of its class below which a subclass is removed. It moves no instance: one clustering serves any.

    Returns
    -------
    Class number of each subclass, or ``UNKNOWN``, shape (K,).

    Examples
    --------
    >>> owners(np.array([[99, 1, 0], [0, 50, 0], [3, 4, 5]]), 0.02).tolist()
    [0, 1, -1]
    >>> owners(np.array([[95, 5, 0], [0, 0, 9]]), 0.1).tolist()
    [0, -1, -1]
    """
    known = counts[:-1]
    kept = _kept(known, epsilon)
    return np.asarray(np.where(kept.any(axis=0), np.where(kept, known, 0.0).argmax(axis=0), UNKNOWN))


def _kept(known: np.ndarray, epsilon: float) -> np.ndarray:
    """Say which subclasses a class keeps, shape (J, K), from its instances in them."""
    return np.asarray((known >= epsilon * known.sum(axis=1, keepdims=True)) & (known > 0))


def _spread(group: np.ndarray, subclasses: int, rng: np.random.Generator) -> np.ndarray:
    """Spread each group evenly over the subclasses: the pattern 0, 1, ... repeated and permuted."""
    dish = np.empty(len(group), np.int64)
    for j in np.unique(group):
        members = np.flatnonzero(group == j)
        dish[members] = rng.permutation(np.arange(len(members)) % subclasses)
    return dish
