"""The tables of pages: what is compared with what; and no figure is of a seed that something was tuned on."""

from __future__ import annotations

import re

import numpy as np
import pytest

from benchmarks.openset import results, seeds, summary
from benchmarks.openset.cells import Cell
from benchmarks.openset.methods import ENTRIES, GROUPS, OURS
from benchmarks.openset.sets import FIVE, LEVELS, SETTINGS

VERSIONS = {"revision": "abc1234", "library": "0123456789ab", "machine": "x86_64, 2 cores", "python": "3.11"}


def record(method, seed, micro_f, name="USPS", level="high", size=None, **more):
    options = {key: more.pop(key) for key in ("decision_delay", "epsilon", "test_share") if key in more}
    cell = Cell(name, SETTINGS[name].n_unknown[level], method, size, seed, **options)
    return {**cell.as_record(), "status": "done", "micro_f": micro_f, "versions": VERSIONS, **more}


def small():
    """Ours above the paper's by .1 and above OSNN by .2, but for the seed."""
    found = []
    for name in FIVE:
        for level in LEVELS:
            for seed in range(10):
                f = 0.9 + 0.002 * seed
                more = {"name": name, "level": level}
                found.append(record(OURS, seed, f, size=64, **more))
                found.append(record("CD-OSR", seed, f - 0.15, size="full", **more))
                found.append(record("CD-OSR class-wise", seed, f - 0.1 - 0.002 * (seed % 2), size="full", **more))
                found.append(record("OSNN", seed, f - 0.2 + 0.002 * (seed % 3), **more))
                found.append(record("closed set", seed, 0.99, **more))
                if level == "high":
                    found.append(record(f"{OURS}, no window", seed, f - 0.012 + 0.002 * (seed % 2), size=64, **more))
    return found


def test_the_five_sets_have_a_row_an_openness_with_paired_differences():
    rows = [line.split(" | ") for line in summary.five_sets(small()).splitlines()[2:]]
    assert len(rows) == 15
    name, level, ours, papers, less_papers, best, less_best = rows[2]
    assert (name, level, ours) == ("| LETTER", "highest openness", "0.909")
    assert papers == "0.808"  # the better start
    assert less_papers.startswith("+0.101\\* (+0.100 to ")
    assert best == "0.711 (OSNN)"  # no baseline, though it is higher; no ablation
    assert less_best.startswith("+0.198\\* (")


def test_other_seeds_are_left_out(tmp_path):
    path = tmp_path / "results.jsonl"
    for each in (record(OURS, 0, 0.9, size=64), record(OURS, 100, 0.9, size=64)):
        results.append(path, each)
    assert [r["seed"] for r in summary.gathered(path)] == [0]


def test_seeds_to_tune_on_are_none_of_those_that_are_reported():
    assert not set(seeds.TUNING) & set(seeds.REPORTING)
    assert len(set(seeds.REPORTING)) == 10


@pytest.fixture(scope="module")
def measured():
    if not summary.RESULTS.is_file():
        pytest.skip("no results file beside the sources")
    return list(results.lines(summary.RESULTS))


def test_results_name_their_revision_and_their_machine_and_are_of_reported_seeds(measured):
    for each in measured:
        assert each["seed"] in seeds.REPORTING, each["seed"]
        told = each["versions"]
        assert re.fullmatch(r"[0-9a-f]{7,12}", told["revision"]), told["revision"]  # no uncommitted changes
        assert told["library"]
        assert told["machine"]


def test_the_rows_of_a_method_are_of_one_revision(measured):
    of = {}
    for each in measured:
        cell = Cell.from_record(each)
        of.setdefault((cell.method, cell.dataset), set()).add(each["versions"]["library"])
    assert {key: trees for key, trees in of.items() if len(trees) > 1} == {}


def test_methods_on_record_are_there_to_be_run_again(measured):
    assert {each["method"] for each in measured} <= ENTRIES.keys()
    assert OURS in GROUPS["stream"]


@pytest.mark.parametrize(("page", "make"), [(summary.FRONT, summary.front), (summary.PAGE, summary.five_sets)])
def test_the_pages_hold_what_the_results_say(measured, page, make):
    records = [r for r in summary.gathered(summary.RESULTS) if r["dataset"] in FIVE]
    text = page.read_text()
    assert make(records) in text
    assert page == summary.FRONT or summary.told(records) in text
    assert np.isfinite([r["micro_f"] for r in records]).all()
