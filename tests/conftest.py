"""How tests are shared out among processes, and how many threads each of these has.

Test processes fill the cores. Threads of theirs would wait for each other, busily, for want of cores to run on: the
numerical libraries are told before they are imported, in processes that tests start as well.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(name, "1")

HERE = Path(__file__).parent
CHAINS = ("test_exact_posterior", "test_joint_distribution", "test_base_measure")
"""Tests that enter the same kernels, which nothing else enters: whoever runs one of them compiles those."""
FIRST = (
    "kafka faults",
    "kafka test_crash",
    "kafka test_upgrade",
    "kafka test_supervision",
    "kafka test_throughput",
    "kafka test_reconcile",
    "kafka test_unreadable",
    "chains",
    "model/test_splitting.py",
)
"""What takes longest is begun first, lest the last process run alone."""


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the tests of a module in one process (``--dist loadgroup``): what they share is made once, or compiled."""
    for item in items:
        if item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(_group(item.path)))
    items.sort(key=_rank)


def _group(path: Path) -> str:
    if path.stem in CHAINS:
        return "chains"
    return str(path.relative_to(HERE)) if HERE in path.parents else str(path)


def _rank(item: pytest.Item) -> int:
    """Number of the turn that a test has: the longest, others with a broker, others, doctests."""
    marker = item.get_closest_marker("xdist_group")
    assert marker is not None
    group = marker.args[0]
    if group in FIRST:
        return FIRST.index(group)
    return len(FIRST) + (0 if group.startswith("kafka") else 1 if HERE in item.path.parents else 2)
