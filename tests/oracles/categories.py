"""Dirichlet-multinomial distributions of categories, straight from the textbook, and their product with a Gaussian.

A *block* is a list of instances: for each column the number of its value, ``None`` where it is missing. Each column
has Dirichlet parameters ``alpha``, one for each value. Source: Gelman et al., "Bayesian Data Analysis", 3rd edition,
section 3.4 (multinomial model for categorical data).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tests.oracles.niw import BaseMeasure

Value = int | None
Block = Sequence[Sequence[Value]]


class Categories:
    """Columns that are independent given their probabilities; ``alpha[c][v]`` belongs to value v of column c."""

    def __init__(self, alpha: Sequence[Sequence[float]]) -> None:
        self.alpha = [list(column) for column in alpha]

    def log_predictive(self, x: Sequence[Value], block: Block) -> float:
        """``(alpha_v + n_v) / (sum alpha + n)`` for each column that is there."""
        total = 0.0
        for c, alpha in enumerate(self.alpha):
            if x[c] is None:
                continue
            there = [row[c] for row in block if row[c] is not None]
            total += math.log((alpha[x[c]] + there.count(x[c])) / (sum(alpha) + len(there)))
        return total

    def log_marginal(self, block: Block) -> float:
        """``B(alpha + n) / B(alpha)``, B the multivariate beta function, of each column."""
        total = 0.0
        for c, alpha in enumerate(self.alpha):
            there = [row[c] for row in block if row[c] is not None]
            after = [a + there.count(v) for v, a in enumerate(alpha)]
            total += _log_beta(after) - _log_beta(alpha)
        return total

    def draw(self, n: int, rng: np.random.Generator) -> list[list[Value]]:
        """Draw a block of n instances that share one draw of the probabilities."""
        shares = [rng.dirichlet(alpha) for alpha in self.alpha]
        return [[int(rng.choice(len(own), p=own)) for own in shares] for _ in range(n)]


def _log_beta(alpha: Sequence[float]) -> float:
    return sum(math.lgamma(a) for a in alpha) - math.lgamma(sum(alpha))


class Mixed:
    """A base measure of rows ``(places..., z...)``: categories beside a Gaussian one (``None``: no numbers).

    Places are numbered through: one for a missing value of the first column, one for each of its values, one for a
    missing value of the second, and so on. It stands in for those of :mod:`tests.oracles.niw`.
    """

    def __init__(self, categories: Categories, gaussian: BaseMeasure | None) -> None:
        self.categories, self.gaussian = categories, gaussian
        self.first = [sum(len(own) + 1 for own in categories.alpha[:c]) for c in range(len(categories.alpha))]
        self.columns = len(categories.alpha)
        self.dimension = self.columns + (0 if gaussian is None else gaussian.dimension)

    def block(self, rows: object) -> np.ndarray:
        """Rows as an array of shape (n, C + d), also when there are none."""
        return np.asarray(rows, dtype=np.float64).reshape(-1, self.dimension)

    def values(self, rows: object) -> list[list[Value]]:
        """Values of the categories of some rows."""
        own = (self.block(rows)[:, : self.columns] - self.first).astype(int) - 1
        return [[None if value < 0 else value for value in row] for row in own.tolist()]

    def log_predictive(self, x: object, rows: object) -> float:
        row, block = self.block(x), self.block(rows)
        total = self.categories.log_predictive(self.values(row)[0], self.values(block))
        if self.gaussian is not None:
            total += self.gaussian.log_predictive(row[0, self.columns :], block[:, self.columns :])
        return total

    def log_marginal(self, rows: object) -> float:
        block = self.block(rows)
        total = self.categories.log_marginal(self.values(block))
        return total if self.gaussian is None else total + self.gaussian.log_marginal(block[:, self.columns :])

    def draw_rows(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Draw a block of n instances that share one draw of all parameters."""
        values = np.array(self.categories.draw(n, rng), float).reshape(n, self.columns) + 1 + self.first
        return values if self.gaussian is None else np.hstack([values, self.gaussian.draw_rows(n, rng)])
