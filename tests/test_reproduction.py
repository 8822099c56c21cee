"""The results file has the figures that this tree measures: our method, the paper's, and another one."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.openset.cells import Cell, measure, plan, units
from benchmarks.openset.methods import OURS
from benchmarks.openset.summary import RESULTS, gathered
from tests.data import need_data

pytestmark = [pytest.mark.needs("data"), pytest.mark.thorough]

SEEDS = (0, 1)
TOLERANCE = 0.02
"""Of the mean of two seeds: another machine or another order of random numbers moves it by less."""

LONG = (("PENDIGITS", OURS), ("COIL20", "CD-OSR class-wise"))
MEASURED = [("COIL20", OURS), ("COIL20", "OSNN"), *(pytest.param(*each, marks=pytest.mark.long) for each in LONG)]


@pytest.mark.parametrize(("name", "method"), MEASURED)
def test_micro_f_is_what_is_on_record(name, method):
    need_data(name)
    on_record = {Cell.from_record(record): record["micro_f"] for record in gathered(RESULTS)}
    cells = plan([name], ["high"], [method], SEEDS)
    records = [record for unit in units(cells) for record in measure(unit)]
    assert [record.get("error") for record in records] == [None] * len(SEEDS)
    expected = np.mean([on_record[cell] for cell in cells])
    assert np.mean([record["micro_f"] for record in records]) == pytest.approx(expected, abs=TOLERANCE)
