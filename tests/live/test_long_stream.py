"""A stream with many subclasses is taken in and answered soon, and memory stays flat (longer: benchmarks.live)."""

from __future__ import annotations

import pytest

from benchmarks.live import measure

pytestmark = pytest.mark.thorough


def test_twenty_thousand_decisions_and_two_hundred_subclasses() -> None:
    figures = measure(20_000, 200, 0.25, growing=50)
    assert figures["cards"] == 200
    assert figures["slowest answer meanwhile, s"] < 5
    assert figures["slowest answer, s"] < 5
    assert figures["updates a minute"] > 30, "60 on a machine with nothing else to do"
    assert figures["memory at its end, MB"] < 1.1 * figures["memory at its start, MB"] + 5
