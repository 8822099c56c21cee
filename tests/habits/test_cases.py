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


OPEN = {
    "a01_category_direction_mark": "invisible marks make another category",
    "a02_label_zero_width_space": "invisible marks make another class",
    "a05_time_in_milliseconds": "times in milliseconds are read as seconds",
    "a07_feature_vanishes_midway": "a feature that vanishes in the stream has no event",
    "a08_nested_fields_dropped": "fit does not report nested fields",
    "a09_label_command_typo": "a label with a typing error opens a class",
    "a11_locale_not_utf8": "a source file is read with the encoding of the locale",
    "a13_uuid_key_until_save": "keys that cannot be saved are refused late",
    "a14_mlflow_array_model": "a model of arrays has no signature for MLflow",
    "a15_mlflow_training_frame": "MLflow refuses whole numbers",
    "a16_http_compressed_body": "compressed requests have a misleading answer",
    "a18_frame_of_other_columns": "a frame without any known column is decided",
    "a21_labels_in_another_order": "labels and rows are paired by place",
    "a22_follow_before_the_file": "--follow does not wait for the file; the result depends on the first second",
    "a30_bom_in_json_messages": "Kafka and HTTP refuse a byte order mark",
}
"""Cases that do not hold yet, with the reason."""


def marked(case: Path) -> Any:
    reason, strict = OPEN.get(case.stem), case.stem != "a22_follow_before_the_file"
    marks = [] if reason is None else pytest.mark.xfail(reason=reason, strict=strict)
    return pytest.param(case, id=case.stem, marks=marks)


@pytest.mark.parametrize("case", [marked(path) for path in sorted(CASES.glob("*.py"))])
def test_case(case: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "CASES_CHAINS": CHAINS, "TMPDIR": str(tmp_path)}
    environment["PYTHONPATH"] = os.pathsep.join([str(LAYOUT), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = processes.run("-W", "default", "-c", RUN, case, CHAINS, cwd=tmp_path, env=environment)
    assert done.returncode == 0, f"{done.stdout}{done.stderr[-2000:]}"
