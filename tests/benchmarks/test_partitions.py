"""The setting on partitions: its figures and their table."""

from __future__ import annotations

import pytest

from benchmarks.discovery import partitions
from benchmarks.discovery.partitions import listen
from benchmarks.discovery.streams import prepare, recognizer
from tests.data import need_data


@pytest.mark.needs("data")
def test_figures_and_their_table():
    need_data("COIL20")
    coil = prepare("COIL20", 100)
    size = len(coil.X) + 1
    several = [listen(recognizer(coil, n, batch_size=size), coil.X[n::2]) for n in range(2)]
    one = listen(recognizer(coil, 100, batch_size=size), coil.X)
    figures = {"dataset": "COIL20", "seed": 100, **partitions.scores(coil, coil.y, one, several)}
    assert figures["global"] <= figures["local"]
    assert "| mean |" in partitions.table([figures, {**figures, "seed": 101}])
