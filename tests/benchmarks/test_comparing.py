"""The table of ours against the others: whose seeds are paired, whose p-values are adjusted, and what is missing."""

from __future__ import annotations

import math
from typing import Any

import pytest

from benchmarks.openset.statistics import Compared, compare, holm, paired

Record = dict[str, Any]
NEW = {0: 0.9, 1: 0.8, 2: 0.85, 3: 0.95}
OLD = {0: 0.7, 1: 0.75, 2: 0.9, 3: 0.6}
PLAIN = {0: 0.3, 1: 0.2, 2: 0.4}


def record(method: str, seed: int, value: float | None, **fields: Any) -> Record:
    about = {"dataset": "USPS", "n_unknown": 3, "method": method, "seed": seed}
    return {**about, "micro_f": value, "fpr95": value, **fields}


def records() -> list[Record]:
    found = [record("plain", seed, value) for seed, value in PLAIN.items()]
    found += [record("new", seed, value) for seed, value in NEW.items()]
    found += [record("old", seed, value) for seed, value in OLD.items()]
    # of other tables
    return [*found, record("new", 0, 0.1, n_unknown=0), record("new", 0, 0.1, dataset="LETTER")]


def table(found: list[Record], figure: str = "micro_f") -> list[Compared]:
    return compare(found, "USPS", 3, figure, "new")


def test_where_less_is_better_ours_wins_by_less_and_the_least_stands_first():
    rows = table(records(), "fpr95")
    assert [row.method for row in rows] == ["new", "plain", "old"]
    difference = rows[2].difference
    assert (difference.wins, difference.losses) == (1, 3)
    assert difference.mean == pytest.approx(paired(NEW, OLD).mean)


def test_undefined_figures_are_not_compared_and_no_cell_counts_twice():
    found = [record("scoreless", 0, None), record("scoreless", 1, math.nan), *records(), record("new", 4, 0.9)]
    rows = {row.method: row for row in table(found)}
    assert list(rows) == ["new", "old", "plain", "scoreless"]
    assert (rows["old"].figure.n, rows["old"].difference.left_out) == (4, 1)
    assert (rows["scoreless"].figure.n, rows["scoreless"].difference.n) == (0, 0)
    assert math.isnan(rows["scoreless"].p)
    # nor is it counted among the comparisons
    assert [rows["old"].p, rows["plain"].p] == list(holm([rows[name].difference.p for name in ("old", "plain")]))
    with pytest.raises(ValueError, match="two records of seed 1"):
        table([*records(), record("old", 1, 0.7)])
