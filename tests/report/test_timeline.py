"""The timeline: everything that arrived is in it, where it arrived."""

from __future__ import annotations

import numpy as np
import pytest

from stream_osr_connectors.page.report.charts import signs
from stream_osr_connectors.page.report.decisions_table import read_decisions
from stream_osr_connectors.page.report.timeline import BINS, ROWS, lay_out
from tests.report.conftest import BEGINS, NEW, N
from tests.report.test_told import decision


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
    told = read_decisions(run.decisions)
    laid = lay_out(told, [3], [])
    assert "S3" in told.known
    names = [row.name for row in laid.rows]
    assert len(set(names)) == len(names)
    sizes = {row.name: row.arrivals.sum() for row in laid.rows}
    assert sizes["S3"] == sum(d["label"] == "S3" for d in run.decisions)
    same = [decision(k, "other", subclass_id=3) for k in range(5)] + [decision(9, "S3", ("S3", "red"))]
    sizes = {row.name: row.arrivals.sum() for row in lay_out(read_decisions(same), [3], []).rows}
    assert sizes == {"S3": 5, "class S3": 1}


def test_events_stand_on_the_rows_that_are_shown(run, laid):
    names = {row.name for row in laid.rows}
    told = [e for e in run.events if "subclass_id" in e]
    assert {mark.name for mark in laid.marks} <= names
    assert len(laid.marks) == len(told)
    assert [seq for seq, _ in laid.estimates] == [e["seq"] for e in run.events if e["type"] == "NewClassesChanged"]


def test_events_of_later_kinds_stand_there_by_their_names(run, laid):
    first = next(e for e in run.events if e["type"] == "SubclassEmerged")
    told = [
        first,
        {**first, "type": "SubclassRecurred"},
        {**first, "type": "SubclassMerged"},
        {"type": "ClassDrifted"},
    ]
    later = lay_out(read_decisions(run.decisions), [first["subclass_id"]], told)
    assert [mark.what for mark in later.marks] == ["announced", "recurred", "merged"]
    shapes = [shape for shape, _ in signs(later).values()]
    assert len(set(shapes)) == 3
    assert set(signs(laid)) == {mark.what for mark in laid.marks}


def test_what_has_no_room_is_counted():
    many = [decision(k, "other", subclass_id=k % (ROWS + 5)) for k in range(400)]
    laid = lay_out(read_decisions(many), list(range(ROWS + 5)), [])
    assert laid.left_out == (5, 0)
    assert sum(row.name != "not grouped" for row in laid.rows) == ROWS


def test_a_single_decision_is_a_timeline():
    laid = lay_out(read_decisions([decision(41, "red")]), [], [])
    assert laid.edges.tolist() == [41, 42]
    assert laid.total.tolist() == [1]
