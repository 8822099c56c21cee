"""Figures of the read-me that other pages print: those are run, and these are the same."""

from __future__ import annotations

import re

import pytest

from tests.documents.reading import ROOT

README = (ROOT / "README.md").read_text()
ROWS = re.findall(
    r"^\|[^|]+\| (\.\d+) \| (\.\d+) \| (\d of \d) \| `(python examples/[^`]+)` \|$", README, re.MULTILINE
)
OF = {"images": "gradients", "texts": "with the archive"}
"""Pages, and the row of theirs that the read-me shows."""


def test_all_three_examples_are_there() -> None:
    assert len(ROWS) == 3


@pytest.mark.parametrize(("unknown", "known", "announced", "command"), ROWS, ids=[row[3] for row in ROWS])
def test_a_row_is_what_the_page_prints(unknown: str, known: str, announced: str, command: str) -> None:
    found = re.search(r"examples/(\w+)\.py", command)
    assert found is not None
    page = (ROOT / "docs" / "tutorials" / f"{found[1]}.md").read_text()
    shown = page.partition(f"```bash\n{command}\n```")[2].partition("```text\n")[2].partition("```")[0]
    (row,) = [line.removeprefix(OF[found[1]]) for line in shown.splitlines() if line.startswith(OF[found[1]])]
    assert row.split()[:2] == [f"0{unknown}", f"0{known}"]
    assert f" {announced} " in row
