"""The example of docs/spark.md, run twice: the second run continues from the checkpoint and finds no new row."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark.sql.streaming.tws_tester", reason="needs pyspark: make spark", exc_type=ImportError)

pytestmark = [
    pytest.mark.needs("pyspark", "java"),
    pytest.mark.long,
]
ROOT = Path(__file__).parents[2]


def test_the_example_runs_twice(tmp_path: Path) -> None:
    paths = os.pathsep.join([str(ROOT), str(ROOT / "connectors")])
    environment = {**os.environ, "PYTHONPATH": paths, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    command = [sys.executable, str(ROOT / "examples" / "spark_pumps.py")]
    outs = [
        subprocess.run(command, cwd=tmp_path, env=environment, text=True, capture_output=True, timeout=300)
        for _ in range(2)
    ]
    assert [out.returncode for out in outs] == [0, 0], outs[0].stderr[-4000:]
    assert outs[0].stdout == outs[1].stdout
    lines = outs[0].stdout.splitlines()
    assert {"rejected: 1", "decision: 1150"} <= {*lines}, outs[0].stdout
    assert "unknown" in outs[0].stdout
