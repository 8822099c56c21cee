"""Seventeen public tables, and how each is divided into training part and stream."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import pandas as pd

from benchmarks.paper.datasets import TABLES, load

__all__ = ["BLOCKS", "TABLES", "Part", "divide", "frame"]

BLOCKS: dict[str, tuple[range, ...]] = {
    "NURSERY": tuple(map(range, (0, 3, 8, 12, 16, 19, 20, 23), (3, 8, 12, 16, 19, 20, 23, 26))),
    "KRKOPT": (range(4), range(5, 13), range(14, 22)),
}
"""Columns that are one category of the original table each, by the table's name; all others are numbers."""


def frame(name: str, X: np.ndarray) -> pd.DataFrame:
    """State rows of a table as a person has them: the columns of a category are one, of text."""
    blocks = BLOCKS.get(name, ())
    apart = sorted(set(range(X.shape[1])).difference(*blocks))
    columns = {f"number {at}": X[:, at] for at in apart}
    for number, block in enumerate(blocks):
        place = X[:, list(block)].argmax(axis=1) if len(block) > 1 else X[:, block[0]].astype(int)
        columns[f"category {number}"] = [f"value {value}" for value in place.tolist()]
    return pd.DataFrame(columns)


class Part(NamedTuple):
    """Training part and stream of a table: rows, and the labels beside them; and the classes that train."""

    X_train: np.ndarray
    y_train: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    known: tuple[str, ...]


def divide(name: str, seed: int) -> Part:
    """Let half of the classes train, three fifths of the instances of each; all the rest is the stream.

    Two generators: one chooses the known classes and their training instances, class by class; the other puts
    training part and stream in order.
    """
    X, y = load(name)
    choosing, ordering = np.random.default_rng([seed, 1]), np.random.default_rng([seed, 2])
    classes = choosing.permutation(np.unique(y))
    n_known = max(2, math.ceil(len(classes) / 2))
    training, test = [], []
    for label in classes[:n_known]:
        of_class = choosing.permutation(np.flatnonzero(y == label))
        cut = round(0.6 * len(of_class))
        training.append(of_class[:cut])
        test.append(of_class[cut:])
    test += [np.flatnonzero(y == label) for label in classes[n_known:]]
    first, then = (ordering.permutation(np.concatenate(parts)) for parts in (training, test))
    return Part(X[first], y[first], X[then], y[then], tuple(classes[:n_known].tolist()))
