"""How tests are shared out among processes, and how many threads each of these has.

Test processes fill the cores. Threads of theirs would wait for each other, busily, for want of cores to run on: the
numerical libraries are told before they are imported, in processes that tests start as well.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from tests.documents.reading import needs_broker
from tests.processes import SHARED, asking_socket

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(name, "1")

HERE = Path(__file__).parent
CHAINS = (
    "test_exact_posterior",
    "test_joint_distribution",
    "test_splitting",
    "test_likelihood",
    "test_plain",
    "test_plain_comparison",
)
"""Tests that enter kernels of their own, ``tests.model.chains``: whoever runs one of them compiles those, for all."""
FIRST = (
    "kafka faults",
    "kafka test_crash",
    "kafka test_supervision",
    "kafka test_throughput",
    "kafka test_reconcile",
    "kafka test_unreadable",
    "kafka pages",
    "chains",
)
"""What takes longest is begun first, lest the last process run alone."""


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Have one process for all test processes, from which they fork those that they start: it imports for seconds."""
    node.workerinput[SHARED] = asking_socket()


def pytest_configure(config: pytest.Config) -> None:
    """Tell a test process, and what it starts, of that one."""
    if shared := getattr(config, "workerinput", {}).get(SHARED):
        os.environ[SHARED] = shared


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Leave modules and tests, which stay until the end, out of garbage collections: each takes half a second."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the tests of a module in one process (``--dist loadgroup``): what they share is made once, or compiled."""
    groups = {item: _group(item) for item in items}
    for item, group in groups.items():
        item.add_marker(pytest.mark.xdist_group(group))
    items.sort(key=lambda item: _rank(item, groups[item]))
    places = _places(list(dict.fromkeys(groups[item] for item in items)))
    items.sort(key=lambda item: places[groups[item]])


def _group(item: pytest.Item) -> str:
    """Name of those who stay in one process; each process has a broker of its own.

    The faults are one group: a process that has one of them begins all that run side by side.
    """
    path = item.path
    fixtures = getattr(item, "fixturenames", ())
    if "started" in fixtures:
        return "kafka faults" if path.parent.name == "faults" else f"kafka {path.stem}"
    if path.parent.name == "documents" and "site" in fixtures:
        return "site"  # building it takes a core for ten seconds
    if path.stem in CHAINS:
        return "chains"
    page = getattr(getattr(item, "callspec", None), "params", {}).get("page")
    if isinstance(page, Path):  # of the documentation: each is long, and by itself; brokers are all at one port
        return "kafka pages" if needs_broker(page.read_text()) else f"page {item.name}"
    return str(path.relative_to(HERE)) if HERE in path.parents else str(path)


def _places(groups: list[str]) -> dict[str, float]:
    """Give each group its place in the run, from 0 to 1: who has a broker, and mostly waits, stands among others.

    First all that wait and then all that work would leave cores idle, and then have too few.
    """
    waiting = [group for group in groups if group.startswith("kafka ")]
    working = [group for group in groups if not group.startswith("kafka ")]
    return {group: at / len(kind) for kind in (waiting, working) for at, group in enumerate(kind)}


def _rank(item: pytest.Item, group: str) -> int:
    """Number of the turn that a test has among its kind: the longest, others with a broker, others, doctests."""
    if group in FIRST:
        return FIRST.index(group)
    return len(FIRST) + (0 if group.startswith("kafka ") else 1 if HERE in item.path.parents else 2)
