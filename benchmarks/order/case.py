"""A case: labelled training instances, the stream that follows them, and what is known about the stream."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd


class Case(NamedTuple):
    """Training instances and a stream, both in the order of arrival.

    Attributes
    ----------
    X_train, y_train
        Training instances, shape (m, p), and their labels as text.
    X, y
        Instances of the stream, shape (n, p), and their true labels. A label that training lacks is a new class.
    fault
        Position in the stream at which a data fault or a move begins; ``None``: there is none.
    column
        Number of the column that the fault is in; ``None``: no single column.
    columns
        Names of the columns; empty: x00, x01 and so on. If a column contains text, ``X_train`` and ``X`` are arrays
        of objects.
    moved
        Numbers of the columns that are moved for all classes.
    group
        Person of each training instance, shape (m,); ``None``: there are no groups.
    """

    X_train: np.ndarray
    y_train: np.ndarray
    X: np.ndarray
    y: np.ndarray
    fault: int | None = None
    column: int | None = None
    columns: tuple[str, ...] = ()
    moved: tuple[int, ...] = ()
    group: np.ndarray | None = None

    @property
    def new(self) -> np.ndarray:
        """Whether each instance of the stream is of a new class, shape (n,)."""
        return ~np.isin(self.y, np.unique(self.y_train))

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        return list(self.columns) or [f"x{at:02}" for at in range(self.X.shape[1])]

    @property
    def frames(self) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Training instances and the stream as data frames with numeric columns and columns of text."""
        training, stream = (pd.DataFrame(X, columns=self.names).infer_objects() for X in (self.X_train, self.X))
        return training, stream
