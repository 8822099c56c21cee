"""The page for operators and the matrix name the same faults."""

from __future__ import annotations

import re
from pathlib import Path

HERE = Path(__file__).parent
PAGE = (HERE.parents[2] / "docs" / "kafka.md").read_text()


def test_the_page_says_what_happens_with_every_fault_that_is_tested() -> None:
    section = PAGE.partition("\n## Fault reference\n")[2].partition("\n## ")[0]
    rows = [line.split(" | ")[0].removeprefix("| ") for line in section.splitlines() if line.startswith("| ")][2:]
    tested = {
        name
        for file in HERE.glob("test_*.py")
        for name in re.findall(r'^@pytest\.mark\.fault\("(.+)"\)$', file.read_text(), re.MULTILINE)
    }
    assert len(rows) == len(set(rows)) > 15
    assert tested - set(rows) == set(), "the page lacks these"
    assert set(rows) - tested == set(), "the tests lack these"
