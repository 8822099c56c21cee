"""The table of ours against the others: whose seeds are paired, whose p-values are adjusted, and what is missing."""

from __future__ import annotations

import math
from typing import Any

import pytest

from benchmarks.openset.comparing import Way, compare
from benchmarks.openset.statistics import holm, mean_interval, paired

NEW = {0: 0.9, 1: 0.8, 2: 0.85, 3: 0.95}
OLD = {0: 0.7, 1: 0.75, 2: 0.9, 3: 0.6}
PLAIN = {0: 0.3, 1: 0.2, 2: 0.4}


def record(method: str, seed: int, value: float | None, batch_size: Any = None, **fields: Any) -> dict[str, Any]:
    return {
        **{"dataset": "USPS", "n_unknown": 3, "method": method, "batch_size": batch_size, "seed": seed},
        **{"options": {"decision_delay": 0, "epsilon": None}, "status": "done", "micro_f": value, "fpr95": value},
        **fields,
    }


def records() -> list[dict[str, Any]]:
    found = [record("plain", seed, value) for seed, value in PLAIN.items()]
    found += [record("new", seed, value, 64) for seed, value in NEW.items()]
    found += [record("old", seed, value) for seed, value in OLD.items()]
    # of other tables
    found += [record("new", 0, 0.1, 64, n_unknown=0), record("new", 0, 0.1, 64, dataset="LETTER")]
    return found


def test_rows_are_ours_and_the_others_by_their_means():
    first, second, third = compare(records(), "USPS", 3, "micro_f", ours={"method": "new"}, level=0.9)
    assert [row.way.method for row in (first, second, third)] == ["new", "old", "plain"]
    assert (first.difference, first.missing) == (None, 0)
    assert math.isnan(first.p)
    for row, of in ((first, NEW), (second, OLD), (third, PLAIN)):
        assert row.figure == pytest.approx(mean_interval(of.values(), 0.9))
    for row, of in ((second, OLD), (third, PLAIN)):
        assert row.difference == pytest.approx(paired(NEW, of, 0.9))
    assert (second.difference.wins, second.difference.losses, third.difference.left_out) == (3, 1, 1)
    assert [second.p, third.p] == list(holm([second.difference.p, third.difference.p]))
    assert third.p > third.difference.p


def test_divisions_that_overlap_widen_every_interval():
    plain, wide = (compare(records(), "USPS", 3, "micro_f", {"method": "new"}, test_to_train=r) for r in (0.0, 2.0))
    for narrow, row in zip(plain, wide, strict=True):
        assert row.figure.low < narrow.figure.low
        if row.difference is not None:
            assert row.difference.high > narrow.difference.high
            assert row.p == narrow.p


def test_where_less_is_better_ours_wins_by_less_and_the_least_stands_first():
    first, second, third = compare(records(), "USPS", 3, "fpr95", ours={"method": "new"})
    assert [row.way.method for row in (first, second, third)] == ["new", "plain", "old"]
    assert (third.difference.wins, third.difference.losses) == (1, 3)
    assert third.difference.mean == pytest.approx(paired(NEW, OLD).mean)


def test_what_failed_or_is_not_defined_is_missing_and_not_compared():
    found = [record("scoreless", 0, None), record("scoreless", 1, math.nan), *records()]
    found += [record("old", 4, 0.1, status="failed", error="ValueError"), record("new", 4, 0.9, 64)]
    rows = {row.way.method: row for row in compare(found, "USPS", 3, "micro_f", ours={"method": "new"})}
    assert list(rows) == ["new", "old", "plain", "scoreless"]
    assert (rows["old"].missing, rows["old"].figure.n, rows["old"].difference.left_out) == (1, 4, 1)
    assert (rows["scoreless"].missing, rows["scoreless"].figure.n, rows["scoreless"].difference.n) == (2, 0, 0)
    assert math.isnan(rows["scoreless"].p)
    # nor is it counted among the comparisons
    assert [rows["old"].p, rows["plain"].p] == list(holm([rows[name].difference.p for name in ("old", "plain")]))


def test_one_method_run_otherwise_is_another_row():
    found = [*records(), record("new", 0, 0.99, "full")]
    found += [record("new", 0, 0.5, 64, options={"decision_delay": 9, "epsilon": None})]
    rows = compare(found, "USPS", 3, "micro_f", ours={"method": "new", "batch_size": 64, "decision_delay": 0})
    assert [(row.way.method, row.way.batch_size) for row in rows] == [
        *(("new", 64), ("new", "full"), ("old", None), ("new", 64), ("plain", None)),
    ]
    assert rows[3].way == Way("new", 64, (("decision_delay", 9), ("epsilon", None)))
    with pytest.raises(ValueError, match="fits 3 ways"):
        compare(found, "USPS", 3, "micro_f", ours={"method": "new"})


@pytest.mark.parametrize("ours", [{"method": "newest"}, {"method": "new", "unheard_of": None}])
def test_ours_must_be_on_record(ours):
    with pytest.raises(ValueError, match="fits 0 ways"):
        compare(records(), "USPS", 3, "micro_f", ours=ours)
    with pytest.raises(ValueError, match="no record at all"):
        compare(records(), "YALEB", 3, "micro_f", ours=ours)


def test_a_cell_that_is_there_twice_is_refused():
    with pytest.raises(ValueError, match="two records of seed 1"):
        compare([*records(), record("old", 1, 0.7)], "USPS", 3, "micro_f", ours={"method": "new"})
