"""One table of ours against the others: for one data set, openness and measure, a row for every method.

Works on records as they stand in the results file, and on nothing else. Which seeds belong into a table is for the
caller to say (`seeds.REPORTING`), by the records that it hands over.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from benchmarks.openset.statistics import Interval, Paired, holm, mean_interval, paired

LOWER_IS_BETTER = frozenset({"fpr95", "ece", "train_seconds", "us_per_instance"})
"""Measures of which less is better; of all others more is."""


class Way(NamedTuple):
    """A method and how it was run: what is the same over the seeds of a row.

    Attributes
    ----------
    method, batch_size
        As in the record.
    options
        Pairs of name and value, by name.
    """

    method: str
    batch_size: int | str | None
    options: tuple[tuple[str, Any], ...]

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Way:
        """Read from a record."""
        return cls(record["method"], record["batch_size"], tuple(sorted(record["options"].items())))

    def fits(self, asked: Mapping[str, Any]) -> bool:
        """Whether fields and options are those that are asked for; of what is not asked for, anything does."""
        own = {"method": self.method, "batch_size": self.batch_size, **dict(self.options)}
        return all(name in own and own[name] == value for name, value in asked.items())


class Compared(NamedTuple):
    """A row of the table.

    Attributes
    ----------
    way
        Method and how it was run.
    figure
        Mean over the seeds at which the measure is defined, and its interval.
    missing
        Seeds that have no figure: the method failed, or the measure is not defined for it. A mean over the others
        may flatter it.
    difference
        Ours less theirs over the seeds that both have, where `wins` are the seeds in which ours is the *better* one;
        None in the row of ours.
    p
        That of the difference, adjusted by Holm's method over the rows of this table, no others; nan in the row of
        ours, and where nothing could be compared.
    """

    way: Way
    figure: Interval
    missing: int
    difference: Paired | None
    p: float


def compare(
    records: Iterable[Mapping[str, Any]],
    dataset: str,
    n_unknown: int | None,
    measure: str,
    ours: Mapping[str, Any],
) -> list[Compared]:
    """Compare one way of running a method with all others on record.

    Parameters
    ----------
    records
        Of any data sets, the latest of each cell: fields ``dataset``, ``n_unknown``, ``method``, ``batch_size``,
        ``seed``, ``options``, ``status`` and the measures. One that is not ``"done"`` is of a seed without figure.
    dataset, n_unknown
        Whose records make the table.
    measure
        A field of the records, such as ``"micro_f"``.
    ours
        What the others are compared with: names and values of fields (``method``, ``batch_size``) and options that
        only one way of running has.

    Returns
    -------
    list of Compared
        Ours first, then the others, best mean first, those without any last.

    Raises
    ------
    ValueError
        If `ours` fits none or several of the ways on record, or a cell is there twice.

    Examples
    --------
    >>> def record(method, seed, micro_f):
    ...     where = {"dataset": "USPS", "n_unknown": 3, "batch_size": None, "options": {}, "status": "done"}
    ...     return {**where, "method": method, "seed": seed, "micro_f": micro_f}
    >>> records = [record("new", s, f) for s, f in enumerate([0.8, 0.9, 0.9])]
    >>> records += [record("old", s, f) for s, f in enumerate([0.7, 0.7, 0.8])]
    >>> for row in compare(records, "USPS", 3, "micro_f", ours={"method": "new"}):
    ...     print(row.way.method, round(row.figure.mean, 3), row.difference and row.difference.wins, row.p)
    new 0.867 None nan
    old 0.733 3 0.25
    """
    found = _by_way(records, dataset, n_unknown, measure)
    fitting = [way for way in found if way.fits(ours)]
    if len(fitting) != 1:
        there = "; ".join(map(str, fitting or found)) or "no record at all"
        raise ValueError(
            f"{dict(ours)} fits {len(fitting)} ways on {dataset} with {n_unknown} unknown classes: {there}"
        )
    own, less = fitting[0], measure in LOWER_IS_BETTER
    figures = {way: {seed: value for seed, value in of.items() if value is not None} for way, of in found.items()}
    rows = []
    for way, of in found.items():
        figure = mean_interval(figures[way].values())
        difference = None if way == own else paired(figures[own], figures[way])
        if difference is not None and less:
            difference = difference._replace(wins=difference.losses, losses=difference.wins)
        rows.append(Compared(way, figure, len(of) - figure.n, difference, math.nan))
    adjusted = holm([math.nan if row.difference is None else row.difference.p for row in rows])
    rows = [row._replace(p=float(p)) for row, p in zip(rows, adjusted, strict=True)]
    return sorted(
        rows, key=lambda row: (row.way != own, not row.figure.n, row.figure.mean if less else -row.figure.mean)
    )


def _by_way(
    records: Iterable[Mapping[str, Any]], dataset: str, n_unknown: int | None, measure: str
) -> dict[Way, dict[int, float | None]]:
    """Gather a measure by way and seed; None where there is a record and no figure."""
    found: dict[Way, dict[int, float | None]] = {}
    for record in records:
        if (record["dataset"], record["n_unknown"]) == (dataset, n_unknown):
            way, seed = Way.of(record), record["seed"]
            of = found.setdefault(way, {})
            if seed in of:
                raise ValueError(f"{way} has two records of seed {seed}: hand over the latest of each cell only")
            value = record.get(measure) if record["status"] == "done" else None
            of[seed] = None if value is None or math.isnan(value) else value
    return found
