"""Figures of the page that compares are those on record."""

from __future__ import annotations

import re

from tests.documents.reading import ROOT

RESULTS = ROOT / "docs" / "results"
RECORDS = ROOT / "benchmarks" / "results"
PAGE = (ROOT / "docs" / "comparison.md").read_text()
SETS = ("LETTER", "PENDIGITS", "USPS", "COIL20", "YALEB")


def rows(text: str, first: str) -> dict[str, list[str]]:
    """Read the table whose first heading begins so: cells of each row by the first of them, headings among them."""
    table = re.search(rf"^\| *{first}.*?(?=\n\n|\Z)", text, re.MULTILINE | re.DOTALL)
    assert table is not None
    cells = [[cell.strip(" *") for cell in line.strip().strip("|").split("|")] for line in table[0].splitlines()]
    return {row[0]: row[1:] for row in cells}


OURS, RECORD = rows(PAGE, "method"), rows((RECORDS / "tables.md").read_text(), "method")
METHODS = OURS.keys() - {"method", "---"}
PLACES = {name: RECORD["method"].index(f"{name} high") for name in SETS}


def test_methods_have_the_figures_on_record() -> None:
    assert OURS["method"] == [*SETS]
    for method in METHODS:
        assert OURS[method] == [RECORD[method][place].partition(" ")[0] for place in PLACES.values()], method


def test_no_better_method_is_left_out() -> None:
    """Of ours one stands for all; of the others none that is best on a set is missing."""
    others = {name: row for name, row in RECORD.items() if not name.startswith(("stream-osr", "method", "---"))}
    for name, place in PLACES.items():
        best = max(others, key=lambda method: (others[method][place] or "0").partition(" ")[0])
        assert best in METHODS or "full grid" in best, f"{best} on {name}"


def test_costs_are_those_on_record() -> None:
    peers = (RESULTS / "speed.md").read_text().partition("<!-- peers -->")[2]
    ours, record = rows(PAGE, r" \| processor, us an instance"), rows(peers, r" +\| processor, us")
    for name in ours.keys() - {"", "---"}:
        processor, _, *right = record[name]
        assert ours[name] == [processor, *right[:3]], name


def test_statements_on_the_tables_are_on_record() -> None:
    breadth, text = (RESULTS / "breadth.md").read_text(), " ".join(PAGE.split())
    for figure, statement in (
        ("16 of 17", "above the best recipe on 16 of 17"),
        ("+0.143", "The mean difference is +0.143"),
        ("+0.065", "The mean difference is +0.065"),
    ):
        assert figure in text
        assert statement in breadth
    assert re.search(r"KRKOPT .* 0\.333 \| 0\.383", breadth)
    assert "its micro-F is 0.383, and that of stream-osr is 0.333" in text
