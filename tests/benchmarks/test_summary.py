"""The tables of pages: what is compared with what; and no figure is of a seed that something was tuned on."""

from __future__ import annotations

import re

import numpy as np
import pytest

from benchmarks.openset import summary
from benchmarks.openset.cells import Cell
from benchmarks.openset.methods import ENTRIES, GROUPS, OURS
from benchmarks.openset.sets import FIVE, SETTINGS
from benchmarks.records import append, lines

VERSIONS = {"revision": "abc1234", "library": "0123456789ab", "machine": "x86_64, 2 cores", "python": "3.11"}


def record(method, seed, micro_f, name="USPS", level="high", size=None, **more):
    options = {key: more.pop(key) for key in ("decision_delay", "test_share") if key in more}
    cell = Cell(name, SETTINGS[name].n_unknown[level], method, size, seed, **options)
    return {**cell.as_record(), "status": "done", "micro_f": micro_f, "versions": VERSIONS, **more}


def test_only_reported_seeds_are_gathered_and_none_of_them_is_tuned_on(tmp_path):
    path = tmp_path / "results.jsonl"
    for seed in (0, 100):
        append(path, record(OURS, seed, 0.9, size=64))
    assert [r["seed"] for r in summary.gathered(path)] == [0]
    assert not set(summary.TUNING) & set(summary.REPORTING)
    assert len(set(summary.REPORTING)) == 10


@pytest.fixture(scope="module")
def measured():
    if not summary.RESULTS.is_file():
        pytest.skip("no results file beside the sources")
    return list(lines(summary.RESULTS))


def test_results_are_of_reported_seeds_and_methods_and_those_of_a_method_are_of_one_revision(measured):
    libraries = {}
    for each in measured:
        assert each["seed"] in summary.REPORTING, each["seed"]
        versions = each["versions"]
        assert re.fullmatch(r"[0-9a-f]{7,12}", versions["revision"]), versions["revision"]  # no uncommitted changes
        assert versions["library"]
        assert versions["machine"]
        libraries.setdefault((each["method"], each["dataset"]), set()).add(versions["library"])
    assert {key: several for key, several in libraries.items() if len(several) > 1} == {}
    assert {method for method, _ in libraries} <= ENTRIES.keys()
    assert OURS in GROUPS["stream"]


def test_the_tables_of_the_pages_are_those_of_the_results(measured):
    records = [r for r in summary.gathered(summary.RESULTS) if r["dataset"] in FIVE]
    assert np.isfinite([r["micro_f"] for r in records]).all()
    assert summary.front(records) in summary.FRONT.read_text()
    page = summary.PAGE.read_text()
    assert summary.five_sets(records) in page
    assert summary.setting(records) in page
