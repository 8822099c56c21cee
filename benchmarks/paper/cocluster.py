"""The paper's own algorithm (its Algorithm 1): all training groups and the whole test batch clustered together.

Nothing is frozen: test instances move known subclasses, known classes may share subclasses, and the whole is
sampled again for every batch. It is the reference that the stream is measured against, not a way to run one.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from stream_osr.model.feature_space.whitening import fit_whitening, whiten
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
    """

    label: np.ndarray
    subclass: np.ndarray
    counts: np.ndarray


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
    pca_components: int | None = None,
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
    pca_components
        As for :class:`stream_osr.OpenSetRecognizer`.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> centres = np.repeat([[0, 0], [9, 0], [0, 9]], 40, axis=0)
    >>> X = centres + rng.normal(size=(120, 2))
    >>> found = cocluster(X[:60], np.repeat([0, 1], [40, 20]), X[60:], rng, nu=6, scale=0.5, start="classwise")
    >>> [int((found.label[:20] == 1).sum()), int((found.label[20:] == UNKNOWN).sum())]
    [20, 40]
    """
    n_groups = int(group.max()) + 1
    everyone = np.concatenate([group, np.full(len(X_test), n_groups)])
    with one_thread():
        space = fit_whitening(X_train, group, pca=pca_components)
        rows = homogeneous(whiten(space, np.concatenate([X_train, X_test])))
        prior = make_prior(space.forward.shape[1], nu=nu, scale=scale, beta=beta)
        dish = everyone if start == "classwise" else _spread(everyone, initial_subclasses, rng)
        seating = seat_by_groups(rows, everyone, dish, prior, exclusive=False)
        for _ in range(sweeps):
            seating = sweep(seating, prior, rng, exclusive=False)
    subclass = np.unique(dish_of_guests(seating), return_inverse=True)[1]
    counts = np.zeros((n_groups + 1, int(subclass.max()) + 1))
    np.add.at(counts, (everyone, subclass), 1.0)
    of_test = subclass[len(X_train) :]
    return CoClustering(owners(counts, epsilon)[of_test], of_test, counts)


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
    kept = (known >= epsilon * known.sum(axis=1, keepdims=True)) & (known > 0)
    return np.asarray(np.where(kept.any(axis=0), np.where(kept, known, 0.0).argmax(axis=0), UNKNOWN))


def _spread(group: np.ndarray, subclasses: int, rng: np.random.Generator) -> np.ndarray:
    """Spread each group evenly over the subclasses: the pattern 0, 1, ... repeated and permuted."""
    dish = np.empty(len(group), np.int64)
    for j in np.unique(group):
        members = np.flatnonzero(group == j)
        dish[members] = rng.permutation(np.arange(len(members)) % subclasses)
    return dish
