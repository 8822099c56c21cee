"""``python -m benchmarks.paper``: the figures and tables of the paper come from what was measured, beside its own."""

from __future__ import annotations

import pytest

from benchmarks.paper import tables


def test_the_papers_own_counts_give_the_estimate_that_it_prints():
    for printed, delta in ((tables.PRINTED["USPS"], 4), (tables.PRINTED["PENDIGITS"], 4)):
        assert tables.estimate(printed.new_subclasses, printed.known_subclasses, 5) == delta
        assert sum(printed.subclasses) == printed.known_subclasses


def test_a_table_is_measured_with_the_papers_classes(tiny_data):
    path = tiny_data / "paper.jsonl"
    keys = [("PENDIGITS", method, 0) for method in ("CD-OSR class-wise", "stream-osr")]
    assert list(tables.measure(keys, path)) == keys
    records = tables.read(path)
    for record in records.values():
        assert [group["label"] for group in record["discovery"]["known"]] == [4, 2, 1, 9, 6]
        assert record["known_instances"] == pytest.approx(40 / 140)
        assert record["micro_f"] > 0.9
        assert record["versions"]["revision"]
    assert set(tables.missing(path, [0])) == set(tables.missing(tiny_data / "none", [0])) - set(keys)
    text = tables.discovered("PENDIGITS", records)
    assert text.splitlines()[2].startswith("| the paper | 7/5/11/15/5 | 43 | 32, 4 |")
    assert len(text.splitlines()) == 5
