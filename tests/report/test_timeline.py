"""The timeline: everything that arrived is in it, where it arrived."""

from __future__ import annotations

import numpy as np
import pytest

from stream_osr_connectors.page.report.decisions_table import read_decisions
from stream_osr_connectors.page.report.timeline import BINS, ROWS, lay_out
from tests.report.conftest import BEGINS, NEW, N, decision


@pytest.fixture
def laid(run):
    emerged = {e["subclass_id"] for e in run.events if e["type"] == "SubclassEmerged"}
    return lay_out(read_decisions(run.decisions, run.truth), sorted(emerged), run.events)


def test_every_decision_stands_in_one_row(laid):
    arrivals = np.sum([row.arrivals for row in laid.rows], axis=0)
    np.testing.assert_array_equal(arrivals, laid.total)
    assert laid.total.sum() == N
    np.testing.assert_array_equal(np.sum([row.arrivals for row in laid.rows if row.new], axis=0), laid.unknown)
    assert len(laid.total) == BINS
    assert (laid.edges[0], laid.edges[-1]) == (0, N)


def test_what_is_new_comes_when_it_begins(laid):
    begun = np.searchsorted(laid.edges, min(BEGINS.values()), side="right") - 1
    assert laid.truly_unknown[:begun].sum() == 0
    assert laid.truly_unknown.sum() > 100
    first = [np.flatnonzero(row.arrivals)[0] for row in laid.rows if row.name.startswith("S") and row.new]
    assert first == sorted(first)
    assert len(first) >= len(NEW)


def test_a_class_called_like_a_subclass_has_a_row_of_its_own(run):
    rows = lay_out(read_decisions(run.decisions), [3], []).rows
    sizes = {row.name: row.arrivals.sum() for row in rows}
    assert len(sizes) == len(rows)
    assert sizes["S3"] == sum(d["label"] == "S3" for d in run.decisions)
    same = [decision(k, "other", subclass_id=3) for k in range(5)] + [decision(9, "S3", ("S3", "red"))]
    sizes = {row.name: row.arrivals.sum() for row in lay_out(read_decisions(same), [3], []).rows}
    assert sizes == {"S3": 5, "class S3": 1}


def test_what_has_no_room_is_counted():
    many = [decision(k, "other", subclass_id=k % (ROWS + 5)) for k in range(400)]
    laid = lay_out(read_decisions(many), list(range(ROWS + 5)), [])
    assert laid.left_out == (5, 0)
    assert sum(row.name != "not grouped" for row in laid.rows) == ROWS


def test_a_single_decision_is_a_timeline():
    laid = lay_out(read_decisions([decision(41, "red")]), [], [])
    assert laid.edges.tolist() == [41, 42]
    assert laid.total.tolist() == [1]
