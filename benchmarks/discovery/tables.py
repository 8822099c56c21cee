"""Tables of the settings: a row for each value of some keys of the runs, and what the columns are made of."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np

from benchmarks.written import table

Runs = Sequence[dict[str, Any]]
Cell = Callable[[Runs], object]


class Table(NamedTuple):
    """A table of Markdown: a row for each value of some keys of the runs, and perhaps one for all of them."""

    columns: Mapping[str, Cell]
    keys: tuple[str, ...] = ("dataset",)
    total: str = ""

    def __call__(self, runs: Runs) -> str:
        """Lay out runs."""
        rows: dict[str, list[dict[str, Any]]] = {}
        for run in runs:
            rows.setdefault(", ".join(str(run[key]) for key in self.keys), []).append(run)
        if self.total:
            rows[self.total] = list(runs)
        cells = [[name, *(column(of) for column in self.columns.values())] for name, of in rows.items()]
        return table(["", *self.columns], cells)


def column(key: str, function: Callable[[Sequence[float]], float] = fmean, form: str = ".3f") -> Cell:
    """Make a column of a figure, or of a dict of figures in each run; ``None`` counts as infinity."""

    def cell(runs: Runs) -> str:
        found = (run[key].values() if isinstance(run[key], dict) else [run[key]] for run in runs)
        return format(function([math.inf if each is None else each for of in found for each in of]), form)

    return cell


def within(most: float) -> Callable[[Sequence[float]], float]:
    """Return what gives the share of figures that are so large at most."""
    return lambda values: fmean(value <= most for value in values)


def quantile(share: float) -> Callable[[Sequence[float]], float]:
    """Return what gives the least figure that is as large as this share of them."""
    return lambda values: float(np.quantile(values, share, method="inverted_cdf"))


def ever(values: Sequence[float]) -> float:
    """Share of finite figures."""
    return fmean(map(math.isfinite, values))


def finite(value: float) -> float | None:
    """Return a number, or what JSON has for infinity: None."""
    return value if math.isfinite(value) else None


def any_of(values: Sequence[float]) -> float:
    """Share of figures above zero."""
    return fmean(value > 0 for value in values)
