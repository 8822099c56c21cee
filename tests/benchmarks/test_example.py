"""The paper's protocol in one page of code: it runs, and is as right as the tables say."""

from __future__ import annotations

import re

import pytest

from tests import processes
from tests.data import need_data
from tests.documents.reading import ROOT


@pytest.mark.needs("data")
def test_the_protocol_of_the_paper_runs() -> None:
    need_data("PENDIGITS")
    done = processes.run("-m", "benchmarks.paper.example", "PENDIGITS", cwd=ROOT)
    assert done.returncode == 0, done.stderr
    found = re.search(r"micro-F\D+(\d?\.\d+)", done.stdout)
    assert found is not None, done.stdout
    assert float(found[1]) > 0.97
