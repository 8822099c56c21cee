"""The tools that count lines of code and compare outputs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tools import code_lines, golden
from tools.comparing import differences

SOURCE = '''"""A module.

Of several lines.
"""

import os  # counted


# not counted
class Thing:
    """Docstring."""

    size: int = 0
    """Docstring of an attribute."""

    def method(
        self,
        a: int,
    ) -> int:
        """Docstring."""
        text = """a string that is
        a value"""

        # a comment
        def inner() -> int:
            return 1

        return len(text) + a + inner()
'''


def test_lines_of_code_are_those_that_hold_code() -> None:
    module = code_lines.count_module(SOURCE)
    assert module.code == 1 + 1 + 1 + 4 + 2 + 2 + 1
    assert module.lines == len(SOURCE.splitlines())
    assert module.functions == {"Thing.method": 5, "Thing.method.inner": 1}


def golden_outputs(folder: Path) -> Path:
    """Write golden outputs of a made-up run."""
    (folder / "run").mkdir(parents=True)
    decisions = [{"key": i, "label": "a", "probability": (i / 7).hex()} for i in range(3)]
    (folder / "run" / "decisions.jsonl").write_text("".join(json.dumps(d) + "\n" for d in decisions))
    (folder / "run" / "summary.json").write_text(json.dumps({"end": {"pending": 0, "menu": [1, 2]}}))
    arrays = [["float64", [2], "digest"], ["int64", [3], "other"]]
    (folder / "run" / "archive.json").write_text(json.dumps({"end": arrays}))
    return folder


def test_what_differs_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, other = golden_outputs(tmp_path / "one"), golden_outputs(tmp_path / "other")
    assert golden.main(["compare", str(one), str(other)]) == 0
    for name, old, new in (
        ("decisions.jsonl", (2 / 7).hex(), (2 / 7 + 1e-16).hex()),
        ("summary.json", '"pending": 0', '"pending": 1'),
        ("archive.json", "digest", "digesu"),
    ):
        path = other / "run" / name
        assert old in path.read_text()
        path.write_text(path.read_text().replace(old, new))
    assert golden.main(["compare", str(one), str(other)]) == 1
    found = {line.partition(":")[0]: line for line in capsys.readouterr().out.splitlines()}
    assert "1 differ, the first is line 3; /probability 1" in found["run/decisions.jsonl"]
    assert "/end/pending: 0 and 1" in found["run/summary.json"]
    assert "/end: 1 of 2 only in the first, 1 of 2 only in the second" in found["run/archive.json"]
    (other / "run" / "summary.json").unlink()
    assert "run/summary.json: only in" in "\n".join(differences(one, other))
    assert differences(tmp_path / "none", tmp_path / "other"), "folders without any are no agreement"
