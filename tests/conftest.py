"""Distribution of tests over processes, and the number of threads of each process.

Test processes fill the cores, and more threads would wait for each other. The numerical libraries read the number of
threads when they are imported, also in processes that tests start.
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
    "test_jit",
    "test_plain",
)
"""Tests with kernels of their own (``tests.model.chains``). One process compiles and runs them."""
FIRST = (
    "kafka faults",
    "kafka test_crash",
    "kafka test_service",
    "kafka test_restarts",
    "kafka test_reconcile",
    "kafka test_poison",
    "kafka pages",
    "chains",
)
"""Groups that take longest, which begin first, so that the last process does not run alone."""


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Start one process from which all test processes fork the processes of their tests: its imports take seconds."""
    node.workerinput[SHARED] = asking_socket()


def pytest_configure(config: pytest.Config) -> None:
    """Pass its address to a test process, and to the processes that this one starts."""
    if shared := getattr(config, "workerinput", {}).get(SHARED):
        os.environ[SHARED] = shared


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Leave modules and tests out of garbage collections, which take half a second each."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the tests of a module in one process (``--dist loadgroup``), because they share fixtures and kernels."""
    groups = {item: _group(item) for item in items}
    for item, group in groups.items():
        item.add_marker(pytest.mark.xdist_group(group))
    items.sort(key=lambda item: _rank(item, groups[item]))
    places = _places(list(dict.fromkeys(groups[item] for item in items)))
    items.sort(key=lambda item: places[groups[item]])


def _group(item: pytest.Item) -> str:
    """Name of the group of a test, which stays in one process; each process has its own broker.

    The faults are one group, because their process starts all that run side by side.
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
    if isinstance(page, Path):  # pages of the documentation are long; all their brokers have one port
        return "kafka pages" if needs_broker(page.read_text()) else f"page {item.name}"
    return str(path.relative_to(HERE)) if HERE in path.parents else str(path)


def _places(groups: list[str]) -> dict[str, float]:
    """Place of each group in the run, from 0 to 1.

    Groups with a broker mostly wait. They alternate with the others, so that the cores are never idle.
    """
    waiting = [group for group in groups if group.startswith("kafka ")]
    working = [group for group in groups if not group.startswith("kafka ")]
    return {group: at / len(kind) for kind in (waiting, working) for at, group in enumerate(kind)}


def _rank(item: pytest.Item, group: str) -> int:
    """Rank of a test among the groups of its kind: the longest, others with a broker, other tests, examples."""
    if group in FIRST:
        return FIRST.index(group)
    return len(FIRST) + (0 if group.startswith("kafka ") else 1 if HERE in item.path.parents else 2)
