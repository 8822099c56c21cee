"""The data sets, how each is divided into training part and test part, and at which openness it is measured.

The five sets of the paper, and two more, by the paper's protocol. With one seed the training part is the same for all
levels of openness, and a smaller test part is the larger one with instances left out.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np

from benchmarks.openset.methods.base import UNKNOWN
from benchmarks.paper.datasets import KNOWN_CLASSES, PCA_DIMENSIONS, UNKNOWN_CLASSES, load
from benchmarks.paper.protocol import split

Level = Literal["closed", "medium", "high"]
LEVELS: tuple[Level, ...] = ("closed", "medium", "high")

MAX_TRAINING = 5000
"""Training instances kept of each class, for every method: the recognizer's own default. Only SHUTTLE has more."""


class Setting(NamedTuple):
    """How a data set is used.

    Attributes
    ----------
    n_known
        Number of known classes.
    n_unknown
        Number of unknown classes at each named level of openness.
    curve
        Numbers of unknown classes that draw micro-F against openness.
    pca
        Principal components of the training part that every method works on, or None: the features as they are.
    known
        The known classes, where they are not drawn from the seed.
    """

    n_known: int
    n_unknown: dict[Level, int]
    curve: tuple[int, ...] = ()
    pca: int | None = None
    known: tuple[int, ...] | None = None


CURVES = {
    "LETTER": (0, 3, 6, 10, 13, 16),
    "PENDIGITS": (0, 1, 2, 3, 4, 5),
    "USPS": (0, 1, 2, 3, 4, 5),
    "COIL20": (0, 2, 4, 6, 8, 10),
    "YALEB": (0, 5, 10, 16, 22, 28),
}
"""Six levels of openness; the paper's three are among them."""

FIVE = tuple(KNOWN_CLASSES)
"""The data sets of the paper."""

SETTINGS: dict[str, Setting] = {
    **{
        name: Setting(
            n_known,
            {"closed": 0, "medium": UNKNOWN_CLASSES[name][0], "high": UNKNOWN_CLASSES[name][1]},
            CURVES[name],
            PCA_DIMENSIONS.get(name),
        )
        for name, n_known in KNOWN_CLASSES.items()
    },
    "SATIMAGE": Setting(3, {"closed": 0, "high": 3}),
    "SHUTTLE": Setting(3, {"closed": 0, "high": 4}, known=(1, 4, 5)),  # its three most frequent classes
}


class Problem(NamedTuple):
    """A training part and the test part of one openness.

    Attributes
    ----------
    X_train, group
        Training instances and class numbers, 0 to J - 1.
    X_test, truth
        Test instances and class numbers, ``UNKNOWN`` for unknown classes.
    labels
        Labels of the test instances in the data set.
    known, unknown
        Labels of the known classes, by number, and of the unknown ones, in the order in which they are added.
    """

    X_train: np.ndarray
    group: np.ndarray
    X_test: np.ndarray
    truth: np.ndarray
    labels: list[Any]
    known: tuple[Any, ...]
    unknown: tuple[Any, ...]

    def among(self, n_unknown: int | None) -> np.ndarray:
        """Which test instances are left where only the first so many unknown classes are there, shape (n,)."""
        kept = self.known + self.unknown[:n_unknown]
        return np.isin(np.array(self.labels), np.array(kept))

    def only(self, rows: np.ndarray) -> Problem:
        """Keep these test instances: a mask, or their places in order."""
        labels = np.array(self.labels)[rows].tolist()
        return self._replace(X_test=self.X_test[rows], truth=self.truth[rows], labels=labels)


def problem(
    dataset: str, n_unknown: int | None, seed: int, share: float = 1.0, known: tuple[Any, ...] | None = None
) -> Problem:
    """Lay out a problem; the training part depends on the seed alone.

    Parameters
    ----------
    dataset
        One of `SETTINGS`.
    n_unknown
        Unknown classes in the test part; None: all that there are.
    seed
        Of the split.
    share
        Of the test part, a random choice of its instances in their order (the paper's figures 9 to 13).
    known
        The known classes, where they are not to be drawn (the paper's tables).
    """
    setting = SETTINGS[dataset]
    data = load(dataset)
    n = len(np.unique(data.y)) - setting.n_known if n_unknown is None else n_unknown
    part = split(data.X, data.y, setting.n_known, n, seed, known=known or setting.known)
    number = {label: j for j, label in enumerate(part.known)}
    group = np.array([number[label] for label in part.y_train.tolist()])
    kept = np.sort(np.concatenate([np.flatnonzero(group == j)[:MAX_TRAINING] for j in range(len(number))]))
    labels = part.y_test.tolist()
    truth = np.array([number.get(label, UNKNOWN) for label in labels])
    whole = Problem(part.X_train[kept], group[kept], part.X_test, truth, labels, part.known, part.unknown)
    if share == 1.0:
        return whole
    chosen = np.random.default_rng((seed, 2)).permutation(len(labels))[: round(share * len(labels))]
    return whole.only(np.sort(chosen))
