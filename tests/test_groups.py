"""Tests of a group stay in one process: what they share is made once, and a broker is no other group's."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import os
from pathlib import Path
import pytest

@pytest.mark.parametrize("group", [pytest.param(name, marks=pytest.mark.xdist_group(name)) for name in "abab" * 4])
def test_where(group):
    Path(f"{group}-{os.environ['PYTEST_XDIST_WORKER']}").touch()
"""


def test_a_group_stays_in_one_process(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(PROGRAM)
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "--dist", "loadgroup", "-p", "no:cacheprovider", "."]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert sorted(path.name[0] for path in tmp_path.glob("[ab]-*")) == ["a", "b"]
