"""The code map of CONTRIBUTING.md."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from stream_osr import Decision
from stream_osr_connectors.files import CsvSink, MemorySource
from stream_osr_connectors.files.file_run import Sinks
from tests.blobs import fitted
from tests.file_runs import run

ROOT = Path(__file__).parents[1]
SECTION = (ROOT / "CONTRIBUTING.md").read_text().partition("## Code map")[2].partition("\n## ")[0]
ROWS = [row for row in re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", SECTION, re.MULTILINE) if "`" in row[1]]


@pytest.mark.parametrize(("what", "where"), ROWS)
def test_one_place_is_named_and_is_there(what: str, where: str) -> None:
    names = re.findall(r"`([^`]+)`", where)
    (place,) = [ROOT / name for name in names if "/" in name]
    assert place.is_dir() if names[0].endswith("/") else place.is_file(), what
    for name in names[1:]:
        assert re.search(rf"^ *((def|class) {name}\b|{name}\b.* = )", place.read_text(), re.MULTILINE), (
            f"{name} of {what}"
        )


def test_a_column_of_the_decisions_is_added_in_one_place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    before = Decision.as_dict

    def with_one_more(self: Decision) -> dict[str, Any]:
        return {**before(self), "odds": self.p_unknown / (1.0 - self.p_unknown)}

    monkeypatch.setattr(Decision, "as_dict", with_one_more)
    with CsvSink(tmp_path / "decisions.csv") as sink:
        run(fitted(), MemorySource([{"a": 1.0, "b": 2.0}]), Sinks(sink))
    header, row = (tmp_path / "decisions.csv").read_text().splitlines()
    assert header.split(",")[-1] == "odds"
    assert float(row.rpartition(",")[2]) > 0.0
