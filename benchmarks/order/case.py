"""A case: labelled training instances, the stream that follows them, and what is known about the stream."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Case(NamedTuple):
    """Training instances and a stream, both in the order of arrival.

    Attributes
    ----------
    X_train, y_train
        Training instances, shape (m, p), and their labels as text.
    X, y
        Instances of the stream, shape (n, p), and their true labels. A label that training lacks is a new class.
    fault
        Position in the stream at which a data fault begins; ``None``: there is none.
    column
        Number of the column that the fault is in; ``None``: no single column.
    copies
        Positions of the repeated instances, shape (c,); empty: none.
    """

    X_train: np.ndarray
    y_train: np.ndarray
    X: np.ndarray
    y: np.ndarray
    fault: int | None = None
    column: int | None = None
    copies: np.ndarray = np.empty(0, dtype=int)

    @property
    def new(self) -> np.ndarray:
        """Whether each instance of the stream is of a new class, shape (n,)."""
        return ~np.isin(self.y, np.unique(self.y_train))
