"""The experimental protocol of Geng and Chen: which classes are known, and which instances train.

Section 4.1.1 of the paper, steps 1 to 6. All randomness comes from the seed, and what is drawn is nested, so
that a change of openness changes nothing else: with one seed the known classes and the training instances
are the same whatever the number of unknown classes, a larger set of unknown classes contains the smaller
ones, and a smaller test part is the larger one with instances left out.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stream_osr.errors import InvalidParameter

_TEST_STREAM = 0
_VALIDATION_STREAM = 1


class Split(NamedTuple):
    """A data set divided for an open-set experiment.

    Attributes
    ----------
    X_train, y_train
        Training instances (n_train, n_features) and their labels, known classes only; class by class.
    X_test, y_test
        Test instances in random order and their true labels, those of unknown classes included.
    known
        The known classes, in the order in which they were drawn.
    unknown
        The unknown classes, in the order in which they were drawn.
    """

    X_train: NDArray[Any]
    y_train: NDArray[Any]
    X_test: NDArray[Any]
    y_test: NDArray[Any]
    known: tuple[Hashable, ...]
    unknown: tuple[Hashable, ...]


def split(
    X: ArrayLike,
    y: ArrayLike,
    n_known: int,
    n_unknown: int,
    seed: int,
    train_share: float = 0.6,
    *,
    known: Sequence[Hashable] | None = None,
) -> Split:
    """Choose known classes and divide the instances into training and test (steps 1 to 3).

    A permutation of the classes, drawn from the seed, gives the known classes (its first `n_known`) and the
    unknown ones (the `n_unknown` after them). Of each known class ``floor(train_share * n + 1/2)`` of its n
    instances, chosen at random, train. The rest of them and all instances of the unknown classes
    are the test part, in random order.

    Parameters
    ----------
    X
        Instances, of shape (n, n_features).
    y
        Labels, n of them.
    n_known
        Number of known classes, Omega in the paper.
    n_unknown
        Number of unknown classes in the test part; 0 makes the problem closed.
    seed
        Of everything random here.
    train_share
        Share of each known class that trains.
    known
        The known classes, `n_known` of them, when they are given instead of drawn.

    Raises
    ------
    InvalidParameter
        If the classes do not suffice.

    Examples
    --------
    >>> X = [[0], [1], [2], [3], [4], [5], [6], [7], [8]]
    >>> y = ["a", "a", "a", "b", "b", "b", "c", "c", "c"]
    >>> parts = split(X, y, n_known=2, n_unknown=1, seed=1)
    >>> len(parts.known), len(parts.unknown), len(parts.X_train), len(parts.X_test)
    (2, 1, 4, 5)
    >>> closed = split(X, y, n_known=2, n_unknown=0, seed=1)
    >>> closed.known == parts.known, (closed.X_train == parts.X_train).all(), len(closed.X_test)
    (True, np.True_, 2)
    """
    return _divide(X, y, n_known, n_unknown, np.random.default_rng((_TEST_STREAM, seed)), train_share, known)


def validation_split(X_train: ArrayLike, y_train: ArrayLike, seed: int, train_share: float = 0.6) -> Split:
    """Divide a training part once more, to simulate a closed and an open set (steps 4 to 6).

    The test part of the result is the open-set simulation. Its instances of known classes are the closed one.

    Of its Omega classes ``floor(Omega / 2 + 1/2)``, the paper's [Omega/2 + 0.5], play the known
    ones, the others unknown ones. It may be given the same seed as `split`: the two draw independently.

    Parameters
    ----------
    X_train, y_train
        Training part of a `Split`.
    seed
        Of everything random here.
    train_share
        Share of each class playing a known one that is fitted; rounded as in `split`.

    Raises
    ------
    InvalidParameter
        As `split` does.

    Examples
    --------
    >>> X = [[0], [1], [2], [3], [4], [5], [6], [7], [8]]
    >>> y = ["a", "a", "a", "b", "b", "b", "c", "c", "c"]
    >>> parts = validation_split(X, y, seed=1)
    >>> len(parts.known), len(parts.unknown), len(parts.X_train), len(parts.X_test)
    (2, 1, 4, 5)
    """
    n_classes = len(np.unique(np.asarray(y_train)))
    n_known = math.floor(n_classes / 2 + 0.5)
    rng = np.random.default_rng((_VALIDATION_STREAM, seed))
    return _divide(X_train, y_train, n_known, n_classes - n_known, rng, train_share)


def _divide(
    X: ArrayLike,
    y: ArrayLike,
    n_known: int,
    n_unknown: int,
    rng: np.random.Generator,
    train_share: float,
    given: Sequence[Hashable] | None = None,
) -> Split:
    X, y = np.asarray(X), np.asarray(y)
    classes = np.unique(y)
    if n_known + n_unknown > len(classes):
        raise InvalidParameter(
            f"{n_known} known and {n_unknown} unknown classes were requested, but y has {len(classes)} classes"
        )

    order = rng.permutation(classes)
    if given is not None:
        order = np.concatenate([np.array(given), order[~np.isin(order, np.array(given))]])
    known, unknown = order[:n_known], order[n_known : n_known + n_unknown]
    own = [np.flatnonzero(y == label) for label in known]
    rows = np.concatenate([rng.permutation(of)[: math.floor(train_share * len(of) + 0.5)] for of in own])
    # Shuffled before the absent classes are taken out, what remains is in the same order however many unknown
    # classes there are.
    rest = rng.permutation(np.setdiff1d(np.arange(len(y)), rows))
    test = rest[np.isin(y[rest], np.concatenate([known, unknown]))]
    return Split(X[rows], y[rows], X[test], y[test], tuple(known.tolist()), tuple(unknown.tolist()))
