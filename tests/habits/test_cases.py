"""Situations from public bug reports: each script of ``shared/cases`` exits with 0 if the product is right."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from benchmarks.paper.datasets import data_directory
from tests import processes

pytestmark = pytest.mark.thorough
CASES = Path(os.environ.get("STREAM_OSR_CASES") or data_directory().parent / "cases").resolve()
CHAINS = os.environ.get("CASES_CHAINS", "1")
LAYOUT = Path(__file__).parent / "first_layout"
RUN = f"""import runpy, sys
runpy.run_path({str(LAYOUT / "sitecustomize.py")!r})
runpy.run_path(sys.argv[1], {{'CHAINS': sys.argv[2]}}, '__main__')"""
"""Run a script whole. One (65) uses ``CHAINS`` without defining it; three name modules of the first layout."""


SHORT = {"61_river_wrappers": "river's BaggingClassifier: 71 of 79 right; instances that are drawn twice count twice"}
"""What does not hold, and why."""


def marked(case: Path) -> Any:
    reason = SHORT.get(case.stem)
    return pytest.param(
        case, id=case.stem, marks=[] if reason is None else pytest.mark.xfail(reason=reason, strict=True)
    )


@pytest.mark.parametrize("case", [marked(path) for path in sorted(CASES.glob("*.py"))])
def test_case(case: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "CASES_CHAINS": CHAINS, "TMPDIR": str(tmp_path)}
    environment["PYTHONPATH"] = os.pathsep.join([str(LAYOUT), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = processes.run("-W", "default", "-c", RUN, case, CHAINS, cwd=tmp_path, env=environment)
    assert done.returncode == 0, f"{done.stdout}{done.stderr[-2000:]}"
