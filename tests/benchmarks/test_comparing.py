"""The table of ours against the others: whose seeds are paired, whose p-values are adjusted, and what is missing."""

from __future__ import annotations

import math
from typing import Any

import pytest

from benchmarks.openset.comparing import Compared, Way, compare
from benchmarks.openset.statistics import holm, paired

Record = dict[str, Any]
NEW = {0: 0.9, 1: 0.8, 2: 0.85, 3: 0.95}
OLD = {0: 0.7, 1: 0.75, 2: 0.9, 3: 0.6}
PLAIN = {0: 0.3, 1: 0.2, 2: 0.4}


def record(method: str, seed: int, value: float | None, batch_size: Any = None, **fields: Any) -> Record:
    return {
        **{"dataset": "USPS", "n_unknown": 3, "method": method, "batch_size": batch_size, "seed": seed},
        **{"options": {"decision_delay": 0}, "status": "done", "micro_f": value, "fpr95": value},
        **fields,
    }


def records() -> list[Record]:
    found = [record("plain", seed, value) for seed, value in PLAIN.items()]
    found += [record("new", seed, value, 64) for seed, value in NEW.items()]
    found += [record("old", seed, value) for seed, value in OLD.items()]
    # of other tables
    return [*found, record("new", 0, 0.1, 64, n_unknown=0), record("new", 0, 0.1, 64, dataset="LETTER")]


def table(found: list[Record], figure: str = "micro_f", dataset: str = "USPS", **options: Any) -> list[Compared]:
    return compare(found, dataset, 3, figure, **{"ours": {"method": "new"}, **options})


def test_where_less_is_better_ours_wins_by_less_and_the_least_stands_first():
    rows = table(records(), "fpr95")
    assert [row.way.method for row in rows] == ["new", "plain", "old"]
    difference = rows[2].difference
    assert (difference.wins, difference.losses) == (1, 3)
    assert difference.mean == pytest.approx(paired(NEW, OLD).mean)


def test_failed_and_undefined_figures_are_missing_and_not_compared():
    found = [record("scoreless", 0, None), record("scoreless", 1, math.nan), *records()]
    found += [record("old", 4, 0.1, status="failed", error="ValueError"), record("new", 4, 0.9, 64)]
    rows = {row.way.method: row for row in table(found)}
    assert list(rows) == ["new", "old", "plain", "scoreless"]
    assert (rows["old"].missing, rows["old"].figure.n, rows["old"].difference.left_out) == (1, 4, 1)
    assert (rows["scoreless"].missing, rows["scoreless"].figure.n, rows["scoreless"].difference.n) == (2, 0, 0)
    assert math.isnan(rows["scoreless"].p)
    # nor is it counted among the comparisons
    assert [rows["old"].p, rows["plain"].p] == list(holm([rows[name].difference.p for name in ("old", "plain")]))


def test_one_method_run_otherwise_is_another_row():
    found = [*records(), record("new", 0, 0.99, "full")]
    found += [record("new", 0, 0.5, 64, options={"decision_delay": 9})]
    rows = table(found, ours={"method": "new", "batch_size": 64, "decision_delay": 0})
    ways = [(row.way.method, row.way.batch_size) for row in rows]
    assert ways == [("new", 64), ("new", "full"), ("old", None), ("new", 64), ("plain", None)]
    assert rows[3].way == Way("new", 64, (("decision_delay", 9),))
    with pytest.raises(ValueError, match="fits 3 ways"):
        table(found)


def test_ours_must_be_on_record_and_no_cell_twice():
    for ours in ({"method": "newest"}, {"method": "new", "unheard_of": None}):
        with pytest.raises(ValueError, match="fits 0 ways"):
            table(records(), ours=ours)
        with pytest.raises(ValueError, match="no record at all"):
            table(records(), dataset="YALEB", ours=ours)
    with pytest.raises(ValueError, match="two records of seed 1"):
        table([*records(), record("old", 1, 0.7)])
